//! A watch on its way to the host, line by line.

use super::Shared;
use super::answer;
use super::request::Asked;
use super::rule::Fault;
use super::serve::{Closed, Out};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// How often a bookmark comes while events are held back.
const BOOKMARKS: Duration = Duration::from_millis(250);

/// A watch that has begun.
pub(super) struct Stream {
    pub(super) shared: Arc<Shared>,
    pub(super) asked: Asked,
    pub(super) cut: Arc<Notify>,
    pub(super) body: Incoming,
}

type To = mpsc::Sender<Result<Frame<Bytes>, Closed>>;

/// The body that the host reads; what feeds it ends when either side does.
pub(super) fn pump(stream: Stream) -> Out {
    let (to, mut from) = mpsc::channel(16);
    tokio::spawn(stream.run(to));
    let frames = futures::stream::poll_fn(move |context| from.poll_recv(context));
    BodyExt::boxed(StreamBody::new(frames))
}

/// What is next for a stream.
enum Next {
    Line(Bytes),
    /// The rules are others.
    Rules,
    Ended,
    Broken,
}

impl Stream {
    async fn run(mut self, to: To) {
        let mut changes = self.shared.changes.subscribe();
        let mut buffer = BytesMut::new();
        let mut last = Bytes::new();
        // The rules that were there before the stream count, too.
        let mut next = Next::Rules;
        loop {
            let line = match next {
                Next::Line(line) => Some(line),
                Next::Rules => None,
                Next::Ended => return,
                Next::Broken => return self.cut.notify_one(),
            };
            if let Some(struck) = self.struck(line.is_some()) {
                let (name, fault) = struck;
                match fault {
                    Fault::BookmarksOnly => {
                        if !self.hold(&name, &last, &to).await {
                            return;
                        }
                    }
                    fault => return self.end(fault, line, &to).await,
                }
            }
            if let Some(line) = line {
                last = line.clone();
                if to.send(Ok(Frame::data(line))).await.is_err() {
                    return;
                }
            }
            next = tokio::select! {
                next = next_line(&mut self.body, &mut buffer) => next,
                _ = changes.changed() => Next::Rules,
                () = to.closed() => return,
            };
        }
    }

    /// What befalls the stream now, and its note. A change of the rules alone cuts no line.
    fn struck(&self, has_line: bool) -> Option<(String, Fault)> {
        let mut rules = self.shared.rules();
        let (name, fault) = rules.stream(&self.asked)?;
        drop(rules);
        if fault == Fault::Truncated && !has_line {
            return None;
        }
        let mut asked = self.asked.clone();
        asked.rule = Some(name.clone());
        asked.at = crate::run::now_ms();
        asked.took = 0;
        asked.code = if fault == Fault::GoneInStream { 410 } else { 0 };
        self.shared.note(asked);
        Some((name, fault))
    }

    async fn end(self, fault: Fault, line: Option<Bytes>, to: &To) {
        match fault {
            Fault::GoneInStream => {
                let _ = to.send(Ok(Frame::data(answer::gone_event()))).await;
            }
            Fault::CutStream => {
                let _ = to.send(Err(Closed)).await;
                self.cut.notify_one();
            }
            Fault::Truncated => {
                let line = line.unwrap_or_default();
                let half = line.slice(..line.len() / 2);
                let _ = to.send(Ok(Frame::data(half))).await;
            }
            // Quiet: until the host gives it up.
            _ => to.closed().await,
        }
    }

    /// Sends bookmarks while the rule is in force; false when the host has gone. The server's events wait in its connection.
    async fn hold(&self, rule: &str, last: &Bytes, to: &To) -> bool {
        while self.shared.rules().is_in_force(rule) {
            if let Some(bookmark) = bookmark(last)
                && to.send(Ok(Frame::data(bookmark))).await.is_err()
            {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(BOOKMARKS) => {}
                () = to.closed() => return false,
            }
        }
        true
    }
}

/// The next line. Nothing is lost when it is dropped while it waits.
async fn next_line(body: &mut Incoming, buffer: &mut BytesMut) -> Next {
    loop {
        if let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            return Next::Line(buffer.split_to(end + 1).freeze());
        }
        match body.frame().await {
            None => return Next::Ended,
            Some(Err(_)) => return Next::Broken,
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    buffer.extend_from_slice(data);
                }
            }
        }
    }
}

/// One at the version of the last line, so that it claims nothing about what is held back.
fn bookmark(last: &Bytes) -> Option<Bytes> {
    let event: Value = serde_json::from_slice(last).ok()?;
    let object = &event["object"];
    let bookmark = json!({"type": "BOOKMARK", "object": {
        "apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"resourceVersion": object["metadata"]["resourceVersion"]},
    }});
    Some(Bytes::from(format!("{bookmark}\n")))
}
