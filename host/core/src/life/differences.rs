//! In what two replies differ, as paths that people know.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    contract::{Action, Decision, Effect, Reply, cut},
    keys::Hash,
};

/// Most differences between two replies that are told.
const MOST: usize = 100;
/// Longest path of one, bytes.
const MAX_PATH: usize = 256;

/// What stands for a value that nobody is shown.
const HIDDEN: &str = "hidden:";

/// One thing that two replies say differently; none: one of them says nothing of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// As in `status.phase` or `effects.export.http.request.url`.
    pub path: String,
    /// What the old one says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What the new one says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}

/// What a reply says, as a tree in which equal replies are equal: lists whose members have names are maps, and the content of
/// Secrets is there to be compared and not to be read. Needs are no part of it: they lead to a decision and are none.
pub fn said(reply: &Reply) -> Value {
    match reply {
        Reply::Decision(decision) => decided(decision),
        Reply::Failure(failure) => {
            let failure = serde_json::to_value(failure).unwrap_or_default();
            Value::Object(Map::from_iter([("failure".to_owned(), failure)]))
        }
    }
}

fn decided(decision: &Decision) -> Value {
    let mut rest = decision.clone();
    rest.needs.clear();
    let effects = std::mem::take(&mut rest.effects);
    let conditions = std::mem::take(&mut rest.conditions);
    let mut said = serde_json::to_value(&rest).unwrap_or_default();
    let named = |all: BTreeMap<String, Value>| Value::Object(all.into_iter().collect());
    let conditions = conditions.iter().map(|condition| {
        let value = serde_json::to_value(condition).unwrap_or_default();
        (condition.type_.clone(), value)
    });
    let conditions: BTreeMap<_, _> = conditions.collect();
    let effects: BTreeMap<_, _> = effects.iter().map(effect).collect();
    for (member, all) in [("conditions", conditions), ("effects", effects)] {
        if !all.is_empty() {
            said[member] = named(all);
        }
    }
    // Whole or merged is said by the path; the content is what counts.
    said
}

fn effect(effect: &Effect) -> (String, Value) {
    let mut value = serde_json::to_value(effect).unwrap_or_default();
    if let Action::Apply(_) = effect.action {
        let object = &mut value["action"]["apply"]["object"];
        if object["kind"] == "Secret" {
            hide(&mut object["data"]);
            hide(&mut object["stringData"]);
        }
    }
    (effect.id.clone(), value["action"].take())
}

fn hide(content: &mut Value) {
    match content {
        Value::Object(members) => members.values_mut().for_each(hide),
        Value::Null => {}
        value => {
            *value = format!(
                "{HIDDEN}{}",
                Hash::of("hidden").part(value.to_string()).hex()
            )
            .into()
        }
    }
}

/// The differences between what two replies say: at most [`MOST`] of them, since both are a plugin's to choose.
pub fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut all = Vec::new();
    compare("", Some(old), Some(new), &mut all);
    all
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, all: &mut Vec<Change>) {
    if old == new || all.len() == MOST {
        return;
    }
    let (Some(Value::Object(before)), Some(Value::Object(after))) = (old, new) else {
        all.push(Change {
            path: path.to_owned(),
            old: old.map(shown),
            new: new.map(shown),
        });
        return;
    };
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        // Before its path is made, which may be as long as a reply.
        if old == new {
            continue;
        }
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{}", cut(name, MAX_PATH));
        compare(cut(&path, MAX_PATH), old, new, all);
    }
}

fn shown(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(HIDDEN) => "(hidden)".into(),
        Value::Array(items) => items.iter().map(shown).collect(),
        Value::Object(members) => {
            let shown = |(name, value): (&String, &Value)| (name.clone(), shown(value));
            Value::Object(members.iter().map(shown).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reply(decision: Value) -> Reply {
        serde_json::from_value(json!({"decision": decision})).unwrap()
    }

    /// Replies are a plugin's to choose, and so are the names in them.
    #[test]
    fn long_names_and_many_of_them_are_cut() {
        let name = "k".repeat(10_000);
        let members: Map<String, Value> = (0..1000).map(|n| (n.to_string(), n.into())).collect();
        let all = changes(&json!({&name: {}}), &json!({&name: members}));
        assert_eq!(all.len(), MOST);
        assert!(all.iter().all(|change| change.path.len() <= MAX_PATH));
    }

    fn paths(old: Value, new: Value) -> Vec<String> {
        let all = changes(&said(&reply(old)), &said(&reply(new)));
        all.into_iter().map(|change| change.path).collect()
    }

    fn secret(value: &str) -> Value {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"password": value},
        });
        json!({"effects": [{"id": "s", "action": {"apply": {"object": object}}}]})
    }

    #[test]
    fn what_differs_is_named_by_its_path_and_what_only_stands_elsewhere_does_not_differ() {
        let http = |id: &str, url: &str| json!({"id": id, "action": {"http": {"request": {"method": "PUT", "url": url}}}});
        let condition =
            |type_: &str, reason: &str| json!({"type": type_, "status": "True", "reason": reason});
        let old = json!({
            "status": {"replace": {"phase": "Done", "url": "a"}},
            "effects": [http("a", "x"), http("b", "y")],
            "conditions": [condition("A", "R"), condition("B", "R")],
        });
        let moved = json!({
            "status": {"replace": {"url": "a", "phase": "Done"}},
            "effects": [http("b", "y"), http("a", "x")],
            "conditions": [condition("B", "R"), condition("A", "R")],
        });
        assert_eq!(paths(old.clone(), moved), [""; 0]);
        let new = json!({
            "status": {"replace": {"phase": "Failed"}},
            "effects": [http("a", "z")],
            "conditions": [condition("A", "S"), condition("B", "R")],
            "complete": true,
        });
        let wanted = [
            "complete",
            "conditions.A.reason",
            "effects.a.http.request.url",
            "effects.b",
            "status.replace.phase",
            "status.replace.url",
        ];
        assert_eq!(paths(old, new), wanted);
    }

    #[test]
    fn another_secret_differs_and_is_not_shown() {
        assert_eq!(paths(secret("one"), secret("one")), [""; 0]);
        let all = changes(&said(&reply(secret("one"))), &said(&reply(secret("two"))));
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(all.len(), 1, "{text}");
        assert!(text.contains("(hidden)") && !text.contains("one") && !text.contains("two"));
        // Nor where the whole Secret is new.
        let all = changes(&said(&reply(json!({}))), &said(&reply(secret("two"))));
        let text = serde_json::to_string(&all).unwrap();
        assert!(text.contains("(hidden)") && !text.contains("two"), "{text}");
    }

    #[test]
    fn a_failure_is_another_word_than_a_decision() {
        let failure: Reply = serde_json::from_value(
            json!({"failure": {"kind": "retry", "cause": {"reason": "R", "message": "m"}}}),
        )
        .unwrap();
        let all = changes(&said(&reply(json!({"complete": true}))), &said(&failure));
        let paths: Vec<_> = all.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, ["complete", "failure"]);
    }
}
