//! Schemas of Rust types in the structural form that Kubernetes accepts.
//!
//! schemars speaks JSON Schema 2020-12, an API server a subset of OpenAPI v3 without references, titles, `const` and type
//! lists, whose unions may only require members, not define them. What that subset cannot say becomes "keep unknown fields":
//! never a schema that refuses a value the Rust type would take.
//! (kubernetes.io: extend-kubernetes/custom-resources/custom-resource-definitions, "Specifying a structural schema")

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

const KEEP: &str = "x-kubernetes-preserve-unknown-fields";

/// Keywords taken over as they are.
const KNOWN: [&str; 14] = [
    "description",
    "type",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
    "minimum",
    "maximum",
    "required",
    "nullable",
];

/// Formats that Kubernetes checks or stores as such; `uint32` and its like mean nothing to it.
const FORMATS: [&str; 14] = [
    "int32",
    "int64",
    "float",
    "double",
    "byte",
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uuid",
];

/// The structural schema of a type.
pub(crate) fn structural<T: JsonSchema>() -> Object {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    convert(
        settings
            .into_generator()
            .into_root_schema_for::<T>()
            .to_value(),
    )
}

/// The 2020-12 schema of a type, as text, for a descriptor's `config-schema`.
pub(crate) fn plain<T: JsonSchema>() -> String {
    let mut schema = schemars::schema_for!(T).to_value();
    schema.sort_all_objects();
    schema.to_string()
}

fn keep() -> Object {
    Object::from_iter([(KEEP.into(), Value::Bool(true))])
}

fn convert(schema: Value) -> Object {
    let Value::Object(mut from) = schema else {
        return keep();
    };
    if from.contains_key("$ref") {
        // What is left of a type that contains itself.
        return Object::from_iter([
            ("type".into(), json!("object")),
            (KEEP.into(), Value::Bool(true)),
        ]);
    }
    let mut to = Object::new();
    for union in ["oneOf", "anyOf", "allOf"] {
        if let Some(Value::Array(cases)) = from.remove(union) {
            let cases = cases
                .into_iter()
                .filter(|case| case["type"] != "null")
                .map(convert)
                .collect();
            merge(
                &mut to,
                if union == "allOf" {
                    all_of(cases)
                } else {
                    one_of(cases)
                },
            );
        }
    }
    if let Some(Value::Array(types)) = from.get_mut("type") {
        types.retain(|one| one != "null");
        let single = if types.len() == 1 { types.pop() } else { None };
        match single {
            Some(single) => from["type"] = single,
            None if *types == [json!("integer"), json!("string")]
                || *types == [json!("string"), json!("integer")] =>
            {
                return Object::from_iter([(
                    "x-kubernetes-int-or-string".into(),
                    Value::Bool(true),
                )]);
            }
            None => return keep(),
        }
    }
    for (key, value) in from {
        keyword(&mut to, key, value);
    }
    to
}

/// Carries one keyword over.
fn keyword(to: &mut Object, key: String, value: Value) {
    match (key.as_str(), value) {
        ("properties", Value::Object(members)) => {
            let members: Object = members
                .into_iter()
                .map(|(name, one)| (name, Value::Object(convert(one))))
                .collect();
            merge(to, Object::from_iter([(key, Value::Object(members))]));
        }
        ("items", value) => {
            to.insert(key, Value::Object(convert(value)));
        }
        ("prefixItems", _) => {
            to.insert("items".into(), Value::Object(keep()));
        }
        // With members of its own an object may not have others; Kubernetes prunes them anyhow.
        ("additionalProperties", Value::Bool(false)) => {}
        ("additionalProperties", value) => match convert(value) {
            free if free.contains_key(KEEP) => {
                to.insert(KEEP.into(), Value::Bool(true));
            }
            _ if to.contains_key("properties") => {
                to.insert(KEEP.into(), Value::Bool(true));
            }
            values => {
                to.insert(key, Value::Object(values));
            }
        },
        ("const", value) => {
            if value.is_string() {
                to.insert("type".into(), json!("string"));
            }
            to.insert("enum".into(), Value::Array(vec![value]));
        }
        ("enum", Value::Array(values)) => {
            to.insert(
                key,
                values
                    .into_iter()
                    .filter(|value| !value.is_null())
                    .collect(),
            );
        }
        ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
            to.insert(key, Value::String(format));
        }
        ("exclusiveMinimum" | "exclusiveMaximum", value @ Value::Number(_)) => {
            to.insert(key.replace("exclusiveM", "m"), value);
            to.insert(key, Value::Bool(true));
        }
        ("default", value) if !value.is_null() => {
            to.insert(key, value);
        }
        (known, value) if KNOWN.contains(&known) || known.starts_with("x-kubernetes-") => {
            to.insert(key, value);
        }
        _ => {}
    }
}

/// Adds `more`, whose members go beside those that are there.
fn merge(to: &mut Object, more: Object) {
    for (key, value) in more {
        match (to.get_mut(&key), value) {
            (Some(Value::Object(have)), Value::Object(value)) => have.extend(value),
            (Some(Value::Array(have)), Value::Array(value)) if key == "required" => {
                have.extend(value)
            }
            (_, value) => {
                to.insert(key, value);
            }
        }
    }
}

fn all_of(cases: Vec<Object>) -> Object {
    cases.into_iter().fold(Object::new(), |mut all, case| {
        merge(&mut all, case);
        all
    })
}

fn one_of(mut cases: Vec<Object>) -> Object {
    let is = |case: &Object, name: &str| case.get("type").is_some_and(|have| have == name);
    match cases.as_slice() {
        [_] => cases.remove(0),
        [a, b] if is(a, "integer") && is(b, "string") || is(a, "string") && is(b, "integer") => {
            Object::from_iter([("x-kubernetes-int-or-string".into(), Value::Bool(true))])
        }
        all if all
            .iter()
            .all(|case| is(case, "string") && case.contains_key("enum")) =>
        {
            let values = cases
                .iter()
                .filter_map(|case| case["enum"].as_array())
                .flatten()
                .cloned()
                .collect();
            Object::from_iter([
                ("type".into(), json!("string")),
                ("enum".into(), Value::Array(values)),
            ])
        }
        all if all.iter().all(|case| is(case, "object")) => objects(cases),
        _ => keep(),
    }
}

/// A union of objects: all their members beside each other, and for each case which of them it requires.
fn objects(cases: Vec<Object>) -> Object {
    let (mut members, mut required) = (Object::new(), Vec::new());
    for mut case in cases {
        if let Some(Value::Object(own)) = case.remove("properties") {
            for (name, schema) in own {
                match (members.get_mut(&name), schema) {
                    (Some(have), schema) if *have == schema => {}
                    // The tag of an internally tagged enum: one value in each case.
                    (Some(have), schema)
                        if have["enum"].is_array() && schema["enum"].is_array() =>
                    {
                        if let (Some(all), Some(own)) =
                            (have["enum"].as_array_mut(), schema["enum"].as_array())
                        {
                            all.extend(
                                own.iter()
                                    .filter(|value| !all.contains(value))
                                    .cloned()
                                    .collect::<Vec<_>>(),
                            );
                        }
                    }
                    (Some(have), _) => *have = Value::Object(keep()),
                    (None, schema) => {
                        members.insert(name, schema);
                    }
                }
            }
        }
        required.push(case.remove("required").unwrap_or_else(|| json!([])));
    }
    let mut to = Object::from_iter([
        ("type".into(), json!("object")),
        ("properties".into(), Value::Object(members)),
    ]);
    let distinct = required
        .iter()
        .enumerate()
        .all(|(at, one)| one != &json!([]) && !required[..at].contains(one));
    if distinct {
        to.insert(
            "oneOf".into(),
            required
                .into_iter()
                .map(|one| json!({"required": one}))
                .collect(),
        );
    } else if required.iter().all(|one| *one == required[0]) && required[0] != json!([]) {
        to.insert("required".into(), required.swap_remove(0));
    }
    to
}
