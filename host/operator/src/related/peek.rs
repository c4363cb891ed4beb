//! What stands beside an object as far as it is known: nothing is asked, watched or waited for, and nobody is woken by it.

use std::sync::Arc;

use guesthouse_core::{
    contract::{Json, Kind},
    needs,
    object::ObjectKey,
    pass::{Found, Gather, Gathered},
};

use super::{
    Reader, Related,
    targets::{self, Interest, Want},
};
use crate::cluster::{Entry, Store};

type Entries = Vec<(ObjectKey, Arc<Entry>)>;

impl Related {
    /// All of it, from what is watched for others; an error names what is not.
    pub(crate) fn peek(&self, reader: &Reader<'_>, gather: &Gather) -> Result<Gathered, String> {
        let mut gathered = Gathered::default();
        for reading in &gather.readings {
            let kind = reading.source.kind();
            let kind = kind.ok_or_else(|| format!("the need `{}` is a fetch", reading.name))?;
            let found = self.known(kind, |resource| {
                targets::of_reading(reading, resource, reader.way()).ok()
            })?;
            let entries = found.iter().map(|(key, entry)| (key, entry.raw()));
            gathered.answers.push(needs::select(entries, reading));
        }
        for child in &gather.children {
            let found = self.known(&child.kind, |resource| {
                let want = targets::of_child(child, resource, reader.way());
                want.ok().map(|want| vec![want])
            })?;
            let name = &child.name;
            let found = found.into_iter().find(|(key, _)| key.name() == name);
            gathered.children.push(match found {
                Some((_, entry)) => Found::Object(Json::trusted(entry.raw())),
                None => Found::Absent,
            });
        }
        Ok(gathered)
    }

    /// Whether objects of a kind are in namespaces, if that is known.
    pub(crate) fn is_namespaced(&self, kind: &Kind) -> Option<bool> {
        let resource = self.shared.kinds.last(kind)?;
        Some(resource.namespaced)
    }

    /// What the stores hold of these wants.
    fn known(
        &self,
        kind: &Kind,
        wants: impl FnOnce(&crate::cluster::Resource) -> Option<Vec<Want>>,
    ) -> Result<Entries, String> {
        let unknown = || format!("{kind} is not read by anybody yet");
        let resource = self.shared.kinds.last(kind).ok_or_else(unknown)?;
        let wants = wants(&resource).ok_or_else(unknown)?;
        let mut all = Vec::new();
        for want in &wants {
            let store = self.shared.table().ready_store(want).ok_or_else(unknown)?;
            all.extend(held(&store, &want.interest));
        }
        Ok(all)
    }
}

/// What may be meant; a selection is made from all by whoever asked.
fn held(store: &Store, interest: &Interest) -> Entries {
    match interest {
        Interest::Object(key) => {
            let entry = store.get(key).map(|entry| (key.clone(), entry));
            entry.into_iter().collect()
        }
        Interest::Marked(..) | Interest::Selected(..) => store.entries(),
    }
}
