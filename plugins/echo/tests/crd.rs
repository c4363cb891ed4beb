//! The committed definition is what the plugin's types say.

#[test]
fn the_committed_definition_is_the_one_of_the_types() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/crd.yaml");
    let crd: serde_json::Value = serde_json::from_str(&echo::crd().json()).unwrap();
    let printed = serde_saphyr::to_string(&crd).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &printed).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == printed,
        "crd.yaml differs from the types: run again with UPDATE=1\n{printed}"
    );
}
