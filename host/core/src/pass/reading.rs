//! What is read beside the object: needs, and the children on record.

use super::{ChildRef, Found, Gather, Gathered, Pass, Stage, Step, StepAction};
use crate::{
    children,
    contract::{Answer, Cause, Child, MAX_ROUNDS, Need, Related},
    journal::ChildRecord,
    keys::Hash,
    needs::{self, ReadSource, Reading},
    object::Head,
    time::Time,
};

impl Pass {
    /// Reads what every pass reads: needs of the descriptor, those of the last settled decision, and the inventory. So the
    /// common case is one call.
    pub(super) fn gather_first(&mut self, now: Time) -> Step {
        let mut needs = Vec::new();
        if self.calls_plugin() {
            needs.clone_from(&self.terms.plugin.needs);
            for need in &self.carry.needs {
                if needs.iter().all(|known| known.name != need.name) {
                    needs.push(need.clone());
                }
            }
        }
        self.gather(needs, now)
    }

    /// Reads needs, and the children if they were not read yet. What is not granted is answered here.
    pub(super) fn gather(&mut self, needs: Vec<Need>, now: Time) -> Step {
        let (asked, readings): (Vec<Need>, Vec<Reading>) = needs
            .into_iter()
            .filter_map(|need| match self.resolve(&need) {
                Ok(reading) => Some((need, reading)),
                Err(answer) => {
                    self.learn(need, answer);
                    None
                }
            })
            .unzip();
        let (mut readings, mut children) = (readings, Vec::new());
        if !self.has_read {
            children = self.child_refs();
            let lost = self.lost_children();
            self.recovering = lost.len();
            readings.extend(lost);
        }
        if readings.is_empty() && children.is_empty() {
            return self.gathered(asked, Gathered::default(), now);
        }
        self.stage = Stage::Gathering(asked);
        let gather = Gather { readings, children };
        self.as_account(StepAction::Gather(Box::new(gather)))
    }

    /// Takes over what was read; the first time the gate goes on, later the plugin is called again.
    pub(super) fn gathered(&mut self, asked: Vec<Need>, mut read: Gathered, now: Time) -> Step {
        let recovering = std::mem::take(&mut self.recovering);
        let first = !self.has_read;
        let expected = if first {
            self.journal.inventory.len()
        } else {
            0
        };
        if read.answers.len() != asked.len() + recovering || read.children.len() != expected {
            return self.cluster_failed("the driver answered another set of reads", None, now);
        }
        let recovered = read.answers.split_off(asked.len());
        for (need, answer) in asked.into_iter().zip(read.answers) {
            self.learn(need, answer);
        }
        if first {
            self.has_read = true;
            self.found = read.children;
            self.recover(recovered);
            return self.gate_known(now);
        }
        self.round += 1;
        self.call()
    }

    /// Needs of a decision that have no answer yet; a need under a known name with other content is another need.
    pub(super) fn unanswered(&self, needs: &[Need]) -> Vec<Need> {
        let known = |need: &&Need| !self.known.iter().any(|(known, _)| known == *need);
        needs.iter().filter(known).cloned().collect()
    }

    /// Reads what a decision needs, unless it was the last round.
    pub(super) fn gather_more(&mut self, needs: Vec<Need>, now: Time) -> Step {
        if self.round + 1 >= MAX_ROUNDS {
            return self.too_many_rounds(now);
        }
        self.gather(needs, now)
    }

    fn learn(&mut self, need: Need, answer: Answer) {
        self.known.retain(|(known, _)| known.name != need.name);
        let place = self
            .known
            .partition_point(|(known, _)| known.name < need.name);
        self.known.insert(place, (need, answer));
    }

    fn resolve(&self, need: &Need) -> Result<Reading, Answer> {
        let mapping = &self.terms.mapping;
        let grants = &mapping.mapping.grants;
        let mut reading = needs::resolve(need, grants, &self.key, &self.mark())?;
        if let ReadSource::Fetch { send, .. } = &mut reading.source
            && let Some(name) = &send.request.credential
        {
            // The grant may name it only if the mapping has it.
            send.credential = mapping.mapping.credentials.get(name).cloned();
        }
        Ok(reading)
    }

    fn child_refs(&self) -> Vec<ChildRef> {
        self.journal.inventory.iter().map(child_ref).collect()
    }

    /// The answers as the plugin sees them.
    pub(super) fn related(&self) -> Vec<Related> {
        let related = |(need, answer): &(Need, Answer)| Related {
            name: need.name.clone(),
            answer: answer.clone(),
        };
        self.known.iter().map(related).collect()
    }

    /// The children as the plugin sees them, by effect id.
    pub(super) fn children_seen(&self) -> Vec<Child> {
        let both = self.journal.inventory.iter().zip(&self.found);
        let mut seen: Vec<Child> = both
            .map(|(record, found)| children::child(record, found))
            .collect();
        seen.sort_by(|a, b| a.effect.cmp(&b.effect));
        seen
    }

    /// What the key is woken by once this pass is over: what was read of the needs that count, and the inventory as it is.
    pub(super) fn watched(&self) -> Option<Gather> {
        if !self.has_read {
            return None;
        }
        let counts = |need: &&Need| {
            let own = self.terms.plugin.needs.contains(need);
            own || self.carry.needs.contains(need)
        };
        let needs = self.known.iter().map(|(need, _)| need).filter(counts);
        Some(Gather {
            readings: needs.filter_map(|need| self.resolve(need).ok()).collect(),
            children: self.child_refs(),
        })
    }

    /// For the memo: everything that was read. A child counts by what the plugin sees of it and by what drift shows in; its
    /// other status moves all the time.
    pub(super) fn covers_reads(&self) -> u64 {
        let answers = self.known.iter().map(|(_, answer)| answer);
        let mut hash = Hash::of("reads").part(needs::covers(answers).to_le_bytes());
        for (record, found) in self.journal.inventory.iter().zip(&self.found) {
            let child = children::child(record, found);
            hash = hash
                .part(&child.effect)
                .part([child.state as u8])
                .part(&child.message)
                .part(
                    child
                        .error
                        .as_ref()
                        .map_or("", |cause: &Cause| &cause.message),
                )
                .part(drift_basis(found));
        }
        hash.number()
    }
}

/// What drift shows in, of any child: uid, generation (else version), labels, annotations, owner references.
fn drift_basis(found: &Found) -> String {
    let Found::Object(object) = found else {
        return String::new();
    };
    let Ok(head) = Head::parse(object.as_str()) else {
        return String::new();
    };
    let mut hash = Hash::of("drift").part(head.uid.as_bytes());
    hash = match head.generation {
        0 => hash.part(head.resource_version.as_bytes()),
        generation => hash.part(generation.to_le_bytes()),
    };
    for (key, value) in head.labels.iter().chain(&head.annotations) {
        hash = hash.part(key.as_bytes()).part(value.as_bytes());
    }
    let owners = head
        .owner_references
        .map_or("", serde_json::value::RawValue::get);
    hash.part(owners).hex()
}

pub(super) fn child_ref(record: &ChildRecord) -> ChildRef {
    ChildRef {
        kind: record.kind.clone(),
        namespace: record.namespace.clone(),
        name: record.name.clone(),
        marked: record.ownership != crate::contract::Ownership::Fields,
    }
}
