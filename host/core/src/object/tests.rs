use super::*;

/// One object in several spellings; `compact` must leave the second of each pair.
const CUTS: &[(&str, &str)] = &[
    // as the API server writes it: in the middle, last, first, alone
    (
        r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"a","managedFields":[{"f":{}}],"uid":"u"},"spec":{"n":1.0}}"#,
        r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"a","uid":"u"},"spec":{"n":1.0}}"#,
    ),
    (
        r#"{"metadata":{"name":"a","managedFields":[]}}"#,
        r#"{"metadata":{"name":"a"}}"#,
    ),
    (
        r#"{"metadata":{"managedFields":[],"name":"a"}}"#,
        r#"{"metadata":{"name":"a"}}"#,
    ),
    (r#"{"metadata":{"managedFields":[]}}"#, r#"{"metadata":{}}"#),
    // white space on every side
    (
        "{ \"metadata\" : { \"name\" : \"a\" , \"managedFields\" : [ 1 ] } }",
        "{ \"metadata\" : { \"name\" : \"a\"  } }",
    ),
    (
        "{\"metadata\":{\n  \"managedFields\":\t[ ]\r\n,\n  \"name\": \"a\"\n}}",
        "{\"metadata\":{\n  \n  \"name\": \"a\"\n}}",
    ),
    // an escaped key, and a value that looks like the member
    (
        r#"{"metadata":{"managed\u0046ields":[],"name":"a"}}"#,
        r#"{"metadata":{"name":"a"}}"#,
    ),
    (
        r#"{"metadata":{"annotations":{"managedFields":"x"},"managedFields":["\"managedFields\":"],"name":"a"}}"#,
        r#"{"metadata":{"annotations":{"managedFields":"x"},"name":"a"}}"#,
    ),
    // only metadata's own member is meant; null is left as it is
    (
        r#"{"managedFields":[],"metadata":{},"spec":{"managedFields":[]}}"#,
        r#"{"managedFields":[],"metadata":{},"spec":{"managedFields":[]}}"#,
    ),
    (
        r#"{"metadata":{"managedFields":null}}"#,
        r#"{"metadata":{"managedFields":null}}"#,
    ),
    // values are not touched
    (
        "{\"spec\":{\"a\":9007199254740993,\"b\":1.0,\"c\":null,\"d\":\"\\u00e9\u{e9}\",\"e\":1e400},\"metadata\":{}}\n",
        "{\"spec\":{\"a\":9007199254740993,\"b\":1.0,\"c\":null,\"d\":\"\\u00e9\u{e9}\",\"e\":1e400},\"metadata\":{}}",
    ),
    ("{}", "{}"),
];

#[test]
fn compacting_cuts_managed_fields_and_nothing_else() {
    for (raw, want) in CUTS {
        let cut = compact(raw.as_bytes()).unwrap();
        assert_eq!(&*cut, *want, "from {raw}");
        serde_json::from_str::<IgnoredAny>(&cut).unwrap();
        assert_eq!(
            compact(cut.as_bytes()).unwrap(),
            cut,
            "compacting again changes nothing"
        );
    }
}

#[test]
fn what_is_not_one_json_object_in_utf8_is_refused() {
    for raw in [
        "",
        "[]x",
        "1",
        "null",
        "\"a\"",
        "{\"metadata\":{}",
        "{}{}",
        "[]",
        "[\"v1\",\"A\"]",
        "{\"metadata\":{\"name\":1}}",
    ] {
        assert!(
            matches!(compact(raw.as_bytes()), Err(ObjectError::Unreadable(_))),
            "{raw}"
        );
    }
    assert_eq!(compact(b"{\"a\":\"\xff\"}"), Err(ObjectError::NotUtf8(6)));
}

#[test]
fn the_head_is_read_whatever_the_order_of_keys() {
    let texts = [
        r#"{"apiVersion":"batch.acme.io/v1","kind":"ReportJob","metadata":{"name":"n","namespace":"ns","uid":"u-1","resourceVersion":"42",
            "generation":9007199254740993,"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-02T00:00:00Z",
            "labels":{"a":"1","b":""},"annotations":{"k":"line\nbreak"},"finalizers":["x/y"],"ownerReferences":[{"uid":"p"}]},"spec":{}}"#,
        r#"{"spec":{},"metadata":{"ownerReferences":[{"uid":"p"}],"finalizers":["x/y"],"annotations":{"\u006b":"line\nbreak"},
            "labels":{"b":"","a":"1"},"deletionTimestamp":"2026-01-02T00:00:00Z","creationTimestamp":"2026-01-01T00:00:00Z",
            "generation":9007199254740993,"resourceVersion":"42","uid":"u-1","namespace":"ns","name":"n","unknown":[1,{}]},
            "kind":"ReportJob","apiVersion":"batch.acme.io/v1"}"#,
    ];
    for text in texts {
        let head = Head::parse(text).unwrap();
        assert_eq!(
            (&*head.api_version, &*head.kind),
            ("batch.acme.io/v1", "ReportJob")
        );
        assert_eq!(head.key(), ObjectKey::new("ns", "n"));
        assert_eq!(
            (&*head.uid, head.version(), head.generation),
            ("u-1", Some(42), 9007199254740993)
        );
        assert!(head.is_deleting());
        assert_eq!(
            head.labels
                .iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect::<Vec<_>>(),
            ["a=1", "b="]
        );
        assert_eq!(head.annotations["k"], "line\nbreak");
        assert_eq!(head.finalizers, ["x/y"]);
        assert_eq!(head.owner_references.unwrap().get(), r#"[{"uid":"p"}]"#);
        let stamp = Stamp::parse(text).unwrap();
        assert_eq!(
            (
                &*stamp.name,
                &*stamp.namespace,
                &*stamp.uid,
                stamp.version()
            ),
            ("n", "ns", "u-1", Some(42))
        );
        assert!(stamp.deleting && stamp.generation == head.generation);
    }
}

#[test]
fn strings_without_escapes_are_borrowed() {
    let text = r#"{"kind":"A","metadata":{"name":"n","labels":{"a":"b","c":"\u0064"},"finalizers":["f"]}}"#;
    let head = Head::parse(text).unwrap();
    assert!(
        matches!(head.kind, Cow::Borrowed(_))
            && matches!(head.name, Cow::Borrowed(_))
            && matches!(head.finalizers[0], Cow::Borrowed(_))
    );
    let owned: Vec<_> = head
        .labels
        .iter()
        .map(|(k, v)| (matches!(k, Cow::Owned(_)), matches!(v, Cow::Owned(_))))
        .collect();
    assert_eq!(owned, [(false, false), (false, true)]);
}

#[test]
fn absent_and_null_metadata_fields_are_empty() {
    for text in [
        "{}",
        r#"{"metadata":null}"#,
        r#"{"metadata":{}}"#,
        r#"{"metadata":{"generation":null,"labels":null,"annotations":null,"finalizers":null,"deletionTimestamp":null,"managedFields":null}}"#,
    ] {
        let head = Head::parse(text).unwrap();
        assert!(
            head.labels.is_empty()
                && head.annotations.is_empty()
                && head.finalizers.is_empty()
                && head.managed_fields.is_none(),
            "{text}"
        );
        assert_eq!(
            (head.generation, head.is_deleting(), head.version()),
            (0, false, None),
            "{text}"
        );
        assert!(!Stamp::parse(text).unwrap().deleting, "{text}");
    }
}

#[test]
fn only_plain_decimals_are_versions() {
    for (text, want) in [
        ("1", Some(1)),
        ("9007199254740993", Some(9007199254740993)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("0", None),
        ("007", None),
        ("", None),
        ("+1", None),
        ("1a", None),
    ] {
        assert_eq!(version_number(text), want, "{text}");
    }
}

#[test]
fn a_key_gives_back_its_parts() {
    for (namespace, name, shown) in [("ns", "n", "ns/n"), ("", "n", "n")] {
        let key = ObjectKey::new(namespace, name);
        assert_eq!(
            (key.namespace(), key.name(), key.to_string().as_str()),
            (namespace, name, shown)
        );
    }
    let map = std::collections::HashMap::from([(ObjectKey::new("a", "b"), 1)]);
    assert_eq!(map.get("a/b"), Some(&1), "a key is found by its text");
}

#[test]
fn a_field_is_read_by_its_path() {
    let object = r#"{"x":[{"spec":{"n":7}}],"sp\u0065c":{"n":-9007199254740993,"one":1.0,"half":1.5,"big":9223372036854775808,"zero":0,
        "text":"a\u00e9","plain":"abc","null":null,"empty":"","map":{"a.b":{"c":3}},"list":[1],"twice":1,"twice":2}}"#;
    for (path, want) in [
        (".spec.n", Ok(Some(-9007199254740993))),
        (".spec.one", Ok(Some(1))),
        (".spec.zero", Ok(Some(0))),
        (".spec.twice", Ok(Some(2))),
        (r".spec.map.a\.b.c", Ok(Some(3))),
        (".spec.null", Ok(None)),
        (".spec.absent", Ok(None)),
        (".spec.absent.deeper", Ok(None)),
        (".spec.null.deeper", Ok(None)),
        (".spec.text.deeper", Ok(None)),
        (".spec.list.deeper", Ok(None)),
        (".n", Ok(None)),
        (".spec.half", Err("1.5")),
        (".spec.big", Err("9223372036854775808")),
        (".spec.plain", Err("\"abc\"")),
        (".spec.list", Err("[1]")),
    ] {
        let got = FieldPath::parse(path).unwrap().i64(object);
        match want {
            Ok(want) => assert_eq!(got, Ok(want), "{path}"),
            Err(shown) => assert_eq!(
                got,
                Err(ObjectError::WrongType {
                    path: path.into(),
                    expected: "an integer",
                    found: shown.into()
                })
            ),
        }
    }
    for (path, want) in [
        (".spec.text", Some("a\u{e9}")),
        (".spec.plain", Some("abc")),
        (".spec.empty", Some("")),
        (".spec.null", None),
    ] {
        assert_eq!(
            FieldPath::parse(path)
                .unwrap()
                .str(object)
                .unwrap()
                .as_deref(),
            want,
            "{path}"
        );
    }
    assert!(FieldPath::parse(".spec.n").unwrap().str(object).is_err());
    assert!(
        FieldPath::parse(".spec.n")
            .unwrap()
            .raw("{\"spec\":")
            .is_err()
    );
}

#[test]
fn paths_that_mean_nothing_are_refused_and_good_ones_print_as_written() {
    for bad in [
        "", ".", "spec", "spec.a", "..a", ".a.", ".a..b", ".a[0]", r".a\b", r".a\",
    ] {
        assert!(FieldPath::parse(bad).is_err(), "{bad}");
    }
    for good in [
        ".spec",
        ".spec.priority",
        r".metadata.labels.app\.kubernetes\.io/name",
    ] {
        assert_eq!(FieldPath::parse(good).unwrap().to_string(), good);
    }
}
