//! From what a pass reads to what is watched: pure, so that sharing can be reasoned about.
//!
//! A want names the watches that would serve it: those it takes if they run already, and those it would start, the best one
//! first. So two keys that read the same share a watch, and a narrow read rides on a wider one that is there anyhow.

use guesthouse_core::{
    children::OWNER_LABEL,
    contract::{Cause, Kind, View},
    identity::Identity,
    needs::{Namespaces, ReadSource, Reading},
    object::ObjectKey,
    pass::ChildRef,
    selector::Selector,
};

use crate::cluster::{self, Resource, Scope};

/// What one watch is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    /// As whom; accounts share no watch, since one may read what another may not.
    pub(super) identity: Identity,
    pub(super) kind: Kind,
    /// Empty: all of them, or a cluster-scoped kind.
    pub(super) namespace: String,
    pub(super) pick: Pick,
    /// Objects are kept without spec and status.
    pub(super) metadata_only: bool,
}

/// Which objects there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pick {
    Named(String),
    /// By a selector in its canonical text; empty: all.
    Labelled(String),
}

/// What of a watch's objects a key is woken by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Interest {
    /// This object, there or not.
    Object(ObjectKey),
    /// Those with this owner mark, in one namespace or (empty) in all.
    Marked(String, String),
    /// Those that fit a selector (its canonical text), in one namespace or (empty) in all.
    Selected(String, String),
}

/// One thing to watch.
#[derive(Clone, Debug)]
pub(super) struct Want {
    /// Watches that serve it if they run, the best first.
    pub(super) accept: Vec<Target>,
    /// Watches to start if none does, the best first. The further ones are for where the first is forbidden.
    pub(super) open: Vec<Target>,
    /// Watches over everything, to start where there would be too many narrow ones: the widest first.
    pub(super) wide: Vec<Target>,
    pub(super) interest: Interest,
}

impl Target {
    pub(super) fn scope(&self) -> Scope {
        let at = Scope::namespace(self.namespace.clone());
        match &self.pick {
            Pick::Named(name) => Scope::named(self.namespace.clone(), name.clone()),
            Pick::Labelled(labels) if labels.is_empty() => at,
            Pick::Labelled(labels) => at.labels(labels.clone()),
        }
    }

    pub(super) fn view(&self) -> cluster::View {
        if self.metadata_only {
            cluster::View::Metadata
        } else {
            cluster::View::Object
        }
    }

    /// Whether an object belongs to it.
    pub(super) fn fits<'a>(
        &self,
        key: &ObjectKey,
        label: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let there = self.namespace.is_empty() || self.namespace == key.namespace();
        there
            && match &self.pick {
                Pick::Named(name) => name == key.name(),
                Pick::Labelled(labels) => {
                    Selector::parse(labels).is_ok_and(|labels| labels.matches(label))
                }
            }
    }

    /// Whether it shows all that the other one does, and more.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let everything = |target: &Self| target.pick == Pick::Labelled(String::new());
        let there = self.namespace.is_empty() || self.namespace == other.namespace;
        let alike = self.identity == other.identity
            && self.kind == other.kind
            && self.metadata_only == other.metadata_only;
        alike && there && everything(self) && self != other
    }
}

/// Who reads: the parts of every target that do not come from what is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way<'a> {
    pub(super) identity: &'a Identity,
    /// The mapping is about single namespaces: nothing is asked of the cluster as a whole.
    pub(super) confined: bool,
}

/// What a reading watches; several where it reads several namespaces. A fetch watches nothing.
pub(super) fn of_reading(
    reading: &Reading,
    resource: &Resource,
    way: Way<'_>,
) -> Result<Vec<Want>, Cause> {
    let metadata_only = reading.view == View::Metadata;
    match &reading.source {
        ReadSource::Fetch { .. } => Ok(Vec::new()),
        ReadSource::Object {
            kind,
            namespace,
            name,
        } => {
            let namespace = place(resource, namespace)
                .ok_or_else(|| Cause::new("Failed", format!("the {} {name} is in a namespace, and neither the need nor the object names one", resource.kind)))?;
            Ok(vec![named(kind, namespace, name, metadata_only, way)])
        }
        ReadSource::Selected {
            kind,
            namespaces,
            labels,
        } => {
            let places = match namespaces {
                _ if !resource.namespaced => vec![""],
                Namespaces::All => vec![""],
                Namespaces::These(these) => these.iter().map(String::as_str).collect(),
            };
            if places.is_empty() {
                return Err(Cause::new(
                    "Denied",
                    format!(
                        "{kind} is in namespaces, and none is granted to an object without one; add `namespaces` to its entry in `grants.read` of the mapping"
                    ),
                ));
            }
            let mark = labels
                .strip_prefix(OWNER_LABEL)
                .and_then(|rest| rest.strip_prefix('='));
            Ok(places
                .into_iter()
                .map(|place| match mark {
                    Some(mark) => marked(
                        kind,
                        place,
                        metadata_only,
                        way,
                        Interest::Marked(mark.to_owned(), place.to_owned()),
                    ),
                    None => selected(kind, place, labels, metadata_only, way),
                })
                .collect())
        }
    }
}

/// What a child on record watches.
pub(super) fn of_child(child: &ChildRef, resource: &Resource, way: Way<'_>) -> Result<Want, Cause> {
    let place = place(resource, &child.namespace).ok_or_else(|| {
        Cause::new(
            "Failed",
            format!(
                "the {} {} is in a namespace, and none is on record",
                resource.kind, child.name
            ),
        )
    })?;
    if !child.marked {
        return Ok(named(&child.kind, place, &child.name, false, way));
    }
    let interest = Interest::Object(ObjectKey::new(place, &child.name));
    Ok(marked(&child.kind, place, false, way, interest))
}

/// The namespace as it stands in paths; none where one is missing.
fn place<'a>(resource: &Resource, namespace: &'a str) -> Option<&'a str> {
    match (resource.namespaced, namespace.is_empty()) {
        (false, _) => Some(""),
        (true, true) => None,
        (true, false) => Some(namespace),
    }
}

fn named(kind: &Kind, place: &str, name: &str, metadata_only: bool, way: Way<'_>) -> Want {
    let target = |place: &str, pick| target(kind, place, pick, metadata_only, way);
    let narrow = target(place, Pick::Named(name.to_owned()));
    let wide = everywhere(kind, place, metadata_only, way);
    let mut accept = vec![narrow.clone()];
    accept.extend(wide.iter().rev().cloned());
    Want {
        accept: fuller(&accept),
        open: vec![narrow],
        wide,
        interest: Interest::Object(ObjectKey::new(place, name)),
    }
}

/// By the label every owned child carries: one watch for all keys, whatever their marks.
fn marked(kind: &Kind, place: &str, metadata_only: bool, way: Way<'_>, interest: Interest) -> Want {
    let pick = || Pick::Labelled(OWNER_LABEL.to_owned());
    let target = |place: &str| target(kind, place, pick(), metadata_only, way);
    let mut open = vec![target(""), target(place)];
    if way.confined {
        open.remove(0);
    }
    open.dedup();
    Want {
        accept: fuller(&open),
        open,
        wide: Vec::new(),
        interest,
    }
}

fn selected(kind: &Kind, place: &str, labels: &str, metadata_only: bool, way: Way<'_>) -> Want {
    let pick = || Pick::Labelled(labels.to_owned());
    let target = |place: &str| target(kind, place, pick(), metadata_only, way);
    let wide = everywhere(kind, place, metadata_only, way);
    let mut accept = vec![target(place), target("")];
    accept.extend(wide.iter().rev().cloned());
    accept.dedup();
    Want {
        accept: fuller(&accept),
        open: vec![target(place)],
        wide,
        interest: Interest::Selected(labels.to_owned(), place.to_owned()),
    }
}

fn target(kind: &Kind, place: &str, pick: Pick, metadata_only: bool, way: Way<'_>) -> Target {
    Target {
        identity: way.identity.clone(),
        kind: kind.clone(),
        namespace: place.to_owned(),
        pick,
        metadata_only,
    }
}

/// Everything of the kind, in all namespaces and in one; the former only where the cluster as a whole may be asked.
fn everywhere(kind: &Kind, place: &str, metadata_only: bool, way: Way<'_>) -> Vec<Target> {
    let all = |place| {
        target(
            kind,
            place,
            Pick::Labelled(String::new()),
            metadata_only,
            way,
        )
    };
    let mut wide = vec![all(""), all(place)];
    if way.confined {
        wide.remove(0);
    }
    wide.dedup();
    wide
}

/// The targets, and the same with whole objects: those serve who wants metadata too.
fn fuller(targets: &[Target]) -> Vec<Target> {
    let mut all = targets.to_vec();
    for target in targets.iter().filter(|target| target.metadata_only) {
        all.push(Target {
            metadata_only: false,
            ..target.clone()
        });
    }
    all
}
