//! A plugin that misbehaves costs itself, and nobody else.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{ECHOES, scenario};
use serde_json::{Value, json};

/// How the echo plugin misbehaves, and what the host calls it.
const WAYS: [(&str, &str); 8] = [
    ("panic", "Panic"),
    ("loop", "Timeout"),
    ("sleep", "Timeout"),
    ("memory", "OutOfMemory"),
    ("recurse", "StackOverflow"),
    ("print", "Timeout"),
    ("garbage", "BadOutput"),
    ("huge", "TooLarge"),
];

/// policy-server#374, adm-controller#368: one bad plugin concerns nobody else; adm-controller#1206: limits come by way of a real
/// ConfigMap.
#[test]
fn a_hostile_plugin_is_refused_by_name_backs_off_and_holds_up_no_other_mapping() -> Result<()> {
    scenario("hostile", async |scene| {
        let mut mapping = scene.echoes()?;
        mapping["limits"] = json!({"time": "200ms", "memory": "192Mi"});
        mapping["retry"] = json!({"base": "2s", "limit": 10});
        scene.map("hostile", &mapping.to_string()).await?;
        scene.map_report_jobs().await?;
        for (way, _) in WAYS {
            let spec = json!({"fail": way, "message": "the guest's own words"});
            let object = json!({"metadata": {"name": way}, "spec": spec});
            scene.create(ECHOES, object).await?;
        }
        let host = scene.host()?;
        for (way, kind) in WAYS {
            let told = scene
                .told(&scene.namespace, way, "PluginFailed", &format!("{kind}: "))
                .await?;
            ensure!(told.type_ == "Warning", "{told:?}");
            let object = format!("object {}/{way}", scene.namespace);
            for part in ["mapping hostile", "plugin sha256:", &object] {
                ensure!(told.note.contains(part), "{told:?} does not name {part}");
            }
            let limit = match way {
                "memory" => "192Mi (limits.memory)",
                "loop" | "sleep" | "print" => "200ms of CPU time",
                _ => kind,
            };
            ensure!(told.note.contains(limit), "{told:?} does not name {limit}");
            let refused = |echo: &Value| ready(echo)["status"] == "False";
            let echo = scene.object_is(ECHOES, way, "not ready", refused).await?;
            ensure!(ready(&echo)["reason"] == kind, "{echo}");
        }
        // They fail and fail again, and meanwhile others are served.
        for number in 0..20 {
            scene.job(&format!("good-{number}"), json!({})).await?;
        }
        scene.drained(20).await?;
        for (way, _) in WAYS {
            let journal = scene.journal(way).await?.context("a journal")?;
            let record = &journal["record"];
            ensure!(record["outcome"] == "plugin-failed", "{journal}");
            ensure!(record["retry"]["attempt"].as_u64() >= Some(1), "{journal}");
            ensure!(record["retry"]["nextAt"].is_string(), "{journal}");
            ensure!(
                journal["metadata"]["labels"]["guesthouse.dev/outcome"] == "plugin-failed",
                "{journal}"
            );
        }
        let panicked = scene.api.get(ECHOES, &scene.namespace, "panic").await?;
        let message = ready(&panicked)["message"].clone();
        let words = message.as_str().unwrap_or_default();
        ensure!(words.contains("the guest's own words"), "{message}");
        // A trap costs one call: the next one is like the first.
        for (way, _) in WAYS {
            let patch = json!({"spec": {"fail": null}});
            scene.patch(ECHOES, way, patch).await?;
        }
        for (way, _) in WAYS {
            let good = |echo: &Value| {
                ready(echo)["status"] == "True" && echo["status"]["observedGeneration"] == 2
            };
            scene.object_is(ECHOES, way, "well again", good).await?;
        }
        ensure!(host.ended()?.is_none(), "the host ended");
        Ok(())
    })
}

#[test]
fn after_the_last_retry_an_object_is_stalled_and_listed_until_its_spec_changes() -> Result<()> {
    scenario("stalled", async |scene| {
        let mut mapping = scene.echoes()?;
        mapping["retry"] = json!({"base": "100ms", "limit": 3});
        scene.map("echoes", &mapping.to_string()).await?;
        let _host = scene.host()?;
        let object =
            json!({"metadata": {"name": "bad"}, "spec": {"fail": "panic", "message": "no"}});
        scene.create(ECHOES, object).await?;
        let stalled = |echo: &Value| condition(echo, "Stalled")["status"] == "True";
        scene.object_is(ECHOES, "bad", "stalled", stalled).await?;
        let journal = scene
            .eventually("the journal says so", async || {
                let journal = scene.journal("bad").await?;
                Ok(journal.filter(|journal| journal["record"]["outcome"] == "stalled"))
            })
            .await?;
        ensure!(
            journal["metadata"]["labels"]["guesthouse.dev/outcome"] == "stalled",
            "{journal}"
        );
        // The first call and three retries.
        scene
            .until("the pass that gave up is over", || {
                let passes = scene.passes_of("bad")?;
                Ok(passes.iter().any(|pass| pass["outcome"] == "stalled"))
            })
            .await?;
        let passes = scene.passes_of("bad")?;
        let calls: u64 = passes.iter().filter_map(|p| p["calls"].as_u64()).sum();
        ensure!(calls == 4, "{calls} calls: {passes:?}");
        let patch = json!({"spec": {"fail": null}});
        scene.patch(ECHOES, "bad", patch).await?;
        let good = |echo: &Value| ready(echo)["status"] == "True";
        let echo = scene.object_is(ECHOES, "bad", "well again", good).await?;
        ensure!(condition(&echo, "Stalled").is_null(), "{echo}");
        Ok(())
    })
}

fn ready(object: &Value) -> Value {
    condition(object, "Ready")
}

fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|c| c["type"] == type_));
    found.cloned().unwrap_or_default()
}
