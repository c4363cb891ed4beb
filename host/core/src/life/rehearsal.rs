//! What comes of asking two versions about the same objects.

use super::{Change, RehearsalReport, State, changes, said};
use crate::{
    contract::{Cause, FailureKind, MAX_MESSAGE, Reply, cut},
    dry::Over,
    mapping::OnDifference,
    outcome::Outcome,
    pass::short_digest,
    refusal::RefusalKind,
};

/// Differences that are told one by one.
const TOLD: usize = 5;
/// Paths of one object that are told.
const PATHS: usize = 4;

/// What one version made of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What it decided, as [`said`].
    Decided(serde_json::Value),
    /// It trapped, broke the contract, asked for what is not granted, made a status that the kind's schema refuses, or asked to be
    /// tried again: that is what an error nobody caught is in most languages.
    Failed(Cause),
    /// What decides is not known without reading or sending, or there was nothing to decide.
    Unknown(String),
}

impl Answer {
    /// What a run without effects came to, by its end and the plugin's last reply.
    pub fn of(over: &Over, last: Option<&Reply>) -> Self {
        let decided = |none: &str| match last {
            Some(Reply::Failure(failure)) if failure.kind == FailureKind::Retry => {
                Self::Failed(failure.cause.clone())
            }
            Some(reply) => Self::Decided(said(reply)),
            None => Self::Unknown(none.to_owned()),
        };
        match over {
            Over::Ended(end) => match (end.outcome, &end.cause) {
                (Outcome::PluginFailed | Outcome::Denied, Some(cause))
                    if cause.reason == RefusalKind::Host.as_str() =>
                {
                    Self::Unknown(cause.message.clone())
                }
                (Outcome::PluginFailed | Outcome::Denied, Some(cause)) => {
                    Self::Failed(cause.clone())
                }
                (Outcome::ClusterFailed, cause) => {
                    let why = cause.as_ref().map_or("", |cause| &cause.message);
                    Self::Unknown(why.to_owned())
                }
                _ => decided("nothing was to be decided"),
            },
            Over::Sends | Over::Endless => decided("nothing was decided"),
            Over::Unknown(what) => Self::Unknown(what.clone()),
        }
    }
}

/// A rehearsal as it goes on.
#[derive(Clone, Debug, Default)]
pub struct Rehearsal {
    report: RehearsalReport,
    failure: Option<String>,
}

/// How a rehearsal ended for the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may take over.
    Take,
    /// It does not, for this reason.
    Doubt(State, String),
}

/// What comes of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// The same, or a failure of both.
    Same,
    /// These differ.
    Different(Vec<Change>),
    /// The new version fails where the old one does not.
    Fails(Cause),
    /// Not to be told.
    NotComparable(String),
}

/// Compares what two versions made of one object.
pub fn compare(old: &Answer, new: &Answer) -> Comparison {
    match (old, new) {
        // It fails whatever the old one would have needed to know.
        (Answer::Failed(_), Answer::Failed(_)) => Comparison::Same,
        (_, Answer::Failed(cause)) => Comparison::Fails(cause.clone()),
        (Answer::Unknown(why), _) | (_, Answer::Unknown(why)) => {
            Comparison::NotComparable(why.clone())
        }
        (Answer::Failed(cause), Answer::Decided(new)) => {
            let old = serde_json::json!({"failed": format!("{}: {}", cause.reason, cause.message)});
            Comparison::Different(changes(&old, new))
        }
        (Answer::Decided(old), Answer::Decided(new)) => match changes(old, new) {
            all if all.is_empty() => Comparison::Same,
            all => Comparison::Different(all),
        },
    }
}

impl Rehearsal {
    /// Of the version of this digest.
    pub fn of(digest: &str) -> Self {
        let mut rehearsal = Self::default();
        rehearsal.report.digest = digest.to_owned();
        rehearsal
    }

    /// Takes in what both versions made of an object.
    pub fn add(&mut self, object: &str, old: &Answer, new: &Answer) {
        let report = &mut self.report;
        report.objects += 1;
        match compare(old, new) {
            Comparison::Same => report.same += 1,
            Comparison::NotComparable(_) => report.not_comparable += 1,
            Comparison::Different(all) => {
                report.different += 1;
                if report.changes.len() < TOLD {
                    let mut paths: Vec<_> = all.iter().map(|c| c.path.as_str()).collect();
                    let more = paths.len().saturating_sub(PATHS);
                    paths.truncate(PATHS);
                    let more = if more > 0 {
                        format!(" and {more} more")
                    } else {
                        String::new()
                    };
                    let line = format!("{object}: {}{more}", paths.join(", "));
                    report.changes.push(cut(&line, MAX_MESSAGE / 4).to_owned());
                }
            }
            Comparison::Fails(cause) => {
                report.failed += 1;
                let why = || format!("{object}: {}: {}", cause.reason, cause.message);
                self.failure.get_or_insert_with(why);
            }
        }
    }

    /// What is told of it.
    pub fn report(&self) -> RehearsalReport {
        self.report.clone()
    }

    /// One line on how often it decides otherwise, and where; none if it never does.
    pub fn differences(&self) -> Option<String> {
        let report = &self.report;
        (report.different > 0).then(|| {
            format!(
                "{} decides otherwise on {} of {} objects: {}",
                short_digest(&report.digest),
                report.different,
                report.objects,
                report.changes.join("; ")
            )
        })
    }

    /// Whether the version may take over.
    pub fn verdict(&self, mapping: &str, on_difference: OnDifference) -> Verdict {
        let report = &self.report;
        if let Some(failure) = &self.failure {
            let why = format!(
                "{} fails on {} of {} objects it was tried on: {failure}",
                short_digest(&report.digest),
                report.failed,
                report.objects
            );
            return Verdict::Doubt(State::Refused, why);
        }
        match (on_difference, self.differences()) {
            (OnDifference::Hold, Some(differences)) => Verdict::Doubt(
                State::Held,
                format!(
                    "{differences}; it waits for the annotation {}{mapping}: {} of the mapping's ConfigMap",
                    super::APPROVE,
                    report.digest
                ),
            ),
            _ => Verdict::Take,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Failure;
    use serde_json::json;

    fn decided(phase: &str) -> Answer {
        Answer::Decided(json!({"status": {"replace": {"phase": phase}}}))
    }

    fn failed() -> Answer {
        Answer::Failed(Cause::new("Panic", "index out of bounds"))
    }

    fn unknown() -> Answer {
        Answer::Unknown("a fetch".to_owned())
    }

    fn rehearsed(pairs: &[(Answer, Answer)]) -> Rehearsal {
        let mut rehearsal = Rehearsal::of("sha256:0123456789abcdef");
        for (number, (old, new)) in pairs.iter().enumerate() {
            rehearsal.add(&format!("ns/job-{number}"), old, new);
        }
        rehearsal
    }

    #[track_caller]
    fn ends(pairs: &[(Answer, Answer)], on_difference: OnDifference, state: Option<State>) {
        let verdict = rehearsed(pairs).verdict("m", on_difference);
        let found = match &verdict {
            Verdict::Take => None,
            Verdict::Doubt(state, _) => Some(*state),
        };
        assert_eq!(found, state, "{verdict:?}");
    }

    /// What an SDK makes of an exception is as bad as a trap; giving up is a decision.
    #[test]
    fn a_retry_counts_as_a_failure_and_a_terminal_failure_as_a_decision() {
        let answer = |kind| {
            let failure = Failure {
                kind,
                cause: Cause::new("Error", "KeyError: 'size'"),
                after: None,
                status: None,
                conditions: Vec::new(),
            };
            Answer::of(&Over::Sends, Some(&Reply::Failure(failure)))
        };
        let cause = Cause::new("Error", "KeyError: 'size'");
        assert_eq!(answer(FailureKind::Retry), Answer::Failed(cause));
        assert!(matches!(answer(FailureKind::Terminal), Answer::Decided(_)));
    }

    #[test]
    fn what_fails_where_the_old_one_does_not_is_refused_and_all_else_is_not() {
        use OnDifference::{Hold, Report};
        let same = (decided("Done"), decided("Done"));
        let differs = (decided("Done"), decided("Pending"));
        for on_difference in [Hold, Report] {
            let fails = [same.clone(), (decided("Done"), failed()), differs.clone()];
            ends(&fails, on_difference, Some(State::Refused));
            ends(
                &[(unknown(), failed())],
                on_difference,
                Some(State::Refused),
            );
            // Not worse than what serves.
            ends(&[(failed(), failed())], on_difference, None);
            ends(
                &[same.clone(), (decided("Done"), unknown())],
                on_difference,
                None,
            );
            ends(&[], on_difference, None);
        }
        let differs = [differs];
        ends(&differs, Report, None);
        ends(&differs, Hold, Some(State::Held));
        // Better than what serves is otherwise, too.
        ends(&[(failed(), decided("Done"))], Hold, Some(State::Held));
    }

    #[test]
    fn a_verdict_says_which_object_and_what_and_stays_short() {
        let many: Vec<_> = (0..50)
            .map(|_| (decided("Done"), decided("Pending")))
            .collect();
        let rehearsal = rehearsed(&many);
        let text = rehearsal.differences().unwrap();
        assert!(text.contains("50 of 50") && text.contains("ns/job-0: status.replace.phase"));
        assert!(text.len() < 1024, "{text}");
        let Verdict::Doubt(_, why) =
            rehearsed(&[(decided("a"), failed())]).verdict("m", OnDifference::Report)
        else {
            panic!("it is refused")
        };
        assert!(why.contains("sha256:0123456789ab"), "{why}");
        assert!(
            why.contains("ns/job-0: Panic: index out of bounds"),
            "{why}"
        );
    }
}
