//! What the plugin says of itself, and that the committed definition is what it says.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use guesthouse_sdk::json;
use guesthouse_sdk::testing::{committed, definition, describe};
use provision_request::ProvisionRequest;
use serde_json::Value;

#[test]
fn the_committed_definition_is_the_one_the_plugin_brings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crd.yaml");
    let printed = serde_saphyr::to_string(&definition::<ProvisionRequest>()).unwrap();
    assert!(
        committed(path, &printed).unwrap() == printed,
        "crd.yaml differs from the types: run again with UPDATE=1\n{printed}"
    );
}

#[test]
fn size_and_region_are_required_and_a_size_is_one_of_three() {
    let version = &definition::<ProvisionRequest>()["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["required"], json!(["size", "region"]));
    assert_eq!(
        spec["properties"]["size"]["enum"],
        json!(["small", "medium", "large"])
    );
    assert_eq!(schema["required"], json!(["spec"]));
    assert_eq!(
        version["selectableFields"],
        json!([{"jsonPath": ".status.phase"}])
    );
}

#[test]
fn it_finalizes_and_asks_for_all_it_sends() {
    let said = describe::<ProvisionRequest>();
    assert!(said.finalizes);
    let grants: Value = serde_json::from_str(&said.grants).unwrap();
    assert_eq!(
        grants["http"][0]["methods"],
        json!(["GET", "PUT", "DELETE"])
    );
    let config: Value = serde_json::from_str(said.config_schema.as_deref().unwrap()).unwrap();
    assert_eq!(config["required"], json!(["provisioner"]));
}
