//! The committed definition is what the plugin's types say.

use guesthouse_sdk::testing::committed;

#[test]
fn the_committed_definition_is_the_one_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crd.yaml");
    let crd: serde_json::Value = serde_json::from_str(&echo::crd().json()).unwrap();
    let printed = serde_saphyr::to_string(&crd).unwrap();
    assert!(
        committed(path, &printed).unwrap() == printed,
        "crd.yaml differs from the types: run again with UPDATE=1\n{printed}"
    );
}
