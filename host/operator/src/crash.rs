//! Named points at which a host can be told to kill itself, and named wrongs that it can be told to do: so that tests see
//! what a crash leaves behind, and that they would see a host that does wrong.
//!
//! Both are compiled in with the feature `crash-points` alone; without it every function here is empty. With it
//! `GUESTHOUSE_CRASH=NAME[:N]` ends the process by SIGKILL when it passes a point for the N-th time (the first, by default):
//! nothing is unwound, flushed or closed, as with a machine that loses its power. `GUESTHOUSE_MUTANT=NAME` turns on a wrong.

/// All points. `guesthouse crash-points` lists them.
pub const POINTS: [&str; 24] = [
    "before-finalizer-write",
    "after-finalizer-write",
    "before-journal",
    "after-journal",
    "before-apply",
    "after-apply",
    "before-delete",
    "after-delete",
    "before-send",
    "after-send",
    "after-answer",
    "before-receipt",
    "after-receipt",
    "before-labels",
    "after-labels",
    "before-status",
    "after-status",
    "before-finalizer-removal",
    "after-finalizer-removal",
    "before-lease-renew",
    "after-lease-loss",
    "during-cache-write",
    "before-cache-rename",
    "during-swap-publish",
];

/// All wrongs.
pub const MUTANTS: [&str; 8] = [
    // Receipts are not journaled: what was answered is forgotten by a crash.
    "skip-receipt-journal",
    // A watch begins with whatever state the server has at hand, be it older than one seen before.
    "list-from-cache",
    // Each process has idempotency keys of its own: what was sent before a crash is done again after it.
    "key-per-process",
    // Every decision counts as complete: what a plugin says nothing of is pruned.
    "prune-without-complete",
    // Children are made before they are on record: a crash in between leaves some that nobody knows of.
    "create-before-inventory",
    // The first pass of an object puts no finalizer on: what it makes outside is nobody's if the object goes then.
    "finalizer-after-effect",
    // Children are deleted by name alone, whoever has that name by now.
    "delete-without-uid",
    // The finalizer goes without the clean-up.
    "let-go-early",
];

pub(crate) use kind::{Steps, check, is_first, is_mutant, pass};

#[cfg(feature = "crash-points")]
mod kind {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};

    use super::{MUTANTS, POINTS};

    /// Where, and at which passing.
    struct Armed {
        point: &'static str,
        at: u64,
    }

    fn armed() -> Option<&'static Armed> {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        let read = || parse(&std::env::var("GUESTHOUSE_CRASH").ok()?).ok();
        ARMED.get_or_init(read).as_ref()
    }

    fn parse(text: &str) -> Result<Armed, String> {
        let (name, at) = text.split_once(':').unwrap_or((text, "1"));
        let point = POINTS.into_iter().find(|point| *point == name);
        let point = point.ok_or_else(|| {
            format!(
                "GUESTHOUSE_CRASH: there is no point `{name}`; `guesthouse crash-points` lists them"
            )
        })?;
        let at = at.parse().ok().filter(|at| *at > 0);
        let at = at.ok_or_else(|| format!("GUESTHOUSE_CRASH: `{text}` does not end in a count"))?;
        Ok(Armed { point, at })
    }

    /// Says what is armed; an error if it is nothing that exists.
    pub(crate) fn check() -> Result<(), String> {
        if let Ok(text) = std::env::var("GUESTHOUSE_CRASH") {
            let Armed { point, at } = parse(&text)?;
            tracing::warn!(point, at, "this host will kill itself");
        }
        if let Ok(name) = std::env::var("GUESTHOUSE_MUTANT") {
            if !MUTANTS.contains(&name.as_str()) {
                return Err(format!("GUESTHOUSE_MUTANT: there is no `{name}`"));
            }
            tracing::warn!(name, "this host does wrong");
        }
        guesthouse_sandbox::on_cache_write(pass);
        Ok(())
    }

    /// A point is passed.
    pub(crate) fn pass(point: &'static str) {
        static PASSED: AtomicU64 = AtomicU64::new(0);
        let Some(armed) = armed().filter(|armed| armed.point == point) else {
            return;
        };
        let count = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
        if count < armed.at {
            return;
        }
        tracing::warn!(point, count, "killing this host");
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        // Not one step further, should the signal be slow.
        loop {
            std::thread::park();
        }
    }

    /// Whether a wrong is turned on.
    pub(crate) fn is_mutant(name: &str) -> bool {
        static MUTANT: OnceLock<Option<String>> = OnceLock::new();
        let read = || std::env::var("GUESTHOUSE_MUTANT").ok();
        MUTANT.get_or_init(read).as_deref() == Some(name)
    }

    /// Whether this process is asked for that object for the first time.
    pub(crate) fn is_first(object: &str) -> bool {
        static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(object.to_owned())
    }

    /// The steps of one pass, told before and after each is carried out.
    pub(crate) struct Steps {
        sent: bool,
        after: Option<&'static str>,
    }

    impl Steps {
        pub(crate) fn new() -> Self {
            Self {
                sent: false,
                after: None,
            }
        }

        pub(crate) fn before(&mut self, step: &str) {
            let (before, after) = match step {
                // What was just answered is what the journal is written for.
                "journal" if self.sent => ("before-receipt", Some("after-receipt")),
                "journal" => ("before-journal", Some("after-journal")),
                "finalizer" => ("before-finalizer-write", Some("after-finalizer-write")),
                "finalizer-removal" => {
                    ("before-finalizer-removal", Some("after-finalizer-removal"))
                }
                "apply" => ("before-apply", Some("after-apply")),
                "remove" => ("before-delete", Some("after-delete")),
                "send" => ("before-send", Some("after-answer")),
                "patch" => ("before-labels", Some("after-labels")),
                "status" => ("before-status", Some("after-status")),
                _ => ("", None),
            };
            pass(before);
            self.sent = step == "send";
            self.after = after;
        }

        pub(crate) fn after(&mut self) {
            if let Some(point) = self.after.take() {
                pass(point);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_point_and_a_count_are_read_and_anything_else_is_refused() {
            let read = |text| parse(text).map(|armed| (armed.point, armed.at));
            assert_eq!(read("before-status"), Ok(("before-status", 1)));
            assert_eq!(read("after-send:7"), Ok(("after-send", 7)));
            for wrong in ["", "nowhere", "after-send:", "after-send:0", "after-send:x"] {
                assert!(read(wrong).is_err(), "{wrong}");
            }
        }
    }
}

#[cfg(not(feature = "crash-points"))]
mod kind {
    pub(crate) fn check() -> Result<(), String> {
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn pass(_: &'static str) {}

    #[inline(always)]
    pub(crate) fn is_mutant(_: &str) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn is_first(_: &str) -> bool {
        false
    }

    pub(crate) struct Steps;

    impl Steps {
        #[inline(always)]
        pub(crate) fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn before(&mut self, _: &str) {}

        #[inline(always)]
        pub(crate) fn after(&mut self) {}
    }
}
