//! Each limit obeyed and violated.

use crate::support::*;

const OVER_50_MS: &str =
    "Timeout: the call took longer than 50ms of CPU time, or than 200ms by the clock (limits.time)";

#[test]
fn memory_within_the_limit_is_had_and_counted() {
    let called = within(r#"{"do":"eat","n":20}"#, &memory(64));
    assert!(
        called.used.memory_peak > 20 << 20 && called.used.memory_peak < 40 << 20,
        "{:?}",
        called.used
    );
    assert_eq!(status(called).0, r#"{"ate":20}"#);
}

#[test]
fn memory_over_the_limit_is_refused_as_such_although_the_guest_panics() {
    let called = within(r#"{"do":"eat","n":100}"#, &memory(64));
    assert!(called.used.memory_peak <= 64 << 20);
    let text = refused(called);
    assert!(
        text.starts_with(
            "OutOfMemory: memories and tables together would be over 64Mi (limits.memory)"
        ),
        "{text}"
    );
    assert!(
        text.contains("memory allocation of"),
        "the guest's own words: {text}"
    );
}

#[test]
fn a_guest_that_handles_the_want_of_memory_has_its_say() {
    assert_eq!(
        status(within(r#"{"do":"try to eat","n":100}"#, &memory(64))).0,
        r#"{"got":false}"#
    );
    assert_eq!(
        status(within(r#"{"do":"try to eat","n":100}"#, &memory(200))).0,
        r#"{"got":true}"#
    );
}

#[test]
fn one_memory_ends_at_256_mebibytes_whatever_the_limit() {
    assert_eq!(
        status(within(r#"{"do":"try to eat","n":250}"#, &memory(1024))).0,
        r#"{"got":true}"#
    );
    assert_eq!(
        status(within(r#"{"do":"try to eat","n":256}"#, &memory(1024))).0,
        r#"{"got":false}"#
    );
}

#[test]
fn several_memories_are_limited_together() {
    let two = |pages: u32| {
        load_refused(&format!(
            r#"(component
                (core module $m (memory {pages}) (func (export "f")))
                (core instance $a (instantiate $m))
                (core instance $b (instantiate $m))
                (func $f (canon lift (core func $a "f")))
                (instance $p (export "describe" (func $f)) (export "reconcile" (func $f)) (export "finalize" (func $f)))
                (export "guesthouse:reconciler/plugin@0.1.0" (instance $p)))"#
        ))
    };
    // 40 MiB each: either alone would be within the 64 MiB of a load.
    assert_eq!(
        two(640).1,
        "describe: memories and tables together would be over 64Mi (limits.memory)"
    );
    // 30 MiB each: what is wrong now is something else.
    assert!(
        two(480).1.contains("other types than the contract's"),
        "{:?}",
        two(480)
    );
}

/// adm-controller#1982: the clock runs whoever has set a limit.
#[test]
fn a_loop_without_end_is_a_timeout_that_names_the_limit() {
    let called = within(r#"{"do":"loop"}"#, &time(50));
    let used = called.used;
    assert_eq!(refused(called), OVER_50_MS);
    assert!(
        used.elapsed >= std::time::Duration::from_millis(50),
        "never early: {used:?}"
    );
}

#[test]
fn a_loop_of_bulk_memory_operations_times_out_too() {
    assert_eq!(refused(within(r#"{"do":"fill"}"#, &time(50))), OVER_50_MS);
}

#[test]
fn work_within_the_time_is_done() {
    assert_eq!(
        status(within(r#"{"do":"deep","n":10}"#, &time(5000))).0,
        "10"
    );
}

#[test]
fn a_sleep_takes_no_time_of_the_host() {
    // Were the thread held for one second only, the call would be over four times its limit.
    assert_eq!(
        status(within(r#"{"do":"sleep","n":3600}"#, &time(1000))).0,
        r#"{"slept":3600}"#
    );
}

/// wasmtime#9304
#[test]
fn recursion_is_limited_and_without_end_refused() {
    assert_eq!(status(call(r#"{"do":"deep","n":5000}"#)).0, "5000");
    let text = refused(call(r#"{"do":"recurse"}"#));
    assert_eq!(
        text,
        "StackOverflow: the plugin's calls are nested too deeply; is there a recursion without end?"
    );
}

#[test]
fn a_reply_within_the_limit_is_taken_and_over_it_too_large() {
    assert_eq!(
        status(within(r#"{"do":"large","n":90000}"#, &output(100_000)))
            .0
            .len(),
        90_002
    );
    assert_eq!(
        refused(within(r#"{"do":"large","n":100001}"#, &output(100_000))),
        "TooLarge: the plugin handed the host more than 100000 at once (limits.output)"
    );
}

/// adm-controller#2016, fluvio#1246
#[test]
fn endless_printing_and_logging_is_cut_and_counted_and_never_an_error_of_its_own() {
    for what in ["print", "log"] {
        let called = within(&format!(r#"{{"do":"{what}","n":5000}}"#), &logs(1000));
        let kept: usize = called.logs.iter().map(|line| line.message.len()).sum();
        assert!(kept <= 1000, "{what}: {kept}");
        assert_eq!(called.logs[0].message, "line 0");
        // 5,000 lines, and from `print` one more without an end.
        let lines = if what == "print" { 5001 } else { 5000 };
        assert_eq!(
            called.logs.len() as u64 + called.dropped_logs,
            lines,
            "{what}"
        );
        decision(called);
        let endless = within(&format!(r#"{{"do":"{what}"}}"#), &time(50));
        assert!(endless.dropped_logs > 0);
        assert_eq!(refused(endless), OVER_50_MS);
    }
}

/// adm-controller#2016, istio#38215, envoy#39395
#[test]
fn a_thousand_failing_calls_in_a_row_leave_memory_as_it_was() {
    in_own_process("limits::a_thousand_failing_calls_alone");
}

#[test]
#[ignore = "measures its process; started by the test above"]
fn a_thousand_failing_calls_alone() {
    let fail = || {
        for order in [
            r#"{"do":"panic"}"#,
            r#"{"do":"eat","n":100}"#,
            r#"{"do":"bad status"}"#,
            r#"{"do":"recurse"}"#,
        ] {
            drop(call(order));
        }
    };
    (0..25).for_each(|_| fail());
    let before = resident();
    (0..250).for_each(|_| fail());
    let grown = resident().saturating_sub(before);
    assert!(grown < 4 << 20, "{grown} bytes more after 1,000 calls");
    assert_eq!(status(call(r#"{"do":"echo"}"#)).0, r#"{"do":"echo"}"#);
}

#[test]
fn calls_beyond_the_slots_wait_and_all_are_served() {
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..32)
            .map(|n| {
                scope.spawn(move || {
                    status(call(&format!(r#"{{"do":"echo","n":{n}}}"#))).1["n"].as_u64()
                })
            })
            .collect();
        for (n, thread) in calls.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), Some(n as u64));
        }
    });
}
