use super::*;

/// Reads `text` as a reply and gives it back as printed.
fn round_trip(text: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&serde_json::from_str::<Reply>(text)?)
}

/// kro#1304, function-kro#68: `1` becomes `1.0`, 64-bit integers lose precision.
#[test]
fn json_text_inside_a_decision_is_not_rewritten() {
    let text = r#"{"decision":{"status":{"replace":{"a":1.0,"b":9007199254740993,"c":null,"d":[],"e":{},"f":"","z":1E+2}}}}"#;
    assert_eq!(round_trip(text).unwrap(), text);
}

#[test]
fn an_empty_decision_is_valid_and_prints_as_empty() {
    assert_eq!(
        round_trip(r#"{"decision":{}}"#).unwrap(),
        r#"{"decision":{}}"#
    );
}

#[test]
fn an_unknown_member_of_a_decision_is_an_error_that_names_it() {
    for text in [
        r#"{"decision":{"stauts":{}}}"#,
        r#"{"decision":{"effects":[{"id":"a","acton":{}}]}}"#,
        r#"{"failure":{"kind":"retry","cause":{"reason":"R","message":"m","extra":1}}}"#,
    ] {
        let error = round_trip(text).unwrap_err().to_string();
        assert!(error.contains("unknown field"), "{text}: {error}");
    }
}

#[test]
fn a_null_label_takes_it_off_and_bytes_are_base64() {
    let text = r#"{"decision":{"labels":{"a":null,"b":"x"},"effects":[{"id":"e","action":{"http":{"request":{"method":"PUT","url":"http://h/","body":{"bytes":"/wA="}},"delivery":"atMostOnce"}}}],"wake":{"after":5}}}"#;
    let Reply::Decision(decision) = serde_json::from_str(text).unwrap() else {
        panic!("a decision")
    };
    assert_eq!(decision.labels["a"], None);
    let Action::Http(http) = &decision.effects[0].action else {
        panic!("http")
    };
    assert_eq!(http.request.body.as_bytes(), [0xff, 0]);
    assert_eq!(decision.wake, Some(Wake::After(5)));
}

#[test]
fn a_cut_never_splits_a_character() {
    assert_eq!(cut("aé", 2), "a");
    assert_eq!(cut("aé", 3), "aé");
}
