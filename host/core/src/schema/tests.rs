use super::*;
use serde_json::json;

/// kopf#574: the server prunes unknown fields and answers 200.
#[test]
fn what_the_server_would_drop_is_dropped_and_named() {
    let schema = StatusSchema::of_crd(
        &json!({"properties": {"status": {"type": "object", "properties": {
            "phase": {"type": "string", "default": "Pending"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "object", "properties": {}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {}}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"y": {}}}},
        }}}}),
    );
    let mut status = json!({"phase": null, "typo": 1, "free": {"any": {"b": null}, "a": {"gone": 1}}, "map": {"k": {"x": 1, "z": 2}}, "list": [{"y": 1}, {"n": 1}]});
    let dropped = schema.prune(&mut status);
    schema.fill(&mut status);
    assert_eq!(
        status,
        json!({"phase": "Pending", "free": {"any": {"b": null}, "a": {}}, "map": {"k": {"x": 1}}, "list": [{"y": 1}, {}]})
    );
    assert_eq!(
        dropped,
        [
            "status.free.a.gone",
            "status.list[1].n",
            "status.map.k.z",
            "status.typo"
        ]
    );
}

#[test]
fn a_field_is_kept_where_it_is_named_or_unknown_ones_are() {
    let named = StatusSchema::of_crd(
        &json!({"properties": {"status": {"properties": {"conditions": {}}}}}),
    );
    assert!(
        named.keeps("conditions")
            && named.names("conditions")
            && !named.keeps("observedGeneration")
    );
    let open = StatusSchema::of_crd(
        &json!({"properties": {"status": {"x-kubernetes-preserve-unknown-fields": true}}}),
    );
    assert!(open.keeps("conditions") && !open.names("conditions"));
    assert!(StatusSchema::unknown().keeps("x"));
    assert!(!StatusSchema::of_crd(&json!({"properties": {}})).keeps("x"));
}

#[test]
fn numbers_are_compared_as_numbers_and_integers_exactly() {
    assert!(same(&json!({"a": [1.0]}), &json!({"a": [1]})));
    assert!(!same(
        &json!(9007199254740993_i64),
        &json!(9007199254740992_i64)
    ));
    assert!(!same(&json!(null), &json!({})) && !same(&json!({"a": null}), &json!({})));
}

fn schema_of(x: Value) -> StatusSchema {
    StatusSchema::of_crd(
        &json!({"type": "object", "properties": {"status": {"type": "object", "properties": {"x": x}}}}),
    )
}

/// What is wrong with `value` under the schema `x`, in one line; empty if nothing is.
fn wrong(x: &Value, value: Value) -> String {
    let schema = schema_of(x.clone());
    let mut status = json!({"x": value});
    schema.prune(&mut status);
    schema.fill(&mut status);
    let found = schema.violations(&status, &Value::Null, &Json::empty_object());
    assert_eq!(schema.skipped(), [] as [&str; 0]);
    let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// A schema with values that fit, and values that do not with what is said of them.
type Keyword<'a> = (Value, &'a [Value], &'a [(Value, &'a str)]);

#[test]
fn each_keyword_refuses_what_the_server_refuses_and_says_what_is_allowed() {
    let nothing: &[Value] = &[];
    let cases: &[Keyword<'_>] = &[
        (
            json!({"type": "integer"}),
            &[json!(i64::MAX), json!(i64::MIN), json!(1.0), json!(-0.0)],
            &[
                (json!(1.5), "status.x is 1.5, must be an integer"),
                (
                    json!(u64::MAX),
                    "status.x is 18446744073709551615, must be an integer",
                ),
                (json!("1"), "status.x is \"1\", must be an integer"),
            ],
        ),
        (
            json!({"type": "number"}),
            &[json!(1), json!(1.5), json!(1e300)],
            &[(json!(true), "status.x is true, must be a number")],
        ),
        (
            json!({"type": "boolean"}),
            &[json!(false)],
            &[(json!(0), "status.x is 0, must be true or false")],
        ),
        (
            json!({"type": "string"}),
            &[json!(""), json!("null")],
            &[
                (json!(["a"]), "status.x is a list of 1, must be a string"),
                (json!({"a": 1}), "status.x is an object, must be a string"),
            ],
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            &[json!(1), json!("50%")],
            &[(
                json!(0.5),
                "status.x is 0.5, must be an integer or a string",
            )],
        ),
        (
            json!({"type": "string", "enum": ["A", ""]}),
            &[json!("A"), json!("")],
            &[(json!("B"), "status.x is \"B\", must be one of \"A\", \"\"")],
        ),
        (
            json!({"type": "string", "enum": ["A"], "nullable": true}),
            nothing,
            &[(json!(null), "status.x is null, must be one of \"A\"")],
        ),
        (
            json!({"type": "integer", "minimum": 1, "maximum": 3, "exclusiveMaximum": true}),
            &[json!(1), json!(2)],
            &[
                (json!(0), "status.x is 0, must be at least 1"),
                (json!(3), "status.x is 3, must be less than 3"),
            ],
        ),
        (
            json!({"type": "number", "minimum": 0.5, "exclusiveMinimum": true}),
            &[json!(0.51), json!(1)],
            &[(json!(0.5), "status.x is 0.5, must be greater than 0.5")],
        ),
        (
            json!({"type": "number", "multipleOf": 0.1}),
            &[json!(0.3), json!(7.5)],
            &[(json!(0.35), "status.x is 0.35, must be a multiple of 0.1")],
        ),
        (
            json!({"type": "integer", "multipleOf": 4}),
            &[json!(-8)],
            &[(json!(2), "status.x is 2, must be a multiple of 4")],
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            &[json!(i32::MAX)],
            &[(
                json!(2147483648_i64),
                "status.x is 2147483648, must be an integer of 32 bits",
            )],
        ),
        (
            json!({"type": "string", "minLength": 2, "maxLength": 3}),
            &[json!("äö𝄞")],
            &[
                (
                    json!("ä"),
                    "status.x is \"ä\", must have at least 2 characters, has 1",
                ),
                (
                    json!("abcd"),
                    "status.x is \"abcd\", must have at most 3 characters, has 4",
                ),
            ],
        ),
        (
            json!({"type": "string", "pattern": "b\\d"}),
            &[json!("ab1c")],
            &[(json!("b"), "status.x is \"b\", must match `b\\d`")],
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            &[
                json!("2026-02-28T23:59:59Z"),
                json!("2026-02-28t00:00:00.123456+01:00"),
            ],
            &[
                (
                    json!("2026-02-29T00:00:00Z"),
                    "status.x is \"2026-02-29T00:00:00Z\", must have the format date-time",
                ),
                (
                    json!("2026-02-28T24:00:00Z"),
                    "status.x is \"2026-02-28T24:00:00Z\", must have the format date-time",
                ),
                (
                    json!("2026-02-28 00:00:00Z"),
                    "status.x is \"2026-02-28 00:00:00Z\", must have the format date-time",
                ),
                (
                    json!("2026-02-28T00:00:00"),
                    "status.x is \"2026-02-28T00:00:00\", must have the format date-time",
                ),
            ],
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}),
            &[json!([1])],
            &[
                (
                    json!([]),
                    "status.x is a list of 0, must have at least 1 items",
                ),
                (
                    json!([1, 2, 3]),
                    "status.x is a list of 3, must have at most 2 items",
                ),
                (json!([1, "b"]), "status.x[1] is \"b\", must be an integer"),
                (json!([null]), "status.x[0] is null, must be an integer"),
            ],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            &[json!(["a", "b"])],
            &[(
                json!(["a", "b", "a", "a"]),
                "status.x[2] is \"a\" a second time, must stand once",
            )],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}}),
            &[json!([{"k": "a", "v": 1}, {"k": "b", "v": 1}])],
            &[
                (
                    json!([{"k": "a", "v": 1}, {"k": "a", "v": 2}]),
                    "status.x[1] is {\"k\":\"a\"} a second time, must stand once",
                ),
                (json!([{"v": 2}]), "status.x[0].k is missing, must be there"),
            ],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 1}),
            &[json!({"a": 1})],
            &[
                (
                    json!({}),
                    "status.x is an object, must have at least 1 fields, has 0",
                ),
                (
                    json!({"a": 1, "b": 2}),
                    "status.x is an object, must have at most 1 fields, has 2",
                ),
                (json!({"a": "1"}), "status.x.a is \"1\", must be an integer"),
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"properties": {"a": {"enum": [13]}}, "required": ["a"]}}),
            &[json!({"a": 1}), json!({"b": 13})],
            &[
                (
                    json!({}),
                    "status.x is an object, must fit exactly one schema of `oneOf`",
                ),
                (
                    json!({"a": 1, "b": 1}),
                    "status.x is an object, must fit exactly one schema of `oneOf`",
                ),
                (
                    json!({"a": 13}),
                    "status.x is an object, must not fit the schema of `not`",
                ),
            ],
        ),
        (
            json!({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 9}], "anyOf": [{"multipleOf": 2}, {"multipleOf": 3}]}),
            &[json!(4), json!(9)],
            &[
                (
                    json!(5),
                    "status.x is 5, must fit at least one schema of `anyOf`",
                ),
                (json!(0), "status.x is 0, must be at least 1"),
            ],
        ),
    ];
    for (x, good, bad) in cases {
        for value in *good {
            assert_eq!(wrong(x, value.clone()), "", "{value} under {x}");
        }
        for (value, expected) in *bad {
            assert_eq!(&wrong(x, value.clone()), expected, "{value} under {x}");
        }
    }
}

#[test]
fn defaults_come_in_where_nothing_stands_and_nulls_that_may_not_be_go() {
    let schema = schema_of(json!({"type": "object", "properties": {
        "a": {"type": "integer", "default": 1},
        "b": {"type": "integer", "default": 2, "nullable": true},
        "c": {"type": "integer"},
        "d": {"type": "object", "default": {"e": {}}, "properties": {"e": {"type": "object", "properties": {"f": {"type": "string", "default": "g"}}}}},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
    }}));
    let mut status = json!({"x": {"a": null, "b": null, "c": null, "m": {"k": null, "l": "v"}}});
    assert_eq!(schema.prune(&mut status), [] as [&str; 0]);
    schema.fill(&mut status);
    assert_eq!(
        status,
        json!({"x": {"a": 1, "b": null, "d": {"e": {"f": "g"}}, "m": {"l": "v"}}})
    );
}

#[test]
fn what_was_wrong_before_and_stays_so_is_not_held_against_a_change_elsewhere() {
    let schema = StatusSchema::of_crd(
        &json!({"properties": {"status": {"type": "object", "properties": {
            "phase": {"type": "string", "enum": ["New"]},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 1},
                    "w": {"type": "integer"}}, "x-kubernetes-validations": [{"rule": "self.w >= oldSelf.w", "message": "w never shrinks"}]}},
        }}}}),
    );
    let old =
        json!({"phase": "Old", "list": [{"k": "a", "v": 9, "w": 5}, {"k": "b", "v": 1, "w": 1}]});
    let change = |path: &str, to: Value| {
        let mut next = old.clone();
        *next.pointer_mut(path).unwrap() = to;
        let found = schema.violations(&next, &old, &Json::empty_object());
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(change("/list/1/w", json!(2)), [] as [&str; 0]);
    // Another order: items are found by their key, not by their place.
    let turned = json!([{"k": "b", "v": 1, "w": 1}, {"k": "a", "v": 9, "w": 5}]);
    assert_eq!(change("/list", turned), [] as [&str; 0]);
    assert_eq!(
        change("/list/0/w", json!(4)),
        ["status.list[0] is an object, must hold: w never shrinks"]
    );
    assert_eq!(
        change("/phase", json!("Other")),
        ["status.phase is \"Other\", must be one of \"New\""]
    );
}

#[test]
fn rules_are_judged_as_far_as_a_status_can_break_them_and_others_are_named() {
    let schema = StatusSchema::of_crd(&json!({"type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"size": {"type": "integer"}, "other-name": {"type": "string"}},
                "x-kubernetes-validations": [
                    {"rule": "self.size >= 0", "messageExpression": "'size ' + string(self.size) + ' is below 0'"},
                    {"rule": "!has(self.other__dash__name) || self.other__dash__name != 'no'"},
                    {"rule": "self.size >= oldSelf.size", "message": "only up"},
                    {"rule": "[3, 1].sortBy(x, x) == [1, 3]"},
                    {"rule": "this is not CEL ("},
                ]},
        },
        "x-kubernetes-validations": [
            {"rule": "!has(self.status) || self.status.size <= self.spec.size", "message": "not beyond the spec"},
            {"rule": "self.spec.size < 0", "message": "about the spec alone"},
        ]
    }));
    assert_eq!(schema.skipped().len(), 2, "{:?}", schema.skipped());
    assert!(schema.skipped()[0].contains("sortBy("));
    let object = Json::of(&json!({"spec": {"size": 5}, "status": {"size": 2}})).unwrap();
    let said = |old: Value, next: Value| {
        let found = schema.violations(&next, &old, &object);
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let old = json!({"size": 2});
    assert_eq!(said(old.clone(), json!({"size": 3})), [] as [&str; 0]);
    assert_eq!(said(Value::Null, json!({"size": 1})), [] as [&str; 0]);
    assert_eq!(
        said(old.clone(), json!({"size": 1})),
        ["status is an object, must hold: only up"]
    );
    assert_eq!(
        said(Value::Null, json!({"size": -1})),
        ["status is an object, must hold: size -1 is below 0"]
    );
    assert_eq!(
        said(old.clone(), json!({"size": 6})),
        ["the object is an object, must hold: not beyond the spec"]
    );
    let no = said(old.clone(), json!({"size": 3, "other-name": "no"}));
    assert_eq!(no.len(), 1, "{no:?}");
    // The server refuses where a rule has nothing to read.
    assert!(!said(old, json!({})).is_empty());
}

#[test]
fn a_pattern_says_what_it_says_in_go_and_one_that_does_not_compile_is_named() {
    for (pattern, fits, does_not) in [
        (r"^\d+$", "12", "١٢"),
        (r"^[\w-.]+$", "a-b.c", "ä"),
        (r"^[[a]+$", "[a[", "b"),
        (r"^[]a]+$", "]a", "b"),
        (r"^[^\s]+$", "a\u{a0}b", "a b"),
        (r"^[a&&b]+$", "a&b", "c"),
        (r"^[[:alpha:]_]+$", "ab_", "1"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        (r"^.$", "𝄞", "\n"),
        (r"^(a|b)*?c{2}\.$", "abcc.", "abc."),
        (r"^\pL+$", "äx", "1"),
        (r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$", "a-b", "a-"),
    ] {
        let x = json!({"type": "string", "pattern": pattern});
        assert_eq!(wrong(&x, json!(fits)), "", "{pattern}");
        assert_ne!(wrong(&x, json!(does_not)), "", "{pattern}");
    }
    let odd = schema_of(json!({"type": "string", "pattern": "(?<=a)b"}));
    assert_eq!(odd.skipped().len(), 1);
    assert!(odd.skipped()[0].starts_with("status.x: pattern `(?<=a)b`: "));
    let status = json!({"x": "anything"});
    assert_eq!(
        odd.violations(&status, &Value::Null, &Json::empty_object()),
        []
    );
}

#[test]
fn a_field_named_like_a_keyword_is_a_field() {
    let x = json!({"type": "object", "properties": {"type": {"type": "string"}, "enum": {"type": "integer"},
        "not": {"type": "string"}, "x-kubernetes-validations": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": "self.type != 'no'"}]});
    let good = json!({"type": "a", "enum": 1, "not": "b", "x-kubernetes-validations": "c"});
    assert_eq!(wrong(&x, good), "");
    assert_ne!(wrong(&x, json!({"type": "no"})), "");
}
