//! What becomes of objects whose mapping is removed, narrowed, or cannot be read.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    Arguments, CONFIG_MAPS, NAMESPACES, Scene, WISHES, child, host_binary, output, scenario,
};
use serde_json::{Value, json};
use std::process::Command;

const FINALIZER: &str = "guesthouse.dev/wishes";

/// kro#1067, metacontroller#1062
#[test]
fn a_removed_mapping_lets_go_of_its_objects_and_leaves_their_children() -> Result<()> {
    scenario("unmapped", async |scene| {
        let _host = serve(scene, json!({})).await?;
        let uid = wish(scene, "wish").await?["metadata"]["uid"].clone();
        // One hangs already, at a clean-up that never ends.
        let hanging = json!({"finalize": {"unfinished": true}});
        scene.wish("hanging", hanging).await?;
        held(scene, "hanging", true).await?;
        scene.delete(WISHES, "hanging").await?;
        scene.unready(WISHES, "hanging", "clean-up").await?;

        unmap(scene).await?;
        held(scene, "wish", false).await?;
        scene.gone(WISHES, "hanging").await?;
        let left = scene.read(WISHES, "wish").await?;
        ensure!(left["metadata"]["uid"] == uid, "{left}");
        let child = scene.read(CONFIG_MAPS, "wish").await?;
        ensure!(
            child["metadata"]["labels"]["guesthouse.dev/owner"].is_string(),
            "{child}"
        );
        let journal = scene.journal("wish").await?.context("a journal")?;
        ensure!(journal["record"]["finalizer"].is_null(), "{journal}");
        ensure!(
            journal["record"]["inventory"][0]["name"] == "wish",
            "{journal}"
        );
        scene
            .eventually("the journal of what is gone goes", async || {
                Ok(scene.journal("hanging").await?.is_none().then_some(()))
            })
            .await?;

        // Back, it knows its children, and holds the object again.
        let mark = scene.mark()?;
        scene
            .map("wishes", &mapping(scene, json!({}))?.to_string())
            .await?;
        held(scene, "wish", true).await?;
        scene.ready(WISHES, "wish").await?;
        let writes = scene.writes_since(mark)?;
        ensure!(
            !writes.iter().any(|write| write.concerns("configmaps")),
            "{writes:#?}"
        );
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await?;
        scene.gone(CONFIG_MAPS, "wish").await
    })
}

#[test]
fn a_journal_that_a_removed_mapping_left_goes_once_its_object_is_gone_and_not_before() -> Result<()>
{
    scenario("unmapped-journals", async |scene| {
        let _host = serve(scene, json!({})).await?;
        for name in ["goes", "stays"] {
            wish(scene, name).await?;
        }
        unmap(scene).await?;
        held(scene, "goes", false).await?;
        scene.delete(WISHES, "goes").await?;
        scene
            .eventually("the journal of what is gone goes", async || {
                Ok(scene.journal("goes").await?.is_none().then_some(()))
            })
            .await?;
        let left = scene.journal("stays").await?;
        ensure!(left.is_some(), "the journal of a living object went");
        Ok(())
    })
}

#[test]
fn a_mapping_that_is_removed_while_the_host_is_down_lets_go_after_its_start() -> Result<()> {
    scenario("unmapped-down", async |scene| {
        let host = serve(scene, json!({})).await?;
        wish(scene, "wish").await?;
        scene.stop(host).await?;
        unmap(scene).await?;
        scene.delete(WISHES, "wish").await?;
        let _host = scene.host_with(&short_grace())?;
        scene.gone(WISHES, "wish").await
    })
}

#[test]
fn a_removed_mapping_that_says_keep_holds_its_objects_until_it_comes_back() -> Result<()> {
    scenario("kept", async |scene| {
        let _host = serve(scene, json!({"onRemove": "keep"})).await?;
        wish(scene, "wish").await?;
        // Another one shows that the host has acted on removals.
        let mut second = mapping(scene, json!({"finalizer": "acme.io/second"}))?;
        second["for"]["namespaces"] = json!([scene.home]);
        scene.map("second", &second.to_string()).await?;
        let object = json!({"metadata": {"name": "released"}, "spec": {}});
        scene.api.create(WISHES, &scene.home, object).await?;
        let finalizers = async || -> Result<Value> {
            let wish = scene.api.get(WISHES, &scene.home, "released").await?;
            Ok(wish["metadata"]["finalizers"].clone())
        };
        scene
            .eventually("it is held", async || {
                Ok((finalizers().await? == json!(["acme.io/second"])).then_some(()))
            })
            .await?;
        unmap(scene).await?;
        scene.api.delete(CONFIG_MAPS, &scene.home, "second").await?;
        scene
            .eventually("it is let go", async || {
                Ok(finalizers().await?.is_null().then_some(()))
            })
            .await?;
        scene.delete(WISHES, "wish").await?;
        held(scene, "wish", true).await?;
        scene
            .map(
                "wishes",
                &mapping(scene, json!({"onRemove": "keep"}))?.to_string(),
            )
            .await?;
        scene.gone(WISHES, "wish").await
    })
}

#[test]
fn what_a_mapping_says_of_its_removal_counts_when_it_was_said_last() -> Result<()> {
    scenario("changed-mind", async |scene| {
        let _host = serve(scene, json!({"onRemove": "keep"})).await?;
        wish(scene, "wish").await?;
        scene
            .map(
                "wishes",
                &mapping(scene, json!({"onRemove": "release"}))?.to_string(),
            )
            .await?;
        scene
            .eventually("it is on record", async || {
                let journal = scene.journal("wish").await?.context("a journal")?;
                Ok((journal["record"]["finalizer"]["onRemove"] == "release").then_some(()))
            })
            .await?;
        unmap(scene).await?;
        held(scene, "wish", false).await
    })
}

/// vector#2224
#[test]
fn a_mapping_that_cannot_be_read_is_not_removed() -> Result<()> {
    scenario("unreadable", async |scene| {
        let host = serve(scene, json!({})).await?;
        wish(scene, "wish").await?;
        removed_one(scene, "gone-1").await?;
        scene.map("wishes", "for: [nonsense").await?;
        scene
            .told(&scene.home, "wishes", "MappingInvalid", "stays in force")
            .await?;
        unmap_named(scene, "gone-1").await?;
        // Not by a host that never saw a good one either.
        scene.stop(host).await?;
        let _host = scene.host_with(&short_grace())?;
        removed_one(scene, "gone-2").await?;
        unmap_named(scene, "gone-2").await?;
        held(scene, "wish", true).await?;
        scene
            .map("wishes", &mapping(scene, json!({}))?.to_string())
            .await?;
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await
    })
}

#[test]
fn a_mapping_that_leaves_a_namespace_lets_go_of_the_objects_there() -> Result<()> {
    scenario("narrowed", async |scene| {
        let other = format!("{}-other", scene.namespace);
        scene
            .api
            .create(NAMESPACES, "", json!({"metadata": {"name": other}}))
            .await?;
        let mut both = mapping(scene, json!({}))?;
        both["for"]["namespaces"] = json!([scene.namespace, other]);
        scene.map("wishes", &both.to_string()).await?;
        let _host = scene.host_with(&short_grace())?;
        wish(scene, "wish").await?;
        let object = json!({"metadata": {"name": "wish"}, "spec": spec("wish")});
        scene.api.create(WISHES, &other, object).await?;
        let held_there = async |wanted: Value| {
            scene
                .eventually("the finalizer there", async || {
                    let wish = scene.api.get(WISHES, &other, "wish").await?;
                    Ok((wish["metadata"]["finalizers"] == wanted).then_some(()))
                })
                .await
        };
        held_there(json!([FINALIZER])).await?;
        scene
            .map("wishes", &mapping(scene, json!({}))?.to_string())
            .await?;
        held_there(Value::Null).await?;
        held(scene, "wish", true).await?;
        let errors = scene
            .log()?
            .into_iter()
            .filter(|line| line["level"] == "ERROR");
        let errors: Vec<_> = errors.collect();
        ensure!(errors.is_empty(), "{errors:#?}");
        Ok(())
    })
}

#[test]
fn drain_says_whom_it_would_let_go_and_lets_them_go_mapping_by_mapping_or_all() -> Result<()> {
    scenario("drained", async |scene| {
        let host = serve(scene, json!({})).await?;
        let mut second = mapping(
            scene,
            json!({"finalizer": "acme.io/second", "status": false}),
        )?;
        second["for"]["namespaces"] = json!([scene.home]);
        scene.map("second", &second.to_string()).await?;
        wish(scene, "wish").await?;
        scene
            .api
            .create(
                WISHES,
                &scene.home,
                json!({"metadata": {"name": "far"}, "spec": {}}),
            )
            .await?;
        let finalizers = async || -> Result<Value> {
            let wish = scene.api.get(WISHES, &scene.home, "far").await?;
            Ok(wish["metadata"]["finalizers"].clone())
        };
        scene
            .eventually("the other one is held", async || {
                Ok(finalizers().await?.is_array().then_some(()))
            })
            .await?;
        scene.stop(host).await?;

        let said = drain(scene, &["wishes", "--dry-run"])?;
        let line = format!(
            "Wish {}/wish is held by the mapping wishes",
            scene.namespace
        );
        ensure!(said.lines().eq([line.as_str()]), "{said}");
        held(scene, "wish", true).await?;

        let said = drain(scene, &["wishes"])?;
        ensure!(
            said.contains("/wish is let go by the mapping wishes"),
            "{said}"
        );
        held(scene, "wish", false).await?;
        ensure!(finalizers().await? == json!(["acme.io/second"]));
        scene.read(CONFIG_MAPS, "wish").await?;

        let said = drain(scene, &["--all"])?;
        ensure!(
            said.contains("/far is let go by the mapping second"),
            "{said}"
        );
        ensure!(finalizers().await?.is_null());
        let said = drain(scene, &["--all"])?;
        ensure!(said.contains("no object is held"), "{said}");
        // Nothing to hold on to is no trouble for the host that comes back.
        let _host = scene.host()?;
        held(scene, "wish", true).await?;
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await
    })
}

fn drain(scene: &Scene<'_>, arguments: &[&str]) -> Result<String> {
    let mut drain = Command::new(host_binary()?);
    drain
        .args(["drain", "--namespace", &scene.home])
        .args(arguments)
        .env("KUBECONFIG", scene.admin());
    output(&mut drain)
}

/// A host that takes a mapping for removed after a second instead of a minute.
fn short_grace() -> Arguments {
    Arguments::with(&["--removal-grace", "1s"])
}

async fn serve(scene: &Scene<'_>, more: Value) -> Result<guesthouse_tests::Host> {
    scene
        .map("wishes", &mapping(scene, more)?.to_string())
        .await?;
    scene.host_with(&short_grace())
}

fn mapping(scene: &Scene<'_>, more: Value) -> Result<Value> {
    let mut mapping = scene.wishes("decide_finalizing", &[CONFIG_MAPS])?;
    for (member, value) in more.as_object().into_iter().flatten() {
        mapping[member] = value.clone();
    }
    Ok(mapping)
}

async fn unmap(scene: &Scene<'_>) -> Result<()> {
    scene.api.delete(CONFIG_MAPS, &scene.home, "wishes").await
}

/// One more mapping with an object of its own, in the host's namespace: what becomes of it shows that removals are acted on.
async fn removed_one(scene: &Scene<'_>, name: &str) -> Result<()> {
    let mut mapping = mapping(
        scene,
        json!({"for": {
            "apiVersion": WISHES.api_version, "kind": WISHES.kind, "namespaces": [scene.home],
            "labelSelector": format!("of={name}"),
        }}),
    )?;
    mapping["finalizer"] = json!(format!("acme.io/{name}"));
    scene.map(name, &mapping.to_string()).await?;
    let object = json!({"metadata": {"name": name, "labels": {"of": name}}, "spec": {}});
    scene.api.create(WISHES, &scene.home, object).await?;
    let wanted = json!([format!("acme.io/{name}")]);
    finalizers_are(scene, name, &wanted).await
}

async fn unmap_named(scene: &Scene<'_>, name: &str) -> Result<()> {
    scene.api.delete(CONFIG_MAPS, &scene.home, name).await?;
    finalizers_are(scene, name, &Value::Null).await
}

async fn finalizers_are(scene: &Scene<'_>, name: &str, wanted: &Value) -> Result<()> {
    scene
        .eventually(
            &format!("the finalizers of {name} are {wanted}"),
            async || {
                let wish = scene.api.get(WISHES, &scene.home, name).await?;
                Ok((wish["metadata"]["finalizers"] == *wanted).then_some(()))
            },
        )
        .await
}

fn spec(name: &str) -> Value {
    json!({"reconcile": {"children": [child("map", CONFIG_MAPS, name, json!({"data": {}}))]}})
}

/// A wish with a child, ready and held.
async fn wish(scene: &Scene<'_>, name: &str) -> Result<Value> {
    scene.wish(name, spec(name)).await?;
    held(scene, name, true).await?;
    scene.ready(WISHES, name).await
}

/// Waits until our finalizer is on the object, or is not.
async fn held(scene: &Scene<'_>, name: &str, is: bool) -> Result<()> {
    let what = if is { "held" } else { "let go" };
    let fits = |wish: &Value| {
        let on = wish["metadata"]["finalizers"] == json!([FINALIZER]);
        on == is
    };
    scene.object_is(WISHES, name, what, fits).await?;
    Ok(())
}
