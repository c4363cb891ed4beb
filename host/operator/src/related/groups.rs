//! Who selects which objects of a watch, kept up to date with every change: an object that leaves a selection is news to
//! whoever selected it, and after the change only this remembers that it did.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use guesthouse_core::{
    children::OWNER_LABEL,
    object::{Head, ObjectKey},
    queue::Key,
    selector::Selector,
};

use super::targets::Interest;
use crate::cluster::Store;

/// Everything that is selected the same way.
struct Group {
    selector: Selector,
    /// Empty: all.
    place: String,
    users: BTreeSet<Key>,
    members: BTreeSet<ObjectKey>,
}

/// The selections of one watch.
#[derive(Default)]
pub(super) struct Groups {
    selected: BTreeMap<(String, String), Group>,
    /// Those by owner mark, found by the object's mark instead of one by one: there are as many as parents.
    marked: HashMap<Box<str>, BTreeMap<String, Group>>,
    /// The mark under which an object was last seen.
    marks: HashMap<ObjectKey, Box<str>>,
}

impl Group {
    fn new(selector: Selector, place: &str) -> Self {
        Self {
            selector,
            place: place.to_owned(),
            users: BTreeSet::new(),
            members: BTreeSet::new(),
        }
    }

    /// Takes an object in or out; whether it was or is a member.
    fn update(&mut self, object: &ObjectKey, head: Option<&Head<'_>>) -> bool {
        let there = self.place.is_empty() || self.place == object.namespace();
        let fits = |head: &Head<'_>| {
            self.selector
                .matches(|label| head.labels.get(label).map(|value| &**value))
        };
        if there && head.is_some_and(fits) {
            self.members.insert(object.clone());
            return true;
        }
        self.members.remove(object)
    }

    fn look(&mut self, object: &ObjectKey, store: &Store) {
        let entry = store.get(object);
        let head = entry
            .as_ref()
            .and_then(|entry| Head::parse(entry.raw()).ok());
        self.update(object, head.as_ref());
    }
}

impl Groups {
    /// Adds a user of a selection; its first one looks through the store.
    pub(super) fn join(&mut self, key: &Key, interest: &Interest, store: &Store) {
        if let Some(group) = self.group_mut(interest) {
            group.users.insert(key.clone());
            return;
        }
        let first_mark = self.marked.is_empty();
        let group = match interest {
            Interest::Object(_) => return,
            Interest::Selected(labels, place) => {
                let selector = Selector::parse(labels).unwrap_or_default();
                let name = (labels.clone(), place.clone());
                let group = self.selected.entry(name);
                group.or_insert_with(|| Group::new(selector, place))
            }
            Interest::Marked(mark, place) => {
                let selector = Selector::label(OWNER_LABEL, mark).unwrap_or_default();
                let groups = self.marked.entry(mark.as_str().into()).or_default();
                let group = groups.entry(place.clone());
                group.or_insert_with(|| Group::new(selector, place))
            }
        };
        group.users.insert(key.clone());
        match interest {
            // Marks are only kept while somebody asks by them.
            Interest::Marked(..) if first_mark => {
                for object in store.keys() {
                    self.update(&object, store);
                }
            }
            Interest::Marked(mark, _) => {
                for (object, of) in &self.marks {
                    if **of == **mark {
                        group.look(object, store);
                    }
                }
            }
            _ => {
                for object in store.keys() {
                    group.look(&object, store);
                }
            }
        }
    }

    /// Takes a user of a selection out again.
    pub(super) fn leave(&mut self, key: &Key, interest: &Interest) {
        let Some(group) = self.group_mut(interest) else {
            return;
        };
        group.users.remove(key);
        if !group.users.is_empty() {
            return;
        }
        match interest {
            Interest::Object(_) => {}
            Interest::Selected(labels, place) => {
                self.selected.remove(&(labels.clone(), place.clone()));
            }
            Interest::Marked(mark, place) => {
                if let Some(groups) = self.marked.get_mut(mark.as_str()) {
                    groups.remove(place);
                    if groups.is_empty() {
                        self.marked.remove(mark.as_str());
                    }
                }
                if self.marked.is_empty() {
                    self.marks.clear();
                }
            }
        }
    }

    /// The members of a selection.
    pub(super) fn members(&self, interest: &Interest) -> Vec<ObjectKey> {
        let members = self.group(interest).map(|group| &group.members);
        members.into_iter().flatten().cloned().collect()
    }

    /// An object changed, and the store shows it: the users to whom it is or was selected.
    pub(super) fn update(&mut self, object: &ObjectKey, store: &Store) -> BTreeSet<Key> {
        let mut users = BTreeSet::new();
        if self.selected.is_empty() && self.marked.is_empty() {
            return users;
        }
        let entry = store.get(object);
        let head = entry
            .as_ref()
            .and_then(|entry| Head::parse(entry.raw()).ok());
        for group in self.selected.values_mut() {
            if group.update(object, head.as_ref()) {
                users.extend(group.users.iter().cloned());
            }
        }
        if self.marked.is_empty() {
            return users;
        }
        let mark = head.as_ref().and_then(|head| head.labels.get(OWNER_LABEL));
        let now: Option<Box<str>> = mark.map(|mark| (**mark).into());
        let before = match &now {
            Some(now) => self.marks.insert(object.clone(), now.clone()),
            None => self.marks.remove(object),
        };
        let marks: BTreeSet<_> = before.into_iter().chain(now).collect();
        for mark in marks {
            for group in self
                .marked
                .get_mut(&mark)
                .into_iter()
                .flat_map(BTreeMap::values_mut)
            {
                if group.update(object, head.as_ref()) {
                    users.extend(group.users.iter().cloned());
                }
            }
        }
        users
    }

    fn group(&self, interest: &Interest) -> Option<&Group> {
        match interest {
            Interest::Object(_) => None,
            Interest::Selected(labels, place) => {
                self.selected.get(&(labels.clone(), place.clone()))
            }
            Interest::Marked(mark, place) => self.marked.get(mark.as_str())?.get(place),
        }
    }

    fn group_mut(&mut self, interest: &Interest) -> Option<&mut Group> {
        match interest {
            Interest::Object(_) => None,
            Interest::Selected(labels, place) => {
                self.selected.get_mut(&(labels.clone(), place.clone()))
            }
            Interest::Marked(mark, place) => self.marked.get_mut(mark.as_str())?.get_mut(place),
        }
    }
}
