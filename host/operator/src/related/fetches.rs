//! Outside facts: GET and HEAD answers, kept no longer than whoever asks finds fresh enough.
//!
//! One request at a time for each thing fetched, however many passes want it. A cache is one mapping's: two mappings may send
//! other credentials under the same name. Bounded; nothing is written down.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use guesthouse_core::{
    contract::{Answer, Cause},
    identity::Identity,
    keys::Hash,
    pass::Sent,
    plan::Send,
    queue::MappingId,
};
use tokio::time::Instant;

use crate::{credentials::Credentials, outgoing::Outgoing};

/// Things fetched that are remembered.
const ENTRIES: usize = 1024;
/// An answer is always fresh for so long: all rounds of a pass see the same, and a receiver that fails is not asked in a loop.
const LEAST: Duration = Duration::from_secs(1);

type Entry = Arc<tokio::sync::Mutex<Option<(Answer, Instant)>>>;

pub(super) struct Fetches {
    outgoing: Arc<Outgoing>,
    credentials: Arc<Credentials>,
    entries: Mutex<HashMap<String, (Entry, Instant)>>,
}

impl Fetches {
    pub(super) fn new(outgoing: Arc<Outgoing>, credentials: Arc<Credentials>) -> Self {
        Self {
            outgoing,
            credentials,
            entries: Mutex::default(),
        }
    }

    /// The answer to a request, at most `fresh` seconds old.
    pub(super) async fn get(
        &self,
        mapping: MappingId,
        identity: &Identity,
        send: &Send,
        fresh: u32,
    ) -> Answer {
        let entry = self.entry(name(mapping, send));
        let mut held = entry.lock().await;
        let age = Duration::from_secs(u64::from(fresh)).max(LEAST);
        if let Some((answer, at)) = &*held
            && at.elapsed() < age
        {
            return answer.clone();
        }
        let sends = std::slice::from_ref(send);
        let secrets = self.credentials.read(identity, sends).await;
        let sent = self.outgoing.send_all(sends, &secrets, None).await;
        let answer = match sent.into_iter().next() {
            Some(Sent::Answered { response, .. }) => Answer::Response(response),
            Some(Sent::Lost(cause) | Sent::NotSent(cause)) => {
                Answer::Unavailable(Cause::new("Failed", cause.message))
            }
            None => Answer::Unavailable(Cause::new("Failed", "nothing was sent")),
        };
        *held = Some((answer.clone(), Instant::now()));
        answer
    }

    fn entry(&self, name: String) -> Entry {
        let mut entries = self.lock();
        let now = Instant::now();
        if entries.len() >= ENTRIES && !entries.contains_key(&name) {
            // One that is being asked for is used by others: it lives on with them, only unshared.
            let oldest = entries
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(name, _)| name.clone());
            oldest.and_then(|oldest| entries.remove(&oldest));
        }
        let (entry, used) = entries
            .entry(name)
            .or_insert_with(|| (Entry::default(), now));
        *used = now;
        entry.clone()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Entry, Instant)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What makes one fetch another, its bounds included.
fn name(mapping: MappingId, send: &Send) -> String {
    let hash = Hash::of("fetch")
        .part(mapping.0.to_le_bytes())
        .part(&send.fingerprint)
        .part(send.timeout.0.to_le_bytes())
        .part(send.answer_body.0.to_le_bytes());
    let headers = send.answer_headers.iter();
    headers.fold(hash, |hash, name| hash.part(name)).hex()
}
