//! The measurements of a controller: drain, latency, idle.

use crate::Measured;
use crate::api::Api;
use crate::jobs::{self, SECTIONS};
use crate::process::{Controller, Strangers, cpu};
use crate::track::Track;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

#[derive(clap::Args)]
pub(crate) struct Drain {
    /// How many objects.
    #[arg(short)]
    n: usize,
    /// Objects of about 3 KB instead of half a kilobyte.
    #[arg(long)]
    big: bool,
    #[command(flatten)]
    measured: Measured,
}

#[derive(clap::Args)]
pub(crate) struct Latency {
    /// Objects created in a second.
    #[arg(long, default_value_t = 20)]
    rate: u32,
    /// For how long.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    #[command(flatten)]
    measured: Measured,
}

#[derive(clap::Args)]
pub(crate) struct Idle {
    #[command(flatten)]
    measured: Measured,
}

/// One line of output. CPU times in seconds or milliseconds an object, memory in MB.
#[derive(Serialize, Default)]
struct Line {
    test: &'static str,
    name: String,
    objects: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objects_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_done_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<f64>,
    /// To phase and label, whichever came last.
    #[serde(skip_serializing_if = "Option::is_none")]
    both_p50_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    both_p99_ms: Option<f64>,
    cpu_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms_per_object: Option<f64>,
    /// Of children that ended within the measurement: 0, or the controller compiled something.
    child_cpu_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    writes_per_object: Option<f64>,
    /// By the API server's count, within the measurement.
    writes: BTreeMap<String, u64>,
    rss_mb: f64,
    anon_mb: f64,
    peak_rss_mb: f64,
    /// Cores that others used meanwhile.
    strangers: f64,
}

/// What is read before and after.
struct Before {
    writes: BTreeMap<String, u64>,
    server: Option<f64>,
    strangers: Strangers,
    cpu: crate::process::Cpu,
}

impl Before {
    async fn now(api: &Api, measured: &Measured, controller: &Controller) -> Result<Self> {
        let mut known = measured.beside_pid.clone();
        known.extend(measured.server_pid);
        known.push(controller.pid());
        Ok(Self {
            writes: api.writes().await?,
            server: measured.server_pid.map(cpu).transpose()?.map(|cpu| cpu.own),
            strangers: Strangers::watch(known)?,
            cpu: controller.cpu()?,
        })
    }

    /// What happened since; the CPU time is the first thing read.
    async fn until_now(
        &self,
        api: &Api,
        measured: &Measured,
        controller: &Controller,
    ) -> Result<Line> {
        let now = controller.cpu()?;
        let strangers = self.strangers.cores()?;
        let server = measured.server_pid.map(cpu).transpose()?.map(|cpu| cpu.own);
        let memory = controller.memory()?;
        // The server counts a write when it is done with it, which may be after we saw its effect.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut writes = api.writes().await?;
        for (what, count) in &mut writes {
            *count -= self.writes.get(what).copied().unwrap_or(0).min(*count);
        }
        writes.retain(|_, count| *count > 0);
        Ok(Line {
            name: measured.name.clone(),
            cpu_s: round(now.own - self.cpu.own),
            child_cpu_s: round(now.children - self.cpu.children),
            server_cpu_s: server.zip(self.server).map(|(now, then)| round(now - then)),
            writes,
            rss_mb: round(memory.rss),
            anon_mb: round(memory.anon),
            peak_rss_mb: round(memory.peak),
            strangers: round(strangers),
            ..Line::default()
        })
    }
}

pub(crate) async fn drain(args: &Drain) -> Result<()> {
    let measured = &args.measured;
    let api = Api::infer(&measured.namespace).await?;
    jobs::make(&api, args.n, if args.big { SECTIONS } else { 0 }, false).await?;
    let mut track = Track::start(&api).await?;
    // What creating them left to do for API server and etcd is not the controller's.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut controller = Controller::start(measured)?;
    let before = Before {
        cpu: crate::process::Cpu::default(),
        ..Before::now(&api, measured, &controller).await?
    };
    all_done(&mut track, args.n, measured, &mut controller).await?;
    let mut line = before.until_now(&api, measured, &controller).await?;
    let seen = track.seen();
    let since = |at: Instant| at.duration_since(controller.started).as_secs_f64();
    let first = seen
        .values()
        .map(|seen| seen.done)
        .min()
        .context("nothing was done")?;
    let last = seen
        .values()
        .filter_map(|seen| seen.complete)
        .max()
        .context("nothing was done")?;
    line.test = "drain";
    line.objects = args.n;
    line.seconds = Some(round(since(last)));
    line.objects_per_s = Some(round(args.n as f64 / since(last)));
    line.first_done_s = Some(round(since(first)));
    per_object(&mut line, 0);
    print(&line)?;
    controller.stop().await
}

pub(crate) async fn latency(args: &Latency) -> Result<()> {
    let measured = &args.measured;
    let api = Api::infer(&measured.namespace).await?;
    let mut track = Track::start(&api).await?;
    let mut controller = Controller::start(measured)?;
    // The first object tells that the controller serves; it is not measured.
    let first = "job-first";
    api.create(jobs::object(first, 0, 0, false)).await?;
    all_done(&mut track, 1, measured, &mut controller).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = Before::now(&api, measured, &controller).await?;
    let n = usize::try_from(args.rate * args.seconds)?;
    let created = create_at(&api, n, args.rate).await?;
    all_done(&mut track, n + 1, measured, &mut controller).await?;
    let mut line = before.until_now(&api, measured, &controller).await?;
    let seen = track.seen();
    let (mut done, mut both) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for (name, created) in created {
        let seen = seen
            .get(&name)
            .with_context(|| format!("{name} was not seen"))?;
        // The event may overtake the answer to the creation.
        let since = |at: Instant| at.saturating_duration_since(created).as_secs_f64() * 1e3;
        done.push(since(seen.done));
        both.extend(seen.complete.map(since));
    }
    done.sort_unstable_by(f64::total_cmp);
    both.sort_unstable_by(f64::total_cmp);
    line.test = "latency";
    line.objects = n;
    line.p50_ms = quantile(&done, 500);
    line.p99_ms = quantile(&done, 990);
    line.max_ms = quantile(&done, 1000);
    line.both_p50_ms = quantile(&both, 500);
    line.both_p99_ms = quantile(&both, 990);
    per_object(&mut line, n as u64);
    print(&line)?;
    controller.stop().await
}

/// Creates `n` objects at a rate; each name with the time its creation was answered.
async fn create_at(api: &Api, n: usize, rate: u32) -> Result<Vec<(String, Instant)>> {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let mut running = JoinSet::new();
    for index in 0..n {
        ticks.tick().await;
        let api = api.clone();
        running.spawn(async move {
            let name = jobs::name(index);
            api.create(jobs::object(&name, index, 0, false)).await?;
            anyhow::Ok((name, Instant::now()))
        });
    }
    let mut created = Vec::with_capacity(n);
    while let Some(one) = running.join_next().await {
        created.push(one??);
    }
    Ok(created)
}

pub(crate) async fn idle(args: &Idle) -> Result<()> {
    let measured = &args.measured;
    let api = Api::infer(&measured.namespace).await?;
    let (objects, _) = api.count().await?;
    let mut controller = Controller::start(measured)?;
    let before = Before {
        cpu: crate::process::Cpu::default(),
        ..Before::now(&api, measured, &controller).await?
    };
    at_rest(measured, &mut controller).await?;
    let seconds = controller.started.elapsed().as_secs_f64();
    let line = Line {
        test: "idle",
        objects,
        seconds: Some(round(seconds)),
        ..before.until_now(&api, measured, &controller).await?
    };
    print(&line)?;
    controller.stop().await
}

/// Waits until the controller has used next to no CPU for some seconds.
async fn at_rest(measured: &Measured, controller: &mut Controller) -> Result<()> {
    const QUIET: usize = 4;
    let (mut quiet, mut last) = (0, controller.cpu()?.own);
    while quiet < QUIET {
        tokio::time::sleep(Duration::from_secs(1)).await;
        controller.check(measured)?;
        if controller.started.elapsed() > Duration::from_secs(measured.timeout) {
            bail!("the controller did not come to rest");
        }
        let now = controller.cpu()?.own;
        // A start that waits for its first answer is no rest.
        quiet = if now - last < 0.04 && now > 0.0 {
            quiet + 1
        } else {
            0
        };
        last = now;
    }
    Ok(())
}

/// Waits until `n` objects are done and labelled.
async fn all_done(
    track: &mut Track,
    n: usize,
    measured: &Measured,
    controller: &mut Controller,
) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(measured.timeout);
    loop {
        match tokio::time::timeout(Duration::from_secs(1), track.complete(n)).await {
            Ok(result) => return result,
            Err(_) => controller.check(measured)?,
        }
        if Instant::now() > deadline {
            bail!(
                "{} of {n} objects were done after {} s, see {}",
                track.count(),
                measured.timeout,
                measured.log.display()
            );
        }
    }
}

/// Fills in what is counted by object; `own` writes were the load's.
fn per_object(line: &mut Line, own: u64) {
    let n = line.objects.max(1) as f64;
    line.cpu_ms_per_object = Some(round(line.cpu_s * 1e3 / n));
    let writes: u64 = line.writes.values().sum();
    line.writes_per_object = Some(round(writes.saturating_sub(own) as f64 / n));
}

fn quantile(sorted: &[f64], per_mille: usize) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted
        .get((sorted.len() * per_mille / 1000).min(last))
        .map(|value| round(*value))
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn print(line: &Line) -> Result<()> {
    println!("{}", serde_json::to_string(line)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(quantile(&values, 500), Some(50.0));
        assert_eq!(quantile(&values, 990), Some(99.0));
        assert_eq!(quantile(&values, 1000), Some(99.0));
        assert_eq!(quantile(&[], 500), None);
    }

    #[test]
    fn creations_are_not_counted_as_the_controllers_writes() {
        let mut line = Line {
            objects: 10,
            cpu_s: 0.02,
            writes: BTreeMap::from([("reportjobs".into(), 20), ("reportjobs/status".into(), 10)]),
            ..Line::default()
        };
        per_object(&mut line, 10);
        assert_eq!(
            (line.cpu_ms_per_object, line.writes_per_object),
            (Some(2.0), Some(2.0))
        );
    }
}
