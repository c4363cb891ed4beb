//! Mappings that are about some objects of a kind.

use anyhow::{Result, ensure};
use guesthouse_tests::{CONFIG_MAPS, Scene, WISHES, child, scenario};
use serde_json::{Value, json};

const FINALIZER: &str = "guesthouse.dev/wishes";

#[test]
fn an_object_that_leaves_the_selector_is_let_go_and_comes_back_as_it_was() -> Result<()> {
    scenario("exit-release", async |scene| {
        scene
            .map("wishes", &mapping(scene, "release")?.to_string())
            .await?;
        let host = scene.host()?;
        wish(scene, "wish", "blue").await?;
        wish(scene, "never", "red").await?;
        scene.ready(WISHES, "wish").await?;
        let uid = scene.read(CONFIG_MAPS, "wish").await?["metadata"]["uid"].clone();
        label(scene, "wish", "red").await?;
        let free = |wish: &Value| wish["metadata"]["finalizers"].is_null();
        scene.object_is(WISHES, "wish", "let go", free).await?;
        // Its child stays, and neither edits nor restarts concern us.
        scene.stop(host).await?;
        let (mark, position) = (scene.mark()?, scene.log()?.len());
        let _host = scene.host()?;
        scene.quiet("wish", position).await?;
        scene
            .patch(
                WISHES,
                "wish",
                json!({"spec": {"reconcile": {"children": []}}}),
            )
            .await?;
        scene.quiet("never", position).await?;
        scene.wrote("wish", mark, 0)?;
        scene.wrote("never", mark, 0)?;
        ensure!(scene.read(CONFIG_MAPS, "wish").await?["metadata"]["uid"] == uid);

        // Back: what it wishes for now is done with what is on record.
        label(scene, "wish", "blue").await?;
        scene.gone(CONFIG_MAPS, "wish").await?;
        scene.ready(WISHES, "wish").await?;
        let never = scene.read(WISHES, "never").await?;
        ensure!(
            never["status"].is_null() && never["metadata"]["finalizers"].is_null(),
            "{never}"
        );
        Ok(())
    })
}

#[test]
fn an_object_that_leaves_the_selector_is_finalized_where_the_mapping_says_so() -> Result<()> {
    scenario("exit-finalize", async |scene| {
        scene
            .map("wishes", &mapping(scene, "finalize")?.to_string())
            .await?;
        let host = scene.host()?;
        for name in ["wish", "missed"] {
            wish(scene, name, "blue").await?;
            scene.ready(WISHES, name).await?;
        }
        label(scene, "wish", "red").await?;
        scene.gone(CONFIG_MAPS, "wish").await?;
        let free = |wish: &Value| wish["metadata"]["finalizers"].is_null();
        let wish = scene.object_is(WISHES, "wish", "let go", free).await?;
        ensure!(wish["metadata"]["deletionTimestamp"].is_null(), "{wish}");
        // Also one that left while nobody looked.
        scene.stop(host).await?;
        label(scene, "missed", "red").await?;
        let _host = scene.host()?;
        scene.gone(CONFIG_MAPS, "missed").await?;
        scene.object_is(WISHES, "missed", "let go", free).await?;
        label(scene, "wish", "blue").await?;
        scene
            .object_is(CONFIG_MAPS, "wish", "made again", |_| true)
            .await?;
        scene.ready(WISHES, "wish").await?;
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await
    })
}

#[test]
fn two_mappings_share_a_kind_by_selectors_that_exclude_each_other_and_an_object_changes_hands()
-> Result<()> {
    scenario("two-selectors", async |scene| {
        let mut red = mapping(scene, "finalize")?;
        red["for"]["labelSelector"] = json!("team=red");
        scene
            .map("wishes", &mapping(scene, "finalize")?.to_string())
            .await?;
        scene.map("others", &red.to_string()).await?;
        let _host = scene.host()?;
        wish(scene, "blue", "blue").await?;
        wish(scene, "red", "red").await?;
        for (name, finalizer) in [("blue", FINALIZER), ("red", "guesthouse.dev/others")] {
            let wish = scene.ready(WISHES, name).await?;
            ensure!(
                wish["metadata"]["finalizers"] == json!([finalizer]),
                "{wish}"
            );
        }
        let uid = scene.read(CONFIG_MAPS, "blue").await?["metadata"]["uid"].clone();
        label(scene, "blue", "red").await?;
        let others =
            |wish: &Value| wish["metadata"]["finalizers"] == json!(["guesthouse.dev/others"]);
        scene
            .object_is(WISHES, "blue", "the other one's", others)
            .await?;
        let new = |map: &Value| map["metadata"]["uid"] != uid;
        scene
            .object_is(CONFIG_MAPS, "blue", "the other one's", new)
            .await?;
        scene.ready(WISHES, "blue").await?;
        scene.delete(WISHES, "blue").await?;
        scene.gone(WISHES, "blue").await
    })
}

#[test]
fn an_edit_of_the_selector_lets_go_of_some_objects_and_takes_up_others() -> Result<()> {
    scenario("edited-selector", async |scene| {
        scene
            .map("wishes", &mapping(scene, "release")?.to_string())
            .await?;
        let _host = scene.host()?;
        wish(scene, "blue", "blue").await?;
        wish(scene, "red", "red").await?;
        scene.ready(WISHES, "blue").await?;
        let mut red = mapping(scene, "release")?;
        red["for"]["labelSelector"] = json!("team=red");
        scene.map("wishes", &red.to_string()).await?;
        scene.ready(WISHES, "red").await?;
        let free = |wish: &Value| wish["metadata"]["finalizers"].is_null();
        scene.object_is(WISHES, "blue", "let go", free).await?;
        Ok(())
    })
}

fn mapping(scene: &Scene<'_>, on_exit: &str) -> Result<Value> {
    let mut mapping = scene.wishes("decide_finalizing", &[CONFIG_MAPS])?;
    mapping["for"]["labelSelector"] = json!("team=blue");
    mapping["onExit"] = json!(on_exit);
    Ok(mapping)
}

async fn wish(scene: &Scene<'_>, name: &str, team: &str) -> Result<Value> {
    let child = child("map", CONFIG_MAPS, name, json!({"data": {}}));
    let object = json!({
        "metadata": {"name": name, "labels": {"team": team}},
        "spec": {"reconcile": {"children": [child]}},
    });
    scene.create(WISHES, object).await
}

async fn label(scene: &Scene<'_>, name: &str, team: &str) -> Result<()> {
    let labels = json!({"metadata": {"labels": {"team": team}}});
    scene.patch(WISHES, name, labels).await?;
    Ok(())
}
