//! A plugin for any kind: its status is `{"echo": <the object's spec, byte for byte>}`.
//!
//! It shows that values survive both ways untouched, and as its other half it is the hostile guest of the tests: a spec with
//! `fail` makes it misbehave in that way. A spec with `read` or `children` makes it ask for those, see [`reads`]. It brings the kind `test.guesthouse.dev/v1 Echo`, but may be mapped to any.

mod reads;

use guesthouse_sdk::prelude::*;

/// How to misbehave, if at all; everything else in a spec is only echoed.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct EchoSpec {
    /// `panic`, `loop`, `sleep`, `memory`, `recurse`, `print`, `garbage`, `huge`, `retry` or `terminal`.
    fail: Option<String>,
    /// The text of a panic, retry or terminal failure.
    message: Option<String>,
}

/// The plugin.
pub struct Echo;

impl Reconciler for Echo {
    type Spec = EchoSpec;
    type Status = Raw;
    type Config = NoConfig;

    fn describe() -> Plugin {
        // No kinds: `guesthouse run` may map it to every kind. Its own is printed by `crd()`.
        Plugin::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn reconcile(seen: &Observation<Self>) -> Result<Decision<Raw>, Failure> {
        let message = seen.spec().message.as_deref().unwrap_or("as the spec says");
        match seen.spec().fail.as_deref() {
            None => reads::read(seen, echo(seen), seen.spec_json().unwrap_or("null")),
            Some("retry") => Err(Failure::retry("AsAsked", message)),
            Some("terminal") => Err(Failure::stall("AsAsked", message)),
            Some("garbage") => Ok(Decision::new().status_json("{\"echo\": nonsense")),
            Some("huge") => {
                Ok(Decision::new()
                    .status_json(format!("{{\"echo\":\"{}\"}}", "x".repeat(16 << 20))))
            }
            Some(other) => {
                misbehave(other, message);
                Err(Failure::stall(
                    "NoSuchFailure",
                    ["there is no way to fail named ", other].concat(),
                ))
            }
        }
    }
}

guesthouse_sdk::export!(Echo);

/// The definition of `test.guesthouse.dev/v1 Echo`.
pub fn crd() -> Crd {
    Crd::of::<Echo>("test.guesthouse.dev/v1", "Echo")
        .plural("echoes")
        .with_conditions()
        .ready_column()
        .age_column()
}

fn echo(seen: &Observation<Echo>) -> Decision<Raw> {
    match seen.spec_json() {
        Some(spec) => Decision::new().status_json(["{\"echo\":", spec, "}"].concat()),
        None => Decision::new().status_json("{}"),
    }
}

/// Ways not to return.
#[allow(clippy::panic)] // what the sandbox has to survive
fn misbehave(how: &str, message: &str) {
    match how {
        "panic" => panic!("{message}"),
        "loop" => loop {
            std::hint::black_box(());
        },
        "sleep" => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        "memory" => {
            let mut all = Vec::new();
            loop {
                all.push(std::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
        "recurse" => {
            std::hint::black_box(recurse(1));
        }
        "print" => loop {
            eprintln!("{message}");
        },
        _ => {}
    }
}

/// Never comes back: the sum of itself and what is deeper.
#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    std::hint::black_box(recurse(depth + 1)) + depth
}

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_sdk::contract::FailureKind;
    use guesthouse_sdk::testing::{decide, describe, observe};

    #[test]
    fn a_spec_comes_back_byte_for_byte() {
        for spec in [
            r#"{"a":9223372036854775807,"b":-9223372036854775808,"c":18446744073709551615}"#,
            r#"{"a":1.0,"b":1,"c":1e3,"d":0.10}"#,
            r#"{ "null": null, "empty": "", "none": {}, "list": [ ] , "z":1,"a":2}"#,
            r#"null"#,
            r#"{"text":"\u00e4 ä \/"}"#,
        ] {
            let object =
                format!(r#"{{"metadata":{{"name":"a"}},"spec":{spec},"status":{{"echo":1}}}}"#);
            let decision = decide::<Echo>(&observe(object)).unwrap();
            assert_eq!(
                decision.status_text().unwrap(),
                format!(r#"{{"echo":{spec}}}"#)
            );
        }
    }

    #[test]
    fn an_absent_spec_stays_absent() {
        let decision = decide::<Echo>(&observe(r#"{"metadata":{"name":"a"}}"#)).unwrap();
        assert_eq!(decision.status_text(), Some("{}"));
    }

    #[test]
    fn failures_are_as_the_spec_says() {
        for (fail, kind, message) in [
            ("retry", FailureKind::Retry, "m"),
            ("terminal", FailureKind::Terminal, "m"),
            (
                "bogus",
                FailureKind::Terminal,
                "there is no way to fail named bogus",
            ),
        ] {
            let scene =
                observe(json!({"metadata": {"name": "a"}, "spec": {"fail": fail, "message": "m"}}));
            let failure = decide::<Echo>(&scene).unwrap_err();
            assert_eq!(
                (failure.kind, failure.cause.message.as_str()),
                (kind, message)
            );
        }
    }

    #[test]
    fn any_kind_may_be_mapped_and_the_own_one_keeps_unknown_fields() {
        assert_eq!(describe::<Echo>().kinds, []);
        let crd: serde_json::Value = serde_json::from_str(&crd().json()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        for part in ["spec", "status"] {
            assert_eq!(
                schema[part]["x-kubernetes-preserve-unknown-fields"], true,
                "{part}"
            );
        }
        assert_eq!(crd["metadata"]["name"], "echoes.test.guesthouse.dev");
    }
}
