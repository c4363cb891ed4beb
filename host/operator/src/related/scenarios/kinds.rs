//! Kinds and rights that come late, go, and come back.

use super::*;

#[tokio::test]
async fn a_kind_that_is_not_there_is_said_so_and_wakes_when_it_comes() {
    let mut play = Play::quick().await;
    play.serves(&[]);
    assert_eq!(play.read(1, &by_name("a")).await, "NoSuchKind");
    assert_eq!(play.asked(), [""; 0]);
    play.reply(
        &format!("{NS} metadata.name=a"),
        listing(&[object("a", 10)]).silence(),
    );
    play.serves(&[THINGS]);
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.read(1, &by_name("a")).await, "a");
}

#[tokio::test]
async fn a_kind_that_goes_wakes_its_readers_and_again_when_it_comes_back() {
    let mut play = Play::quick().await;
    let (reply, go) = listing(&[object("a", 10)]).wait();
    play.reply(&format!("{NS} metadata.name=a"), reply);
    assert_eq!(play.read(1, &by_name("a")).await, "a");
    play.serves(&[]);
    play.reply(
        &format!("{NS} metadata.name=a"),
        Reply::json(404, "404 page not found"),
    );
    go.send(()).unwrap();
    // Of the object that went with it, and of the kind.
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.read(1, &by_name("a")).await, "NoSuchKind");
    play.reply(
        &format!("{NS} metadata.name=a"),
        listing(&[object("a", 60)]).silence(),
    );
    play.serves(&[THINGS]);
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.read(1, &by_name("a")).await, "a");
}

/// JOSDK#1419: rights that come are noticed without a restart.
#[tokio::test]
async fn what_is_forbidden_is_denied_with_the_servers_words_and_wakes_when_it_is_granted() {
    let mut play = Play::quick().await;
    play.reply(
        &format!("{NS} l=a"),
        Reply::status(403, "things is forbidden"),
    );
    // The next try is let in, and its list held back until the test has looked.
    let (late, go) = Reply::watch().wait();
    let late = late.line(&event("ADDED", &object("a", 10)));
    play.reply(&format!("{NS} l=a"), late.line(&end_of_list()).silence());
    let reads = needs_of(&[by_label("l=a")]);
    let gathered = play.gather(1, &reads).await;
    let Answer::Unavailable(cause) = &gathered.answers[0] else {
        panic!("{gathered:?}");
    };
    let said = (cause.reason.as_str(), cause.message.as_str());
    assert_eq!(said, ("Denied", "things is forbidden"));
    play.related.subscribe(&reader(&key(1)), &reads);
    go.send(()).unwrap();
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.read(1, &by_label("l=a")).await, "a");
}

/// JOSDK#1419
#[tokio::test]
async fn rights_that_are_taken_wake_the_readers_who_are_then_denied() {
    let mut play = Play::quick().await;
    let (reply, go) = listing(&[object("a", 10)]).wait();
    play.reply(&format!("{NS} l=a"), reply);
    assert_eq!(play.read(1, &by_label("l=a")).await, "a");
    play.reply(&format!("{NS} l=a"), Reply::status(403, "not any more"));
    go.send(()).unwrap();
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.read(1, &by_label("l=a")).await, "Denied");
}

#[tokio::test]
async fn what_is_not_listed_in_time_is_unavailable_and_wakes_once_it_is() {
    let mut play = Play::new(RelatedOptions {
        wait: Duration::ZERO,
        ..options()
    })
    .await;
    let (reply, go) = Reply::watch().wait();
    let end = end_of_list();
    play.reply(
        &format!("{NS} l=a"),
        reply
            .line(&event("ADDED", &object("a", 10)))
            .line(&end)
            .silence(),
    );
    assert_eq!(play.read(1, &by_label("l=a")).await, "Failed");
    go.send(()).unwrap();
    assert_eq!(play.woken().await, [1]);
    assert_eq!(play.read(1, &by_label("l=a")).await, "a");
}

#[tokio::test]
async fn an_api_server_that_fails_is_no_missing_kind() {
    let mut play = Play::quick().await;
    let other = Kind {
        api_version: "other.io/v1".into(),
        kind: "Other".into(),
    };
    let reading = Reading {
        source: ReadSource::Object {
            kind: other,
            namespace: "ns".into(),
            name: "a".into(),
        },
        ..by_name("a")
    };
    play.reply("/apis/other.io/v1", Reply::status(500, "down"));
    play.reply("/apis/other.io/v1", discovery(&[("Other", "others", true)]));
    assert_eq!(play.read(1, &reading).await, "Failed");
    assert_eq!(play.woken().await, [1]);
}

#[tokio::test]
async fn a_look_goes_to_the_server_in_the_right_scope_or_says_why_not() {
    let play = Play::quick().await;
    let look = |kind: &str, namespace: Option<&str>| {
        let object = ObjectRef {
            kind: Kind {
                kind: kind.into(),
                ..thing()
            },
            namespace: namespace.map(Into::into),
            name: "a".into(),
        };
        let play = &play;
        async move { play.related.look(&reader(&key(1)), &object).await }
    };
    play.reply(&format!("{NS}/a"), Reply::json(200, &object("a", 10)));
    let found = look("Thing", None).await.unwrap();
    assert!(found.namespaced);
    assert_eq!(found.object.unwrap().as_str(), object("a", 10));
    let absent = r#"{"kind":"Status","code":404,"message":"m","details":{"name":"a"}}"#;
    play.reply("/apis/acme.io/v1/worlds/a", Reply::json(404, absent));
    let found = look("World", Some("ns")).await.unwrap();
    assert_eq!((found.namespaced, found.object), (false, None));
    assert!(matches!(
        look("Nothing", None).await,
        Err(WriteError::NoSuchKind(_))
    ));
    // The kind went since: 404 of the path is the kind's, and it is asked for anew.
    play.reply(&format!("{NS}/a"), Reply::json(404, "404 page not found"));
    assert!(matches!(
        look("Thing", None).await,
        Err(WriteError::NoSuchKind(_))
    ));
    let before = play.discoveries();
    play.reply(&format!("{NS}/a"), Reply::status(403, "m"));
    assert_eq!(
        look("Thing", None).await,
        Err(WriteError::Forbidden("m".into()))
    );
    assert_eq!(play.discoveries(), before + 1);
}
