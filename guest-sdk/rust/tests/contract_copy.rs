//! The crate carries its own copy of the contract, so that it builds when published; the copy never differs from the original.

#[test]
fn the_copy_of_the_contract_equals_the_original() {
    let original = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../wit/reconciler.wit"
    ))
    .unwrap();
    assert!(
        original == include_str!("../wit/reconciler.wit"),
        "wit/reconciler.wit changed: copy it to guest-sdk/rust/wit/ and adapt src/contract.rs"
    );
}
