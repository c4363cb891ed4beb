//! Needs: by name, by selector, by mark, from outside.

use guesthouse_core::{
    contract::{Body, Request},
    plan::Send,
    units::{Bytes, Span},
};

use super::*;

/// policy-server#716, kube-rs#1768: what many read is watched once.
#[tokio::test]
async fn a_hundred_keys_that_read_the_same_share_one_watch_and_one_list() {
    let mut play = Play::quick().await;
    let (reply, go) = listing(&[object("a", 10)]).wait();
    play.reply(
        &format!("{NS} l=a"),
        reply.line(&event("MODIFIED", &object("a", 51))).silence(),
    );
    let reading = by_label("l=a");
    let all = (0..100).map(|of| play.read(of, &reading));
    let answers = futures::future::join_all(all).await;
    assert_eq!(answers, vec!["a".to_owned(); 100]);
    assert_eq!(play.asked(), [format!("{NS} l=a")]);
    assert_eq!(play.discoveries(), 1, "the kind is asked for once");
    go.send(()).unwrap();
    assert_eq!(
        play.woken().await,
        (0..100).collect::<Vec<_>>(),
        "one change wakes all of them at once"
    );
    assert_eq!(
        play.targets(),
        BTreeSet::from([r#"ns Labelled("l=a") 100"#.to_owned()])
    );
}

#[tokio::test]
async fn a_pass_can_run_on_any_thread_while_it_gathers() {
    fn is_send<T: std::marker::Send>(value: T) -> T {
        value
    }
    let play = Play::quick().await;
    play.reply(
        &format!("{NS} metadata.name=a"),
        listing(&[object("a", 10)]).silence(),
    );
    let key = key(1);
    let (reader, reads) = (reader(&key), needs_of(&[by_name("a")]));
    let gathered = is_send(play.related.gather(&reader, &reads)).await;
    assert_eq!(names(&gathered.answers[0]), "a");
}

#[tokio::test]
async fn an_object_that_is_absent_is_an_empty_list_and_wakes_when_it_appears() {
    let mut play = Play::quick().await;
    let (reply, go) = listing(&[]).wait();
    play.reply(
        &format!("{NS} metadata.name=a"),
        reply.line(&event("ADDED", &object("a", 51))).silence(),
    );
    assert_eq!(play.read(1, &by_name("a")).await, "");
    go.send(()).unwrap();
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.read(1, &by_name("a")).await, "a");
    assert_eq!(play.asked().len(), 1, "the second reading asks nobody");
}

#[tokio::test]
async fn an_object_that_leaves_the_selector_wakes_those_who_had_selected_it() {
    let mut play = Play::quick().await;
    let (reply, go) = listing(&[object("a", 10), object("b", 11)]).wait();
    // The server tells a watch by selector of a leaving object as of a deleted one.
    play.reply(
        &format!("{NS} l=a"),
        reply
            .line(&event("DELETED", &marked("a", 51, "other", "")))
            .silence(),
    );
    assert_eq!(play.read(1, &by_label("l=a")).await, "a b");
    go.send(()).unwrap();
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.read(1, &by_label("l=a")).await, "b");
}

#[tokio::test]
async fn a_change_wakes_only_those_who_read_it() {
    let mut play = Play::quick().await;
    let (reply, go_a) = listing(&[object("a", 10)]).wait();
    play.reply(
        &format!("{NS} metadata.name=a"),
        reply.line(&event("MODIFIED", &object("a", 51))).silence(),
    );
    let (reply, go_b) = listing(&[object("b", 11)]).wait();
    play.reply(
        &format!("{NS} metadata.name=b"),
        reply.line(&event("MODIFIED", &object("b", 52))).silence(),
    );
    play.read(1, &by_name("a")).await;
    play.read(2, &by_name("b")).await;
    go_b.send(()).unwrap();
    assert_eq!(play.woken().await, [2]);
    // From now on 1 reads nothing: only its own change could wake it.
    play.related.subscribe(&reader(&key(1)), &Gather::default());
    play.read(3, &by_name("a")).await;
    go_a.send(()).unwrap();
    assert_eq!(play.woken().await, [3]);
}

/// The window between reading and waiting.
#[tokio::test]
async fn a_change_between_the_reading_and_the_end_of_the_pass_wakes() {
    let mut play = Play::quick().await;
    let (reply, go) = listing(&[object("a", 10)]).wait();
    play.reply(
        &format!("{NS} metadata.name=a"),
        reply.line(&event("MODIFIED", &object("a", 51))).silence(),
    );
    let reads = needs_of(&[by_name("a")]);
    play.gather(1, &reads).await;
    go.send(()).unwrap();
    assert_eq!(
        play.woken().await,
        [1],
        "before the pass said what it wants to be woken by"
    );
}

#[tokio::test]
async fn a_watch_lasts_as_long_as_somebody_reads_from_it_and_a_grace_time_longer() {
    let play = Play::quick().await;
    play.reply(
        &format!("{NS} metadata.name=a"),
        listing(&[object("a", 10)]).silence(),
    );
    play.read(1, &by_name("a")).await;
    play.read(2, &by_name("a")).await;
    let held = |users: usize| BTreeSet::from([format!(r#"ns Named("a") {users}"#)]);
    let end_idle = |grace| play.related.shared.table().end_idle(grace);
    play.related.forget(&key(1));
    end_idle(Duration::ZERO);
    assert_eq!(play.targets(), held(1));
    play.related.forget_mapping(MappingId(2));
    end_idle(PATIENCE);
    assert_eq!(play.targets(), held(0), "within the grace time it goes on");
    play.read(1, &by_name("a")).await;
    end_idle(Duration::ZERO);
    assert_eq!(play.targets(), held(1), "a new reader takes it over");
    play.related.forget(&key(1));
    end_idle(Duration::ZERO);
    assert_eq!(play.targets(), BTreeSet::new());
    assert_eq!(play.asked().len(), 1);
}

/// policy-server#716: whole objects are held where their metadata is enough.
#[tokio::test]
async fn who_wants_metadata_alone_is_served_by_metadata_or_by_a_watch_that_has_more() {
    let play = Play::quick().await;
    let metadata = Reading {
        view: View::Metadata,
        ..by_label("l=a")
    };
    let partial = object("a", 10)
        .replace("acme.io/v1", "meta.k8s.io/v1")
        .replace("Thing", "PartialObjectMetadata");
    play.reply(&format!("{NS} l=a metadata"), listing(&[partial]).silence());
    play.reply(&format!("{NS} l=a"), listing(&[object("a", 10)]).silence());
    let reads = needs_of(std::slice::from_ref(&metadata));
    let Answer::Objects(found) = play.gather(1, &reads).await.answers.remove(0) else {
        panic!("it is listed");
    };
    assert!(
        found.items[0]
            .as_str()
            .starts_with(r#"{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{"name":"a""#)
    );
    play.read(2, &by_label("l=a")).await;
    play.related.forget(&key(1));
    play.related.shared.table().end_idle(Duration::ZERO);
    assert_eq!(play.read(1, &metadata).await, "a");
    assert_eq!(
        play.asked(),
        [format!("{NS} l=a metadata"), format!("{NS} l=a")]
    );
}

#[tokio::test]
async fn objects_of_all_keys_with_marks_come_from_one_watch_and_wake_their_own_key() {
    let mut play = Play::quick().await;
    let (reply, first) = listing(&[marked("a", 10, "a", "m1"), marked("b", 11, "a", "m2")]).wait();
    let reply = reply.line(&event("MODIFIED", &marked("b", 51, "a", "m2")));
    let (reply, second) = reply.wait();
    let reply = reply.line(&event("MODIFIED", &marked("a", 52, "a", "m2")));
    play.reply(&format!("{ALL} guesthouse.dev/owner"), reply.silence());
    let owned = |mark: &str| by_label(&format!("guesthouse.dev/owner={mark}"));
    assert_eq!(play.read(1, &owned("m1")).await, "a");
    assert_eq!(play.read(2, &owned("m2")).await, "b");
    assert_eq!(play.asked().len(), 1);
    first.send(()).unwrap();
    assert_eq!(play.woken().await, [2]);
    second.send(()).unwrap();
    assert_eq!(play.woken().await, [1, 2], "both who lost and who got it");
    assert_eq!(play.read(1, &owned("m1")).await, "");
    assert_eq!(play.read(2, &owned("m2")).await, "a b");
}

#[tokio::test]
async fn where_many_read_by_name_the_namespace_is_watched_as_a_whole() {
    let play = Play::quick().await;
    let name = |at: usize| format!("o{at}");
    for at in 0..table::CROWD {
        play.reply(
            &format!("{NS} metadata.name={}", name(at)),
            listing(&[]).silence(),
        );
        play.read(at as u32, &by_name(&name(at))).await;
    }
    play.reply(NS, listing(&[object("x", 10), object("y", 11)]).silence());
    assert_eq!(play.read(100, &by_name("x")).await, "x");
    assert_eq!(play.read(101, &by_name("y")).await, "y");
    assert_eq!(play.asked().len(), table::CROWD + 1);
}

/// A watch for each selection of thousands of objects would be thousands of streams.
#[tokio::test]
async fn where_many_select_differently_the_namespace_is_watched_and_selected_from_here() {
    let mut play = Play::quick().await;
    for at in 0..table::CROWD {
        let labels = format!("l=v{at}");
        play.reply(&format!("{NS} {labels}"), listing(&[]).silence());
        play.read(at as u32, &by_label(&labels)).await;
    }
    let (reply, go) = listing(&[marked("a", 10, "x", ""), marked("b", 11, "y", "")]).wait();
    let reply = reply.line(&event("MODIFIED", &marked("a", 51, "y", "")));
    play.reply(
        NS,
        reply
            .line(&event("MODIFIED", &marked("c", 52, "z", "")))
            .silence(),
    );
    assert_eq!(play.read(100, &by_label("l=x")).await, "a");
    assert_eq!(play.read(101, &by_label("l=y")).await, "b");
    assert_eq!(play.read(102, &by_label("l=z")).await, "");
    assert_eq!(play.asked().len(), table::CROWD + 1);
    go.send(()).unwrap();
    assert_eq!(
        play.woken().await,
        [100, 101],
        "both whom it left and whom it came to"
    );
    assert_eq!(play.woken().await, [102]);
    assert_eq!(play.read(100, &by_label("l=x")).await, "");
    assert_eq!(play.read(101, &by_label("l=y")).await, "a b");
}

/// kubeopencode#298: where the wider watch is forbidden, the narrow one must do.
#[tokio::test]
async fn where_the_namespace_may_not_be_listed_a_name_is_still_read_by_itself() {
    let play = Play::quick().await;
    for at in 0..table::CROWD {
        let name = format!("o{at}");
        play.reply(
            &format!("{NS} metadata.name={name}"),
            listing(&[]).silence(),
        );
        play.read(at as u32, &by_name(&name)).await;
    }
    play.reply(NS, Reply::status(403, "no list"));
    play.reply(
        &format!("{NS} metadata.name=x"),
        listing(&[object("x", 10)]).silence(),
    );
    assert_eq!(play.read(100, &by_name("x")).await, "x");
}

fn fetch(url: String, fresh: u32) -> Gather {
    let request = Request {
        method: "GET".into(),
        url,
        headers: vec![],
        body: Body::Empty,
        credential: None,
        timeout: None,
    };
    let send = Send {
        effect: "f".into(),
        key: None,
        idempotency_key: String::new(),
        at_most_once: false,
        credential: None,
        fingerprint: request.url.clone(),
        request,
        timeout: Span::from_secs(20),
        answer_headers: vec![],
        answer_body: Bytes(64),
        after: vec![],
    };
    needs_of(&[Reading {
        name: "f".into(),
        source: ReadSource::Fetch {
            send: Box::new(send),
            fresh,
        },
        view: View::Full,
        limit: 1,
    }])
}

#[tokio::test]
async fn a_fetch_is_made_once_for_all_who_want_it_and_shown_whatever_its_code() {
    let play = Play::quick().await;
    play.reply("/fact", Reply::json(404, "nothing here"));
    let reads = fetch(play.server.url("/fact"), 60);
    let (key, other) = (
        key(1),
        Key {
            object: ObjectKey::new("ns", "other"),
            ..key(1)
        },
    );
    let (first, second) = (reader(&key), reader(&other));
    let (first, second) = tokio::join!(
        play.related.gather(&first, &reads),
        play.related.gather(&second, &reads)
    );
    assert_eq!(first.answers, second.answers);
    assert_eq!(names(&first.answers[0]), "404");
    assert_eq!(play.gather(1, &reads).await.answers, first.answers);
    assert_eq!(play.asked(), ["/fact"]);
    assert_eq!(play.discoveries(), 0);
    // Another mapping may send another credential under the same name.
    play.reply("/fact", Reply::json(200, "here"));
    assert_eq!(names(&play.gather(2, &reads).await.answers[0]), "200");
}

#[tokio::test]
async fn a_fetch_without_an_answer_is_unavailable() {
    let play = Play::quick().await;
    play.reply("/fact", Reply::watch().cut());
    let gathered = play.gather(1, &fetch(play.server.url("/fact"), 0)).await;
    assert_eq!(names(&gathered.answers[0]), "Failed");
}
