//! Children: one watch for all, and no pass for what the pass itself wrote.

use super::*;

const OWNED: &str = "/apis/acme.io/v1/things guesthouse.dev/owner";

fn found(gathered: &Gathered) -> Vec<String> {
    let name = |found: &Found| match found {
        Found::Object(json) => {
            let head = Head::parse(json.as_str()).unwrap();
            format!("{} {}", head.name, head.resource_version)
        }
        Found::Absent => "absent".to_owned(),
        Found::Unknown(cause) => cause.reason.clone(),
    };
    gathered.children.iter().map(name).collect()
}

#[tokio::test]
async fn an_own_write_and_its_echo_wake_nobody_but_others_who_read_it() {
    let mut play = Play::quick().await;
    let (reply, first) = listing(&[object("a", 10)]).wait();
    let (reply, second) = reply.line(&event("MODIFIED", &object("a", 51))).wait();
    play.reply(
        OWNED,
        reply.line(&event("MODIFIED", &object("a", 52))).silence(),
    );
    let reads = children_of(&["a", "b"]);
    play.related.absorb(&key(1), &thing(), &object("a", 10));
    play.related.absorb(&key(1), &thing(), &object("a", 51));
    assert_eq!(found(&play.gather(2, &reads).await), ["a 10", "absent"]);
    assert_eq!(found(&play.gather(1, &reads).await), ["a 10", "absent"]);
    play.related.subscribe(&reader(&key(1)), &reads);
    play.related.subscribe(&reader(&key(2)), &reads);
    first.send(()).unwrap();
    assert_eq!(play.woken().await, [2], "what 1 wrote is news to 2 alone");
    second.send(()).unwrap();
    assert_eq!(
        play.woken().await,
        [1, 2],
        "what somebody else wrote is news to both"
    );
    assert_eq!(play.asked(), [OWNED]);
}

#[tokio::test]
async fn a_first_list_that_shows_what_was_written_is_no_news_and_anything_else_is() {
    let mut play = Play::quick().await;
    let (reply, go) = Reply::watch().wait();
    let listed = [object("changed", 12), object("same", 11)];
    let reply = listed
        .iter()
        .fold(reply, |reply, object| reply.line(&event("ADDED", object)));
    let end = end_of_list();
    play.reply(OWNED, reply.line(&end).silence());
    for (of, name) in [(1, "same"), (2, "changed"), (3, "gone")] {
        play.related.absorb(&key(of), &thing(), &object(name, 11));
    }
    // The kind is known to whoever wrote one.
    play.related.resource(&thing()).await.unwrap();
    for (of, name) in [(1, "same"), (2, "changed"), (3, "gone")] {
        play.related
            .subscribe(&reader(&key(of)), &children_of(&[name]));
    }
    go.send(()).unwrap();
    let mut woken = play.woken().await;
    woken.sort_unstable();
    assert_eq!(woken, [2, 3]);
}

#[tokio::test]
async fn what_happened_to_a_new_child_before_the_pass_ended_wakes_it() {
    let mut play = Play::quick().await;
    let (reply, go) = listing(&[object("x", 10)]).wait();
    let reply = reply
        .line(&event("ADDED", &object("a", 51)))
        .line(&event("MODIFIED", &object("a", 52)));
    play.reply(
        OWNED,
        reply.line(&event("MODIFIED", &object("x", 53))).silence(),
    );
    play.gather(1, &children_of(&["x"])).await;
    play.gather(2, &children_of(&["x"])).await;
    play.related.absorb(&key(1), &thing(), &object("a", 51));
    go.send(()).unwrap();
    // The watch is past the child's change by others, of which 1 was not told: it is registered for it only now.
    assert_eq!(play.woken().await, [1, 2]);
    play.related
        .subscribe(&reader(&key(1)), &children_of(&["a", "x"]));
    assert_eq!(play.woken().await, [1]);
    assert_eq!(found(&play.gather(1, &children_of(&["a"])).await), ["a 52"]);
}

#[tokio::test]
async fn an_own_write_is_in_the_store_before_the_watch_tells_and_only_where_it_belongs() {
    let play = Play::quick().await;
    play.reply(OWNED, listing(&[object("a", 10)]).silence());
    play.reply(&format!("{NS} l=a"), listing(&[object("a", 10)]).silence());
    let reads = Gather {
        readings: vec![by_label("l=a")],
        ..children_of(&["a", "b", "c"])
    };
    play.gather(1, &reads).await;
    play.related.absorb(&key(1), &thing(), &object("b", 60));
    play.related
        .absorb(&key(1), &thing(), &marked("c", 61, "other", "mark"));
    play.related
        .absorb(&key(1), &thing(), &marked("a", 62, "other", "mark"));
    play.related.absorb(&key(1), &thing(), "no object");
    let gathered = play.gather(1, &reads).await;
    assert_eq!(found(&gathered), ["a 62", "b 60", "c 61"]);
    assert_eq!(names(&gathered.answers[0]), "b");
}

/// humio-operator#305, kubeopencode#298: one watch per namespace and no cluster-scope call.
#[tokio::test]
async fn a_mapping_of_single_namespaces_asks_nothing_of_the_cluster_as_a_whole() {
    let play = Play::quick().await;
    let owned = format!("{NS} guesthouse.dev/owner");
    play.reply(&owned, listing(&[object("a", 10)]).silence());
    let key = key(1);
    let gathered = play
        .related
        .gather(&confined(&key), &children_of(&["a"]))
        .await;
    assert_eq!(found(&gathered), ["a 10"]);
    play.related
        .subscribe(&confined(&key), &children_of(&["a"]));
    assert_eq!(play.asked(), [owned]);
}

#[tokio::test]
async fn where_the_cluster_as_a_whole_is_forbidden_the_namespace_is_watched() {
    let play = Play::quick().await;
    let owned = format!("{NS} guesthouse.dev/owner");
    play.reply(OWNED, Reply::status(403, "no list at the cluster scope"));
    play.reply(&owned, listing(&[object("a", 10)]).silence());
    assert_eq!(found(&play.gather(1, &children_of(&["a"])).await), ["a 10"]);
}

#[tokio::test]
async fn a_child_without_a_mark_is_watched_by_its_name() {
    let mut play = Play::quick().await;
    let (reply, go) = listing(&[marked("a", 10, "a", "")]).wait();
    let reply = reply.line(&event("DELETED", &marked("a", 51, "a", "")));
    play.reply(&format!("{NS} metadata.name=a"), reply.silence());
    let mut reads = children_of(&["a"]);
    reads.children[0].marked = false;
    assert_eq!(found(&play.gather(1, &reads).await), ["a 10"]);
    go.send(()).unwrap();
    assert_eq!(play.woken().await, [1]);
    assert_eq!(found(&play.gather(1, &reads).await), ["absent"]);
}
