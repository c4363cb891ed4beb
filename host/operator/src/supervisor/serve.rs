//! When a mapping serves: its plugin is loaded and fits, its kind is watched, and the journals are known.

use std::{collections::BTreeSet, sync::Arc};

use guesthouse_core::{
    contract::{Descriptor, EventType},
    mapping::CheckedMapping,
    pass::{Terms, short_digest},
    queue::{MappingId, Why},
};
use guesthouse_sandbox::Plugin;

use crate::crash;

use super::{Supervisor, kind_name, kinds::facts, mappings::Serving};

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
        let (plugin, problem) = (source.plugin.clone(), source.problem.clone());
        let fits = plugin
            .as_ref()
            .map(|plugin| fits(plugin.descriptor(), &checked));
        let trouble = problem.or_else(|| fits.and_then(Result::err));
        let good = trouble.is_none();
        let (plugin, checked) = match (plugin, trouble) {
            (Some(plugin), None) => (plugin, checked),
            (_, trouble) => {
                let why = trouble.unwrap_or_default();
                let last = match &before {
                    Some(serving) => format!("{} serves on", short_digest(serving.plugin.digest())),
                    None => "the mapping does not serve".to_owned(),
                };
                self.tell(
                    &place,
                    EventType::Warning,
                    "PluginRefused",
                    format!("mapping {name}: {why}; {last}"),
                );
                match &before {
                    Some(serving) => last_good(serving, checked),
                    None => return,
                }
            }
        };
        let Some(terms) = self.terms(name, &checked, plugin.digest()) else {
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
        self.put_in_force(name, before, serving, good);
    }

    /// `good`: what is configured now serves, and not the last good version of it.
    fn put_in_force(&mut self, name: &str, before: Option<Serving>, serving: Serving, good: bool) {
        let covers = |terms: &Terms| {
            (
                terms.digest.clone(),
                terms.mapping.basis.clone(),
                terms.kind.fingerprint.clone(),
            )
        };
        let same = before
            .as_ref()
            .is_some_and(|before| covers(&before.terms) == covers(&serving.terms));
        let descriptor = serving.plugin.descriptor();
        let (plugin, digest) = (
            format!("{} {}", descriptor.name, descriptor.version),
            short_digest(serving.plugin.digest()),
        );
        let kind = kind_name(&serving.terms.mapping.kind);
        let note = format!("mapping {name}: {plugin} ({digest}) serves {kind}");
        let Some(runtime) = self.mappings.get_mut(name) else {
            return;
        };
        crash::pass("during-swap-publish");
        runtime.serving = Some(serving);
        let place = runtime.place.clone();
        if good {
            self.tell(&place, EventType::Normal, "MappingActive", note);
        }
        if !same {
            self.push_all(
                name,
                if before.is_some() {
                    Why::Swap
                } else {
                    Why::Initial
                },
            );
        }
    }

    /// The terms of a mapping, once its kind is watched and the journals are known.
    fn terms(&self, name: &str, checked: &Arc<CheckedMapping>, digest: &str) -> Option<Terms> {
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
            kind.get_or_insert_with(|| facts(&served.resource));
        }
        Some(Terms {
            mapping: checked.clone(),
            digest: digest.to_owned(),
            kind: kind?,
        })
    }

    /// The kind is not there: nothing of the mapping is passed until it is.
    pub(super) fn stop_serving(&mut self, name: &str) {
        let Some(runtime) = self.mappings.get_mut(name) else {
            return;
        };
        runtime.serving = None;
        self.queue.remove_mapping(runtime.id);
    }
}

/// What serves while the plugin that is configured cannot: the last good plugin, with all else that the mapping says now where
/// that fits it, else with what it said then.
fn last_good(serving: &Serving, checked: Arc<CheckedMapping>) -> (Plugin, Arc<CheckedMapping>) {
    let plugin = serving.plugin.clone();
    match fits(plugin.descriptor(), &checked) {
        Ok(()) => (plugin, checked),
        Err(_) => (plugin, serving.terms.mapping.clone()),
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
