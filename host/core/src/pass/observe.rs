//! A mapping that only observes: its plugin is asked, its decision is told, and nothing is written or sent.

use super::{Finale, Memo, Note, Pass, Step};
use crate::{
    contract::{Decision, EventType, MAX_MESSAGE, cut},
    mapping::MappingMode,
    outcome::Outcome,
    plan::Checked,
    time::Time,
};

impl Pass {
    /// Whether nothing of a decision is carried out.
    pub(super) fn observes(&self) -> bool {
        self.terms.mapping.mapping.mode == MappingMode::Observe
    }

    /// Tells what would have been done.
    pub(super) fn observed(&mut self, decision: &Decision, checked: &Checked) -> Step {
        let mut would = Vec::new();
        for send in &checked.sends {
            would.push(format!("send {} {}", send.request.method, send.request.url));
        }
        for wish in &checked.wishes {
            would.push(format!("apply {} {}", wish.kind.kind, wish.name));
        }
        for deletion in &checked.deletions {
            let object = &deletion.object;
            would.push(format!("delete {} {}", object.kind.kind, object.name));
        }
        if decision.status.is_some() || !decision.conditions.is_empty() {
            would.push("write its status".to_owned());
        }
        if !(decision.labels.is_empty() && decision.annotations.is_empty()) {
            would.push("set labels or annotations".to_owned());
        }
        let text = if would.is_empty() {
            "nothing".to_owned()
        } else {
            would.join(", ")
        };
        self.told_only(EventType::Normal, format!("would do: {text}"), checked.wake)
    }

    /// Tells why there would have been no decision.
    pub(super) fn observed_trouble(&mut self, finale: Finale) -> Step {
        let cause = finale
            .cause
            .unwrap_or_else(|| crate::contract::Cause::new(finale.outcome.reason(), String::new()));
        let text = format!(
            "would end {}: {}: {}",
            finale.outcome, cause.reason, cause.message
        );
        self.told_only(EventType::Warning, text, finale.retry_at.or(finale.wake))
    }

    fn told_only(&mut self, type_: EventType, text: String, wake: Option<Time>) -> Step {
        let mut end = self.ending(Outcome::Unchanged, None, wake);
        end.carry.memo = Some(Memo {
            covers: self.covers(),
            outcome: Outcome::Unchanged,
            wake,
        });
        let note = Note {
            type_,
            reason: "Observed".to_owned(),
            note: cut(&text, MAX_MESSAGE).to_owned(),
        };
        self.end_with(end, vec![note])
    }
}
