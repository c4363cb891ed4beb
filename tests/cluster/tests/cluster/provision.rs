//! A resource outside the cluster: made once, resized once, and gone before its object is.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{PROVISION_REQUESTS, Scene, condition, now_ms, scenario};
use provisioner::{Acts, Fail, Mode, Provisioner};
use serde_json::{Value, json};
use std::time::Duration;

const CLEANUP: &str = "acme.io/cleanup";

/// keeperhub#1922, archivematica#2352
#[test]
fn ten_requests_are_provisioned_once_each_under_five_kills_at_random_moments() -> Result<()> {
    scenario("provision-killed", async |scene| {
        let seed = std::env::var("GUESTHOUSE_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let mut seed: u64 = seed.unwrap_or_else(now_ms);
        println!("GUESTHOUSE_TEST_SEED={seed}");
        let provisioner = serve(scene).await?;
        provisioner.delay(Some(1500));
        // Some answers are lost after the work was done.
        provisioner.fail(Fail::times(Mode::Lost, 3).method("PUT"));
        for number in 0..10 {
            request(scene, &format!("r{number}"), "small").await?;
        }
        for kill in 0..5 {
            let host = scene.host()?;
            let seen = provisioner.ledger().len();
            scene
                .until("the provisioner hears of us", || {
                    Ok(provisioner.ledger().len() > seen + kill)
                })
                .await?;
            // Any moment will do: the seed is printed.
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            tokio::time::sleep(Duration::from_millis(seed >> 57)).await;
            host.kill();
        }
        let _host = scene.host()?;
        for number in 0..10 {
            let name = format!("r{number}");
            let ready = scene.ready(PROVISION_REQUESTS, &name).await?;
            ensure!(ready["status"]["phase"] == "Ready", "{ready}");
            ensure!(
                ready["metadata"]["finalizers"] == json!([CLEANUP]),
                "{ready}"
            );
            ensure!(ready["status"]["endpoint"].is_string(), "{ready}");
        }
        let stats = provisioner.stats();
        ensure!(stats.failed == 3, "answers that were lost: {stats:?}");
        let acts = stats.acts;
        ensure!(acts.len() == 10, "{acts:#?}");
        let once = Acts {
            created: 1,
            ..Acts::default()
        };
        for (id, acts) in acts {
            ensure!(acts == once, "{id}: {acts:?}");
        }
        Ok(())
    })
}

#[test]
fn a_changed_size_is_handled_once_as_its_generation_says() -> Result<()> {
    scenario("provision-resized", async |scene| {
        let provisioner = serve(scene).await?;
        let host = scene.host()?;
        request(scene, "db", "small").await?;
        let ready = scene.ready(PROVISION_REQUESTS, "db").await?;
        ensure!(ready["status"]["observedGeneration"] == 1, "{ready}");
        scene.enlarge("db").await?;
        scene.stop(host).await?;
        let position = scene.log()?.len();
        let mark = scene.mark()?;
        let _host = scene.host()?;
        scene.quiet("db", position).await?;
        scene.wrote("db", mark, 0)?;
        let acts = acts(&provisioner, &ready)?;
        ensure!(
            (acts.created, acts.resized, acts.deleted) == (1, 1, 0),
            "{acts:?}"
        );
        Ok(())
    })
}

/// ACK community#931, KubeOps#972
#[test]
fn a_deleted_request_goes_after_its_resource_and_waits_for_a_provisioner_that_is_down() -> Result<()>
{
    scenario("provision-deleted", async |scene| {
        let provisioner = serve(scene).await?;
        let host = scene.host()?;
        let object = json!({
            "metadata": {"name": "db", "finalizers": ["others.example/hold"]},
            "spec": {"size": "small", "region": "eu"},
        });
        scene.create(PROVISION_REQUESTS, object).await?;
        let ready = scene.ready(PROVISION_REQUESTS, "db").await?;
        provisioner.fail(Fail::always(Mode::Close));
        scene.delete(PROVISION_REQUESTS, "db").await?;
        let deleting = |object: &Value| {
            object["status"]["phase"] == "Deleting"
                && condition(object, "Ready")["status"] == "False"
                && condition(object, "Ready")["reason"] == "Unreachable"
        };
        let waits = scene
            .object_is(PROVISION_REQUESTS, "db", "waiting", deleting)
            .await?;
        let message = condition(&waits, "Ready")["message"].clone();
        let names = |m: &str| m.starts_with("DELETE http://127.0.0.1:");
        ensure!(message.as_str().is_some_and(names), "{waits}");
        ensure!(provisioner.resources().len() == 1);
        // The next host finds it terminating already.
        host.kill();
        let _host = scene.host()?;
        provisioner.fail(Fail::always(Mode::None));
        let left =
            |object: &Value| object["metadata"]["finalizers"] == json!(["others.example/hold"]);
        let last = scene
            .object_is(PROVISION_REQUESTS, "db", "let go", left)
            .await?;
        ensure!(provisioner.resources().is_empty());
        let found = acts(&provisioner, &ready)?;
        ensure!((found.created, found.deleted) == (1, 1), "{found:?}");
        // The last word stands before the finalizer went: nothing is written after it.
        ensure!(condition(&last, "Ready")["reason"] == "Released", "{last}");
        scene
            .patch(
                PROVISION_REQUESTS,
                "db",
                json!({"metadata": {"finalizers": null}}),
            )
            .await?;
        scene.gone(PROVISION_REQUESTS, "db").await?;
        scene
            .eventually("the journal is gone", async || {
                Ok(scene.journal("db").await?.is_none().then_some(()))
            })
            .await
    })
}

#[test]
fn a_request_that_was_never_handled_goes_without_a_word_to_the_provisioner() -> Result<()> {
    scenario("provision-never", async |scene| {
        let provisioner = serve(scene).await?;
        let object = json!({
            "metadata": {"name": "db", "finalizers": ["others.example/hold"]},
            "spec": {"size": "small", "region": "eu"},
        });
        scene.create(PROVISION_REQUESTS, object).await?;
        scene.delete(PROVISION_REQUESTS, "db").await?;
        let _host = scene.host()?;
        scene.quiet("db", 0).await?;
        scene
            .patch(
                PROVISION_REQUESTS,
                "db",
                json!({"metadata": {"finalizers": null}}),
            )
            .await?;
        scene.gone(PROVISION_REQUESTS, "db").await?;
        ensure!(
            provisioner.ledger().is_empty(),
            "{:#?}",
            provisioner.ledger()
        );
        scene.wrote("db", 0, 0)
    })
}

async fn serve(scene: &Scene<'_>) -> Result<Provisioner> {
    let provisioner = scene.provisioner().await?;
    let mut mapping = scene.provision_requests(&provisioner.url())?;
    mapping["retry"] = json!({"base": "200ms", "max": "2s", "limit": 20});
    scene
        .map("provision-requests", &mapping.to_string())
        .await?;
    Ok(provisioner)
}

async fn request(scene: &Scene<'_>, name: &str, size: &str) -> Result<Value> {
    let object = json!({"metadata": {"name": name}, "spec": {"size": size, "region": "eu"}});
    scene.create(PROVISION_REQUESTS, object).await
}

/// What the provisioner did for an object.
fn acts(provisioner: &Provisioner, object: &Value) -> Result<Acts> {
    let id = object["status"]["resource"].as_str().context("an id")?;
    provisioner.stats().acts.remove(id).context("acts")
}
