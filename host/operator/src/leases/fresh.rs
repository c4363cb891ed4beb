//! A new owner begins where the last one ended: its stores must hold what that one wrote.
//!
//! The store of a kind in which nothing happens learns of the passing of versions about once a minute (bookmarks), so its
//! version cannot be waited for. Instead the objects' versions are listed, metadata alone, and the store is waited for until
//! it holds them all. A new owner passes all of these objects anyway.

use std::{collections::HashMap, sync::Arc, time::Duration};

use guesthouse_core::{
    identity::Identity,
    object::{ObjectKey, Stamp, version_number},
};
use tokio::time::Instant;

use crate::cluster::{Api, RequestError, Resource, Scope, Store, View};

/// How long a store is waited for before what it lacks is read one by one.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A store and where it comes from.
pub(crate) struct Check {
    pub(crate) resource: Arc<Resource>,
    pub(crate) scope: Scope,
    pub(crate) store: Arc<Store>,
    /// The scope is all that the store holds: what is not listed is gone.
    pub(crate) whole: bool,
}

/// Waits until all are in step with a consistent read that begins now.
pub(crate) async fn in_step(api: &Api, checks: Vec<Check>) {
    for check in checks {
        while let Err(error) = check.wait(api).await {
            let kind = &check.resource.kind;
            tracing::warn!(%kind, %error, "what the last owner wrote cannot be listed yet");
            if matches!(error, RequestError::NotServed(_)) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

impl Check {
    async fn wait(&self, api: &Api) -> Result<(), RequestError> {
        let host = Identity::Host;
        let listed = api
            .list(
                &host,
                &self.resource,
                &self.scope,
                View::Metadata,
                usize::MAX,
            )
            .await?;
        let as_of = version_number(&listed.resource_version).unwrap_or(0);
        let mut wanted = HashMap::with_capacity(listed.items.len());
        for item in &listed.items {
            let stamp = Stamp::parse(item).map_err(crate::cluster::request::unreadable)?;
            let key = ObjectKey::new(&stamp.namespace, &stamp.name);
            wanted.insert(key, stamp.version().unwrap_or(0));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let behind = self.behind(&wanted, as_of);
            if behind.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                tracing::warn!(kind = %self.resource.kind, objects = behind.len(), "a store is behind; reading what it lacks");
                self.read(api, behind).await;
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What the store has in an older state than was listed.
    fn behind(&self, wanted: &HashMap<ObjectKey, u64>, as_of: u64) -> Vec<ObjectKey> {
        if as_of != 0 && self.store.version() >= as_of {
            return Vec::new();
        }
        let old = wanted.iter().filter(|(key, version)| {
            let held = self.store.get(key);
            // Gone since: the watch is past the list where it counts.
            held.is_none_or(|held| held.version().is_some_and(|held| held < **version))
        });
        let mut behind: Vec<_> = old.map(|(key, _)| key.clone()).collect();
        if self.whole {
            let extra = self.store.entries().into_iter().filter(|(key, entry)| {
                let listed = wanted.contains_key(key);
                !listed && entry.version().is_some_and(|version| version <= as_of)
            });
            behind.extend(extra.map(|(key, _)| key));
        }
        behind
    }

    /// Whatever cannot be read is met by its pass, which every write of names a version.
    async fn read(&self, api: &Api, behind: Vec<ObjectKey>) {
        for key in behind {
            let (namespace, name) = (key.namespace(), key.name());
            if let Ok(raw) = api
                .get(&Identity::Host, &self.resource, namespace, name)
                .await
            {
                let _ = self.store.absorb(raw.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, version: u64) -> String {
        format!(
            r#"{{"apiVersion":"g/v1","kind":"Thing","metadata":{{"namespace":"ns","name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#
        )
    }

    fn check(whole: bool) -> Check {
        Check {
            resource: Arc::new(crate::journals::resource()),
            scope: Scope::all(),
            store: Arc::default(),
            whole,
        }
    }

    #[test]
    fn a_store_is_in_step_when_it_holds_what_was_listed_or_its_watch_is_past_the_list() {
        let check = check(true);
        let key = |name: &str| ObjectKey::new("ns", name);
        let wanted = HashMap::from([(key("a"), 5), (key("b"), 7)]);
        let put = |name: &str, version| check.store.absorb(object(name, version).as_bytes());
        put("a", 5).unwrap();
        assert_eq!(check.behind(&wanted, 10), [key("b")], "absent");
        put("b", 6).unwrap();
        assert_eq!(check.behind(&wanted, 10), [key("b")], "an older state");
        put("b", 8).unwrap();
        assert!(
            check.behind(&wanted, 10).is_empty(),
            "a newer one is as good"
        );
        put("c", 4).unwrap();
        assert_eq!(check.behind(&wanted, 10), [key("c")], "gone at the server");
        check.store.bookmark("10");
        assert!(check.behind(&wanted, 10).is_empty());
    }

    #[test]
    fn a_part_of_a_store_says_nothing_about_what_else_it_holds() {
        let check = check(false);
        check.store.absorb(object("c", 4).as_bytes()).unwrap();
        assert!(check.behind(&HashMap::new(), 10).is_empty());
    }
}
