//! Several replicas: who passes what, and what becomes of it when one of them dies, freezes, leaves or loses its Lease.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{
    Arguments, ECHOES, Host, LEASES, Plane, ROLE_BINDINGS, ROLES, Scene, now_ms, scenario,
    scenario_on,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the Leases of these replicas last.
const LEASE: Duration = Duration::from_secs(3);

#[test]
fn two_replicas_pass_a_mapping_on_one_of_them_and_sigterm_hands_it_over_without_waiting()
-> Result<()> {
    scenario("lease-term", async |scene| {
        scene.map_report_jobs().await?;
        // Nothing is ever waited out: a Lease lasts longer than any test waits.
        let long = |name: &str| Arguments {
            replica: name.to_owned(),
            ..Arguments::with(&["--lease-seconds", "900", "--http-in-flight", "2"])
        };
        let first = scene.host_with(&long("a"))?;
        held_by(scene, "report-jobs", "a").await?;
        let _second = scene.host_with(&long("b"))?;
        lives(scene, "b").await?;
        scene.exporter.delay(100);
        create(scene, 30).await?;
        made(scene, 5).await?;
        // What it had begun it ends; what comes now is the other's.
        first.terminate()?;
        create_from(scene, 30, 40).await?;
        scene.stop(first).await?;
        done(scene, 40).await?;
        held_by(scene, "report-jobs", "b").await?;
        one_at_a_time(scene)?;
        let replicas = replicas_of(&scene.passes_since(0)?);
        ensure!(replicas == ["a", "b"], "{replicas:?}");
        // The one that left took its Lease along.
        let lease = scene.api.find(LEASES, &scene.home, "guesthouse-replica-a");
        ensure!(lease.await?.is_none());
        Ok(())
    })
}

#[test]
fn a_killed_replica_is_followed_by_the_other_once_its_lease_ran_out() -> Result<()> {
    scenario("lease-kill", async |scene| {
        scene.map_report_jobs().await?;
        let first = scene.host_with(&busy("a"))?;
        held_by(scene, "report-jobs", "a").await?;
        let _second = scene.host_with(&busy("b"))?;
        scene.exporter.delay(100);
        create(scene, 30).await?;
        made(scene, 5).await?;
        let holder = holder(scene, "report-jobs").await?;
        ensure!(holder == "a" || holder == "b", "{holder}");
        first.kill();
        held_by(scene, "report-jobs", "b").await?;
        done(scene, 30).await?;
        one_at_a_time(scene)
    })
}

/// java-operator-sdk#2056, KubeOps#677, kopiur#319
#[test]
fn a_replica_frozen_beyond_its_lease_writes_nothing_of_its_old_term_when_it_goes_on() -> Result<()>
{
    scenario("lease-frozen", async |scene| {
        scene.map_report_jobs().await?;
        let frozen = scene.host_with(&Arguments {
            kubeconfig: Some(scene.somebody("lease-frozen-a")?),
            ..busy("a")
        })?;
        held_by(scene, "report-jobs", "a").await?;
        scene.exporter.delay(200);
        create(scene, 30).await?;
        made(scene, 5).await?;
        scene
            .until("reports are on their way", || {
                Ok(scene.exporter.stats().in_flight > 0)
            })
            .await?;
        frozen.freeze(true)?;
        let term = claim(scene, "report-jobs").await?["spec"]["leaseTransitions"].clone();
        let _other = scene.host_with(&busy("b"))?;
        held_by(scene, "report-jobs", "b").await?;
        done(scene, 30).await?;
        let mark = scene.mark()?;
        let position = scene.log()?.len();
        frozen.freeze(false)?;
        // It notices, and contends again.
        scene
            .until("it has a Lease again", || {
                let log = scene.log()?.split_off(position);
                Ok(log
                    .iter()
                    .any(|line| line["message"] == "this replica has its Lease"))
            })
            .await?;
        // The passes it was in the middle of end.
        scene
            .until("its old passes are over", || {
                let log = scene.log()?;
                let of = |message: &str| {
                    let old = |line: &&Value| line["replica"] == "a" && line["term"] == term;
                    log.iter()
                        .filter(old)
                        .filter(|line| line["message"] == message)
                        .count()
                };
                Ok(of("pass begins") == of("pass"))
            })
            .await?;
        let written = scene.writes_by("lease-frozen-a", mark)?;
        let stood: Vec<_> = written
            .iter()
            .filter(|write| write.code() < 300)
            .filter(|write| write.concerns("reportjobs") || write.concerns("journals"))
            .collect();
        ensure!(stood.is_empty(), "{stood:#?}");
        once(scene, 30)?;
        begins_in_order(scene)
    })
}

#[test]
fn an_api_server_frozen_beyond_the_lease_stops_effects_in_time_and_all_go_on_after() -> Result<()> {
    scenario_on(&Plane::start("lease-api")?, "lease-api", async |scene| {
        scene.map_report_jobs().await?;
        // One report at a time, so that many sends wait for their turn when the right ends.
        let slow = |name: &str| Arguments {
            replica: name.to_owned(),
            ..Arguments::with(&["--lease-seconds", "3", "--http-in-flight", "1"])
        };
        let _hosts = [scene.host_with(&slow("a"))?, scene.host_with(&slow("b"))?];
        scene.exporter.delay(500);
        create(scene, 40).await?;
        made(scene, 3).await?;
        let position = scene.log()?.len();
        scene.freeze_api_server(true)?;
        let frozen = now_ms();
        scene
            .until("the owner says that it is not ready", || {
                let log = scene.log()?.split_off(position);
                let says = |line: &Value| line["ready"] == false && line["level"] == "WARN";
                Ok(log.iter().any(says))
            })
            .await?;
        // How long it is frozen; nothing is concluded from it.
        tokio::time::sleep(LEASE * 2).await;
        let thawed = now_ms();
        scene.freeze_api_server(false)?;
        // The last answered renewal was sent before the freeze.
        let ends = frozen + 3000;
        let stats = scene.exporter.stats();
        let after: Vec<_> = stats
            .attempts
            .iter()
            .filter(|(_, at)| at.iter().any(|at| (ends..thawed).contains(at)))
            .collect();
        ensure!(
            after.is_empty(),
            "effects beyond the lease, which ended at {ends}: {after:?}"
        );
        ensure!(stats.made < 40, "all was done before the right ended");
        scene.exporter.delay(0);
        done(scene, 40).await?;
        begins_in_order(scene)
    })
}

#[test]
fn three_replicas_share_twelve_mappings_and_only_the_share_of_a_dead_one_moves() -> Result<()> {
    scenario("lease-three", async |scene| {
        let mut names = Vec::new();
        for number in 0..12 {
            let name = format!("m{number}");
            let mut mapping = scene.echoes()?;
            mapping["for"]["namespaces"] = json!([format!("{}-{number}", scene.namespace)]);
            scene.map(&name, &mapping.to_string()).await?;
            names.push(name);
        }
        let mut hosts: Vec<(String, Host)> = Vec::new();
        for name in ["a", "b", "c"] {
            hosts.push((name.to_owned(), scene.host_with(&Arguments::replica(name))?));
        }
        let shares = spread(scene, &names, &["a", "b", "c"]).await?;
        let (dead, host) = hosts.remove(0);
        host.kill();
        let after = spread(scene, &names, &["b", "c"]).await?;
        for (mapping, (holder, term)) in &shares {
            if *holder != dead {
                ensure!(
                    after[mapping] == (holder.clone(), *term),
                    "{mapping} moved: {shares:?} {after:?}"
                );
            }
        }
        Ok(())
    })
}

/// kuberhealthy#1533
#[test]
fn a_lease_that_is_taken_away_is_contended_for_again_and_work_goes_on() -> Result<()> {
    scenario("lease-lost", async |scene| {
        scene.map("echoes", &scene.echoes()?.to_string()).await?;
        let host = scene.host_with(&Arguments::replica("a"))?;
        held_by(scene, "echoes", "a").await?;
        let echo = |name: &str| json!({"metadata": {"name": name}, "spec": {"a": 1}});
        for turn in 0..3 {
            let term = term(&claim(scene, "echoes").await?);
            let position = scene.log()?.len();
            let lease = "guesthouse-replica-a";
            if turn == 0 {
                scene.api.delete(LEASES, &scene.home, lease).await?;
            } else {
                let patch = json!({"spec": {"holderIdentity": null}});
                scene.api.patch(LEASES, &scene.home, lease, patch).await?;
            }
            scene
                .until("it says that it is not ready", || {
                    let log = scene.log()?.split_off(position);
                    let says = |line: &Value| line["ready"] == false && line["level"] == "WARN";
                    Ok(log.iter().any(says))
                })
                .await?;
            scene
                .eventually("it has the claim under a new term", async || {
                    let claim = claim(scene, "echoes").await?;
                    Ok((named(&claim) == "a" && self::term(&claim) > term).then_some(()))
                })
                .await?;
            let name = format!("echo-{turn}");
            scene.create(ECHOES, echo(&name)).await?;
            scene
                .object_is(ECHOES, &name, "echoed", |o| o["status"]["echo"]["a"] == 1)
                .await?;
        }
        ensure!(host.ended()?.is_none());
        Ok(())
    })
}

#[test]
fn without_rights_to_leases_nothing_is_passed_unless_they_are_off() -> Result<()> {
    scenario("lease-rights", async |scene| {
        let rules =
            |groups: &[&str]| json!([{"apiGroups": groups, "resources": ["*"], "verbs": ["*"]}]);
        let few = [
            "",
            "batch.acme.io",
            "guesthouse.dev",
            "events.k8s.io",
            "apiextensions.k8s.io",
        ];
        let role = json!({"metadata": {"name": "leaseless"}, "rules": rules(&few)});
        scene.api.create(ROLES, "", role).await?;
        let binding = json!({
            "metadata": {"name": "leaseless"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "leaseless"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "leaseless"}],
        });
        scene.api.create(ROLE_BINDINGS, "", binding).await?;
        let kubeconfig = Some(scene.nobody("leaseless")?);
        scene.map_report_jobs().await?;
        scene.job("alone", json!({})).await?;
        let host = scene.host_with(&Arguments {
            kubeconfig: kubeconfig.clone(),
            ..Arguments::with(&["--leases", "off"])
        })?;
        scene.done("alone").await?;
        scene.stop(host).await?;

        scene.job("shared", json!({})).await?;
        let position = scene.log()?.len();
        let _host = scene.host_with(&Arguments {
            kubeconfig,
            ..Arguments::replica("a")
        })?;
        scene
            .until("it says what to allow", || {
                let says = |line: &Value| {
                    let text = line["message"].as_str().unwrap_or_default();
                    text.contains("leases.coordination.k8s.io") && text.contains("--leases=off")
                };
                Ok(scene.log()?.split_off(position).iter().any(says))
            })
            .await?;
        ensure!(
            scene.passes_since(position)?.is_empty(),
            "passed without a Lease"
        );
        let mut all = few.to_vec();
        all.push("coordination.k8s.io");
        let rights = json!({"rules": rules(&all)});
        scene.api.patch(ROLES, "", "leaseless", rights).await?;
        scene.done("shared").await?;
        Ok(())
    })
}

#[test]
fn three_hundred_reports_are_made_once_each_while_the_leader_is_killed_or_frozen_five_times()
-> Result<()> {
    scenario("lease-five", async |scene| {
        scene.map_report_jobs().await?;
        create(scene, 300).await?;
        scene.exporter.delay(40);
        let mut hosts: BTreeMap<String, Host> = BTreeMap::new();
        for name in ["r0", "r1"] {
            hosts.insert(name.to_owned(), scene.host_with(&busy(name))?);
        }
        let mut next = 2;
        let mut frozen: Option<String> = None;
        for fault in 1..=5_u64 {
            made(scene, fault * 45).await?;
            let leader = scene
                .eventually("somebody leads", async || {
                    let holder = holder(scene, "report-jobs").await?;
                    Ok(hosts.contains_key(&holder).then_some(holder))
                })
                .await?;
            if let Some(before) = frozen.take() {
                hosts[&before].freeze(false)?;
            }
            println!(
                "fault {fault} on {leader} at {} reports",
                scene.exporter.stats().made
            );
            if fault % 2 == 1 {
                hosts.remove(&leader).context("the leader runs")?.kill();
                let name = format!("r{next}");
                next += 1;
                hosts.insert(name.clone(), scene.host_with(&busy(&name))?);
            } else {
                hosts[&leader].freeze(true)?;
                frozen = Some(leader.clone());
            }
            scene
                .eventually("another leads", async || {
                    let holder = holder(scene, "report-jobs").await?;
                    Ok((!holder.is_empty() && holder != leader).then_some(()))
                })
                .await?;
        }
        if let Some(before) = frozen {
            hosts[&before].freeze(false)?;
        }
        ensure!(
            scene.exporter.stats().made < 300,
            "all was done before the last fault"
        );
        done(scene, 300).await?;
        begins_in_order(scene)?;
        let stats = scene.exporter.stats();
        println!(
            "{} made, {} repeats, {} duplicates",
            stats.made, stats.repeats, stats.duplicates
        );
        Ok(())
    })
}

// ---- who has what ----

/// A replica that works slowly enough to be met at work.
fn busy(name: &str) -> Arguments {
    Arguments {
        replica: name.to_owned(),
        ..Arguments::with(&["--lease-seconds", "3", "--http-in-flight", "4"])
    }
}

/// The claim to a mapping; null if there is none.
async fn claim(scene: &Scene<'_>, mapping: &str) -> Result<Value> {
    let leases = scene.api.list(LEASES, &scene.home).await?;
    let of = |lease: &&Value| lease["metadata"]["annotations"]["guesthouse.dev/mapping"] == mapping;
    Ok(leases.iter().find(of).cloned().unwrap_or_default())
}

/// The replica that a Lease names, without its instance.
fn named(lease: &Value) -> String {
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
    holder.split('_').next().unwrap_or_default().to_owned()
}

fn term(lease: &Value) -> u64 {
    lease["spec"]["leaseTransitions"]
        .as_u64()
        .unwrap_or_default()
}

async fn holder(scene: &Scene<'_>, mapping: &str) -> Result<String> {
    Ok(named(&claim(scene, mapping).await?))
}

async fn held_by(scene: &Scene<'_>, mapping: &str, replica: &str) -> Result<()> {
    scene
        .eventually(&format!("{replica} has {mapping}"), async || {
            Ok((holder(scene, mapping).await? == replica).then_some(()))
        })
        .await
}

async fn lives(scene: &Scene<'_>, replica: &str) -> Result<()> {
    let name = format!("guesthouse-replica-{replica}");
    scene
        .eventually(&format!("{replica} has its Lease"), async || {
            scene.api.find(LEASES, &scene.home, &name).await
        })
        .await?;
    Ok(())
}

/// Waits until each of these replicas has some of the mappings, and together they have all.
async fn spread(
    scene: &Scene<'_>,
    mappings: &[String],
    replicas: &[&str],
) -> Result<BTreeMap<String, (String, u64)>> {
    let what = format!("{replicas:?} share {} mappings", mappings.len());
    scene
        .eventually(&what, async || {
            let mut shares = BTreeMap::new();
            for lease in scene.api.list(LEASES, &scene.home).await? {
                let mapping = &lease["metadata"]["annotations"]["guesthouse.dev/mapping"];
                if let Some(mapping) = mapping.as_str() {
                    shares.insert(mapping.to_owned(), (named(&lease), term(&lease)));
                }
            }
            let has = |replica: &str| shares.values().any(|(holder, _)| holder == replica);
            let ours = |(holder, _): &(String, u64)| replicas.contains(&holder.as_str());
            let all = mappings
                .iter()
                .all(|mapping| shares.get(mapping).is_some_and(ours));
            Ok((all && replicas.iter().all(|r| has(r))).then_some(shares))
        })
        .await
}

// ---- the work ----

async fn create(scene: &Scene<'_>, count: usize) -> Result<()> {
    create_from(scene, 0, count).await
}

async fn create_from(scene: &Scene<'_>, first: usize, end: usize) -> Result<()> {
    for number in first..end {
        scene.job(&format!("job-{number:03}"), json!({})).await?;
    }
    Ok(())
}

async fn made(scene: &Scene<'_>, count: u64) -> Result<()> {
    scene
        .until(&format!("{count} reports are made"), || {
            Ok(scene.exporter.stats().made >= count)
        })
        .await
}

async fn done(scene: &Scene<'_>, count: usize) -> Result<()> {
    for job in scene.drained(count).await? {
        ensure!(job["status"]["phase"] == "Done", "{job}");
    }
    once(scene, count)
}

/// Each report was made, and made once.
fn once(scene: &Scene<'_>, count: usize) -> Result<()> {
    let stats = scene.exporter.stats();
    ensure!(
        (stats.made, stats.duplicates) == (count as u64, 0),
        "{stats:?}"
    );
    Ok(())
}

fn replicas_of(passes: &[Value]) -> Vec<String> {
    let mut replicas: Vec<_> = passes
        .iter()
        .filter_map(|pass| pass["replica"].as_str())
        .map(str::to_owned)
        .collect();
    replicas.sort();
    replicas.dedup();
    replicas
}

/// When a pass began, under which term and on which replica.
type Begin = (String, u64, String);

/// When passes began, by mapping and in order.
fn begins(scene: &Scene<'_>) -> Result<BTreeMap<String, Vec<Begin>>> {
    let mut begins: BTreeMap<String, Vec<Begin>> = BTreeMap::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for line in scene.log()? {
        if line["message"] == "pass begins" {
            let term = line["term"].as_u64().unwrap_or_default();
            let begin = (text(&line["timestamp"]), term, text(&line["replica"]));
            begins
                .entry(text(&line["mapping"]))
                .or_default()
                .push(begin);
        }
    }
    begins.values_mut().for_each(|all| all.sort());
    Ok(begins)
}

/// No pass of an older term begins after one of a newer term, and a term is one replica's.
fn begins_in_order(scene: &Scene<'_>) -> Result<()> {
    let begins = begins(scene)?;
    ensure!(!begins.is_empty(), "no pass was seen");
    for (mapping, all) in begins {
        for pair in all.windows(2) {
            let ((_, before, a), (_, after, b)) = (&pair[0], &pair[1]);
            ensure!(before <= after, "{mapping}: {pair:?}");
            ensure!(before != after || a == b, "{mapping}: {pair:?}");
        }
    }
    Ok(())
}

/// Where nobody was frozen: also, no pass of an object begins while another one of it runs.
fn one_at_a_time(scene: &Scene<'_>) -> Result<()> {
    begins_in_order(scene)?;
    let mut log = scene.log()?;
    log.retain(|line| line["message"] == "pass begins" || line["message"] == "pass");
    log.sort_by_key(|line| line["timestamp"].to_string());
    let mut open: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for line in &log {
        let object = format!("{} {}", line["mapping"], line["object"]);
        let who = (
            line["term"].as_u64().unwrap_or_default(),
            line["replica"].to_string(),
        );
        if line["message"] == "pass" {
            ensure!(
                open.remove(&object) == Some(who),
                "ended without a beginning, or twice: {line}"
            );
            continue;
        }
        // One that was killed leaves its passes open; its term is over.
        let other = open.insert(object, who.clone());
        ensure!(
            other.as_ref().is_none_or(|(term, _)| *term < who.0),
            "{line} while {other:?} ran"
        );
    }
    Ok(())
}
