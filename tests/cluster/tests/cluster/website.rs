//! One object with several children: made, kept, changed and taken away as a whole.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    CONFIG_MAPS, DEPLOYMENTS, INGRESSES, Resource, SERVICES, Scene, WEBSITES, condition, scenario,
};
use serde_json::{Value, json};

/// The children of the website `site`, in the order they are made.
const CHILDREN: [(Resource, &str); 4] = [
    (CONFIG_MAPS, "site-content"),
    (DEPLOYMENTS, "site"),
    (SERVICES, "site"),
    (INGRESSES, "site"),
];
const OWNER: &str = "guesthouse.dev/owner";
const FINALIZER: &str = "guesthouse.dev/websites";

#[test]
fn a_website_is_made_whole_and_ready_only_when_its_deployment_says_so() -> Result<()> {
    scenario("website", async |scene| {
        let _host = serve(scene).await?;
        let site = site(scene).await?;
        let mut owners = Vec::new();
        for (kind, name) in CHILDREN {
            let child = scene.object_is(kind, name, "made", |_| true).await?;
            let metadata = &child["metadata"];
            let owner = json!([{
                "apiVersion": "web.acme.io/v1", "kind": "Website", "name": "site",
                "uid": site["metadata"]["uid"], "controller": true,
            }]);
            ensure!(metadata["ownerReferences"] == owner, "{child}");
            let parent = &metadata["annotations"]["guesthouse.dev/parent"];
            let parent = parent.as_str().unwrap_or_default();
            ensure!(
                parent == "websites web.acme.io/Website website/site",
                "{child}"
            );
            let managers = metadata["managedFields"].as_array().context("managers")?;
            let ours = managers
                .iter()
                .find(|m| m["manager"] == "guesthouse/websites");
            ensure!(ours.is_some_and(|m| m["operation"] == "Apply"), "{child}");
            owners.push(
                metadata["labels"][OWNER]
                    .as_str()
                    .context("a mark")?
                    .to_owned(),
            );
        }
        owners.dedup();
        ensure!(owners.len() == 1 && !owners[0].is_empty(), "{owners:?}");

        let waits = "the child Deployment site (effect `deployment`)";
        let waiting = scene.unready(WEBSITES, "site", waits).await?;
        ensure!(waiting["status"]["phase"] == "Progressing", "{waiting}");
        ensure!(
            condition(&waiting, "Reconciling")["status"] == "True",
            "{waiting}"
        );

        roll_out(scene, 2).await?;
        let ready = scene.ready(WEBSITES, "site").await?;
        ensure!(ready["status"]["phase"] == "Ready", "{ready}");
        ensure!(ready["status"]["readyReplicas"] == 2, "{ready}");
        ensure!(ready["status"]["url"] == "http://site.example", "{ready}");
        ensure!(ready["status"]["observedGeneration"] == 1, "{ready}");
        ensure!(condition(&ready, "Reconciling").is_null(), "{ready}");

        // And no longer, when it no longer says so.
        let down = json!({"status": {"availableReplicas": 1, "readyReplicas": 1, "unavailableReplicas": 1}});
        status(scene, down).await?;
        scene.unready(WEBSITES, "site", waits).await?;
        Ok(())
    })
}

/// JOSDK#2290, kubernetes#124605
#[test]
fn a_settled_website_is_not_written_and_not_even_read_by_resyncs_and_restarts() -> Result<()> {
    scenario("website-settled", async |scene| {
        let mut mapping = scene.websites()?;
        mapping["resync"] = json!("2s");
        scene.map("websites", &mapping.to_string()).await?;
        let host = scene.host()?;
        settle(scene).await?;
        scene.quiet("site", 0).await?;
        let mark = scene.mark()?;
        for _ in 0..2 {
            scene.quiet("site", scene.log()?.len()).await?;
        }
        let asked = scene.requests_since(mark)?;
        // A host looks after its own Lease, and asks from time to time which kinds there are.
        let parts = [
            "websites",
            "configmaps",
            "deployments",
            "services",
            "ingresses",
            "journals",
        ];
        let of_object = |event: &&guesthouse_tests::AuditEvent| {
            event.verb != "watch" && parts.iter().any(|kind| event.concerns(kind))
        };
        let others: Vec<_> = asked.iter().filter(of_object).collect();
        ensure!(others.is_empty(), "{others:#?}");

        scene.stop(host).await?;
        let (mark, position) = (scene.mark()?, scene.log()?.len());
        let _host = scene.host()?;
        scene.quiet("site", position).await?;
        let mut writes = scene.writes_since(mark)?;
        writes.retain(|write| !write.concerns("events") && !write.concerns("leases"));
        ensure!(writes.is_empty(), "{writes:#?}");

        // The count works: an edit is seen by it.
        let edit = json!({"spec": {"replicas": 3}});
        scene.patch(WEBSITES, "site", edit).await?;
        scene
            .object_is(DEPLOYMENTS, "site", "scaled", |d| {
                d["spec"]["replicas"] == 3
            })
            .await?;
        ensure!(!scene.writes_since(mark)?.is_empty());
        Ok(())
    })
}

/// kro#957
#[test]
fn drift_is_corrected_whoever_made_it_and_whether_its_kind_counts_generations_or_not() -> Result<()>
{
    scenario("drift", async |scene| {
        let _host = serve(scene).await?;
        settle(scene).await?;
        // A ConfigMap has no generation; labels and owner references move none.
        let mut kubectl = scene.kubectl();
        let patch = r#"{"data":{"index.html":"defaced"}}"#;
        kubectl.args([
            "-n",
            &scene.namespace,
            "patch",
            "configmap",
            "site-content",
            "-p",
            patch,
        ]);
        guesthouse_tests::output(&mut kubectl)?;
        let restored = |map: &Value| map["data"]["index.html"] == "<h1>hello</h1>";
        scene
            .object_is(CONFIG_MAPS, "site-content", "as it was", restored)
            .await?;

        let label =
            json!({"metadata": {"labels": {OWNER: null, "app.kubernetes.io/name": "stolen"}}});
        scene.patch(SERVICES, "site", label).await?;
        let marked = |service: &Value| {
            let labels = &service["metadata"]["labels"];
            labels[OWNER].is_string() && labels["app.kubernetes.io/name"] == "website"
        };
        scene
            .object_is(SERVICES, "site", "marked again", marked)
            .await?;

        let disown = json!({"metadata": {"ownerReferences": null}});
        scene.patch(CONFIG_MAPS, "site-content", disown).await?;
        let owned = |map: &Value| map["metadata"]["ownerReferences"][0]["kind"] == "Website";
        scene
            .object_is(CONFIG_MAPS, "site-content", "owned again", owned)
            .await?;

        let scale = json!({"spec": {"replicas": 7}});
        scene.patch(DEPLOYMENTS, "site", scale).await?;
        scene
            .object_is(DEPLOYMENTS, "site", "scaled back", |d| {
                d["spec"]["replicas"] == 2
            })
            .await?;

        // What others add beside our fields is theirs, and no drift that is written for ever.
        let (mark, position) = (scene.mark()?, scene.log()?.len());
        let theirs = json!({"metadata": {"annotations": {"others.example/note": "x"}}});
        scene.patch(SERVICES, "site", theirs).await?;
        scene.quiet("site", position).await?;
        let service = scene.read(SERVICES, "site").await?;
        ensure!(
            service["metadata"]["annotations"]["others.example/note"] == "x",
            "{service}"
        );
        let mut writes = scene.writes_since(mark)?;
        writes.retain(|write| write.concerns(SERVICES.plural));
        ensure!(writes.is_empty(), "{writes:#?}");
        Ok(())
    })
}

#[test]
fn what_changed_in_the_spec_is_written_and_nothing_else() -> Result<()> {
    scenario("website-changes", async |scene| {
        let _host = serve(scene).await?;
        settle(scene).await?;
        let mark = scene.mark()?;
        let content = json!({"spec": {"content": {"index.html": "<h1>new</h1>"}}});
        scene.patch(WEBSITES, "site", content).await?;
        roll_out(scene, 2).await?;
        scene.ready(WEBSITES, "site").await?;
        let written = |kind: Resource| -> Result<usize> {
            let writes = scene.writes_since(mark)?;
            Ok(writes
                .iter()
                .filter(|write| write.concerns(kind.plural))
                .count())
        };
        for (kind, count) in [
            (CONFIG_MAPS, 1),
            (DEPLOYMENTS, 1),
            (SERVICES, 0),
            (INGRESSES, 0),
        ] {
            let found = written(kind)?;
            ensure!(found == count, "{found} writes to {}", kind.plural);
        }

        // A host that is cleared is an Ingress that goes, and nothing else.
        let mark = scene.mark()?;
        scene
            .patch(WEBSITES, "site", json!({"spec": {"host": null}}))
            .await?;
        scene.gone(INGRESSES, "site").await?;
        scene.ready(WEBSITES, "site").await?;
        let writes = scene.writes_since(mark)?;
        let children = writes
            .iter()
            .filter(|write| CHILDREN.iter().any(|(kind, _)| write.concerns(kind.plural)));
        let verbs: Vec<_> = children
            .map(|w| (w.verb.clone(), w.request_uri.clone()))
            .collect();
        ensure!(verbs.len() == 1 && verbs[0].0 == "delete", "{verbs:?}");
        for (kind, name) in &CHILDREN[..3] {
            scene.read(*kind, name).await?;
        }
        Ok(())
    })
}

/// crossplane#1910
#[test]
fn a_child_that_somebody_deletes_comes_back() -> Result<()> {
    scenario("website-deleted-child", async |scene| {
        let _host = serve(scene).await?;
        settle(scene).await?;
        for (kind, name) in CHILDREN {
            let uid = scene.read(kind, name).await?["metadata"]["uid"].clone();
            scene.delete(kind, name).await?;
            let new = |child: &Value| {
                child["metadata"]["uid"] != uid && child["metadata"]["deletionTimestamp"].is_null()
            };
            scene.object_is(kind, name, "made anew", new).await?;
            if kind == DEPLOYMENTS {
                roll_out(scene, 2).await?;
            }
        }
        scene.ready(WEBSITES, "site").await?;
        Ok(())
    })
}

#[test]
fn a_deleted_website_takes_its_children_with_it_last_made_first() -> Result<()> {
    scenario("website-gone", async |scene| {
        let _host = serve(scene).await?;
        let site = settle(scene).await?;
        ensure!(
            site["metadata"]["finalizers"] == json!([FINALIZER]),
            "{site}"
        );
        let mark = scene.mark()?;
        scene.delete(WEBSITES, "site").await?;
        for (kind, name) in CHILDREN {
            scene.gone(kind, name).await?;
        }
        scene.gone(WEBSITES, "site").await?;
        scene
            .eventually("the journal is gone", async || {
                Ok(scene.journal("site").await?.is_none().then_some(()))
            })
            .await?;
        // What comes after others is gone before our finalizer is; the rest goes with its owner.
        let writes = scene.writes_since(mark)?;
        let place = |verb: &str, kind: Resource| {
            let fits = |w: &guesthouse_tests::AuditEvent| w.verb == verb && w.concerns(kind.plural);
            writes.iter().position(fits)
        };
        let released = place("patch", WEBSITES).with_context(|| format!("{writes:#?}"))?;
        for kind in [INGRESSES, DEPLOYMENTS] {
            let deleted = place("delete", kind);
            ensure!(deleted.is_some_and(|at| at < released), "{writes:#?}");
        }
        for kind in [CONFIG_MAPS, SERVICES] {
            ensure!(place("delete", kind).is_none(), "{writes:#?}");
        }
        Ok(())
    })
}

/// kro#957, crossplane#5122
#[test]
fn another_ones_service_is_never_taken_over_and_the_condition_says_what_to_do() -> Result<()> {
    scenario("website-foreign", async |scene| {
        let _host = serve(scene).await?;
        let service = json!({
            "metadata": {"name": "site", "labels": {"team": "others"}},
            "spec": {"selector": {"app": "others"}, "ports": [{"port": 81}]},
        });
        let before = scene.create(SERVICES, service).await?;
        site(scene).await?;
        let what = "Service site is there already and was not made by this object; take another name, or take it over";
        let denied = scene
            .condition_is(WEBSITES, "site", "Stalled", "True", what)
            .await?;
        ensure!(
            condition(&denied, "Ready")["reason"] == "NotOwned",
            "{denied}"
        );
        let after = scene.read(SERVICES, "site").await?;
        ensure!(after == before, "{after}");
        // One that is in the way holds up nothing but what comes after it.
        scene.read(CONFIG_MAPS, "site-content").await?;
        scene.read(DEPLOYMENTS, "site").await?;
        ensure!(
            scene
                .api
                .find(INGRESSES, &scene.namespace, "site")
                .await?
                .is_none()
        );

        // It is not ours to delete either.
        scene.delete(WEBSITES, "site").await?;
        scene.gone(WEBSITES, "site").await?;
        let after = scene.read(SERVICES, "site").await?;
        ensure!(after == before, "{after}");
        Ok(())
    })
}

#[test]
fn another_ones_service_that_goes_makes_place_for_our_own() -> Result<()> {
    scenario("website-makes-place", async |scene| {
        let _host = serve(scene).await?;
        let service = json!({"metadata": {"name": "site"}, "spec": {"ports": [{"port": 81}]}});
        scene.create(SERVICES, service).await?;
        site(scene).await?;
        scene
            .condition_is(WEBSITES, "site", "Stalled", "True", "Service site")
            .await?;
        scene.delete(SERVICES, "site").await?;
        roll_out(scene, 2).await?;
        scene.ready(WEBSITES, "site").await?;
        Ok(())
    })
}

/// Starts a host that serves websites.
async fn serve(scene: &Scene<'_>) -> Result<guesthouse_tests::Host> {
    scene
        .map("websites", &scene.websites()?.to_string())
        .await?;
    scene.host()
}

async fn site(scene: &Scene<'_>) -> Result<Value> {
    let site = json!({
        "metadata": {"name": "site"},
        "spec": {"host": "site.example", "replicas": 2, "content": {"index.html": "<h1>hello</h1>"}},
    });
    scene.create(WEBSITES, site).await
}

/// A website that is ready, and whose passes are over.
async fn settle(scene: &Scene<'_>) -> Result<Value> {
    site(scene).await?;
    roll_out(scene, 2).await?;
    scene.ready(WEBSITES, "site").await
}

/// What the Deployment's controller would say at the end of a roll-out.
async fn roll_out(scene: &Scene<'_>, replicas: i64) -> Result<()> {
    let due = |d: &Value| d["status"]["observedGeneration"] != d["metadata"]["generation"];
    let deployment = scene
        .object_is(DEPLOYMENTS, "site", "to be rolled out", due)
        .await?;
    let said = json!({"status": {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
        "conditions": [
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        ],
    }});
    status(scene, said).await
}

async fn status(scene: &Scene<'_>, patch: Value) -> Result<()> {
    scene.patch_status(DEPLOYMENTS, "site", patch).await?;
    Ok(())
}
