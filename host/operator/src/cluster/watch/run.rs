//! The loop of a watch: carries out what the course says, and feeds the store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use guesthouse_core::identity::Identity;
use guesthouse_core::object::{Head, ObjectError, ObjectKey, Stamp, utf8};
use http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use jiff::Timestamp;
use kube::client::Body;
use tokio::sync::mpsc::UnboundedSender;

use super::course::{Attempt, Course, End};
use super::decode::{self, Kind, Lines, TooLong};
use super::{Event, KindState, Notice, Scope, Status, WatchId, WatchOptions};
use crate::cluster::error::{self, RequestError};
use crate::cluster::request::page;
use crate::cluster::resource::{Resource, encode};
use crate::cluster::store::Store;
use crate::cluster::transport::{Lane, Transport, unreachable};
use crate::crash;

/// What is watched, and by which way.
pub(super) struct Target {
    pub(super) id: WatchId,
    pub(super) transport: Transport,
    pub(super) lane: Lane,
    pub(super) identity: Identity,
    pub(super) resource: Arc<Resource>,
    pub(super) scope: Scope,
    pub(super) options: WatchOptions,
}

pub(super) struct Runner {
    target: Target,
    store: Arc<Store>,
    status: Arc<Status>,
    notices: UnboundedSender<Notice>,
    course: Course,
    scratch: String,
    /// Whether a streamed list is under way: its events come in no order of versions.
    listing: bool,
}

impl Runner {
    pub(super) fn new(
        target: Target,
        store: Arc<Store>,
        status: Arc<Status>,
        notices: UnboundedSender<Notice>,
    ) -> Self {
        let course = Course::new(target.options.clone());
        Self {
            target,
            store,
            status,
            notices,
            course,
            scratch: String::new(),
            listing: false,
        }
    }

    pub(super) async fn run(mut self) {
        while !self.notices.is_closed() {
            let attempt = self.course.attempt();
            let (done, result) = match &attempt {
                Attempt::Pages => (End::Listed, self.pages().await),
                Attempt::Stream => (End::Closed, self.stream(None).await),
                Attempt::Follow(version) => (End::Closed, self.stream(Some(version)).await),
            };
            let end = result.err().unwrap_or(done);
            if !matches!(end, End::Listed | End::Closed) {
                let kind = &self.target.resource.kind;
                tracing::debug!(target: "guesthouse::watch", %kind, ?attempt, ?end, "watch ended");
            }
            let (state, wait) = self.course.ended(end);
            if let Some(state) = state {
                if matches!(state, KindState::Absent | KindState::Gone) {
                    self.lose_all();
                }
                self.enter(state);
            }
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
        }
    }

    /// Follows from a version, or lists by streaming and follows. `Ok` if the server ended it in good order.
    async fn stream(&mut self, from: Option<&str>) -> Result<(), End> {
        self.listing = from.is_none();
        if self.listing {
            self.store.begin_round();
        }
        let mut body = self.open(from).await.map_err(End::Refused)?.into_body();
        if !self.listing {
            self.enter(KindState::Active);
        }
        let options = self.course.options();
        let (idle, mut lines) = (options.idle, Lines::new(options.line));
        loop {
            let frame = match tokio::time::timeout(idle, body.frame()).await {
                Err(_) => return Err(End::Silent),
                Ok(None) if lines.is_cut() => {
                    return Err(End::Cut("watch ended in the middle of an event".into()));
                }
                Ok(None) => return Ok(()),
                Ok(Some(Err(error))) => return Err(cut(&error)),
                Ok(Some(Ok(frame))) => frame,
            };
            if let Some(data) = frame.data_ref() {
                self.heard();
                lines.push(data, |line| self.take(line))?;
            }
        }
    }

    async fn open(&self, from: Option<&str>) -> Result<Response<Incoming>, RequestError> {
        let target = &self.target;
        let mut path = target.resource.collection(&target.scope.namespace)?;
        path.push_str("?watch=1&allowWatchBookmarks=true&timeoutSeconds=");
        path.push_str(&self.course.lifetime().to_string());
        match from {
            // Without a version, NotOlderThan means: at least as new as now.
            None => {
                path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
                if crash::is_mutant("list-from-cache") {
                    path.push_str("&resourceVersion=0");
                }
            }
            Some(version) => {
                path.push_str("&resourceVersion=");
                encode(&mut path, version);
            }
        }
        target.scope.push_query(&mut path);
        // Newer servers compress watches one gzip member an event: more work for both sides, and nothing smaller.
        let request = Request::get(path)
            .header(header::ACCEPT, target.options.view.accept())
            .header(header::ACCEPT_ENCODING, "identity")
            .body(Body::empty());
        let request = request.map_err(|error| RequestError::NotSent(error.to_string()))?;
        let response = target
            .transport
            .open(&target.identity, &target.lane, request)
            .await?;
        let code = response.status().as_u16();
        if code == 200 {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let limit = target.transport.options().request_timeout;
        let body = match tokio::time::timeout(limit, body.collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => return Err(unreachable(&error)),
            Err(_) => {
                return Err(RequestError::Unreachable(format!(
                    "status {code} without a body"
                )));
            }
        };
        Err(RequestError::from_answer(code, &parts.headers, &body))
    }

    /// Lists in pages. One page is held at a time.
    async fn pages(&mut self) -> Result<(), End> {
        self.store.begin_round();
        let mut token: Option<String> = None;
        loop {
            let Target {
                transport,
                identity,
                resource,
                scope,
                options,
                ..
            } = &self.target;
            let page = page(
                transport,
                identity,
                resource,
                scope,
                options.view,
                options.page,
                token.as_deref(),
            )
            .await;
            let page = page.map_err(End::Refused)?;
            self.heard();
            let items = page.read().map_err(End::Refused)?;
            for text in items.texts() {
                self.observe(text, false)?;
            }
            match items.next() {
                Some(next) => token = Some(next.to_owned()),
                None => return self.complete(items.resource_version()),
            }
        }
    }

    /// One line of a watch.
    fn take(&mut self, line: &[u8]) -> Result<(), End> {
        let (kind, object) = decode::event(line)?;
        match self.apply(kind, object) {
            // The object was cut out of the line unread; only a parse can tell whether the line or the cut was wrong.
            Err(End::Unreadable(_)) => {
                let (kind, object) = decode::careful(utf8(line)?)?;
                self.apply(kind, object)
            }
            result => result,
        }
    }

    fn apply(&mut self, kind: Kind, object: &str) -> Result<(), End> {
        match kind {
            Kind::Added | Kind::Modified => self.observe(object, !self.listing),
            Kind::Deleted => {
                let stamp = Stamp::parse(object)?;
                let key = self.store.forget(&stamp, &mut self.scratch);
                if !self.listing {
                    self.course.told(&stamp.resource_version);
                }
                key.into_iter()
                    .for_each(|key| self.tell(Event::Deleted { key }));
                Ok(())
            }
            Kind::Bookmark => {
                let head = Head::parse(object)?;
                if !self.listing {
                    self.store.bookmark(&head.resource_version);
                    self.course.told(&head.resource_version);
                } else if head
                    .annotations
                    .get("k8s.io/initial-events-end")
                    .is_some_and(|value| value == "true")
                {
                    self.complete(&head.resource_version)?;
                    self.listing = false;
                    self.enter(KindState::Active);
                }
                Ok(())
            }
            Kind::Error => {
                let code = match error::Status::parse(object.as_bytes()).code {
                    0 => 500,
                    code => code,
                };
                Err(End::Refused(RequestError::from_answer(
                    code,
                    &HeaderMap::new(),
                    object.as_bytes(),
                )))
            }
        }
    }

    fn observe(&mut self, text: &str, live: bool) -> Result<(), End> {
        let stamp = Stamp::parse(text)?;
        let told = self
            .store
            .observe(text, &stamp, &self.target.resource, live, &mut self.scratch);
        if live {
            self.course.told(&stamp.resource_version);
        }
        let initial = self.course.is_first();
        if told.news || initial {
            self.tell(Event::Changed {
                key: told.key,
                version: told.version,
                initial,
            });
        }
        Ok(())
    }

    /// A list is complete as of this version.
    fn complete(&mut self, version: &str) -> Result<(), End> {
        if version.is_empty() {
            return Err(End::Unreadable("list without a version".into()));
        }
        let gone = self.store.end_round(version).map_err(|_| End::Backwards)?;
        gone.into_iter()
            .for_each(|key| self.tell(Event::Deleted { key }));
        self.course.listed(version);
        self.status.lists.fetch_add(1, Ordering::Relaxed);
        self.status.synced.store(true, Ordering::Release);
        self.tell(Event::Synced);
        Ok(())
    }

    fn lose_all(&mut self) {
        self.status.synced.store(false, Ordering::Release);
        let keys: Vec<ObjectKey> = self.store.clear();
        keys.into_iter()
            .for_each(|key| self.tell(Event::Deleted { key }));
    }

    /// Tells of a state that is not the present one.
    fn enter(&self, state: KindState) {
        let mut now = self
            .status
            .state
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if *now != state {
            *now = state.clone();
            drop(now);
            self.tell(Event::State(state));
        }
    }

    fn tell(&self, event: Event) {
        // Nobody listens any more: the loop ends at its next turn.
        let _ = self.notices.send(Notice {
            watch: self.target.id,
            event,
        });
    }

    fn heard(&self) {
        self.status
            .last_event
            .store(Timestamp::now().as_millisecond(), Ordering::Relaxed);
    }
}

fn cut(error: &hyper::Error) -> End {
    match unreachable(error) {
        RequestError::Unreachable(message) => End::Cut(message),
        other => End::Refused(other),
    }
}

impl From<TooLong> for End {
    fn from(error: TooLong) -> Self {
        End::Unreadable(error.to_string())
    }
}

impl From<ObjectError> for End {
    fn from(error: ObjectError) -> Self {
        End::Unreadable(error.to_string())
    }
}
