//! The control plane as its users have it: real processes, a real API server.
//!
//! Every test starts a cluster of its own (some seconds each), so there are few, and each shows several things.

use anyhow::{Context, Result, ensure};
use guesthouse_local::{Binaries, Cluster, Component, Options};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Far beyond what anything here takes; only a hang reaches it.
const DEADLINE: Duration = Duration::from_secs(120);

fn start(dir: &Path) -> Result<Cluster> {
    Cluster::start(
        &Binaries::locate_or_build()?,
        Options::new(dir).with_audit(),
    )
}

/// Runs a command to its end: its stdout, or an error with its stderr.
fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("run kubectl")?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

fn kubectl(cluster: &Cluster, line: &str) -> Result<String> {
    output(cluster.kubectl().args(line.split_whitespace()))
}

fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn eventually(what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !holds()? {
        ensure!(started.elapsed() < DEADLINE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Applies a manifest given as text.
fn apply(cluster: &Cluster, manifest: &str) -> Result<String> {
    let file = cluster.dir().join("manifest.yaml");
    std::fs::write(&file, manifest)?;
    output(cluster.kubectl().args(["apply", "-f"]).arg(file))
}

#[test]
fn a_cluster_serves_collects_garbage_removes_namespaces_and_counts_requests() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut cluster = start(dir.path())?;
    let version = kubectl(&cluster, "version -o json")?;
    let version: serde_json::Value = serde_json::from_str(&version)?;
    ensure!(
        version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"],
        "{version}"
    );

    // A namespace is emptied and goes: the namespace controller works.
    kubectl(&cluster, "create namespace tenant")?;
    kubectl(
        &cluster,
        "-n tenant create configmap kept --from-literal=a=1",
    )?;
    let events = cluster.audit_events()?;
    let creates: Vec<_> = events
        .iter()
        .filter(|e| e.is_write() && e.concerns("configmaps") && e.user.username == "admin")
        .collect();
    ensure!(
        creates.len() == 1 && creates[0].code() == 201,
        "{creates:#?}"
    );
    kubectl(&cluster, "delete namespace tenant --timeout=100s")?;
    ensure!(
        kubectl(&cluster, "get namespace tenant").is_err(),
        "the namespace is still there"
    );

    // A child goes with its owner: the garbage collector works.
    kubectl(&cluster, "create configmap owner")?;
    let uid = kubectl(&cluster, "get configmap owner -o jsonpath={.metadata.uid}")?;
    apply(
        &cluster,
        &format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: child\n  ownerReferences:\n  \
             - {{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}}}\n"
        ),
    )?;
    kubectl(&cluster, "delete configmap owner")?;
    eventually("the child is collected", || {
        Ok(kubectl(&cluster, "get configmap child").is_err())
    })?;

    // A pod is admitted without its namespace's default account: it only never runs.
    apply(
        &cluster,
        "apiVersion: v1\nkind: Pod\nmetadata: {name: pod}\nspec: {containers: [{name: a, image: none}]}\n",
    )?;

    // Objects outlive an API server that is restarted.
    let before = cluster.pids();
    kubectl(&cluster, "create configmap survivor")?;
    cluster.restart(Component::KubeApiserver)?;
    kubectl(&cluster, "get configmap survivor")?;
    ensure!(cluster.pids() != before, "the API server was not restarted");

    let pids = cluster.pids();
    ensure!(
        pids.len() == 3 && pids.iter().all(|(_, pid)| lives(*pid)),
        "{pids:?}"
    );
    cluster.stop()?;
    ensure!(
        pids.iter().all(|(_, pid)| !lives(*pid)),
        "{pids:?} still live"
    );
    Ok(())
}

#[test]
fn two_clusters_share_nothing_and_rbac_decides_in_each() -> Result<()> {
    let (one, two) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (one, two) = (start(one.path())?, start(two.path())?);
    ensure!(one.url() != two.url(), "both listen at {}", one.url());
    kubectl(&one, "create configmap only-in-one")?;
    ensure!(
        kubectl(&two, "get configmap only-in-one").is_err(),
        "the clusters share a store"
    );
    let strange = output(
        one.kubectl()
            .args(["--server", &two.url(), "get", "namespaces"]),
    );
    ensure!(
        strange.is_err(),
        "the second cluster accepts the first one's administrator"
    );

    let jane = one.client_kubeconfig("jane", &["tenants", "readers"])?;
    let reads = |cluster: &Cluster| output(cluster.kubectl_as(&jane).args(["get", "configmaps"]));
    let refusal = reads(&one)
        .err()
        .context("RBAC let a stranger read")?
        .to_string();
    ensure!(
        refusal.contains("Forbidden") && refusal.contains("jane"),
        "{refusal}"
    );
    // A role of our own: `view` is put together by a controller that does not run here.
    kubectl(
        &one,
        "create role reader --verb=get,list --resource=configmaps",
    )?;
    // Either group is enough, so both arrived in the certificate.
    for group in ["tenants", "readers"] {
        kubectl(
            &one,
            &format!("create rolebinding let --role=reader --group={group}"),
        )?;
        eventually("the binding is seen", || Ok(reads(&one).is_ok()))?;
        kubectl(&one, "delete rolebinding let")?;
        eventually("the binding is gone", || Ok(reads(&one).is_err()))?;
    }
    Ok(())
}

#[test]
fn a_detached_cluster_goes_on_keeps_its_objects_over_down_and_up_and_loses_them_at_reset()
-> Result<()> {
    let dir = tempfile::tempdir()?;
    let binaries = Binaries::locate_or_build()?;
    let options = || Options {
        keep_data: true,
        ..Options::new(dir.path())
    };
    // Ends the processes also when an assertion fails.
    let _end = End(dir.path().to_owned());

    let (cluster, started) = Cluster::up(&binaries, options())?;
    ensure!(started, "found a cluster in an empty folder");
    kubectl(&cluster, "create configmap kept")?;
    let pids = cluster.pids();
    drop(cluster);
    let (cluster, started) = Cluster::up(&binaries, options())?;
    ensure!(
        !started && cluster.pids() == pids,
        "a second `up` started another cluster"
    );
    ensure!(
        Cluster::status(dir.path())?.is_ready(),
        "the cluster is not ready"
    );

    ensure!(Cluster::down(dir.path())? == 3, "not three processes");
    ensure!(
        pids.iter().all(|(_, pid)| !lives(*pid)),
        "{pids:?} still live"
    );
    ensure!(Cluster::down(dir.path())? == 0, "ended something twice");
    ensure!(
        Cluster::attach(dir.path()).is_err(),
        "attached to a cluster that is down"
    );

    let (again, _) = Cluster::up(&binaries, options())?;
    kubectl(&again, "get configmap kept")?;
    let url = again.url();
    let reset = Cluster::reset(&binaries, options())?;
    ensure!(reset.url() == url, "the ports changed");
    ensure!(
        kubectl(&again, "get configmap kept").is_err(),
        "an object outlived the reset"
    );
    kubectl(&again, "get namespace default").context("a kubeconfig from before the reset")?;
    Ok(())
}

struct End(PathBuf);

impl Drop for End {
    fn drop(&mut self) {
        if let Err(e) = Cluster::down(&self.0) {
            eprintln!("{e:#}");
        }
    }
}

/// In the environment of [`a_killed_owner_leaves_nothing_running`]'s own second run: be the owner that is killed.
const OWNER: &str = "GUESTHOUSE_LOCAL_TEST_OWNER";

#[test]
fn a_killed_owner_leaves_nothing_running_and_its_folder_is_free_again() -> Result<()> {
    if let Some(dir) = std::env::var_os(OWNER) {
        let cluster = start(Path::new(&dir))?;
        println!("\nready {:?}", cluster.url());
        // Until it is killed, or the test that started it is gone.
        std::io::stdin().read_line(&mut String::new())?;
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let mut owner = Command::new(std::env::current_exe()?)
        .args([
            "--exact",
            "a_killed_owner_leaves_nothing_running_and_its_folder_is_free_again",
            "--nocapture",
        ])
        .env(OWNER, dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(owner.stdout.take().context("stdout")?).lines();
    let ready = lines
        .map_while(Result::ok)
        .any(|line| line.starts_with("ready"));
    ensure!(ready, "the owner's cluster did not start");
    let pids = Cluster::attach(dir.path())?.pids();
    ensure!(
        pids.len() == 3 && pids.iter().all(|(_, pid)| lives(*pid)),
        "{pids:?}"
    );
    let refused = start(dir.path())
        .err()
        .context("two owners of one folder")?
        .to_string();
    ensure!(
        refused.contains(&format!("in use by process {}", owner.id())),
        "{refused}"
    );

    owner.kill()?;
    owner.wait()?;
    eventually("the watchdog ends the components", || {
        Ok(pids.iter().all(|(_, pid)| !lives(*pid)))
    })?;
    let again = start(dir.path())?;
    kubectl(&again, "get namespaces")?;
    Ok(())
}

#[test]
fn what_a_former_owner_left_running_is_ended_by_the_next_start_and_a_dying_component_is_shown()
-> Result<()> {
    let dir = tempfile::tempdir()?;
    let binaries = Binaries::locate_or_build()?;
    let (left, _) = Cluster::up(&binaries, Options::new(dir.path()))?;
    let pids = left.pids();
    let mut bad = Options::new(dir.path());
    bad.apiserver_args = vec!["--no-such-flag".to_owned()];
    let error = Cluster::start(&binaries, bad)
        .err()
        .context("started with a wrong flag")?
        .to_string();
    ensure!(
        error.starts_with("kube-apiserver ended while starting"),
        "{error}"
    );
    ensure!(error.contains("unknown flag: --no-such-flag"), "{error}");
    ensure!(
        pids.iter().all(|(_, pid)| !lives(*pid)),
        "{pids:?} still live"
    );
    let status = Cluster::status(dir.path())?;
    ensure!(
        status.components.iter().all(|c| c.pid.is_none()),
        "the failed start left {status:?}"
    );
    Ok(())
}
