//! Guesthouse on a real API server: each test is one claim. They share a control plane and run side by side.

mod cluster {
    mod drain;
    mod retries;
}
