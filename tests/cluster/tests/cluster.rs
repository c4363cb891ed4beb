//! Guesthouse on a real API server: each test is one claim. They share a control plane and run side by side.

mod cluster {
    mod configuration;
    mod crash;
    mod deletion;
    mod drain;
    mod faults;
    mod hostile;
    mod kinds;
    mod leases;
    mod order;
    mod outage;
    mod related;
    mod render;
    mod retries;
    mod schema;
    mod settled;
    mod spec;
    mod swap;
    mod values;
}
