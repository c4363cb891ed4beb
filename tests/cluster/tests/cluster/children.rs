//! Children of every shape: whose they are, how long they stay, and what may not be done to them.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    CONFIG_MAPS, Host, JOBS, NAMESPACES, Resource, SECRETS, Scene, WISHES, child, condition,
    scenario,
};
use serde_json::{Value, json};

const OWNER: &str = "guesthouse.dev/owner";
const FINALIZER: &str = "guesthouse.dev/wishes";
/// Not in any namespace.
const CLUSTER_ROLES: Resource = Resource {
    api_version: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRole",
    plural: "clusterroles",
};

#[test]
fn an_ownerless_object_is_adopted_where_asked_and_then_kept_like_any_child() -> Result<()> {
    scenario("adopt", async |scene| {
        let _host = serve(scene, &[CONFIG_MAPS]).await?;
        let theirs = json!({"metadata": {"name": "found"}, "data": {"a": "theirs", "b": "theirs"}});
        let theirs = scene.create(CONFIG_MAPS, theirs).await?;
        scene
            .wish(
                "wish",
                wish([how(map("map", "found", json!({"a": "ours"})), "adopt")]),
            )
            .await?;
        let adopted = scene
            .object_is(CONFIG_MAPS, "found", "adopted", |map| {
                map["data"]["a"] == "ours"
            })
            .await?;
        ensure!(
            adopted["metadata"]["uid"] == theirs["metadata"]["uid"],
            "{adopted}"
        );
        ensure!(adopted["data"]["b"] == "theirs", "{adopted}");
        ensure!(
            adopted["metadata"]["labels"][OWNER].is_string(),
            "{adopted}"
        );
        ensure!(
            adopted["metadata"]["ownerReferences"][0]["name"] == "wish",
            "{adopted}"
        );

        // Another wish for the same one is not served: it has an owner now.
        scene
            .wish(
                "second",
                wish([how(map("map", "found", json!({"a": "mine"})), "adopt")]),
            )
            .await?;
        scene
            .condition_is(
                WISHES,
                "second",
                "Stalled",
                "True",
                "ConfigMap found is there already",
            )
            .await?;
        ensure!(scene.read(CONFIG_MAPS, "found").await?["data"]["a"] == "ours");
        scene.delete(WISHES, "second").await?;
        scene.gone(WISHES, "second").await?;
        ensure!(scene.read(CONFIG_MAPS, "found").await?["data"]["a"] == "ours");

        scene.delete(WISHES, "wish").await?;
        scene.gone(CONFIG_MAPS, "found").await
    })
}

/// kro#1419, eno#527
#[test]
fn an_orphan_stays_without_our_mark_when_its_parent_goes_and_is_pruned_like_any_other_before()
-> Result<()> {
    scenario("orphan", async |scene| {
        let _host = serve(scene, &[CONFIG_MAPS]).await?;
        let both = [
            how(map("kept", "kept", json!({"a": "1"})), "orphan"),
            how(map("pruned", "pruned", json!({"a": "1"})), "orphan"),
        ];
        scene.wish("wish", wish(both.clone())).await?;
        let kept = scene
            .object_is(CONFIG_MAPS, "kept", "made", |_| true)
            .await?;
        ensure!(kept["metadata"]["ownerReferences"].is_null(), "{kept}");
        scene
            .object_is(CONFIG_MAPS, "pruned", "made", |_| true)
            .await?;
        // Not wished for any more: the policy concerns the parent's end.
        scene
            .patch(WISHES, "wish", json!({"spec": wish([both[0].clone()])}))
            .await?;
        scene.gone(CONFIG_MAPS, "pruned").await?;

        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await?;
        let left = scene.read(CONFIG_MAPS, "kept").await?;
        ensure!(left["metadata"]["uid"] == kept["metadata"]["uid"], "{left}");
        ensure!(left["metadata"]["labels"][OWNER].is_null(), "{left}");
        ensure!(left["data"]["a"] == "1", "{left}");
        Ok(())
    })
}

#[test]
fn a_finished_job_that_is_deleted_is_not_run_again() -> Result<()> {
    scenario("once", async |scene| {
        let host = serve(scene, &[JOBS, CONFIG_MAPS]).await?;
        let spec = json!({"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }}}});
        let job = how(child("job", JOBS, "import", spec), "once");
        let mut after = map("after", "after", json!({"a": "1"}));
        after["after"] = json!(["job"]);
        let both = [job, after];
        scene.wish("wish", wish(both.clone())).await?;
        scene.object_is(JOBS, "import", "made", |_| true).await?;
        let times =
            json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z"});
        let conditions = json!([
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ]);
        let mut status = times;
        status["conditions"] = conditions;
        status["succeeded"] = json!(1);
        scene
            .patch_status(JOBS, "import", json!({"status": status}))
            .await?;
        scene.ready(WISHES, "wish").await?;
        scene.read(CONFIG_MAPS, "after").await?;

        // As its TTL would.
        let mark = scene.mark()?;
        let gone = |wish: &Value| wish["status"]["children"]["job"] == "Absent";
        scene.delete(JOBS, "import").await?;
        scene
            .object_is(WISHES, "wish", "told that it is gone", gone)
            .await?;
        let position = scene.log()?.len();
        let edit = json!({"metadata": {"annotations": {"guesthouse.dev/reconcile": "now"}}});
        scene.patch(WISHES, "wish", edit).await?;
        scene
            .until("the plugin was asked again", || {
                let passes = scene.passes_since(position)?;
                Ok(passes.iter().any(|pass| pass["calls"].as_u64() >= Some(1)))
            })
            .await?;
        scene.ready(WISHES, "wish").await?;
        scene.stop(host).await?;
        let position = scene.log()?.len();
        let _host = scene.host()?;
        scene.quiet("wish", position).await?;
        ensure!(
            scene
                .api
                .find(JOBS, &scene.namespace, "import")
                .await?
                .is_none()
        );
        scene.wrote("import", mark, 0)?;
        // What came after it stays.
        scene.read(CONFIG_MAPS, "after").await?;
        Ok(())
    })
}

#[test]
fn fields_of_anothers_object_are_set_without_force_and_let_go_of_again() -> Result<()> {
    scenario("fields", async |scene| {
        let _host = serve(scene, &[CONFIG_MAPS]).await?;
        let theirs = json!({"metadata": {"name": "shared"}, "data": {"theirs": "1"}});
        scene.create(CONFIG_MAPS, theirs).await?;
        scene
            .wish(
                "wish",
                wish([how(map("part", "shared", json!({"ours": "1"})), "fields")]),
            )
            .await?;
        let shared = scene
            .object_is(CONFIG_MAPS, "shared", "extended", |map| {
                map["data"]["ours"] == "1"
            })
            .await?;
        ensure!(shared["data"]["theirs"] == "1", "{shared}");
        let metadata = &shared["metadata"];
        ensure!(
            metadata["ownerReferences"].is_null() && metadata["labels"].is_null(),
            "{shared}"
        );

        // A field that somebody else holds is theirs: the conflict is told with its manager.
        let edit = wish([how(
            map("part", "shared", json!({"ours": "1", "theirs": "2"})),
            "fields",
        )]);
        scene.patch(WISHES, "wish", json!({"spec": edit})).await?;
        let told = scene.unready(WISHES, "wish", "conflict with").await?;
        ensure!(
            condition(&told, "Ready")["message"]
                .to_string()
                .contains(".data.theirs"),
            "{told}"
        );
        ensure!(scene.read(CONFIG_MAPS, "shared").await?["data"]["theirs"] == "1");

        // Let go of, the object stays.
        scene
            .patch(WISHES, "wish", json!({"spec": wish([])}))
            .await?;
        let released = |map: &Value| map["data"]["ours"].is_null() && map["data"]["theirs"] == "1";
        scene
            .object_is(CONFIG_MAPS, "shared", "let go of", released)
            .await?;
        Ok(())
    })
}

#[test]
fn a_change_of_an_immutable_field_is_told_or_makes_the_child_anew_as_asked() -> Result<()> {
    scenario("immutable", async |scene| {
        let _host = serve(scene, &[SECRETS]).await?;
        // The type of a Secret can never change.
        let secret = |name: &str, type_: &str| child(name, SECRETS, name, json!({"type": type_}));
        let both = |type_: &str| {
            wish([
                how(secret("anew", type_), "recreate"),
                secret("told", type_),
            ])
        };
        scene.wish("wish", both("example.com/one")).await?;
        scene.ready(WISHES, "wish").await?;
        let uid = async |name: &str| -> Result<Value> {
            Ok(scene.read(SECRETS, name).await?["metadata"]["uid"].clone())
        };
        let (anew, told) = (uid("anew").await?, uid("told").await?);
        scene
            .patch(WISHES, "wish", json!({"spec": both("example.com/two")}))
            .await?;
        let says = scene
            .unready(WISHES, "wish", "the child Secret told")
            .await?;
        let message = condition(&says, "Ready")["message"].to_string();
        ensure!(message.contains("immutable"), "{says}");
        let recreated = |s: &Value| s["metadata"]["uid"] != anew && s["type"] == "example.com/two";
        scene
            .object_is(SECRETS, "anew", "made anew", recreated)
            .await?;
        ensure!(uid("told").await? == told);
        Ok(())
    })
}

#[test]
fn generated_values_are_made_once_and_stand_nowhere_but_in_their_secret() -> Result<()> {
    scenario("generated", async |scene| {
        let mapping = scene.wishes("decide", &[SECRETS])?;
        scene.map("wishes", &mapping.to_string()).await?;
        let how = guesthouse_tests::Arguments {
            log: "trace,guesthouse::step=trace,hyper=info,h2=info".to_owned(),
            ..Default::default()
        };
        let host = scene.host_with(&how)?;
        let secret = |user: &str| {
            let mut secret = child(
                "secret",
                SECRETS,
                "login",
                json!({"stringData": {"user": user}}),
            );
            secret["generate"] = json!({"password": 40});
            wish([secret])
        };
        scene.wish("wish", secret("ann")).await?;
        scene.ready(WISHES, "wish").await?;
        let password = |secret: &Value| {
            secret["data"]["password"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let made = scene.read(SECRETS, "login").await?;
        let first = password(&made);
        ensure!(first.len() >= 40, "{made}");

        // Applied again with another user; drifted and put right; under another host.
        scene
            .patch(WISHES, "wish", json!({"spec": secret("bob")}))
            .await?;
        let changed = scene
            .object_is(SECRETS, "login", "bob's", |s| s["data"]["user"] == "Ym9i")
            .await?;
        ensure!(password(&changed) == first, "{changed}");
        scene.stop(host).await?;
        let drift = json!({"metadata": {"labels": {OWNER: null}}});
        scene.patch(SECRETS, "login", drift).await?;
        let position = scene.log()?.len();
        let _host = scene.host_with(&how)?;
        let corrected = scene
            .object_is(SECRETS, "login", "marked again", |s| {
                s["metadata"]["labels"][OWNER].is_string()
            })
            .await?;
        ensure!(password(&corrected) == first, "{corrected}");
        scene.applied("wish", position).await?;

        let plain = String::from_utf8(decode(&first)?)?;
        nowhere(scene, &[&first, &plain]).await
    })
}

#[test]
fn a_child_in_another_namespace_is_granted_by_name_and_cleaned_up_by_a_finalizer() -> Result<()> {
    scenario("child-elsewhere", async |scene| {
        let other = format!("{}-other", scene.namespace);
        let namespace = json!({"metadata": {"name": other}});
        scene.api.create(NAMESPACES, "", namespace).await?;
        let _host = serve(scene, &[CONFIG_MAPS]).await?;
        let far = || {
            let rest = json!({"metadata": {"namespace": other}, "data": {"a": "1"}});
            wish([child("far", CONFIG_MAPS, "far", rest)])
        };
        scene.wish("wish", far()).await?;
        let denied = scene
            .condition_is(WISHES, "wish", "Stalled", "True", &other)
            .await?;
        ensure!(
            condition(&denied, "Stalled")["message"]
                .to_string()
                .contains("grants.apply"),
            "{denied}"
        );
        ensure!(scene.api.find(CONFIG_MAPS, &other, "far").await?.is_none());
        ensure!(denied["metadata"]["finalizers"].is_null(), "{denied}");

        let mut mapping = scene.wishes("decide", &[CONFIG_MAPS])?;
        mapping["grants"]["apply"][0]["namespaces"] = json!([other]);
        scene.map("wishes", &mapping.to_string()).await?;
        let granted = scene.ready(WISHES, "wish").await?;
        ensure!(
            granted["metadata"]["finalizers"] == json!([FINALIZER]),
            "{granted}"
        );
        let child = scene.api.get(CONFIG_MAPS, &other, "far").await?;
        ensure!(child["metadata"]["ownerReferences"].is_null(), "{child}");
        ensure!(child["metadata"]["labels"][OWNER].is_string(), "{child}");
        let inventory = &scene.journal("wish").await?.context("a journal")?["record"]["inventory"];
        ensure!(inventory[0]["namespace"] == other.as_str(), "{inventory}");

        // Brought back, though no owner reference leads to it.
        let uid = child["metadata"]["uid"].clone();
        scene.api.delete(CONFIG_MAPS, &other, "far").await?;
        scene
            .eventually("the child is back", async || {
                let found = scene.api.find(CONFIG_MAPS, &other, "far").await?;
                Ok(found.filter(|child| child["metadata"]["uid"] != uid))
            })
            .await?;
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await?;
        ensure!(scene.api.find(CONFIG_MAPS, &other, "far").await?.is_none());
        Ok(())
    })
}

#[test]
fn a_cluster_scoped_child_is_kept_and_cleaned_up_without_an_owner_reference() -> Result<()> {
    scenario("cluster-scoped", async |scene| {
        let _host = serve(scene, &[CLUSTER_ROLES]).await?;
        let role = child(
            "role",
            CLUSTER_ROLES,
            "cluster-scoped-child",
            json!({"rules": []}),
        );
        scene.wish("wish", wish([role])).await?;
        let ready = scene.ready(WISHES, "wish").await?;
        ensure!(
            ready["metadata"]["finalizers"] == json!([FINALIZER]),
            "{ready}"
        );
        let role = scene
            .api
            .get(CLUSTER_ROLES, "", "cluster-scoped-child")
            .await?;
        ensure!(role["metadata"]["ownerReferences"].is_null(), "{role}");
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await?;
        let left = scene
            .api
            .find(CLUSTER_ROLES, "", "cluster-scoped-child")
            .await?;
        ensure!(left.is_none(), "{left:?}");
        Ok(())
    })
}

/// kubernetes#65200
#[test]
fn the_garbage_collector_takes_no_child_of_a_living_parent() -> Result<()> {
    scenario("collector", async |scene| {
        let other = format!("{}-other", scene.namespace);
        scene
            .api
            .create(NAMESPACES, "", json!({"metadata": {"name": other}}))
            .await?;
        let mut mapping = scene.wishes("decide", &[CONFIG_MAPS, CLUSTER_ROLES])?;
        mapping["grants"]["apply"][0]["namespaces"] = json!([other]);
        scene.map("wishes", &mapping.to_string()).await?;
        let _host = scene.host()?;
        let far = json!({"metadata": {"namespace": other}, "data": {}});
        scene
            .wish(
                "wish",
                wish([
                    map("near", "near", json!({})),
                    child("far", CONFIG_MAPS, "far", far),
                    child(
                        "role",
                        CLUSTER_ROLES,
                        "collector-child",
                        json!({"rules": []}),
                    ),
                ]),
            )
            .await?;
        scene.ready(WISHES, "wish").await?;
        // The collector is at work when it has taken one whose owner never was; that one is younger than ours.
        let illegal = json!([{
            "apiVersion": WISHES.api_version, "kind": WISHES.kind, "name": "wish", "uid": "00000000-0000-4000-8000-000000000000",
        }]);
        let doomed = |name: &str, owners: &Value| json!({"metadata": {"name": name, "ownerReferences": owners}});
        scene
            .create(CONFIG_MAPS, doomed("doomed", &illegal))
            .await?;
        scene.gone(CONFIG_MAPS, "doomed").await?;
        let uid = scene.read(WISHES, "wish").await?["metadata"]["uid"].clone();
        let crossing = json!([{
            "apiVersion": WISHES.api_version, "kind": WISHES.kind, "name": "wish", "uid": uid,
        }]);
        scene
            .api
            .create(CONFIG_MAPS, &other, doomed("crossing", &crossing))
            .await?;
        scene
            .eventually("an owner in another namespace is none", async || {
                let found = scene.api.find(CONFIG_MAPS, &other, "crossing").await?;
                Ok(found.is_none().then_some(()))
            })
            .await?;
        scene.read(CONFIG_MAPS, "near").await?;
        scene.api.get(CONFIG_MAPS, &other, "far").await?;
        scene.api.get(CLUSTER_ROLES, "", "collector-child").await?;
        scene.delete(WISHES, "wish").await?;
        scene.gone(WISHES, "wish").await?;
        scene.gone(CONFIG_MAPS, "near").await
    })
}

/// crossplane#1910, crossplane#6631
#[test]
fn what_may_not_be_asked_for_is_refused_before_anything_is_made() -> Result<()> {
    scenario("child-refused", async |scene| {
        let _host = serve(scene, &[CONFIG_MAPS]).await?;
        let mut nameless = map("nameless", "x", json!({}));
        nameless["object"]["metadata"] = json!({"generateName": "x-"});
        for (name, bad, message) in [
            ("nameless", nameless, "generateName"),
            (
                "ungranted",
                child("s", SECRETS, "s", json!({})),
                "grants.apply",
            ),
            ("twice", map("other", "good", json!({})), "both ask for"),
        ] {
            scene
                .wish(name, wish([map("good", "good", json!({})), bad]))
                .await?;
            scene.unready(WISHES, name, message).await?;
            ensure!(
                scene
                    .api
                    .find(CONFIG_MAPS, &scene.namespace, "good")
                    .await?
                    .is_none()
            );
        }
        Ok(())
    })
}

#[test]
fn a_child_that_the_server_refuses_is_told_and_tried_again_and_holds_up_no_other() -> Result<()> {
    scenario("quota", async |scene| {
        let _host = serve(scene, &[CONFIG_MAPS, SECRETS]).await?;
        let quotas = Resource {
            api_version: "v1",
            kind: "ResourceQuota",
            plural: "resourcequotas",
        };
        let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/secrets": "0"}}});
        scene.create(quotas, quota).await?;
        // No controller counts for the quota here.
        let counted =
            json!({"status": {"hard": {"count/secrets": "0"}, "used": {"count/secrets": "0"}}});
        scene.patch_status(quotas, "none", counted).await?;
        scene
            .wish(
                "wish",
                wish([
                    map("map", "map", json!({})),
                    child("secret", SECRETS, "secret", json!({})),
                ]),
            )
            .await?;
        let told = scene.unready(WISHES, "wish", "exceeded quota").await?;
        ensure!(condition(&told, "Stalled").is_null(), "{told}");
        scene.read(CONFIG_MAPS, "map").await?;
        scene.delete(quotas, "none").await?;
        scene.ready(WISHES, "wish").await?;
        scene.read(SECRETS, "secret").await?;
        Ok(())
    })
}

/// Starts a host that does as wishes say, with these kinds granted.
async fn serve(scene: &Scene<'_>, granted: &[Resource]) -> Result<Host> {
    let mapping = scene.wishes("decide", granted)?;
    scene.map("wishes", &mapping.to_string()).await?;
    scene.host()
}

/// These are all the children there shall be.
fn wish<const N: usize>(children: [Value; N]) -> Value {
    json!({"reconcile": {"children": children.to_vec()}})
}

fn map(id: &str, name: &str, data: Value) -> Value {
    child(id, CONFIG_MAPS, name, json!({"data": data}))
}

fn how(mut child: Value, how: &str) -> Value {
    child["how"] = json!([how]);
    child
}

/// None of the texts stands in the host's log, its journals, Events or the wishes.
async fn nowhere(scene: &Scene<'_>, secrets: &[&str]) -> Result<()> {
    let mut places = vec![("the log", json!(scene.log()?).to_string())];
    places.push(("a journal", json!(scene.journals().await?).to_string()));
    for (what, kind) in [("a wish", WISHES), ("an Event", guesthouse_tests::EVENTS)] {
        let objects = scene.api.list(kind, &scene.namespace).await?;
        places.push((what, json!(objects).to_string()));
    }
    ensure!(places[0].1.contains("login"), "the log tells of no step");
    for secret in secrets {
        ensure!(secret.len() > 8);
        for (what, text) in &places {
            ensure!(!text.contains(secret), "{what} holds the value");
        }
    }
    Ok(())
}

/// Base64 (RFC 4648), to find what stands behind it.
fn decode(text: &str) -> Result<Vec<u8>> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bits = 0_u32;
    let (mut count, mut bytes) = (0, Vec::new());
    for letter in text.trim_end_matches('=').chars() {
        let value = ALPHABET.find(letter).context("base64")?;
        bits = bits << 6 | u32::try_from(value)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff)?);
        }
    }
    Ok(bytes)
}
