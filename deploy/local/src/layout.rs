//! Where each file of a cluster lies in its folder, and the record of what runs there.

use crate::binaries::Binaries;
use crate::components::{Component, Ports};
use crate::process::ProcessId;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The folder of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    dir: PathBuf,
}

impl Layout {
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let dir = std::path::absolute(dir).with_context(|| format!("path {}", dir.display()))?;
        Ok(Self { dir })
    }

    pub(crate) fn create(&self) -> Result<()> {
        for dir in [&self.dir, &self.logs(), &self.users(), &self.pki()] {
            std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        }
        Ok(())
    }

    /// Removes what a cluster wrote, but not its keys and its record (so that a kubeconfig stays valid). Only names of
    /// ours are removed, whatever else lies in the folder.
    pub(crate) fn wipe(&self) -> Result<()> {
        for dir in [self.etcd(), self.logs(), self.users(), self.kube_cache()] {
            if dir.exists() {
                std::fs::remove_dir_all(&dir)
                    .with_context(|| format!("remove {}", dir.display()))?;
            }
        }
        if self.audit_log().exists() {
            std::fs::remove_file(self.audit_log()).context("remove the audit log")?;
        }
        Ok(())
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }
    pub(crate) fn state(&self) -> PathBuf {
        self.dir.join("cluster.json")
    }
    pub(crate) fn etcd(&self) -> PathBuf {
        self.dir.join("etcd")
    }
    pub(crate) fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }
    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }
    pub(crate) fn log(&self, component: Component) -> PathBuf {
        self.logs().join(format!("{}.log", component.name()))
    }
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.dir.join("audit.jsonl")
    }
    pub(crate) fn audit_policy(&self) -> PathBuf {
        self.dir.join("audit-policy.yaml")
    }
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }
    pub(crate) fn users(&self) -> PathBuf {
        self.dir.join("users")
    }
    /// The kubeconfig of a further user. Names like `system:serviceaccount:a:b` have characters that a file's must not.
    pub(crate) fn user(&self, user: &str) -> PathBuf {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        self.users()
            .join(user.chars().map(plain).collect::<String>() + ".kubeconfig")
    }
    /// kubectl's cache of what the server offers: of this cluster alone.
    pub(crate) fn kube_cache(&self) -> PathBuf {
        self.dir.join("kube-cache")
    }
}

/// What runs in the folder: written before a component is waited for, so that whoever comes next can end it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// True when the components were started to outlive their starter.
    pub(crate) detached: bool,
    /// The process that started them.
    pub(crate) owner: u32,
    pub(crate) ports: Ports,
    pub(crate) audit: bool,
    pub(crate) fsync: bool,
    pub(crate) version: String,
    pub(crate) binaries: Binaries,
    pub(crate) running: Vec<Running>,
}

/// One component's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) component: Component,
    pub(crate) process: ProcessId,
}

impl State {
    /// The record in `layout`; `None` when there is none or an older version of this crate wrote it.
    pub(crate) fn read(layout: &Layout) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(layout.state()).ok()?).ok()
    }

    pub(crate) fn write(&self, layout: &Layout) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).context("write the cluster's record")?;
        write_file(&layout.state(), &text, 0o644)
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.kube_apiserver)
    }
}

/// Writes a whole file or none: to a temporary name, then renamed.
pub(crate) fn write_file(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let temporary = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        // A leftover of an interrupted write may carry other permissions.
        if temporary.exists() {
            std::fs::remove_file(&temporary)?;
        }
        let mut file = std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(content)?;
        std::fs::rename(&temporary, path)
    };
    write().with_context(|| format!("write {}", path.display()))
}
