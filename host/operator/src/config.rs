//! The configuration: mappings out of labelled ConfigMaps.
//!
//! Every mapping is read by itself; one that does not read is a value that says why, and leaves all others alone. Two
//! ConfigMaps with the same name of a mapping: the older one has it. Two mappings that would write the same objects' status:
//! the older one does.

use std::collections::BTreeMap;

use guesthouse_core::{
    life::{APPROVE, PIN, Wishes},
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
    /// What people wrote beside it about its versions.
    pub(crate) wishes: Wishes,
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
    let mut places: Vec<(Place, Annotations, String)> =
        config_maps.flat_map(|entry| places(entry.raw())).collect();
    places.sort_by(|(a, ..), (b, ..)| (&a.age, &a.key).cmp(&(&b.age, &b.key)));
    let mut configuration = Configuration::default();
    for (place, annotations, text) in places {
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
        configuration.mappings.insert(
            name.clone(),
            Configured {
                place,
                wishes: wishes(&name, &annotations),
                mapping,
            },
        );
    }
    refuse_overlaps(&mut configuration);
    configuration
}

/// One writer of status for each object: of two mappings over the same objects the younger one is refused.
fn refuse_overlaps(configuration: &mut Configuration) {
    let mut by_age: Vec<_> = configuration.mappings.iter().collect();
    by_age.sort_by_key(|(name, configured)| (configured.place.age.clone(), (*name).clone()));
    let mut taken: Vec<&CheckedMapping> = Vec::new();
    let mut refused = Vec::new();
    for (name, configured) in by_age {
        let Ok(mapping) = &configured.mapping else {
            continue;
        };
        if !mapping.mapping.status {
            continue;
        }
        match taken.iter().find(|older| overlap(older, mapping)) {
            Some(older) => {
                let why = format!(
                    "for: the older mapping `{}` already writes the status of {} there; set `status: false` in one of them, or let their namespaces or labelSelectors exclude each other",
                    older.name, mapping.kind.kind
                );
                refused.push((name.clone(), why));
            }
            None => taken.push(mapping),
        }
    }
    for (name, why) in refused {
        if let Some(configured) = configuration.mappings.get_mut(&name) {
            configured.mapping = Err(why);
        }
    }
}

/// Whether two mappings would write the status of one object.
pub(crate) fn clash(a: &CheckedMapping, b: &CheckedMapping) -> bool {
    a.mapping.status && b.mapping.status && overlap(a, b)
}

/// Whether two mappings may be about one object.
fn overlap(a: &CheckedMapping, b: &CheckedMapping) -> bool {
    let (ours, theirs) = (&a.mapping.for_.namespaces, &b.mapping.for_.namespaces);
    let same_place =
        ours.is_empty() || theirs.is_empty() || ours.iter().any(|name| theirs.contains(name));
    let excluded = match (&a.selector, &b.selector) {
        (Some(a), Some(b)) => a.excludes(b),
        _ => false,
    };
    a.kind.same(&b.kind) && same_place && !excluded
}

#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// Annotations of a ConfigMap.
type Annotations = std::sync::Arc<BTreeMap<String, String>>;

fn wishes(name: &str, annotations: &BTreeMap<String, String>) -> Wishes {
    let says = |prefix: &str| {
        let said = annotations.get(&format!("{prefix}{name}"));
        said.filter(|digest| !digest.is_empty()).cloned()
    };
    Wishes {
        pin: says(PIN),
        approve: says(APPROVE),
    }
}

fn places(raw: &str) -> Vec<(Place, Annotations, String)> {
    let (Ok(head), Ok(map)) = (Head::parse(raw), serde_json::from_str::<ConfigMap>(raw)) else {
        return Vec::new();
    };
    let created = head
        .creation_timestamp
        .as_deref()
        .unwrap_or_default()
        .to_owned();
    let annotations = head.annotations.iter();
    let annotations = annotations.map(|(key, value)| (key.to_string(), value.to_string()));
    let annotations = Annotations::new(annotations.collect());
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
            (place, annotations.clone(), text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mapping of one kind, with this under `for` and this beside it.
    fn mapping(for_: &str, more: &str) -> CheckedMapping {
        let text = format!(
            "for: {{apiVersion: g.io/v1, kind: K{for_}}}\nplugin: {{file: p.wasm}}\nserviceAccount: a\n{more}"
        );
        CheckedMapping::parse("m", &text, "ns").unwrap()
    }

    #[test]
    fn what_people_wrote_beside_a_mapping_is_read_for_that_mapping_alone() {
        let raw = serde_json::json!({
            "metadata": {
                "name": "c", "uid": "u", "resourceVersion": "1",
                "annotations": {"pin.guesthouse.dev/a": "sha256:1", "approve.guesthouse.dev/b": ""},
            },
            "data": {"a.yaml": "", "b.yaml": ""},
        });
        let store = crate::cluster::Store::default();
        store.absorb(raw.to_string().as_bytes()).unwrap();
        let entries = store.entries();
        let read = read(entries.iter().map(|(_, entry)| &**entry), "ns");
        let wishes = |name: &str| read.mappings[name].wishes.clone();
        assert_eq!(wishes("a").pin.as_deref(), Some("sha256:1"));
        assert_eq!(wishes("b"), Wishes::default());
    }

    #[test]
    fn two_mappings_share_an_object_unless_namespaces_or_labels_exclude_it() {
        for (a, b, share) in [
            ("", "", true),
            (", namespaces: [a, b]", ", namespaces: [b]", true),
            (", namespaces: [a]", ", namespaces: [b]", false),
            (", labelSelector: 'x=1'", ", labelSelector: 'x=2'", false),
            (", labelSelector: 'x=1'", ", labelSelector: 'x!=1'", false),
            (", labelSelector: 'x'", ", labelSelector: '!x'", false),
            (", labelSelector: 'x=1'", ", labelSelector: 'y=2'", true),
            (", labelSelector: 'x=1'", "", true),
        ] {
            assert_eq!(overlap(&mapping(a, ""), &mapping(b, "")), share, "{a} {b}");
        }
    }
}
