//! What is read beside an object: found, watched, and nobody asks twice.

use anyhow::{Result, ensure};
use guesthouse_tests::{Arguments, CONFIG_MAPS, ECHOES, Resource, Scene, scenario};
use serde_json::{Value, json};

const LATER: Resource = Resource {
    api_version: "later.guesthouse.dev/v1",
    kind: "Later",
    plural: "laters",
};

const SECOND: Resource = Resource {
    api_version: "second.guesthouse.dev/v1",
    kind: "Second",
    plural: "seconds",
};

/// Maps echoes, which may read and apply so much.
async fn map(scene: &Scene<'_>, grants: Value) -> Result<()> {
    let mut mapping = scene.echoes()?;
    mapping["grants"] = grants;
    scene.map("echoes", &mapping.to_string()).await
}

fn reading(extra: Value) -> Value {
    let mut read = json!({"name": "n", "apiVersion": "v1", "kind": "ConfigMap"});
    for (member, value) in extra.as_object().into_iter().flatten() {
        read[member] = value.clone();
    }
    read
}

/// Creates an echo that reads this.
async fn reader(scene: &Scene<'_>, kind: Resource, name: &str, extra: Value) -> Result<()> {
    let spec = json!({"read": [reading(extra)]});
    scene
        .create(kind, json!({"metadata": {"name": name}, "spec": spec}))
        .await?;
    Ok(())
}

async fn settings(scene: &Scene<'_>, namespace: &str, name: &str, value: &str) -> Result<()> {
    let object = json!({
        "metadata": {"name": name, "labels": {"app": "x"}}, "data": {"value": value},
    });
    scene.api.create(CONFIG_MAPS, namespace, object).await?;
    Ok(())
}

/// Waits until the echo saw exactly these, in its own namespace.
async fn saw(scene: &Scene<'_>, kind: Resource, name: &str, what: &[&str]) -> Result<()> {
    let wanted: Vec<String> = what
        .iter()
        .map(|name| match name.contains(['/', ' ']) {
            true => (*name).to_owned(),
            false => format!("{}/{name}", scene.namespace),
        })
        .collect();
    let told = |echo: &Value| echo["status"]["saw"]["n"] == json!(wanted);
    let what = format!("shown {wanted:?}");
    scene.object_is(kind, name, &what, told).await?;
    Ok(())
}

async fn unavailable(scene: &Scene<'_>, name: &str, reason: &str, message: &str) -> Result<()> {
    let what = format!("told {reason}: {message}");
    let told = |echo: &Value| {
        let n = &echo["status"]["saw"]["n"];
        n["reason"] == reason && n["message"].as_str().is_some_and(|m| m.contains(message))
    };
    scene.object_is(ECHOES, name, &what, told).await?;
    Ok(())
}

#[test]
fn an_object_read_by_name_wakes_when_it_appears_changes_and_goes() -> Result<()> {
    scenario("by-name", async |scene| {
        map(
            scene,
            json!({"read": [{"apiVersion": "v1", "kind": "ConfigMap"}]}),
        )
        .await?;
        let _host = scene.host()?;
        reader(scene, ECHOES, "echo", json!({"object": "settings"})).await?;
        saw(scene, ECHOES, "echo", &[]).await?;
        settings(scene, &scene.namespace, "settings", "1").await?;
        saw(scene, ECHOES, "echo", &["settings=1"]).await?;
        let patch = json!({"data": {"value": "2"}});
        scene.patch(CONFIG_MAPS, "settings", patch).await?;
        saw(scene, ECHOES, "echo", &["settings=2"]).await?;
        scene.delete(CONFIG_MAPS, "settings").await?;
        saw(scene, ECHOES, "echo", &[]).await
    })
}

#[test]
fn objects_that_enter_and_leave_a_selector_are_shown_in_order_up_to_the_limit() -> Result<()> {
    scenario("by-label", async |scene| {
        map(
            scene,
            json!({"read": [{"apiVersion": "v1", "kind": "ConfigMap"}]}),
        )
        .await?;
        for name in ["b", "a", "c"] {
            settings(scene, &scene.namespace, name, name).await?;
        }
        let _host = scene.host()?;
        reader(scene, ECHOES, "all", json!({"labels": "app in (x,y)"})).await?;
        reader(
            scene,
            ECHOES,
            "some",
            json!({"labels": "app=x", "limit": 1}),
        )
        .await?;
        let metadata = json!({"labels": "app!=y,app", "metadata": true});
        reader(scene, ECHOES, "metadata", metadata).await?;
        saw(scene, ECHOES, "all", &["a=a", "b=b", "c=c"]).await?;
        saw(scene, ECHOES, "some", &["a=a", "and more"]).await?;
        saw(scene, ECHOES, "metadata", &["a", "b", "c"]).await?;
        for (label, all, some, metadata) in [
            ("y", &["a=a", "b=b", "c=c"][..], "b=b", &["b", "c"][..]),
            ("z", &["b=b", "c=c"][..], "b=b", &["a", "b", "c"][..]),
        ] {
            let patch = json!({"metadata": {"labels": {"app": label}}});
            scene.patch(CONFIG_MAPS, "a", patch).await?;
            saw(scene, ECHOES, "all", all).await?;
            saw(scene, ECHOES, "some", &[some, "and more"]).await?;
            saw(scene, ECHOES, "metadata", metadata).await?;
        }
        Ok(())
    })
}

#[test]
fn another_namespace_is_read_once_it_is_granted_and_a_denial_says_how() -> Result<()> {
    scenario("elsewhere", async |scene| {
        settings(scene, &scene.home, "far", "1").await?;
        settings(scene, &scene.namespace, "near", "2").await?;
        map(
            scene,
            json!({"read": [{"apiVersion": "v1", "kind": "ConfigMap"}]}),
        )
        .await?;
        let _host = scene.host()?;
        let far = json!({"object": "far", "namespace": scene.home});
        reader(scene, ECHOES, "far", far).await?;
        let all = json!({"labels": "app=x", "namespace": "*"});
        reader(scene, ECHOES, "all", all).await?;
        let add = format!(
            "add {{apiVersion: v1, kind: ConfigMap, namespaces: ['{}']}}",
            scene.home
        );
        unavailable(scene, "far", "Denied", &add).await?;
        saw(scene, ECHOES, "all", &["near=2"]).await?;
        let grant = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespaces": [scene.home]});
        map(scene, json!({"read": [grant]})).await?;
        let far = format!("{}/far=1", scene.home);
        saw(scene, ECHOES, "far", &[&far]).await?;
        // By namespace: `elsewhere` comes before `elsewhere-host`.
        saw(scene, ECHOES, "all", &["near=2", &far]).await
    })
}

#[test]
fn children_are_found_by_their_mark_and_those_of_others_are_not() -> Result<()> {
    scenario("by-mark", async |scene| {
        let config_maps = json!([{"apiVersion": "v1", "kind": "ConfigMap"}]);
        map(scene, json!({"read": config_maps, "apply": config_maps})).await?;
        let _host = scene.host()?;
        settings(scene, &scene.namespace, "foreign", "0").await?;
        for name in ["one", "two"] {
            let child = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("child-{name}")}, "data": {"value": name},
            });
            let spec = json!({"read": [reading(json!({}))], "children": [child]});
            let object = json!({"metadata": {"name": name}, "spec": spec});
            scene.create(ECHOES, object).await?;
        }
        for name in ["one", "two"] {
            let child = format!("child-{name}");
            scene
                .object_is(CONFIG_MAPS, &child, "made", |_| true)
                .await?;
            // Somebody else's change is no echo.
            let patch = json!({"metadata": {"labels": {"seen": "true"}}});
            scene.patch(CONFIG_MAPS, &child, patch).await?;
            saw(scene, ECHOES, name, &[&format!("{child}={name}")]).await?;
        }
        Ok(())
    })
}

#[test]
fn a_kind_that_comes_later_is_read_from_then_on() -> Result<()> {
    scenario("later", async |scene| {
        let grant = json!({"apiVersion": LATER.api_version, "kind": LATER.kind});
        map(scene, json!({"read": [grant]})).await?;
        let _host = scene.host()?;
        let read = json!({"apiVersion": LATER.api_version, "kind": LATER.kind, "object": "a"});
        reader(scene, ECHOES, "echo", read).await?;
        unavailable(scene, "echo", "NoSuchKind", "Later is not served").await?;
        scene.define(LATER).await?;
        saw(scene, ECHOES, "echo", &[]).await?;
        scene
            .create(LATER, json!({"metadata": {"name": "a"}, "spec": {}}))
            .await?;
        saw(scene, ECHOES, "echo", &["a"]).await
    })
}

/// policy-server#716: whatever many objects and mappings read, it is listed once.
#[test]
fn two_mappings_share_one_watch_and_settled_readers_ask_for_nothing() -> Result<()> {
    scenario("shared", async |scene| {
        scene.define(SECOND).await?;
        let grants = json!({"read": [{"apiVersion": "v1", "kind": "ConfigMap"}]});
        let mut echoes = scene.echoes()?;
        echoes["resync"] = json!("2s");
        echoes["grants"] = grants;
        scene.map("echoes", &echoes.to_string()).await?;
        echoes["for"]["apiVersion"] = json!(SECOND.api_version);
        echoes["for"]["kind"] = json!(SECOND.kind);
        scene.map("seconds", &echoes.to_string()).await?;
        settings(scene, &scene.namespace, "settings", "1").await?;
        let host = scene.host_with(&Arguments::default())?;
        let path = SECOND.path(&scene.namespace, "");
        scene
            .eventually("the second kind is served", async || {
                let list =
                    scene
                        .api
                        .send(http::Method::GET, &path, "application/json", String::new());
                list.await
            })
            .await?;
        for kind in [ECHOES, SECOND] {
            for name in ["a", "b", "c"] {
                reader(scene, kind, name, json!({"labels": "app=x"})).await?;
            }
        }
        for kind in [ECHOES, SECOND] {
            for name in ["a", "b", "c"] {
                saw(scene, kind, name, &["settings=1"]).await?;
            }
        }
        // Whole rounds of passes that wrote nothing, of which the last begins after the mark.
        quiet(scene, 0).await?;
        let (mark, position) = (scene.mark()?, scene.log()?.len());
        quiet(scene, position).await?;
        let asked = scene.requests_since(mark)?;
        let objects = |resource| asked.iter().filter(move |asked| asked.concerns(resource));
        for resource in ["configmaps", "echoes", "seconds", "journals"] {
            let asked: Vec<_> = objects(resource).filter(|a| a.verb != "watch").collect();
            ensure!(asked.is_empty(), "{asked:#?}");
        }

        // A watch is in the audit log once it has ended.
        scene.stop(host).await?;
        let all = format!("/namespaces/{}/configmaps", scene.namespace);
        let mut asked = scene.requests_since(0)?;
        asked.retain(|asked| asked.request_uri.contains(&all));
        let listed = |uri: &str| uri.contains("sendInitialEvents") || !uri.contains("watch=1");
        let lists: Vec<_> = asked
            .iter()
            .filter(|asked| listed(&asked.request_uri))
            .collect();
        ensure!(lists.len() == 1, "one list was expected: {asked:#?}");
        ensure!(lists[0].request_uri.contains("labelSelector=app%3Dx"));
        Ok(())
    })
}

/// Waits for two passes without a write of each object after a position of the log.
async fn quiet(scene: &Scene<'_>, position: usize) -> Result<()> {
    scene
        .until("two quiet passes of each object", || {
            let passes = scene.passes_since(position)?;
            let count = |mapping: &str, name: &str| {
                let object = format!("{}/{name}", scene.namespace);
                let fits = |pass: &&Value| {
                    pass["mapping"] == mapping
                        && pass["object"] == object.as_str()
                        && pass["writes"] == 0
                };
                passes.iter().filter(fits).count()
            };
            let both = |name: &&str| count("echoes", name) >= 2 && count("seconds", name) >= 2;
            Ok(["a", "b", "c"].iter().all(both))
        })
        .await
}
