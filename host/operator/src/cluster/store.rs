//! The objects of one kind and scope, as text, in step with the server.
//!
//! An object costs its text and about 200 bytes: no tree of values, no `managedFields`. The store is written by one watch and
//! by the host's own writes ([`Store::absorb`]), so that a pass sees what it wrote before the watch tells. The rules:
//! - the newer version wins, whoever brings it; versions that are no numbers cannot be compared, then the watch wins;
//! - a deletion removes the object it names, never a newer one of the same name;
//! - an own write to an absent object counts only if it is newer than all the watch has told: else the object is gone;
//! - a list removes what it does not hold, unless that is an own write newer than the list.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use guesthouse_core::object::{ObjectError, ObjectKey, Stamp, Uid, join, utf8, version_number};

use super::request::typed;
use super::resource::Resource;

/// One object, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    uid: Uid,
    /// 0 if the text is no number.
    version: u64,
    generation: i64,
    deleting: bool,
    raw: Box<str>,
}

impl Entry {
    fn new(stamp: &Stamp<'_>, known: Option<&Uid>, raw: Box<str>) -> Self {
        let uid = known
            .filter(|uid| uid.as_str() == stamp.uid)
            .cloned()
            .unwrap_or_else(|| Uid::new(&stamp.uid));
        Self {
            uid,
            version: stamp.version().unwrap_or(0),
            generation: stamp.generation,
            deleting: stamp.deleting,
            raw,
        }
    }

    /// The whole object: apiVersion and kind included, `managedFields` left out.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Its uid.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Its resource version as a number, if it is one; the text stands in [`Entry::raw`].
    pub fn version(&self) -> Option<u64> {
        (self.version != 0).then_some(self.version)
    }

    /// Its generation, 0 if it has none.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Whether its deletion timestamp is set.
    pub fn is_deleting(&self) -> bool {
        self.deleting
    }
}

/// What became of an own write handed to [`Store::absorb`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absorbed {
    /// The store holds it now.
    Taken,
    /// The store already held this version or a newer one.
    Known,
    /// The object is gone by what the watch told since, or another object has its name.
    Gone,
}

/// The objects of one kind and scope. Shared and thread safe; no lock is held across an await.
#[derive(Debug, Default)]
pub struct Store {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    objects: HashMap<ObjectKey, Slot>,
    /// The newest version the watch has told of: everything up to it is in the store.
    floor: u64,
    /// Counts lists; a slot of an older round was not in the current one.
    round: u32,
    /// Whether what the store holds outweighs older versions. Not after the server's versions went backwards.
    distrust: bool,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    round: u32,
}

/// What an event of the watch meant to the store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) key: ObjectKey,
    /// The version told, 0 if it is no number.
    pub(crate) version: u64,
    /// Whether this version of the object was new to the store, or older than an own write it holds: both are news.
    pub(crate) news: bool,
}

/// The list is older than what the watch told before: the server's data went back (a restored backup).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Backwards;

impl Store {
    /// The object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Entry>> {
        self.read().objects.get(key).map(|slot| slot.entry.clone())
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.read().objects.keys().cloned().collect()
    }

    /// All objects, in no order.
    pub fn entries(&self) -> Vec<(ObjectKey, Arc<Entry>)> {
        self.read()
            .objects
            .iter()
            .map(|(key, slot)| (key.clone(), slot.entry.clone()))
            .collect()
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest version the watch has told of (events, bookmarks, lists), 0 before the first list.
    pub fn version(&self) -> u64 {
        self.read().floor
    }

    /// Takes over the object an own write answered with, if it is newer than what the store holds.
    pub fn absorb(&self, raw: &[u8]) -> Result<Absorbed, ObjectError> {
        let text = utf8(raw)?.trim_ascii();
        let stamp = Stamp::parse(text)?;
        let key = ObjectKey::new(&stamp.namespace, &stamp.name);
        let version = stamp.version().unwrap_or(0);
        let (before, after) = stamp.without_managed(text);
        let raw = join(&[before, after]);
        let mut inner = self.write();
        match inner.objects.get(&key).map(|slot| slot.entry.clone()) {
            Some(held) if held.uid.as_str() == stamp.uid => {
                if version != 0 && held.version >= version {
                    return Ok(Absorbed::Known);
                }
                let entry = Arc::new(Entry::new(&stamp, Some(&held.uid), raw));
                inner
                    .objects
                    .entry(key)
                    .and_modify(|slot| slot.entry = entry);
            }
            // Absent, or recreated under another uid: only a version above everything told can be the newer one.
            ref other
                if version <= inner.floor
                    || other.as_ref().is_some_and(|held| held.version >= version) =>
            {
                return Ok(Absorbed::Gone);
            }
            _ => {
                // Round 0: no list has shown it.
                inner.objects.insert(
                    key,
                    Slot {
                        entry: Arc::new(Entry::new(&stamp, None, raw)),
                        round: 0,
                    },
                );
            }
        }
        Ok(Absorbed::Taken)
    }

    /// An object the watch told of, its text and what was parsed of it; `live` if by an event after the list. `scratch` is
    /// reused between calls.
    pub(crate) fn observe(
        &self,
        text: &str,
        stamp: &Stamp<'_>,
        resource: &Resource,
        live: bool,
        scratch: &mut String,
    ) -> Told {
        let version = stamp.version().unwrap_or(0);
        let parts = typed(text, resource, stamp);
        let raw = join(&[&parts.0, parts.1, parts.2]);
        write_key(scratch, stamp);
        let mut inner = self.write();
        if live {
            inner.floor = inner.floor.max(version);
        }
        let (round, distrust) = (inner.round, inner.distrust);
        let known = inner
            .objects
            .get_key_value(scratch.as_str())
            .map(|(key, _)| key.clone());
        let Some(key) = known else {
            let key = ObjectKey::new(&stamp.namespace, &stamp.name);
            inner.objects.insert(
                key.clone(),
                Slot {
                    entry: Arc::new(Entry::new(stamp, None, raw)),
                    round,
                },
            );
            return Told {
                key,
                version,
                news: true,
            };
        };
        let mut news = true;
        if let Some(slot) = inner.objects.get_mut(&key) {
            slot.round = round;
            let held = slot.entry.version;
            if version != 0 && held == version && slot.entry.uid.as_str() == stamp.uid {
                // An own write taken over before is news to nobody, but a live event is always told on: whoever counts
                // own echoes knows them by their version.
                news = live;
            } else if version == 0 || held < version || distrust {
                slot.entry = Arc::new(Entry::new(stamp, Some(&slot.entry.uid), raw));
            }
        }
        Told { key, version, news }
    }

    /// An object the watch called deleted; returns its key if it was held and is not any more.
    pub(crate) fn forget(&self, stamp: &Stamp<'_>, scratch: &mut String) -> Option<ObjectKey> {
        let version = stamp.version().unwrap_or(0);
        write_key(scratch, stamp);
        let mut inner = self.write();
        inner.floor = inner.floor.max(version);
        let slot = inner.objects.get(scratch.as_str())?;
        let same = slot.entry.uid.as_str() == stamp.uid;
        if !same && (version == 0 || slot.entry.version == 0 || slot.entry.version > version) {
            return None;
        }
        inner
            .objects
            .remove_entry(scratch.as_str())
            .map(|(key, _)| key)
    }

    /// A bookmark: everything up to this version has been told.
    pub(crate) fn bookmark(&self, resource_version: &str) {
        let version = version_number(resource_version).unwrap_or(0);
        let mut inner = self.write();
        inner.floor = inner.floor.max(version);
    }

    /// A list begins.
    pub(crate) fn begin_round(&self) {
        let mut inner = self.write();
        inner.round = inner.round.wrapping_add(1).max(1);
    }

    /// A list as of this version is complete: removes what it did not hold, and returns the keys.
    pub(crate) fn end_round(&self, resource_version: &str) -> Result<Vec<ObjectKey>, Backwards> {
        let version = version_number(resource_version).unwrap_or(0);
        let mut inner = self.write();
        if version != 0 && version < inner.floor {
            inner.distrust = true;
            inner.floor = 0;
            return Err(Backwards);
        }
        let (round, distrust) = (inner.round, std::mem::take(&mut inner.distrust));
        inner.floor = version;
        let mut gone = Vec::new();
        inner.objects.retain(|key, slot| {
            let stays =
                slot.round == round || (!distrust && version != 0 && slot.entry.version > version);
            if !stays {
                gone.push(key.clone());
            }
            stays
        });
        Ok(gone)
    }

    /// The kind is gone: so is everything in it.
    pub(crate) fn clear(&self) -> Vec<ObjectKey> {
        let mut inner = self.write();
        inner.floor = 0;
        std::mem::take(&mut inner.objects).into_keys().collect()
    }

    // A panic while the lock is held cannot leave a half-written slot, so a poisoned lock is as good as another.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key's text, to look it up without allocating.
fn write_key(scratch: &mut String, stamp: &Stamp<'_>) {
    scratch.clear();
    scratch.push_str(&stamp.namespace);
    scratch.push('/');
    scratch.push_str(&stamp.name);
}

#[cfg(test)]
mod tests;
