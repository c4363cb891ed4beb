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
mod failure;
mod host;
mod kinds;
mod plane;
mod receiver;
mod run;
mod scene;

pub use api::{
    Api, CONFIG_MAPS, DEPLOYMENTS, ECHOES, EVENTS, Event, INGRESSES, JOBS, JOURNALS, KINDS,
    NAMESPACES, PROVISION_REQUESTS, REPORT_JOBS, ROLE_BINDINGS, Resource, SECRETS, SERVICES,
    WEBSITES, WISHES,
};
pub use artifacts::{host_binary, output, plugin};
pub use guesthouse_local::AuditEvent;
pub use host::{Arguments, Host};
pub use kinds::{child, condition};
pub use plane::Plane;
pub use receiver::Receiver;
pub use run::{now_ms, scenario, scenario_on};
pub use scene::Scene;
