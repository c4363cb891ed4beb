//! What API servers and networks do to a watch, each as a named scenario against the scripted server.

use std::collections::BTreeMap;
use std::time::Duration;

use guesthouse_core::identity::Identity;
use tokio::sync::mpsc;

use super::*;
use crate::cluster::scripted::{PATIENCE, Reply, Scripted};
use crate::cluster::transport::TransportOptions;

struct Play {
    server: Scripted,
    watch: Watch,
    notices: mpsc::UnboundedReceiver<Notice>,
}

/// Delays so short that a test does not wait for them, and an idle time that no working step comes near.
fn quick() -> WatchOptions {
    WatchOptions {
        idle: PATIENCE,
        poll: Duration::from_millis(1),
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(4),
        page: 2,
        line: 4096,
        ..WatchOptions::default()
    }
}

async fn play_with(options: WatchOptions, script: Vec<Reply>) -> Play {
    let server = Scripted::play(script).await;
    let (send, notices) = mpsc::unbounded_channel();
    let (group, version, kind, plural) = (
        "acme.io".into(),
        "v1".into(),
        "Thing".into(),
        "things".into(),
    );
    let resource = Arc::new(Resource {
        group,
        version,
        kind,
        plural,
        namespaced: true,
        has_status: true,
        crd: None,
    });
    let transport = server.transport(TransportOptions::default());
    let watch = Watch::spawn(
        WatchId(1),
        transport,
        Identity::Host,
        resource,
        Scope::namespace("ns"),
        options,
        send,
    );
    Play {
        server,
        watch,
        notices,
    }
}

async fn play(script: Vec<Reply>) -> Play {
    play_with(quick(), script).await
}

impl Play {
    /// The next events in words, as many as are expected.
    async fn expect(&mut self, want: &[&str]) {
        for (at, want) in want.iter().enumerate() {
            let notice = tokio::time::timeout(PATIENCE, self.notices.recv()).await;
            let notice = notice
                .unwrap_or_else(|_| panic!("event {at} `{want}` never came"))
                .unwrap();
            assert_eq!(notice.watch, WatchId(1));
            let got = match notice.event {
                Event::Changed {
                    key,
                    version,
                    initial: true,
                } => format!("initial {key} {version}"),
                Event::Changed {
                    key,
                    version,
                    initial: false,
                } => format!("changed {key} {version}"),
                Event::Deleted { key } => format!("deleted {key}"),
                Event::Synced => "synced".to_owned(),
                Event::State(KindState::Forbidden(text)) => format!("forbidden: {text}"),
                Event::State(KindState::Unreachable(_)) => "unreachable".to_owned(),
                Event::State(state) => format!("{state:?}").to_lowercase(),
            };
            assert_eq!(got, *want, "event {at}");
        }
    }

    /// The store's content, `name → version`.
    fn held(&self) -> BTreeMap<String, u64> {
        self.watch
            .store()
            .entries()
            .into_iter()
            .map(|(key, entry)| (key.name().to_owned(), entry.version().unwrap()))
            .collect()
    }

    fn holds(&self, want: &[(&str, u64)]) {
        assert_eq!(
            self.held(),
            want.iter()
                .map(|(name, version)| ((*name).to_owned(), *version))
                .collect()
        );
    }
}

fn object(name: &str, version: u64) -> String {
    format!(
        r#"{{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{{"name":"{name}","namespace":"ns","uid":"u-{name}","resourceVersion":"{version}"}}}}"#
    )
}

fn event(kind: &str, name: &str, version: u64) -> String {
    format!(r#"{{"type":"{kind}","object":{}}}"#, object(name, version))
}

fn bookmark(version: u64) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Thing","metadata":{{"resourceVersion":"{version}","creationTimestamp":null}}}}}}"#
    )
}

fn end_of_list(version: u64) -> String {
    format!(
        r#"{{"type":"BOOKMARK","object":{{"kind":"Thing","metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
    )
}

fn too_old() -> &'static str {
    r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#
}

/// A streamed list of these objects as of this version.
fn listing(objects: &[(&str, u64)], version: u64) -> Reply {
    let reply = objects
        .iter()
        .fold(Reply::watch(), |reply, (name, version)| {
            reply.line(&event("ADDED", name, *version))
        });
    reply.line(&end_of_list(version))
}

fn page(names: &[(&str, u64)], next: &str) -> Reply {
    let items: Vec<_> = names
        .iter()
        .map(|(name, version)| object(name, *version))
        .collect();
    Reply::json(
        200,
        &format!(
            r#"{{"metadata":{{"resourceVersion":"50","continue":"{next}"}},"items":[{}]}}"#,
            items.join(",")
        ),
    )
}

#[tokio::test]
async fn a_streamed_list_is_followed_on_the_same_connection() {
    let stream = listing(&[("a", 3), ("b", 5)], 10)
        .line(&event("MODIFIED", "a", 11))
        .line(&event("DELETED", "b", 12))
        .line(&event("ADDED", "c", 13));
    let mut play = play(vec![stream.silence()]).await;
    assert_eq!(play.watch.state(), KindState::Waiting);
    play.expect(&[
        "initial ns/a 3",
        "initial ns/b 5",
        "synced",
        "active",
        "changed ns/a 11",
        "deleted ns/b",
        "changed ns/c 13",
    ])
    .await;
    play.holds(&[("a", 11), ("c", 13)]);
    assert!(play.watch.is_synced() && play.watch.last_event().is_some());
    assert_eq!(
        (play.watch.state(), play.watch.lists()),
        (KindState::Active, 1)
    );
    let seen = play.server.seen().await;
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("GET", "/apis/acme.io/v1/namespaces/ns/things")
    );
    for (name, value) in [
        ("watch", "1"),
        ("sendInitialEvents", "true"),
        ("resourceVersionMatch", "NotOlderThan"),
        ("allowWatchBookmarks", "true"),
    ] {
        assert_eq!(seen.param(name), Some(value), "{name}");
    }
    assert_eq!(
        seen.param("resourceVersion"),
        None,
        "the most recent state, never any"
    );
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    let lifetime: u64 = seen.param("timeoutSeconds").unwrap().parse().unwrap();
    assert!((256..=320).contains(&lifetime));
}

#[tokio::test]
async fn an_end_in_good_order_goes_on_from_the_last_version_without_a_list() {
    let mut play = play(vec![
        listing(&[("a", 3)], 10).line(&event("MODIFIED", "a", 11)),
        Reply::watch().line(&bookmark(20)),
        Reply::watch().line(&event("ADDED", "b", 21)).silence(),
    ])
    .await;
    play.expect(&[
        "initial ns/a 3",
        "synced",
        "active",
        "changed ns/a 11",
        "changed ns/b 21",
    ])
    .await;
    let versions = [
        play.server.seen().await,
        play.server.seen().await,
        play.server.seen().await,
    ]
    .map(|seen| {
        assert_eq!(seen.param("allowWatchBookmarks"), Some("true"));
        (
            seen.param("resourceVersion").map(str::to_owned),
            seen.param("sendInitialEvents").is_some(),
        )
    });
    assert_eq!(
        versions,
        [
            (None, true),
            (Some("11".into()), false),
            (Some("20".into()), false)
        ]
    );
    assert_eq!(play.watch.lists(), 1);
}

/// yoke#152, kube-rs#1615: a 410 ends the watch, and reconciling stops in silence.
#[tokio::test]
async fn a_410_at_the_start_of_a_watch_leads_to_a_list_that_tells_what_went() {
    let mut play = play(vec![
        listing(&[("a", 3), ("b", 4)], 10),
        Reply::status(410, "too old"),
        listing(&[("b", 4), ("c", 15)], 20).silence(),
    ])
    .await;
    play.expect(&[
        "initial ns/a 3",
        "initial ns/b 4",
        "synced",
        "active",
        "changed ns/c 15",
        "deleted ns/a",
        "synced",
    ])
    .await;
    play.holds(&[("b", 4), ("c", 15)]);
    assert_eq!(play.watch.lists(), 2);
}

/// yoke#152, kube-rs#1615
#[tokio::test]
async fn a_410_inside_a_stream_leads_to_a_list_that_tells_what_went() {
    let mut play = play(vec![
        listing(&[("a", 3), ("b", 4)], 10).line(too_old()).silence(),
        listing(&[("a", 12)], 20).silence(),
    ])
    .await;
    play.expect(&[
        "initial ns/a 3",
        "initial ns/b 4",
        "synced",
        "active",
        "changed ns/a 12",
        "deleted ns/b",
        "synced",
    ])
    .await;
}

/// yoke#152, kube-rs#1615
#[tokio::test]
async fn a_410_for_a_continue_token_starts_the_list_again() {
    let mut play = play(vec![
        Reply::status(422, "sendInitialEvents is forbidden"),
        page(&[("a", 3), ("b", 4)], "next"),
        Reply::status(410, "continue token too old"),
        page(&[("a", 3), ("c", 5)], "next"),
        page(&[("d", 6)], ""),
        Reply::watch().line(&event("DELETED", "d", 51)).silence(),
    ])
    .await;
    play.expect(&[
        "initial ns/a 3",
        "initial ns/b 4",
        "initial ns/a 3",
        "initial ns/c 5",
        "initial ns/d 6",
    ])
    .await;
    play.expect(&["deleted ns/b", "synced", "active", "deleted ns/d"])
        .await;
    play.holds(&[("a", 3), ("c", 5)]);
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(play.server.seen().await);
    }
    for (at, token) in [(1, None), (2, Some("next")), (3, None), (4, Some("next"))] {
        assert_eq!(
            (seen[at].param("limit"), seen[at].param("continue")),
            (Some("2"), token),
            "page {at}"
        );
        assert_eq!(
            (
                seen[at].param("resourceVersion"),
                seen[at].param("resourceVersionMatch")
            ),
            (None, None),
            "page {at}"
        );
    }
    assert_eq!(seen[5].param("resourceVersion"), Some("50"));
}

#[tokio::test]
async fn a_refused_streamed_list_is_replaced_by_pages() {
    let mut play = play(vec![
        Reply::status(400, "unknown parameter"),
        page(&[("a", 3), ("b", 4)], "next"),
        page(&[("c", 5)], ""),
        Reply::watch().line(&event("MODIFIED", "b", 51)).silence(),
    ])
    .await;
    play.expect(&[
        "initial ns/a 3",
        "initial ns/b 4",
        "initial ns/c 5",
        "synced",
        "active",
        "changed ns/b 51",
    ])
    .await;
}

#[tokio::test]
async fn a_streamed_list_that_ends_before_its_end_is_replaced_by_pages() {
    let mut play = play(vec![
        Reply::watch().line(&event("ADDED", "a", 3)),
        page(&[("a", 3)], ""),
        Reply::watch().silence(),
    ])
    .await;
    play.expect(&["initial ns/a 3", "initial ns/a 3", "synced", "active"])
        .await;
}

/// kopf#698: a load balancer goes silent.
#[tokio::test]
async fn a_silent_connection_is_given_up_and_the_watch_goes_on_from_its_place() {
    let options = WatchOptions {
        idle: Duration::from_millis(30),
        ..quick()
    };
    let mut play = play_with(
        options,
        vec![
            listing(&[("a", 3)], 10).silence(),
            Reply::watch().line(&event("MODIFIED", "a", 11)).silence(),
        ],
    )
    .await;
    play.expect(&["initial ns/a 3", "synced", "active", "changed ns/a 11"])
        .await;
    play.server.seen().await;
    assert_eq!(
        play.server.seen().await.param("resourceVersion"),
        Some("10")
    );
    assert_eq!(play.watch.lists(), 1);
}

#[tokio::test]
async fn a_line_cut_in_the_middle_is_not_taken_and_asked_for_again() {
    let line = event("MODIFIED", "a", 11);
    for (cut, end) in [
        (true, line.len() / 2),
        (false, line.len() / 2),
        (true, 1),
        (true, line.len()),
    ] {
        let stream = listing(&[("a", 3)], 10).text(&line[..end]);
        let stream = if cut { stream.cut() } else { stream };
        let mut play = play(vec![stream, Reply::watch().line(&line).silence()]).await;
        play.expect(&[
            "initial ns/a 3",
            "synced",
            "active",
            "unreachable",
            "active",
            "changed ns/a 11",
        ])
        .await;
        play.server.seen().await;
        assert_eq!(
            play.server.seen().await.param("resourceVersion"),
            Some("10")
        );
    }
}

/// JOSDK#1419: rights that are taken and given back leave a dead watch.
#[tokio::test]
async fn missing_rights_are_shown_and_forgotten_when_they_come() {
    let mut play = play(vec![
        Reply::status(403, "things is forbidden"),
        Reply::status(401, "Unauthorized"),
        listing(&[("a", 3)], 10),
        Reply::status(403, "revoked"),
        Reply::watch().line(&event("ADDED", "b", 11)).silence(),
    ])
    .await;
    play.expect(&[
        "forbidden: things is forbidden",
        "forbidden: Unauthorized",
        "initial ns/a 3",
        "synced",
        "active",
    ])
    .await;
    play.expect(&["forbidden: revoked", "active", "changed ns/b 11"])
        .await;
    play.holds(&[("a", 3), ("b", 11)]);
}

/// kubernetes#74105, KubeOps#476, kro#1029: the kind is absent, deleted, made anew.
#[tokio::test]
async fn a_kind_may_come_late_go_and_come_again() {
    let mut play = play(vec![
        Reply::json(404, "404 page not found"),
        Reply::json(404, "404 page not found"),
        listing(&[("a", 3)], 10),
        Reply::json(404, "404 page not found"),
        Reply::json(404, "404 page not found"),
        listing(&[("a", 30)], 31).silence(),
    ])
    .await;
    play.expect(&[
        "absent",
        "initial ns/a 3",
        "synced",
        "active",
        "deleted ns/a",
        "gone",
        "initial ns/a 30",
        "synced",
        "active",
    ])
    .await;
    play.holds(&[("a", 30)]);
}

#[tokio::test]
async fn a_server_error_is_shown_and_the_place_kept() {
    let mut play = play(vec![
        Reply::status(500, "etcd"),
        listing(&[("a", 3)], 10)
            .line(r#"{"type":"ERROR","object":{"kind":"Status","message":"boom","code":500}}"#),
        Reply::watch().line(&event("ADDED", "b", 11)).silence(),
    ])
    .await;
    play.expect(&[
        "unreachable",
        "initial ns/a 3",
        "synced",
        "active",
        "unreachable",
        "active",
        "changed ns/b 11",
    ])
    .await;
    assert_eq!(play.watch.lists(), 1);
}

/// yoke#152: a watch that is dead without knowing shows by the age of the server's last word.
#[tokio::test]
async fn the_last_word_of_a_server_is_not_made_younger_by_asking_again() {
    let mut refused = play(vec![Reply::status(500, "etcd")]).await;
    refused.expect(&["unreachable"]).await;
    assert_eq!(refused.watch.last_event(), None, "a refusal tells nothing");
    let mut play = play(vec![listing(&[("a", 3)], 10).cut()]).await;
    play.expect(&["initial ns/a 3", "synced", "active"]).await;
    let heard = play.watch.last_event();
    assert!(heard.is_some());
    play.server.seen().await;
    play.server.seen().await;
    assert_eq!(play.watch.last_event(), heard);
}

#[tokio::test]
async fn an_event_longer_than_the_cap_leads_to_pages_not_to_memory() {
    let long = event("MODIFIED", &"x".repeat(5000), 11);
    let mut play = play(vec![
        listing(&[("a", 3)], 10).text(&long).silence(),
        page(&[("a", 12)], ""),
        Reply::watch().silence(),
    ])
    .await;
    play.expect(&[
        "initial ns/a 3",
        "synced",
        "active",
        "unreachable",
        "changed ns/a 12",
        "synced",
        "active",
    ])
    .await;
}

#[tokio::test]
async fn events_in_an_unusual_form_are_read_all_the_same() {
    let odd = format!(
        r#"{{"type":"ADDED","object":{},"more":{{}}}}"#,
        object("b", 11)
    );
    let turned = format!(
        r#"{{ "object" : {}, "type" : "MODIFIED" }}"#,
        object("a", 12)
    );
    let mut play = play(vec![
        listing(&[("a", 3)], 10).line(&odd).line(&turned).silence(),
    ])
    .await;
    play.expect(&[
        "initial ns/a 3",
        "synced",
        "active",
        "changed ns/b 11",
        "changed ns/a 12",
    ])
    .await;
    play.holds(&[("a", 12), ("b", 11)]);
}

#[tokio::test]
async fn an_own_write_taken_over_is_told_once_with_its_version() {
    let (stream, go) = listing(&[("a", 3)], 10).wait();
    let mut play = play(vec![stream.line(&event("MODIFIED", "a", 11)).silence()]).await;
    play.expect(&["initial ns/a 3", "synced", "active"]).await;
    play.watch
        .store()
        .absorb(object("a", 11).as_bytes())
        .unwrap();
    play.holds(&[("a", 11)]);
    go.send(()).unwrap();
    play.expect(&["changed ns/a 11"]).await;
}

#[tokio::test]
async fn a_dropped_watch_ends() {
    let mut play = play(vec![listing(&[("a", 3)], 10).silence()]).await;
    play.expect(&["initial ns/a 3", "synced", "active"]).await;
    let store = play.watch.store().clone();
    drop(play.watch);
    assert_eq!(
        tokio::time::timeout(PATIENCE, play.notices.recv())
            .await
            .unwrap(),
        None,
        "the sender is gone"
    );
    assert_eq!(store.len(), 1, "the store stays readable");
}
