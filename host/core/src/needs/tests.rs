use super::*;
use crate::contract::Response;

fn kind(api_version: &str, kind: &str) -> Kind {
    Kind {
        api_version: api_version.into(),
        kind: kind.into(),
    }
}

/// A need as a plugin writes it in JSON; the name is `n` where it has none.
fn need(text: &str) -> Need {
    let mut value: serde_json::Value = serde_json::from_str(text).unwrap();
    let named = value.as_object_mut().unwrap();
    named.entry("name").or_insert("n".into());
    serde_json::from_value(value).unwrap()
}

fn grants(text: &str) -> Grants {
    serde_json::from_str(text).unwrap()
}

const READ: &str = r#"{"read": [
    {"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["b", "a", "b"]},
    {"apiVersion": "v1", "kind": "Secret", "names": ["tls"]},
    {"apiVersion": "apps/v1", "kind": "Deployment", "namespaces": ["*"]},
    {"apiVersion": "v1", "kind": "Node"}]}"#;

const CONFIG_MAP: &str = r#""kind": {"apiVersion": "v1", "kind": "ConfigMap"}"#;

fn read(text: &str, own: &str) -> Result<ReadSource, String> {
    match resolve(
        &need(text),
        &grants(READ),
        &ObjectKey::new(own, "parent"),
        "mark",
    ) {
        Ok(reading) => Ok(reading.source),
        Err(Answer::Unavailable(cause)) => {
            assert_eq!(cause.reason, "Denied");
            Err(cause.message)
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn by_name_of(kind: &str, namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() {
        String::new()
    } else {
        format!(r#""namespace": "{namespace}","#)
    };
    format!(
        r#"{{"source": {{"object": {{"kind": {{"apiVersion": "v1", "kind": "{kind}"}}, {namespace} "name": "{name}"}}}}}}"#
    )
}

fn these(namespaces: &[&str]) -> Namespaces {
    Namespaces::These(namespaces.iter().map(|&n| n.into()).collect())
}

#[test]
fn what_is_read_by_name_is_in_the_own_namespace_or_where_the_grant_says() {
    for (own, kind, namespace, name, want) in [
        ("own", "ConfigMap", "", "x", Ok("own")),
        ("own", "ConfigMap", "own", "x", Ok("own")),
        ("own", "ConfigMap", "a", "x", Ok("a")),
        (
            "own",
            "ConfigMap",
            "c",
            "x",
            Err("add {apiVersion: v1, kind: ConfigMap, namespaces: ['c']} to `grants.read`"),
        ),
        ("own", "Secret", "", "tls", Ok("own")),
        (
            "own",
            "Secret",
            "",
            "x",
            Err("add {apiVersion: v1, kind: Secret} to `grants.read`"),
        ),
        ("own", "Secret", "a", "tls", Err("namespaces: ['a']")),
        (
            "own",
            "Pod",
            "",
            "x",
            Err("reading the Pod own/x is not granted"),
        ),
        // A cluster-scoped parent has no namespace of its own; a cluster-scoped kind needs none.
        ("", "Node", "", "x", Ok("")),
        ("", "ConfigMap", "a", "x", Ok("a")),
        ("", "ConfigMap", "own", "x", Err("namespaces: ['own']")),
    ] {
        let found = read(&by_name_of(kind, namespace, name), own);
        match (found, want) {
            (
                Ok(ReadSource::Object {
                    namespace,
                    name: found,
                    ..
                }),
                Ok(want),
            ) => {
                assert_eq!((namespace.as_str(), found.as_str()), (want, name));
            }
            (Err(error), Err(want)) => assert!(error.contains(want), "{error}"),
            (found, want) => panic!("{own} {kind} {namespace} {name}: {found:?}, not {want:?}"),
        }
    }
}

#[test]
fn a_selection_is_the_own_namespace_a_granted_one_or_all_that_are_granted() {
    let select = |kind: &str, namespace: &str, own: &str| {
        let text = format!(
            r#"{{"source": {{"selected": {{"kind": {kind}, {namespace} "labels": "b, a in (y,x)"}}}}}}"#
        );
        read(&text, own).map(|source| match source {
            ReadSource::Selected {
                namespaces, labels, ..
            } => {
                assert_eq!(
                    labels, "a in (x,y),b",
                    "the canonical text, since watches are shared by it"
                );
                namespaces
            }
            other => panic!("{other:?}"),
        })
    };
    let config_map = r#"{"apiVersion": "v1", "kind": "ConfigMap"}"#;
    let deployment = r#"{"apiVersion": "apps/v1beta1", "kind": "Deployment"}"#;
    let secret = r#"{"apiVersion": "v1", "kind": "Secret"}"#;
    assert_eq!(select(config_map, "", "own"), Ok(these(&["own"])));
    assert_eq!(
        select(config_map, r#""namespace": "b","#, "own"),
        Ok(these(&["b"]))
    );
    assert_eq!(
        select(config_map, r#""namespace": "*","#, "own"),
        Ok(these(&["own", "a", "b"]))
    );
    assert_eq!(
        select(config_map, r#""namespace": "*","#, "b"),
        Ok(these(&["b", "a"]))
    );
    assert_eq!(select(config_map, "", ""), Ok(these(&["a", "b"])));
    assert_eq!(
        select(deployment, r#""namespace": "*","#, "own"),
        Ok(Namespaces::All)
    );
    let denied = select(config_map, r#""namespace": "c","#, "own").unwrap_err();
    assert!(
        denied.contains("every ConfigMap in c is not granted"),
        "{denied}"
    );
    // A grant by name is none for the whole kind.
    let denied = select(secret, "", "own").unwrap_err();
    assert!(
        denied.contains("every Secret in the object's namespace"),
        "{denied}"
    );
}

#[test]
fn owned_objects_are_those_with_the_objects_mark_wherever_they_may_be() {
    let text = r#"{"source": {"owned": {"apiVersion": "v1", "kind": "ConfigMap"}}, "view": "metadata", "limit": 9999999}"#;
    let reading = resolve(
        &need(text),
        &grants(READ),
        &ObjectKey::new("own", "p"),
        "mark",
    )
    .unwrap();
    assert_eq!(
        reading,
        Reading {
            name: "n".into(),
            source: ReadSource::Selected {
                kind: kind("v1", "ConfigMap"),
                namespaces: these(&["own", "a", "b"]),
                labels: "guesthouse.dev/owner=mark".into(),
            },
            view: View::Metadata,
            limit: MAX_LIMIT,
        }
    );
    // What may be applied may not be read for that: a generated Secret would be shown.
    let apply = grants(r#"{"apply": [{"apiVersion": "v1", "kind": "ConfigMap"}]}"#);
    assert!(resolve(&need(text), &apply, &ObjectKey::new("own", "p"), "mark").is_err());
}

#[test]
fn a_fetch_takes_its_bounds_from_the_grant_and_has_no_key() {
    let grants = grants(
        r#"{"http": [{"host": "h", "methods": ["GET"], "timeout": "5s", "answerBody": "1Ki", "credentials": ["c"]}]}"#,
    );
    let fetch = |request: &str| {
        let text = format!(r#"{{"source": {{"fetch": {{"request": {request}, "fresh": 60}}}}}}"#);
        resolve(&need(&text), &grants, &ObjectKey::new("own", "p"), "mark")
    };
    let reading =
        fetch(r#"{"method": "GET", "url": "http://h/x", "credential": "c", "timeout": 9}"#)
            .unwrap();
    let ReadSource::Fetch { send, fresh: 60 } = reading.source else {
        panic!("{reading:?}");
    };
    assert_eq!(
        (
            send.idempotency_key.as_str(),
            send.timeout,
            send.answer_body.0
        ),
        ("", Span::from_secs(5), 1024)
    );
    for (request, why) in [
        (
            r#"{"method": "GET", "url": "http://other/x"}"#,
            "add {host: 'other', methods: [GET]}",
        ),
        (
            r#"{"method": "HEAD", "url": "http://h/x"}"#,
            "methods: [HEAD]",
        ),
        (
            r#"{"method": "GET", "url": "http://h/x", "credential": "d"}"#,
            "the credential `d` is not granted",
        ),
    ] {
        let Err(Answer::Unavailable(cause)) = fetch(request) else {
            panic!("{request}");
        };
        assert_eq!(cause.reason, "Denied");
        assert!(cause.message.contains(why), "{}", cause.message);
    }
}

#[test]
fn needs_that_no_mapping_could_allow_are_the_plugins_error() {
    let select = |name: &str, labels: &str| {
        need(&format!(
            r#"{{"name": "{name}", "source": {{"selected": {{{CONFIG_MAP}, "labels": "{labels}"}}}}}}"#
        ))
    };
    let fetch = |method: &str, body: &str| {
        need(&format!(
            r#"{{"source": {{"fetch": {{"request": {{"method": "{method}", "url": "http://h/", "body": {body}}}}}}}}}"#
        ))
    };
    let good = select("a", "x=y");
    assert_eq!(
        check_needs(
            std::slice::from_ref(&good),
            &[good.clone(), select("b", "")]
        ),
        Ok(())
    );
    for (descriptor, decision, why) in [
        (vec![], vec![select("", "")], "the need `` must have a name"),
        (
            vec![],
            vec![select(&"x".repeat(129), "")],
            "must have a name of 1 to 128 bytes",
        ),
        (
            vec![good.clone()],
            vec![select("a", "x=z")],
            "`a` is there twice and differs",
        ),
        (
            vec![],
            vec![select("a", "x=y"), select("a", "")],
            "`a` is there twice and differs",
        ),
        (
            vec![],
            vec![select("a", "x=y=z")],
            "label selector `x=y=z`, character 4",
        ),
        (
            vec![],
            vec![need(&by_name_of("ConfigMap", "", ""))],
            "a v1 ConfigMap without a name",
        ),
        (
            vec![],
            vec![fetch("POST", "\"empty\"")],
            "a fetch is a GET or HEAD, not POST",
        ),
        (
            vec![],
            vec![fetch("GET", "{\"text\": \"x\"}")],
            "a fetch has no body",
        ),
        (
            vec![],
            (0..65).map(|i| select(&i.to_string(), "")).collect(),
            "65 needs are more than 64",
        ),
    ] {
        let rejection = check_needs(&descriptor, &decision).unwrap_err();
        assert_eq!(rejection.cause.reason, "BadOutput");
        assert!(
            rejection.cause.message.contains(why),
            "{}",
            rejection.cause.message
        );
    }
}

fn config_map(namespace: &str, name: &str, label: &str) -> (ObjectKey, String) {
    let raw = format!(
        r#"{{"kind":"PartialObjectMetadata","metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"l":"{label}"}},"x": 1.0}},"data":{{"n":"9007199254740993"}}}}"#
    );
    (ObjectKey::new(namespace, name), raw)
}

fn reading(namespaces: Namespaces, labels: &str, view: View, limit: u32) -> Reading {
    Reading {
        name: "n".into(),
        source: ReadSource::Selected {
            kind: kind("v1", "ConfigMap"),
            namespaces,
            labels: labels.into(),
        },
        view,
        limit,
    }
}

fn selected_of(objects: &[(ObjectKey, String)], reading: &Reading) -> Objects {
    let objects = objects.iter().map(|(key, raw)| (key, raw.as_str()));
    match select(objects, reading) {
        Answer::Objects(objects) => objects,
        other => panic!("{other:?}"),
    }
}

#[test]
fn answers_come_by_namespace_and_name_up_to_the_limit() {
    // `a-b/x` sorts before `a/x` as a text.
    let objects = [
        config_map("a-b", "x", "1"),
        config_map("a", "y", "1"),
        config_map("a", "x", "1"),
        config_map("b", "x", "2"),
        config_map("", "cluster", "1"),
    ];
    let names = |reading: &Reading| {
        let found = selected_of(&objects, reading);
        let items = found
            .items
            .iter()
            .map(|item| Head::parse(item.as_str()).unwrap().key().to_string());
        (items.collect::<Vec<_>>().join(" "), found.truncated)
    };
    let full = View::Full;
    assert_eq!(
        names(&reading(Namespaces::All, "", full, 9)),
        ("cluster a/x a/y a-b/x b/x".into(), false)
    );
    assert_eq!(
        names(&reading(Namespaces::All, "l=1", full, 3)),
        ("cluster a/x a/y".into(), true)
    );
    assert_eq!(
        names(&reading(Namespaces::All, "l=1", full, 4)),
        ("cluster a/x a/y a-b/x".into(), false)
    );
    assert_eq!(
        names(&reading(these(&["b"]), "", full, 9)),
        ("cluster b/x".into(), false)
    );
    assert_eq!(
        names(&reading(these(&["b"]), "l!=2", full, 9)),
        ("cluster".into(), false)
    );
    let by_name = Reading {
        source: ReadSource::Object {
            kind: kind("v1", "ConfigMap"),
            namespace: "a".into(),
            name: "x".into(),
        },
        ..reading(Namespaces::All, "", full, 9)
    };
    assert_eq!(names(&by_name), ("a/x".into(), false));
}

#[test]
fn a_full_view_is_every_byte_and_a_metadata_view_is_the_metadatas_own_bytes() {
    let objects = [config_map("a", "x", "1")];
    let full = selected_of(&objects, &reading(Namespaces::All, "", View::Full, 9));
    assert_eq!(full.items[0].as_str(), objects[0].1);
    let cut = selected_of(&objects, &reading(Namespaces::All, "", View::Metadata, 9));
    assert_eq!(
        cut.items[0].as_str(),
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"a","labels":{"l":"1"},"x": 1.0}}"#
    );
}

/// policy-server#716: what a plugin reads is bounded, whatever the cluster holds.
#[test]
fn more_than_the_cap_is_unavailable_and_says_what_to_do() {
    let (key, raw) = config_map("a", "x", "1");
    let big = raw.replace("9007199254740993", &"x".repeat(MAX_ANSWER));
    let objects = [(key, big)];
    let some = objects.iter().map(|(key, raw)| (key, raw.as_str()));
    let Answer::Unavailable(cause) =
        select(some.clone(), &reading(Namespaces::All, "", View::Full, 9))
    else {
        panic!("it is too large");
    };
    assert_eq!(cause.reason, "TooLarge");
    assert!(
        cause
            .message
            .contains("`limit`, `labels` or `view: metadata`")
    );
    assert!(matches!(
        select(some, &reading(Namespaces::All, "", View::Metadata, 9)),
        Answer::Objects(_)
    ));
}

#[test]
fn the_memo_covers_all_of_an_answer_but_a_fetchs_time() {
    let response = |body: Body, at: &str| {
        Answer::Response(Response {
            code: 200,
            headers: vec![],
            body,
            truncated: false,
            at: at.into(),
        })
    };
    let objects = |items: &[&str], truncated| {
        Answer::Objects(Objects {
            items: items.iter().map(|item| Json::trusted(*item)).collect(),
            truncated,
        })
    };
    let text = Body::Text("x".into());
    assert_eq!(
        covers(&[response(text.clone(), "now")]),
        covers(&[response(text.clone(), "later")])
    );
    let different = [
        vec![],
        vec![response(text, "now")],
        vec![response(Body::Bytes(b"x".to_vec()), "now")],
        vec![objects(&[], false)],
        vec![objects(&[], true)],
        vec![objects(&["1"], false)],
        vec![objects(&["1"], false), objects(&[], false)],
        vec![objects(&[], false), objects(&["1"], false)],
        vec![objects(&["11"], false)],
        vec![objects(&["1", "1"], false)],
        vec![Answer::Unavailable(Cause::new("Denied", ""))],
        vec![Answer::Unavailable(Cause::new("Failed", ""))],
    ];
    let hashes: std::collections::BTreeSet<u64> = different.iter().map(covers).collect();
    assert_eq!(hashes.len(), different.len());
}
