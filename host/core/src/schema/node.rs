//! A structural schema, read once into what the walks over values need.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

use super::{pattern, rules::Rules};

pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// One place of a schema.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) type_: Option<Type>,
    pub(super) int_or_string: bool,
    pub(super) nullable: bool,
    pub(super) preserve: bool,
    pub(super) embedded: bool,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Additional>,
    pub(super) items: Option<Box<Node>>,
    pub(super) list: List,
    pub(super) limits: Limits,
    pub(super) rules: Option<Rules>,
}

/// `additionalProperties` that is not false.
#[derive(Debug)]
pub(super) enum Additional {
    /// `true`.
    Any,
    Of(Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Default)]
pub(super) enum List {
    #[default]
    Atomic,
    Set,
    /// By these keys.
    Map(Vec<String>),
}

/// What a value of the right type must also hold.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub(super) format: Option<String>,
    pub(super) one_of_values: Option<Vec<Value>>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    /// As written, and compiled.
    pub(super) pattern: Option<(String, Regex)>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) unique: bool,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) required: Vec<String>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) limit: Number,
    pub(super) exclusive: bool,
}

impl Node {
    /// Reads the schema that stands at `path` of an object; what cannot be judged here goes to `skipped`.
    pub(super) fn read(schema: &Value, path: &str, skipped: &mut Vec<String>) -> Self {
        let is = |name: &str| schema.get(name) == Some(&Value::Bool(true));
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten().map(|(name, schema)| {
            let below = Self::read(schema, &format!("{path}.{name}"), skipped);
            (name.clone(), below)
        });
        Self {
            type_: Type::read(schema),
            int_or_string: is("x-kubernetes-int-or-string"),
            nullable: is("nullable"),
            preserve: is(PRESERVE),
            embedded: is("x-kubernetes-embedded-resource"),
            default: schema
                .get("default")
                .filter(|value| !value.is_null())
                .cloned(),
            properties: properties.collect(),
            additional: match schema.get("additionalProperties") {
                None | Some(Value::Bool(false)) => None,
                Some(Value::Bool(true)) => Some(Additional::Any),
                Some(schema) => {
                    let of = Self::read(schema, &format!("{path}.*"), skipped);
                    Some(Additional::Of(Box::new(of)))
                }
            },
            items: schema
                .get("items")
                .map(|items| Box::new(Self::read(items, &format!("{path}[]"), skipped))),
            list: List::read(schema),
            limits: Limits::read(schema, path, skipped),
            rules: Rules::of(schema, path, skipped),
        }
    }

    /// Whether a field below this one is kept.
    pub(super) fn keeps(&self, field: &str) -> bool {
        self.preserve || self.additional.is_some() || self.properties.contains_key(field)
    }

    /// The schema of a field, named or not.
    pub(super) fn below(&self, field: &str) -> Option<&Node> {
        self.properties.get(field).or(match &self.additional {
            Some(Additional::Of(node)) => Some(node),
            _ => None,
        })
    }
}

impl Type {
    fn read(schema: &Value) -> Option<Self> {
        match schema.get("type")?.as_str()? {
            "object" => Some(Self::Object),
            "array" => Some(Self::Array),
            "string" => Some(Self::String),
            "integer" => Some(Self::Integer),
            "number" => Some(Self::Number),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "a list",
            Self::String => "a string",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "true or false",
        }
    }
}

impl List {
    fn read(schema: &Value) -> Self {
        match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Self::Set,
            Some("map") => Self::Map(texts(schema.get("x-kubernetes-list-map-keys"))),
            _ => Self::Atomic,
        }
    }

    /// The item of `old` that `item` is the next version of; lists without keys have none.
    pub(super) fn before<'a>(&self, item: &Value, old: Option<&'a Value>) -> Option<&'a Value> {
        let Self::Map(keys) = self else { return None };
        let is = |other: &&Value| {
            keys.iter()
                .all(|key| item.get(key).is_some() && item.get(key) == other.get(key))
        };
        old?.as_array()?.iter().find(is)
    }
}

impl Limits {
    fn read(schema: &Value, path: &str, skipped: &mut Vec<String>) -> Self {
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let bound = |name: &str, exclusive: &str| {
            Some(Bound {
                limit: schema.get(name)?.as_number()?.clone(),
                exclusive: schema.get(exclusive) == Some(&Value::Bool(true)),
            })
        };
        let mut all = |name: &str| -> Vec<Node> {
            let branches = schema.get(name).and_then(Value::as_array);
            let read = |branch| Node::read(branch, path, skipped);
            branches.into_iter().flatten().map(read).collect()
        };
        Self {
            all_of: all("allOf"),
            any_of: all("anyOf"),
            one_of: all("oneOf"),
            not: schema
                .get("not")
                .map(|not| Box::new(Node::read(not, path, skipped))),
            format: schema
                .get("format")
                .and_then(Value::as_str)
                .map(str::to_owned),
            one_of_values: schema.get("enum").and_then(Value::as_array).cloned(),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: schema.get("multipleOf").and_then(Value::as_f64),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            pattern: schema
                .get("pattern")
                .and_then(Value::as_str)
                .and_then(|text| match pattern::compile(text) {
                    Ok(compiled) => Some((text.to_owned(), compiled)),
                    Err(error) => {
                        skipped.push(format!("{path}: pattern `{text}`: {error}"));
                        None
                    }
                }),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            unique: schema.get("uniqueItems") == Some(&Value::Bool(true)),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            required: required(schema),
        }
    }
}

/// The server publishes apiVersion and kind of an embedded object as required, beside a reference for its metadata; in a
/// status it does not insist on them.
fn required(schema: &Value) -> Vec<String> {
    let mut required = texts(schema.get("required"));
    let metadata = schema.pointer("/properties/metadata");
    let refers =
        |schema: &Value| schema.get("$ref").is_some() || schema.pointer("/allOf/0/$ref").is_some();
    if metadata.is_some_and(refers) {
        required.retain(|name| name != "apiVersion" && name != "kind");
    }
    required
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
