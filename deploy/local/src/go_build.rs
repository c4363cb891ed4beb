//! Builds the control plane, and a registry, once from the Go module proxy.
//!
//! `go/*.mod` and `go/*.sum` pin every module by hash, so the build needs no checksum database and gives the same
//! programs on every machine. The result is kept outside the checkout by version, built in a temporary folder and
//! renamed when complete: a build that was interrupted is never mistaken for a whole one (and Go's own build cache
//! makes the next attempt short).

use crate::binaries::{Binaries, ETCD_VERSION, KUBERNETES_VERSION, is_program};
use crate::registry::REGISTRY_VERSION;
use crate::{FileLock, Progress, cache_dir, run_with_progress};
use anyhow::{Context, Result, bail};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bump when the recipe changes while the versions stay.
const RECIPE: u32 = 1;

/// One Go module of ours: what it pins, and the commands it builds.
struct Module {
    folder: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
    /// (file name, Go package)
    commands: &'static [(&'static str, &'static str)],
}

// etcd first: it is the smallest, so that a machine that cannot build says so early.
const MODULES: [Module; 2] = [
    Module {
        folder: "etcd",
        go_mod: include_str!("go/etcd.mod"),
        go_sum: include_str!("go/etcd.sum"),
        commands: &[("etcd", "go.etcd.io/etcd/server/v3")],
    },
    Module {
        folder: "kubernetes",
        go_mod: include_str!("go/kubernetes.mod"),
        go_sum: include_str!("go/kubernetes.sum"),
        commands: &[
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
            (
                "kube-controller-manager",
                "k8s.io/kubernetes/cmd/kube-controller-manager",
            ),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ],
    },
];

const REGISTRY: Module = Module {
    folder: "registry",
    go_mod: include_str!("go/registry.mod"),
    go_sum: include_str!("go/registry.sum"),
    commands: &[(
        "registry",
        "github.com/distribution/distribution/v3/cmd/registry",
    )],
};

/// The registry, built on first use; parallel callers wait for one build.
pub(crate) fn registry() -> Result<PathBuf> {
    let name = format!("distribution-{REGISTRY_VERSION}-r{RECIPE}");
    let dir = cache_dir()?.join("registry").join(name);
    let program = dir.join("registry");
    if is_program(&program) {
        return Ok(program);
    }
    let about = format!("a registry (distribution {REGISTRY_VERSION}, some two minutes)");
    build_into(&dir, &about, &[REGISTRY], || {
        if is_program(&program) {
            Ok(program.clone())
        } else {
            bail!("{} was not built", program.display())
        }
    })
}

/// Where built programs of these versions lie (or will).
pub(crate) fn cached_dir() -> Result<PathBuf> {
    let name = format!("kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}-r{RECIPE}");
    Ok(cache_dir()?.join("control-plane").join(name))
}

/// Builds the programs into the cache, or waits for whoever does.
pub(crate) fn build() -> Result<Binaries> {
    let dir = cached_dir()?;
    let about = format!(
        "etcd {ETCD_VERSION} and Kubernetes {KUBERNETES_VERSION} (about five minutes on two cores; KUBEBUILDER_ASSETS may \
         name a folder that has them instead)"
    );
    build_into(&dir, &about, &MODULES, || Binaries::in_dir(&dir))
}

/// Builds modules into one folder, which is there as a whole or not at all. `find` says what is in it.
fn build_into<T>(
    dir: &Path,
    about: &str,
    modules: &[Module],
    find: impl Fn() -> Result<T>,
) -> Result<T> {
    let parent = dir.parent().context("cache folder has no parent")?;
    let _lock = FileLock::wait(&parent.join("lock"), || {
        eprintln!("waiting for another process that builds {about}");
    })?;
    // It may have been built while this process waited.
    if let Ok(found) = find() {
        return Ok(found);
    }
    check_go()?;
    eprintln!(
        "building {about} from the Go module proxy, once, into {}",
        dir.display()
    );
    let work = tempfile::Builder::new()
        .prefix(".building-")
        .tempdir_in(parent)
        .context("make a folder to build in")?;
    let out = work.path().join("bin");
    for module in modules {
        module.build(&work.path().join(module.folder), &out)?;
    }
    // An incomplete folder of that name can only be the remains of a hand's work: the rename needs the place.
    if dir.exists() {
        std::fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    std::fs::rename(&out, dir)
        .with_context(|| format!("move the programs to {}", dir.display()))?;
    find()
}

impl Module {
    fn build(&self, src: &Path, out: &Path) -> Result<()> {
        std::fs::create_dir_all(src).with_context(|| format!("create {}", src.display()))?;
        std::fs::write(src.join("go.mod"), self.go_mod).context("write go.mod")?;
        std::fs::write(src.join("go.sum"), self.go_sum).context("write go.sum")?;
        let mut step = Progress::start(format!("fetching the modules of {}", self.folder));
        // Lists every command's packages: that fetches the modules, and gives the bars their lengths.
        let mut packages = Vec::new();
        for (_, package) in self.commands {
            packages.push(dependencies(src, package, &mut step)?);
        }
        step.finish();
        let mut built = HashSet::new();
        for ((name, package), needs) in self.commands.iter().zip(packages) {
            let fresh = needs.iter().filter(|p| !built.contains(*p)).count();
            compile(src, package, &out.join(name), name, fresh as u64)?;
            built.extend(needs);
        }
        Ok(())
    }
}

fn go(dir: &Path) -> Command {
    let mut command = Command::new("go");
    // A workspace or a foreign system around the folder must not change what is built.
    command
        .current_dir(dir)
        .env("GOWORK", "off")
        .env("CGO_ENABLED", "0")
        .env_remove("GOOS")
        .env_remove("GOARCH");
    command
}

/// All packages that `package` is made of.
fn dependencies(src: &Path, package: &str, step: &mut Progress) -> Result<Vec<String>> {
    let mut list = go(src);
    list.args(["list", "-mod=readonly", "-deps", package]);
    let out = run_with_progress(&mut list, |line| {
        if let Some(module) = line.strip_prefix("go: downloading ") {
            step.note(module);
        }
    })
    .with_context(|| {
        format!("fetch the modules of {package} (is the Go module proxy reachable?)")
    })?;
    Ok(String::from_utf8_lossy(&out)
        .lines()
        .map(str::to_owned)
        .collect())
}

fn compile(src: &Path, package: &str, out: &Path, name: &str, packages: u64) -> Result<()> {
    let mut step = Progress::start(format!("building {name}"));
    step.set_total(packages, "packages");
    let mut build = go(src);
    build
        .args([
            "build",
            "-mod=readonly",
            "-trimpath",
            "-v",
            "-ldflags",
            &ldflags(),
            "-o",
        ])
        .arg(out)
        .arg(package);
    // With -v Go prints each package it compiles; those in its cache are not printed.
    run_with_progress(&mut build, |_| step.tick()).with_context(|| format!("build {package}"))?;
    step.finish();
    Ok(())
}

/// Release builds of Kubernetes set these; clients parse them from `/version`. etcd ignores names it does not have.
fn ldflags() -> String {
    let number = KUBERNETES_VERSION.trim_start_matches('v');
    let (major, rest) = number.split_once('.').unwrap_or((number, "0"));
    let minor = rest.split('.').next().unwrap_or("0");
    let at = "-X k8s.io/component-base/version";
    format!(
        "-s -w {at}.gitVersion={KUBERNETES_VERSION} {at}.gitMajor={major} {at}.gitMinor={minor} {at}.gitTreeState=clean"
    )
}

/// Since 1.21, Go fetches by itself the newer toolchain that a module asks for.
const OLDEST_GO: (u32, u32) = (1, 21);

fn check_go() -> Result<()> {
    let advice = "install Go 1.21 or newer (https://go.dev/dl, or your system's package `golang`), \
                  or set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager and kubectl";
    let output = match Command::new("go").arg("version").output() {
        Ok(output) => output,
        Err(e) => bail!("the control plane is not built yet and Go cannot be run ({e}): {advice}"),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match go_version(&text) {
        Some(version) if version >= OLDEST_GO => Ok(()),
        Some((major, minor)) => {
            bail!("Go {major}.{minor} is too old to build the control plane: {advice}")
        }
        None => bail!("`go version` printed {:?}: {advice}", text.trim()),
    }
}

fn go_version(text: &str) -> Option<(u32, u32)> {
    let word = text
        .split_whitespace()
        .find_map(|w| w.strip_prefix("go1."))?;
    let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
    Some((1, digits.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_modules_are_of_the_versions_that_are_announced() {
        let [etcd, kubernetes] = &MODULES;
        assert!(
            etcd.go_mod
                .contains(&format!("go.etcd.io/etcd/server/v3 {ETCD_VERSION}\n"))
        );
        assert!(
            kubernetes
                .go_mod
                .contains(&format!("k8s.io/kubernetes {KUBERNETES_VERSION}\n"))
        );
        let registry = format!("distribution/distribution/v3 {REGISTRY_VERSION}\n");
        assert!(REGISTRY.go_mod.contains(&registry));
        let staging = KUBERNETES_VERSION.replace("v1.", "v0.");
        let replaced: Vec<_> = kubernetes
            .go_mod
            .lines()
            .filter(|l| l.contains("=>"))
            .collect();
        assert!(replaced.len() > 25, "every staging module is replaced");
        assert!(
            replaced.iter().all(|l| l.ends_with(&staging)),
            "{replaced:?}"
        );
    }

    #[test]
    fn gos_own_version_is_understood() {
        assert_eq!(go_version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(go_version("go version go1.19 linux/arm64"), Some((1, 19)));
        assert_eq!(
            go_version("go version go1.27rc1 linux/amd64"),
            Some((1, 27))
        );
        assert_eq!(go_version("gccgo (Debian) 12"), None);
    }
}
