//! Finds the four programs of a control plane, or has them built.
//!
//! Order: `KUBEBUILDER_ASSETS`, then `PATH`, then the cache (built once from the Go module proxy). A place counts only
//! if it holds all four programs: a kubectl from one place beside an API server from another is how version skew gets
//! into a test.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The Kubernetes release that is built, and the one whose minor version programs on `PATH` must have.
pub const KUBERNETES_VERSION: &str = "v1.36.3";
/// The etcd release that is built; programs on `PATH` must have its minor version.
pub const ETCD_VERSION: &str = "v3.6.8";

/// The four programs of a control plane, all from one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binaries {
    /// etcd, the store.
    pub etcd: PathBuf,
    /// The API server.
    pub kube_apiserver: PathBuf,
    /// The controllers; only two of them are run.
    pub kube_controller_manager: PathBuf,
    /// The client of the same version.
    pub kubectl: PathBuf,
}

impl Binaries {
    /// The programs' file names, in the order of the fields.
    pub(crate) const NAMES: [&str; 4] = [
        "etcd",
        "kube-apiserver",
        "kube-controller-manager",
        "kubectl",
    ];

    /// Finds the programs, building them if they are nowhere. The build takes about five minutes on two cores the
    /// first time, and parallel callers wait for one build. Progress goes to stderr.
    ///
    /// # Errors
    /// When nothing is found and Go is missing, too old, or cannot reach its module proxy.
    pub fn locate_or_build() -> Result<Self> {
        match Self::locate()? {
            Some(found) => Ok(found),
            None => crate::go_build::build(),
        }
    }

    /// Finds the programs without building any: `None` when they are in none of the three places.
    ///
    /// # Errors
    /// When there is no cache folder to look into.
    pub fn locate() -> Result<Option<Self>> {
        if let Some(dir) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|d| !d.is_empty()) {
            match Self::in_dir(Path::new(&dir)) {
                Ok(found) => return Ok(Some(found)),
                // envtest's own assets have no kube-controller-manager; say why they are passed over.
                Err(missing) => eprintln!("KUBEBUILDER_ASSETS is not used: {missing:#}"),
            }
        }
        if let Some(found) = Self::on_path() {
            return Ok(Some(found));
        }
        Ok(Self::in_dir(&crate::go_build::cached_dir()?).ok())
    }

    /// The programs in `dir`.
    ///
    /// # Errors
    /// When one is missing; the error names all that are.
    pub fn in_dir(dir: &Path) -> Result<Self> {
        let dir = std::path::absolute(dir).with_context(|| format!("path {}", dir.display()))?;
        let missing: Vec<_> = Self::NAMES
            .into_iter()
            .filter(|name| !is_program(&dir.join(name)))
            .collect();
        if !missing.is_empty() {
            bail!("{} has no {}", dir.display(), missing.join(", "));
        }
        Ok(Self::from_paths(Self::NAMES.map(|name| dir.join(name))))
    }

    /// The one folder that holds all four, if there is one: what `KUBEBUILDER_ASSETS` may be set to.
    pub fn dir(&self) -> Option<&Path> {
        let dir = self.etcd.parent()?;
        [
            &self.kube_apiserver,
            &self.kube_controller_manager,
            &self.kubectl,
        ]
        .iter()
        .all(|p| p.parent() == Some(dir))
        .then_some(dir)
    }

    /// The API server's version, like `v1.36.3`.
    ///
    /// # Errors
    /// When the program does not run or prints something else.
    pub fn kubernetes_version(&self) -> Result<String> {
        version_of(&self.kube_apiserver, &["--version"])
    }

    fn from_paths([etcd, kube_apiserver, kube_controller_manager, kubectl]: [PathBuf; 4]) -> Self {
        Self {
            etcd,
            kube_apiserver,
            kube_controller_manager,
            kubectl,
        }
    }

    fn on_path() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let find = |name: &str| {
            std::env::split_paths(&path)
                .map(|dir| dir.join(name))
                .find(|p| is_program(p))
        };
        let mut paths = Vec::new();
        for name in Self::NAMES {
            paths.push(std::path::absolute(find(name)?).ok()?);
        }
        let found = Self::from_paths(paths.try_into().ok()?);
        match found.check_versions() {
            Ok(()) => Some(found),
            Err(why) => {
                eprintln!("the control plane on PATH is not used: {why:#}");
                None
            }
        }
    }

    fn check_versions(&self) -> Result<()> {
        let checks: [(&Path, &[&str], &str); 4] = [
            (&self.etcd, &["--version"], ETCD_VERSION),
            (&self.kube_apiserver, &["--version"], KUBERNETES_VERSION),
            (
                &self.kube_controller_manager,
                &["--version"],
                KUBERNETES_VERSION,
            ),
            (&self.kubectl, &["version", "--client"], KUBERNETES_VERSION),
        ];
        for (program, args, wanted) in checks {
            let found = version_of(program, args)?;
            if minor(&found) != minor(wanted) {
                bail!("{} is {found}, wanted {}", program.display(), minor(wanted));
            }
        }
        Ok(())
    }
}

pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn version_of(program: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    version_in(&text)
        .with_context(|| format!("{} prints no version: {:?}", program.display(), text.trim()))
}

/// The first word that looks like a version, with a leading `v`.
fn version_in(text: &str) -> Option<String> {
    text.split_whitespace().find_map(|word| {
        let bare = word.strip_prefix('v').unwrap_or(word);
        let mut parts = bare.splitn(3, '.');
        let numbers = [parts.next()?, parts.next()?];
        parts.next()?;
        numbers
            .iter()
            .all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
            .then(|| format!("v{bare}"))
    })
}

/// `v1.36` of `v1.36.3`.
fn minor(version: &str) -> &str {
    version
        .rsplit_once('.')
        .map_or(version, |(minor, _)| minor)
        .split('-')
        .next()
        .unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_each_program_prints() {
        for (text, wanted) in [
            (
                "etcd Version: 3.6.8\nGit SHA: Not provided\nGo Version: go1.26.8\n",
                Some("v3.6.8"),
            ),
            ("Kubernetes v1.36.3\n", Some("v1.36.3")),
            (
                "Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n",
                Some("v1.32.4-dispatcher"),
            ),
            ("usage: kubectl ...", None),
        ] {
            assert_eq!(version_in(text).as_deref(), wanted, "{text}");
        }
        assert_eq!(minor("v1.36.3"), "v1.36");
        assert_ne!(minor("v1.32.4-dispatcher"), minor(KUBERNETES_VERSION));
    }

    #[test]
    fn a_folder_with_only_some_of_the_programs_is_refused_by_name() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let error = Binaries::in_dir(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("has no kube-controller-manager"), "{error}");
    }
}
