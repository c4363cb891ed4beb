//! One plugin for each digest, and its native code only while it is called.

use std::{fs, path::Path, time::Duration};

use guesthouse_core::{limits::Limits, refusal::RefusalKind};
use guesthouse_sandbox::{CacheAt, CacheKey, Plugin, Recall, Sandbox, Settings, Stats, Verb};

use crate::support::*;

fn cached(dir: &Path, recall: Option<Recall>) -> Sandbox {
    sandbox(Settings {
        cache: Some(CacheAt {
            dir: dir.join("code"),
            key: CacheKey::new([7; 32]),
        }),
        recall,
        ..Settings::default()
    })
}

fn works(plugin: &Plugin) {
    let called = on_call_stack(|| {
        plugin.call(
            Verb::Reconcile,
            &seen(r#"{"do":"nothing"}"#),
            &Limits::default(),
        )
    });
    assert!(called.result.is_ok(), "{:?}", called.result);
}

#[test]
fn the_same_bytes_are_compiled_once_however_many_load_them_at_once() {
    let sandbox = sandbox(Settings::default());
    let plugins: Vec<Plugin> = std::thread::scope(|scope| {
        let load = || sandbox.load(command()).unwrap();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let wanted = Stats {
        plugins: 1,
        resident: 1,
        compiled: 1,
        shared: 3,
        ..Stats::default()
    };
    assert_eq!(sandbox.stats(), wanted);
    plugins.iter().for_each(works);
    drop(plugins);
    let gone = Stats {
        plugins: 0,
        resident: 0,
        ..wanted
    };
    assert_eq!(sandbox.stats(), gone, "it goes with the last who holds it");
}

#[test]
fn a_plugin_that_is_not_called_gives_up_its_code_and_the_next_call_brings_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = cached(dir.path(), None);
    let plugin = sandbox.load(command()).unwrap();
    assert_eq!(
        sandbox.rest(Duration::from_secs(3600)),
        0,
        "it was just used"
    );
    assert_eq!(sandbox.rest(Duration::ZERO), 1);
    assert_eq!(
        sandbox.rest(Duration::ZERO),
        0,
        "there is nothing left to give"
    );
    let stats = sandbox.stats();
    assert_eq!((stats.plugins, stats.resident, stats.rested), (1, 0, 1));
    assert_eq!(plugin.descriptor().name, "command", "it is still described");
    works(&plugin);
    let stats = sandbox.stats();
    assert_eq!((stats.resident, stats.woken, stats.compiled), (1, 1, 1));
}

#[test]
fn without_a_cache_code_is_kept() {
    let sandbox = sandbox(Settings::default());
    let plugin = sandbox.load(command()).unwrap();
    assert_eq!(sandbox.rest(Duration::ZERO), 0);
    works(&plugin);
}

#[test]
fn code_that_went_from_the_cache_is_made_again_from_the_bytes_if_they_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let forget = || {
        for entry in fs::read_dir(dir.path().join("code")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    };
    let recall = Recall::new(|_| Some(command().to_vec()));
    let sandbox = cached(dir.path(), Some(recall));
    let plugin = sandbox.load(command()).unwrap();
    sandbox.rest(Duration::ZERO);
    forget();
    works(&plugin);
    assert_eq!(sandbox.stats().compiled, 2);

    // Bytes of another hash are none.
    let liar = Recall::new(|_| Some(wasm().to_vec()));
    let sandbox = cached(dir.path(), Some(liar));
    let plugin = sandbox.load(command()).unwrap();
    sandbox.rest(Duration::ZERO);
    forget();
    let refusal = plugin.open(&Limits::default()).err().unwrap();
    assert_eq!(refusal.kind, RefusalKind::Host);
    assert!(refusal.message.contains("kept nowhere"), "{refusal}");
    // It is loaded again, and serves.
    drop(plugin);
    works(&sandbox.load(command()).unwrap());
}

/// wasmtime#14314: the compiler's contexts live as long as its engine, so each compilation has an engine of its own.
#[test]
fn compilations_leave_no_memory_behind() {
    in_own_process("registry::compilations_alone");
}

#[test]
#[ignore = "measures its process; started by the test above"]
fn compilations_alone() {
    let sandbox = sandbox(Settings::default());
    let compile = |number: u8| {
        // A custom section that nobody reads makes it another module.
        let module = [command(), &[0, 3, 1, b'n', number]].concat();
        works(&sandbox.load(&module).unwrap());
    };
    (0..4).for_each(compile);
    let before = resident();
    (4..24).for_each(compile);
    let grown = resident().saturating_sub(before);
    assert_eq!(sandbox.stats().compiled, 24);
    assert!(grown < 16 << 20, "{grown} bytes more after 20 compilations");
}
