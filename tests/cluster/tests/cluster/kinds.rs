//! Kinds come late, and go.

use anyhow::{Result, ensure};
use guesthouse_tests::{
    Arguments, KINDS, Plane, ROLE_BINDINGS, Resource, Scene, plugin, scenario, scenario_on,
};
use serde_json::{Value, json};

const LATE: Resource = Resource {
    api_version: "late.guesthouse.dev/v1",
    kind: "Latecomer",
    plural: "latecomers",
};

/// kubernetes#74105, KubeOps#476, kro#1029
#[test]
fn a_kind_that_is_defined_after_its_mapping_is_served_without_a_restart_also_the_second_time()
-> Result<()> {
    scenario("late", async |scene| {
        let mapping = scene.mapping(LATE, &plugin("echo")?);
        scene.map("latecomers", &mapping.to_string()).await?;
        scene.map_report_jobs().await?;
        let host = scene.host()?;
        let absent = "the kind late.guesthouse.dev/v1 Latecomer is not there yet";
        scene
            .told(&scene.home, "latecomers", "KindDegraded", absent)
            .await?;
        for round in ["first", "second"] {
            scene.define(LATE).await?;
            scene
                .eventually("the kind is served", async || {
                    let object = json!({"metadata": {"name": round}, "spec": {"round": round}});
                    let path = LATE.path(&scene.namespace, "");
                    let ready =
                        scene
                            .api
                            .send(http::Method::GET, &path, "application/json", String::new());
                    match ready.await? {
                        None => Ok(None),
                        Some(_) => scene.create(LATE, object).await.map(Some),
                    }
                })
                .await?;
            let echoed = |late: &Value| late["status"]["echo"]["round"] == round;
            scene.object_is(LATE, round, "echoed", echoed).await?;
            let name = format!("{}.late.guesthouse.dev", LATE.plural);
            scene.api.delete(KINDS, "", &name).await?;
            scene
                .eventually("the kind is gone", async || {
                    let kind = scene.api.find(KINDS, "", &name).await?;
                    Ok(kind.is_none().then_some(()))
                })
                .await?;
            // Others never notice.
            let job = format!("job-{round}");
            scene.job(&job, json!({})).await?;
            scene.done(&job).await?;
        }
        ensure!(host.ended()?.is_none());
        Ok(())
    })
}

/// kubernetes#74105, kro#1029
#[test]
fn a_version_that_is_not_served_any_more_is_told_and_served_again_once_it_is() -> Result<()> {
    const AGING: Resource = Resource {
        api_version: "aging.guesthouse.dev/v1",
        kind: "Veteran",
        plural: "veterans",
    };
    scenario("version", async |scene| {
        scene.define(AGING).await?;
        let mapping = scene.mapping(AGING, &plugin("echo")?);
        scene.map("veterans", &mapping.to_string()).await?;
        let host = scene.host()?;
        scene
            .told(&scene.home, "veterans", "MappingActive", "Veteran")
            .await?;
        let object = |round: &str| json!({"metadata": {"name": "one"}, "spec": {"round": round}});
        scene.create(AGING, object("first")).await?;
        let echoed = |round: &'static str| {
            move |veteran: &Value| veteran["status"]["echo"]["round"] == round
        };
        scene
            .object_is(AGING, "one", "echoed", echoed("first"))
            .await?;

        let definition = format!("{}.aging.guesthouse.dev", AGING.plural);
        let kind = scene.api.get(KINDS, "", &definition).await?;
        let old = &kind["spec"]["versions"][0];
        let versions = |served: bool| {
            let (mut one, mut two) = (old.clone(), old.clone());
            (one["served"], one["storage"]) = (served.into(), false.into());
            two["name"] = "v2".into();
            json!({"spec": {"versions": [one, two]}})
        };
        scene
            .api
            .patch(KINDS, "", &definition, versions(false))
            .await?;
        scene
            .told(&scene.home, "veterans", "KindDegraded", "Veteran")
            .await?;
        // It is edited in the meantime by those who know the other version.
        let newer = Resource {
            api_version: "aging.guesthouse.dev/v2",
            ..AGING
        };
        let position = scene.log()?.len();
        let edited = scene.patch(newer, "one", object("second")).await?;
        ensure!(edited["status"]["echo"]["round"] == "first", "{edited}");
        scene
            .api
            .patch(KINDS, "", &definition, versions(true))
            .await?;
        scene
            .object_is(AGING, "one", "echoed again", echoed("second"))
            .await?;
        ensure!(!scene.passes_since(position)?.is_empty());
        ensure!(host.ended()?.is_none());
        Ok(())
    })
}

#[test]
fn a_host_that_starts_before_its_own_kind_is_defined_serves_once_it_is_and_again_after_it_went()
-> Result<()> {
    scenario_on(&Plane::start("journals")?, "journals", async |scene| {
        let name = "journals.guesthouse.dev";
        let mut definition = scene.api.get(KINDS, "", name).await?;
        definition["metadata"] = json!({"name": name});
        scene.api.delete(KINDS, "", name).await?;
        scene
            .eventually("the kind is gone", async || {
                let kind = scene.api.find(KINDS, "", name).await?;
                Ok(kind.is_none().then_some(()))
            })
            .await?;
        scene.map_report_jobs().await?;
        scene.job("job", json!({})).await?;
        let host = scene.host()?;
        says_what_is_missing(scene, 0).await?;
        ensure!(
            scene.attempts("job").is_empty(),
            "exported without a record"
        );
        scene.api.create(KINDS, "", definition.clone()).await?;
        scene.done("job").await?;
        ensure!(scene.journal("job").await?.is_some());

        // It goes under the running host.
        scene.applied("job", 0).await?;
        let position = scene.log()?.len();
        scene.api.delete(KINDS, "", name).await?;
        says_what_is_missing(scene, position).await?;
        let position = scene.log()?.len();
        scene.job("later", json!({})).await?;
        // What the host hears after that job, it tells after it would have begun its pass.
        scene.map("wrong", "for: nothing").await?;
        scene
            .told(&scene.home, "wrong", "MappingInvalid", "wrong")
            .await?;
        ensure!(scene.passes_since(position)?.is_empty());
        ensure!(
            scene.attempts("later").is_empty(),
            "exported without a record"
        );
        scene
            .eventually("the kind can be defined again", async || {
                let kind = scene.api.find(KINDS, "", name).await?;
                Ok(kind.is_none().then_some(()))
            })
            .await?;
        scene.api.create(KINDS, "", definition).await?;
        scene.done("later").await?;
        ensure!(scene.journal("later").await?.is_some());
        let stats = scene.exporter.stats();
        ensure!((stats.made, stats.duplicates) == (2, 0), "{stats:?}");
        ensure!(host.ended()?.is_none());
        Ok(())
    })
}

async fn says_what_is_missing(scene: &Scene<'_>, position: usize) -> Result<()> {
    scene
        .until("the host says what is missing", || {
            let says = |line: &Value| {
                let message = line["message"].as_str().unwrap_or_default();
                line["level"] == "ERROR" && message.contains("guesthouse crd --host")
            };
            Ok(scene.log()?.iter().skip(position).any(says))
        })
        .await
}

/// JOSDK#1419
#[test]
fn a_host_without_rights_serves_once_it_has_them_and_again_after_they_were_taken() -> Result<()> {
    scenario("rights", async |scene| {
        scene.map_report_jobs().await?;
        scene.job("job", json!({})).await?;
        let how = Arguments {
            kubeconfig: Some(scene.nobody("rightless")?),
            ..Arguments::default()
        };
        let host = scene.host_with(&how)?;
        scene
            .until("the host says what it may not do", || {
                let says = |line: &Value| line.to_string().contains("forbidden");
                Ok(scene.log()?.iter().any(says))
            })
            .await?;
        let binding = json!({
            "metadata": {"name": "rightless"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "rightless"}],
        });
        scene.api.create(ROLE_BINDINGS, "", binding.clone()).await?;
        scene.done("job").await?;

        scene.api.delete(ROLE_BINDINGS, "", "rightless").await?;
        // The server takes a moment to act on it.
        let mut jobs = 1;
        scene
            .eventually("a pass is refused by the server", async || {
                scene.job(&format!("job-{jobs}"), json!({})).await?;
                jobs += 1;
                let passes = scene.passes_since(0)?;
                Ok(passes
                    .iter()
                    .any(|p| p["outcome"] == "cluster-failed")
                    .then_some(()))
            })
            .await?;
        scene.api.create(ROLE_BINDINGS, "", binding).await?;
        for job in scene.drained(jobs).await? {
            ensure!(job["status"]["phase"] == "Done", "{job}");
        }
        let stats = scene.exporter.stats();
        ensure!(
            (stats.made, stats.duplicates) == (jobs as u64, 0),
            "{stats:?}"
        );
        ensure!(host.ended()?.is_none());
        Ok(())
    })
}
