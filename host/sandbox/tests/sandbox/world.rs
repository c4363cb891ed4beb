//! What a guest can learn of where it runs: nothing but the observation.

use guesthouse_sandbox::{Level, LogLine, Metering, Settings, Verb};
use serde_json::json;

use crate::support::*;

#[test]
fn clock_hash_seeds_environment_and_arguments_are_constant() {
    let (text, world) = status(call(r#"{"do":"world"}"#));
    assert_eq!(
        status(call(r#"{"do":"world"}"#)).0,
        text,
        "equal bytes, hash order included"
    );
    assert_eq!(
        world["wall"],
        json!(1_795_989_180),
        "the wall clock is `now`, {NOW}"
    );
    assert_eq!(
        (&world["environment"], &world["arguments"]),
        (&json!(0), &json!(0))
    );
    assert_ne!(
        world["hashes"],
        json!((0..100).collect::<Vec<_>>()),
        "the map is a hash map"
    );
}

#[test]
fn files_are_not_there_and_the_guest_can_say_so() {
    let (_, files) = status(call(r#"{"do":"files"}"#));
    for what in ["read", "write", "list"] {
        assert!(files[what].is_string(), "{what}: {files}");
    }
    assert_eq!(files["stdin"], json!(0), "stdin is at its end");
}

#[test]
fn nans_have_one_pattern() {
    let (_, nans) = status(call(r#"{"do":"nan"}"#));
    let patterns: Vec<_> = nans
        .as_array()
        .unwrap()
        .iter()
        .map(|bits| bits.as_str().unwrap())
        .collect();
    assert!(
        patterns
            .iter()
            .all(|bits| bits.ends_with("ff8000000000000")),
        "{patterns:?}"
    );
    assert_eq!(status(call(r#"{"do":"nan"}"#)).1, nans);
}

#[test]
fn an_echo_gives_back_every_byte() {
    let object = r#"{"do":"echo","big":9007199254740993,"max":18446744073709551615,"float":1.0,"exp":1E+2,"null":null,"empty":"","list":[],"map":{},"é":"ü\u0000"}"#;
    assert_eq!(status(call(object)).0, object);
}

#[test]
fn streams_and_log_come_in_order_with_their_levels() {
    let lines: Vec<_> = call(r#"{"do":"talk"}"#)
        .logs
        .into_iter()
        .map(|LogLine { level, message }| (level, message))
        .collect();
    let line = |level, text: &str| (level, text.to_owned());
    assert_eq!(
        lines,
        [
            line(Level::Debug, "one"),
            line(Level::Info, "two"),
            line(Level::Info, "three"),
            line(Level::Error, "four\nfive"),
            line(Level::Info, "six"),
        ]
    );
}

#[test]
fn fuel_counts_the_same_for_the_same_call_and_ends_a_loop() {
    let plugin = sandbox(Settings {
        metering: Metering::Fuel,
        ..Settings::default()
    })
    .load(wasm())
    .unwrap();
    let spent = |order: &str| plugin.call(Verb::Reconcile, &seen(order), &time(20));
    let once = spent(r#"{"do":"world"}"#).used.fuel.unwrap();
    assert!(once > 1000);
    assert_eq!(spent(r#"{"do":"world"}"#).used.fuel, Some(once));
    assert_eq!(
        refused(spent(r#"{"do":"loop"}"#)),
        "Timeout: the call used up the instructions for 20ms (limits.time)"
    );
}
