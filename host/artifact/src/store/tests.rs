use std::os::unix::fs::PermissionsExt;

use super::*;

/// A store for so many bytes in a folder of its own.
fn store(max_bytes: u64) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("plugins"), max_bytes).unwrap();
    (dir, store)
}

/// As if it had been used so many seconds ago.
fn age(store: &Store, digest: &Digest, seconds: u64) {
    let file = File::open(store.path(digest)).unwrap();
    let time = SystemTime::now() - Duration::from_secs(seconds);
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

#[test]
fn what_was_put_is_got_by_a_later_process_and_nothing_else_is() {
    let (dir, store) = store(100);
    let digest = store.put(b"plugin");
    assert_eq!(digest, Digest::of(b"plugin"));
    let later = Store::open(&dir.path().join("plugins"), 100).unwrap();
    assert_eq!(later.get(&digest).unwrap(), b"plugin");
    assert_eq!(later.get(&Digest::of(b"other")), None);
}

#[test]
fn torn_flipped_foreign_and_linked_entries_are_misses_and_are_replaced() {
    let (dir, store) = store(100);
    let digest = store.put(b"plugin");
    let path = store.path(&digest);
    for wrong in [&b""[..], b"plugi", b"plugim", b"something else", &[7; 200]] {
        fs::write(&path, wrong).unwrap();
        assert_eq!(store.get(&digest), None, "{wrong:?}");
        store.put(b"plugin");
        assert_eq!(store.get(&digest).unwrap(), b"plugin", "after {wrong:?}");
    }
    let elsewhere = dir.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    assert_eq!(store.get(&digest), None, "a link was followed");
}

#[test]
fn what_was_used_longest_ago_goes_first_and_the_bytes_are_held_to_their_size() {
    let (_dir, store) = store(30);
    let old = store.put(b"aaaaaaaaaa");
    let used = store.put(b"bbbbbbbbbb");
    let third = store.put(b"cccccccccc");
    age(&store, &old, 30);
    age(&store, &used, 60);
    age(&store, &third, 10);
    assert!(store.get(&used).is_some(), "reading is using");
    let fourth = store.put(b"dddddddddd");
    assert_eq!(store.get(&old), None);
    for kept in [used, third, fourth] {
        assert!(store.get(&kept).is_some());
    }
    let large = store.put(&[0; 31]);
    assert_eq!(store.get(&large), None, "larger than the whole store");
    assert!(store.get(&fourth).is_some(), "and nothing went for it");
}

#[test]
fn what_is_pinned_stays_until_it_is_let_go() {
    let (_dir, store) = store(10);
    let pinned = store.put(b"aaaaaaaaaa");
    let pin = store.pin(&pinned);
    let again = store.pin(&pinned);
    age(&store, &pinned, 60);
    store.put(b"b");
    drop(pin);
    age(&store, &pinned, 60);
    store.put(b"c");
    assert!(store.get(&pinned).is_some(), "it is pinned still");
    drop(again);
    age(&store, &pinned, 60);
    store.put(b"d");
    assert_eq!(store.get(&pinned), None);
}

#[test]
fn a_note_is_replaced_whole_and_a_torn_one_is_none() {
    let (_dir, store) = store(10);
    assert_eq!(store.noted("registry/plugin:1"), None);
    store.note("registry/plugin:1", b"one");
    store.note("registry/plugin:1", b"two");
    assert_eq!(store.noted("registry/plugin:1").unwrap(), b"two");
    assert_eq!(store.noted("registry/plugin:2"), None);
    let path = store.note_path("registry/plugin:1");
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        fs::write(&path, &good[..at]).unwrap();
        assert_eq!(store.noted("registry/plugin:1"), None, "torn at {at}");
    }
}

#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Store::open(&open, 10).unwrap_err().to_string();
    assert!(error.contains("chmod 700"), "{error}");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(Store::open(&file, 10).is_err());
}

#[test]
fn what_a_killed_process_left_half_written_goes_after_a_while_and_is_never_got() {
    let (dir, store) = store(100);
    let digest = Digest::of(b"plugin");
    let half = aside(&store.path(&digest));
    fs::write(&half, b"plug").unwrap();
    assert_eq!(store.get(&digest), None);
    let reopen = || Store::open(&dir.path().join("plugins"), 100).unwrap();
    reopen();
    assert!(half.exists(), "it may be written right now");
    let time = SystemTime::now() - ABANDONED - Duration::from_secs(1);
    let file = File::open(&half).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
    reopen();
    assert!(!half.exists());
}
