//! From bytes to a plugin: what is refused before compiling, how compilation is bounded, and what the cache trusts.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use guesthouse_core::refusal::RefusalKind::{self, *};
use guesthouse_sandbox::{Budget, CacheAt, CacheKey, Compiler, Metering, Sandbox, Settings, Verb};

use crate::support::*;

/// A sandbox whose compiler does not exist: whatever is refused here is refused before compiling.
fn cannot_compile() -> Sandbox {
    sandbox(Settings {
        compiler: Compiler::Child {
            exe: "/no/such/compiler".into(),
            args: Vec::new(),
        },
        ..Settings::default()
    })
}

#[track_caller]
fn refused_uncompiled(wasm: &[u8], kind: RefusalKind, part: &str) {
    let refusal = load_error(&cannot_compile(), wasm);
    assert_eq!(refusal.kind, kind, "{refusal}");
    assert!(refusal.message.contains(part), "{refusal}");
}

#[track_caller]
fn text_refused_uncompiled(wat: &str, kind: RefusalKind, part: &str) {
    refused_uncompiled(&wat::parse_str(wat).unwrap(), kind, part);
}

#[test]
fn a_core_module_loads_as_cargo_leaves_it() {
    let plugin = plugin();
    assert_eq!(plugin.descriptor().name, "obedient");
    assert!(
        plugin.digest().starts_with("sha256:") && plugin.digest().len() == 71,
        "{}",
        plugin.digest()
    );
    assert!(!plugin.cached());
}

#[test]
fn a_ready_made_component_loads_as_it_is() {
    let adapter = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
    let encoder = wit_component::ComponentEncoder::default()
        .module(wasm())
        .unwrap();
    let component = encoder
        .adapter("wasi_snapshot_preview1", adapter)
        .unwrap()
        .encode()
        .unwrap();
    let loaded = sandbox(Settings::default()).load(&component).unwrap();
    assert_ne!(
        loaded.digest(),
        plugin().digest(),
        "a digest is of the bytes that were given"
    );
    let limits = guesthouse_core::limits::Limits::default();
    assert_eq!(
        status(loaded.call(Verb::Reconcile, &seen(r#"{"do":"echo"}"#), &limits)).0,
        r#"{"do":"echo"}"#
    );
}

#[test]
fn precompiled_code_is_refused() {
    let code = wasmtime::Engine::default()
        .precompile_module(b"\0asm\x01\0\0\0")
        .unwrap();
    refused_uncompiled(&code, Precompiled, "give the WebAssembly it was made from");
    refused_uncompiled(b"\x7fELF and so on", Precompiled, "compiled native code");
}

#[test]
fn what_is_not_webassembly_or_damaged_is_refused() {
    refused_uncompiled(b"", BadModule, "not WebAssembly");
    refused_uncompiled(b"#!/bin/sh", BadModule, "not WebAssembly");
    refused_uncompiled(b"\x28\xb5\x2f\xfd", BadModule, "packed by zstd");
    refused_uncompiled(&wasm()[..wasm().len() / 2], BadModule, "damaged");
}

#[test]
fn a_module_over_the_size_limit_is_refused() {
    let small = sandbox(Settings {
        max_module: 1000,
        ..Settings::default()
    });
    let refusal = load_error(&small, wasm());
    assert_eq!(
        refusal.to_string(),
        format!(
            "TooLarge: the module has {} bytes, at most 1000 are taken",
            wasm().len()
        )
    );
}

#[test]
fn another_contract_version_is_named_with_ours() {
    let of = |version: &str| {
        format!(
            r#"(component (instance $p) (export "guesthouse:reconciler/plugin@{version}" (instance $p)))"#
        )
    };
    let text =
        "built against guesthouse:reconciler@0.2.0, this host serves guesthouse:reconciler@0.1.0";
    text_refused_uncompiled(&of("0.2.0"), ContractMismatch, text);
    text_refused_uncompiled(
        &of("0.1.0-draft"),
        ContractMismatch,
        "guesthouse:reconciler@0.1.0-draft",
    );
    // The right one gets as far as the compiler that is not there.
    text_refused_uncompiled(&of("0.1.7"), Host, "/no/such/compiler");
}

#[test]
fn a_core_modules_contract_version_is_read_before_compiling() {
    // The version stands in the module's types and in the names of its exports; only the types decide.
    let mut other = wasm().to_vec();
    let section = find(&other, b"component-type:");
    let mut changed = 0;
    for at in section..other.len() - 5 {
        if &other[at..at + 5] == b"0.1.0" {
            other[at + 2] = b'2';
            changed += 1;
        }
    }
    assert!(changed > 0, "the section names a version");
    refused_uncompiled(
        &other,
        ContractMismatch,
        "guesthouse:reconciler@0.2.0, this host serves guesthouse:reconciler@0.1.0",
    );
}

fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes
        .windows(part.len())
        .position(|window| window == part)
        .expect("the part is there")
}

#[test]
fn a_module_without_the_contract_is_refused() {
    text_refused_uncompiled(
        "(module)",
        ContractMismatch,
        "exports neither the contract guesthouse:reconciler@0.1.0 nor a command's `_start`",
    );
    text_refused_uncompiled(
        "(component)",
        ContractMismatch,
        "exports neither the contract",
    );
}

#[test]
fn an_import_that_is_not_served_is_named() {
    let with = |import: &str| {
        format!(
            r#"(component (import "{import}" (instance)) (instance $p) (export "guesthouse:reconciler/plugin@0.1.0" (instance $p)))"#
        )
    };
    for import in [
        "wasi:http/outgoing-handler@0.2.0",
        "wasi:io/streams@0.3.0",
        "acme:own/thing@1.0.0",
    ] {
        text_refused_uncompiled(
            &with(import),
            ContractMismatch,
            &format!("imports `{import}`"),
        );
    }
}

#[test]
fn features_that_are_off_are_refused_as_not_valid_here() {
    for memory in ["(memory i64 1)", "(memory 1 1 shared)"] {
        let wat = format!(
            r#"(component (core module {memory}) (instance $p) (export "guesthouse:reconciler/plugin@0.1.0" (instance $p)))"#
        );
        text_refused_uncompiled(&wat, BadModule, "not valid here");
    }
}

/// A component whose start-up code calls a function of an import, which has `types` before it and returns `result`.
fn calls_at_start(import: &str, types: &str, result: &str) -> String {
    format!(
        r#"(component
            (import "{import}" (instance $i {types} (export "f" (func (result {result})))))
            (core module $mem (memory (export "memory") 1))
            (core instance $mem (instantiate $mem))
            (core func $f (canon lower (func $i "f") (memory (core memory $mem "memory"))))
            (core module $m
                (import "" "f" (func $f (param i32)))
                (func $go (call $f (i32.const 0)))
                (start $go)
                (func (export "g")))
            (core instance $c (instantiate $m (with "" (instance (export "f" (func $f))))))
            (func $g (canon lift (core func $c "g")))
            (instance $p (export "describe" (func $g)) (export "reconcile" (func $g)) (export "finalize" (func $g)))
            (export "guesthouse:reconciler/plugin@0.1.0" (instance $p)))"#
    )
}

#[test]
fn any_0_2_z_of_wasi_links_and_what_is_not_there_is_refused_when_used() {
    for (import, what) in [
        ("wasi:sockets/later@0.2.77", "the network"),
        ("wasi:filesystem/later@0.2.77", "files"),
        ("wasi:cli/later@0.2.0", "a part of WASI"),
    ] {
        let (kind, text) = load_refused(&calls_at_start(import, "", "(tuple u32 u32)"));
        assert_eq!(kind, Trap);
        assert_eq!(
            text,
            format!(
                "describe: the plugin used {what}, which plugins do not have: ask for it in the decision"
            )
        );
    }
}

#[test]
fn where_a_function_can_say_no_it_does_and_the_guest_goes_on() {
    let codes = r#"(type $codes (enum "unknown" "access-denied")) (export "error-code" (type $e (eq $codes)))"#;
    let wat = calls_at_start("wasi:sockets/tcp@0.2.3", codes, "(result u64 (error $e))");
    let (kind, text) = load_refused(&wat);
    // It went on up to what is wrong with this component anyway.
    assert_eq!(kind, ContractMismatch, "{text}");
    assert!(text.contains("other types than the contract's"), "{text}");
}

#[test]
fn too_many_core_modules_do_not_fit() {
    let instances: String = (0..200)
        .map(|_| "(core instance (instantiate $m))")
        .collect();
    let wat = format!(
        r#"(component (core module $m (memory 1)) {instances} (instance $p) (export "guesthouse:reconciler/plugin@0.1.0" (instance $p)))"#
    );
    let (kind, text) = load_refused(&wat);
    assert_eq!(kind, TooLarge, "{text}");
    assert!(text.starts_with("does not fit in here"), "{text}");
}

#[test]
fn without_a_pool_calls_still_work_and_it_is_said() {
    let slots = 200_000;
    let sandbox = sandbox(Settings {
        slots,
        ..Settings::default()
    });
    let why = sandbox
        .degraded()
        .expect("so much address space does not exist");
    assert!(why.starts_with("no pool for 200000 instances"), "{why}");
    let plugin = sandbox.load(wasm()).unwrap();
    assert_eq!(
        status(plugin.call(Verb::Reconcile, &seen("{}"), &memory(64))).0,
        "{}"
    );
    assert!(
        refused(plugin.call(
            Verb::Reconcile,
            &seen(r#"{"do":"eat","n":100}"#),
            &memory(64)
        ))
        .starts_with("OutOfMemory")
    );
}

mod children {
    //! The compiler as a child process.
    use super::*;

    fn child(exe: impl Into<PathBuf>, budget: Budget) -> Sandbox {
        sandbox(Settings {
            compiler: Compiler::Child {
                exe: exe.into(),
                args: Vec::new(),
            },
            budget,
            ..Settings::default()
        })
    }

    /// A compiler that does something else.
    fn script(dir: &Path, body: &str) -> PathBuf {
        let path = dir.join("compiler");
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    #[test]
    fn a_child_compiles_for_both_engines() {
        for metering in [Metering::Epoch, Metering::Fuel] {
            let compiler = Compiler::Child {
                exe: env!("CARGO_BIN_EXE_sandbox-compile").into(),
                args: Vec::new(),
            };
            let plugin = sandbox(Settings {
                compiler,
                metering,
                ..Settings::default()
            })
            .load(wasm())
            .unwrap();
            assert_eq!(
                status(plugin.call(Verb::Reconcile, &seen("{}"), &memory(64))).0,
                "{}"
            );
        }
    }

    #[test]
    fn a_child_over_its_time_is_killed_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let exe = script(
            dir.path(),
            "echo $$ > $(dirname $0)/pid\n(sleep 1000) & wait",
        );
        let began = Instant::now();
        let refusal = load_error(
            &child(
                exe,
                Budget {
                    time: Duration::from_secs(1),
                    ..Budget::default()
                },
            ),
            wasm(),
        );
        assert_eq!(
            refusal.to_string(),
            "CompileFailed: compiling took longer than 1 s; is the module larger than it need be?"
        );
        assert!(
            began.elapsed() < Duration::from_secs(500),
            "nobody waited for the sleep"
        );
        let group: i32 = fs::read_to_string(dir.path().join("pid"))
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let group = rustix::process::Pid::from_raw(group).unwrap();
        // The killed orphan may still wait to be reaped; as a zombie it is no longer running anything.
        let alive = || rustix::process::test_kill_process_group(group).is_ok() && running(group);
        assert!(!alive(), "the group is gone");
    }

    /// Whether any process of the group is more than a zombie.
    fn running(group: rustix::process::Pid) -> bool {
        let group = group.as_raw_nonzero().to_string();
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(Result::ok)
            .any(|entry| {
                let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
                let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
                fields.len() > 2 && fields[2] == group && fields[0] != "Z"
            })
    }

    #[test]
    fn a_child_over_its_memory_is_refused_as_such() {
        let exe = env!("CARGO_BIN_EXE_sandbox-compile");
        let refusal = load_error(
            &child(
                exe,
                Budget {
                    memory: 80 << 20,
                    ..Budget::default()
                },
            ),
            wasm(),
        );
        assert_eq!(refusal.kind, CompileFailed);
        assert!(
            refusal
                .message
                .starts_with("compiling needs more than 80 MiB of memory"),
            "{refusal}"
        );
    }

    #[test]
    fn what_a_child_says_is_the_refusals_text() {
        let dir = tempfile::tempdir().unwrap();
        let exe = script(
            dir.path(),
            "cat > /dev/null; echo no such instruction >&2; exit 1",
        );
        assert_eq!(
            load_error(&child(exe, Budget::default()), wasm()).to_string(),
            "CompileFailed: cannot be compiled: no such instruction"
        );
    }

    #[test]
    fn a_child_that_returns_rubbish_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let exe = script(dir.path(), "cat > /dev/null; echo rubbish");
        let refusal = load_error(&child(exe, Budget::default()), wasm());
        assert!(
            refusal.message.starts_with("does not fit in here"),
            "{refusal}"
        );
    }

    #[test]
    fn in_process_the_time_is_bounded_too() {
        let budget = Budget {
            time: Duration::ZERO,
            ..Budget::default()
        };
        let refusal = load_error(
            &sandbox(Settings {
                budget,
                ..Settings::default()
            }),
            wasm(),
        );
        assert_eq!(refusal.kind, CompileFailed, "{refusal}");
    }
}

mod cached {
    //! Compiled code from disk.
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn sandbox(&self, key: u8, metering: Metering) -> Sandbox {
            let cache = Some(CacheAt {
                dir: self.0.path().join("code"),
                key: CacheKey::new([key; 32]),
            });
            sandbox(Settings {
                cache,
                metering,
                ..Settings::default()
            })
        }

        fn entries(&self) -> Vec<PathBuf> {
            fs::read_dir(self.0.path().join("code"))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect()
        }
    }

    fn works(sandbox: &Sandbox) -> bool {
        let plugin = sandbox.load(wasm()).unwrap();
        assert_eq!(
            status(plugin.call(Verb::Reconcile, &seen("{}"), &memory(64))).0,
            "{}"
        );
        plugin.cached()
    }

    #[test]
    fn the_second_load_takes_the_code_of_the_first_also_after_a_restart() {
        let folder = Folder::new();
        assert!(!works(&folder.sandbox(1, Metering::Epoch)));
        assert!(works(&folder.sandbox(1, Metering::Epoch)));
        assert_eq!(folder.entries().len(), 1, "one entry, nothing left aside");
    }

    /// containerd-shim-spin#79, golem#3759
    #[test]
    fn torn_flipped_and_foreign_entries_are_compiled_anew_and_replaced() {
        let folder = Folder::new();
        works(&folder.sandbox(1, Metering::Epoch));
        let path = folder.entries().remove(0);
        let good = fs::read(&path).unwrap();
        let mut flipped = good.clone();
        flipped[good.len() / 2] ^= 1;
        for bad in [&good[..good.len() / 2], &flipped[..], b""] {
            fs::write(&path, bad).unwrap();
            assert!(!works(&folder.sandbox(1, Metering::Epoch)));
            assert!(works(&folder.sandbox(1, Metering::Epoch)));
        }
        assert!(!works(&folder.sandbox(2, Metering::Epoch)), "another key");
    }

    #[test]
    fn engines_have_entries_of_their_own_and_do_not_take_each_others() {
        let folder = Folder::new();
        works(&folder.sandbox(1, Metering::Epoch));
        let epoch = folder.entries().remove(0);
        assert!(!works(&folder.sandbox(1, Metering::Fuel)));
        assert_eq!(folder.entries().len(), 2);
        let fuel = folder
            .entries()
            .into_iter()
            .find(|path| *path != epoch)
            .unwrap();
        fs::copy(&epoch, &fuel).unwrap();
        assert!(!works(&folder.sandbox(1, Metering::Fuel)));
    }
}
