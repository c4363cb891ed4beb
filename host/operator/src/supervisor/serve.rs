//! When a mapping serves: its plugin is loaded and fits, its kind is watched, and the journals are known.

use std::{collections::BTreeSet, sync::Arc};

use guesthouse_core::{
    contract::{Descriptor, EventType},
    limits::Limits,
    mapping::{Breaker, CheckedMapping, Mapping, PluginSource, QueueFields, Retry},
    pass::{PluginFacts, Terms, short_digest},
    queue::{MappingId, Why},
    units::Span,
};
use guesthouse_sandbox::Plugin;

use crate::crash;

use super::{
    Supervisor, kind_name,
    kinds::facts,
    mappings::{Serving, Swap},
};

impl Supervisor {
    pub(super) fn refresh_all(&mut self) {
        let names: Vec<String> = self.mappings.keys().cloned().collect();
        for name in names {
            self.refresh_one(&name);
        }
    }

    pub(super) fn refresh(&mut self, users: &BTreeSet<MappingId>) {
        let names: Vec<String> = users
            .iter()
            .filter_map(|id| self.names.get(id))
            .cloned()
            .collect();
        for name in names {
            self.refresh_one(&name);
        }
    }

    /// Brings what serves in line with what is known. Another plugin, basis or schema queues all objects again.
    pub(super) fn refresh_one(&mut self, name: &str) {
        if !self.ownership.owns(name) {
            return;
        }
        let Some(runtime) = self.mappings.get(name) else {
            return;
        };
        let (place, checked, id) = (runtime.place.clone(), runtime.checked.clone(), runtime.id);
        let before = runtime.serving.clone();
        let Some(source) = self.sources.get(&checked.mapping.plugin) else {
            return;
        };
        if !source.heard {
            return;
        }
        let (good, problem) = (source.good.clone(), source.problem.clone());
        let (plugin, origin) = good.map(|good| (good.plugin, good.origin)).unzip();
        let fits = plugin
            .as_ref()
            .map(|plugin| fits(plugin.descriptor(), &checked));
        // What this very source brought last, judged by what is demanded now.
        let last_of_source = plugin.clone().filter(|_| matches!(fits, Some(Ok(()))));
        let trouble = problem.or_else(|| fits.and_then(Result::err));
        let good = trouble.is_none();
        let (plugin, checked, broken) = match (plugin, trouble) {
            (Some(plugin), None) => (Some(plugin), checked, None),
            (_, trouble) => {
                let why = trouble.unwrap_or_default();
                let last_of_mapping = before.as_ref().and_then(|it| it.plugin.clone());
                let last = last_of_source.clone().or(last_of_mapping);
                let now = match &last {
                    Some(plugin) => format!("{} serves on", short_digest(plugin.digest())),
                    None => "the mapping does not serve".to_owned(),
                };
                let note = format!("mapping {name}: {why}; {now}");
                self.tell(&place, EventType::Warning, "PluginRefused", note);
                match (&before, last) {
                    (_, Some(plugin)) if last_of_source.is_some() => (Some(plugin), checked, None),
                    (Some(serving), Some(plugin)) => last_good(serving, plugin, checked),
                    // Objects that are being deleted must not wait for ever in silence.
                    _ => (None, checked, Some(why)),
                }
            }
        };
        let facts = plugin_facts(plugin.as_ref(), broken);
        let digest = plugin.as_ref().map_or("", Plugin::digest).to_owned();
        let Some(terms) = self.terms(name, &checked, digest, facts) else {
            return;
        };
        let serving = Serving {
            plugin,
            terms: Arc::new(terms),
        };
        let retry = &checked.mapping.retry;
        self.queue.set_mapping(
            id,
            usize::try_from(checked.mapping.concurrency).unwrap_or(1),
            retry.base,
        );
        let origin = origin.filter(|_| good);
        self.put_in_force(name, before, serving, origin);
    }

    /// `origin`: where it came from, if what is configured now serves and not the last good version of it.
    fn put_in_force(
        &mut self,
        name: &str,
        before: Option<Serving>,
        serving: Serving,
        origin: Option<String>,
    ) {
        let covers = |terms: &Terms| {
            (
                terms.digest.clone(),
                terms.mapping.basis.clone(),
                terms.kind.fingerprint.clone(),
                held(&terms.mapping.mapping),
            )
        };
        let same = before
            .as_ref()
            .is_some_and(|before| covers(&before.terms) == covers(&serving.terms));
        let kind = kind_name(&serving.terms.mapping.kind);
        let note = serving.plugin.as_ref().zip(origin).map(|(plugin, origin)| {
            let (descriptor, digest) = (plugin.descriptor(), short_digest(plugin.digest()));
            format!(
                "mapping {name}: {} {} ({digest}) serves {kind}, from {origin}",
                descriptor.name, descriptor.version
            )
        });
        let Some(runtime) = self.mappings.get_mut(name) else {
            return;
        };
        crash::pass("during-swap-publish");
        runtime.serving = Some(serving);
        let place = runtime.place.clone();
        if let Some(note) = note {
            self.tell(&place, EventType::Normal, "MappingActive", note);
        }
        match before {
            _ if same => {}
            Some(_) => self.begin_swap(name),
            None => self.push_all(name, Why::Initial),
        }
    }

    /// The terms of a mapping, once its kind is watched and the journals are known.
    fn terms(
        &self,
        name: &str,
        checked: &Arc<CheckedMapping>,
        digest: String,
        plugin: PluginFacts,
    ) -> Option<Terms> {
        if !self.journals_synced {
            return None;
        }
        let runtime = self.mappings.get(name)?;
        let mut kind = None;
        for scope in &runtime.scopes {
            let served = self.kinds.get(scope)?.served.as_ref()?;
            if !served.watch.is_synced() {
                return None;
            }
            kind.get_or_insert_with(|| facts(&served.resource, &checked.mapping));
        }
        Some(Terms {
            mapping: checked.clone(),
            digest,
            kind: kind?,
            plugin,
        })
    }

    /// The kind is not there: nothing of the mapping is passed until it is.
    pub(super) fn stop_serving(&mut self, name: &str) {
        let Some(runtime) = self.mappings.get_mut(name) else {
            return;
        };
        runtime.serving = None;
        runtime.swap = Swap::default();
        self.queue.remove_mapping(runtime.id);
    }
}

/// What says which objects are held, and how: an edit of it concerns every object, though no plugin decides otherwise by it.
fn held(mapping: &Mapping) -> Mapping {
    Mapping {
        // The digest says which plugin it is.
        plugin: PluginSource::default(),
        queue: QueueFields::default(),
        retry: Retry::default(),
        resync: Span(0),
        concurrency: 0,
        limits: Limits::default(),
        breaker: Breaker::default(),
        ..mapping.clone()
    }
}

/// What serves while the plugin that is configured cannot: the last good plugin, with all else that the mapping says now where
/// that fits it, else with what it said then.
fn last_good(
    serving: &Serving,
    plugin: Plugin,
    checked: Arc<CheckedMapping>,
) -> (Option<Plugin>, Arc<CheckedMapping>, Option<String>) {
    let checked = match fits(plugin.descriptor(), &checked) {
        Ok(()) => checked,
        Err(_) => serving.terms.mapping.clone(),
    };
    (Some(plugin), checked, None)
}

fn plugin_facts(plugin: Option<&Plugin>, broken: Option<String>) -> PluginFacts {
    match plugin {
        Some(plugin) => PluginFacts {
            finalizes: plugin.descriptor().finalizes,
            needs: plugin.descriptor().needs.clone(),
            broken,
        },
        None => PluginFacts {
            broken: Some(broken.unwrap_or_else(|| "the plugin is not loaded".to_owned())),
            ..PluginFacts::default()
        },
    }
}

/// Whether a plugin can answer for a mapping.
fn fits(descriptor: &Descriptor, checked: &CheckedMapping) -> Result<(), String> {
    let kind = &checked.kind;
    let serves = |served: &guesthouse_core::contract::ServedKind| served.kind == *kind;
    if !descriptor.kinds.is_empty() && !descriptor.kinds.iter().any(serves) {
        let all: Vec<_> = descriptor
            .kinds
            .iter()
            .map(|served| served.kind.to_string())
            .collect();
        return Err(format!(
            "the plugin {} is for {}, not for {kind}",
            descriptor.name,
            all.join(", ")
        ));
    }
    let Some(schema) = &descriptor.config_schema else {
        return Ok(());
    };
    let schema: serde_json::Value = schema
        .read()
        .map_err(|error| format!("the plugin's config schema cannot be read: {error}"))?;
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| format!("the plugin's config schema is wrong: {error}"))?;
    validator
        .validate(&checked.mapping.config)
        .map_err(|error| {
            let at = error.instance_path().to_string().replace('/', ".");
            format!("config{at} does not fit the plugin: {error}")
        })
}
