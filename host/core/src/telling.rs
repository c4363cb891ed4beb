//! Which Events are told: a change is, its repetition is not, and no object tells more than a bucket holds.
//!
//! An Event per pass floods etcd (clever-kubernetes-operator#175) and buries the one that matters (kustomize-controller#1742).
//! So what an object says again while it says nothing else is withheld for [`WINDOW`], and beyond [`BURST`] Events one comes
//! every [`REFILL`]. What was withheld is counted, and the next Event of the object says how many there were: nothing is lost
//! without a word. The host asks after each pass, so memory is bounded: over [`Telling::MOST`] objects the quietest are
//! forgotten, which at worst tells something twice.

use std::collections::BTreeMap;

use crate::{
    contract::{EventType, MAX_MESSAGE, cut},
    keys::Hash,
    pass::Note,
    time::Time,
    units::Span,
};

/// How long the same is not told again.
pub const WINDOW: Span = Span::from_secs(600);
/// Events an object may tell at once.
pub const BURST: u32 = 10;
/// One more each.
pub const REFILL: Span = Span::from_secs(30);
/// Notes of one batch that are remembered.
const REMEMBERED: usize = 32;

/// What objects told.
#[derive(Debug)]
pub struct Telling {
    objects: BTreeMap<u64, Told>,
    most: usize,
    withheld: u64,
}

/// What one object told.
#[derive(Debug)]
struct Told {
    /// The last batch: each note, and when it was told.
    batch: BTreeMap<u64, Time>,
    /// When the bucket will be full again.
    full_at: Time,
    /// When it was last asked.
    asked: Time,
    /// Withheld since the last one told.
    withheld: u32,
}

impl Default for Telling {
    fn default() -> Self {
        Self::new(Self::MOST)
    }
}

impl Telling {
    /// Objects that are remembered, some 200 bytes each.
    pub const MOST: usize = 10_000;

    /// Remembers at most `most` objects, at least one.
    pub fn new(most: usize) -> Self {
        Self {
            objects: BTreeMap::new(),
            most: most.max(1),
            withheld: 0,
        }
    }

    /// Of the notes that one pass (or one look) has about an object: those to be told now, ready to be sent.
    ///
    /// A note is a repetition if the batch before had it too. `about` is the object's uid, or whatever names it.
    pub fn admit(&mut self, about: &str, notes: Vec<Note>, now: Time) -> Vec<Note> {
        if notes.is_empty() {
            return notes;
        }
        let key = Hash::of("told").part(about).number();
        self.make_room(key, now);
        let told = self.objects.entry(key).or_insert(Told {
            batch: BTreeMap::new(),
            full_at: now,
            asked: now,
            withheld: 0,
        });
        told.asked = now;
        let before = std::mem::take(&mut told.batch);
        let mut admitted = Vec::new();
        for note in notes {
            let hash = hash(&note);
            let last = before.get(&hash).or(told.batch.get(&hash)).copied();
            // A clock that was set back makes no note unspeakable.
            let again = last.filter(|last| *last <= now && last.after(WINDOW) > now);
            if again.is_none() && !told.take(now) {
                told.withheld = told.withheld.saturating_add(1);
                self.withheld = self.withheld.saturating_add(1);
                continue;
            }
            if told.batch.len() < REMEMBERED {
                told.batch.insert(hash, again.unwrap_or(now));
            }
            if again.is_some() {
                told.withheld = told.withheld.saturating_add(1);
                self.withheld = self.withheld.saturating_add(1);
                continue;
            }
            let earlier = std::mem::take(&mut told.withheld);
            admitted.push(counted(note, earlier));
        }
        admitted
    }

    /// An Event that was admitted could not be told after all.
    pub fn lost(&mut self, about: &str) {
        let key = Hash::of("told").part(about).number();
        self.withheld = self.withheld.saturating_add(1);
        if let Some(told) = self.objects.get_mut(&key) {
            told.withheld = told.withheld.saturating_add(1);
        }
    }

    /// Events withheld of all objects since the start.
    pub fn withheld(&self) -> u64 {
        self.withheld
    }

    /// Objects that are remembered.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Forgets a quarter when full, the longest silent first: seldom enough not to matter.
    fn make_room(&mut self, key: u64, now: Time) {
        if self.objects.len() < self.most || self.objects.contains_key(&key) {
            return;
        }
        self.objects
            .retain(|_, told| told.asked <= now && told.asked.after(WINDOW) > now);
        let keep = self.most - (self.most / 4).max(1);
        if self.objects.len() > keep {
            let mut asked: Vec<_> = self.objects.iter().map(|(k, t)| (t.asked, *k)).collect();
            asked.sort_unstable();
            for (_, key) in &asked[..asked.len() - keep] {
                self.objects.remove(key);
            }
        }
    }
}

impl Told {
    /// Takes one out of the bucket, if there is one.
    fn take(&mut self, now: Time) -> bool {
        let span = Span(REFILL.0 * u64::from(BURST));
        // Never further away than an empty bucket: the clock may have been set back.
        let full_at = self.full_at.max(now).min(now.after(span));
        let after = full_at.after(REFILL);
        let there = after <= now.after(span);
        self.full_at = if there { after } else { full_at };
        there
    }
}

fn hash(note: &Note) -> u64 {
    let type_ = match note.type_ {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    Hash::of("note")
        .part(type_)
        .part(&note.reason)
        .part(&note.note)
        .number()
}

/// The note, cut where the API server would refuse it (kubernetes#98175), with how many were withheld before it.
fn counted(note: Note, withheld: u32) -> Note {
    let more = match withheld {
        0 => String::new(),
        1 => " (1 Event before this one was withheld)".to_owned(),
        n => format!(" ({n} Events before this one were withheld)"),
    };
    let text = cut(&note.note, MAX_MESSAGE - more.len());
    Note {
        note: format!("{text}{more}"),
        ..note
    }
}

#[cfg(test)]
mod tests;
