//! The end of an object's children, and of a plugin's say over an object.
//!
//! `finalize` first, then the children as they were asked to go, then the status, then the finalizer. Without a plugin that
//! could be asked, the mapping's `onBroken` decides: wait and say for what, or let go.

use super::{Finale, Pass, Step, Then, Verb, children::Deed, children::Progress, sends::Owed};
use crate::{
    contract::{Cause, ConditionStatus, Event, EventType},
    mapping::OnBroken,
    outcome::Outcome,
    plan::{Checked, Rejection},
    time::Time,
};

impl Pass {
    /// How a deed ends, once nothing of it can be done any more in this pass.
    pub(super) fn deed_done(&mut self, deed: Deed, now: Time) -> Step {
        let denied = deed.left().find_map(|progress| match progress {
            Progress::Denied(cause) => Some(cause.clone()),
            _ => None,
        });
        if let Some(cause) = denied {
            return self.rejected(
                Rejection {
                    outcome: Outcome::Denied,
                    cause,
                },
                now,
            );
        }
        let failed = deed.left().find_map(|progress| match progress {
            Progress::Failed { cause, invalid } => Some((cause.clone(), *invalid)),
            _ => None,
        });
        if let Some((cause, invalid)) = failed {
            return self.child_failed(cause, invalid, now);
        }
        if deed.teardown {
            return self.torn_down(deed, now);
        }
        self.deed_settled(deed, now)
    }

    /// The acknowledgement is withheld: what was asked for is not done. Rights and quotas are given by people, so only what
    /// the server calls invalid is ever given up.
    fn child_failed(&mut self, cause: Cause, invalid: bool, now: Time) -> Step {
        let limit = self.terms.mapping.mapping.retry.limit;
        let (limit, outcome) = if invalid {
            (limit, Outcome::PluginFailed)
        } else {
            (u32::MAX, Outcome::Retrying)
        };
        let (outcome, retry_at) = self.nack_within(limit, outcome, None, now);
        self.finish(Finale::trouble(outcome, cause, retry_at), now)
    }

    /// Every effect that could be carried out was: what is left is waited for.
    fn deed_settled(&mut self, mut deed: Deed, now: Time) -> Step {
        let pending = deed.left().find_map(|progress| match progress {
            Progress::Pending(cause) => Some(cause.clone()),
            // Comes after something that is not done.
            Progress::Open | Progress::Apply { .. } => Some(self.blocked(&deed)),
            _ => None,
        });
        let owed = match self.owed(&deed.checked) {
            Owed::Nothing if deed.finalized => self.unfinished(&deed.checked),
            owed => owed,
        };
        let nothing_left = pending.is_none() && matches!(owed, Owed::Nothing);
        if self.verb == Verb::Finalize && deed.finalized && nothing_left {
            deed.teardown = true;
            return self.advance_deed(deed, now);
        }
        let ready = deed.finale.conditions.iter().find(|c| c.type_ == "Ready");
        let (outcome, cause, retry_at) = match (owed, pending) {
            (Owed::Retry(cause, at), _) => (Outcome::Retrying, Some(cause), Some(at)),
            (_, Some(cause)) | (Owed::Blocked(cause), None) => {
                (Outcome::Waiting, Some(cause), None)
            }
            (Owed::Nothing, None) => match ready {
                Some(ready) if ready.status == ConditionStatus::Unknown => {
                    let cause = Cause::new(&ready.reason, &ready.message);
                    (Outcome::Waiting, Some(cause), None)
                }
                Some(_) => (Outcome::Applied, None, None),
                None => match self.unready(&deed) {
                    Some(cause) => (Outcome::Waiting, Some(cause), None),
                    None if self.verb == Verb::Finalize => {
                        let why = format!(
                            "the plugin has not finished its clean-up; the finalizer {} stays until it has",
                            self.terms.mapping.finalizer
                        );
                        (Outcome::Waiting, Some(Cause::new("Finalizing", why)), None)
                    }
                    None => (Outcome::Applied, None, None),
                },
            },
        };
        let then = match &deed.checked.delete_self {
            Some(_) if outcome == Outcome::Applied && self.verb == Verb::Reconcile => {
                Then::DeleteSelf
            }
            // A plugin that finalized once and does no more, or children that needed it and are gone.
            _ if self.verb == Verb::Reconcile
                && self.holds_finalizer()
                && !self.keeps_finalizer()
                // What is still waited for may need it.
                && !self.wants_finalizer(&deed) =>
            {
                Then::Release
            }
            _ => Then::Nothing,
        };
        self.finish(
            Finale {
                outcome,
                cause,
                retry_at,
                then,
                ..deed.finale
            },
            now,
        )
    }

    /// `finalized` is said of the effects beside it: one that was refused is no clean-up.
    fn unfinished(&self, checked: &Checked) -> Owed {
        let refused = checked
            .sends
            .iter()
            .find(|send| !self.is_done(&send.effect, checked));
        refused.map_or(Owed::Nothing, |send| {
            let why = format!(
                "`finalized` does not count while the effect `{}` of the same decision has not succeeded; leave the effect out once its receipt is enough",
                send.effect
            );
            Owed::Blocked(Cause::new("Finalizing", why))
        })
    }

    fn blocked(&self, deed: &Deed) -> Cause {
        let waits = |wish: &crate::children::Wish| {
            let id = wish
                .after
                .iter()
                .find(|id| !self.is_done(id, &deed.checked))?;
            Some(format!(
                "the effect `{}` comes after `{id}`, which has not succeeded",
                wish.effect
            ))
        };
        let message = deed.checked.wishes.iter().find_map(waits);
        let message =
            message.unwrap_or_else(|| "an effect comes after one that has not succeeded".into());
        Cause::new("DependencyNotReady", message)
    }

    /// Without a plugin to ask: the children go, then the finalizer.
    pub(super) fn tear_down_now(&mut self, now: Time) -> Step {
        self.let_go = true;
        let checked = Checked {
            sends: Vec::new(),
            wishes: Vec::new(),
            deletions: Vec::new(),
            delete_self: None,
            wake: None,
        };
        let mut finale = Finale::release();
        let plugin = &self.terms.plugin;
        if plugin.finalizes || plugin.broken.is_some() {
            // Whatever the plugin would have cleaned up is somebody's to look after now.
            finale.events.push(Event {
                type_: EventType::Warning,
                reason: "ReleasedWithoutCleanup".to_owned(),
                note: format!(
                    "let go without the plugin's clean-up, as `onBroken: release` of the mapping {} says: {}",
                    self.terms.mapping.name,
                    plugin.broken.as_deref().unwrap_or("the plugin has given up")
                ),
            });
        }
        let mut deed = Deed::new(finale, checked);
        deed.teardown = true;
        self.advance_deed(deed, now)
    }

    /// The children are gone, or still on their way out.
    fn torn_down(&mut self, deed: Deed, now: Time) -> Step {
        let going = deed.removals.iter().find_map(|progress| match progress {
            Progress::Pending(cause) => Some(cause.clone()),
            _ => None,
        });
        let (outcome, then) = match &going {
            Some(_) => (Outcome::Waiting, Then::Nothing),
            None => (Outcome::Applied, Then::Release),
        };
        self.finish(
            Finale {
                outcome,
                cause: going,
                then,
                ..deed.finale
            },
            now,
        )
    }

    /// An object that is being deleted, or left the selector, whose plugin cannot be called.
    pub(super) fn finalize_broken(&mut self, why: &str, now: Time) -> Step {
        match self.terms.mapping.mapping.on_broken {
            OnBroken::Release => self.tear_down_now(now),
            OnBroken::Block => {
                let plugin = &self.terms.mapping.mapping.plugin;
                let why = self.with_way_out(&format!("the plugin {plugin} cannot be used: {why}"));
                let cause = Cause::new("PluginUnavailable", why);
                self.journal.retry = None;
                self.finish(Finale::trouble(Outcome::Stalled, cause, None), now)
            }
        }
    }

    /// Given up on. What only waits for that to be deleted is let go, where the mapping says so.
    pub(super) fn stay_given_up(&mut self, now: Time) -> Step {
        if self.verb == Verb::Finalize && self.releases_broken() {
            return self.tear_down_now(now);
        }
        let cause = Cause::new(Outcome::Stalled.reason(), self.journal.message.clone());
        self.end(Outcome::Stalled, Some(cause), None)
    }

    pub(super) fn releases_broken(&self) -> bool {
        self.terms.mapping.mapping.on_broken == OnBroken::Release
    }

    /// What people can do about an object that is held by our finalizer.
    pub(super) fn with_way_out(&self, why: &str) -> String {
        format!(
            "{why}; the object stays until its finalizer {} can be taken off: mend the plugin, set `onBroken: release` in the mapping {}, or run `guesthouse drain`",
            self.terms.mapping.finalizer, self.terms.mapping.name
        )
    }
}
