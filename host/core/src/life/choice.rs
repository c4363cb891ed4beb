//! Which version of a plugin serves.

use super::{State, Wishes, is_meant};

/// Why a version does not serve although it is the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The version.
    pub digest: String,
    /// The mapping as it was then: another one is another question.
    pub basis: String,
    /// [`State::Held`], [`State::Refused`] or [`State::Returned`].
    pub state: State,
    /// In words.
    pub why: String,
}

/// A version that was looked for in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its digest, as it was written.
    pub digest: String,
    /// Why it is of no use.
    pub why: String,
}

/// Everything the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Name of the mapping.
    pub mapping: &'a str,
    /// What people wrote.
    pub wishes: &'a Wishes,
    /// Digest of the newest version the source brought, if it fits the mapping.
    pub newest: Option<&'a str>,
    /// Why there is no newest, or why it does not fit.
    pub trouble: Option<&'a str>,
    /// Digest of what serves now.
    pub serving: Option<&'a str>,
    /// What is on record as serving: by the last process, or by another replica.
    pub recorded: Option<&'a str>,
    /// The version that served before what serves.
    pub previous: Option<&'a str>,
    /// What is held against a version.
    pub doubt: Option<&'a Doubt>,
    /// The mapping as it is.
    pub basis: &'a str,
    /// The version that a rehearsal let through.
    pub passed: Option<&'a str>,
    /// How many objects a new version is tried on; none of it, and it serves at once.
    pub rehearse: u32,
    /// Digests that can be served at once.
    pub at_hand: &'a [String],
    /// Those that were looked for in vain.
    pub missing: &'a [Missing],
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This version serves.
    Serve {
        /// Its digest.
        digest: String,
        /// What that is to people.
        state: State,
        /// Why it is not the newest; empty where it is.
        why: String,
    },
    /// Whatever serves goes on; if nothing does, the mapping does not serve.
    Keep {
        /// What that is to people.
        state: State,
        /// Why.
        why: String,
    },
    /// The newest version is tried first; what serves goes on.
    Rehearse(String),
    /// A version is looked for by its digest, and then it is chosen again.
    Fetch(String),
}

/// Pinned | refused | as it was | first | approved | tried.
pub fn choose(facts: Facts<'_>) -> Choice {
    if let Some(pin) = &facts.wishes.pin {
        return pinned(facts, pin);
    }
    let Some(newest) = facts.newest else {
        let why = facts
            .trouble
            .unwrap_or("its source has brought nothing yet");
        return fall_back(facts, State::Refused, why);
    };
    let approve = facts.wishes.approve.as_deref();
    let approved = approve.is_some_and(|written| is_meant(newest, written));
    let against = |doubt: &&Doubt| doubt.digest == newest && doubt.basis == facts.basis;
    // An approval stands for what a rehearsal said, and not for what came of it in service: else it would let a version in again
    // each time it was taken back.
    let stands = |doubt: &&Doubt| !approved || doubt.state == State::Returned;
    if let Some(doubt) = facts.doubt.filter(against).filter(stands) {
        return fall_back(facts, doubt.state, &doubt.why);
    }
    let serve = || Choice::Serve {
        digest: newest.to_owned(),
        state: State::Serving,
        why: String::new(),
    };
    match (facts.serving, facts.recorded) {
        (Some(serving), _) if serving == newest => serve(),
        (None, Some(recorded)) if recorded != newest && !approved => {
            match at_hand(facts, recorded) {
                // It is compared with the newest once it serves.
                Some(Choice::Serve { digest, .. }) => Choice::Serve {
                    digest,
                    state: State::Rehearsing,
                    why: "it is on record as the version that serves".to_owned(),
                },
                Some(fetch) => fetch,
                None => serve(),
            }
        }
        (None, _) => serve(),
        (Some(_), _) if approved || facts.passed == Some(newest) || facts.rehearse == 0 => serve(),
        (Some(_), _) => Choice::Rehearse(newest.to_owned()),
    }
}

/// A version by its digest: served, looked for, or not to be had.
fn at_hand(facts: Facts<'_>, wanted: &str) -> Option<Choice> {
    let meant = |digest: &&String| is_meant(digest, wanted);
    match facts.at_hand.iter().find(meant) {
        Some(digest) => Some(Choice::Serve {
            digest: digest.clone(),
            state: State::Serving,
            why: String::new(),
        }),
        None if missing(facts, wanted).is_some() => None,
        None => Some(Choice::Fetch(wanted.to_owned())),
    }
}

fn missing<'a>(facts: Facts<'a>, wanted: &str) -> Option<&'a Missing> {
    let is_it = |missing: &&Missing| missing.digest == wanted || is_meant(&missing.digest, wanted);
    facts.missing.iter().find(is_it)
}

/// The version that is pinned; what is configured, if that one is of no use.
fn pinned(facts: Facts<'_>, pin: &str) -> Choice {
    let annotation = format!("the annotation {}{}", super::PIN, facts.mapping);
    let why = format!("pinned by {annotation}");
    match at_hand(facts, pin) {
        Some(Choice::Serve { digest, .. }) => Choice::Serve {
            digest,
            state: State::Pinned,
            why,
        },
        Some(fetch) => fetch,
        None => {
            let found = missing(facts, pin).map_or("it was not found", |it| &it.why);
            let why = format!("{annotation} says {pin}, which cannot serve: {found}");
            unpinned(facts, why)
        }
    }
}

/// What is chosen without the pin, and why it does not count.
fn unpinned(facts: Facts<'_>, pin: String) -> Choice {
    let wishes = Wishes {
        pin: None,
        ..facts.wishes.clone()
    };
    let both = |why: String| match why.is_empty() {
        true => pin.clone(),
        false => format!("{pin}; {why}"),
    };
    let wishes = &wishes;
    match choose(Facts { wishes, ..facts }) {
        Choice::Serve { digest, state, why } => Choice::Serve {
            digest,
            state: match state {
                State::Serving => State::Refused,
                state => state,
            },
            why: both(why),
        },
        Choice::Keep { state, why } => Choice::Keep {
            state,
            why: both(why),
        },
        tried => tried,
    }
}

/// The newest does not serve: what served before does.
fn fall_back(facts: Facts<'_>, state: State, why: &str) -> Choice {
    let keep = || Choice::Keep {
        state,
        why: why.to_owned(),
    };
    let is_doubted = |digest: &str| {
        let against = |doubt: &Doubt| doubt.digest == digest && doubt.state != State::Held;
        facts.doubt.is_some_and(against)
    };
    if facts.serving.is_some_and(|serving| !is_doubted(serving)) {
        return keep();
    }
    let before = [facts.recorded, facts.previous].into_iter().flatten();
    for digest in before.filter(|digest| !is_doubted(digest)) {
        match at_hand(facts, digest) {
            Some(Choice::Serve { digest, .. }) => {
                return Choice::Serve {
                    digest,
                    state,
                    why: why.to_owned(),
                };
            }
            Some(fetch) => return fetch,
            None => {}
        }
    }
    keep()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "sha256:aaaaaaaaaaaaaaaa";
    const B: &str = "sha256:bbbbbbbbbbbbbbbb";
    const C: &str = "sha256:cccccccccccccccc";

    /// What changes from case to case.
    struct Case {
        wishes: Wishes,
        newest: Option<&'static str>,
        serving: Option<&'static str>,
        recorded: Option<&'static str>,
        previous: Option<&'static str>,
        doubt: Option<Doubt>,
        basis: &'static str,
        passed: Option<&'static str>,
        rehearse: u32,
        at_hand: Vec<String>,
        missing: Vec<Missing>,
    }

    fn said(choice: Choice) -> String {
        let short = |digest: String| digest[7..8].to_owned();
        match choice {
            Choice::Serve { digest, state, .. } => format!("{} {state:?}", short(digest)),
            Choice::Keep { state, .. } => format!("keep {state:?}"),
            Choice::Rehearse(digest) => format!("rehearse {}", short(digest)),
            Choice::Fetch(digest) => format!("fetch {}", short(digest)),
        }
    }

    /// A serves, B is new, both are at hand; then this change.
    #[track_caller]
    fn chosen(wanted: &str, change: impl FnOnce(&mut Case)) {
        let mut case = Case {
            wishes: Wishes::default(),
            newest: Some(B),
            serving: Some(A),
            recorded: Some(A),
            previous: None,
            doubt: None,
            basis: "m",
            passed: None,
            rehearse: 20,
            at_hand: vec![A.to_owned(), B.to_owned()],
            missing: Vec::new(),
        };
        change(&mut case);
        let facts = Facts {
            mapping: "m6",
            wishes: &case.wishes,
            newest: case.newest,
            trouble: None,
            serving: case.serving,
            recorded: case.recorded,
            previous: case.previous,
            doubt: case.doubt.as_ref(),
            basis: case.basis,
            passed: case.passed,
            rehearse: case.rehearse,
            at_hand: &case.at_hand,
            missing: &case.missing,
        };
        assert_eq!(said(choose(facts)), wanted);
    }

    fn in_vain(digest: &str) -> Missing {
        Missing {
            digest: digest.to_owned(),
            why: "it is signed by nobody".to_owned(),
        }
    }

    fn doubt(digest: &str, state: State) -> Option<Doubt> {
        Some(Doubt {
            digest: digest.to_owned(),
            basis: "m".to_owned(),
            state,
            why: "it panics".to_owned(),
        })
    }

    #[test]
    fn a_new_version_is_tried_first_unless_nothing_serves_or_nothing_is_asked_of_it() {
        chosen("rehearse b", |_| {});
        chosen("b Serving", |case| case.passed = Some(B));
        chosen("rehearse b", |case| case.passed = Some(C));
        chosen("b Serving", |case| case.rehearse = 0);
        chosen("b Serving", |case| case.serving = Some(B));
        chosen("b Serving", |case| {
            (case.serving, case.recorded) = (None, None)
        });
    }

    #[test]
    fn what_was_refused_does_not_serve_until_something_else_is_asked() {
        for state in [State::Held, State::Refused, State::Returned] {
            chosen(&format!("keep {state:?}"), |case| {
                case.doubt = doubt(B, state)
            });
            // Another mapping is another question, and another version too.
            chosen("rehearse b", |case| {
                (case.doubt, case.basis) = (doubt(B, state), "other");
            });
            chosen("rehearse b", |case| case.doubt = doubt(C, state));
            let approved = match state {
                State::Returned => "keep Returned",
                _ => "b Serving",
            };
            chosen(approved, |case| {
                case.doubt = doubt(B, state);
                case.wishes.approve = Some(B.to_owned());
            });
        }
    }

    #[test]
    fn what_failed_in_service_goes_and_the_one_before_comes_back() {
        let failed = |case: &mut Case| {
            (case.serving, case.recorded) = (Some(B), Some(B));
            case.doubt = doubt(B, State::Returned);
        };
        chosen("a Returned", |case| {
            failed(case);
            case.previous = Some(A);
        });
        // Whoever let it in did not ask for it to stay whatever it does.
        chosen("a Returned", |case| {
            failed(case);
            case.previous = Some(A);
            case.wishes.approve = Some(B.to_owned());
        });
        // Nothing to come back to: it serves on, and says so.
        chosen("keep Returned", failed);
    }

    #[test]
    fn a_restart_begins_with_what_is_on_record_and_not_with_what_the_source_holds() {
        chosen("a Rehearsing", |case| case.serving = None);
        chosen("a Refused", |case| {
            (case.serving, case.doubt) = (None, doubt(B, State::Refused));
        });
        chosen("a Refused", |case| {
            (case.serving, case.newest) = (None, None)
        });
        chosen("fetch a", |case| {
            (case.serving, case.at_hand) = (None, Vec::new())
        });
        let lost = |case: &mut Case| {
            (case.serving, case.at_hand) = (None, Vec::new());
            case.missing = vec![in_vain(A)];
        };
        chosen("b Serving", lost);
        // Never what was refused, also where there is nothing else.
        chosen("keep Refused", |case| {
            lost(case);
            case.doubt = doubt(B, State::Refused);
        });
    }

    #[test]
    fn a_pin_holds_whatever_the_source_brings_and_says_so_if_it_cannot() {
        for (pin, wanted) in [(A, "a Pinned"), (B, "b Pinned"), (C, "fetch c")] {
            chosen(wanted, |case| case.wishes.pin = Some(pin.to_owned()));
        }
    }

    #[test]
    fn a_pin_that_cannot_serve_takes_nothing_down_and_says_why() {
        let pinned = |case: &mut Case| {
            case.wishes.pin = Some(C.to_owned());
            case.missing = vec![in_vain(C)];
        };
        chosen("rehearse b", pinned);
        chosen("keep Held", |case| {
            pinned(case);
            case.doubt = doubt(B, State::Held);
        });
        chosen("b Refused", |case| {
            pinned(case);
            case.serving = Some(B);
        });
        // A restart: the pinned version is the one on record.
        chosen("b Refused", |case| {
            pinned(case);
            (case.serving, case.recorded) = (None, Some(C));
        });
        // Written short, it is the same version.
        chosen("rehearse b", |case| {
            pinned(case);
            case.wishes.pin = Some(C[..19].to_owned());
        });
        let why = unpinned_why();
        for part in ["pin.guesthouse.dev/m6", C, "it is signed by nobody"] {
            assert!(why.contains(part), "{why}");
        }
    }

    fn unpinned_why() -> String {
        let wishes = Wishes {
            pin: Some(C.to_owned()),
            approve: None,
        };
        let facts = Facts {
            mapping: "m6",
            wishes: &wishes,
            newest: Some(B),
            trouble: None,
            serving: Some(B),
            recorded: Some(B),
            previous: None,
            doubt: None,
            basis: "m",
            passed: None,
            rehearse: 20,
            at_hand: &[],
            missing: &[in_vain(C)],
        };
        match choose(facts) {
            Choice::Serve { why, .. } => why,
            other => format!("{other:?}"),
        }
    }
}
