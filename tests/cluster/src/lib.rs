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
mod plane;
mod run;
mod scene;

pub use api::{
    Api, CONFIG_MAPS, ECHOES, EVENTS, Event, JOURNALS, KINDS, LEASES, NAMESPACES, REPORT_JOBS,
    ROLE_BINDINGS, ROLES, Resource,
};
pub use artifacts::{host_binary, output, plugin};
pub use host::{Arguments, Host};
pub use plane::Plane;
pub use run::{now_ms, scenario, scenario_on};
pub use scene::Scene;
