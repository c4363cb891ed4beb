//! Where demo, tests and benchmark run: on a cluster of their own, or on one that the user names.

use crate::binaries::Binaries;
use crate::cluster::{Cluster, Options};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cluster to work on.
#[derive(Debug)]
pub enum Target {
    /// Started for the purpose, or attached to; on this machine.
    Local(Box<Cluster>),
    /// Any other one (kind, k3s, ...), by its kubeconfig.
    External {
        /// The kubeconfig; its current context is used.
        kubeconfig: PathBuf,
        /// kubectl, from the same places as the control plane's programs.
        kubectl: PathBuf,
    },
}

impl Target {
    /// The cluster of `kubeconfig` if one is given, else a new local one.
    ///
    /// The variable `KUBECONFIG` is not consulted here: what installs CRDs and deletes objects must not do so on
    /// whatever cluster the user's shell points to. A caller takes it as an explicit option.
    ///
    /// # Errors
    /// When the kubeconfig does not exist or the local cluster does not start.
    pub fn open(kubeconfig: Option<&Path>, binaries: &Binaries, options: Options) -> Result<Self> {
        let Some(path) = kubeconfig else {
            return Ok(Self::Local(Box::new(Cluster::start(binaries, options)?)));
        };
        let kubeconfig =
            std::path::absolute(path).with_context(|| format!("path {}", path.display()))?;
        if !kubeconfig.is_file() {
            bail!("no kubeconfig at {}", kubeconfig.display());
        }
        Ok(Self::External {
            kubeconfig,
            kubectl: binaries.kubectl.clone(),
        })
    }

    /// The kubeconfig to work with.
    pub fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Local(cluster) => cluster.kubeconfig(),
            Self::External { kubeconfig, .. } => kubeconfig.clone(),
        }
    }

    /// kubectl for this cluster. For an external one the environment is kept: its kubeconfig may name a program that
    /// needs it to log in.
    pub fn kubectl(&self) -> Command {
        match self {
            Self::Local(cluster) => cluster.kubectl(),
            Self::External {
                kubeconfig,
                kubectl,
            } => {
                let mut command = Command::new(kubectl);
                command.env("KUBECONFIG", kubeconfig);
                command
            }
        }
    }

    /// The local cluster, if it is one: audit log, pids, further users.
    pub fn local(&self) -> Option<&Cluster> {
        match self {
            Self::Local(cluster) => Some(cluster),
            Self::External { .. } => None,
        }
    }
}
