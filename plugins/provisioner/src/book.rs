//! What the provisioner remembers, without any I/O: resources, answers by idempotency key, counts, and the ledger.
//!
//! Times are milliseconds since 1970 and come in as arguments.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::fault::Faults;

/// A resource as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its id; never used for another one.
    pub id: String,
    /// As asked for last.
    pub size: String,
    /// As asked for first; it cannot change.
    pub region: String,
    /// How far it is.
    pub state: State,
    /// Where it can be reached, once it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// How far a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Being made, or made larger or smaller.
    Provisioning,
    /// As asked for.
    Ready,
}

/// What was done for one resource id. Repeats under a known key do nothing and are not counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Acts {
    /// Made: more than 1 must never be.
    pub created: u64,
    /// Made larger or smaller.
    pub resized: u64,
    /// Taken away.
    pub deleted: u64,
}

/// What the provisioner counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// What was done, by resource id.
    pub acts: BTreeMap<String, Acts>,
    /// Requests answered from the record of their key.
    pub repeats: u64,
    /// Requests that failed as told.
    pub failed: u64,
    /// Requests being worked on now.
    pub in_flight: u64,
}

/// One request that arrived, failed or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// When it arrived, in milliseconds since 1970.
    pub at: u64,
    /// Its method.
    pub method: String,
    /// The resource it was about.
    pub resource: String,
    /// Its idempotency key.
    pub key: Option<String>,
    /// Its body.
    pub body: String,
    /// The code it was answered with; none if it was not, or not yet.
    pub answer: Option<u16>,
}

/// What is asked for by a `PUT`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    size: String,
    region: String,
}

/// Code and body of an answer.
pub(crate) type Answer = (u16, Value);

#[derive(Debug)]
struct Kept {
    size: String,
    region: String,
    /// From then on it is ready; none: when it is told to be.
    ready_at: Option<u64>,
}

/// The provisioner's memory.
#[derive(Debug, Default)]
pub(crate) struct Book {
    resources: BTreeMap<String, Kept>,
    /// Ids that were deleted, or that nothing may be made under any more.
    gone: BTreeSet<String>,
    by_key: BTreeMap<String, ([String; 3], Answer)>,
    ledger: Vec<Entry>,
    pub(crate) faults: Faults,
    pub(crate) stats: Stats,
    /// Milliseconds from an act to `ready`; none: until [`Book::finish`].
    pub(crate) delay: Option<u64>,
}

impl Book {
    /// Files a request that has arrived; its place in the ledger.
    pub(crate) fn arrive(&mut self, entry: Entry) -> usize {
        self.stats.in_flight += 1;
        self.ledger.push(entry);
        self.ledger.len() - 1
    }

    /// A request that had arrived is over, answered with that code or not at all.
    pub(crate) fn leave(&mut self, place: usize, answer: Option<u16>) {
        self.stats.in_flight -= 1;
        self.ledger[place].answer = answer;
    }

    /// Does what a `PUT` or `DELETE` asks for, once for each key; a repeated key gets the same answer again.
    pub(crate) fn act(&mut self, request: &Entry) -> Answer {
        let Some(key) = request.key.clone() else {
            return error(400, "the header Idempotency-Key is missing");
        };
        let asked = [&request.method, &request.resource, &request.body].map(String::clone);
        if let Some((before, answer)) = self.by_key.get(&key) {
            if *before != asked {
                return error(422, "this Idempotency-Key was used for another request");
            }
            self.stats.repeats += 1;
            return answer.clone();
        }
        let answer = match request.method.as_str() {
            "DELETE" => self.delete(&request.resource),
            _ => match serde_json::from_str(&request.body) {
                Ok(wish) => self.put(&request.resource, wish, request.at),
                Err(e) => error(400, &format!("the body is not {{size, region}}: {e}")),
            },
        };
        self.by_key.insert(key, (asked, answer.clone()));
        answer
    }

    fn put(&mut self, id: &str, wish: Wish, now: u64) -> Answer {
        if self.gone.contains(id) {
            return error(410, "the resource of this id was deleted");
        }
        let ready_at = self.delay.map(|delay| now.saturating_add(delay));
        let acts = self.stats.acts.entry(id.into()).or_default();
        let code = match self.resources.get_mut(id) {
            Some(kept) if kept.region != wish.region => {
                return error(409, "the region of a resource cannot change");
            }
            Some(kept) if kept.size == wish.size => 200,
            Some(kept) => {
                acts.resized += 1;
                (kept.size, kept.ready_at) = (wish.size, ready_at);
                200
            }
            None => {
                acts.created += 1;
                let kept = Kept {
                    size: wish.size,
                    region: wish.region,
                    ready_at,
                };
                self.resources.insert(id.into(), kept);
                201
            }
        };
        (code, json!(self.get(id, now)))
    }

    /// An id is used once: after this nothing is made under it, so that a creation that comes late leaves nothing behind.
    fn delete(&mut self, id: &str) -> Answer {
        self.gone.insert(id.into());
        if self.resources.remove(id).is_none() {
            return error(404, "no such resource");
        }
        self.stats.acts.entry(id.into()).or_default().deleted += 1;
        (204, Value::Null)
    }

    /// The resource of that id.
    pub(crate) fn get(&self, id: &str, now: u64) -> Option<Resource> {
        let kept = self.resources.get(id)?;
        let ready = kept.ready_at.is_some_and(|at| at <= now);
        Some(Resource {
            id: id.into(),
            size: kept.size.clone(),
            region: kept.region.clone(),
            state: if ready {
                State::Ready
            } else {
                State::Provisioning
            },
            endpoint: ready.then(|| format!("{id}.{}.provisioned.example:5432", kept.region)),
        })
    }

    /// All resources, by id.
    pub(crate) fn list(&self, now: u64) -> Vec<Resource> {
        let ids = self.resources.keys();
        ids.filter_map(|id| self.get(id, now)).collect()
    }

    /// All requests so far, in the order they arrived.
    pub(crate) fn ledger(&self) -> &[Entry] {
        &self.ledger
    }

    /// Everything under way is ready.
    pub(crate) fn finish(&mut self) {
        for kept in self.resources.values_mut() {
            kept.ready_at = Some(0);
        }
    }

    /// Takes a resource away behind everybody's back. Whether it was there.
    pub(crate) fn lose(&mut self, id: &str) -> bool {
        self.resources.remove(id).is_some()
    }
}

/// A refusal that says why.
pub(crate) fn error(code: u16, why: &str) -> Answer {
    (code, json!({"error": why}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(book: &mut Book, method: &str, key: &str, body: &str) -> u16 {
        let request = Entry {
            at: 1000,
            method: method.into(),
            resource: "a".into(),
            key: (!key.is_empty()).then(|| key.into()),
            body: body.into(),
            answer: None,
        };
        book.act(&request).0
    }

    const SMALL: &str = r#"{"size": "small", "region": "eu"}"#;
    const LARGE: &str = r#"{"size": "large", "region": "eu"}"#;

    #[test]
    fn one_key_acts_once_and_two_keys_for_the_same_state_do_too() {
        let mut book = Book::default();
        let cases = [
            ("PUT", "", SMALL, 400, (0, 0, 0)),
            ("PUT", "k0", "{}", 400, (0, 0, 0)),
            ("PUT", "k1", SMALL, 201, (1, 0, 0)),
            ("PUT", "k1", SMALL, 201, (1, 0, 0)),
            ("PUT", "k1", LARGE, 422, (1, 0, 0)),
            ("PUT", "k2", SMALL, 200, (1, 0, 0)),
            ("PUT", "k3", LARGE, 200, (1, 1, 0)),
            (
                "PUT",
                "k4",
                r#"{"size": "large", "region": "us"}"#,
                409,
                (1, 1, 0),
            ),
            ("DELETE", "k5", "", 204, (1, 1, 1)),
            ("DELETE", "k5", "", 204, (1, 1, 1)),
            ("DELETE", "k6", "", 404, (1, 1, 1)),
            ("PUT", "k7", SMALL, 410, (1, 1, 1)),
            ("PUT", "k1", SMALL, 201, (1, 1, 1)),
        ];
        for (at, (method, key, body, code, acts)) in cases.into_iter().enumerate() {
            assert_eq!(ask(&mut book, method, key, body), code, "{at}");
            let now = book.stats.acts.get("a").copied().unwrap_or_default();
            assert_eq!((now.created, now.resized, now.deleted), acts, "{at}");
        }
        assert_eq!(book.stats.repeats, 3);
        assert_eq!(book.list(1000), [], "the last repeat made nothing");
    }

    #[test]
    fn an_id_deleted_before_it_was_made_stays_unused() {
        let mut book = Book::default();
        assert_eq!(ask(&mut book, "DELETE", "k1", ""), 404);
        assert_eq!(ask(&mut book, "PUT", "k2", SMALL), 410);
        assert_eq!(
            book.stats
                .acts
                .values()
                .map(|acts| acts.created)
                .sum::<u64>(),
            0
        );
    }

    #[test]
    fn a_resource_is_ready_after_the_delay_or_when_it_is_told_to_be() {
        let mut book = Book {
            delay: Some(500),
            ..Book::default()
        };
        ask(&mut book, "PUT", "k1", SMALL);
        let state = |book: &Book, now| book.get("a", now).map(|a| (a.state, a.endpoint.is_some()));
        assert_eq!(state(&book, 1499), Some((State::Provisioning, false)));
        assert_eq!(state(&book, 1500), Some((State::Ready, true)));
        book.delay = None;
        ask(&mut book, "PUT", "k2", LARGE);
        assert_eq!(state(&book, u64::MAX), Some((State::Provisioning, false)));
        book.finish();
        assert_eq!(state(&book, 1000), Some((State::Ready, true)));
        assert!(book.lose("a") && !book.lose("a"));
        assert_eq!(book.get("a", 1000), None);
    }
}
