use super::*;
use serde_json::json;

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
