//! `cargo xtask setup`: all that the other tasks need and cargo does not bring. Every task that needs it calls it.

use crate::artifacts::{root, target_dir};
use anyhow::{Context, Result, bail};
use clap::Parser;
use guesthouse_local::{Binaries, FileLock, Progress, Registry, cache_dir, run_with_progress};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The target that plugins are built for.
pub(crate) const WASM_TARGET: &str = "wasm32-wasip1";
/// rustup fetches some 20 MB; where its server cannot be reached it may try for long.
const RUSTUP_TIMEOUT: Duration = Duration::from_secs(60);

/// Make everything ready: the WebAssembly target and the control plane's programs. Quick when all is there.
#[derive(Parser)]
#[command(after_help = "\
Needs Rust (rustup) and, once, Go 1.21 or newer to build the control plane.

Environment:
  KUBEBUILDER_ASSETS   a folder with etcd, kube-apiserver, kube-controller-manager and kubectl, instead of building them
  GUESTHOUSE_CACHE     where built things are kept (default: guesthouse in the user's cache folder)
  WASM_STD_SRC_TAR     a tar of the Rust standard library's source, for machines that rustup's server and Debian's
                       packages are out of reach of

Examples:
  cargo xtask setup
  cargo xtask setup --wasm                      only what building a plugin needs")]
pub(crate) struct Args {
    /// Only the WebAssembly target.
    #[arg(long)]
    wasm: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    ensure_wasm_target()?;
    println!("{WASM_TARGET:<15} {}", target_libdir()?.display());
    if !args.wasm {
        let binaries = Binaries::locate_or_build()?;
        let version = binaries.kubernetes_version()?;
        let place = binaries
            .dir()
            .map_or_else(|| "PATH".to_owned(), |d| d.display().to_string());
        println!("{:<15} Kubernetes {version}, {place}", "control plane");
        let registry = Registry::locate_or_build()?;
        println!("{:<15} {}", "registry", registry.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// Everything: the WebAssembly target, and the control plane's programs, which are returned.
pub(crate) fn ensure_all() -> Result<Binaries> {
    ensure_wasm_target()?;
    Binaries::locate_or_build()
}

/// Makes plain `cargo build --target wasm32-wasip1` work in this checkout.
pub(crate) fn ensure_wasm_target() -> Result<()> {
    if has_std()? {
        return Ok(());
    }
    let cache = cache_dir()?;
    let _lock = FileLock::wait(&cache.join("wasm-target.lock"), || {
        eprintln!("waiting for another process that sets up {WASM_TARGET}");
    })?;
    if has_std()? {
        return Ok(());
    }
    if let Err(why) = add_with_rustup() {
        eprintln!("rustup cannot add {WASM_TARGET} ({why:#})");
        build_std(&cache.join("wasm-target"))?;
    }
    if !has_std()? {
        bail!(
            "{WASM_TARGET} is still missing in {}",
            target_libdir()?.display()
        );
    }
    // Left from a toolchain whose standard library was another one: cargo would not notice (E0460).
    let stale = target_dir().join(WASM_TARGET);
    if stale.exists() {
        std::fs::remove_dir_all(&stale).with_context(|| format!("remove {}", stale.display()))?;
    }
    Ok(())
}

fn target_libdir() -> Result<PathBuf> {
    // In the checkout, so that rust-toolchain.toml chooses.
    let output = Command::new("rustc")
        .current_dir(root())
        .args(["--print", "target-libdir", "--target", WASM_TARGET])
        .output()
        .context("run rustc")?;
    if !output.status.success() {
        bail!(
            "rustc --print target-libdir: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(PathBuf::from(
        String::from_utf8_lossy(&output.stdout).trim(),
    ))
}

fn has_std() -> Result<bool> {
    let Ok(entries) = std::fs::read_dir(target_libdir()?) else {
        return Ok(false);
    };
    let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    Ok(names
        .into_iter()
        .any(|n| n.starts_with("libstd-") && n.ends_with(".rlib")))
}

fn add_with_rustup() -> Result<()> {
    let step = Progress::start(format!("rustup target add {WASM_TARGET}"));
    let mut child = Command::new("rustup")
        .current_dir(root())
        .args(["target", "add", WASM_TARGET])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("start rustup")?;
    let stderr = child.stderr.take().map(|mut pipe| {
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = pipe.read_to_string(&mut text);
            text
        })
    });
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().context("wait for rustup")? {
            break status;
        }
        if started.elapsed() > RUSTUP_TIMEOUT {
            // Nothing is half installed: rustup moves a component into place when it has all of it.
            child.kill().context("end rustup")?;
            child.wait().context("wait for rustup")?;
            bail!("no answer within {} s", RUSTUP_TIMEOUT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    if status.success() {
        step.finish();
        return Ok(());
    }
    let text = stderr
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    let error = text.lines().find_map(|line| line.strip_prefix("error: "));
    let error = error.or(text.lines().last()).unwrap_or("no reason given");
    // rustup repeats its addresses in each layer of the cause; the beginning says it.
    bail!("{}", error.chars().take(160).collect::<String>().trim())
}

fn build_std(work: &std::path::Path) -> Result<()> {
    let mut step = Progress::start(format!(
        "building the standard library for {WASM_TARGET} from source"
    ));
    let script = root().join("xtask/wasm-target/build-std.sh");
    let mut build = Command::new("bash");
    build.arg(script).arg(work).current_dir(root());
    // The flags of the cargo that runs this task are not for std.
    build
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    run_with_progress(&mut build, |line| step.note(line))
        .with_context(|| format!("{WASM_TARGET} can be had neither by rustup nor from source"))?;
    step.finish();
    Ok(())
}
