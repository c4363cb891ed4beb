use super::*;

fn resource() -> Resource {
    let (group, version, kind, plural) = (
        "acme.io".into(),
        "v1".into(),
        "Thing".into(),
        "things".into(),
    );
    Resource {
        group,
        version,
        kind,
        plural,
        namespaced: true,
        has_status: true,
        crd: None,
    }
}

fn object(name: &str, uid: &str, version: &str, note: &str) -> String {
    format!(
        r#"{{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{{"name":"{name}","namespace":"ns","uid":"{uid}","resourceVersion":"{version}","managedFields":[1]}},"spec":"{note}"}}"#
    )
}

/// A store driven by words: what the watch tells and what the host writes.
struct Play {
    store: Store,
    scratch: String,
}

impl Play {
    fn new() -> Self {
        Self {
            store: Store::default(),
            scratch: String::new(),
        }
    }

    fn tell(&mut self, live: bool, name: &str, uid: &str, version: &str) -> bool {
        let text = object(name, uid, version, "told");
        let stamp = Stamp::parse(&text).unwrap();
        self.store
            .observe(&text, &stamp, &resource(), live, &mut self.scratch)
            .news
    }

    fn list(
        &mut self,
        version: &str,
        objects: &[(&str, &str, &str)],
    ) -> Result<Vec<String>, Backwards> {
        self.store.begin_round();
        for (name, uid, version) in objects {
            self.tell(false, name, uid, version);
        }
        self.store.end_round(version).map(|mut keys| {
            keys.sort();
            keys.iter().map(|key| key.name().to_owned()).collect()
        })
    }

    fn delete(&mut self, name: &str, uid: &str, version: &str) -> bool {
        let text = object(name, uid, version, "deleted");
        self.store
            .forget(&Stamp::parse(&text).unwrap(), &mut self.scratch)
            .is_some()
    }

    fn own(&mut self, name: &str, uid: &str, version: &str) -> Absorbed {
        self.store
            .absorb(object(name, uid, version, "own").as_bytes())
            .unwrap()
    }

    /// `uid version who`, or nothing.
    fn held(&self, name: &str) -> String {
        let Some(entry) = self.store.get(&ObjectKey::new("ns", name)) else {
            return String::new();
        };
        let who = entry.raw().rsplit('"').nth(1).unwrap();
        format!("{} {} {who}", entry.uid(), entry.version)
    }
}

/// policy-server#716: a cache of many objects runs out of memory.
#[test]
fn an_object_is_held_as_its_text_without_managed_fields() {
    let mut play = Play::new();
    assert!(play.tell(true, "a", "u", "5"));
    let entry = play.store.get(&ObjectKey::new("ns", "a")).unwrap();
    assert_eq!(
        entry.raw(),
        object("a", "u", "5", "told").replace(r#","managedFields":[1]"#, "")
    );
    assert_eq!(
        (entry.version(), entry.generation(), entry.is_deleting()),
        (Some(5), 0, false)
    );
    assert_eq!((play.store.len(), play.store.version()), (1, 5));
}

#[test]
fn an_object_of_a_list_without_apiversion_and_kind_gets_them() {
    for (text, want) in [
        (
            r#"{"metadata":{"name":"a"},"x":1}"#,
            r#"{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{"name":"a"},"x":1}"#,
        ),
        (
            r#" { "metadata" : {"managedFields":[],"name":"a"}}"#,
            r#"{"apiVersion":"acme.io/v1","kind":"Thing", "metadata" : {"name":"a"}}"#,
        ),
        (r#"{}"#, r#"{"apiVersion":"acme.io/v1","kind":"Thing"}"#),
    ] {
        let parts = typed(text, &resource(), &Stamp::parse(text).unwrap());
        assert_eq!(&*join(&[&parts.0, parts.1, parts.2]), want);
    }
}

/// kopf#729, GCP/metacontroller#201: the next pass sees the status from before our own write.
#[test]
fn an_own_write_is_seen_before_the_watch_tells_and_not_undone_by_older_events() {
    let mut play = Play::new();
    play.list("10", &[("a", "u", "10")]).unwrap();
    assert_eq!(play.own("a", "u", "12"), Absorbed::Taken);
    assert_eq!(play.held("a"), "u 12 own");
    assert!(
        play.tell(true, "a", "u", "11"),
        "an older event is news all the same: somebody else wrote"
    );
    assert_eq!(play.held("a"), "u 12 own");
    assert!(
        play.tell(true, "a", "u", "12"),
        "the echo is told on, with its version"
    );
    assert_eq!(play.held("a"), "u 12 own");
    assert!(play.tell(true, "a", "u", "13"));
    assert_eq!(play.held("a"), "u 13 told");
    assert_eq!(
        (play.own("a", "u", "13"), play.own("a", "u", "12")),
        (Absorbed::Known, Absorbed::Known)
    );
}

#[test]
fn versions_compare_as_numbers_and_where_they_are_none_the_last_to_tell_wins() {
    let mut play = Play::new();
    play.tell(true, "a", "u", "9");
    play.own("a", "u", "10");
    assert_eq!(play.held("a"), "u 10 own", "10 is newer than 9");
    for version in ["x2", "x1"] {
        assert!(play.tell(true, "b", "u", version));
        assert_eq!(play.own("b", "u", version), Absorbed::Taken);
        assert_eq!(play.held("b"), "u 0 own");
    }
}

#[test]
fn a_deletion_removes_the_object_it_names_and_no_newer_one() {
    let mut play = Play::new();
    play.tell(true, "a", "old", "5");
    assert_eq!(
        play.own("a", "new", "8"),
        Absorbed::Taken,
        "recreated by the host"
    );
    assert!(!play.delete("a", "old", "7"));
    assert_eq!(play.held("a"), "new 8 own");
    assert!(play.delete("a", "new", "9"));
    assert_eq!(play.held("a"), "");
    assert!(!play.delete("a", "new", "9"), "only the first time");
    // Without comparable versions only the uid counts.
    play.tell(true, "b", "new", "x");
    assert!(!play.delete("b", "old", "y"));
    assert!(play.delete("b", "new", "y"));
}

#[test]
fn a_late_answer_does_not_bring_a_deleted_object_back() {
    let mut play = Play::new();
    play.list("10", &[("a", "u", "10")]).unwrap();
    // Written at 11, deleted at 12; the answer to the write arrives last.
    assert!(play.delete("a", "u", "12"));
    assert_eq!(play.own("a", "u", "11"), Absorbed::Gone);
    assert_eq!(
        play.own("b", "u", "12"),
        Absorbed::Gone,
        "a bookmark or event at 12 would have told of it"
    );
    assert_eq!(
        play.own("b", "u", "13"),
        Absorbed::Taken,
        "the watch is not there yet"
    );
    play.store.bookmark("20");
    assert_eq!(play.own("c", "u", "20"), Absorbed::Gone);
    assert_eq!(
        play.own("c", "u", "x"),
        Absorbed::Gone,
        "nothing can be said of a version that is no number"
    );
}

#[test]
fn a_list_removes_what_it_does_not_hold_and_keeps_newer_own_writes() {
    let mut play = Play::new();
    play.list("10", &[("a", "u", "1"), ("b", "u", "2"), ("c", "u", "3")])
        .unwrap();
    play.own("d", "u", "15");
    play.own("e", "u", "25");
    assert_eq!(
        play.list("20", &[("b", "u", "2"), ("c", "u2", "18")])
            .unwrap(),
        ["a", "d"]
    );
    assert_eq!(
        [play.held("b"), play.held("c"), play.held("e")],
        ["u 2 told", "u2 18 told", "u 25 own"]
    );
    assert_eq!(play.list("26", &[]).unwrap(), ["b", "c", "e"]);
    assert!(play.store.is_empty());
}

#[test]
fn a_list_that_was_broken_off_removes_nothing() {
    let mut play = Play::new();
    play.list("10", &[("a", "u", "1"), ("b", "u", "2")])
        .unwrap();
    play.store.begin_round();
    play.tell(false, "a", "u", "1");
    assert_eq!(play.store.len(), 2);
    assert_eq!(
        play.list("11", &[("b", "u", "2")]).unwrap(),
        ["a"],
        "the next one judges anew"
    );
}

#[test]
fn unchanged_objects_of_a_repeated_list_are_no_news() {
    let mut play = Play::new();
    play.list("10", &[("a", "u", "1")]).unwrap();
    play.store.begin_round();
    assert!(!play.tell(false, "a", "u", "1"));
    assert!(play.tell(false, "b", "u", "9"));
    assert!(play.tell(false, "a", "u2", "11"));
}

#[test]
fn a_server_restored_from_a_backup_is_believed_at_the_second_list() {
    let mut play = Play::new();
    play.list("100", &[("a", "u", "90"), ("b", "u", "95")])
        .unwrap();
    assert_eq!(play.list("50", &[("a", "u", "40")]), Err(Backwards));
    assert_eq!(play.list("50", &[("a", "u", "40")]).unwrap(), ["b"]);
    assert_eq!(play.held("a"), "u 40 told");
    assert_eq!(play.own("a", "u", "51"), Absorbed::Taken);
    assert!(play.tell(true, "a", "u", "50"), "trusted again");
    assert_eq!(play.held("a"), "u 51 own");
}

#[test]
fn clearing_names_everything_that_went() {
    let mut play = Play::new();
    play.list("10", &[("a", "u", "1"), ("b", "u", "2")])
        .unwrap();
    assert_eq!(play.store.clear().len(), 2);
    assert_eq!((play.store.len(), play.store.version()), (0, 0));
}
