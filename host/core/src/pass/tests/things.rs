//! Everything in the cluster beside the reconciled objects: children, what others made, and the server's own controllers.
//!
//! A store may lag: what a pass gathers is the state of some changes ago, but never from before the host's own acknowledged
//! write. Server-side apply is modelled by one rule: a manager owns what it applied last, and what it does not apply again goes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    children::OWNER_LABEL,
    contract::{Answer, Cause, Json, Kind, ObjectRef},
    needs::{self, Reading},
    object::ObjectKey,
    pass::{ChildRef, ChildWrite, Found, Looked, Removal, Way, WriteError},
};

/// Group, kind, namespace, name.
pub(super) type Place = (String, String, String, String);

const CLUSTER_SCOPED: [&str; 1] = ["ClusterThing"];
/// Kinds that count generations.
const NUMBERED: [&str; 3] = ["Deployment", "Job", "Ingress"];

pub(super) fn place(kind: &Kind, namespace: &str, name: &str) -> Place {
    let namespace = if CLUSTER_SCOPED.contains(&kind.kind.as_str()) {
        ""
    } else {
        namespace
    };
    let texts = [kind.group(), &kind.kind, namespace, name];
    texts.map(str::to_owned).into()
}

/// What was asked of the server about one child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) applies: usize,
    pub(super) creates: usize,
    pub(super) deletes: usize,
}

/// One object through time; the last state is the truth.
#[derive(Default)]
struct Slot {
    states: Vec<Option<Value>>,
    /// The host knows at least this state.
    known: usize,
}

#[derive(Default)]
pub(super) struct Things {
    slots: BTreeMap<Place, Slot>,
    fields: BTreeMap<(Place, String), Value>,
    /// Requests by name of the object.
    pub(super) counts: BTreeMap<String, Count>,
    /// What the host deleted, as it was.
    pub(super) deleted: Vec<Value>,
    /// Names of children in the order the host removed them.
    pub(super) removed: Vec<String>,
    /// Kinds the server does not serve.
    pub(super) unserved: BTreeSet<String>,
    /// Namespaces on their way out.
    pub(super) frozen: BTreeSet<String>,
    /// Fields that cannot be changed, by kind.
    pub(super) immutable: BTreeMap<String, &'static str>,
    /// Every apply of an object of this name is refused so.
    pub(super) refused: BTreeMap<String, WriteError>,
    /// Deployments and Jobs that do not get ready.
    pub(super) slow: BTreeSet<String>,
    /// How many changes the store is behind.
    pub(super) lag: usize,
    /// Changes nobody was told of yet.
    pub(super) changed: Vec<Place>,
    version: u64,
}

impl Things {
    pub(super) fn get(&self, place: &Place) -> Option<&Value> {
        self.slots.get(place)?.states.last()?.as_ref()
    }

    /// The one object of this name, wherever it lives.
    pub(super) fn named(&self, name: &str) -> Option<&Value> {
        let mut found = self.all().filter(|(place, _)| place.3 == name);
        let object = found.next().map(|(_, object)| object);
        assert!(found.next().is_none(), "two are called {name}");
        object
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Place, &Value)> {
        self.slots
            .iter()
            .filter_map(|(place, slot)| Some((place, slot.states.last()?.as_ref()?)))
    }

    /// Children with this mark that no garbage collector takes with their owner.
    pub(super) fn beyond(&self, namespace: &str, mark: &str) -> Vec<String> {
        let theirs = |(place, object): &(&Place, &Value)| {
            place.2 != namespace && object["metadata"]["labels"][OWNER_LABEL] == mark
        };
        let left = self.all().filter(theirs);
        left.map(|(place, _)| place.3.clone()).collect()
    }

    pub(super) fn count(&self, name: &str) -> Count {
        self.counts.get(name).copied().unwrap_or_default()
    }

    fn put(&mut self, place: &Place, mut state: Option<Value>) {
        if let Some(object) = &mut state {
            self.version += 1;
            object["metadata"]["resourceVersion"] = self.version.to_string().into();
        }
        let slot = self.slots.entry(place.clone()).or_default();
        if slot.states.is_empty() {
            slot.states.push(None);
        }
        slot.states.push(state);
    }

    fn create(&mut self, place: &Place, mut object: Value) {
        let slot = self.slots.entry(place.clone()).or_default();
        let before = slot.states.windows(2);
        let nth = before.filter(|pair| pair[0].is_none() && pair[1].is_some());
        // Made twice shows in the uid.
        let uid = format!("{}-{}-{}", place.1, place.3, nth.count() + 1);
        object["metadata"]["uid"] = uid.into();
        if NUMBERED.contains(&place.1.as_str()) {
            object["metadata"]["generation"] = 1.into();
        }
        self.put(place, Some(object));
    }

    /// Somebody else makes an object.
    pub(super) fn make(&mut self, object: Value) -> Place {
        let kind = Kind {
            api_version: object["apiVersion"].as_str().unwrap().into(),
            kind: object["kind"].as_str().unwrap().into(),
        };
        let meta = &object["metadata"];
        let namespace = meta["namespace"].as_str().unwrap_or_default();
        let place = place(&kind, namespace, meta["name"].as_str().unwrap());
        self.create(&place, object);
        self.changed.push(place.clone());
        place
    }

    /// Somebody else changes an object; what waited for its last finalizer goes.
    pub(super) fn edit(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        let found = self.all().find(|(place, _)| place.3 == name);
        let (place, before) = found.map(|(p, o)| (p.clone(), o.clone())).unwrap();
        let mut after = before.clone();
        edit(&mut after);
        self.replace(&place, &before, after);
        self.changed.push(place);
    }

    /// Somebody else deletes an object.
    pub(super) fn drop(&mut self, name: &str) {
        let found = self.all().find(|(place, _)| place.3 == name);
        let place = found.unwrap().0.clone();
        self.begin_deletion(&place);
        self.changed.push(place);
    }

    /// Whether it is gone with that.
    fn begin_deletion(&mut self, place: &Place) -> bool {
        let mut object = self.get(place).unwrap().clone();
        let held = object["metadata"]["finalizers"].as_array();
        if held.is_none_or(Vec::is_empty) {
            self.put(place, None);
            self.fields.retain(|(of, _), _| of != place);
            return true;
        }
        if object["metadata"]["deletionTimestamp"].is_null() {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            self.put(place, Some(object));
        }
        false
    }

    fn replace(&mut self, place: &Place, before: &Value, mut after: Value) {
        if after == *before {
            return;
        }
        let inner = |object: &Value| {
            let mut object = object.clone();
            for part in ["metadata", "status"] {
                object.as_object_mut().unwrap().remove(part);
            }
            object
        };
        if before["metadata"]["generation"].is_i64() && inner(before) != inner(&after) {
            let generation = before["metadata"]["generation"].as_i64().unwrap();
            after["metadata"]["generation"] = (generation + 1).into();
        }
        let held = after["metadata"]["finalizers"].as_array();
        if !after["metadata"]["deletionTimestamp"].is_null() && held.is_none_or(Vec::is_empty) {
            self.put(place, None);
            self.fields.retain(|(of, _), _| of != place);
        } else {
            self.put(place, Some(after));
        }
    }

    /// The answer reached the host: its store is no older from now on.
    pub(super) fn acknowledge(&mut self, place: &Place) {
        if let Some(slot) = self.slots.get_mut(place) {
            slot.known = slot.states.len().saturating_sub(1);
        }
    }

    /// Whether something happened that the host was not told of.
    pub(super) fn is_ahead(&self, place: &Place) -> bool {
        let slot = self.slots.get(place);
        slot.is_some_and(|slot| slot.known + 1 < slot.states.len())
    }

    /// A host that starts lists everything.
    pub(super) fn listed(&mut self) {
        self.changed.clear();
        for slot in self.slots.values_mut() {
            slot.known = slot.states.len().saturating_sub(1);
        }
    }

    fn served(&self, kind: &Kind) -> Result<(), WriteError> {
        if self.unserved.contains(&kind.kind) {
            return Err(WriteError::NoSuchKind(format!("{kind} is not served")));
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, write: &ChildWrite) -> Result<Json, WriteError> {
        let body: Value = write.body.read().unwrap();
        let (kind, name) = (&write.object.kind, &write.object.name);
        let namespace = write.object.namespace.as_deref().unwrap_or_default();
        let place = place(kind, namespace, name);
        self.counts.entry(name.clone()).or_default().applies += 1;
        self.served(kind)?;
        if let Some(error) = self.refused.get(name) {
            return Err(error.clone());
        }
        let uid = &body["metadata"]["uid"];
        let manager = (place.clone(), write.manager.clone());
        let had = self.fields.get(&manager).cloned().unwrap_or(json!({}));
        match self.get(&place).cloned() {
            None if !uid.is_null() => {
                return Err(WriteError::Refused("Precondition failed: UID".into()));
            }
            None if self.frozen.contains(&place.2) => {
                return Err(WriteError::Forbidden(
                    "the namespace is being terminated".into(),
                ));
            }
            None => {
                self.counts.entry(name.clone()).or_default().creates += 1;
                self.create(&place, body.clone());
            }
            Some(found) => {
                if !uid.is_null() && *uid != found["metadata"]["uid"] {
                    return Err(WriteError::Refused("Precondition failed: UID".into()));
                }
                if !write.force
                    && let Some(path) = conflict(&found, &had, &body, "")
                {
                    return Err(WriteError::Refused(format!(
                        "conflict with \"other\": {path}"
                    )));
                }
                let mut merged = found.clone();
                strip(&mut merged, &had, &body);
                merge(&mut merged, &body);
                if let Some(pointer) = self.immutable.get(&kind.kind)
                    && merged.pointer(pointer) != found.pointer(pointer)
                {
                    let why = format!("{name} is invalid: {pointer}: field is immutable");
                    return Err(WriteError::Invalid(why));
                }
                self.replace(&place, &found, merged);
            }
        }
        self.fields.insert(manager, body);
        Ok(Json::of(self.get(&place).unwrap()).unwrap())
    }

    pub(super) fn remove(&mut self, removal: &Removal) -> Result<bool, WriteError> {
        let object = &removal.object;
        self.served(&object.kind)?;
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let place = place(&object.kind, namespace, &object.name);
        let found = self.get(&place).cloned().ok_or(WriteError::NotFound)?;
        if found["metadata"]["uid"] != removal.uid.as_str() {
            return Err(WriteError::Conflict);
        }
        self.removed.push(object.name.clone());
        match &removal.way {
            Way::Delete => {
                self.counts.entry(object.name.clone()).or_default().deletes += 1;
                // With a late store nobody can tell who took the child over meanwhile; its uid is all there is to go by.
                self.deleted.extend((self.lag == 0).then_some(found));
                Ok(self.begin_deletion(&place))
            }
            Way::Unmark(patch) => {
                let mut after = found.clone();
                merge(&mut after, patch);
                self.replace(&place, &found, after);
                Ok(true)
            }
            Way::LetGo { body, manager } => {
                let had = self.fields.remove(&(place.clone(), manager.clone()));
                let mut after = found.clone();
                strip(&mut after, &had.unwrap_or(json!({})), &body.read().unwrap());
                self.replace(&place, &found, after);
                Ok(true)
            }
        }
    }

    pub(super) fn look(&mut self, object: &ObjectRef, own: &str) -> Result<Looked, WriteError> {
        self.served(&object.kind)?;
        let place = place(
            &object.kind,
            object.namespace.as_deref().unwrap_or(own),
            &object.name,
        );
        Ok(Looked {
            namespaced: !CLUSTER_SCOPED.contains(&object.kind.kind.as_str()),
            object: self.get(&place).map(|object| Json::of(object).unwrap()),
        })
    }

    /// What the store shows of a slot.
    fn shown<'a>(&self, slot: &'a Slot) -> Option<&'a Value> {
        let newest = slot.states.len().saturating_sub(1);
        let at = newest.saturating_sub(self.lag).max(slot.known);
        slot.states.get(at)?.as_ref()
    }

    pub(super) fn found(&self, child: &ChildRef) -> Found {
        if self.served(&child.kind).is_err() {
            return Found::Unknown(Cause::new("NoSuchKind", "it is not served"));
        }
        let texts = [
            child.kind.group(),
            &child.kind.kind,
            &child.namespace,
            &child.name,
        ];
        let place: Place = texts.map(str::to_owned).into();
        let shown = self.slots.get(&place).and_then(|slot| self.shown(slot));
        // One watch over all marked objects serves the marked ones.
        let watched =
            |object: &&Value| !child.marked || !object["metadata"]["labels"][OWNER_LABEL].is_null();
        shown.filter(watched).map_or(Found::Absent, |object| {
            Found::Object(Json::of(object).unwrap())
        })
    }

    pub(super) fn answer(&self, reading: &Reading) -> Answer {
        let Some(kind) = reading.source.kind() else {
            return Answer::Unavailable(Cause::new("Failed", "nothing answers"));
        };
        if self.served(kind).is_err() {
            return Answer::Unavailable(Cause::new("NoSuchKind", "it is not served"));
        }
        let of_kind = |place: &Place| place.0 == kind.group() && place.1 == kind.kind;
        let slots = self.slots.iter().filter(|(place, _)| of_kind(place));
        let objects: Vec<(ObjectKey, String)> = slots
            .filter_map(|(place, slot)| Some((place, self.shown(slot)?)))
            .map(|(place, object)| (ObjectKey::new(&place.2, &place.3), object.to_string()))
            .collect();
        needs::select(
            objects.iter().map(|(key, text)| (key, text.as_str())),
            reading,
        )
    }

    /// The garbage collector: what names owners none of which is there. An owner in a namespace is looked for in the child's
    /// (kubernetes#65200).
    pub(super) fn collect(&mut self, parents: &[(ObjectKey, String)]) {
        let lives = |owner: &Value, namespace: &str| {
            parents.iter().any(|(key, uid)| {
                owner["uid"] == uid.as_str()
                    && (key.namespace().is_empty() || key.namespace() == namespace)
            })
        };
        let lost = |place: &Place, object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let going = !object["metadata"]["deletionTimestamp"].is_null();
            owners.is_some_and(|owners| {
                !going && !owners.is_empty() && !owners.iter().any(|owner| lives(owner, &place.2))
            })
        };
        let all = self.all().filter(|(place, object)| lost(place, object));
        for place in all.map(|(place, _)| place.clone()).collect::<Vec<_>>() {
            self.begin_deletion(&place);
            self.changed.push(place);
        }
    }

    /// The server's own controllers: Deployments get their replicas, Jobs come to their end.
    pub(super) fn controllers(&mut self) {
        let due: Vec<_> = self
            .all()
            .filter(|(place, object)| {
                !self.slow.contains(&place.3) && object["metadata"]["deletionTimestamp"].is_null()
            })
            .filter_map(|(place, object)| {
                Some((place.clone(), object.clone(), worked(place, object)?))
            })
            .collect();
        for (place, before, status) in due {
            let mut after = before.clone();
            after["status"] = status;
            if after != before {
                self.replace(&place, &before, after);
                self.changed.push(place);
            }
        }
    }
}

fn worked(place: &Place, object: &Value) -> Option<Value> {
    let observed = &object["metadata"]["generation"];
    let available = json!({"type": "Available", "status": "True", "reason": "R"});
    Some(match place.1.as_str() {
        "Deployment" => {
            let replicas = object["spec"]["replicas"].as_i64().unwrap_or(1);
            json!({"observedGeneration": observed, "replicas": replicas, "updatedReplicas": replicas,
                "readyReplicas": replicas, "availableReplicas": replicas, "conditions": [available]})
        }
        "Job" => {
            json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True", "reason": "R"}]})
        }
        _ => return None,
    })
}

/// Members that say which object it is, and are nobody's to give up.
const IDENTITY: [&str; 5] = ["apiVersion", "kind", "name", "namespace", "uid"];

/// Takes out what a manager had applied and does not apply again.
fn strip(object: &mut Value, had: &Value, has: &Value) {
    let (Some(object), Some(had)) = (object.as_object_mut(), had.as_object()) else {
        return;
    };
    for (name, old) in had {
        match has.get(name) {
            None if IDENTITY.contains(&name.as_str()) => {}
            None if old.is_object() => {
                if let Some(inner) = object.get_mut(name) {
                    strip(inner, old, &json!({}));
                    if inner.as_object().is_some_and(serde_json::Map::is_empty) {
                        object.remove(name);
                    }
                }
            }
            None => drop(object.remove(name)),
            Some(new) => {
                if let Some(inner) = object.get_mut(name) {
                    strip(inner, old, new);
                }
            }
        }
    }
}

/// RFC 7386.
fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let map = object.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            map.remove(name);
        } else {
            merge(map.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Path of a value that somebody else holds and that would change.
fn conflict(found: &Value, had: &Value, body: &Value, path: &str) -> Option<String> {
    match (found, body) {
        (Value::Object(found), Value::Object(body)) => body.iter().find_map(|(name, value)| {
            let had = had.get(name).unwrap_or(&Value::Null);
            conflict(found.get(name)?, had, value, &format!("{path}.{name}"))
        }),
        _ => (found != body && had.is_null()).then(|| path.to_owned()),
    }
}
