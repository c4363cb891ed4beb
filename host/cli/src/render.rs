//! `guesthouse render`: a pass without a cluster.
//!
//! The pass is the host's own: the same state machine with its effects withheld, which calls the plugin and has every other
//! step printed instead of carried out. So what is printed is what the host does.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use guesthouse_core::{
    contract::{Json, Receipt, ReceiptState, Reply, Verb},
    dry::{Ask, DryRun, MOST_PASSES, Nothing, Over, Until, World, complete},
    journal::{Journal, ReceiptRecord, RecordState, Subject},
    keys::request_fingerprint,
    mapping::{CheckedMapping, MAPPINGS_LABEL},
    object::{Head, ObjectKey, Uid},
    pass::{
        Begin, Carry, ChildWrite, End, KindFacts, PluginFacts, Step, StepAction, StoredJournal,
        Terms,
    },
    schema::StatusSchema,
    time::Time,
};
use guesthouse_sandbox::Plugin;
use serde::Serialize;
use serde_json::{Value, json};

use crate::{args::RenderArgs, crd, exit::Refused, yaml};

pub(crate) fn run(args: &RenderArgs) -> Result<()> {
    let plugin = crd::load(&args.plugin)?;
    let object = complete(
        yaml::read(&args.object)?,
        "00000000-0000-0000-0000-000000000000",
    )?;
    let given = args.mapping.as_deref();
    let mapping = mapping(given, &args.namespace, &args.plugin, &plugin, &object)?;
    let definition = match &args.crd {
        Some(path) => Some(yaml::read(path)?),
        None => crd::for_kind(&plugin, &mapping.kind),
    };
    let now = now(args.now.as_deref())?;
    let receipts: Vec<Receipt> = match &args.receipts {
        Some(path) => serde_json::from_value(yaml::read(path)?)
            .with_context(|| format!("{}", path.display()))?,
        None => Vec::new(),
    };
    let kind = facts(definition.as_ref(), &mapping);
    let descriptor = plugin.descriptor();
    let terms = Terms {
        mapping: Arc::new(mapping),
        digest: plugin.digest().to_owned(),
        kind,
        plugin: PluginFacts {
            finalizes: descriptor.finalizes,
            needs: descriptor.needs.clone(),
            broken: None,
        },
    };
    let others = related(&args.related, &object)?;
    let mut rendering = Rendering {
        plugin,
        terms: Arc::new(terms),
        receipts,
        world: World::new(object, others),
        calls: Vec::new(),
        steps: Vec::new(),
    };
    let end = rendering.drive(now)?;
    yaml::out(&yaml::print(&Rendered {
        calls: rendering.calls,
        plan: rendering.steps,
        end,
    })?)
}

/// What is printed, in this order.
#[derive(Serialize)]
struct Rendered {
    calls: Vec<Value>,
    plan: Vec<Planned>,
    end: Value,
}

/// One step that the host would take.
#[derive(Serialize)]
struct Planned {
    step: &'static str,
    r#as: String,
    content: Value,
}

/// Objects beside the reconciled one; without a namespace they lie in its own.
pub(crate) fn related(paths: &[PathBuf], object: &Value) -> Result<Vec<Value>> {
    let own = &object["metadata"]["namespace"];
    let mut all = Vec::new();
    for path in paths {
        for mut other in yaml::read_all(path)? {
            let uid = format!("00000000-0000-0000-0002-{:012}", all.len());
            if other["metadata"]["namespace"].is_null() && !own.is_null() {
                other["metadata"]["namespace"] = own.clone();
            }
            let other = complete(other, &uid).with_context(|| format!("{}", path.display()))?;
            all.push(other);
        }
    }
    Ok(all)
}

/// The mapping given, or one that grants what the plugin asks for.
pub(crate) fn mapping(
    given: Option<&Path>,
    namespace: &str,
    file: &Path,
    plugin: &Plugin,
    object: &Value,
) -> Result<CheckedMapping> {
    if let Some(path) = given {
        let (name, text) = mapping_text(path)?;
        return CheckedMapping::parse(&name, &text, namespace)
            .with_context(|| format!("{}", path.display()));
    }
    eprintln!("note: no --mapping: no config, and the plugin is granted what it asks for");
    let text = json!({
        "for": {"apiVersion": object["apiVersion"], "kind": object["kind"]},
        "plugin": {"file": file},
        "grants": plugin.descriptor().grants.read::<Value>()?,
        "serviceAccount": "default",
    });
    CheckedMapping::parse("render", &text.to_string(), namespace)
        .context("a mapping for this object and plugin")
}

/// Name and text of a mapping: the file itself, or the one key of the one labelled ConfigMap in it.
fn mapping_text(path: &Path) -> Result<(String, String)> {
    let documents = yaml::read_all(path)?;
    let label = format!("/metadata/labels/{}", MAPPINGS_LABEL.replace('/', "~1"));
    let is_labelled = |it: &&Value| it["kind"] == "ConfigMap" && it.pointer(&label).is_some();
    let mut found = documents.iter().filter(is_labelled).flat_map(|it| {
        let data = it["data"].as_object().into_iter().flatten();
        data.filter_map(|(key, text)| Some((key.strip_suffix(".yaml")?, text.as_str()?)))
    });
    match (found.next(), found.next()) {
        (Some((name, text)), None) => Ok((name.to_owned(), text.to_owned())),
        (Some(_), Some(_)) => bail!(
            "{} has several mappings; name a file with one",
            path.display()
        ),
        (None, _) => {
            let name = path.file_stem().and_then(|stem| stem.to_str());
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("reading {}", path.display()))?;
            Ok((name.unwrap_or("mapping").to_owned(), text))
        }
    }
}

pub(crate) fn facts(definition: Option<&Value>, mapping: &CheckedMapping) -> KindFacts {
    let version = mapping
        .kind
        .api_version
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let versions = definition.and_then(|crd| crd.pointer("/spec/versions")?.as_array());
    let version = versions.and_then(|all| all.iter().find(|v| v["name"] == version));
    let schema = version.and_then(|version| version.pointer("/schema/openAPIV3Schema"));
    KindFacts {
        takes_status: Ok(()),
        schema: schema.map_or_else(StatusSchema::unknown, StatusSchema::of_crd),
        fingerprint: String::new(),
    }
}

struct Rendering {
    plugin: Plugin,
    terms: Arc<Terms>,
    receipts: Vec<Receipt>,
    world: World,
    calls: Vec<Value>,
    steps: Vec<Planned>,
}

impl Rendering {
    fn drive(&mut self, now: Time) -> Result<Value> {
        let raw = Json::of(&self.world.object)?;
        let head = Head::parse(raw.as_str())?;
        let (key, uid) = (head.key(), Uid::new(&head.uid));
        let begin = Begin {
            journals: self.journal(&key, &uid, &raw, now)?,
            object: Some(raw.clone()),
            key,
            carry: Carry::default(),
            forced: true,
        };
        let (terms, world) = (self.terms.clone(), self.world.clone());
        let (mut run, mut ask) = DryRun::start(terms, begin, world, Nothing, Until::Settled, now);
        let over = loop {
            match ask {
                Ask::Call(verb, seen) => ask = run.answer(Ok(self.call(verb, &seen)?)),
                Ask::Over(over) => break over,
            }
        };
        self.steps = run.steps.iter().filter_map(planned).collect();
        Ok(match over {
            Over::Ended(end) => ended(&end),
            Over::Sends => {
                json!({"outcome": "what follows depends on the answers; give them with --receipts"})
            }
            Over::Endless => {
                json!({"outcome": format!("after {MOST_PASSES} passes it still asks for another one")})
            }
            Over::Unknown(what) => bail!(what),
        })
    }

    /// The plugin's reply; a refusal ends the rendering.
    fn call(&mut self, verb: Verb, seen: &guesthouse_core::contract::Observation) -> Result<Reply> {
        let called = self
            .plugin
            .call(verb, seen, &self.terms.mapping.mapping.limits);
        for line in &called.logs {
            eprintln!("plugin: {}", line.message);
        }
        let reply = called
            .result
            .map_err(|refusal| Refused(refusal.to_string()))?;
        self.calls
            .push(serde_json::from_str(&serde_json::to_string(&reply)?)?);
        Ok(reply)
    }

    /// Receipts are given by id and key; which requests they are for is asked of the plugin.
    fn journal(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        object: &Json,
        now: Time,
    ) -> Result<Vec<StoredJournal>> {
        if self.receipts.is_empty() {
            return Ok(Vec::new());
        }
        let mapping = &self.terms.mapping;
        let mut journal = Journal::new(
            Subject::new(&mapping.kind, key.namespace(), key.name(), uid),
            &mapping.name,
        );
        let wished = self.wished(object, now)?;
        for receipt in &self.receipts {
            let request = wished
                .iter()
                .find(|(id, http)| *id == receipt.effect && http.key == receipt.key)
                .map(|(_, http)| request_fingerprint(http))
                .unwrap_or_default();
            let state = match receipt.state.clone() {
                ReceiptState::Answered(response) => RecordState::Answered(response),
                ReceiptState::Failed(failed) => RecordState::Failed {
                    attempts: failed.attempts,
                    error: failed.error,
                    next_at: Time::parse(&failed.next_at)?,
                },
                ReceiptState::Unknown => RecordState::Unknown,
            };
            journal.file(ReceiptRecord {
                effect: receipt.effect.clone(),
                key: receipt.key.clone(),
                request,
                state,
            });
        }
        Ok(vec![StoredJournal {
            name: String::new(),
            version: "1".into(),
            journal,
        }])
    }

    /// The http effects the plugin asks for before it has any receipt.
    fn wished(
        &self,
        object: &Json,
        now: Time,
    ) -> Result<Vec<(String, guesthouse_core::contract::Http)>> {
        let mapping = &self.terms.mapping;
        let seen = guesthouse_core::contract::Observation {
            object: object.clone(),
            related: Vec::new(),
            children: Vec::new(),
            receipts: Vec::new(),
            config: mapping.config.clone(),
            mapping: mapping.name.clone(),
            now: now.seconds(),
            attempt: 0,
            round: 0,
            extensions: Vec::new(),
        };
        let reply = self
            .plugin
            .call(Verb::Reconcile, &seen, &mapping.mapping.limits)
            .result;
        let Reply::Decision(decision) = reply.map_err(|refusal| Refused(refusal.to_string()))?
        else {
            return Ok(Vec::new());
        };
        let http = |effect: guesthouse_core::contract::Effect| match effect.action {
            guesthouse_core::contract::Action::Http(http) => Some((effect.id, http)),
            _ => None,
        };
        Ok(decision.effects.into_iter().filter_map(http).collect())
    }
}

/// A step as it is printed; readings are not.
fn planned(step: &Step) -> Option<Planned> {
    let content = match &step.action {
        StepAction::Send(sends) => json!(sends),
        StepAction::Patch(write) => json!(write.body),
        StepAction::Status(write) => write.body.clone(),
        StepAction::Journal(write) => json!(write.journal),
        StepAction::Tell(notes) => json!(notes),
        StepAction::Finalizer(write) => write.patch.clone(),
        StepAction::Apply(writes) => {
            let body = |write: &ChildWrite| write.body.read().unwrap_or(Value::Null);
            json!(writes.iter().map(body).collect::<Vec<_>>())
        }
        StepAction::Remove(removals) => {
            json!(removals.iter().map(|r| &r.object).collect::<Vec<_>>())
        }
        StepAction::DeleteSelf { uid } => json!({"uid": uid}),
        StepAction::Read
        | StepAction::Gather(_)
        | StepAction::Look(_)
        | StepAction::Call(..)
        | StepAction::DropJournal { .. }
        | StepAction::End(_) => return None,
    };
    Some(Planned {
        step: step.action.name(),
        r#as: step.identity.to_string(),
        content,
    })
}

/// How the last pass ended.
fn ended(end: &End) -> Value {
    let cause = end
        .cause
        .as_ref()
        .map(|cause| json!({"reason": cause.reason, "message": cause.message}));
    let members = [
        ("outcome", Some(json!(end.outcome.as_str()))),
        ("cause", cause),
        ("wake", end.wake.map(|at| json!(at.seconds()))),
    ];
    let there = |(name, value): (&str, Option<Value>)| Some((name.to_owned(), value?));
    Value::Object(members.into_iter().filter_map(there).collect())
}

/// When passes begin.
pub(crate) fn now(given: Option<&str>) -> Result<Time> {
    match given {
        Some(text) => Ok(Time::parse(text)?),
        None => Ok(Time(now_ms())),
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
