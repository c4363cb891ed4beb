//! Nothing of one call is seen by another: not by the same plugin, not by another one whose instance takes the place.

use guesthouse_core::limits::Limits;
use guesthouse_sandbox::{Plugin, Settings, Verb};

use crate::support::*;

/// A program that traps if it finds anything in fresh memory or tables, leaves a canary in all of them, and then decides
/// nothing. `rounds`: how often it looks in one call.
fn canary(name: &str, rounds: u32) -> Vec<u8> {
    let described = format!(
        r#"{{"contract":"guesthouse:reconciler@0.1.0","descriptor":{{"name":"{name}","version":"1"}}}}"#
    );
    let quoted = described.replace('"', "\\22");
    let look = "(call $look)".repeat(rounds as usize);
    let text = format!(
        r#"(module
            (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (table $table 1 50000 funcref)
            (data (i32.const 1000) "{quoted}")
            (data (i32.const 2000) "{{\22decision\22:{{}}}}")
            (func $nothing)
            (elem declare func $nothing)
            (global $grown (mut i32) (i32.const 0))
            (func $look (local $at i32) (local $end i32)
                (local.set $at (i32.const 8192))
                (local.set $end (i32.mul (memory.size) (i32.const 65536)))
                (loop $bytes
                    (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then unreachable))
                    (i64.store (local.get $at) (i64.const 0x5ec2e75ec2e75ec2))
                    (local.set $at (i32.add (local.get $at) (i32.const 8)))
                    (br_if $bytes (i32.lt_u (local.get $at) (local.get $end))))
                (local.set $at (i32.const 0))
                (loop $entries
                    (if (i32.eqz (ref.is_null (table.get $table (local.get $at)))) (then unreachable))
                    (table.set $table (local.get $at) (ref.func $nothing))
                    (local.set $at (i32.add (local.get $at) (i32.const 1)))
                    (br_if $entries (i32.lt_u (local.get $at) (table.size $table)))))
            (func $print (param $place i32) (param $len i32)
                (i32.store (i32.const 0) (local.get $place))
                (i32.store (i32.const 4) (local.get $len))
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
            (func (export "_start")
                (drop (memory.grow (i32.const 400)))
                (drop (table.grow $table (ref.null func) (i32.const 40000)))
                {look}
                (drop (call $args (i32.const 16) (i32.const 64)))
                (if (i32.eq (i32.load8_u (i32.load (i32.const 20))) (i32.const 100))
                    (then (call $print (i32.const 1000) (i32.const {len})))
                    (else (call $print (i32.const 2000) (i32.const 15))))))"#,
        len = described.len(),
    );
    wat::parse_str(text).expect("valid text")
}

#[test]
fn no_byte_and_no_table_entry_of_a_call_is_seen_by_another() {
    // One slot: every instance takes the place of the one before.
    let sandbox = sandbox(Settings {
        slots: 1,
        ..Settings::default()
    });
    assert_eq!(sandbox.degraded(), None, "instances share a pool");
    let plugins: Vec<Plugin> = ["one", "two"]
        .iter()
        .map(|name| sandbox.load(&canary(name, 1)).expect("it loads"))
        .collect();
    for _ in 0..20 {
        for plugin in &plugins {
            let called =
                on_call_stack(|| plugin.call(Verb::Reconcile, &seen("{}"), &Limits::default()));
            assert!(called.result.is_ok(), "{:?}", called.result);
            assert!(called.used.memory_peak > 26_000_000, "{:?}", called.used);
        }
    }
}

#[test]
fn a_canary_that_is_there_is_found() {
    let refusal = load_error(&sandbox(Settings::default()), &canary("twice", 2));
    assert!(refusal.message.contains("unreachable"), "{refusal}");
}

#[test]
fn tables_count_and_are_bounded() {
    let grows = |entries: u32| {
        let text = format!(
            r#"(module
                (memory (export "memory") 1)
                (table $t 1 funcref)
                (func (export "_start")
                    (if (i32.eq (table.grow $t (ref.null func) (i32.const {entries})) (i32.const -1))
                        (then unreachable))))"#
        );
        load_refused(&text).1
    };
    // It came to its end and said nothing.
    assert!(grows(90_000).contains("standard output is empty"));
    // Over what the pool has for one table, and over the limit of memory: the program is told no.
    for entries in [200_000, 20_000_000] {
        let message = grows(entries);
        assert!(
            message.contains("limits.memory") || message.contains("unreachable"),
            "{message}"
        );
    }
    // One that is too large from the start does not get that far.
    let large = r#"(module (memory (export "memory") 1) (table 10000000 funcref) (func (export "_start")))"#;
    let (kind, message) = load_refused(large);
    assert_eq!(
        kind,
        guesthouse_core::refusal::RefusalKind::TooLarge,
        "{message}"
    );
}
