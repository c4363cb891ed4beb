//! Kinds of related objects as the API server serves them, asked for once however many passes want to know.
//!
//! What is served is remembered for a short while; what is not is never remembered here: a kind may come at any moment.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use guesthouse_core::{contract::Kind, identity::Identity};
use tokio::time::Instant;

use crate::cluster::{Discovery, RequestError, Resource};

/// How long a kind is taken to be served as it was.
const TRUSTED: Duration = Duration::from_secs(30);

pub(super) struct Kinds {
    discovery: Discovery,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    served: HashMap<Kind, (Arc<Resource>, Instant)>,
    /// One question at a time for each kind.
    asking: HashMap<Kind, Arc<tokio::sync::Mutex<()>>>,
}

impl Kinds {
    pub(super) fn new(discovery: Discovery) -> Self {
        Self {
            discovery,
            state: Mutex::default(),
        }
    }

    /// What is served as this kind; none if nothing is. `watched`: a watch on it runs, which would have noticed its end.
    pub(super) async fn served(
        &self,
        kind: &Kind,
        watched: bool,
    ) -> Result<Option<Arc<Resource>>, RequestError> {
        if let Some(known) = self.known(kind, watched) {
            return Ok(Some(known));
        }
        let turn = self.lock().asking.entry(kind.clone()).or_default().clone();
        let result = {
            let _turn = turn.lock().await;
            // Whoever had the turn before may have brought the answer.
            match self.known(kind, watched) {
                Some(known) => Ok(Some(known)),
                None => self.ask(kind).await,
            }
        };
        let mut state = self.lock();
        // The map's own and this one: nobody else waits.
        if Arc::strong_count(&turn) <= 2 {
            state.asking.remove(kind);
        }
        result
    }

    /// Asks, whatever is known.
    pub(super) async fn ask(&self, kind: &Kind) -> Result<Option<Arc<Resource>>, RequestError> {
        let found = self
            .discovery
            .served(&Identity::Host, &kind.api_version, &kind.kind)
            .await?
            .map(Arc::new);
        let mut state = self.lock();
        match &found {
            Some(found) => {
                state
                    .served
                    .insert(kind.clone(), (found.clone(), Instant::now()));
            }
            None => {
                state.served.remove(kind);
            }
        }
        Ok(found)
    }

    /// What was served last, however long ago.
    pub(super) fn last(&self, kind: &Kind) -> Option<Arc<Resource>> {
        self.lock()
            .served
            .get(kind)
            .map(|(served, _)| served.clone())
    }

    /// The server answered 404 for the kind's path.
    pub(super) fn not_served(&self, kind: &Kind) {
        self.lock().served.remove(kind);
    }

    fn known(&self, kind: &Kind, watched: bool) -> Option<Arc<Resource>> {
        let state = self.lock();
        let (served, at) = state.served.get(kind)?;
        (watched || at.elapsed() < TRUSTED).then(|| served.clone())
    }

    // A panic while the lock is held cannot leave half an entry: a poisoned lock is as good as another.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
