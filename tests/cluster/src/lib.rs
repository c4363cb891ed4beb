//! What the tests on a real API server are written with.
//!
//! One control plane serves all tests of a process. Each test has a [`Scene`]: namespaces, an exporter, a host process and an
//! identity at the API server that are its own, and mappings that are held to its namespace. So tests run side by side, and
//! what a host asked of the server can be counted apart from everything else.
//!
//! Nothing here sleeps to let something happen: tests wait for what they claim, with deadlines that only a hang reaches. When
//! a test fails, the host's log, its mappings' Events and the objects are printed with it.

mod api;
mod artifacts;
mod audit;
pub mod chaos;
mod failure;
mod host;
mod kinds;
mod ledger;
mod plane;
mod proxy;
mod receiver;
mod report;
mod run;
mod scene;
mod workload;

pub use api::{
    Api, CONFIG_CHECKSUMS, CONFIG_MAPS, DEPLOYMENTS, ECHOES, EMAIL_REQUESTS, EVENTS, Event,
    INGRESSES, JOBS, JOURNALS, KINDS, LEASES, MAPPINGS, NAMESPACES, NIGHTLY_BACKUPS,
    PROVISION_REQUESTS, REPORT_JOBS, ROLE_BINDINGS, ROLES, Resource, SECRETS, SERVICES, WEBSITES,
    WISHES,
};
pub use artifacts::{crash_binary, host_binary, of_language, output, plugin};
pub use audit::{busiest, judge, overlaps};
pub use guesthouse_local::AuditEvent;
pub use host::{Arguments, Host};
pub use kinds::{child, condition};
pub use ledger::Ledger;
pub use plane::Plane;
pub use proxy::{Asked, Fault, Proxy, Rule, Target, Verb, Way, Wire, Wrote};
pub use receiver::Receiver;
pub use report::{History, Nemesis, Passing, Run};
pub use run::{now_ms, scenario, scenario_on, side_by_side};
pub use scene::Scene;
pub use workload::{
    CHILDREN, ECHO, Life, PROVISION_REQUEST, REPORT_JOB, WEBSITE, WISH, WORKLOADS, Workload,
    collected, marked, name, unaccounted,
};
