//! Kinds: found by discovery, watched once per kind and scope however many mappings share them.
//!
//! A kind may be absent, come late, go and come back: each is a state of its own, and concerns the mappings on it alone.

use std::{collections::BTreeSet, sync::Arc};

use guesthouse_core::{
    contract::{EventType, Kind},
    identity::Identity,
    lease::Boot,
    life::State,
    mapping::Mapping,
    object::ObjectKey,
    pass::KindFacts,
    queue::{Key, MappingId, Why},
    schema::StatusSchema,
    time::Time,
    units::Span,
};

use super::{Resolved, Supervisor, kind_name};
use crate::{
    clock,
    cluster::{Event, KindState, Resource, Scope, Watch, WatchId, WatchOptions},
};

/// How often a kind that is not there is asked for.
const MISSING: Span = Span::from_secs(2);
/// How often the schema of one that is there is looked at.
const PRESENT: Span = Span::from_secs(15);

/// A kind in one namespace, or in all (empty).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindScope {
    pub(super) kind: Kind,
    pub(super) namespace: String,
}

/// What is known of it.
pub(super) struct KindRuntime {
    id: WatchId,
    users: BTreeSet<MappingId>,
    /// The kind as it is served, and its watch.
    pub(super) served: Option<Served>,
    pub(super) next_look: Time,
}

/// A kind that is served.
pub(super) struct Served {
    pub(super) resource: Arc<Resource>,
    pub(super) watch: Watch,
    /// When its first list was asked for.
    pub(super) since: Boot,
}

impl Supervisor {
    /// Adds a mapping to the users of a scope; the first one starts the search for it.
    pub(super) fn subscribe(&mut self, scope: &KindScope, mapping: MappingId) {
        let next = &mut self.next_watch;
        let kind = self.kinds.entry(scope.clone()).or_insert_with(|| {
            *next += 1;
            KindRuntime {
                id: WatchId(*next),
                users: BTreeSet::new(),
                served: None,
                next_look: Time(0),
            }
        });
        kind.users.insert(mapping);
    }

    /// Takes a mapping out again; without users the watch ends.
    pub(super) fn unsubscribe(&mut self, scope: &KindScope, mapping: MappingId) {
        if let Some(kind) = self.kinds.get_mut(scope) {
            kind.users.remove(&mapping);
            if kind.users.is_empty() {
                self.kinds.remove(scope);
            }
        }
    }

    /// Asks discovery for what is due.
    pub(super) fn look_at_kinds(&mut self, now: Time) {
        for (scope, kind) in self
            .kinds
            .iter_mut()
            .filter(|(_, kind)| kind.next_look <= now)
        {
            kind.next_look = now.after(if kind.served.is_some() {
                PRESENT
            } else {
                MISSING
            });
            let (discovery, scope, resolved) = (
                self.discovery.clone(),
                scope.clone(),
                self.channels.resolved.clone(),
            );
            tokio::spawn(async move {
                let result = discovery
                    .resolve(&Identity::Host, &scope.kind.api_version, &scope.kind.kind)
                    .await;
                let _ = resolved.send(Resolved { scope, result });
            });
        }
    }

    /// Discovery's answer.
    pub(super) fn resolved(&mut self, resolved: Resolved) {
        let scope = resolved.scope;
        let Some(kind) = self.kinds.get(&scope) else {
            return;
        };
        let users = kind.users.clone();
        let resource = match resolved.result {
            Ok(Some(resource)) => resource,
            Ok(None) => {
                if kind.served.is_none() {
                    let what = kind_name(&scope.kind);
                    self.trouble(&users, &format!("the kind {what} is not there yet; waiting for its CustomResourceDefinition"));
                }
                return;
            }
            Err(error) => {
                tracing::warn!(kind = kind_name(&scope.kind), %error, "discovery");
                return;
            }
        };
        if !resource.namespaced && !scope.namespace.is_empty() {
            self.trouble(
                &users,
                &format!(
                    "for.namespaces: {} is cluster-scoped",
                    kind_name(&scope.kind)
                ),
            );
            return;
        }
        self.serve_kind(&scope, resource);
        self.refresh(&users);
    }

    fn serve_kind(&mut self, scope: &KindScope, resource: Resource) {
        let (transport, notices) = (self.transport.clone(), self.channels.notices.clone());
        let Some(kind) = self.kinds.get_mut(scope) else {
            return;
        };
        let resource = Arc::new(resource);
        match &mut kind.served {
            Some(served) if *served.resource == *resource => {}
            // Another schema over the same objects: the watch goes on.
            Some(served) if served.resource.same_objects(&resource) => served.resource = resource,
            // New, or another kind under the old name.
            _ => {
                let at = if scope.namespace.is_empty() {
                    Scope::all()
                } else {
                    Scope::namespace(scope.namespace.clone())
                };
                let options = WatchOptions {
                    seed: kind.id.0,
                    ..WatchOptions::default()
                };
                let since = clock::boot();
                let watch = Watch::spawn(
                    kind.id,
                    transport,
                    Identity::Host,
                    resource.clone(),
                    at,
                    options,
                    notices,
                );
                kind.served = Some(Served {
                    resource,
                    watch,
                    since,
                });
                kind.next_look = clock::now().after(PRESENT);
            }
        }
    }

    /// An event of a mapped kind.
    pub(super) fn kind_noticed(&mut self, id: WatchId, event: Event) {
        let Some((scope, kind)) = self.kinds.iter_mut().find(|(_, kind)| kind.id == id) else {
            return;
        };
        let (scope, users) = (scope.clone(), kind.users.clone());
        match event {
            Event::Changed {
                key,
                version,
                initial,
            } => {
                let why = if initial { Why::Initial } else { Why::Event };
                self.push_object(
                    &scope,
                    &users,
                    &key,
                    why,
                    Some(version).filter(|version| *version != 0),
                );
            }
            Event::Deleted { key } => self.push_object(&scope, &users, &key, Why::Event, None),
            Event::Synced => self.refresh(&users),
            Event::State(state) => {
                tracing::info!(
                    kind = kind_name(&scope.kind),
                    namespace = scope.namespace,
                    state = state.name(),
                    "watch"
                );
                match state {
                    KindState::Gone | KindState::Absent => {
                        kind.served = None;
                        kind.next_look = clock::now().after(MISSING);
                        self.trouble(
                            &users,
                            &format!("the kind {} is not served any more", kind_name(&scope.kind)),
                        );
                    }
                    KindState::Forbidden(message) => {
                        self.trouble(
                            &users,
                            &format!("{} cannot be watched: {message}", kind_name(&scope.kind)),
                        );
                    }
                    KindState::Waiting | KindState::Active | KindState::Unreachable(_) => {}
                }
            }
        }
    }

    /// Queues an object under every mapping that uses its scope.
    fn push_object(
        &mut self,
        scope: &KindScope,
        users: &BTreeSet<MappingId>,
        key: &ObjectKey,
        why: Why,
        version: Option<u64>,
    ) {
        for id in users {
            let Some(runtime) = self.names.get(id).and_then(|name| self.mappings.get(name)) else {
                continue;
            };
            // Our own echo: the last pass knew this version.
            let known = runtime.keys.get(key).and_then(|state| state.version);
            if version
                .zip(known)
                .is_some_and(|(version, known)| version <= known)
            {
                continue;
            }
            let entry = self
                .kinds
                .get(scope)
                .and_then(|kind| kind.served.as_ref()?.watch.store().get(key));
            let push = runtime.push(entry.as_deref(), why, version);
            let key = Key {
                mapping: *id,
                object: key.clone(),
            };
            self.queue.push(&key, push, clock::now());
        }
    }

    /// Queues everything a mapping is about.
    pub(super) fn push_all(&mut self, name: &str, why: Why) {
        self.push_these(name, self.all_of(name), why);
    }

    /// Another plugin or mapping decides from now on: everything is looked at again, bit by bit.
    pub(super) fn begin_swap(&mut self, name: &str) {
        let all = self.all_of(name);
        if let Some(runtime) = self.mappings.get_mut(name) {
            runtime.swap.begin(all);
        }
        self.go_on_swapping(name);
    }

    /// Queues as many objects as there are places. What may not run yet takes none: it could be years.
    pub(super) fn go_on_swapping(&mut self, name: &str) {
        while let Some(runtime) = self.mappings.get_mut(name) {
            let next = runtime.swap.next(runtime.checked.mapping.concurrency);
            if next.is_empty() {
                return;
            }
            for object in self.push_these(name, next, Why::Swap) {
                if let Some(runtime) = self.mappings.get_mut(name) {
                    runtime.swap.ended(&object);
                }
            }
        }
    }

    /// The objects a mapping is about, and those of journals whose object may be gone.
    fn all_of(&self, name: &str) -> Vec<ObjectKey> {
        let Some(runtime) = self.mappings.get(name) else {
            return Vec::new();
        };
        let mut left = self.shop.journals.objects(name, &runtime.checked.kind);
        let (mut all, mut scopes) = (Vec::new(), Vec::new());
        for scope in &runtime.scopes {
            let Some(served) = self.kinds.get(scope).and_then(|kind| kind.served.as_ref()) else {
                continue;
            };
            let store = served.watch.store();
            all.extend(store.keys());
            left.retain(|object| store.get(object).is_none());
            scopes.push(&*scope.namespace);
        }
        // Of a namespace that the mapping has left nothing is known here.
        left.retain(|object| {
            scopes
                .iter()
                .any(|at| at.is_empty() || *at == object.namespace())
        });
        all.extend(left);
        all
    }

    /// Queues objects; returns those whose time has not come.
    fn push_these(&mut self, name: &str, objects: Vec<ObjectKey>, why: Why) -> Vec<ObjectKey> {
        let now = clock::now();
        let Some(runtime) = self.mappings.get(name) else {
            return Vec::new();
        };
        let mut later = Vec::new();
        for object in objects {
            let entry = self.entry(runtime, &object);
            let push = runtime.push(entry.as_deref(), why, None);
            if push.not_before.is_some_and(|at| now < at) {
                later.push(object.clone());
            }
            let mapping = runtime.id;
            self.queue.push(&Key { mapping, object }, push, now);
        }
        later
    }

    /// Says on the mappings' ConfigMaps what is wrong with their kind.
    fn trouble(&mut self, users: &BTreeSet<MappingId>, note: &str) {
        let places: Vec<_> = users
            .iter()
            .filter_map(|id| self.mappings.get(self.names.get(id)?))
            .map(|runtime| (runtime.place.clone(), runtime.checked.name.clone()))
            .collect();
        for (place, name) in places {
            self.stop_serving(&name);
            if !self.ownership.owns(&name) {
                continue;
            }
            self.tell(
                &place,
                EventType::Warning,
                "KindDegraded",
                format!("mapping {name}: {note}"),
            );
            self.stands(&name, State::Waiting, note);
        }
    }
}

/// What the rules need to know of a kind.
pub(crate) fn facts(resource: &Resource, mapping: &Mapping) -> KindFacts {
    let kind = &resource.kind;
    // Groups of Kubernetes itself have no dot, or end in k8s.io (API conventions).
    let built_in = !resource.group.contains('.') || resource.group.ends_with(".k8s.io");
    let takes_status = if !mapping.status {
        Err("the mapping says `status: false`: another one writes it".to_owned())
    } else if built_in && !mapping.grants.status {
        Err(format!(
            "{kind} is a built-in kind, whose status belongs to Kubernetes; to allow it all the same set `status: true` in `grants` of the mapping"
        ))
    } else if !resource.has_status {
        Err(format!(
            "{kind} has no status subresource; add `subresources: {{status: {{}}}}` to its CustomResourceDefinition"
        ))
    } else {
        Ok(())
    };
    let fingerprint = match &resource.crd {
        Some(crd) => format!(
            "{}/{}/{}/{}",
            resource.version, resource.has_status, crd.uid, crd.generation
        ),
        None => format!("{}/{}", resource.version, resource.has_status),
    };
    KindFacts {
        takes_status,
        schema: resource
            .crd
            .as_ref()
            .map_or_else(StatusSchema::unknown, |crd| crd.status()),
        fingerprint,
    }
}
