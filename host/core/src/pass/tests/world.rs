//! The world outside a pass: an API server that checks versions and uids, and an exporter that keeps a ledger.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::things::Things;
use crate::{
    children::owner_mark,
    contract::{Body, Cause, Json, Response},
    journal::Journal,
    object::{ObjectKey, Uid},
    pass::{FinalizerWrite, JournalWrite, Note, ObjectWrite, Sent, StoredJournal, WriteError},
    plan::{MetaPatch, Send},
    time::Time,
    units::Span,
};

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Objects, journals and Events as an API server keeps them.
#[derive(Default)]
pub(super) struct Cluster {
    objects: BTreeMap<ObjectKey, Value>,
    /// Everything else.
    pub(super) things: Things,
    /// What an invariant of the server's side does not allow, as it happened.
    pub(super) wrongs: Vec<String>,
    /// Name, version and JSON text.
    pub(super) journals: BTreeMap<String, (u64, String)>,
    pub(super) events: Vec<Note>,
    /// Watch events nobody took yet.
    pub(super) changed: Vec<(ObjectKey, Option<u64>)>,
    /// Writes by the host that were carried out.
    pub(super) writes: Vec<&'static str>,
    version: u64,
    uids: u64,
}

impl Cluster {
    pub(super) fn create(&mut self, name: &str, spec: Value) {
        self.create_at(&key(name), spec);
    }

    pub(super) fn create_at(&mut self, key: &ObjectKey, spec: Value) {
        self.uids += 1;
        let object = json!({
            "apiVersion": "batch.acme.io/v1", "kind": "ReportJob",
            "metadata": {"namespace": key.namespace(), "name": key.name(), "uid": format!("uid-{}", self.uids), "generation": 1, "labels": {"phase": "pending"}},
            "spec": spec,
            "status": {"phase": "Pending", "observedGeneration": -1},
        });
        self.store(key, object);
    }

    fn store(&mut self, key: &ObjectKey, mut object: Value) -> Json {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let json = Json::of(&object).unwrap();
        self.objects.insert(key.clone(), object);
        self.changed.push((key.clone(), Some(self.version)));
        json
    }

    /// Somebody else's write; a changed spec is a new generation.
    pub(super) fn edit(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        let mut object = self.objects[&key(name)].clone();
        edit(&mut object);
        if object["spec"] != self.objects[&key(name)]["spec"] {
            object["metadata"]["generation"] =
                (object["metadata"]["generation"].as_i64().unwrap() + 1).into();
        }
        let held = |object: &Value| {
            let finalizers = object["metadata"]["finalizers"].as_array();
            finalizers.is_some_and(|list| !list.is_empty())
        };
        let going = !object["metadata"]["deletionTimestamp"].is_null();
        if going && held(&self.objects[&key(name)]) && !held(&object) {
            return self.vanish(&key(name));
        }
        self.store(&key(name), object);
    }

    /// Gone at once, or, where finalizers hold it, on its way out: a new generation, as the server counts it.
    pub(super) fn delete(&mut self, name: &str) {
        self.delete_at(&key(name));
    }

    pub(super) fn delete_at(&mut self, key: &ObjectKey) {
        let mut object = self.objects[key].clone();
        let meta = &mut object["metadata"];
        let held = meta["finalizers"].as_array().is_some_and(|f| !f.is_empty());
        if !held {
            self.vanish(key);
        } else if meta["deletionTimestamp"].is_null() {
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            meta["generation"] = (meta["generation"].as_i64().unwrap() + 1).into();
            self.store(key, object);
        }
    }

    fn vanish(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
        self.changed.push((key.clone(), None));
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.objects.contains_key(&key(name))
    }

    /// The object deletes itself, by its plugin's wish.
    pub(super) fn delete_self(&mut self, key: &ObjectKey, uid: &str) -> Result<bool, WriteError> {
        let object = self.objects.get(key).ok_or(WriteError::NotFound)?;
        if object["metadata"]["uid"] != uid {
            return Err(WriteError::Conflict);
        }
        self.writes.push("delete-self");
        self.delete_at(key);
        Ok(!self.objects.contains_key(key))
    }

    /// JSON patch of the finalizers; a test that does not hold is a 422.
    pub(super) fn patch_finalizers(
        &mut self,
        key: &ObjectKey,
        write: &FinalizerWrite,
    ) -> Result<Json, WriteError> {
        let mut object = self.objects.get(key).ok_or(WriteError::NotFound)?.clone();
        let invalid = |why: &str| WriteError::Invalid(why.to_owned());
        for operation in write.patch.as_array().unwrap() {
            let path = operation["path"].as_str().unwrap();
            let (parent, last) = path.rsplit_once('/').unwrap();
            match operation["op"].as_str().unwrap() {
                "test" if object.pointer(path) == Some(&operation["value"]) => {}
                "test" => return Err(invalid("the test does not hold")),
                "add" if last == "-" => {
                    let list = object.pointer_mut(parent).and_then(Value::as_array_mut);
                    list.ok_or(invalid("no list"))?
                        .push(operation["value"].clone());
                }
                "add" => object.pointer_mut(parent).unwrap()[last] = operation["value"].clone(),
                "remove" => {
                    let list = object.pointer_mut(parent).and_then(Value::as_array_mut);
                    list.ok_or(invalid("no list"))?
                        .remove(last.parse().unwrap());
                }
                other => panic!("{other}"),
            }
        }
        let meta = &mut object["metadata"];
        let going = !meta["deletionTimestamp"].is_null();
        if going && write.put {
            return Err(invalid(
                "no new finalizers can be added if the object is being deleted",
            ));
        }
        let empty = meta["finalizers"].as_array().is_none_or(Vec::is_empty);
        if empty {
            meta.as_object_mut().unwrap().remove("finalizers");
        }
        self.writes.push("finalizer");
        let uid = Uid::new(meta["uid"].as_str().unwrap());
        if !write.put {
            let left = self
                .things
                .beyond(key.namespace(), &owner_mark("report-jobs", &uid));
            let wrong = |name| format!("the finalizer went before the child {name}");
            self.wrongs.extend(left.into_iter().map(wrong));
        }
        if going && empty {
            self.vanish(key);
            return Ok(Json::of(&object).unwrap());
        }
        Ok(self.store(key, object))
    }

    /// What runs in every cluster beside us.
    pub(super) fn background(&mut self) {
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
        let parents: Vec<_> = self
            .objects
            .iter()
            .map(|(key, object)| (key.clone(), uid(object)))
            .collect();
        self.things.collect(&parents);
        self.things.controllers();
    }

    pub(super) fn object(&self, name: &str) -> &Value {
        &self.objects[&key(name)]
    }

    pub(super) fn status(&self, name: &str) -> &Value {
        &self.object(name)["status"]
    }

    pub(super) fn read(&self, key: &ObjectKey) -> Option<Json> {
        self.objects
            .get(key)
            .map(|object| Json::of(object).unwrap())
    }

    pub(super) fn keys(&self) -> Vec<ObjectKey> {
        let of_journals = self.journals.values().map(|(_, text)| {
            let journal: Journal = serde_json::from_str(text).unwrap();
            ObjectKey::new(&journal.object.namespace, &journal.object.name)
        });
        let mut keys: Vec<_> = self.objects.keys().cloned().chain(of_journals).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    fn current(&self, key: &ObjectKey, uid: &str, version: &str) -> Result<Value, WriteError> {
        let object = self.objects.get(key).ok_or(WriteError::NotFound)?;
        let meta = &object["metadata"];
        if meta["uid"] != uid || meta["resourceVersion"] != version {
            return Err(WriteError::Conflict);
        }
        Ok(object.clone())
    }

    pub(super) fn put_status(
        &mut self,
        key: &ObjectKey,
        write: &ObjectWrite<Value>,
    ) -> Result<Json, WriteError> {
        let mut object = self.current(key, &write.uid, &write.version)?;
        let generation = |status: &Value| status["observedGeneration"].as_i64().unwrap_or(-1);
        if generation(&write.body) < generation(&object["status"]) {
            self.wrongs
                .push(format!("the generation in {} fell", write.body));
        }
        object["status"] = write.body.clone();
        self.writes.push("status");
        Ok(self.store(key, object))
    }

    pub(super) fn patch(
        &mut self,
        key: &ObjectKey,
        write: &ObjectWrite<MetaPatch>,
    ) -> Result<Json, WriteError> {
        let mut object = self.current(key, &write.uid, &write.version)?;
        let meta = object["metadata"].as_object_mut().unwrap();
        for (field, wish) in [
            ("labels", &write.body.labels),
            ("annotations", &write.body.annotations),
        ] {
            for (name, value) in wish {
                let slot = meta.entry(field).or_insert(json!({}));
                match value {
                    Some(value) => slot[name] = json!(value),
                    None => drop(slot.as_object_mut().unwrap().remove(name)),
                }
            }
        }
        self.writes.push("patch");
        Ok(self.store(key, object))
    }

    pub(super) fn put_journal(&mut self, write: &JournalWrite) -> Result<String, WriteError> {
        let stands = self
            .journals
            .get(&write.name)
            .map(|(version, _)| version.to_string());
        match (&write.version, stands) {
            (None, Some(_)) => return Err(WriteError::Conflict),
            (Some(_), None) => return Err(WriteError::NotFound),
            (Some(had), Some(stands)) if *had != stands => return Err(WriteError::Conflict),
            _ => {}
        }
        self.version += 1;
        let text = serde_json::to_string(&write.journal).unwrap();
        self.journals
            .insert(write.name.clone(), (self.version, text));
        self.writes.push("journal");
        Ok(self.version.to_string())
    }

    pub(super) fn drop_journal(&mut self, name: &str, version: &str) -> Result<String, WriteError> {
        match self.journals.get(name) {
            None => Err(WriteError::NotFound),
            Some((stands, _)) if stands.to_string() != version => Err(WriteError::Conflict),
            Some(_) => {
                self.journals.remove(name);
                self.writes.push("drop-journal");
                Ok(version.to_owned())
            }
        }
    }

    /// Journals on record for a key, of whatever uid.
    pub(super) fn journals_of(&self, key: &ObjectKey) -> Vec<StoredJournal> {
        let read = self
            .journals
            .iter()
            .map(|(name, (version, text))| StoredJournal {
                name: name.clone(),
                version: version.to_string(),
                journal: serde_json::from_str(text).unwrap(),
            });
        read.filter(|stored| {
            let subject = &stored.journal.object;
            ObjectKey::new(&subject.namespace, &subject.name) == *key
        })
        .collect()
    }

    /// The one journal of an object.
    pub(super) fn journal(&self, name: &str) -> Journal {
        let mut all = self.journals_of(&key(name));
        assert_eq!(all.len(), 1, "journals of {name}");
        all.remove(0).journal
    }

    /// Objects and journals without versions and times: what must be the same however a history went.
    pub(super) fn end_state(&self) -> Value {
        let journals: BTreeMap<&String, Value> = self
            .journals
            .iter()
            .map(|(name, (_, text))| (name, serde_json::from_str(text).unwrap()))
            .collect();
        let mut state = json!({"objects": self.objects.values().collect::<Vec<_>>(), "journals": journals, "things": self.things.all().map(|(_, object)| object).collect::<Vec<_>>()});
        timeless(&mut state);
        state
    }
}

fn timeless(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for name in ["resourceVersion", "lastTransitionTime", "at", "nextAt"] {
                map.remove(name);
            }
            map.values_mut().for_each(timeless);
        }
        Value::Array(items) => items.iter_mut().for_each(timeless),
        _ => {}
    }
}

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mishap {
    /// Cut before the exporter had it.
    Lost,
    /// Done, and the answer is cut.
    LostAfterDone,
    /// An answer that nothing was done for.
    Code(u16, Option<Span>),
    /// Refused before a byte was sent.
    NotSent,
}

/// Acts once per idempotency key, answers repeats from its record, and writes down every request.
#[derive(Default)]
pub(super) struct Exporter {
    /// One for each of the next requests.
    pub(super) mishaps: VecDeque<Mishap>,
    /// For all after those.
    pub(super) always: Option<Mishap>,
    /// Effect, key and time of each request.
    pub(super) sends: Vec<(String, String, Time)>,
    /// Keys it acted on, and the path it acted for.
    pub(super) made: BTreeMap<String, String>,
    /// What it did, in order: method and address.
    pub(super) acts: Vec<(String, String)>,
}

impl Exporter {
    pub(super) fn send(&mut self, send: &Send, now: Time) -> Sent {
        let mishap = self.mishaps.pop_front().or(self.always);
        let cause = |reason: &str| Cause::new(reason, "connection reset");
        if matches!(mishap, Some(Mishap::NotSent)) {
            return Sent::NotSent(cause("Unreachable"));
        }
        self.sends
            .push((send.effect.clone(), send.idempotency_key.clone(), now));
        let answer = |code, retry_after| Sent::Answered {
            response: Response {
                code,
                headers: Vec::new(),
                body: Body::Empty,
                truncated: false,
                at: now.seconds(),
            },
            retry_after,
        };
        match mishap {
            Some(Mishap::Code(code, retry_after)) => return answer(code, retry_after),
            Some(Mishap::Lost) => return Sent::Lost(cause("Timeout")),
            _ => {}
        }
        let (key, url) = (send.idempotency_key.clone(), send.request.url.clone());
        if self.made.insert(key, url.clone()).is_none() {
            self.acts.push((send.request.method.clone(), url));
        }
        match mishap {
            Some(_) => Sent::Lost(cause("Timeout")),
            None => answer(201, None),
        }
    }

    /// How often each key was sent.
    pub(super) fn by_key(&self) -> BTreeMap<&str, usize> {
        self.sends.iter().fold(BTreeMap::new(), |mut all, send| {
            *all.entry(send.1.as_str()).or_default() += 1;
            all
        })
    }

    /// Milliseconds between the requests.
    pub(super) fn pauses(&self) -> Vec<i64> {
        self.sends
            .windows(2)
            .map(|pair| pair[1].2.0 - pair[0].2.0)
            .collect()
    }
}
