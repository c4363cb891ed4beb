//! A real Kubernetes control plane on this machine, without containers or root.
//!
//! The demo, the tests and the benchmark need an API server that behaves as a user's does: server-side apply, field
//! pruning, RBAC, garbage collection, watch windows. A stand-in would be kinder than the world, so this crate starts
//! the real programs: etcd, kube-apiserver and kube-controller-manager (only the garbage collector and the namespace
//! controller: there are no nodes, and no pods ever run).
//!
//! Guarantees:
//! - everything listens on 127.0.0.1 only, on ports that were free; several clusters run side by side;
//! - the API server speaks TLS with a certificate authority made for this cluster, and RBAC decides;
//! - all files lie under one folder; processes are ended by pid *and* start time, never by name;
//! - a [`Cluster`] that goes out of scope leaves nothing running. If its owner is killed with SIGKILL, a watchdog ends
//!   the components (Linux), and the next start in the same folder ends what may be left.

mod audit;
mod binaries;
mod cluster;
mod components;
mod go_build;
mod layout;
mod lock;
mod pki;
mod probe;
mod process;
mod progress;
mod registry;
mod target;

pub use audit::{AuditEvent, ObjectRef};
pub use binaries::{Binaries, ETCD_VERSION, KUBERNETES_VERSION};
pub use cluster::detached::Status;
pub use cluster::{Cluster, Options};
pub use components::{Component, Ports};
pub use lock::{FileLock, cache_dir};
pub use progress::{Progress, run_with_progress};
pub use registry::{REGISTRY_VERSION, Registry, RegistryOptions};
pub use target::Target;
