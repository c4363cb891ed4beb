//! Sees objects become Done, on a watch of its own.

use crate::api::Api;
use crate::jobs::PHASE_LABEL;
use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// When an object was first seen Done, and when with the label too.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) done: Instant,
    pub(crate) complete: Option<Instant>,
}

/// A watch that goes on until it is dropped.
pub(crate) struct Track {
    shared: Arc<Shared>,
    complete: watch::Receiver<usize>,
    task: JoinHandle<Result<()>>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<HashMap<String, Seen>>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, HashMap<String, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Track {
    /// Watches from the current version on.
    pub(crate) async fn start(api: &Api) -> Result<Self> {
        let (_, version) = api.count().await?;
        let shared = Arc::new(Shared::default());
        let (tell, complete) = watch::channel(0);
        let task = tokio::spawn(follow(api.clone(), version, shared.clone(), tell));
        Ok(Self {
            shared,
            complete,
            task,
        })
    }

    /// Waits until `n` objects are Done and labelled; fails if the watch does.
    pub(crate) async fn complete(&mut self, n: usize) -> Result<()> {
        tokio::select! {
            reached = self.complete.wait_for(|count| *count >= n) => {
                reached.context("the watch ended")?;
                Ok(())
            }
            ended = &mut self.task => ended?,
        }
    }

    /// How many are complete.
    pub(crate) fn count(&self) -> usize {
        *self.complete.borrow()
    }

    /// All that was seen, by name.
    pub(crate) fn seen(&self) -> HashMap<String, Seen> {
        self.shared.seen().clone()
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    type_: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    status: Status<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    labels: HashMap<&'a str, Cow<'a, str>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
}

/// The server ends the watch of a reader that falls behind: then it goes on from the last version seen.
async fn follow(
    api: Api,
    mut version: String,
    shared: Arc<Shared>,
    tell: watch::Sender<usize>,
) -> Result<()> {
    loop {
        let mut stream = api.watch(&version).await?;
        let mut buffer = Vec::new();
        while let Some(Ok(frame)) = stream.frame().await {
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let at = Instant::now();
            buffer.extend_from_slice(&data);
            let mut begin = 0;
            while let Some(end) = memchr::memchr(b'\n', &buffer[begin..]) {
                let line = &buffer[begin..begin + end];
                take(line, at, &shared, &tell, &mut version)?;
                begin += end + 1;
            }
            buffer.drain(..begin);
        }
    }
}

fn take(
    line: &[u8],
    at: Instant,
    shared: &Shared,
    tell: &watch::Sender<usize>,
    version: &mut String,
) -> Result<()> {
    let event: Event<'_> = serde_json::from_slice(line).context("read an event")?;
    if event.type_ == "ERROR" {
        bail!("the watch ended: {}", String::from_utf8_lossy(line));
    }
    let Object { metadata, status } =
        serde_json::from_str(event.object.get()).context("read an object")?;
    metadata.resource_version.as_ref().clone_into(version);
    if event.type_ == "DELETED" || status.phase != "Done" {
        return Ok(());
    }
    let labelled = metadata
        .labels
        .get(PHASE_LABEL)
        .is_some_and(|value| value == "done");
    let mut seen = shared.seen();
    let entry = seen
        .entry(metadata.name.into_owned())
        .or_insert_with(|| Seen {
            done: at,
            complete: None,
        });
    if labelled && entry.complete.is_none() {
        entry.complete = Some(at);
        tell.send_modify(|count| *count += 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_complete_with_phase_and_label_whichever_comes_first() {
        let (tell, complete) = watch::channel(0);
        let (shared, mut version) = (Shared::default(), String::new());
        let mut tell_of = |text: &str| {
            take(
                text.as_bytes(),
                Instant::now(),
                &shared,
                &tell,
                &mut version,
            )
            .unwrap();
            *complete.borrow()
        };
        let label_first = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"4","labels":{"workqueue.acme.io/phase":"done"}}}}"#;
        assert_eq!(tell_of(label_first), 0);
        let both = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"5","labels":{"workqueue.acme.io/phase":"done"}},"status":{"phase":"Done"}}}"#;
        assert_eq!(tell_of(both), 1);
        assert_eq!(tell_of(both), 1, "counted once");
        let phase_only = r#"{"type":"MODIFIED","object":{"metadata":{"name":"b","resourceVersion":"6"},"status":{"phase":"Done"}}}"#;
        assert_eq!(tell_of(phase_only), 1);
        assert_eq!(version, "6");
    }
}
