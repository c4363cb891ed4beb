//! `guesthouse diff`: what another version of a plugin decides otherwise, object by object, with nothing carried out.

mod read;

use std::sync::Arc;

use anyhow::{Context, Result};
use guesthouse_core::{
    contract::{Json, Reply},
    dry::{Ask, DryRun, Over, Until, World},
    life::{Answer, Change, Comparison, compare},
    mapping::CheckedMapping,
    object::ObjectKey,
    pass::{Begin, Carry, KindFacts, PluginFacts, StoredJournal, Terms},
    refusal::Refusal,
    time::Time,
};
use guesthouse_sandbox::Plugin;
use serde::Serialize;
use serde_json::Value;

use crate::{
    args::{DiffArgs, DiffForm},
    crd, render, yaml,
};
use read::{Read, Surroundings};

/// Whether the two decide the same.
pub(crate) fn run(args: &DiffArgs) -> Result<bool> {
    let (old, new) = (crd::load(&args.old)?, crd::load(&args.new)?);
    let now = render::now(args.now.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let report = runtime.block_on(async {
        let mut read = Read::of(args, &new).await?;
        let version = |plugin: &Plugin| Version::new(plugin.clone(), &read.mapping, &read.kind);
        let (old, new) = (version(&old), version(&new));
        let mut report = Report::default();
        for object in std::mem::take(&mut read.objects) {
            let before = ask(&old, &object, &mut read.surroundings, now).await?;
            let after = ask(&new, &object, &mut read.surroundings, now).await?;
            report.add(&object.key, compare(&before, &after));
        }
        anyhow::Ok(report)
    })?;
    match args.output {
        DiffForm::Text => yaml::out(&report.text())?,
        DiffForm::Json => yaml::out(&(serde_json::to_string_pretty(&report)? + "\n"))?,
    }
    Ok(report.different == 0 && report.failing == 0)
}

/// One object to ask about.
struct Object {
    key: ObjectKey,
    object: Json,
    journals: Vec<StoredJournal>,
}

/// A version and how it is asked.
struct Version {
    plugin: Plugin,
    terms: Arc<Terms>,
}

impl Version {
    fn new(plugin: Plugin, mapping: &Arc<CheckedMapping>, kind: &KindFacts) -> Self {
        let descriptor = plugin.descriptor();
        let terms = Terms {
            mapping: mapping.clone(),
            digest: plugin.digest().to_owned(),
            kind: kind.clone(),
            plugin: PluginFacts {
                finalizes: descriptor.finalizes,
                needs: descriptor.needs.clone(),
                broken: None,
            },
        };
        Self {
            plugin,
            terms: Arc::new(terms),
        }
    }

    fn call(
        &self,
        verb: guesthouse_core::contract::Verb,
        seen: &guesthouse_core::contract::Observation,
    ) -> Result<Reply, Refusal> {
        let limits = &self.terms.mapping.mapping.limits;
        self.plugin.call(verb, seen, limits).result
    }
}

/// What a version makes of an object. What turns out to be needed and was not read yet is read, and it is asked again.
async fn ask(
    version: &Version,
    object: &Object,
    surroundings: &mut Surroundings,
    now: Time,
) -> Result<Answer> {
    loop {
        let begin = Begin {
            key: object.key.clone(),
            object: Some(object.object.clone()),
            journals: object.journals.clone(),
            carry: Carry::default(),
            forced: true,
        };
        let world = World::new(object.object.read()?, surroundings.objects(&object.key));
        let around = surroundings.around();
        let terms = version.terms.clone();
        let (mut run, mut next) = DryRun::start(terms, begin, world, around, Until::Decided, now);
        let over = loop {
            match next {
                Ask::Call(verb, seen) => next = run.answer(version.call(verb, &seen)),
                Ask::Over(over) => break over,
            }
        };
        let answer = Answer::of(&over, run.replies.last());
        if !matches!(over, Over::Unknown(_)) || !surroundings.read_missing().await? {
            return Ok(answer);
        }
    }
}

/// What differs, to be printed.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    same: usize,
    different: usize,
    failing: usize,
    not_comparable: usize,
    objects: Vec<Told>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    object: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fails: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_comparable: Option<String>,
}

impl Report {
    fn add(&mut self, key: &ObjectKey, comparison: Comparison) {
        let mut told = Told {
            object: key.to_string(),
            changes: Vec::new(),
            fails: None,
            not_comparable: None,
        };
        match comparison {
            Comparison::Same => {
                self.same += 1;
                return;
            }
            Comparison::Different(changes) => {
                self.different += 1;
                told.changes = changes;
            }
            Comparison::Fails(cause) => {
                self.failing += 1;
                told.fails = Some(format!("{}: {}", cause.reason, cause.message));
            }
            Comparison::NotComparable(why) => {
                self.not_comparable += 1;
                told.not_comparable = Some(why);
            }
        }
        self.objects.push(told);
    }

    fn text(&self) -> String {
        let value = |value: &Option<Value>| match value {
            None => "-".to_owned(),
            Some(value) => value.to_string(),
        };
        let mut text = String::new();
        for told in &self.objects {
            let object = &told.object;
            match (&told.fails, &told.not_comparable) {
                (Some(why), _) => text += &format!("{object}: fails: {why}\n"),
                (_, Some(why)) => text += &format!("{object}: not comparable: {why}\n"),
                _ => text += &format!("{object}:\n"),
            }
            for change in &told.changes {
                let (old, new) = (value(&change.old), value(&change.new));
                text += &format!("  {}: {old} -> {new}\n", change.path);
            }
        }
        let (same, different) = (self.same, self.different);
        let (failing, unknown) = (self.failing, self.not_comparable);
        text + &format!(
            "{same} as before, {different} otherwise, {failing} fail, {unknown} not comparable\n"
        )
    }
}
