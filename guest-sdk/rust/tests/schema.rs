//! Rust types become schemas that an API server accepts as structural.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use std::collections::BTreeMap;

use guesthouse_sdk::prelude::*;
use serde_json::Value;

/// The schema of a field of that type, as it stands in a CRD.
fn schema<T: JsonSchema + serde::de::DeserializeOwned>() -> Value {
    #[derive(Deserialize, JsonSchema)]
    struct Spec<T> {
        #[allow(dead_code)]
        field: T,
    }
    struct Probe<T>(std::marker::PhantomData<T>);
    impl<T: JsonSchema + serde::de::DeserializeOwned> Reconciler for Probe<T> {
        type Spec = Spec<T>;
        type Status = Raw;
        type Config = NoConfig;
        fn describe() -> Plugin {
            Plugin::new("probe", "0.0.0")
        }
        fn reconcile(_: &Observation<Self>) -> Result<Decision<Raw>, Failure> {
            Ok(Decision::new())
        }
    }
    let crd: Value =
        serde_json::from_str(&Crd::of::<Probe<T>>("example.com/v1", "Probe").json()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["field"].clone()
}

/// Documented.
#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Inner {
    /// The a.
    a: i32,
    b: Option<u16>,
    #[serde(default = "seven")]
    c: u64,
    #[serde(rename = "type")]
    nullable: Option<String>,
}

fn seven() -> u64 {
    7
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
enum Plain {
    A,
    B,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
enum Documented {
    /// The a.
    A,
    B,
    /// The c.
    C,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)]
enum External {
    ByName(String),
    ByRef { kind: String },
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[allow(dead_code)]
enum Tagged {
    A { a: i64 },
    B { b: bool },
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)]
enum IntOrString {
    Int(i64),
    Text(String),
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Tree {
    children: Vec<Tree>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Strict {
    a: bool,
}

#[test]
fn a_struct_has_its_members_with_documentation_defaults_and_known_formats() {
    assert_eq!(
        schema::<Inner>(),
        json!({
            "type": "object", "description": "Documented.", "required": ["a"],
            "properties": {
                "a": {"type": "integer", "format": "int32", "description": "The a."},
                "b": {"type": "integer", "minimum": 0, "maximum": 65535},
                "c": {"type": "integer", "minimum": 0, "default": 7},
                "type": {"type": "string"},
            },
        })
    );
}

#[test]
fn an_option_is_the_same_as_its_value_but_not_required() {
    assert_eq!(
        schema::<Option<i64>>(),
        json!({"type": "integer", "format": "int64"})
    );
    assert_eq!(schema::<Option<Inner>>(), schema::<Inner>());
    assert_eq!(schema::<Option<Plain>>(), schema::<Plain>());
    assert_eq!(
        schema::<Option<Documented>>()["enum"],
        schema::<Documented>()["enum"]
    );
}

#[test]
fn unit_enums_are_strings_of_that_set_documented_or_not() {
    assert_eq!(
        schema::<Plain>(),
        json!({"type": "string", "enum": ["A", "B"]})
    );
    let documented = schema::<Documented>();
    let mut values: Vec<_> = documented["enum"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    values.sort_unstable();
    assert_eq!(
        (&documented["type"], values),
        (&json!("string"), vec!["A", "B", "C"])
    );
}

#[test]
fn lists_and_maps_describe_their_values() {
    assert_eq!(
        schema::<Vec<bool>>(),
        json!({"type": "array", "items": {"type": "boolean"}})
    );
    assert_eq!(
        schema::<BTreeMap<String, u8>>(),
        json!({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 255}})
    );
}

#[test]
fn free_json_keeps_unknown_fields() {
    let keep = json!({"x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(schema::<Value>(), keep);
    assert_eq!(schema::<Raw>(), keep);
    assert_eq!(schema::<Option<Unread>>(), keep);
    assert_eq!(
        schema::<BTreeMap<String, Value>>(),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    );
}

#[test]
fn unions_have_their_members_beside_each_other_and_require_one_case() {
    assert_eq!(
        schema::<External>(),
        json!({
            "type": "object",
            "properties": {
                "byName": {"type": "string"},
                "byRef": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}},
            },
            "oneOf": [{"required": ["byName"]}, {"required": ["byRef"]}],
        })
    );
    assert_eq!(
        schema::<Tagged>()["properties"],
        json!({
            "type": {"type": "string", "enum": ["A", "B"]},
            "a": {"type": "integer", "format": "int64"},
            "b": {"type": "boolean"},
        })
    );
    assert_eq!(
        schema::<IntOrString>(),
        json!({"x-kubernetes-int-or-string": true})
    );
}

#[test]
fn a_type_that_contains_itself_ends_in_unknown_fields() {
    assert_eq!(
        schema::<Tree>()["properties"]["children"]["items"],
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    );
}

#[test]
fn denied_unknown_fields_are_left_to_pruning() {
    assert_eq!(
        schema::<Strict>(),
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "boolean"}}})
    );
}
