//! What the plugin says of itself, and that the committed definition is what it says.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use guesthouse_sdk::json;
use guesthouse_sdk::testing::{committed, definition, describe};
use report_job::ReportJob;
use serde_json::Value;

#[test]
fn the_committed_definition_is_the_one_the_plugin_brings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crd.yaml");
    let printed = serde_saphyr::to_string(&definition::<ReportJob>()).unwrap();
    assert!(
        committed(path, &printed).unwrap() == printed,
        "crd.yaml differs from the types: run again with UPDATE=1\n{printed}"
    );
}

#[test]
fn the_definition_has_what_tools_look_for() {
    let version = &definition::<ReportJob>()["spec"]["versions"][0];
    assert_eq!(
        version["selectableFields"],
        json!([{"jsonPath": ".status.phase"}])
    );
    assert_eq!(version["subresources"], json!({"status": {}}));
    let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
    assert_eq!(
        status["default"],
        json!({"phase": "Pending", "observedGeneration": -1})
    );
    assert_eq!(
        status["properties"]["phase"]["enum"],
        json!(["Pending", "Done", "Failed"])
    );
    assert_eq!(
        status["properties"]["conditions"]["x-kubernetes-list-map-keys"],
        json!(["type"])
    );
    assert_eq!(
        status.get("required"),
        None,
        "the host may write conditions before the plugin has said a word"
    );
    let columns: Vec<_> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(
        columns,
        ["Report", "Phase", "Retries", "Ready", "Message", "Age"]
    );
}

#[test]
fn it_asks_for_put_and_needs_an_exporter() {
    let said = describe::<ReportJob>();
    assert_eq!(
        serde_json::from_str::<Value>(&said.grants).unwrap()["http"][0]["methods"],
        json!(["PUT"])
    );
    let config: Value = serde_json::from_str(said.config_schema.as_deref().unwrap()).unwrap();
    assert_eq!(
        (&config["required"], &config["additionalProperties"]),
        (&json!(["exporter"]), &json!(false))
    );
    assert!(!said.finalizes && said.needs.is_empty());
}
