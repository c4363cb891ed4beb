//! Plugins in other languages than Rust, end to end.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    CONFIG_CHECKSUMS, CONFIG_MAPS, EMAIL_REQUESTS, JOBS, NIGHTLY_BACKUPS, PROVISION_REQUESTS,
    Receiver, Scene, condition, of_language, plugin, scenario,
};
use serde_json::{Value, json};
use std::path::Path;

fn phase(wanted: &'static str) -> impl Fn(&Value) -> bool {
    move |object| object["status"]["phase"] == wanted
}

/// The header's value in a request as it came.
fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let head = request.split("\r\n\r\n").next()?;
    let line = |line: &&'a str| line.to_lowercase().starts_with(&format!("{name}:"));
    let value = head.lines().find(line)?.split_once(':')?.1;
    Some(value.trim())
}

/// JavaScript
#[test]
fn a_mail_is_sent_once_under_the_objects_name_also_over_a_restart_and_a_changed_spec() -> Result<()>
{
    let Some(wasm) = of_language("email_request")? else {
        return Ok(());
    };
    scenario("emails", async |scene| {
        let gateway = Receiver::start().await?;
        scene.define_of("email-request").await?;
        scene.map("emails", &emails(scene, &wasm, &gateway)).await?;
        let host = scene.host()?;
        gateway.answer(503, "busy");
        mail(scene, "welcome", "mira@example.com").await?;
        let waits = |mail: &Value| {
            phase("Waiting")(mail)
                && mail["status"]["message"]
                    .as_str()
                    .is_some_and(|m| m.contains("503"))
        };
        scene
            .object_is(EMAIL_REQUESTS, "welcome", "waiting", waits)
            .await?;
        gateway.answer(202, r#"{"id":"m-1"}"#);
        let sent = scene
            .object_is(EMAIL_REQUESTS, "welcome", "sent", phase("Sent"))
            .await?;
        ensure!(sent["status"]["messageId"] == "m-1", "{sent}");
        let count = gateway.requests().len();
        for request in gateway.requests() {
            ensure!(
                header(&request, "idempotency-key") == Some("welcome"),
                "{request}"
            );
            ensure!(request.contains(r#""to":"mira@example.com""#), "{request}");
        }
        // Acknowledged, and not sent again: not as it is, not after a restart.
        scene
            .patch(
                EMAIL_REQUESTS,
                "welcome",
                json!({"spec": {"template": "other"}}),
            )
            .await?;
        let seen = |mail: &Value| mail["status"]["observedGeneration"] == 2;
        scene
            .object_is(EMAIL_REQUESTS, "welcome", "acknowledged", seen)
            .await?;
        scene.stop(host).await?;
        let position = scene.log()?.len();
        let _host = scene.host()?;
        scene.quiet("welcome", position).await?;
        ensure!(
            gateway.requests().len() == count,
            "{:#?}",
            gateway.requests()
        );

        gateway.answer(422, "no such mailbox");
        mail(scene, "lost", "nobody@example.com").await?;
        let failed = scene
            .object_is(EMAIL_REQUESTS, "lost", "failed", phase("Failed"))
            .await?;
        let message = failed["status"]["message"].as_str().unwrap_or_default();
        ensure!(
            message.contains("422") && message.contains("no such mailbox"),
            "{failed}"
        );
        ensure!(condition(&failed, "Ready")["status"] == "False", "{failed}");
        Ok(())
    })
}

fn emails(scene: &Scene<'_>, wasm: &Path, gateway: &Receiver) -> String {
    let mut mapping = scene.mapping(EMAIL_REQUESTS, wasm);
    mapping["config"] = json!({"gateway": gateway.url()});
    mapping["grants"] = json!({"http": [
        {"host": "127.0.0.1:*", "methods": ["POST"], "path": "/messages", "literalKey": true},
    ]});
    mapping["retry"] = json!({"base": "200ms", "max": "1s", "limit": 20});
    mapping.to_string()
}

async fn mail(scene: &Scene<'_>, name: &str, to: &str) -> Result<Value> {
    let object = json!({
        "metadata": {"name": name},
        "spec": {"to": to, "template": "welcome", "locale": "de"},
    });
    scene.create(EMAIL_REQUESTS, object).await
}

/// C
#[test]
fn a_checksum_follows_its_config_map_whether_it_is_there_or_not() -> Result<()> {
    let Some(wasm) = of_language("config_checksum")? else {
        return Ok(());
    };
    scenario("checksums", async |scene| {
        scene.define_of("config-checksum").await?;
        let mut mapping = scene.mapping(CONFIG_CHECKSUMS, &wasm);
        mapping["grants"] = json!({"read": [{"apiVersion": "v1", "kind": "ConfigMap"}]});
        scene.map("checksums", &mapping.to_string()).await?;
        let _host = scene.host()?;
        let object = json!({"metadata": {"name": "sum"}, "spec": {"configMap": "settings"}});
        scene.create(CONFIG_CHECKSUMS, object).await?;
        let waits = |sum: &Value| condition(sum, "Ready")["reason"] == "ConfigMapMissing";
        scene
            .object_is(CONFIG_CHECKSUMS, "sum", "waiting", waits)
            .await?;
        let settings = json!({"metadata": {"name": "settings"}, "data": {"color": "green"}});
        scene.create(CONFIG_MAPS, settings).await?;
        let first = scene.ready(CONFIG_CHECKSUMS, "sum").await?;
        let sum = |object: &Value| object["status"]["checksum"].as_str().map(str::to_owned);
        let green = sum(&first).context("a checksum")?;
        // FNV-1a over `color` and `green`, each with its length before it.
        ensure!(green == fnv(&["color", "green"]), "{first}");
        ensure!(
            first["metadata"]["annotations"]["ops.acme.io/checksum"] == *green,
            "{first}"
        );
        scene
            .patch(CONFIG_MAPS, "settings", json!({"data": {"color": "blue"}}))
            .await?;
        let blue = fnv(&["color", "blue"]);
        let changed = |object: &Value| sum(object).as_ref() == Some(&blue);
        scene
            .object_is(CONFIG_CHECKSUMS, "sum", "blue", changed)
            .await?;
        Ok(())
    })
}

/// Waits until the log's last word is that this plugin serves.
async fn serves(scene: &Scene<'_>, plugin: &str) -> Result<()> {
    scene
        .until(&format!("{plugin} serves"), || {
            let log = scene.log()?;
            let last = log.iter().rfind(|line| line["reason"] == "MappingActive");
            let text = last.and_then(|line| line["message"].as_str());
            Ok(text.is_some_and(|text| text.contains(plugin)))
        })
        .await
}

fn fnv(parts: &[&str]) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        let length = (part.len() as u64).to_be_bytes();
        for byte in length.iter().copied().chain(part.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

/// Python. Trap of schedules: what was missed while nobody looked is made up for once, not once for each time.
#[test]
fn a_backup_that_was_missed_is_made_once_and_its_end_is_told() -> Result<()> {
    let Some(wasm) = of_language("nightly_backup")? else {
        return Ok(());
    };
    scenario("backups", async |scene| {
        scene.define_of("nightly-backup").await?;
        let mut mapping = scene.mapping(NIGHTLY_BACKUPS, &wasm);
        mapping["grants"] = json!({"apply": [{"apiVersion": "batch/v1", "kind": "Job"}]});
        mapping["limits"] = json!({"time": "3s"});
        scene.map("backups", &mapping.to_string()).await?;
        let object = json!({
            "metadata": {"name": "orders"},
            "spec": {"schedule": "0 2 * * *", "timeZone": "Europe/Berlin", "image": "backup:1"},
        });
        scene.create(NIGHTLY_BACKUPS, object).await?;
        // The host was away since a night long ago.
        let missed = json!({"status": {
            "schedule": "0 2 * * * Europe/Berlin", "nextRun": "2026-03-29T00:00:00Z",
        }});
        scene
            .patch_status(NIGHTLY_BACKUPS, "orders", missed)
            .await?;
        let host = scene.host()?;
        let ran = |backup: &Value| backup["status"]["lastResult"] == "Running";
        let backup = scene
            .object_is(NIGHTLY_BACKUPS, "orders", "running", ran)
            .await?;
        let [last, next] = ["lastRun", "nextRun"].map(|field| {
            let text = backup["status"][field].as_str().unwrap_or_default();
            text.parse::<jiff::Timestamp>()
        });
        let (last, next, now) = (last?, next?, jiff::Timestamp::now());
        ensure!(last <= now && now < next, "{backup}");
        // A night is at most 25 hours after another.
        ensure!(next.duration_since(last).as_hours() <= 25, "{backup}");
        let jobs = scene.api.list(JOBS, &scene.namespace).await?;
        ensure!(jobs.len() == 1, "{jobs:#?}");
        let name = jobs[0]["metadata"]["name"].as_str().context("a name")?;
        // What the Jobs' controller would say.
        let ended = last.to_string();
        let done =
            |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": ended});
        let complete = json!({"status": {
            "startTime": ended, "completionTime": ended, "succeeded": 1,
            "conditions": [done("SuccessCriteriaMet"), done("Complete")],
        }});
        scene.patch_status(JOBS, name, complete).await?;
        let succeeded = |backup: &Value| backup["status"]["history"][0]["result"] == "Succeeded";
        scene
            .object_is(NIGHTLY_BACKUPS, "orders", "succeeded", succeeded)
            .await?;
        scene.stop(host).await?;
        let position = scene.log()?.len();
        let _host = scene.host()?;
        scene.quiet("orders", position).await?;
        let jobs = scene.api.list(JOBS, &scene.namespace).await?;
        ensure!(jobs.len() == 1, "{jobs:#?}");
        Ok(())
    })
}

/// Go, in place of Rust and back: a plugin in another language that decides the same changes nothing.
#[test]
fn a_request_lives_on_when_its_plugin_is_exchanged_for_one_in_another_language() -> Result<()> {
    let Some(go) = of_language("provision_request_go")? else {
        return Ok(());
    };
    scenario("provision-go", async |scene| {
        let provisioner = scene.provisioner().await?;
        let map = async |wasm: &Path| {
            let mut mapping = scene.provision_requests(&provisioner.url())?;
            mapping["plugin"] = json!({"file": wasm});
            scene.map("provision-requests", &mapping.to_string()).await
        };
        map(&go).await?;
        let host = scene.host()?;
        let object = json!({"metadata": {"name": "db"}, "spec": {"size": "small", "region": "eu"}});
        scene.create(PROVISION_REQUESTS, object).await?;
        scene.ready(PROVISION_REQUESTS, "db").await?;
        let mark = scene.mark()?;
        let rust = plugin("provision_request")?;
        let position = scene.log()?.len();
        map(&rust).await?;
        serves(scene, "provision-request 0").await?;
        scene.quiet("db", position).await?;
        scene.wrote("db", mark, 0)?;
        scene.enlarge("db").await?;
        map(&go).await?;
        serves(scene, "provision-request-go 0").await?;
        scene.delete(PROVISION_REQUESTS, "db").await?;
        scene.gone(PROVISION_REQUESTS, "db").await?;
        let acts = provisioner.stats().acts;
        let acts = acts.values().next().context("one resource")?;
        ensure!(
            (acts.created, acts.resized, acts.deleted) == (1, 1, 1),
            "{acts:?}"
        );
        scene.stop(host).await
    })
}
