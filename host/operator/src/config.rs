//! The configuration: mappings out of labelled ConfigMaps.
//!
//! Every mapping is read by itself; one that does not read is a value that says why, and leaves all others alone. Two
//! ConfigMaps with the same name of a mapping: the older one has it. Two mappings that would write the same objects' status:
//! the older one does.

use std::collections::BTreeMap;

use guesthouse_core::{
    contract::Kind,
    mapping::{CheckedMapping, name_of_key},
    object::Head,
};
use serde::Deserialize;

use crate::{cluster::Entry, events::About};

/// Where a mapping is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The ConfigMap.
    pub(crate) config_map: String,
    /// Its uid, for Events.
    pub(crate) uid: String,
    /// The key.
    pub(crate) key: String,
    /// Creation time and name of the ConfigMap: who is older.
    age: (String, String),
}

impl Place {
    /// The ConfigMap as the subject of an Event.
    pub(crate) fn about(&self, namespace: &str) -> About {
        About {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: namespace.to_owned(),
            name: self.config_map.clone(),
            uid: self.uid.clone(),
        }
    }
}

/// A mapping as configured: what it says, or why it says nothing.
#[derive(Clone, Debug)]
pub(crate) struct Configured {
    /// Where it is written.
    pub(crate) place: Place,
    /// What it says.
    pub(crate) mapping: Result<CheckedMapping, String>,
}

/// All mappings by name, and the places that lost to an older one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Configuration {
    /// By name.
    pub(crate) mappings: BTreeMap<String, Configured>,
    /// Places that count for nothing, and why.
    pub(crate) ignored: Vec<(Place, String)>,
}

/// Reads all labelled ConfigMaps of the host's namespace.
pub(crate) fn read<'a>(
    config_maps: impl Iterator<Item = &'a Entry>,
    namespace: &str,
) -> Configuration {
    let mut places: Vec<(Place, String)> =
        config_maps.flat_map(|entry| places(entry.raw())).collect();
    places.sort_by(|(a, _), (b, _)| (&a.age, &a.key).cmp(&(&b.age, &b.key)));
    let mut configuration = Configuration::default();
    for (place, text) in places {
        let name = match name_of_key(&place.key) {
            None => continue,
            Some(Err(error)) => {
                configuration.ignored.push((place, error.to_string()));
                continue;
            }
            Some(Ok(name)) => name.to_owned(),
        };
        if let Some(older) = configuration.mappings.get(&name) {
            let why = format!(
                "the mapping `{name}` is in the older ConfigMap `{}` too, which has it",
                older.place.config_map
            );
            configuration.ignored.push((place, why));
            continue;
        }
        let mapping =
            CheckedMapping::parse(&name, &text, namespace).map_err(|error| error.to_string());
        configuration
            .mappings
            .insert(name, Configured { place, mapping });
    }
    refuse_overlaps(&mut configuration);
    configuration
}

/// One writer of status for each object: of two mappings over the same objects the younger one is refused.
fn refuse_overlaps(configuration: &mut Configuration) {
    let mut by_age: Vec<_> = configuration.mappings.iter().collect();
    by_age.sort_by_key(|(name, configured)| (configured.place.age.clone(), (*name).clone()));
    let mut taken: Vec<(&str, &Kind, &[String])> = Vec::new();
    let mut refused = Vec::new();
    for (name, configured) in by_age {
        let Ok(mapping) = &configured.mapping else {
            continue;
        };
        let namespaces = mapping.mapping.for_.namespaces.as_slice();
        let overlaps = |(_, kind, others): &&(&str, &Kind, &[String])| {
            kind.group() == mapping.kind.group()
                && kind.kind == mapping.kind.kind
                && (others.is_empty()
                    || namespaces.is_empty()
                    || others.iter().any(|n| namespaces.contains(n)))
        };
        match taken.iter().find(overlaps) {
            Some((older, ..)) => {
                let why = format!(
                    "for: the older mapping `{older}` already writes the status of {} there",
                    mapping.kind.kind
                );
                refused.push((name.clone(), why));
            }
            None => taken.push((name, &mapping.kind, namespaces)),
        }
    }
    for (name, why) in refused {
        if let Some(configured) = configuration.mappings.get_mut(&name) {
            configured.mapping = Err(why);
        }
    }
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

fn places(raw: &str) -> Vec<(Place, String)> {
    let (Ok(head), Ok(map)) = (Head::parse(raw), serde_json::from_str::<ConfigMap>(raw)) else {
        return Vec::new();
    };
    let created = head
        .creation_timestamp
        .as_deref()
        .unwrap_or_default()
        .to_owned();
    map.data
        .unwrap_or_default()
        .into_iter()
        .map(|(key, text)| {
            let place = Place {
                config_map: head.name.to_string(),
                uid: head.uid.to_string(),
                key,
                age: (created.clone(), head.name.to_string()),
            };
            (place, text)
        })
        .collect()
}
