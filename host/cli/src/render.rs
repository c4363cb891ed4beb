//! `guesthouse render`: a pass without a cluster.
//!
//! The pass is the host's own: this is another driver of the same state machine, which calls the plugin and prints every other
//! step instead of carrying it out. So what is printed is what the host does.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use guesthouse_core::{
    contract::{Json, Receipt, ReceiptState, Reply},
    journal::{Journal, ReceiptRecord, RecordState, Subject},
    keys::request_fingerprint,
    mapping::CheckedMapping,
    object::{Head, ObjectKey, Uid},
    pass::{Begin, Carry, KindFacts, Pass, Step, StepAction, StoredJournal, Terms, Told},
    plan::MetaPatch,
    schema::StatusSchema,
    time::Time,
};
use guesthouse_sandbox::{Plugin, Verb};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{args::RenderArgs, crd, exit::Refused, yaml};

pub(crate) fn run(args: &RenderArgs) -> Result<()> {
    let plugin = crd::load(&args.plugin)?;
    let object = complete(yaml::read(&args.object)?)?;
    let mapping = mapping(args, &plugin, &object)?;
    let definition = match &args.crd {
        Some(path) => Some(yaml::read(path)?),
        None => crd::for_kind(&plugin, &mapping.kind),
    };
    let now = match &args.now {
        Some(text) => Time::parse(text)?,
        None => Time(now_ms()),
    };
    let receipts: Vec<Receipt> = match &args.receipts {
        Some(path) => serde_json::from_value(yaml::read(path)?)
            .with_context(|| format!("{}", path.display()))?,
        None => Vec::new(),
    };
    let kind = facts(definition.as_ref(), &mapping);
    let terms = Terms {
        mapping: Arc::new(mapping),
        digest: plugin.digest().to_owned(),
        kind,
    };
    let mut rendering = Rendering {
        plugin,
        terms: Arc::new(terms),
        receipts,
        calls: Vec::new(),
        steps: Vec::new(),
    };
    let end = rendering.drive(object, now)?;
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

/// What the API server would have given it: without uid and version nothing could be planned.
fn complete(mut object: Value) -> Result<Value> {
    let Some(Value::Object(meta)) = object.get_mut("metadata") else {
        bail!("the object has no metadata")
    };
    if !meta.get("name").is_some_and(Value::is_string) {
        bail!("the object has no metadata.name");
    }
    for (field, value) in [
        ("uid", json!("00000000-0000-0000-0000-000000000000")),
        ("resourceVersion", json!("1")),
        ("generation", json!(1)),
    ] {
        meta.entry(field).or_insert(value);
    }
    Ok(object)
}

/// The mapping given, or one that grants what the plugin asks for.
fn mapping(args: &RenderArgs, plugin: &Plugin, object: &Value) -> Result<CheckedMapping> {
    if let Some(path) = &args.mapping {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or("mapping");
        return CheckedMapping::parse(name, &text, &args.namespace)
            .with_context(|| format!("{}", path.display()));
    }
    eprintln!("note: no --mapping: no config, and the plugin is granted what it asks for");
    let text = json!({
        "for": {"apiVersion": object["apiVersion"], "kind": object["kind"]},
        "plugin": {"file": args.plugin},
        "grants": plugin.descriptor().grants.read::<Value>()?,
        "serviceAccount": "default",
    });
    CheckedMapping::parse("render", &text.to_string(), &args.namespace)
        .context("a mapping for this object and plugin")
}

fn facts(definition: Option<&Value>, mapping: &CheckedMapping) -> KindFacts {
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
    calls: Vec<Value>,
    steps: Vec<Planned>,
}

impl Rendering {
    fn drive(&mut self, object: Value, now: Time) -> Result<Value> {
        let raw = Json::of(&object)?;
        let head = Head::parse(raw.as_str())?;
        let (key, uid) = (head.key(), Uid::new(&head.uid));
        let begin = Begin {
            object: Some(raw.clone()),
            journals: self.journal(&key, &uid, &raw, now)?,
            key,
            carry: Carry::default(),
            forced: true,
        };
        let (mut pass, mut step) = Pass::start(self.terms.clone(), begin, now);
        let mut object = object;
        loop {
            self.note(&step);
            let told = match step.action {
                StepAction::Call(_, seen) => Told::Reply(Ok(self.call(&seen)?)),
                StepAction::Journal(write) => {
                    Told::Journaled(Ok(write.version.unwrap_or_else(|| "1".into())))
                }
                StepAction::Patch(write) => {
                    apply(&mut object, &write.body);
                    Told::Written(Ok(Json::of(&object)?))
                }
                StepAction::Status(write) => {
                    object["status"] = write.body;
                    Told::Written(Ok(Json::of(&object)?))
                }
                StepAction::Tell(_) => Told::Done,
                StepAction::Send(_) => {
                    return Ok(
                        json!({"outcome": "what follows depends on the answers; give them with --receipts"}),
                    );
                }
                StepAction::Read | StepAction::DropJournal { .. } => {
                    bail!("a new object has nothing to read again")
                }
                StepAction::End(end) => {
                    let cause = end
                        .cause
                        .map(|cause| json!({"reason": cause.reason, "message": cause.message}));
                    let members = [
                        ("outcome", Some(json!(end.outcome.as_str()))),
                        ("cause", cause),
                        ("wake", end.wake.map(|at| json!(at.seconds()))),
                    ];
                    return Ok(Value::Object(
                        members
                            .into_iter()
                            .filter_map(|(k, v)| Some((k.to_owned(), v?)))
                            .collect(),
                    ));
                }
                other => bail!("{} is not rendered", other.name()),
            };
            step = pass.resume(told, now);
        }
    }

    /// The plugin's reply; a refusal ends the rendering.
    fn call(&mut self, seen: &guesthouse_core::contract::Observation) -> Result<Reply> {
        let called = self
            .plugin
            .call(Verb::Reconcile, seen, &self.terms.mapping.mapping.limits);
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

    fn note(&mut self, step: &Step) {
        let content = match &step.action {
            StepAction::Send(sends) => json!(sends),
            StepAction::Patch(write) => json!(write.body),
            StepAction::Status(write) => write.body.clone(),
            StepAction::Journal(write) => json!(write.journal),
            StepAction::Tell(notes) => json!(notes),
            StepAction::Read
            | StepAction::Call(..)
            | StepAction::DropJournal { .. }
            | StepAction::End(_)
            | _ => return,
        };
        self.steps.push(Planned {
            step: step.action.name(),
            r#as: step.identity.to_string(),
            content,
        });
    }
}

/// A merge patch of labels and annotations.
fn apply(object: &mut Value, patch: &MetaPatch) {
    for (field, wish) in [
        ("labels", &patch.labels),
        ("annotations", &patch.annotations),
    ] {
        for (key, value) in wish {
            match value {
                Some(value) => object["metadata"][field][key] = json!(value),
                None => {
                    if let Some(map) = object["metadata"][field].as_object_mut() {
                        map.remove(key);
                    }
                }
            }
        }
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
