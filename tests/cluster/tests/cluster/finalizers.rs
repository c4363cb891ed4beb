//! Deletion: what passes through a plugin, what waits and says for what, and what is let go.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    Arguments, CONFIG_MAPS, KINDS, NAMESPACES, Resource, Scene, WISHES, child, condition, plugin,
    scenario,
};
use serde_json::{Value, json};
use std::path::PathBuf;

const FINALIZER: &str = "guesthouse.dev/wishes";
const FOREIGN: &str = "others.example/hold";

/// KubeOps#972
#[test]
fn an_object_that_is_terminating_when_the_host_starts_is_finalized_too() -> Result<()> {
    scenario("terminating", async |scene| {
        serve_with(scene, json!({})).await?;
        let host = scene.host()?;
        wish(scene, "wish", json!({})).await?;
        host.kill();
        scene.delete(WISHES, "wish").await?;
        let wish = scene.read(WISHES, "wish").await?;
        ensure!(wish["metadata"]["deletionTimestamp"].is_string(), "{wish}");
        let _host = scene.host()?;
        scene.gone(WISHES, "wish").await?;
        scene.gone(CONFIG_MAPS, "wish").await?;
        no_journal(scene, "wish").await
    })
}

/// kopf#309, achilles-sdk#129, kro#1260
#[test]
fn finalizers_of_others_stay_whatever_their_place_and_are_never_put_on_again() -> Result<()> {
    scenario("foreign-finalizers", async |scene| {
        serve_with(scene, json!({})).await?;
        let _host = scene.host()?;
        let object = json!({
            "metadata": {"name": "wish", "finalizers": [FOREIGN]},
            "spec": {"finalize": {"unfinished": true}},
        });
        scene.create(WISHES, object).await?;
        let both = |wish: &Value| wish["metadata"]["finalizers"] == json!([FOREIGN, FINALIZER]);
        scene
            .object_is(WISHES, "wish", "held by both", both)
            .await?;
        scene.delete(WISHES, "wish").await?;
        let waits = "the plugin has not finished its clean-up";
        scene.unready(WISHES, "wish", waits).await?;
        // Others come and go while we wait.
        let third = json!({"metadata": {"finalizers": [FINALIZER, FOREIGN]}});
        scene.patch(WISHES, "wish", third).await?;
        scene
            .patch(WISHES, "wish", json!({"spec": {"finalize": null}}))
            .await?;
        let left = |wish: &Value| wish["metadata"]["finalizers"] == json!([FOREIGN]);
        scene
            .object_is(WISHES, "wish", "held by the other alone", left)
            .await?;
        let mark = scene.mark()?;
        let position = scene.log()?.len();
        scene
            .patch(WISHES, "wish", json!({"metadata": {"labels": {"a": "b"}}}))
            .await?;
        scene.quiet("wish", position).await?;
        scene.wrote("wish", mark, 0)?;
        scene
            .patch(WISHES, "wish", json!({"metadata": {"finalizers": null}}))
            .await?;
        scene.gone(WISHES, "wish").await?;
        no_journal(scene, "wish").await
    })
}

/// kro#1252, KubeOps#239
#[test]
fn a_finalizer_that_is_not_ready_to_go_says_what_it_waits_for_and_survives_restarts() -> Result<()>
{
    scenario("unfinished", async |scene| {
        serve_with(scene, json!({})).await?;
        let host = scene.host()?;
        wish(scene, "wish", json!({"unfinished": true})).await?;
        scene.delete(WISHES, "wish").await?;
        let waits = format!("the finalizer {FINALIZER} stays until it has");
        let wish = scene.unready(WISHES, "wish", &waits).await?;
        ensure!(
            condition(&wish, "Ready")["reason"] == "Finalizing",
            "{wish}"
        );
        scene.read(CONFIG_MAPS, "wish").await?;
        host.kill();
        let position = scene.log()?.len();
        let _host = scene.host()?;
        scene.quiet("wish", position).await?;
        let held = scene.read(WISHES, "wish").await?;
        ensure!(
            held["metadata"]["finalizers"] == json!([FINALIZER]),
            "{held}"
        );
        scene
            .patch(
                WISHES,
                "wish",
                json!({"spec": {"finalize": {"fail": "the valve is stuck"}}}),
            )
            .await?;
        let stuck = scene
            .condition_is(WISHES, "wish", "Stalled", "True", "the valve is stuck")
            .await?;
        let says = condition(&stuck, "Stalled")["message"].to_string();
        ensure!(
            says.contains(FINALIZER) && says.contains("guesthouse drain"),
            "{stuck}"
        );
        scene
            .patch(WISHES, "wish", json!({"spec": {"finalize": null}}))
            .await?;
        scene.gone(WISHES, "wish").await
    })
}

/// A host that has kept nothing.
fn without_cache(scene: &Scene<'_>) -> Arguments {
    Arguments {
        cache: Some(scene.dir.join("empty-cache")),
        ..Arguments::default()
    }
}

#[test]
fn a_broken_plugin_blocks_deletion_and_the_condition_names_plugin_finalizer_and_the_ways_out()
-> Result<()> {
    scenario("blocked", async |scene| {
        let file = exchangeable(scene)?;
        serve_with(scene, json!({"plugin": {"file": file}})).await?;
        let host = scene.host()?;
        wish(scene, "wish", json!({})).await?;
        scene.stop(host).await?;
        // A host that never had a good one, and finds none in its cache folder.
        std::fs::write(&file, "no plugin at all")?;
        let _host = scene.host_with(&without_cache(scene))?;
        scene
            .told(&scene.home, "wishes", "PluginRefused", "does not serve")
            .await?;
        scene.delete(WISHES, "wish").await?;
        let says = scene
            .condition_is(WISHES, "wish", "Stalled", "True", FINALIZER)
            .await?;
        let condition = condition(&says, "Stalled");
        ensure!(condition["reason"] == "PluginUnavailable", "{says}");
        let message = condition["message"].as_str().unwrap_or_default();
        for part in [
            "onBroken: release",
            "guesthouse drain",
            "wishes",
            "plugin.wasm",
        ] {
            ensure!(message.contains(part), "{part}: {message}");
        }
        let journal = scene.journal("wish").await?.context("a journal")?;
        ensure!(
            journal["metadata"]["labels"]["guesthouse.dev/outcome"] == "stalled",
            "{journal}"
        );
        // Who is not being deleted is neither called nor written.
        let mark = scene.mark()?;
        wish_object(scene, "new", json!({})).await?;
        scene
            .until("a pass of what is new", || {
                Ok(!scene.passes_of("new")?.is_empty())
            })
            .await?;
        let passes = scene.passes_of("new")?;
        let idle = |pass: &Value| pass["calls"] == 0 && pass["writes"] == 0;
        ensure!(passes.iter().all(idle), "{passes:#?}");
        scene.wrote("new", mark, 0)?;
        // Mended, it goes on by itself.
        std::fs::copy(plugin("decide_finalizing")?, &file)?;
        scene.gone(WISHES, "wish").await?;
        scene.gone(CONFIG_MAPS, "wish").await?;
        scene.ready(WISHES, "new").await?;
        Ok(())
    })
}

#[test]
fn a_plugin_that_is_gone_lets_go_where_the_mapping_says_release() -> Result<()> {
    scenario("released", async |scene| {
        let file = exchangeable(scene)?;
        serve_with(scene, json!({"plugin": {"file": file}})).await?;
        let host = scene.host()?;
        for name in ["before", "after"] {
            wish(scene, name, json!({})).await?;
        }
        scene.stop(host).await?;
        std::fs::remove_file(&file)?;
        scene.delete(WISHES, "before").await?;
        let _host = scene.host_with(&without_cache(scene))?;
        scene
            .condition_is(WISHES, "before", "Stalled", "True", FINALIZER)
            .await?;
        serve_with(
            scene,
            json!({"plugin": {"file": file}, "onBroken": "release"}),
        )
        .await?;
        scene.gone(WISHES, "before").await?;
        scene.delete(WISHES, "after").await?;
        scene.gone(WISHES, "after").await?;
        // Children with a legal owner go with it.
        scene.gone(CONFIG_MAPS, "after").await
    })
}

/// The finalizer belongs to the mapping's say, and the mapping may change its mind.
#[test]
fn a_finalizer_under_a_new_name_replaces_the_old_one_and_nothing_stays_behind() -> Result<()> {
    scenario("renamed-finalizer", async |scene| {
        serve_with(scene, json!({})).await?;
        let _host = scene.host()?;
        wish(scene, "wish", json!({})).await?;
        serve_with(scene, json!({"finalizer": "acme.io/other"})).await?;
        let other = |wish: &Value| wish["metadata"]["finalizers"] == json!(["acme.io/other"]);
        scene
            .object_is(WISHES, "wish", "held under the new name alone", other)
            .await?;
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await?;
        no_journal(scene, "wish").await
    })
}

#[test]
fn a_swap_that_stops_finalizing_takes_the_finalizer_off_and_one_that_starts_puts_it_on()
-> Result<()> {
    scenario("swapped-finalizer", async |scene| {
        let file = exchangeable(scene)?;
        serve_with(scene, json!({"plugin": {"file": file}})).await?;
        let _host = scene.host()?;
        wish(scene, "wish", json!({})).await?;
        std::fs::copy(plugin("decide")?, &file)?;
        let free = |wish: &Value| wish["metadata"]["finalizers"].is_null();
        scene
            .object_is(WISHES, "wish", "not held any more", free)
            .await?;
        scene.ready(WISHES, "wish").await?;
        std::fs::copy(plugin("decide_finalizing")?, &file)?;
        let held = |wish: &Value| wish["metadata"]["finalizers"] == json!([FINALIZER]);
        scene.object_is(WISHES, "wish", "held again", held).await?;
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await
    })
}

/// datashim#341
#[test]
fn a_namespace_that_is_deleted_takes_objects_and_children_with_it() -> Result<()> {
    scenario("namespace", async |scene| {
        serve_with(scene, json!({})).await?;
        let _host = scene.host()?;
        for name in ["one", "two"] {
            wish(scene, name, json!({})).await?;
            scene.applied(name, 0).await?;
        }
        let (mark, position) = (scene.mark()?, scene.log()?.len());
        scene.api.delete(NAMESPACES, "", &scene.namespace).await?;
        scene
            .eventually("the namespace is gone", async || {
                let found = scene.api.find(NAMESPACES, "", &scene.namespace).await?;
                Ok(found.is_none().then_some(()))
            })
            .await?;
        for name in ["one", "two"] {
            no_journal(scene, name).await?;
            finalized(scene, name, position)?;
            // Its child may go before it is terminating itself: then it is made again at most with each pass that is told so.
            let mut writes = scene.writes_to(name, mark)?;
            writes.retain(|write| write.concerns(CONFIG_MAPS.plural));
            ensure!(writes.len() <= 3, "{writes:#?}");
        }
        Ok(())
    })
}

/// kro#1067
#[test]
fn a_kind_that_is_deleted_takes_its_objects_through_their_plugin() -> Result<()> {
    const DOOMED: Resource = Resource {
        api_version: "doomed.guesthouse.dev/v1",
        kind: "Doomed",
        plural: "doomeds",
    };
    scenario("kind-deleted", async |scene| {
        scene.define(DOOMED).await?;
        let mut mapping = scene.mapping(DOOMED, &plugin("decide_finalizing")?);
        mapping["grants"] = json!({"apply": [{"apiVersion": "v1", "kind": "ConfigMap"}]});
        scene.map("doomed", &mapping.to_string()).await?;
        let _host = scene.host()?;
        for name in ["one", "two"] {
            let spec = spec(name, json!({}));
            scene
                .eventually("the kind takes objects", async || {
                    let object = json!({"metadata": {"name": name}, "spec": spec});
                    let path = DOOMED.path(&scene.namespace, "");
                    let served =
                        scene
                            .api
                            .send(http::Method::GET, &path, "application/json", String::new());
                    match served.await? {
                        None => Ok(None),
                        Some(_) => scene.create(DOOMED, object).await.map(Some),
                    }
                })
                .await?;
            let held = |o: &Value| o["metadata"]["finalizers"] == json!(["guesthouse.dev/doomed"]);
            scene.object_is(DOOMED, name, "held", held).await?;
            scene.applied(name, 0).await?;
        }
        let name = format!("{}.doomed.guesthouse.dev", DOOMED.plural);
        let position = scene.log()?.len();
        scene.api.delete(KINDS, "", &name).await?;
        scene
            .eventually("the kind is gone", async || {
                let kind = scene.api.find(KINDS, "", &name).await?;
                Ok(kind.is_none().then_some(()))
            })
            .await?;
        for name in ["one", "two"] {
            finalized(scene, name, position)?;
        }
        // Others never notice.
        serve_with(scene, json!({})).await?;
        wish(scene, "other", json!({})).await?;
        Ok(())
    })
}

/// An error unless the plugin was called for the settled object after a position of the log.
fn finalized(scene: &Scene<'_>, name: &str, position: usize) -> Result<()> {
    let object = format!("{}/{name}", scene.namespace);
    let mut passes = scene.passes_since(position)?;
    passes.retain(|pass| pass["object"] == object.as_str());
    let called = passes.iter().any(|pass| pass["calls"].as_u64() >= Some(1));
    ensure!(called, "{name} was not finalized: {passes:#?}");
    Ok(())
}

/// Maps wishes to the plugin that finalizes; members of `more` stand in the mapping instead of the usual ones.
async fn serve_with(scene: &Scene<'_>, more: Value) -> Result<()> {
    let mut mapping = scene.wishes("decide_finalizing", &[CONFIG_MAPS])?;
    for (member, value) in more.as_object().into_iter().flatten() {
        mapping[member] = value.clone();
    }
    scene.map("wishes", &mapping.to_string()).await
}

/// A plugin's file that the test may exchange.
fn exchangeable(scene: &Scene<'_>) -> Result<PathBuf> {
    let file = scene.dir.join("plugin.wasm");
    std::fs::copy(plugin("decide_finalizing")?, &file)?;
    Ok(file)
}

fn spec(name: &str, finalize: Value) -> Value {
    json!({"reconcile": {"children": [child("map", CONFIG_MAPS, name, json!({"data": {}}))]}, "finalize": finalize})
}

async fn wish_object(scene: &Scene<'_>, name: &str, finalize: Value) -> Result<Value> {
    scene.wish(name, spec(name, finalize)).await
}

/// A wish with a child, ready, and held by our finalizer.
async fn wish(scene: &Scene<'_>, name: &str, finalize: Value) -> Result<Value> {
    wish_object(scene, name, finalize).await?;
    let wish = scene.ready(WISHES, name).await?;
    ensure!(
        wish["metadata"]["finalizers"] == json!([FINALIZER]),
        "{wish}"
    );
    scene.read(CONFIG_MAPS, name).await?;
    Ok(wish)
}

async fn no_journal(scene: &Scene<'_>, name: &str) -> Result<()> {
    scene
        .eventually(&format!("the journal of {name} is gone"), async || {
            Ok(scene.journal(name).await?.is_none().then_some(()))
        })
        .await
}
