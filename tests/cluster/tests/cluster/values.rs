//! What a value is, it stays: through the API server, the host, a plugin and back.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{ECHOES, scenario};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// As JSON text, since values are what is in question. The server itself stores `1.0` as `1` and sorts members; whatever it
/// makes of the spec, the status must show the same.
const SPEC: &str = r#"{
    "int64": 9223372036854775807, "least": -9223372036854775808, "beyondDouble": 9007199254740993,
    "one": 1.0, "fraction": 0.1, "large": 1e21, "small": 1.5e-7, "zero": 0, "minusZero": -0.0,
    "null": null, "emptyText": "", "emptyList": [], "emptyMap": {}, "false": false,
    "nested": {"null": null, "list": [null, 0, 1.0, "", [], {}, [[null]], 9223372036854775806]},
    "text": "ä \u2028 \u0007 \"quoted\" \\ / 𝄞", "~/key": 1
}"#;

/// kro#1304, function-kro#68, hypershift#9550
#[test]
fn integers_fractions_null_empty_and_absent_survive_the_way_through_a_plugin() -> Result<()> {
    scenario("values", async |scene| {
        scene.map("echoes", &scene.echoes()?.to_string()).await?;
        let _host = scene.host()?;
        for (name, spec) in [("values", Some(SPEC)), ("absent", None)] {
            let spec = spec.map_or(String::new(), |spec| format!(r#","spec":{spec}"#));
            let body = format!(
                r#"{{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{name}"}}{spec}}}"#,
                ECHOES.api_version, ECHOES.kind
            );
            let path = ECHOES.path(&scene.namespace, "");
            let created = scene
                .api
                .send(http::Method::POST, &path, "application/json", body);
            created.await?.context("the kind is served")?;
            let seen = |echo: &serde_json::Value| echo["status"]["observedGeneration"] == 1;
            scene.object_is(ECHOES, name, "acknowledged", seen).await?;
        }

        let text = scene.api.text(ECHOES, &scene.namespace, "values").await?;
        let (spec, status) = spec_and_status(&text.context("the object")?)?;
        let echo = member(&status.context("a status")?, "echo")?;
        let spec = spec.context("a spec")?;
        ensure!(echo.as_deref() == Some(spec.as_str()), "\n{spec}\n{echo:?}");
        // The server did not spoil them before anybody saw them.
        for kept in [
            r#""int64":9223372036854775807"#,
            r#""least":-9223372036854775808"#,
            r#""beyondDouble":9007199254740993"#,
            r#""null":null"#,
            r#""emptyText":"""#,
            r#""emptyList":[]"#,
            r#""emptyMap":{}"#,
        ] {
            ensure!(spec.contains(kept), "{spec} has no {kept}");
        }

        let text = scene.api.text(ECHOES, &scene.namespace, "absent").await?;
        let (spec, status) = spec_and_status(&text.context("the object")?)?;
        ensure!(spec.is_none(), "{spec:?}");
        let echo = member(&status.context("a status")?, "echo")?;
        ensure!(echo.is_none(), "an absent spec was echoed as {echo:?}");
        Ok(())
    })
}

/// The texts of an object's spec and status, untouched.
fn spec_and_status(object: &str) -> Result<(Option<String>, Option<String>)> {
    Ok((member(object, "spec")?, member(object, "status")?))
}

fn member(object: &str, name: &str) -> Result<Option<String>> {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object)?;
    Ok(members.get(name).map(|value| value.get().to_owned()))
}
