//! What a spec wants to read beside the object and to have as children, and how the status shows what was found:
//! `spec.read` and `spec.children` ask, `status.saw` tells.

use guesthouse_sdk::contract::{Kind, ObjectRef};
use guesthouse_sdk::prelude::*;
use serde_json::{Map, Value};

/// The members of a spec that this is about; the others are only echoed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asks {
    read: Vec<Read>,
    /// Whole objects; the effect's id is the object's name.
    children: Option<Vec<Value>>,
}

/// One thing to read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Read {
    name: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    /// By name.
    object: Option<String>,
    /// By label; with neither, those with this object's mark.
    labels: Option<String>,
    /// Not in the cluster but there.
    fetch: Option<String>,
    namespace: Option<String>,
    #[serde(default)]
    metadata: bool,
    limit: Option<u32>,
}

impl Read {
    fn need(&self) -> Need {
        let kind = Kind {
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
        };
        let mut need = match (&self.fetch, &self.object, &self.labels) {
            (Some(url), ..) => Need::fetch(&self.name, url, 0),
            (_, Some(name), _) => {
                let (namespace, name) = (None, name.clone());
                let object = ObjectRef {
                    kind,
                    namespace,
                    name,
                };
                Need::object(&self.name, object)
            }
            (_, _, Some(labels)) => Need::selected(&self.name, kind, labels),
            _ => Need::owned(&self.name, kind),
        };
        if let Some(namespace) = &self.namespace {
            need = need.namespace(namespace);
        }
        if self.metadata {
            need = need.metadata();
        }
        match self.limit {
            Some(limit) => need.limit(limit),
            None => need,
        }
    }
}

/// Adds what the spec asks for to a decision, and what was found of it to the status.
pub(crate) fn read<P: Reconciler>(
    seen: &Observation<P>,
    mut decision: Decision<Raw>,
    echo: &str,
) -> Result<Decision<Raw>, Failure> {
    let asks: Asks = serde_json::from_str(seen.spec_json().unwrap_or("{}")).unwrap_or_default();
    if asks.read.is_empty() && asks.children.is_none() {
        return Ok(decision);
    }
    let mut saw = Map::new();
    for read in &asks.read {
        decision = decision.need(read.need());
        saw.insert(read.name.clone(), found(&seen.related(&read.name))?);
    }
    if let Some(children) = &asks.children {
        let apply = |child: &Value| {
            let id = child["metadata"]["name"].as_str().unwrap_or_default();
            Apply::new(id, child)
        };
        decision = decision.children(children.iter().map(apply));
    }
    let saw = Value::Object(saw).to_string();
    Ok(decision.status_json(["{\"echo\":", echo, ",\"saw\":", &saw, "}"].concat()))
}

/// Objects as `namespace/name`, with `=value` where they show a `data.value`.
fn found(related: &Related<'_>) -> Result<Value, Failure> {
    Ok(match related {
        Related::Unasked => Value::Null,
        Related::Response(response) => json!({"code": response.code}),
        Related::Unavailable(cause) => json!({"reason": cause.reason, "message": cause.message}),
        Related::Objects(objects) => {
            let all: Vec<Value> = objects.parse()?;
            let text = |object: &Value, member: &str| {
                let text = object["metadata"][member].as_str();
                text.unwrap_or_default().to_owned()
            };
            let show = |object: &Value| {
                let value = object["data"]["value"].as_str();
                let value = value.map(|value| ["=", value].concat());
                [
                    text(object, "namespace"),
                    "/".to_owned(),
                    text(object, "name"),
                    value.unwrap_or_default(),
                ]
                .concat()
            };
            let mut all: Vec<String> = all.iter().map(show).collect();
            if objects.truncated {
                all.push("and more".to_owned());
            }
            json!(all)
        }
    })
}
