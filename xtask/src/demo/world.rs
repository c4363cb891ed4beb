//! Where the demo happens: a cluster of its own, or one that is there already; and kubectl on it.

use super::Args;
use super::interrupt::Interrupt;
use super::terminal::Terminal;
use anyhow::{Context, Result, bail};
use guesthouse_local::{Binaries, Cluster, Options, Target};
use report_exporter::Exporter;
use std::cell::RefCell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A cluster, two namespaces on it, and a folder. Dropping the value removes what was made, unless it is to be kept.
pub(super) struct World {
    /// None once it was closed.
    target: Option<Target>,
    folder: PathBuf,
    namespace: String,
    reports: String,
    /// What was made on a cluster that is not ours and has to go again, as kubectl's arguments.
    made: RefCell<Vec<[String; 2]>>,
    keep: bool,
    interrupt: Interrupt,
}

impl World {
    /// Opens the cluster that the arguments ask for.
    pub(super) fn open(
        args: &Args,
        binaries: &Binaries,
        folder: PathBuf,
        interrupt: &Interrupt,
        terminal: &mut Terminal,
    ) -> Result<Self> {
        let external = args.cluster()?;
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        // On a cluster of others nothing of ours must meet anything of theirs.
        let (namespace, reports) = match external {
            Some(_) => {
                let id = std::process::id();
                (
                    format!("guesthouse-demo-{id}"),
                    format!("reports-demo-{id}"),
                )
            }
            None => ("guesthouse-system".to_owned(), "reports".to_owned()),
        };
        let mut world = Self {
            target: None,
            folder: folder.clone(),
            namespace,
            reports,
            made: RefCell::default(),
            keep: args.keep,
            interrupt: interrupt.clone(),
        };
        let target = match &external {
            None => {
                terminal.step("A Kubernetes control plane: etcd, API server, controller manager, as plain processes");
                terminal.command("eval \"$(cargo xtask cluster up)\"");
                let options = Options::new(&folder);
                // One that is kept must not end with this process.
                let cluster = match args.keep {
                    true => Cluster::up(binaries, options)?.0,
                    false => Cluster::start(binaries, options)?,
                };
                terminal.say(&format!(
                    "Kubernetes {} serves on {}",
                    binaries.kubernetes_version()?,
                    cluster.url()
                ));
                Target::Local(Box::new(cluster))
            }
            Some(path) => {
                terminal.step("A Kubernetes cluster that is there already");
                terminal.command(&format!("export KUBECONFIG={}", path.display()));
                Target::open(Some(path), binaries, Options::new(&folder))?
            }
        };
        world.target = Some(target);
        if external.is_some() {
            let version = world.kubectl(&["version"])?;
            terminal.block(&version);
        }
        Ok(world)
    }

    /// Namespace of the host.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Namespace of the jobs.
    pub(super) fn reports(&self) -> &str {
        &self.reports
    }

    /// The demo's own files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.target
            .as_ref()
            .map(Target::kubeconfig)
            .unwrap_or_default()
    }

    /// kubectl's output.
    ///
    /// # Errors
    /// What kubectl says against it.
    pub(super) fn kubectl(&self, args: &[&str]) -> Result<String> {
        Ok(self.kubectl_with(args, "")?.0)
    }

    /// What a user sees of it: kubectl says on stderr that there is nothing to list.
    pub(super) fn kubectl_shown(&self, args: &[&str]) -> Result<String> {
        let (output, said) = self.kubectl_with(args, "")?;
        Ok(if output.is_empty() { said } else { output })
    }

    /// Output and what was said beside it, with that text as input.
    fn kubectl_with(&self, args: &[&str], input: &str) -> Result<(String, String)> {
        self.interrupt.check()?;
        let result = self.run(args, input);
        // Ctrl-C reaches kubectl, too: then this is why it failed.
        self.interrupt.check()?;
        result
    }

    fn run(&self, args: &[&str], input: &str) -> Result<(String, String)> {
        let shown = format!("kubectl {}", args.join(" "));
        let target = self.target.as_ref().context("the cluster is closed")?;
        let mut child = target
            .kubectl()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {shown}"))?;
        if let Some(mut pipe) = child.stdin.take() {
            // If it does not read to the end, it says why itself.
            let _ = pipe.write_all(input.as_bytes());
        }
        let output = child
            .wait_with_output()
            .with_context(|| format!("wait for {shown}"))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        if !output.status.success() {
            bail!("{shown}: {said}");
        }
        let text = String::from_utf8(output.stdout)
            .with_context(|| format!("read the output of {shown}"))?;
        Ok((text, said))
    }

    /// Applies a manifest with CustomResourceDefinitions or namespaces, and remembers what was not there before.
    ///
    /// A definition that a cluster of others has already is left as it is: their objects live by it.
    pub(super) fn apply_new(&self, manifest: &str, names: &[[&str; 2]]) -> Result<String> {
        let is_local = self.target.as_ref().is_some_and(|t| t.local().is_some());
        let mut missing = false;
        for [kind, name] in names {
            if is_local {
                continue;
            }
            let found = self.kubectl(&["get", kind, name, "--ignore-not-found", "-o", "name"])?;
            if found.trim().is_empty() {
                missing = true;
                self.made
                    .borrow_mut()
                    .push([(*kind).to_owned(), (*name).to_owned()]);
            }
        }
        if !is_local && !missing {
            return Ok("it is there already and is left as it is\n".to_owned());
        }
        Ok(self.kubectl_with(&["apply", "-f", "-"], manifest)?.0)
    }

    /// Removes what was made and ends the cluster if it is ours.
    pub(super) fn close(mut self, terminal: &Terminal) -> Result<()> {
        if self.target.as_ref().is_some_and(|t| t.local().is_none()) {
            terminal.say("removing what was made");
        }
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        // The host is gone by now; namespaces go before the kinds of what they hold.
        let made = std::mem::take(&mut *self.made.borrow_mut());
        for [kind, name] in made.iter().rev() {
            self.run(
                &["delete", kind, name, "--ignore-not-found", "--timeout=60s"],
                "",
            )?;
        }
        if let Some(Target::Local(cluster)) = self.target.take() {
            cluster.stop()?;
        }
        std::fs::remove_dir_all(&self.folder)
            .with_context(|| format!("remove {}", self.folder.display()))
    }

    /// Leaves all as it is, and says how to go on.
    pub(super) fn leave(self, host: &Path, exporter: &Exporter, terminal: &Terminal) {
        let name = self
            .folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let listen = exporter.url();
        let listen = listen.trim_start_matches("http://");
        terminal.say("");
        terminal.say("Kept. To look around:");
        terminal.command(&format!(
            "export KUBECONFIG='{}'",
            self.kubeconfig().display()
        ));
        terminal.command(&format!("kubectl -n {} get reportjobs", self.reports));
        terminal.say("To let host and exporter run on:");
        terminal.command(&format!(
            "cargo run -p report-exporter -- --listen {listen}"
        ));
        terminal.command(&format!(
            "{} run --namespace {}",
            host.display(),
            self.namespace
        ));
        terminal.say("To end it:");
        if self.target.as_ref().is_some_and(|t| t.local().is_some()) {
            terminal.command(&format!("cargo xtask cluster down --name {name}"));
        }
        let made = self.made.borrow();
        for [kind, made] in made.iter().rev() {
            terminal.command(&format!("kubectl delete {kind} {made}"));
        }
        terminal.command(&format!("rm -r '{}'", self.folder.display()));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.keep || !self.folder.exists() {
            return;
        }
        if let Err(error) = self.remove() {
            eprintln!("cleaning up: {error:#}");
        }
    }
}
