//! Kinds come late, and go.

use anyhow::{Result, ensure};
use guesthouse_tests::{KINDS, Resource, plugin, scenario};
use serde_json::{Value, json};

const LATE: Resource = Resource {
    api_version: "late.guesthouse.dev/v1",
    kind: "Latecomer",
    plural: "latecomers",
};

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
