//! Guesthouse on a real API server: each test is one claim. They share a control plane and run side by side.

mod cluster {
    mod breaker;
    mod children;
    mod configuration;
    mod crash;
    mod deletion;
    mod diff;
    mod drain;
    mod effects;
    mod faults;
    mod finalizers;
    mod hostile;
    mod kinds;
    mod languages;
    mod leases;
    mod life;
    mod order;
    mod outage;
    mod provision;
    mod related;
    mod removal;
    mod render;
    mod retries;
    mod schema;
    mod selectors;
    mod settled;
    mod sources;
    mod spec;
    mod swap;
    mod swaps;
    mod values;
    mod website;
    mod wrongs;
}
