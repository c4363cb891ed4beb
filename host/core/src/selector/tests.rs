use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn fits(selector: &str, labels: &[(&str, &str)]) -> bool {
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    Selector::parse(selector)
        .unwrap()
        .matches(|key| labels.get(key).copied())
}

/// The inputs are those of Kubernetes' own parser tests (`labels/selector_test.go`).
#[test]
fn what_kubernetes_reads_is_read_and_has_one_canonical_text() {
    for (text, canonical) in [
        ("", ""),
        (" \t", ""),
        ("\rx", "x"),
        ("a ", "a"),
        ("!x", "!x"),
        ("! x", "!x"),
        ("x=", "x="),
        ("x= ", "x="),
        ("x=,z= ", "x=,z="),
        ("x= ,z= ", "x=,z="),
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("z=c,x==a", "x=a,z=c"),
        ("x!=a,y=b", "x!=a,y=b"),
        ("x=a,y!=b,z in (h,i,j)", "x=a,y!=b,z in (h,i,j)"),
        ("x>1", "x>1"),
        ("x>1,z<5", "x>1,z<5"),
        (
            "this-is-a-dns.domain.com/key-with-dash",
            "this-is-a-dns.domain.com/key-with-dash",
        ),
        (
            "this-is-another-dns.domain.com/key-with-dash in (so,what)",
            "this-is-another-dns.domain.com/key-with-dash in (so,what)",
        ),
        (
            "0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)",
            "0.1.2.domain/99 notin (10.10.100.1,tick.tack.clock)",
        ),
        ("foo  in\t (abc)", "foo=abc"),
        ("x notin\n (abc)", "x!=abc"),
        ("x  notin\t(def,abc,abc)", "x notin (abc,def)"),
        ("x in (abc,)", "x in (,abc)"),
        ("x in ()", "x="),
        ("x notin ( )", "x!="),
        ("x notin (, a)", "x notin (,a)"),
        (
            "x notin (abc,,def),bar,z in (),w",
            "bar,w,x notin (,abc,def),z=",
        ),
        ("x,y in (a)", "x,y=a"),
        ("a in (x,y,notin, z,in)", "a in (in,notin,x,y,z)"),
        ("in in (in)", "in=in"),
        ("notin", "notin"),
        ("x,x", "x"),
    ] {
        let read = Selector::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.to_string(), canonical, "{text:?}");
    }
}

/// The inputs are those of Kubernetes' own parser tests (`labels/selector_test.go`).
#[test]
fn what_kubernetes_refuses_is_refused_with_its_position() {
    for (text, at, why) in [
        ("x=a||y=b", 3, "`a||y` is no label value"),
        ("x==a==b", 5, "expected `,` or the end, found `=`"),
        ("!x=a", 3, "expected `,` or the end, found `=`"),
        ("x<a", 3, "`a` is no integer"),
        ("x>-1", 3, "`-1` is no label value"),
        ("x>", 3, "`` is no integer"),
        ("x,,y", 3, "expected a label key, found `,`"),
        (",x,y", 1, "expected a label key, found `,`"),
        ("x,", 3, "expected a label key after `,`, found the end"),
        ("x nott in (y)", 3, "expected one of"),
        ("a in (xyz),", 12, "expected a label key after `,`"),
        (
            "a in (xyz)b notin ()",
            11,
            "expected `,` or the end, found `b`",
        ),
        ("a in (xyz abc)", 11, "expected `,` or `)`, found `a`"),
        ("a notin(", 9, "expected `,` or `)`, found the end"),
        ("a (", 3, "expected one of"),
        ("(", 1, "expected a label key, found `(`"),
        ("a in x", 6, "expected `(`, found `x`"),
        ("!", 2, "expected a label key, found the end"),
        ("-a=b", 1, "`-a` is no label key"),
        ("A.b/c=d", 1, "`A.b/c` is no label key"),
        ("ä=b", 1, "`ä` is no label key"),
        ("a=ä,", 3, "`ä` is no label value"),
        ("a=b c", 5, "found `c`"),
    ] {
        let error = Selector::parse(text).unwrap_err();
        assert_eq!(error.at, at, "{text:?}: {error}");
        assert!(error.why.contains(why), "{text:?}: {error}");
    }
    let long = format!("a in ({})", "b,".repeat(MAX_SELECTOR / 2));
    assert!(Selector::parse(&long).unwrap_err().to_string().len() < 512);
}

#[test]
fn an_absent_label_fits_what_excludes_and_nothing_else() {
    for (selector, fits_absent, fits_a, fits_b, fits_empty) in [
        ("", true, true, true, true),
        ("x=a", false, true, false, false),
        ("x!=a", true, false, true, true),
        ("x in (a,b)", false, true, true, false),
        ("x notin (a,b)", true, false, false, true),
        ("x", false, true, true, true),
        ("!x", true, false, false, false),
        ("x=", false, false, false, true),
        ("x!=", true, true, true, false),
        ("x,x!=a", false, false, true, true),
        ("x=a,y=b", false, false, false, false),
    ] {
        assert_eq!(fits(selector, &[]), fits_absent, "{selector} absent");
        assert_eq!(fits(selector, &[("x", "a")]), fits_a, "{selector} a");
        assert_eq!(fits(selector, &[("x", "b")]), fits_b, "{selector} b");
        assert_eq!(fits(selector, &[("x", "")]), fits_empty, "{selector} empty");
    }
}

#[test]
fn bounds_compare_integers_and_fit_no_text() {
    for (selector, value, want) in [
        ("x>1", "2", true),
        ("x>1", "1", false),
        ("x<10", "9", true),
        ("x<10", "10", false),
        ("x<10", "a", false),
        ("x>1", "2.0", false),
    ] {
        assert_eq!(fits(selector, &[("x", value)]), want, "{selector} {value}");
    }
    assert!(!fits("x<10", &[]));
}

fn requirement() -> impl Strategy<Value = String> {
    let key = "([a-z]{1,3}\\.[a-z]{1,3}/)?[a-c]";
    let values = prop::collection::vec("([a-c]{1,2})?", 1..4);
    (key, values, 0_u32..100, 0..9).prop_map(|(key, values, bound, form)| match form {
        0 => key,
        1 => format!("!{key}"),
        2 => format!("{key}={}", values[0]),
        3 => format!("{key} == {}", values[0]),
        4 => format!("{key}!={}", values[0]),
        5 => format!("{key} in ({})", values.join(", ")),
        6 => format!("{key}  notin({})", values.join(",")),
        7 => format!("{key}>{bound}"),
        _ => format!("{key} < {bound}"),
    })
}

proptest! {
    #[test]
    fn the_canonical_text_reads_as_the_same_selector(
        requirements in prop::collection::vec(requirement(), 0..5),
        labels in prop::collection::btree_map("[a-c]", "[a-c0-9]{0,2}", 0..3),
    ) {
        let read = Selector::parse(&requirements.join(" , ")).unwrap();
        let text = read.to_string();
        let again = Selector::parse(&text).unwrap();
        prop_assert_eq!(&read, &again);
        prop_assert_eq!(again.to_string(), text);
        // Order and repetition change nothing; each requirement alone says as much as within the whole.
        let find = |key: &str| labels.get(key).map(String::as_str);
        let alone = requirements.iter().all(|one| Selector::parse(one).unwrap().matches(find));
        prop_assert_eq!(read.matches(find), alone);
    }

    #[test]
    fn no_text_makes_the_parser_panic_and_positions_are_within_it(text in "[a-c=!,()<> in\\-./ä]{0,20}") {
        if let Err(error) = Selector::parse(&text) {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.at));
        }
    }
}
