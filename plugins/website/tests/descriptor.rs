//! What the plugin says of itself, and that the committed definition is what it says.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use std::collections::BTreeSet;

use guesthouse_sdk::contract::Action;
use guesthouse_sdk::testing::{committed, decide, definition, describe, observe};
use guesthouse_sdk::{Value, json};
use website::Website;

#[test]
fn the_committed_definition_is_the_one_the_plugin_brings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crd.yaml");
    let printed = serde_saphyr::to_string(&definition::<Website>()).unwrap();
    assert!(
        committed(path, &printed).unwrap() == printed,
        "crd.yaml differs from the types: run again with UPDATE=1\n{printed}"
    );
}

#[test]
fn a_website_may_say_nothing_at_all() {
    let version = &definition::<Website>()["spec"]["versions"][0];
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec.get("required"), None);
    assert_eq!(spec["properties"]["replicas"]["default"], 1);
    assert_eq!(spec["properties"]["port"]["default"], 8080);
    assert_eq!(
        spec["properties"]["content"]["additionalProperties"]["type"],
        "string"
    );
}

#[test]
fn it_asks_for_the_kinds_it_makes_and_no_others() {
    let said = describe::<Website>();
    assert!(!said.finalizes, "the children go with their owner");
    let grants: Value = serde_json::from_str(&said.grants).unwrap();
    let pair = |of: &Value| (of["apiVersion"].clone(), of["kind"].clone());
    let name = |(version, kind): (Value, Value)| format!("{version} {kind}");
    let granted: BTreeSet<_> = grants["apply"]
        .as_array()
        .unwrap()
        .iter()
        .map(pair)
        .map(name)
        .collect();
    let site = observe(json!({"metadata": {"name": "a"}, "spec": {"host": "a.example"}}));
    let decision = decide::<Website>(&site).unwrap();
    let made = decision.effects.iter().map(|effect| {
        let Action::Apply(apply) = &effect.action else {
            panic!("{effect:?}")
        };
        name(pair(&serde_json::from_str(&apply.object).unwrap()))
    });
    assert_eq!(made.collect::<BTreeSet<_>>(), granted);
}
