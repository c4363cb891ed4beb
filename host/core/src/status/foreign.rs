//! Paths of a status that another controller writes: they stay as they were read, whatever a plugin wishes.

use serde_json::{Map, Value};

use super::Wish;
use crate::{contract::Status, object::FieldPath, schema::same};

/// Puts foreign paths of `next` back to what they are in `current`; returns those that the plugin wanted otherwise.
pub(super) fn keep(next: &mut Map<String, Value>, current: &Value, wish: Wish<'_>) -> Vec<String> {
    if wish.foreign.is_empty() {
        return Vec::new();
    }
    let asked = match wish.status {
        Some(Status::Replace(json) | Status::Merge(json)) => json.read::<Value>().ok(),
        None => None,
    };
    let mut dropped = Vec::new();
    for path in wish.foreign {
        let Some(steps) = below_status(path) else {
            continue;
        };
        // Conditions are merged by type, elsewhere.
        if steps.first() == Some(&"conditions") {
            continue;
        }
        let is = at(current, &steps);
        if let Some(asked) = asked.as_ref().and_then(|asked| at(asked, &steps))
            && !is.is_some_and(|is| same(is, asked))
        {
            dropped.push(format!(
                "{} (foreign)",
                path.to_string().trim_start_matches('.')
            ));
        }
        put(next, &steps, is);
    }
    dropped
}

/// Whether a mapping names this condition type as another's.
pub(super) fn names_type(wish: Wish<'_>, type_: &str) -> bool {
    wish.foreign.iter().any(|path| {
        below_status(path).is_some_and(|steps| steps.as_slice() == ["conditions", type_])
    })
}

/// Whether a condition of this type stays when a plugin's status no longer names it.
pub(super) fn type_is(wish: Wish<'_>, type_: &str) -> bool {
    let all = |path: &FieldPath| {
        below_status(path).is_some_and(|steps| steps.as_slice() == ["conditions"])
    };
    names_type(wish, type_) || wish.foreign.iter().any(all)
}

fn below_status(path: &FieldPath) -> Option<Vec<&str>> {
    let mut steps = path.steps();
    (steps.next() == Some("status")).then(|| steps.collect())
}

fn at<'a>(value: &'a Value, steps: &[&str]) -> Option<&'a Value> {
    steps.iter().try_fold(value, |value, step| value.get(step))
}

/// Sets or removes; maps on the way are made only to hold something, and an empty one that was made for the path goes with it.
fn put(map: &mut Map<String, Value>, steps: &[&str], value: Option<&Value>) {
    let Some((first, rest)) = steps.split_first() else {
        return;
    };
    if rest.is_empty() {
        match value {
            Some(value) => drop(map.insert((*first).to_owned(), value.clone())),
            None => drop(map.remove(*first)),
        }
        return;
    }
    if value.is_none() && !map.get(*first).is_some_and(Value::is_object) {
        return;
    }
    let below = map
        .entry(*first)
        .or_insert_with(|| Value::Object(Map::new()));
    if !below.is_object() {
        *below = Value::Object(Map::new());
    }
    if let Value::Object(below) = below {
        put(below, rest, value);
    }
}
