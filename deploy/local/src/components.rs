//! The three components and the arguments each is started with.

use crate::layout::Layout;
use crate::pki::PkiFiles;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

/// One program of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The garbage collector and the namespace controller.
    KubeControllerManager,
}

impl Component {
    /// All, in the order of starting.
    pub const ALL: [Self; 3] = [Self::Etcd, Self::KubeApiserver, Self::KubeControllerManager];

    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
        }
    }
}

/// The ports of a cluster, all on 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// etcd, for its client (plain HTTP: it never leaves the loopback interface).
    pub etcd: u16,
    /// etcd, for members it does not have.
    pub etcd_peer: u16,
    /// The API server, TLS.
    pub kube_apiserver: u16,
    /// The controller manager's health, TLS.
    pub kube_controller_manager: u16,
}

impl Ports {
    /// Ports that are free now. Another program may take one before a component does: the start then tries others.
    pub(crate) fn free() -> Result<Self> {
        let mut held = Vec::new();
        let mut next = || -> Result<u16> {
            let listener =
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port")?;
            let port = listener.local_addr().context("find a free port")?.port();
            // Held until all are chosen, so that they differ.
            held.push(listener);
            Ok(port)
        };
        Ok(Self {
            etcd: next()?,
            etcd_peer: next()?,
            kube_apiserver: next()?,
            kube_controller_manager: next()?,
        })
    }

    pub(crate) fn are_free(&self) -> bool {
        [
            self.etcd,
            self.etcd_peer,
            self.kube_apiserver,
            self.kube_controller_manager,
        ]
        .iter()
        .all(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
    }
}

/// Every request once, when it is answered, without bodies: enough to count and to attribute.
pub(crate) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
";

pub(crate) fn etcd_args(layout: &Layout, ports: &Ports, fsync: bool) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    let mut args = vec![
        "--name=guesthouse".to_owned(),
        format!("--data-dir={}", layout.etcd().display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=guesthouse={peer}"),
        // The default of 2 GiB is reached by a benchmark's history before it is compacted.
        "--quota-backend-bytes=8589934592".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    if !fsync {
        args.push("--unsafe-no-fsync".to_owned());
    }
    args
}

pub(crate) fn apiserver_args(
    layout: &Layout,
    ports: &Ports,
    audit: bool,
    extra: &[String],
) -> Vec<String> {
    let pki = PkiFiles::of(layout);
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    let mut args = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.kube_apiserver),
        // Endpoints refuse loopback addresses, so the default reconciler would log an error every few seconds.
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        file("client-ca-file", &pki.ca),
        file("tls-cert-file", &pki.serving_certificate),
        file("tls-private-key-file", &pki.serving_key),
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
        file("service-account-key-file", &pki.service_account_public_key),
        file("service-account-signing-key-file", &pki.service_account_key),
        // Only concerns pods, and would refuse them: nothing here makes a namespace's `default` account.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
    ];
    if audit {
        args.extend([
            file("audit-policy-file", &layout.audit_policy()),
            file("audit-log-path", &layout.audit_log()),
            // In MiB. One file: a log that rotates in the middle of a test cannot be counted.
            "--audit-log-maxsize=100000".to_owned(),
            // A line is written before the request's goroutine ends, not in batches.
            "--audit-log-mode=blocking".to_owned(),
        ]);
    }
    args.extend_from_slice(extra);
    args
}

pub(crate) fn controller_manager_args(layout: &Layout, ports: &Ports) -> Vec<String> {
    let pki = PkiFiles::of(layout);
    let kubeconfig = controller_manager_kubeconfig(layout);
    let file = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
    vec![
        file("kubeconfig", &kubeconfig),
        file("authentication-kubeconfig", &kubeconfig),
        file("authorization-kubeconfig", &kubeconfig),
        // Names as in Kubernetes' cmd/kube-controller-manager/names/controller_names.go.
        "--controllers=garbage-collector-controller,namespace-controller".to_owned(),
        // One instance: there is nobody to elect.
        "--leader-elect=false".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.kube_controller_manager),
        file("tls-cert-file", &pki.serving_certificate),
        file("tls-private-key-file", &pki.serving_key),
    ]
}

/// The controller manager's own identity, so that its requests can be told apart in the audit log.
pub(crate) fn controller_manager_kubeconfig(layout: &Layout) -> std::path::PathBuf {
    layout.pki().join("kube-controller-manager.kubeconfig")
}
