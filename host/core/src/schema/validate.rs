//! What the server would refuse of a value by its schema alone (kube-openapi `pkg/validation/validate`, and
//! kubernetes `apiextensions-apiserver/pkg/apiserver/schema/listtype`).

use std::fmt;

use serde_json::{Map, Number, Value};

use super::{
    formats,
    node::{Bound, Limits, List, Node, Type},
    same,
};
use crate::contract::cut;

/// Longest value that is shown, bytes.
const SHOWN: usize = 64;
/// Most allowed values that are named.
const NAMED: usize = 8;
/// Integers that a float holds exactly, as the server counts them.
const EXACT: f64 = 9_007_199_254_740_991.0;

/// One thing in a status that the kind's schema does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, as in `status.items[2].phase`.
    pub path: String,
    /// What stands there, cut short; `missing` where nothing does.
    pub found: String,
    /// What would be allowed, as in `must be a string`.
    pub allowed: String,
}

impl Violation {
    pub(super) fn new(path: &str, found: &Value, allowed: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            found: shown(found),
            allowed: allowed.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, {}", self.path, self.found, self.allowed)
    }
}

/// A value in few words.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        other => {
            let text = other.to_string();
            let short = cut(&text, SHOWN);
            let more = if short.len() < text.len() { "…" } else { "" };
            format!("{short}{more}")
        }
    }
}

/// Adds to `found` what is wrong with `value`, but for what is as it was in `old`.
pub(super) fn validate(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    found: &mut Vec<Violation>,
) {
    if old.is_some_and(|old| same(old, value)) {
        return;
    }
    if let Some(allowed) = wrong_type(node, value) {
        found.push(Violation::new(path, value, allowed));
        return;
    }
    let limits = &node.limits;
    if let Some(values) = &limits.one_of_values
        && !values.iter().any(|allowed| same(allowed, value))
    {
        found.push(Violation::new(path, value, any_of(values)));
    }
    match value {
        // Nothing else is asked of a null that may be.
        Value::Null => return,
        Value::Number(number) => of_number(limits, number, value, path, found),
        Value::String(text) => of_text(limits, text, value, path, found),
        Value::Array(items) => of_list(node, items, (value, old), path, found),
        Value::Object(map) => of_object(node, map, (value, old), path, found),
        Value::Bool(_) => {}
    }
    of_branches(limits, value, path, found);
}

fn wrong_type(node: &Node, value: &Value) -> Option<String> {
    if value.is_null() && node.nullable {
        return None;
    }
    if node.int_or_string {
        let fits = match value {
            Value::Number(number) => integral(number),
            other => other.is_string(),
        };
        return (!fits).then(|| "must be an integer or a string".to_owned());
    }
    let type_ = node.type_?;
    let fits = match (type_, value) {
        (Type::Object, Value::Object(_))
        | (Type::Array, Value::Array(_))
        | (Type::String, Value::String(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Number, Value::Number(_)) => true,
        (Type::Integer, Value::Number(number)) => integral(number),
        _ => false,
    };
    (!fits).then(|| format!("must be {}", type_.name()))
}

/// `1.0` is an integer; beyond what a float or int64 holds nothing is.
fn integral(number: &Number) -> bool {
    if number.is_i64() {
        return true;
    }
    number
        .as_f64()
        .is_some_and(|float| float.fract() == 0.0 && float.abs() <= EXACT)
}

fn any_of(values: &[Value]) -> String {
    let named: Vec<String> = values.iter().take(NAMED).map(Value::to_string).collect();
    let more = if values.len() > NAMED { ", …" } else { "" };
    format!("must be one of {}{more}", named.join(", "))
}

fn of_number(
    limits: &Limits,
    number: &Number,
    value: &Value,
    path: &str,
    found: &mut Vec<Violation>,
) {
    let mut must = |allowed: String| found.push(Violation::new(path, value, allowed));
    let beyond = |bound: &Bound, order: std::cmp::Ordering| {
        let compared = compare(number, &bound.limit);
        compared == Some(order) || (bound.exclusive && compared == Some(std::cmp::Ordering::Equal))
    };
    if let Some(bound) = &limits.minimum
        && beyond(bound, std::cmp::Ordering::Less)
    {
        let than = if bound.exclusive {
            "greater than"
        } else {
            "at least"
        };
        must(format!("must be {than} {}", bound.limit));
    }
    if let Some(bound) = &limits.maximum
        && beyond(bound, std::cmp::Ordering::Greater)
    {
        let than = if bound.exclusive {
            "less than"
        } else {
            "at most"
        };
        must(format!("must be {than} {}", bound.limit));
    }
    if let Some(factor) = limits.multiple_of
        && !is_multiple(number, factor)
    {
        must(format!("must be a multiple of {factor}"));
    }
    if limits.format.as_deref() == Some("int32")
        && number
            .as_f64()
            .is_some_and(|float| !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float))
    {
        must("must be an integer of 32 bits".to_owned());
    }
}

/// Integers exactly, everything else as floats.
fn compare(a: &Number, b: &Number) -> Option<std::cmp::Ordering> {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

/// An integer is held against the whole part of the factor, as the server does; one below 1 fits none.
fn is_multiple(number: &Number, factor: f64) -> bool {
    if let Some(number) = number.as_i64() {
        return factor >= 1.0 && number % (factor as i64) == 0;
    }
    let times = number.as_f64().map_or(f64::NAN, |float| float / factor);
    let near = (times - times.round()).abs() <= times.abs() * 1e-9;
    times.is_finite() && times.abs() <= EXACT && near
}

fn of_text(limits: &Limits, text: &str, value: &Value, path: &str, found: &mut Vec<Violation>) {
    let mut must = |allowed: String| found.push(Violation::new(path, value, allowed));
    let length = text.chars().count() as u64;
    if limits.min_length.is_some_and(|least| length < least) {
        let least = limits.min_length.unwrap_or_default();
        must(format!(
            "must have at least {least} characters, has {length}"
        ));
    }
    if limits.max_length.is_some_and(|most| length > most) {
        let most = limits.max_length.unwrap_or_default();
        must(format!("must have at most {most} characters, has {length}"));
    }
    if let Some((pattern, compiled)) = &limits.pattern
        && !compiled.is_match(text)
    {
        must(format!("must match `{pattern}`"));
    }
    if let Some(format) = &limits.format
        && !formats::fits(format, text)
    {
        must(format!("must have the format {format}"));
    }
}

fn of_list(
    node: &Node,
    items: &[Value],
    (value, old): (&Value, Option<&Value>),
    path: &str,
    found: &mut Vec<Violation>,
) {
    let limits = &node.limits;
    let count = items.len() as u64;
    if let Some(least) = limits.min_items.filter(|least| count < *least) {
        found.push(Violation::new(
            path,
            value,
            format!("must have at least {least} items"),
        ));
    }
    if let Some(most) = limits.max_items.filter(|most| count > *most) {
        found.push(Violation::new(
            path,
            value,
            format!("must have at most {most} items"),
        ));
    }
    if limits.unique {
        found.extend(repeated(items.iter(), path));
    }
    if let Some(below) = &node.items {
        for (index, item) in items.iter().enumerate() {
            let before = node.list.before(item, old);
            validate(below, item, before, &format!("{path}[{index}]"), found);
        }
    }
}

fn of_object(
    node: &Node,
    map: &Map<String, Value>,
    (value, old): (&Value, Option<&Value>),
    path: &str,
    found: &mut Vec<Violation>,
) {
    let limits = &node.limits;
    let count = map.len() as u64;
    if let Some(least) = limits.min_properties.filter(|least| count < *least) {
        found.push(Violation::new(
            path,
            value,
            format!("must have at least {least} fields, has {count}"),
        ));
    }
    if let Some(most) = limits.max_properties.filter(|most| count > *most) {
        found.push(Violation::new(
            path,
            value,
            format!("must have at most {most} fields, has {count}"),
        ));
    }
    for name in &limits.required {
        if !map.contains_key(name) {
            found.push(Violation {
                path: format!("{path}.{name}"),
                found: "missing".to_owned(),
                allowed: "must be there".to_owned(),
            });
        }
    }
    for (name, value) in map {
        if let Some(below) = node.below(name) {
            let before = old.and_then(|old| old.get(name));
            validate(below, value, before, &format!("{path}.{name}"), found);
        }
    }
}

fn of_branches(limits: &Limits, value: &Value, path: &str, found: &mut Vec<Violation>) {
    let fits = |branch: &Node| {
        let mut wrong = Vec::new();
        validate(branch, value, None, path, &mut wrong);
        wrong.is_empty()
    };
    for branch in &limits.all_of {
        validate(branch, value, None, path, found);
    }
    let mut must = |allowed: &str| found.push(Violation::new(path, value, allowed));
    if !limits.any_of.is_empty() && !limits.any_of.iter().any(fits) {
        must("must fit at least one schema of `anyOf`");
    }
    if !limits.one_of.is_empty() && limits.one_of.iter().filter(|branch| fits(branch)).count() != 1
    {
        must("must fit exactly one schema of `oneOf`");
    }
    if limits.not.as_deref().is_some_and(fits) {
        must("must not fit the schema of `not`");
    }
}

/// What stands twice in lists that are sets, or maps by keys.
pub(super) fn duplicates(node: &Node, value: &Value, path: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(below) = node.below(name) {
                    found.extend(duplicates(below, value, &format!("{path}.{name}")));
                }
            }
        }
        Value::Array(items) => {
            match &node.list {
                List::Atomic => {}
                List::Set => found.extend(repeated(items.iter(), path)),
                List::Map(keys) => {
                    let key_of = |item: &Value| -> Value {
                        let pair = |key: &String| Some((key.clone(), item.get(key)?.clone()));
                        keys.iter().filter_map(pair).collect::<Map<_, _>>().into()
                    };
                    let all: Vec<Value> = items.iter().map(key_of).collect();
                    found.extend(repeated(all.iter(), path));
                }
            }
            if let Some(below) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    found.extend(duplicates(below, item, &format!("{path}[{index}]")));
                }
            }
        }
        _ => {}
    }
    found
}

/// Names what stands more than once, at its second place.
fn repeated<'a>(items: impl Iterator<Item = &'a Value>, path: &str) -> Vec<Violation> {
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    let mut found = Vec::new();
    for (index, item) in items.enumerate() {
        let text = item.to_string();
        let times = seen.entry(text.clone()).or_default();
        *times += 1;
        if *times == 2 {
            found.push(Violation {
                path: format!("{path}[{index}]"),
                found: format!("{} a second time", cut(&text, SHOWN)),
                allowed: "must stand once".to_owned(),
            });
        }
    }
    found
}
