//! The life of a plugin: tried before it serves, taken back where it fails, pinned by people; and the kind that shows it.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    Arguments, CONFIG_MAPS, ECHOES, Fault, MAPPINGS, REPORT_JOBS, Receiver, Rule, Scene, WISHES,
    Wire, host_binary, output, plugin, scenario,
};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A plugin file that is replaced as a whole.
struct File<'a, 'b> {
    scene: &'a Scene<'b>,
    path: std::path::PathBuf,
}

impl<'a, 'b> File<'a, 'b> {
    fn new(scene: &'a Scene<'b>, name: &str) -> Result<Self> {
        let path = scene.dir.join("plugin.wasm");
        let file = Self { scene, path };
        file.put(&plugin(name)?)?;
        Ok(file)
    }

    fn put(&self, wasm: &Path) -> Result<()> {
        self.write(&std::fs::read(wasm)?)
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        let aside = self.scene.dir.join("plugin.new");
        std::fs::write(&aside, bytes)?;
        std::fs::rename(&aside, &self.path).context("put a file in place")
    }

    /// A mapping of echoes to it.
    fn echoes(&self, rollout: Value) -> Value {
        let mut mapping = self.scene.mapping(ECHOES, &self.path);
        mapping["rollout"] = rollout;
        mapping
    }

    /// Puts that mapping in force.
    async fn serve(&self, rollout: Value) -> Result<()> {
        let mapping = self.echoes(rollout).to_string();
        self.scene.map("echoes", &mapping).await
    }
}

/// Waits for a Mapping object to look as wanted.
async fn mapping_is(
    scene: &Scene<'_>,
    name: &str,
    what: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Result<Value> {
    scene
        .eventually(&format!("the mapping {name} is {what}"), async || {
            let found = scene.api.find(MAPPINGS, &scene.home, name).await?;
            Ok(found.filter(&wanted))
        })
        .await
}

fn is_in(state: &str) -> impl Fn(&Value) -> bool {
    move |mapping: &Value| mapping["status"]["state"] == state
}

fn digest(mapping: &Value) -> String {
    let digest = mapping["status"]["plugin"]["digest"].as_str();
    digest.unwrap_or_default().to_owned()
}

fn kubectl(scene: &Scene<'_>, arguments: &[&str]) -> Result<String> {
    output(scene.kubectl().args(arguments).args(["-n", &scene.home]))
}

/// Echoes, some of which make the echo plugin panic; the plugin `decide` makes nothing of that.
async fn echoes(scene: &Scene<'_>, good: usize, bad: usize) -> Result<()> {
    for number in 0..good + bad {
        let spec = match number < bad {
            true => json!({"fail": "panic", "message": "it was never tried on this"}),
            false => json!({"n": number}),
        };
        let object = json!({"metadata": {"name": format!("echo-{number}")}, "spec": spec});
        scene.create(ECHOES, object).await?;
    }
    for number in 0..good + bad {
        let passed = |echo: &Value| echo["status"]["observedGeneration"] == 1;
        let name = format!("echo-{number}");
        scene.object_is(ECHOES, &name, "passed", passed).await?;
    }
    Ok(())
}

/// kubernetes#97408: `kubectl wait` asks for the generation that was observed.
#[test]
fn kubectl_shows_each_mapping_waits_for_it_and_it_goes_with_its_mapping() -> Result<()> {
    scenario("mapping-kind", async |scene| {
        scene.map_report_jobs().await?;
        let mut missing = scene.mapping(REPORT_JOBS, Path::new("/nowhere/plugin.wasm"));
        missing["for"]["namespaces"] = json!(["elsewhere"]);
        scene.map("missing", &missing.to_string()).await?;
        let _host = scene.host_with(&Arguments::with(&["--removal-grace", "1s"]))?;
        for number in 0..3 {
            scene.job(&format!("job-{number}"), json!({})).await?;
        }
        scene.drained(3).await?;
        mapping_is(scene, "report-jobs", "there", |_| true).await?;
        let wait = ["wait", "--for=condition=Ready", "--timeout=60s", "mapping"];
        kubectl(scene, &[&wait[..], &["report-jobs"]].concat())?;
        let counted = |mapping: &Value| mapping["status"]["objects"] == 3;
        let mapping = mapping_is(scene, "report-jobs", "counted", counted).await?;
        let shown = kubectl(scene, &["get", "mappings"])?;
        let mut lines = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let header = "NAME KIND PLUGIN VERSION DIGEST STATE OBJECTS STALLED READY AGE";
        ensure!(
            lines.next().is_some_and(|line| line.join(" ") == header),
            "{shown}"
        );
        let line = lines.find(|line| line.first() == Some(&"report-jobs"));
        let line = line.context("a line for the mapping")?;
        let short = &digest(&mapping)[..19];
        let wanted = ["report-jobs", "ReportJob", "report-job"];
        ensure!(line[..3] == wanted && line[4] == short, "{shown}");
        ensure!(line[5..9] == ["Serving", "3", "0", "True"], "{shown}");
        // One that does not serve says why, and `kubectl wait` sees that it stalled.
        let wait = [
            "wait",
            "--for=condition=Stalled",
            "--timeout=60s",
            "mapping",
        ];
        kubectl(scene, &[&wait[..], &["missing"]].concat())?;
        let missing = mapping_is(scene, "missing", "refused", is_in("Refused")).await?;
        let message = missing["status"]["message"].as_str().unwrap_or_default();
        ensure!(message.contains("/nowhere/plugin.wasm"), "{missing}");
        scene
            .api
            .delete(CONFIG_MAPS, &scene.home, "report-jobs")
            .await?;
        scene
            .eventually("the Mapping object goes with its mapping", async || {
                let found = scene.api.find(MAPPINGS, &scene.home, "report-jobs").await?;
                Ok(found.is_none().then_some(()))
            })
            .await
    })
}

#[test]
fn a_mapping_object_is_not_written_with_every_pass_and_not_at_all_by_settled_ones() -> Result<()> {
    scenario("mapping-writes", async |scene| {
        scene.map("echoes", &scene.echoes()?.to_string()).await?;
        let _host = scene.host()?;
        mapping_is(scene, "echoes", "serving", is_in("Serving")).await?;
        let mark = scene.mark()?;
        let began = std::time::Instant::now();
        for number in 0..150 {
            let object = json!({"metadata": {"name": format!("echo-{number}")}, "spec": {}});
            scene.create(ECHOES, object).await?;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let all = |mapping: &Value| {
            let status = &mapping["status"];
            status["objects"] == 150 && status["queued"] == 0
        };
        mapping_is(scene, "echoes", "counted", all).await?;
        let writes = || -> Result<usize> {
            let mut asked = scene.requests_since(mark)?;
            asked.retain(|event| event.is_write() && event.concerns("mappings"));
            Ok(asked.len())
        };
        let most = 2 + began.elapsed().as_secs() / 5;
        let made = writes()?;
        ensure!(
            (1..=most).contains(&(made as u64)),
            "{made} writes of {most}"
        );
        // Everything is said: a resync of settled objects has nothing to add.
        let position = scene.log()?.len();
        let mut mapping = scene.echoes()?;
        mapping["resync"] = json!("2s");
        scene.map("echoes", &mapping.to_string()).await?;
        scene
            .until("all are passed again, twice", || {
                Ok(scene.passes_since(position)?.len() >= 300)
            })
            .await?;
        // The edit itself is one write: the text is on record.
        ensure!(writes()? <= made + 3, "{made} writes, then {}", writes()?);
        Ok(())
    })
}

/// istio#33091, adm-controller#368: a version that passes its smoke test and fails on what is there.
#[test]
fn a_version_that_panics_on_live_objects_is_refused_and_the_one_before_serves_on() -> Result<()> {
    scenario("rehearsal-refused", async |scene| {
        let file = File::new(scene, "decide")?;
        file.serve(json!({})).await?;
        let host = scene.host()?;
        echoes(scene, 3, 2).await?;
        let before = mapping_is(scene, "echoes", "serving", is_in("Serving")).await?;
        let mark = scene.mark()?;
        file.put(&plugin("echo")?)?;
        let told = scene
            .told(
                &scene.home,
                "echoes",
                "PluginRefused",
                "it was never tried on this",
            )
            .await?;
        for part in ["fails on 2 of 5 objects", "Panic", "serves on", "sha256:"] {
            ensure!(told.note.contains(part), "{told:?} does not say {part}");
        }
        let refused = mapping_is(scene, "echoes", "refused", is_in("Refused")).await?;
        ensure!(digest(&refused) == digest(&before), "{refused}");
        ensure!(refused["status"]["rehearsal"]["failed"] == 2, "{refused}");
        let past = &refused["status"]["history"][0];
        ensure!(
            past["since"].is_null() && past["digest"] != json!(digest(&before)),
            "{refused}"
        );
        kubectl(
            scene,
            &[
                "wait",
                "--for=condition=Ready=false",
                "mapping/echoes",
                "--timeout=60s",
            ],
        )?;
        // Nothing of it was carried out, and the old one serves new objects.
        let writes = scene.writes_since(mark)?;
        let touched = writes.iter().find(|write| write.concerns("echoes"));
        ensure!(touched.is_none(), "{touched:?}");
        scene
            .create(
                ECHOES,
                json!({"metadata": {"name": "later"}, "spec": {"fail": "panic"}}),
            )
            .await?;
        let passed = |echo: &Value| echo["status"]["observedGeneration"] == 1;
        scene.object_is(ECHOES, "later", "passed", passed).await?;
        let events = scene.api.events(&scene.namespace, "later").await?;
        ensure!(
            events.iter().all(|event| event.type_ != "Warning"),
            "{events:?}"
        );
        // What is good is taken, by the same way.
        file.put(&plugin("decide_finalizing")?)?;
        let serves =
            |mapping: &Value| digest(mapping) != digest(&before) && is_in("Serving")(mapping);
        mapping_is(scene, "echoes", "served by the next one", serves).await?;
        ensure!(host.ended()?.is_none(), "it was restarted");
        Ok(())
    })
}

#[test]
fn a_version_that_asks_for_what_is_not_granted_is_refused_by_its_rehearsal() -> Result<()> {
    scenario("rehearsal-denied", async |scene| {
        let file = File::new(scene, "echo")?;
        let mut mapping = scene.mapping(WISHES, &file.path);
        scene.map("wishes", &mapping.to_string()).await?;
        let _host = scene.host()?;
        let receiver = Receiver::start().await?;
        let request = json!({"id": "send", "method": "PUT", "url": receiver.url(), "body": "x"});
        let spec = json!({"reconcile": {"http": [request]}});
        scene.wish("one", spec).await?;
        let passed = |wish: &Value| wish["status"]["observedGeneration"] == 1;
        scene.object_is(WISHES, "one", "passed", passed).await?;
        file.put(&plugin("decide")?)?;
        scene
            .told(
                &scene.home,
                "wishes",
                "PluginRefused",
                "fails on 1 of 1 objects",
            )
            .await?;
        let refused = mapping_is(scene, "wishes", "refused", is_in("Refused")).await?;
        let message = refused["status"]["message"].as_str().unwrap_or_default();
        ensure!(message.contains("grants.http"), "{refused}");
        // With the grant it is another question, asked by itself.
        mapping["grants"] = scene.wishes("decide", &[])?["grants"].clone();
        scene.map("wishes", &mapping.to_string()).await?;
        let answered = |wish: &Value| wish["status"]["receipts"]["send"] == "200";
        scene.object_is(WISHES, "one", "answered", answered).await?;
        ensure!(receiver.requests().len() == 1, "{:?}", receiver.requests());
        Ok(())
    })
}

#[test]
fn a_version_that_decides_otherwise_is_held_until_it_is_approved() -> Result<()> {
    scenario("rehearsal-held", async |scene| {
        let file = File::new(scene, "echo")?;
        let mut mapping = scene.mapping(REPORT_JOBS, &file.path);
        mapping["rollout"] = json!({"onDifference": "hold"});
        scene.map("report-jobs", &mapping.to_string()).await?;
        let _host = scene.host()?;
        for number in 0..3 {
            let name = format!("job-{number}");
            scene.job(&name, json!({})).await?;
            let passed = |job: &Value| job["status"]["observedGeneration"] == 1;
            scene.job_is(&name, "passed", passed).await?;
        }
        file.put(&plugin("peer_plugin")?)?;
        let told = scene
            .told(&scene.home, "report-jobs", "SwapHeld", "waits")
            .await?;
        for part in [
            "3 of 3 objects",
            "status.replace",
            "labels",
            "approve.guesthouse.dev/report-jobs: sha256:",
        ] {
            ensure!(told.note.contains(part), "{told:?} does not say {part}");
        }
        let held = mapping_is(scene, "report-jobs", "held", is_in("Held")).await?;
        let newest = held["status"]["newest"]["digest"]
            .as_str()
            .context("a digest")?;
        let job = scene.read_job("job-0").await?;
        ensure!(job["status"]["phase"] == "Pending", "{job}");
        let approve = format!("approve.guesthouse.dev/report-jobs={newest}");
        kubectl(scene, &["annotate", "configmap", "report-jobs", &approve])?;
        for number in 0..3 {
            scene.done(&format!("job-{number}")).await?;
        }
        let serves = |mapping: &Value| digest(mapping) == newest && is_in("Serving")(mapping);
        let mapping = mapping_is(scene, "report-jobs", "serving", serves).await?;
        ensure!(mapping["status"]["history"][0]["digest"] == held["status"]["plugin"]["digest"]);
        Ok(())
    })
}

#[test]
fn a_version_that_fails_in_service_is_taken_back_and_not_taken_again() -> Result<()> {
    scenario("returned", async |scene| {
        let file = File::new(scene, "decide")?;
        let rollout = json!({"rehearse": 0, "returnAfter": {"failures": 3}});
        scene
            .map("echoes", &file.echoes(rollout).to_string())
            .await?;
        let _host = scene.host()?;
        echoes(scene, 1, 3).await?;
        let before = mapping_is(scene, "echoes", "serving", is_in("Serving")).await?;
        let echo = plugin("echo")?;
        file.put(&echo)?;
        let told = scene
            .told(&scene.home, "echoes", "SwapReturned", "serves on")
            .await?;
        ensure!(
            told.note.contains("passes since the swap failed"),
            "{told:?}"
        );
        let returned = mapping_is(scene, "echoes", "returned", is_in("Returned")).await?;
        ensure!(digest(&returned) == digest(&before), "{returned}");
        let ready = |echo: &Value| {
            let conditions = echo["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten();
            let mut ready = conditions.filter(|c| c["type"] == "Ready");
            ready.all(|c| c["status"] == "True") && echo["status"]["observedGeneration"] == 1
        };
        for number in 0..4 {
            let name = format!("echo-{number}");
            scene.object_is(ECHOES, &name, "healed", ready).await?;
        }
        // The same bytes in a new file are the same version.
        file.put(&echo)?;
        scene
            .create(ECHOES, json!({"metadata": {"name": "later"}, "spec": {}}))
            .await?;
        scene.object_is(ECHOES, "later", "passed", ready).await?;
        let still = mapping_is(scene, "echoes", "counted", |m| m["status"]["objects"] == 5).await?;
        ensure!(
            is_in("Returned")(&still) && digest(&still) == digest(&before),
            "{still}"
        );
        Ok(())
    })
}

#[test]
fn a_rollback_pins_an_older_version_over_restarts_until_it_is_undone() -> Result<()> {
    scenario("rollback", async |scene| {
        let file = File::new(scene, "decide")?;
        file.serve(json!({})).await?;
        let host = scene.host()?;
        echoes(scene, 2, 0).await?;
        let old = digest(&mapping_is(scene, "echoes", "serving", is_in("Serving")).await?);
        file.put(&plugin("echo")?)?;
        let swapped = |mapping: &Value| digest(mapping) != old && is_in("Serving")(mapping);
        let new = digest(&mapping_is(scene, "echoes", "swapped", swapped).await?);
        let guesthouse = |arguments: &[&str]| -> Result<String> {
            let mut command = Command::new(host_binary()?);
            command.args(arguments).args(["-n", &scene.home]);
            output(command.env("KUBECONFIG", scene.admin()))
        };
        let said = guesthouse(&["rollback", "echoes"])?;
        ensure!(said.contains(&format!("pinned to {old}")), "{said}");
        let pinned = |mapping: &Value| digest(mapping) == old && is_in("Pinned")(mapping);
        mapping_is(scene, "echoes", "pinned", pinned).await?;
        // Neither what the source brings nor a restart moves it; its bytes come from the store.
        scene.stop(host).await?;
        file.put(&plugin("decide_finalizing")?)?;
        let _host = scene.host()?;
        scene
            .told(&scene.home, "echoes", "MappingActive", &old[..19])
            .await?;
        scene
            .create(ECHOES, json!({"metadata": {"name": "later"}, "spec": {}}))
            .await?;
        let counted = |mapping: &Value| pinned(mapping) && mapping["status"]["objects"] == 3;
        mapping_is(scene, "echoes", "pinned still", counted).await?;
        let said = guesthouse(&["rollback", "echoes", "--undo"])?;
        ensure!(said.contains("follows its source again"), "{said}");
        let newest = |mapping: &Value| {
            is_in("Serving")(mapping) && ![&old, &new].contains(&&digest(mapping))
        };
        mapping_is(scene, "echoes", "served by the newest", newest).await?;
        Ok(())
    })
}

/// People roll back when something went wrong, and a text that went wrong is one of the things that do.
#[test]
fn a_rollback_counts_while_the_text_cannot_be_used_and_over_a_restart_too() -> Result<()> {
    scenario("rollback-invalid", async |scene| {
        let file = File::new(scene, "decide")?;
        let good = file.echoes(json!({}));
        scene.map("echoes", &good.to_string()).await?;
        let host = scene.host()?;
        echoes(scene, 2, 0).await?;
        let old = digest(&mapping_is(scene, "echoes", "serving", is_in("Serving")).await?);
        file.put(&plugin("echo")?)?;
        let swapped = |mapping: &Value| digest(mapping) != old && is_in("Serving")(mapping);
        let new = digest(&mapping_is(scene, "echoes", "swapped", swapped).await?);
        let mut bad = good.clone();
        bad["resinc"] = json!("10h");
        scene.map("echoes", &bad.to_string()).await?;
        mapping_is(scene, "echoes", "invalid", is_in("Invalid")).await?;
        let rollback = |arguments: &[&str]| -> Result<String> {
            let mut command = Command::new(host_binary()?);
            command.args(["rollback", "echoes", "-n", &scene.home]);
            command.args(arguments).env("KUBECONFIG", scene.admin());
            output(&mut command)
        };
        let serves = |which: &str| {
            let which = which.to_owned();
            move |mapping: &Value| digest(mapping) == which && is_in("Invalid")(mapping)
        };
        rollback(&[])?;
        mapping_is(scene, "echoes", "rolled back", serves(&old)).await?;
        rollback(&["--undo"])?;
        mapping_is(scene, "echoes", "as it was", serves(&new)).await?;
        // While no host runs, too: the next one begins with the last good text and what was asked for beside the bad one.
        scene.stop(host).await?;
        rollback(&["--to", &old])?;
        let _host = scene.host()?;
        mapping_is(scene, "echoes", "rolled back", serves(&old)).await?;
        Ok(())
    })
}

#[test]
fn a_pin_gets_around_nothing_that_the_mapping_demands_and_takes_nothing_down() -> Result<()> {
    scenario("rollback-demands", async |scene| {
        let file = File::new(scene, "decide")?;
        let mut mapping = file.echoes(json!({}));
        scene.map("echoes", &mapping.to_string()).await?;
        let host = scene.host()?;
        echoes(scene, 2, 0).await?;
        let old = digest(&mapping_is(scene, "echoes", "serving", is_in("Serving")).await?);
        file.put(&plugin("echo")?)?;
        let swapped = |mapping: &Value| digest(mapping) != old && is_in("Serving")(mapping);
        let new = digest(&mapping_is(scene, "echoes", "swapped", swapped).await?);
        let pin = format!("pin.guesthouse.dev/echoes={old}");
        kubectl(scene, &["annotate", "configmap", "echoes", &pin])?;
        let pinned = |mapping: &Value| digest(mapping) == old && is_in("Pinned")(mapping);
        mapping_is(scene, "echoes", "pinned", pinned).await?;
        // What serves is in memory, and not what is demanded from now on.
        mapping["plugin"]["digest"] = json!(new);
        scene.map("echoes", &mapping.to_string()).await?;
        let refused = |mapping: &Value| digest(mapping) == new && is_in("Refused")(mapping);
        let says = |mapping: &Value| -> Result<()> {
            let message = mapping["status"]["message"].as_str().unwrap_or_default();
            let told = message.contains("pin.guesthouse.dev/echoes") && message.contains(&old);
            ensure!(told, "{mapping}");
            Ok(())
        };
        says(&mapping_is(scene, "echoes", "as demanded", refused).await?)?;
        // Asked again, it is the same answer; and after a restart.
        let pin = "pin.guesthouse.dev/echoes";
        kubectl(
            scene,
            &["annotate", "configmap", "echoes", &format!("{pin}-")],
        )?;
        let serves = |mapping: &Value| digest(mapping) == new && is_in("Serving")(mapping);
        mapping_is(scene, "echoes", "serving", serves).await?;
        let again = format!("{pin}={old}");
        kubectl(scene, &["annotate", "configmap", "echoes", &again])?;
        says(&mapping_is(scene, "echoes", "as demanded", refused).await?)?;
        scene.stop(host).await?;
        let _host = scene.host()?;
        scene
            .create(ECHOES, json!({"metadata": {"name": "later"}, "spec": {}}))
            .await?;
        let counted = |mapping: &Value| refused(mapping) && mapping["status"]["objects"] == 3;
        says(&mapping_is(scene, "echoes", "as demanded still", counted).await?)
    })
}

/// `kubectl replace --force` of a ConfigMap, and `kubectl delete mapping`.
#[test]
fn what_is_held_stays_so_where_the_mapping_is_made_again_or_its_record_is_deleted() -> Result<()> {
    scenario("held-still", async |scene| {
        let file = File::new(scene, "echo")?;
        let mut mapping = scene.mapping(REPORT_JOBS, &file.path);
        mapping["rollout"] = json!({"onDifference": "hold"});
        scene.map("report-jobs", &mapping.to_string()).await?;
        let how = Arguments::with(&["--removal-grace", "10s"]);
        let host = scene.host_with(&how)?;
        scene.job("one", json!({})).await?;
        let passed = |job: &Value| job["status"]["observedGeneration"] == 1;
        scene.job_is("one", "passed", passed).await?;
        file.put(&plugin("peer_plugin")?)?;
        let held = mapping_is(scene, "report-jobs", "held", is_in("Held")).await?;
        let uid = held["metadata"]["uid"].clone();
        scene
            .api
            .delete(CONFIG_MAPS, &scene.home, "report-jobs")
            .await?;
        scene
            .until("it is seen that the mapping is gone", || {
                let gone = |line: &Value| line["reason"] == "MappingRemoved";
                Ok(scene.log()?.iter().any(gone))
            })
            .await?;
        scene.map("report-jobs", &mapping.to_string()).await?;
        let still = |objects: u64| {
            let digest_before = digest(&held);
            move |mapping: &Value| {
                let status = &mapping["status"];
                is_in("Held")(mapping)
                    && digest(mapping) == digest_before
                    && status["objects"] == objects
            }
        };
        scene.job("two", json!({})).await?;
        scene.job_is("two", "passed", passed).await?;
        let mapping = mapping_is(scene, "report-jobs", "held still", still(2)).await?;
        ensure!(mapping["metadata"]["uid"] == uid, "{mapping}");
        // Past the time at which the record of one that stays away goes.
        tokio::time::sleep(Duration::from_secs(11)).await;
        scene
            .api
            .delete(MAPPINGS, &scene.home, "report-jobs")
            .await?;
        let mapping = mapping_is(scene, "report-jobs", "held still", still(2)).await?;
        ensure!(mapping["metadata"]["uid"] != uid, "{mapping}");
        scene.stop(host).await?;
        let _host = scene.host_with(&how)?;
        scene.job("three", json!({})).await?;
        scene.job_is("three", "passed", passed).await?;
        mapping_is(scene, "report-jobs", "held still", still(3)).await?;
        for name in ["one", "two", "three"] {
            let job = scene.read_job(name).await?;
            ensure!(job["status"]["phase"] == "Pending", "{job}");
        }
        Ok(())
    })
}

#[test]
fn a_host_that_stops_asks_once_for_each_record_that_is_refused() -> Result<()> {
    scenario("last-words", async |scene| {
        let (proxy, how) = scene.proxy(Wire::Plain).await?;
        scene.map("echoes", &scene.echoes()?.to_string()).await?;
        let host = scene.host_with(&how)?;
        echoes(scene, 1, 0).await?;
        let counted = |mapping: &Value| mapping["status"]["objects"] == 1;
        mapping_is(scene, "echoes", "counted", counted).await?;
        let no = Fault::Status(409, None);
        proxy.set(Rule::new("refused", no).on(&["mappings"]).writes());
        scene
            .create(ECHOES, json!({"metadata": {"name": "later"}, "spec": {}}))
            .await?;
        let passed = |echo: &Value| echo["status"]["observedGeneration"] == 1;
        scene.object_is(ECHOES, "later", "passed", passed).await?;
        let mark = proxy.mark();
        scene.stop(host).await?;
        let mut asked = proxy.since(mark);
        asked.retain(|asked| asked.target.resource == "mappings");
        // The one that was under way, and the last one.
        let writes = asked.iter().filter(|asked| asked.verb.is_write()).count();
        ensure!((1..=2).contains(&writes), "{asked:#?}");
        Ok(())
    })
}

/// vector#2224
#[test]
fn a_restart_begins_with_what_is_on_record_where_plugin_or_text_went_bad_meanwhile() -> Result<()> {
    scenario("on-record", async |scene| {
        let file = File::new(scene, "decide")?;
        let good = file.echoes(json!({}));
        scene.map("echoes", &good.to_string()).await?;
        let host = scene.host()?;
        echoes(scene, 1, 1).await?;
        let before = mapping_is(scene, "echoes", "serving", is_in("Serving")).await?;
        scene.stop(host).await?;
        // A version that fails on what is there, while no host ran.
        file.put(&plugin("echo")?)?;
        let host = scene.host()?;
        let refused = mapping_is(scene, "echoes", "refused", is_in("Refused")).await?;
        ensure!(digest(&refused) == digest(&before), "{refused}");
        // It is known to be bad after the next start, too, whether or not its text can be used.
        scene.stop(host).await?;
        file.write(b"\0asm garbage")?;
        let mut bad = good.clone();
        bad["resinc"] = json!("10h");
        scene.map("echoes", &bad.to_string()).await?;
        let _host = scene.host()?;
        let invalid = mapping_is(scene, "echoes", "invalid", is_in("Invalid")).await?;
        ensure!(digest(&invalid) == digest(&before), "{invalid}");
        scene
            .create(ECHOES, json!({"metadata": {"name": "later"}, "spec": {}}))
            .await?;
        let passed = |echo: &Value| echo["status"]["observedGeneration"] == 1;
        scene.object_is(ECHOES, "later", "passed", passed).await?;
        Ok(())
    })
}

#[test]
fn a_mapping_that_names_another_plugin_after_a_restart_is_not_held_up_by_the_one_on_record()
-> Result<()> {
    scenario("other-plugin", async |scene| {
        scene.map_report_jobs().await?;
        let host = scene.host()?;
        scene.job("before", json!({})).await?;
        scene.done("before").await?;
        mapping_is(scene, "report-jobs", "serving", is_in("Serving")).await?;
        scene.stop(host).await?;
        // Its config is nothing for the plugin on record.
        let mapping = scene.mapping(REPORT_JOBS, &plugin("peer_plugin")?);
        scene.map("report-jobs", &mapping.to_string()).await?;
        let _host = scene.host()?;
        scene.job("after", json!({})).await?;
        scene.done("after").await?;
        let other = |mapping: &Value| mapping["status"]["plugin"]["name"] == "peer-plugin";
        mapping_is(scene, "report-jobs", "the other plugin's", other).await?;
        ensure!(scene.exporter.stats().made == 1);
        Ok(())
    })
}

/// A host that may not write Mapping objects serves as before.
#[test]
fn without_the_right_to_mapping_objects_everything_else_goes_on() -> Result<()> {
    scenario("mapping-rights", async |scene| {
        let (proxy, how) = scene.proxy(Wire::Plain).await?;
        let no = Fault::Status(403, None);
        proxy.set(Rule::new("no mappings", no).on(&["mappings"]));
        scene.map_report_jobs().await?;
        let _host = scene.host_with(&how)?;
        scene.job("one", json!({})).await?;
        scene.done("one").await?;
        scene
            .until("the log says what is missing", || {
                let says = |line: &Value| {
                    let message = line["message"].as_str().unwrap_or_default();
                    message.contains("on mappings.guesthouse.dev")
                };
                Ok(scene.log()?.iter().any(says))
            })
            .await?;
        ensure!(
            proxy.hits().contains_key("no mappings"),
            "nothing was refused"
        );
        ensure!(
            scene
                .api
                .find(MAPPINGS, &scene.home, "report-jobs")
                .await?
                .is_none()
        );
        Ok(())
    })
}
