//! A test's own corner of the control plane.

use crate::api::{Api, CONFIG_MAPS, ECHOES, Event, JOURNALS, NAMESPACES, REPORT_JOBS, Resource};
use crate::artifacts::plugin;
use crate::host::{Arguments, Host, Process, signal};
use crate::plane::{Plane, echo_kind};
use crate::proxy::{Proxy, Wire};
use crate::report::Passing;
use crate::run::{SLOW, eventually, within};
use anyhow::{Context, Result, ensure};
use guesthouse_local::{AuditEvent, Component};
use provisioner::Provisioner;
use report_exporter::Exporter;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A test's own namespaces, exporter and host.
pub struct Scene<'a> {
    plane: &'a Plane,
    /// The API server, as the administrator.
    pub api: Api,
    /// Where reports go.
    pub exporter: Exporter,
    /// Where resources are provisioned, for a test that needs none of its own.
    pub provider: Provisioner,
    /// Namespace of the host: mappings, journals, plugins in ConfigMaps.
    pub home: String,
    /// Namespace of the objects.
    pub namespace: String,
    /// A folder of the test.
    pub dir: PathBuf,
    kubeconfig: PathBuf,
    user: String,
    hosts: Mutex<Vec<Weak<Process>>>,
}

impl<'a> Scene<'a> {
    pub(crate) async fn new(plane: &'a Plane, name: &str) -> Result<Self> {
        let api = Api::new(&plane.kubeconfig()).await?;
        // An identity of its own, by which the host is found in the audit log.
        let user = format!("host-{name}");
        let scene = Self {
            plane,
            api,
            exporter: Exporter::start("127.0.0.1:0").await?,
            provider: Provisioner::start("127.0.0.1:0").await?,
            home: format!("{name}-host"),
            namespace: name.to_owned(),
            dir: plane.dir.join(name),
            kubeconfig: plane
                .cluster()
                .client_kubeconfig(&user, &["system:masters"])?,
            user,
            hosts: Mutex::default(),
        };
        std::fs::create_dir_all(&scene.dir)?;
        for namespace in [&scene.home, &scene.namespace] {
            let object = json!({"metadata": {"name": namespace}});
            scene.api.create(NAMESPACES, "", object).await?;
        }
        Ok(scene)
    }

    // ---- the host ----

    /// Starts a host that logs every pass.
    pub fn host(&self) -> Result<Host> {
        self.host_with(&Arguments::default())
    }

    /// Starts a host.
    pub fn host_with(&self, how: &Arguments) -> Result<Host> {
        let cache = self.plane.dir.join("cache");
        let host = Host::start(&self.kubeconfig, &self.home, &cache, &self.log_path(), how)?;
        self.hosts().push(Arc::downgrade(&host.0));
        Ok(host)
    }

    /// Ends a host by SIGTERM and checks that it ended well.
    pub async fn stop(&self, host: Host) -> Result<()> {
        host.terminate()?;
        let ended = self
            .eventually("the host ends after SIGTERM", async || host.ended())
            .await?;
        ensure!(ended.success(), "the host ended with {ended}");
        Ok(())
    }

    /// A kubeconfig of somebody who may do everything, to be told from this scene's host in what was asked of the server.
    pub fn somebody(&self, name: &str) -> Result<PathBuf> {
        let groups = ["system:masters"];
        self.plane.cluster().client_kubeconfig(name, &groups)
    }

    /// A kubeconfig of somebody who may do nothing until RBAC says otherwise.
    pub fn nobody(&self, name: &str) -> Result<PathBuf> {
        self.plane.cluster().client_kubeconfig(name, &[])
    }

    /// The administrator's kubeconfig.
    pub fn admin(&self) -> PathBuf {
        self.plane.kubeconfig()
    }

    fn hosts(&self) -> MutexGuard<'_, Vec<Weak<Process>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host that ends by itself is a failure, whatever is waited for.
    fn check_hosts(&self) -> Result<()> {
        let hosts: Vec<_> = self.hosts().iter().filter_map(Weak::upgrade).collect();
        hosts.iter().try_for_each(|host| host.check())
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.dir.join("host.jsonl")
    }

    /// Everything the hosts of this scene have logged.
    pub fn log(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let parsed = complete.lines().map(|line| {
            serde_json::from_str(line).with_context(|| format!("a line of the host's log: {line}"))
        });
        parsed.collect()
    }

    /// When passes began and ended, as all hosts of this scene logged it.
    pub fn trace(&self) -> Result<Vec<Passing>> {
        Ok(self.log()?.iter().filter_map(Passing::read).collect())
    }

    /// The lines about ended passes, from a position of the log on: all mappings and objects.
    pub fn passes_since(&self, position: usize) -> Result<Vec<Value>> {
        let mut log = self.log()?.split_off(position);
        log.retain(|line| line["message"] == "pass");
        Ok(log)
    }

    /// The lines about ended passes of one object.
    pub fn passes_of(&self, name: &str) -> Result<Vec<Value>> {
        let object = format!("{}/{name}", self.namespace);
        let mut passes = self.passes_since(0)?;
        passes.retain(|pass| pass["object"] == object);
        Ok(passes)
    }

    /// A proxy between a host of this scene and the API server, and how the host is run to go through it.
    pub async fn proxy(&self, wire: Wire) -> Result<(Proxy, Arguments)> {
        self.proxy_as(&self.kubeconfig, wire).await
    }

    /// The same as somebody else.
    pub async fn proxy_as(&self, kubeconfig: &Path, wire: Wire) -> Result<(Proxy, Arguments)> {
        let proxy = Proxy::start(kubeconfig, &self.dir, wire).await?;
        let how = Arguments {
            kubeconfig: Some(proxy.kubeconfig()),
            ..Arguments::default()
        };
        Ok((proxy, how))
    }

    // ---- configuration ----

    /// A mapping of this scene's namespace to a plugin's file, without config and grants.
    pub fn mapping(&self, kind: Resource, plugin: &Path) -> Value {
        json!({
            "for": {"apiVersion": kind.api_version, "kind": kind.kind, "namespaces": [self.namespace]},
            "plugin": {"file": plugin},
            "serviceAccount": "plugins",
        })
    }

    /// A mapping of report jobs to their plugin and this scene's exporter.
    pub fn report_jobs(&self) -> Result<Value> {
        let mut mapping = self.mapping(REPORT_JOBS, &plugin("report_job")?);
        mapping["config"] = json!({"exporter": self.exporter.url()});
        mapping["grants"] =
            json!({"http": [{"host": "127.0.0.1:*", "methods": ["PUT"], "path": "/reports/"}]});
        mapping["queue"] = json!({"priority": ".spec.priority", "notBefore": ".spec.notBefore"});
        Ok(mapping)
    }

    /// A mapping of echoes to their plugin.
    pub fn echoes(&self) -> Result<Value> {
        Ok(self.mapping(ECHOES, &plugin("echo")?))
    }

    /// Puts a mapping in force, or whatever else the text is: in a ConfigMap of its own, under its own name.
    pub async fn map(&self, name: &str, text: &str) -> Result<()> {
        let data = json!({format!("{name}.yaml"): text});
        if self
            .api
            .find(CONFIG_MAPS, &self.home, name)
            .await?
            .is_some()
        {
            let patch = json!({"data": data});
            self.api.patch(CONFIG_MAPS, &self.home, name, patch).await?;
        } else {
            let labels = json!({"guesthouse.dev/mappings": "true"});
            let object = json!({"metadata": {"name": name, "labels": labels}, "data": data});
            self.api.create(CONFIG_MAPS, &self.home, object).await?;
        }
        Ok(())
    }

    /// Maps report jobs to their plugin.
    pub async fn map_report_jobs(&self) -> Result<()> {
        self.map("report-jobs", &self.report_jobs()?.to_string())
            .await
    }

    // ---- objects ----

    /// Creates a report job as producers do: labelled as pending. Members of `spec` are added to the usual ones.
    pub async fn job(&self, name: &str, spec: Value) -> Result<Value> {
        let mut object = json!({
            "metadata": {"name": name, "labels": {"workqueue.acme.io/phase": "pending"}},
            "spec": {"report": name},
        });
        for (member, value) in spec.as_object().into_iter().flatten() {
            object["spec"][member] = value.clone();
        }
        self.api.create(REPORT_JOBS, &self.namespace, object).await
    }

    /// Creates an object in this scene's namespace.
    pub async fn create(&self, resource: Resource, object: Value) -> Result<Value> {
        self.api.create(resource, &self.namespace, object).await
    }

    /// Edits an object in this scene's namespace (RFC 7386).
    pub async fn patch(&self, resource: Resource, name: &str, patch: Value) -> Result<Value> {
        self.api.patch(resource, &self.namespace, name, patch).await
    }

    /// What a controller of that kind would write into the status of an object in this scene's namespace (RFC 7386).
    pub async fn patch_status(
        &self,
        resource: Resource,
        name: &str,
        patch: Value,
    ) -> Result<Value> {
        let name = format!("{name}/status");
        self.api
            .patch(resource, &self.namespace, &name, patch)
            .await
    }

    /// Deletes an object in this scene's namespace.
    pub async fn delete(&self, resource: Resource, name: &str) -> Result<()> {
        self.api.delete(resource, &self.namespace, name).await
    }

    /// The report job of that name.
    pub async fn read_job(&self, name: &str) -> Result<Value> {
        self.api.get(REPORT_JOBS, &self.namespace, name).await
    }

    /// Waits for a report job to look as wanted.
    pub async fn job_is(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        self.object_is(REPORT_JOBS, name, what, wanted).await
    }

    /// Waits for a report job to be `Done`.
    pub async fn done(&self, name: &str) -> Result<Value> {
        self.job_is(name, "Done", |job| job["status"]["phase"] == "Done")
            .await
    }

    /// Waits for an object to look as wanted.
    pub async fn object_is(
        &self,
        resource: Resource,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let what = format!("{} {name} is {what}", resource.kind);
        self.eventually(&what, async || {
            let object = self.api.find(resource, &self.namespace, name).await?;
            Ok(object.filter(&wanted))
        })
        .await
    }

    /// Waits until so many report jobs are there and all are `Done` or `Failed`.
    pub async fn drained(&self, count: usize) -> Result<Vec<Value>> {
        let terminal =
            |job: &Value| job["status"]["phase"] == "Done" || job["status"]["phase"] == "Failed";
        self.eventually(&format!("{count} jobs are drained"), async || {
            let jobs = self.api.list(REPORT_JOBS, &self.namespace).await?;
            Ok((jobs.len() == count && jobs.iter().all(terminal)).then_some(jobs))
        })
        .await
    }

    /// The journals of this scene's host.
    pub async fn journals(&self) -> Result<Vec<Value>> {
        self.api.list(JOURNALS, &self.home).await
    }

    /// The journal of the object of that name, if there is one.
    pub async fn journal(&self, name: &str) -> Result<Option<Value>> {
        let mut journals = self.journals().await?;
        journals.retain(|journal| journal["record"]["object"]["name"] == name);
        ensure!(journals.len() <= 1, "{name} has several journals");
        Ok(journals.pop())
    }

    /// Waits for an Event on an object in a namespace.
    pub async fn told(
        &self,
        namespace: &str,
        about: &str,
        reason: &str,
        note: &str,
    ) -> Result<Event> {
        let what = format!("an Event {reason} on {about} says `{note}`");
        self.eventually(&what, async || {
            let events = self.api.events(namespace, about).await?;
            let fits = |event: &Event| event.reason == reason && event.note.contains(note);
            Ok(events.into_iter().find(fits))
        })
        .await
    }

    /// Defines a kind of the test's own that the echo plugin can serve.
    pub async fn define(&self, resource: Resource) -> Result<()> {
        let kinds = crate::api::KINDS;
        self.api.create(kinds, "", echo_kind(resource)?).await?;
        Ok(())
    }

    /// Defines the kind that is committed beside a plugin; one test of a process may.
    pub async fn define_of(&self, plugin: &str) -> Result<()> {
        self.plane.define_of(&self.api, plugin).await
    }

    /// kubectl, as the administrator.
    pub fn kubectl(&self) -> Command {
        self.plane.cluster().kubectl()
    }

    // ---- what was asked of the servers ----

    /// A position in the audit log.
    pub fn mark(&self) -> Result<usize> {
        Ok(self.audit()?.len())
    }

    /// All that this scene's host asked for since a position and was answered; watches once they ended.
    pub fn requests_since(&self, mark: usize) -> Result<Vec<AuditEvent>> {
        let mut events = self.audit()?.split_off(mark);
        events.retain(|event| event.user.username == self.user);
        Ok(events)
    }

    /// All writes that this scene's host asked for since a position, but for those to Leases and Mapping objects: they say who
    /// is at work, and how it goes.
    pub fn writes_since(&self, mark: usize) -> Result<Vec<AuditEvent>> {
        self.writes_by(&self.user, mark)
    }

    /// The same of somebody else.
    pub fn writes_by(&self, user: &str, mark: usize) -> Result<Vec<AuditEvent>> {
        let mut events = self.audit()?.split_off(mark);
        let of_itself =
            |event: &AuditEvent| ["leases", "mappings"].iter().any(|it| event.concerns(it));
        events.retain(|event| event.is_write() && !of_itself(event));
        events.retain(|event| event.user.username == user);
        Ok(events)
    }

    /// Those to what has that name; an Event has a name of its own.
    pub fn writes_to(&self, name: &str, mark: usize) -> Result<Vec<AuditEvent>> {
        let mut writes = self.writes_since(mark)?;
        writes.retain(|write| write.object_ref.as_ref().is_some_and(|o| o.name == name));
        Ok(writes)
    }

    fn audit(&self) -> Result<Vec<AuditEvent>> {
        tokio::task::block_in_place(|| self.plane.cluster().audit_events())
    }

    /// Stops the API server, or lets it go on; its clients see a server that does not answer.
    pub fn freeze_api_server(&self, freeze: bool) -> Result<()> {
        let pids = self.plane.cluster().pids();
        let found = pids.iter().find(|(c, _)| *c == Component::KubeApiserver);
        let (_, pid) = found.context("the API server runs")?;
        signal(*pid, if freeze { Signal::STOP } else { Signal::CONT })
    }

    /// Ends the API server, and starts it again: ready when this returns.
    pub fn restart_api_server(&self) -> Result<()> {
        self.restart(Component::KubeApiserver)
    }

    /// Ends a component of the control plane, and starts it again: ready when this returns.
    pub fn restart(&self, component: Component) -> Result<()> {
        tokio::task::block_in_place(|| self.plane.restart(component))
    }

    /// Kills a component of the control plane.
    pub fn kill_component(&self, component: Component) -> Result<()> {
        let pids = self.plane.cluster().pids();
        let found = pids.iter().find(|(c, _)| *c == component);
        let (_, pid) = found.with_context(|| format!("{} runs", component.name()))?;
        signal(*pid, Signal::KILL)
    }

    /// When a report was asked for, in milliseconds since 1970.
    pub fn attempts(&self, name: &str) -> Vec<u64> {
        let id = self.report(name);
        self.exporter
            .stats()
            .attempts
            .remove(&id)
            .unwrap_or_default()
    }

    /// The exporter's id for the report of a job.
    pub fn report(&self, name: &str) -> String {
        format!("{}.{name}", self.namespace)
    }

    // ---- waiting and telling ----

    /// Waits until `probe` finds something; an error ends the wait.
    pub async fn eventually<T>(
        &self,
        what: &str,
        mut probe: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        eventually(what, async || {
            self.check_hosts()?;
            probe().await
        })
        .await
    }

    /// The same for what has to sit out the host's own limits.
    pub async fn eventually_slowly<T>(
        &self,
        what: &str,
        mut probe: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        within(SLOW, what, async || {
            self.check_hosts()?;
            probe().await
        })
        .await
    }

    /// Waits until something holds.
    pub async fn until(&self, what: &str, mut holds: impl FnMut() -> Result<bool>) -> Result<()> {
        self.eventually(what, async || Ok(holds()?.then_some(())))
            .await
    }
}
