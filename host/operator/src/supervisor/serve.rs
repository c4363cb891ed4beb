//! When a mapping serves: its plugin is loaded and fits, its kind is watched, and the journals are known.

use std::{collections::BTreeSet, sync::Arc};

use guesthouse_core::{
    contract::{Descriptor, EventType},
    life::{Choice, State},
    limits::Limits,
    mapping::{Breaker, CheckedMapping, Mapping, PluginSource, QueueFields, Retry, Rollout},
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

/// How a version serves, or none does.
pub(super) struct How<'a> {
    pub(super) state: State,
    /// Why it is not the newest.
    pub(super) why: &'a str,
    /// Why nothing can be called.
    pub(super) broken: Option<String>,
}

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
        if !self.ownership.owns(name) || !self.is_recalled(name) {
            return;
        }
        let Some(runtime) = self.mappings.get(name) else {
            return;
        };
        let (checked, before) = (runtime.checked.clone(), runtime.serving.clone());
        let Some(source) = self.sources.get(&checked.mapping.plugin) else {
            return;
        };
        if !source.heard {
            return;
        }
        // What this very source brought last, judged by what is demanded now, also where its newest is in trouble.
        let (good, problem) = (source.good.clone(), source.problem.clone());
        let plugin = good.map(|good| good.plugin);
        let fit = plugin.as_ref().map(|it| fits(it.descriptor(), &checked));
        let unfit = fit.and_then(Result::err);
        let trouble = problem.clone().or_else(|| unfit.clone());
        let newest = match (&plugin, &unfit) {
            (Some(plugin), None) => Ok(plugin),
            _ => Err(trouble.as_deref().unwrap_or_default()),
        };
        let Some(choice) = self.choose(name, newest, before.as_ref()) else {
            return;
        };
        let newest = newest.ok().cloned();
        if !matches!(choice, Choice::Rehearse(_)) {
            self.end_rehearsal(name);
        }
        match choice {
            Choice::Serve { digest, state, why } => {
                let Some(plugin) = self.version(name, &digest, newest.as_ref()) else {
                    return;
                };
                let (state, why) = match (state, problem) {
                    (State::Serving, Some(problem)) => (State::Refused, problem),
                    _ => (state, why),
                };
                self.serve_version(name, before, plugin, &checked, state, &why);
                if state != State::Pinned {
                    self.go_on_from_record(name, &digest, newest.as_ref());
                }
            }
            Choice::Keep { state, why } => self.keep(name, before, checked, state, &why),
            Choice::Rehearse(_) => {
                if let (Some(before), Some(newest)) = (before, newest) {
                    self.rehearse(name, before, newest, checked);
                }
            }
            Choice::Fetch(digest) => self.fetch(name, digest),
        }
    }

    /// What is on record serves, and the source has something newer: now there is something to compare it with.
    fn go_on_from_record(&mut self, name: &str, digest: &str, newest: Option<&Plugin>) {
        let serving = self.mappings.get(name).and_then(|it| it.serving.as_ref());
        let serves = serving.and_then(|serving| serving.plugin.as_ref());
        let is_it = serves.is_some_and(|plugin| plugin.digest() == digest);
        if is_it && newest.is_some_and(|newest| newest.digest() != digest) {
            self.refresh_one(name);
        }
    }

    fn serve_version(
        &mut self,
        name: &str,
        before: Option<Serving>,
        plugin: Plugin,
        checked: &Arc<CheckedMapping>,
        state: State,
        why: &str,
    ) {
        if let Err(unfit) = fits(plugin.descriptor(), checked) {
            // An older version that cannot answer for the mapping as it is now is as good as none; the newest does fit.
            self.is_missing(name, plugin.digest(), unfit);
            return self.refresh_one(name);
        }
        if state.is_doubt() {
            self.tell_doubt(name, state, why, Some(&plugin));
        }
        let how = How {
            state,
            why,
            broken: None,
        };
        self.serve(name, before, Some(plugin), checked, how);
    }

    /// The newest version does not serve: what serves goes on, under all else that the mapping says now where it fits.
    pub(super) fn keep(
        &mut self,
        name: &str,
        before: Option<Serving>,
        checked: Arc<CheckedMapping>,
        state: State,
        why: &str,
    ) {
        let last = before.as_ref().and_then(|serving| serving.plugin.clone());
        if state.is_doubt() {
            self.tell_doubt(name, state, why, last.as_ref());
        }
        let (plugin, checked, broken) = match (&before, last) {
            (Some(serving), Some(plugin)) => last_good(serving, plugin, checked),
            // Objects that are being deleted must not wait for ever in silence.
            _ => (None, checked, Some(why.to_owned())),
        };
        let how = How { state, why, broken };
        self.serve(name, before, plugin, &checked, how);
    }

    /// Says on the mapping's ConfigMap why the newest version does not serve.
    fn tell_doubt(&mut self, name: &str, state: State, why: &str, serves: Option<&Plugin>) {
        let Some(runtime) = self.mappings.get(name) else {
            return;
        };
        let place = runtime.place.clone();
        let now = match serves {
            Some(plugin) => format!("{} serves on", short_digest(plugin.digest())),
            None => "the mapping does not serve".to_owned(),
        };
        let reason = match state {
            State::Held => "SwapHeld",
            State::Returned => "SwapReturned",
            _ => "PluginRefused",
        };
        let note = format!("mapping {name}: {why}; {now}");
        self.tell(&place, EventType::Warning, reason, note);
    }

    fn serve(
        &mut self,
        name: &str,
        before: Option<Serving>,
        plugin: Option<Plugin>,
        checked: &Arc<CheckedMapping>,
        how: How<'_>,
    ) {
        let facts = plugin_facts(plugin.as_ref(), how.broken.clone());
        let digest = plugin.as_ref().map_or("", Plugin::digest).to_owned();
        let Some(terms) = self.terms(name, checked, digest, facts) else {
            let why = "its kind and the journals are not watched yet";
            self.stands(name, State::Waiting, why);
            return;
        };
        let Some(id) = self.mappings.get(name).map(|runtime| runtime.id) else {
            return;
        };
        let serving = Serving {
            plugin,
            terms: Arc::new(terms),
        };
        let (concurrency, retry) = (checked.mapping.concurrency, &checked.mapping.retry);
        let cap = usize::try_from(concurrency).unwrap_or(1);
        self.queue.set_mapping(id, cap, retry.base);
        self.put_in_force(name, before, serving, how);
    }

    fn put_in_force(
        &mut self,
        name: &str,
        before: Option<Serving>,
        serving: Serving,
        how: How<'_>,
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
        let note = serving.plugin.as_ref().map(|plugin| {
            let origin = self.origin(name, plugin.digest());
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
        runtime.serving = Some(serving.clone());
        let place = runtime.place.clone();
        // What is configured now serves, and not the last good version of it.
        if let (State::Serving | State::Pinned, Some(note)) = (how.state, note) {
            self.tell(&place, EventType::Normal, "MappingActive", note);
        }
        self.life_goes_on(name, &serving, how.why, how.state);
        self.stands(name, how.state, how.why);
        match before {
            _ if same => {}
            Some(_) => self.begin_swap(name),
            None => self.push_all(name, Why::Initial),
        }
    }

    /// The terms of a mapping, once its kind is watched and the journals are known.
    pub(super) fn terms(
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
        rollout: Rollout::default(),
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

pub(super) fn plugin_facts(plugin: Option<&Plugin>, broken: Option<String>) -> PluginFacts {
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
    // Its cost was bounded when it was loaded; patterns take linear time.
    let validator = jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(&schema)
        .map_err(|error| format!("the plugin's config schema is wrong: {error}"))?;
    validator
        .validate(&checked.mapping.config)
        .map_err(|error| {
            let at = error.instance_path().to_string().replace('/', ".");
            format!("config{at} does not fit the plugin: {error}")
        })
}
