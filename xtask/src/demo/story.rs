//! The story itself, step by step. Each step says what happens and which command a user would type.

mod watch;

use super::Built;
use super::claims::{Course, Facts, seconds};
use super::host::{Host, IN_FLIGHT};
use super::jobs::{self, PHASE_LABEL, POISONED, Values};
use super::plugin;
use super::terminal::Terminal;
use super::world::World;
use anyhow::{Context, Result, bail};
use report_exporter::{Exporter, Fail, Mode};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use watch::{DEADLINE, POLL};

/// Rows of a table that are shown.
const ROWS: usize = 5;
/// How long draining the queue should about take, so that one can watch it.
const DRAIN: Duration = Duration::from_secs(8);
/// Answers that are lost on their way: the report is made, the connection cut.
const LOST: u64 = 3;

pub(super) struct Story<'a> {
    jobs: usize,
    built: &'a Built,
    world: &'a World,
    exporter: &'a Exporter,
    terminal: &'a mut Terminal,
    /// The file that the mapping names.
    plugin: PathBuf,
    host: Option<Host>,
    course: Course,
}

impl<'a> Story<'a> {
    pub(super) fn new(
        jobs: usize,
        built: &'a Built,
        world: &'a World,
        exporter: &'a Exporter,
        terminal: &'a mut Terminal,
    ) -> Result<Self> {
        let plugin = world.folder().join("report_job.wasm");
        std::fs::copy(&built.plugin, &plugin)
            .with_context(|| format!("copy {}", built.plugin.display()))?;
        Ok(Self {
            jobs,
            built,
            world,
            exporter,
            terminal,
            plugin,
            host: None,
            course: Course::default(),
        })
    }

    /// Tells it; says whether all claims are true.
    pub(super) fn tell(&mut self) -> Result<bool> {
        self.kinds()?;
        self.exporter()?;
        self.mapping()?;
        self.jobs()?;
        self.start()?;
        self.swap()?;
        self.kill()?;
        self.restart()?;
        self.look()?;
        self.check()
    }

    fn kinds(&mut self) -> Result<()> {
        self.terminal.step(
            "The kinds: the host's own journal, and what the plugin (built from source) brings",
        );
        let plugin = self.plugin.to_string_lossy().into_owned();
        let kinds = [
            ("--host", "journals.guesthouse.dev"),
            (plugin.as_str(), "reportjobs.batch.acme.io"),
        ];
        for (of, name) in kinds {
            let shown = if of == "--host" {
                of
            } else {
                "target/wasm32-wasip1/guest/report_job.wasm"
            };
            self.terminal
                .command(&format!("guesthouse crd {shown} | kubectl apply -f -"));
            let crd = self.guesthouse(&["crd", of])?;
            let said = self.world.apply_new(&crd, &[["crd", name]])?;
            self.terminal.block(&said);
            let resource = format!("crd/{name}");
            self.world.kubectl(&[
                "wait",
                "--for=condition=Established",
                "--timeout=60s",
                &resource,
            ])?;
        }
        Ok(())
    }

    /// What a command of the host's binary prints.
    fn guesthouse(&self, args: &[&str]) -> Result<String> {
        let output = std::process::Command::new(&self.built.host)
            .args(args)
            .output()
            .context("start guesthouse")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            bail!("guesthouse {}: {}", args.join(" "), why.trim());
        }
        String::from_utf8(output.stdout).context("read what guesthouse prints")
    }

    fn exporter(&mut self) -> Result<()> {
        self.terminal
            .step("The exporter: the outside service that makes the reports, by Idempotency-Key");
        self.terminal.command("cargo run -p report-exporter");
        let poisoned = format!("{}.{POISONED}", self.world.reports());
        self.exporter
            .fail(Fail::always(Mode::Http500).only(poisoned));
        self.exporter.fail(Fail::times(Mode::Lost, LOST));
        self.exporter.delay(self.delay());
        self.course.lost = LOST;
        self.terminal.say(&format!(
            "{} takes {} ms a report; it will lose {LOST} answers on their way and fail {POISONED} for good",
            self.exporter.url(),
            self.delay()
        ));
        Ok(())
    }

    /// Milliseconds of each request, so that draining takes about [`DRAIN`].
    fn delay(&self) -> u64 {
        let each = DRAIN.as_millis() as u64 * IN_FLIGHT as u64 / self.jobs as u64;
        each.clamp(20, 2000)
    }

    fn mapping(&mut self) -> Result<()> {
        self.terminal
            .step("The mapping: deploying a controller is one key of a ConfigMap");
        let url = self.exporter.url();
        let manifests = jobs::manifests(&Values {
            host: self.world.namespace(),
            reports: self.world.reports(),
            plugin: &self.plugin.to_string_lossy(),
            exporter: url.trim_start_matches("http://"),
        })?;
        self.terminal
            .command("kubectl apply -f deploy/examples/report-jobs.yaml");
        let namespaces = [
            ["namespace", self.world.namespace()],
            ["namespace", self.world.reports()],
        ];
        self.world
            .apply_new(&manifests.join("---\n"), &namespaces)?;
        self.terminal
            .block(manifests.last().context("the example is empty")?);
        Ok(())
    }

    fn jobs(&mut self) -> Result<()> {
        self.terminal.step(&format!(
            "{} jobs, and one whose export always fails; the host is not running",
            self.jobs
        ));
        let file = self.world.folder().join("jobs.json");
        let list = jobs::list(self.jobs, self.world.reports());
        std::fs::write(&file, list.to_string())
            .with_context(|| format!("write {}", file.display()))?;
        self.terminal.command("kubectl create -f jobs.json");
        self.world
            .kubectl(&["create", "-f", &file.to_string_lossy()])?;
        self.show_pending()?;
        let pending = self.pending()?;
        if pending != self.jobs + 1 {
            bail!("{pending} jobs are pending, {} were created", self.jobs + 1);
        }
        Ok(())
    }

    fn start(&mut self) -> Result<()> {
        self.terminal.step("The host starts; the queue drains");
        self.run_host()?;
        let digests = self.wait_for("the plugin to serve", Self::digests, |digests| {
            !digests.is_empty()
        })?;
        self.course.swap.0 = digests[0].clone();
        self.terminal
            .say(&format!("plugin {} serves", self.course.swap.0));
        self.drain_to(self.jobs * 85 / 100)?;
        self.terminal.settle();
        Ok(())
    }

    fn run_host(&mut self) -> Result<()> {
        let arguments = Host::arguments(self.world);
        // The cache is the demo's own business.
        self.terminal
            .command(&format!("guesthouse {}", arguments[..5].join(" ")));
        self.host = Some(Host::start(&self.built.host, self.world)?);
        Ok(())
    }

    fn host(&mut self) -> Result<&mut Host> {
        self.host.as_mut().context("the host does not run")
    }

    fn swap(&mut self) -> Result<()> {
        self.terminal
            .step("Hot swap: another build of the plugin takes the file's place while jobs run");
        let wasm = std::fs::read(&self.plugin)
            .with_context(|| format!("read {}", self.plugin.display()))?;
        let next = self.plugin.with_extension("next");
        std::fs::write(&next, plugin::with_note(&wasm, "second build"))
            .with_context(|| format!("write {}", next.display()))?;
        self.terminal
            .command("mv report_job.next.wasm report_job.wasm          # the same code with a note in it: another digest");
        std::fs::rename(&next, &self.plugin).context("put the new plugin in its place")?;
        let started = Instant::now();
        let first = self.course.swap.0.clone();
        loop {
            let left = self.pending()?;
            self.show_remaining(left);
            // On a slow machine the jobs must not run out before the new version is compiled.
            let slow = left * 2 < self.jobs;
            self.exporter.delay(if slow { 2_500 } else { self.delay() });
            if let Some(digest) = self.digests()?.into_iter().find(|digest| *digest != first) {
                (self.course.swap.1, self.course.pending_at_swap) = (digest, left);
                break;
            }
            self.host()?.check()?;
            if started.elapsed() > DEADLINE {
                let tail = self.host()?.log_tail();
                bail!("the new plugin does not serve; the host says:\n{tail}");
            }
            self.world.interrupt().pause(POLL)?;
        }
        self.exporter.delay(self.delay());
        self.terminal.settle();
        let pid = self.host()?.pid();
        self.terminal.say(&format!(
            "plugin {} serves, in the same host (process {pid})",
            self.course.swap.1
        ));
        self.table(
            &["get", "events", "--field-selector", "reason=MappingActive"],
            false,
            ROWS,
        )
    }

    fn kill(&mut self) -> Result<()> {
        self.terminal
            .step("The host is killed in the middle of its work");
        self.drain_to(self.jobs * 40 / 100)?;
        // Not between two requests: one whose answer never arrives is what a kill is about.
        let exporter = self.exporter;
        let in_flight = |_: &Self| Ok(exporter.stats().in_flight);
        let in_flight = self.wait_for("a request in flight", in_flight, |count| *count > 0)?;
        let host = self.host.take().context("the host does not run")?;
        self.terminal.settle();
        self.terminal.command(&format!("kill -9 {}", host.pid()));
        host.kill()?;
        self.course.pending_at_kill = self.pending()?;
        self.terminal.say(&format!(
            "{in_flight} requests were in flight, {} jobs are pending",
            self.course.pending_at_kill
        ));
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        self.terminal
            .step("The host is back, and goes on from what the cluster knows");
        self.run_host()?;
        self.drain_to(1)?;
        self.terminal.settle();
        self.terminal.say(&format!(
            "what is left is {POISONED}: tried again after 1, 2, 4 and 8 s (and its turn among {IN_FLIGHT} requests), then given up"
        ));
        self.drain_to(0)?;
        self.terminal.settle();
        // The label goes first, the status a moment later.
        let phases = |story: &Self| {
            let args = [
                "-n",
                story.world.reports(),
                "get",
                "reportjobs",
                "-o",
                "jsonpath={.items[*].status.phase}",
            ];
            story.world.kubectl(&args)
        };
        self.wait_for("every status", phases, |phases| !phases.contains("Pending"))?;
        self.terminal
            .say("the host ends when it is told to, after the passes that run");
        let host = self.host.take().context("the host does not run")?;
        self.terminal.command(&format!("kill {}", host.pid()));
        host.stop()
    }

    fn look(&mut self) -> Result<()> {
        self.terminal.step("What is there now, for kubectl");
        self.show_pending()?;
        self.table(
            &["get", "reportjobs", "--field-selector", "status.phase=Done"],
            true,
            ROWS,
        )?;
        let failed = format!("{PHASE_LABEL}=failed");
        self.table(
            &["get", "reportjobs", "-l", &failed, "-o", "wide"],
            true,
            ROWS,
        )?;
        self.terminal
            .say("the journals: what was sent for each object and what came of it");
        self.table(&["get", "journals"], false, ROWS)?;
        self.terminal.say("the exporter's own count");
        self.terminal
            .command(&format!("curl {}/admin/stats", self.exporter.url()));
        let stats = self.exporter.stats();
        self.terminal.block(&format!(
            "made {}, repeats {}, duplicates {}, failed as told {}",
            stats.made, stats.repeats, stats.duplicates, stats.failed
        ));
        Ok(())
    }

    fn check(&mut self) -> Result<bool> {
        self.terminal.step("Checked");
        let listed = self.world.kubectl(&[
            "-n",
            self.world.reports(),
            "get",
            "reportjobs",
            "-o",
            "json",
        ])?;
        let facts = Facts::new(
            (self.jobs, self.world.reports()),
            self.course.clone(),
            &listed,
            self.pending()?,
            (self.exporter.stats(), &self.exporter.reports()),
        )?;
        let times: Vec<String> = facts.attempts().iter().map(|at| seconds(*at)).collect();
        let mut holds = true;
        for claim in facts.claims() {
            self.terminal.verdict(claim.holds, &claim.text);
            holds &= claim.holds;
        }
        self.terminal.say(&format!(
            "      {POISONED} was asked for at {} s",
            times.join(", ")
        ));
        Ok(holds)
    }
}
