//! What never settles, what is asked for by name, and what must happen at a time.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{CONFIG_MAPS, Scene, WISHES, condition, scenario};
use serde_json::{Value, json};

const RECONCILE: &str = "guesthouse.dev/reconcile";
const PAUSED: &str = "guesthouse.dev/paused";

/// crossplane#5007
#[test]
fn a_plugin_that_never_settles_is_stopped_after_few_writes_probed_and_let_on_by_an_edit()
-> Result<()> {
    scenario("restless", async |scene| {
        let mut mapping = mapping(scene)?;
        mapping["breaker"] = json!({"writes": 5, "per": "4s"});
        scene.map("wishes", &mapping.to_string()).await?;
        let host = scene.host()?;
        let restless = json!({"reconcile": {"restless": true}});
        scene.wish("wish", restless).await?;
        let stopped = scene
            .condition_is(
                WISHES,
                "wish",
                "Stalled",
                "True",
                "keeps changing what it wrote",
            )
            .await?;
        ensure!(
            condition(&stopped, "Stalled")["reason"] == "NotConverging",
            "{stopped}"
        );
        let writes = scene.writes_to("wish", 0)?.len();
        ensure!(
            (5..=8).contains(&writes),
            "{writes} writes before it was stopped"
        );
        scene
            .told(&scene.namespace, "wish", "Stalled", "NotConverging")
            .await?;
        // Others are served meanwhile, and a probe comes in its time: it writes, and nothing follows it.
        scene.wish("other", json!({})).await?;
        scene.ready(WISHES, "other").await?;
        let turn = |wish: &Value| wish["status"]["turn"].as_i64().unwrap_or(0);
        let before = turn(&stopped);
        let probed = scene
            .object_is(WISHES, "wish", "probed", |wish| turn(wish) > before)
            .await?;
        let mark = scene.mark()?;
        scene
            .object_is(WISHES, "wish", "probed again", |wish| {
                turn(wish) > turn(&probed)
            })
            .await?;
        let between = scene.writes_to("wish", mark)?.len();
        ensure!(between <= 4, "{between} writes from one probe to the next");
        // An edit starts anew.
        scene
            .patch(WISHES, "wish", json!({"spec": {"reconcile": null}}))
            .await?;
        scene.ready(WISHES, "wish").await?;
        scene.stop(host).await
    })
}

#[test]
fn a_token_asks_for_one_pass_also_of_what_was_given_up_and_is_not_taken_up_twice() -> Result<()> {
    scenario("token", async |scene| {
        scene.map("wishes", &mapping(scene)?.to_string()).await?;
        let host = scene.host()?;
        scene
            .wish("wish", json!({"reconcile": {"fail": "no"}}))
            .await?;
        scene
            .condition_is(WISHES, "wish", "Stalled", "True", "no")
            .await?;
        scene
            .until("it was called", || Ok(calls(scene, 0)? == 1))
            .await?;
        let position = scene.log()?.len();
        let token = json!({"metadata": {"annotations": {RECONCILE: "one"}}});
        scene.patch(WISHES, "wish", token).await?;
        recorded(scene, "one").await?;
        scene
            .until("it was called", || Ok(calls(scene, position)? == 1))
            .await?;
        // Neither the same token again nor a restart asks again.
        scene.stop(host).await?;
        let position = scene.log()?.len();
        let host = scene.host()?;
        scene.quiet("wish", position).await?;
        ensure!(
            calls(scene, position)? == 0,
            "{:#?}",
            scene.passes_since(position)?
        );
        // One that was set while nobody looked is taken up.
        scene.stop(host).await?;
        let token = json!({"metadata": {"annotations": {RECONCILE: "two"}}});
        scene.patch(WISHES, "wish", token).await?;
        let position = scene.log()?.len();
        let _host = scene.host()?;
        recorded(scene, "two").await?;
        scene
            .until("it was called", || Ok(calls(scene, position)? >= 1))
            .await?;
        ensure!(calls(scene, position)? == 1);
        Ok(())
    })
}

/// Waits until the journal says that this token was taken up.
async fn recorded(scene: &Scene<'_>, token: &str) -> Result<()> {
    scene
        .eventually(&format!("the token {token} is on record"), async || {
            let journal = scene.journal("wish").await?.context("a journal")?;
            Ok((journal["record"]["reconciled"] == token).then_some(()))
        })
        .await
}

/// metacontroller#1252
#[test]
fn a_paused_object_is_left_alone_its_deletion_waits_and_both_go_on_afterwards() -> Result<()> {
    scenario("paused-deletion", async |scene| {
        let mut mapping = scene.wishes("decide_finalizing", &[CONFIG_MAPS])?;
        mapping["resync"] = json!("2s");
        scene.map("wishes", &mapping.to_string()).await?;
        let host = scene.host()?;
        scene.wish("wish", json!({})).await?;
        scene.ready(WISHES, "wish").await?;
        let pause = |to: Value| json!({"metadata": {"annotations": {PAUSED: to}}});
        scene.patch(WISHES, "wish", pause(json!("true"))).await?;
        scene
            .told(&scene.namespace, "wish", "Paused", PAUSED)
            .await?;
        let edit = json!({"spec": {"reconcile": {"labels": {"a": "b"}}}});
        scene.patch(WISHES, "wish", edit).await?;
        let (mark, position) = (scene.mark()?, scene.log()?.len());
        scene.delete(WISHES, "wish").await?;
        paused_passes(scene, position, 3).await?;
        // Nor by the next host.
        scene.stop(host).await?;
        let position = scene.log()?.len();
        let _host = scene.host()?;
        paused_passes(scene, position, 2).await?;
        scene.wrote("wish", mark, 0)?;
        let wish = scene.read(WISHES, "wish").await?;
        ensure!(condition(&wish, "Ready")["status"] == "True", "{wish}");
        ensure!(wish["metadata"]["labels"].is_null(), "{wish}");
        let told = scene.api.events(&scene.namespace, "wish").await?;
        let told = told.iter().filter(|event| event.reason == "Paused").count();
        ensure!(
            (1..=2).contains(&told),
            "{told} Events, one by each host at most"
        );
        scene.patch(WISHES, "wish", pause(Value::Null)).await?;
        scene.gone(WISHES, "wish").await
    })
}

#[test]
fn a_wake_at_a_time_that_stands_in_the_status_comes_in_its_second_across_a_restart() -> Result<()> {
    scenario("wake", async |scene| {
        scene.map("wishes", &mapping(scene)?.to_string()).await?;
        let host = scene.host()?;
        for (name, seconds) in [("soon", 3), ("later", 8), ("missed", 5)] {
            scene
                .wish(name, json!({"reconcile": {"wait": seconds}}))
                .await?;
            scene
                .object_is(WISHES, name, "on its way", |wish| {
                    wish["status"]["at"].is_string()
                })
                .await?;
        }
        let woke = |wish: &Value| wish["status"]["woke"].is_string();
        let soon = scene.object_is(WISHES, "soon", "woken", woke).await?;
        scene.stop(host).await?;
        let missed = scene.read(WISHES, "missed").await?;
        let _host = scene.host()?;
        let later = scene.object_is(WISHES, "later", "woken", woke).await?;
        let missed_after = scene.object_is(WISHES, "missed", "woken", woke).await?;
        ensure!(
            missed_after["status"]["at"] == missed["status"]["at"],
            "{missed_after}"
        );
        // Never before its time; how long after depends on the machine.
        for wish in [&soon, &later, &missed_after] {
            let text = |member: &str| {
                wish["status"][member]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            ensure!(text("at") <= text("woke"), "{wish}");
            let name = wish["metadata"]["name"].as_str().unwrap_or_default();
            scene.quiet(name, 0).await?;
        }
        // The timer led to one call that had something to say, and nobody was asked in between.
        let passes = scene.passes_of("soon")?;
        let called = passes
            .iter()
            .filter(|pass| pass["calls"] == 1 && pass["writes"] != 0)
            .count();
        ensure!(called == 2, "{passes:#?}");
        Ok(())
    })
}

fn mapping(scene: &Scene<'_>) -> Result<Value> {
    scene.wishes("decide", &[CONFIG_MAPS])
}

/// How often the plugin was called for `wish` since a position of the log.
fn calls(scene: &Scene<'_>, position: usize) -> Result<u64> {
    let object = format!("{}/wish", scene.namespace);
    let passes = scene.passes_since(position)?;
    let passes = passes
        .iter()
        .filter(|pass| pass["object"] == object.as_str());
    Ok(passes.filter_map(|pass| pass["calls"].as_u64()).sum())
}

async fn paused_passes(scene: &Scene<'_>, position: usize, count: usize) -> Result<()> {
    let object = format!("{}/wish", scene.namespace);
    scene
        .until("paused passes", || {
            let passes = scene.passes_since(position)?;
            let paused = |p: &&Value| p["object"] == object.as_str() && p["outcome"] == "paused";
            Ok(passes.iter().filter(paused).count() >= count)
        })
        .await
}
