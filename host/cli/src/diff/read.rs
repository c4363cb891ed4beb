//! Where the objects come from that two versions are asked about: files, or a cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::{Context, Result};
use guesthouse_core::{
    contract::{Json, Kind, ObjectRef},
    dry::{Around, World, complete, is_namespaced},
    mapping::CheckedMapping,
    needs::{Namespaces, ReadSource},
    object::{Head, ObjectKey},
    pass::{Gather, Gathered, KindFacts, Looked},
};
use guesthouse_operator::{
    Live,
    cluster::{Transport, TransportOptions},
};
use guesthouse_sandbox::Plugin;
use serde_json::Value;

use super::Object;
use crate::{args::DiffArgs, crd, render, yaml};

/// Objects and what they are asked about under.
pub(super) struct Read {
    pub(super) mapping: Arc<CheckedMapping>,
    pub(super) kind: KindFacts,
    pub(super) objects: Vec<Object>,
    pub(super) surroundings: Surroundings,
}

impl Read {
    pub(super) async fn of(args: &DiffArgs, new: &Plugin) -> Result<Self> {
        match &args.from_cluster {
            Some(mapping) => Self::live(args, mapping).await,
            None => Self::files(args, new),
        }
    }

    async fn live(args: &DiffArgs, mapping: &str) -> Result<Self> {
        let transport = Transport::infer(TransportOptions::default()).await?;
        let namespace = match &args.namespace {
            Some(namespace) => namespace.clone(),
            None => transport.default_namespace().to_owned(),
        };
        let mut live = Live::read(transport, &namespace, mapping, args.limit).await?;
        let objects = std::mem::take(&mut live.objects).into_iter();
        let objects = objects.map(|it| Object {
            key: it.key,
            object: it.object,
            journals: it.journals,
        });
        Ok(Self {
            mapping: Arc::new(live.mapping.clone()),
            kind: live.kind.clone(),
            objects: objects.collect(),
            surroundings: Surroundings {
                live: Some(live),
                ..Surroundings::default()
            },
        })
    }

    fn files(args: &DiffArgs, new: &Plugin) -> Result<Self> {
        let mut all = Vec::new();
        for path in &args.objects {
            for object in yaml::read_all(path)? {
                let uid = format!("00000000-0000-0000-0000-{:012}", all.len());
                let object =
                    complete(object, &uid).with_context(|| format!("{}", path.display()))?;
                all.push(object);
            }
        }
        let first = all.first().context("there is no object to ask about")?;
        let namespace = args.namespace.as_deref().unwrap_or("guesthouse-system");
        let mapping = render::mapping(args.mapping.as_deref(), namespace, &args.new, new, first)?;
        let definition = match &args.crd {
            Some(path) => Some(yaml::read(path)?),
            None => crd::for_kind(new, &mapping.kind),
        };
        let object = |object: &Value| -> Result<Object> {
            let text = Json::of(object)?;
            let key = Head::parse(text.as_str())?.key();
            Ok(Object {
                key,
                object: text,
                journals: Vec::new(),
            })
        };
        Ok(Self {
            kind: render::facts(definition.as_ref(), &mapping),
            mapping: Arc::new(mapping),
            objects: all.iter().map(object).collect::<Result<_>>()?,
            surroundings: Surroundings {
                files: render::related(&args.related, first)?,
                ..Surroundings::default()
            },
        })
    }
}

/// A kind in a namespace; all of them where it is empty.
type Place = (String, String, String);

fn place(kind: &Kind, namespace: &str) -> Place {
    (
        kind.api_version.clone(),
        kind.kind.clone(),
        namespace.to_owned(),
    )
}

/// What stands beside the objects, as far as it was read.
#[derive(Default)]
pub(super) struct Surroundings {
    files: Vec<Value>,
    live: Option<Live>,
    read: BTreeMap<Place, Vec<Value>>,
    missing: Arc<std::sync::Mutex<BTreeSet<Place>>>,
}

impl Surroundings {
    /// Everything that was read, but for the object itself.
    pub(super) fn objects(&self, own: &ObjectKey) -> Vec<Value> {
        let is_own = |object: &Value| {
            let meta = &object["metadata"];
            meta["name"] == own.name()
                && meta["namespace"].as_str().unwrap_or("") == own.namespace()
        };
        let all = self.files.iter().chain(self.read.values().flatten());
        let mut seen = BTreeSet::new();
        let fresh = |object: &&Value| seen.insert(object["metadata"]["uid"].to_string());
        let kind = |object: &Value| {
            self.live
                .as_ref()
                .is_some_and(|l| object["kind"] == l.mapping.kind.kind)
        };
        all.filter(|object| !(kind(object) && is_own(object)))
            .filter(fresh)
            .cloned()
            .collect()
    }

    pub(super) fn around(&self) -> Reading {
        Reading {
            live: self.live.is_some(),
            read: self.read.keys().cloned().collect(),
            missing: self.missing.clone(),
        }
    }

    /// Reads what was missing; false where nothing was.
    pub(super) async fn read_missing(&mut self) -> Result<bool> {
        let missing = std::mem::take(&mut *lock(&self.missing));
        let Some(live) = &self.live else {
            return Ok(false);
        };
        let any = !missing.is_empty();
        for (api_version, kind, namespace) in missing {
            let kind = Kind { api_version, kind };
            let found = live.others(&kind, &namespace).await?;
            self.read.insert(place(&kind, &namespace), found);
        }
        Ok(any)
    }
}

fn lock(missing: &std::sync::Mutex<BTreeSet<Place>>) -> std::sync::MutexGuard<'_, BTreeSet<Place>> {
    missing
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Answers what was read, and notes what was not.
pub(super) struct Reading {
    live: bool,
    read: BTreeSet<Place>,
    missing: Arc<std::sync::Mutex<BTreeSet<Place>>>,
}

impl Reading {
    fn needs(&self, wanted: Vec<Place>) -> Result<(), String> {
        let missing = wanted.into_iter().filter(|it| !self.read.contains(it));
        let missing: Vec<Place> = missing.collect();
        if !self.live || missing.is_empty() {
            return Ok(());
        }
        lock(&self.missing).extend(missing);
        Err("it is to be read first".to_owned())
    }
}

impl Around for Reading {
    fn gather(&mut self, world: &World, gather: &Gather) -> Result<Gathered, String> {
        let mut wanted = Vec::new();
        for reading in &gather.readings {
            match &reading.source {
                ReadSource::Fetch { .. } => {
                    return Err(format!("the need `{}` is a fetch", reading.name));
                }
                ReadSource::Object {
                    kind, namespace, ..
                } => wanted.push(place(kind, namespace)),
                ReadSource::Selected {
                    kind, namespaces, ..
                } => match namespaces {
                    Namespaces::All => wanted.push(place(kind, "")),
                    Namespaces::These(these) => {
                        wanted.extend(these.iter().map(|namespace| place(kind, namespace)));
                    }
                },
            }
        }
        let children = gather.children.iter();
        wanted.extend(children.map(|child| place(&child.kind, &child.namespace)));
        self.needs(wanted)?;
        Ok(world.gather(gather))
    }

    fn look(&mut self, world: &World, object: &ObjectRef) -> Result<Looked, String> {
        let own = world.object["metadata"]["namespace"].as_str();
        let namespace = match is_namespaced(&object.kind) {
            true => object.namespace.as_deref().or(own).unwrap_or(""),
            false => "",
        };
        self.needs(vec![place(&object.kind, namespace)])?;
        Ok(world.look(object))
    }
}
