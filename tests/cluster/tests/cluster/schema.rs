//! What the host takes a kind's schema to say of a status is what the API server does.
//!
//! Each case is one `PUT .../status`. The host's rules say before what will come of it: refused, or taken with what the server
//! drops and adds; the server says whether that is so.

use anyhow::{Context, Result, bail, ensure};
use guesthouse_core::contract::Json;
use guesthouse_core::schema::{StatusSchema, same};
use guesthouse_tests::{KINDS, Resource, Scene, scenario};
use serde_json::{Value, json};

const CONSTRAINED: Resource = Resource {
    api_version: "schema.guesthouse.dev/v1",
    kind: "Constrained",
    plural: "constraineds",
};

/// A kind with the constraints that CRDs can have.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "properties": fields()},
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.status) || !has(self.status.count) || self.status.count <= self.spec.size",
            "message": "not beyond the spec",
        }],
    })
}

fn fields() -> Value {
    let mut fields = json!({
        "count": {"type": "integer"},
        "int": {"type": "integer", "format": "int64"},
        "int32": {"type": "integer", "format": "int32"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "text": {"type": "string", "minLength": 2, "maxLength": 4},
        "pattern": {"type": "string", "pattern": "^[\\w-.]+\\d$"},
        "enum": {"type": "string", "enum": ["A", ""]},
        "nullableEnum": {"type": "string", "enum": ["A"], "nullable": true},
        "nullable": {"type": "string", "nullable": true},
        "either": {"x-kubernetes-int-or-string": true},
        "low": {"type": "integer", "minimum": 1, "maximum": 10, "exclusiveMaximum": true},
        "tenth": {"type": "number", "multipleOf": 0.1},
        "fourth": {"type": "integer", "multipleOf": 4},
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "bytes": {"type": "string", "format": "byte"},
        "ipv4": {"type": "string", "format": "ipv4"},
        "uuid": {"type": "string", "format": "uuid"},
        "list": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "array", "maxItems": 10, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "required": ["k"],
            "properties": {"k": {"type": "string", "maxLength": 9}, "v": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "!has(oldSelf.v) || self.v >= oldSelf.v", "message": "v never shrinks"}]}},
        "dict": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
        "dictOfAny": {"type": "object", "additionalProperties": true},
        "dictOfObjects": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
        "choice": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "other": {"type": "integer", "not": {"enum": [13]}, "anyOf": [{"multipleOf": 2}, {"minimum": 10}], "allOf": [{"maximum": 20}]},
    });
    for more in [defaulted(), ruled()] {
        for (name, schema) in more.as_object().into_iter().flatten() {
            fields[name] = schema.clone();
        }
    }
    fields
}

fn defaulted() -> Value {
    json!({
        "mode": {"type": "string", "default": "auto"},
        "nested": {"type": "object", "properties": {
            "deep": {"type": "object", "default": {}, "properties": {"on": {"type": "boolean", "default": true}}},
            "null": {"type": "integer", "nullable": true, "default": 3}}},
        "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 7}}}},
    })
}

fn ruled() -> Value {
    json!({
        "window": {"type": "object", "properties": {"start": {"type": "integer"}, "end": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.start <= self.end", "messageExpression": "self.start > 9 ? 'late' : 'early'"}]},
        "grows": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
        "url": {"type": "string", "maxLength": 99, "x-kubernetes-validations": [{"rule": "isURL(self) && url(self).getScheme() == 'https'"}]},
        "quantity": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": "quantity(self).isLessThan(quantity('1Gi'))"}]},
        "after": {"type": "string", "format": "date-time", "x-kubernetes-validations": [{"rule": "self > timestamp('2026-01-01T00:00:00Z')"}]},
        "names": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 9},
            "x-kubernetes-validations": [{"rule": "self.all(n, n.startsWith('x') || n.matches('^[0-9]+$')) && self.isSorted()"}]},
        "dash": {"type": "object", "properties": {"a-b": {"type": "string", "maxLength": 9}},
            "x-kubernetes-validations": [{"rule": "!has(self.a__dash__b) || self.a__dash__b != 'no'"}]},
        "ratio": {"type": "number", "x-kubernetes-validations": [{"rule": "self * 2.0 <= 1.0"}]},
    })
}

/// A status, and the one it comes after.
struct Case {
    before: Value,
    status: Value,
}

fn cases() -> Vec<Case> {
    let first = |status: &Value| Case {
        before: Value::Null,
        status: status.clone(),
    };
    let alone = [
        (
            "int",
            json!([
                i64::MAX,
                i64::MIN,
                9007199254740993_i64,
                1.0,
                1.5,
                1e15,
                1e17,
                u64::MAX,
                "1",
                true,
                null,
                {},
                []
            ]),
        ),
        (
            "int32",
            json!([i32::MAX, i32::MIN, 2147483648_i64, -2147483649_i64]),
        ),
        ("number", json!([1, 0.1, 1e300, "1"])),
        ("flag", json!([true, "true", 0])),
        ("text", json!(["ab", "a", "äöüß", "abcde", "𝄞𝄞", 12])),
        ("pattern", json!(["a-b.1", "1", "a", "ä1", "a١"])),
        ("enum", json!(["A", "", "B", null, "a"])),
        ("nullableEnum", json!(["A", null])),
        ("nullable", json!(["a", null, 1])),
        ("either", json!([1, "50%", 0.5, true, null, []])),
        ("low", json!([1, 9, 0, 10, 9.0])),
        ("tenth", json!([0.3, 7, 0.35, -0.7])),
        ("fourth", json!([4, -8, 2, 0])),
        (
            "when",
            json!([
                "2026-02-28T23:59:59Z",
                "2026-02-28t01:00:00.123456z",
                "2026-02-28T00:00:00+01:00",
                "2026-02-29T00:00:00Z",
                "2026-02-28T24:00:00Z",
                "2026-02-28 00:00:00Z",
                "2026-02-28T00:00:00",
                "2026-02-28",
                ""
            ]),
        ),
        ("day", json!(["2026-02-28", "2026-2-28", "2026-02-29", ""])),
        ("bytes", json!(["YWI=", "YWI", "", "a b"])),
        ("ipv4", json!(["10.0.0.1", "10.0.0", "::1", "010.0.0.1"])),
        (
            "uuid",
            json!([
                "123e4567-e89b-12d3-a456-426614174000",
                "123e4567e89b12d3a456426614174000",
                "123E4567-E89B-12D3-A456-426614174000",
                "x"
            ]),
        ),
        (
            "list",
            json!([[1], [], [1, 2, 3, 4], ["a"], [null], [1.0], {}]),
        ),
        ("set", json!([["a", "b"], ["a", "a"], [], [""]])),
        (
            "map",
            json!([[{"k": "a"}, {"k": "b"}], [{"k": "a", "v": 1}, {"k": "a", "v": 2}], [{"v": 1}], [1], [{"k": "a", "w": 1}]]),
        ),
        (
            "dict",
            json!([{"a": 1}, {"a": "b"}, {"a": 1, "b": 2, "c": 3}, {"a": null}, {}]),
        ),
        (
            "dictOfAny",
            json!([{"a": 1, "b": "c"}, {"a": {"b": 1}}, {"a": [{"b": 1}]}, {"a": null}]),
        ),
        (
            "dictOfObjects",
            json!([{"k": {"a": 1, "z": 2}}, {"k": null}, {"k": 1}]),
        ),
        (
            "free",
            json!([{"x": {"y": null}, "a": {"b": 1, "c": 2}}, {"a": {"b": "no"}}, {"list": [{"a": {"b": 1, "c": 2}}]}]),
        ),
        (
            "any",
            json!([1, "a", [null, {"a": null}], {"a": {"b": [1.0]}}, null]),
        ),
        (
            "embedded",
            json!([{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": {"a": 1, "b": 2}, "x": 1}, {"spec": {"a": 1}}]),
        ),
        (
            "choice",
            json!([{"a": 1}, {"b": 1}, {}, {"a": 1, "b": 2}, {"c": 1}]),
        ),
        ("other", json!([2, 13, 11, 5, 22, 15])),
        ("mode", json!(["off", null, 1])),
        (
            "nested",
            json!([{}, {"deep": {"on": false}}, {"deep": null, "null": null}, {"null": 1}]),
        ),
        ("items", json!([[{}, {"n": 1}], [{"n": null}]])),
        (
            "window",
            json!([{"start": 1, "end": 2}, {"start": 2, "end": 1}, {"start": 1}, {}]),
        ),
        ("grows", json!([1, -1])),
        ("url", json!(["https://a.b/c", "http://a.b", "nothing", ""])),
        ("quantity", json!(["100Mi", "2Gi", "1Gi", "what"])),
        (
            "after",
            json!([
                "2026-01-01T00:00:01Z",
                "2025-12-31T23:59:59Z",
                "2026-01-01T00:30:00+01:00"
            ]),
        ),
        ("names", json!([["x", "xa"], ["xa", "x"], ["1"], ["a"], []])),
        ("dash", json!([{"a-b": "yes"}, {"a-b": "no"}, {}])),
        ("ratio", json!([0.5, 0.6, 0])),
        ("count", json!([5, 6])),
        ("unknown", json!([1, null, {"a": 1}])),
    ];
    let mut cases: Vec<Case> = Vec::new();
    for (field, values) in alone {
        let values = values.as_array().into_iter().flatten();
        cases.extend(values.map(|value| first(&json!({field: value}))));
    }
    let after = [
        (json!({"grows": 2}), json!({"grows": 3})),
        (json!({"grows": 2}), json!({"grows": 1})),
        (json!({"grows": 2}), json!({})),
        (
            json!({"map": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}),
            json!({"map": [{"k": "b", "v": 2}, {"k": "a", "v": 5}]}),
        ),
        (
            json!({"map": [{"k": "a", "v": 5}, {"k": "b", "v": 1}]}),
            json!({"map": [{"k": "b", "v": 2}, {"k": "a", "v": 4}]}),
        ),
        (
            json!({"map": [{"k": "a", "v": 5}]}),
            json!({"map": [{"k": "c", "v": 1}]}),
        ),
        (
            json!({"map": [{"k": "a", "v": 5}]}),
            json!({"map": [{"k": "a"}]}),
        ),
    ];
    cases.extend(after.map(|(before, status)| Case { before, status }));
    cases
}

/// kopf#574, crossplane#5007
#[test]
fn what_a_status_becomes_and_whether_it_may_be_is_as_the_server_says() -> Result<()> {
    scenario("schema", async |scene| {
        define(scene, CONSTRAINED, schema()).await?;
        let ours = StatusSchema::of_crd(&schema());
        ensure!(ours.skipped().is_empty(), "{:?}", ours.skipped());
        let published = StatusSchema::of_crd(&published(scene, CONSTRAINED).await?);
        let mut differ = Vec::new();
        let (mut refused, mut taken) = (0, 0);
        for (number, case) in cases().iter().enumerate() {
            let object =
                created(scene, CONSTRAINED, &format!("case-{number}"), &case.before).await?;
            let expected = expected(&ours, &object, &case.status)?;
            let also = self::expected(&published, &object, &case.status)?;
            ensure!(
                expected == also,
                "{}: {expected:?}, as published {also:?}",
                case.status
            );
            let answer = put(scene, CONSTRAINED, &object, &case.status).await?;
            match answer {
                Ok(_) => taken += 1,
                Err(_) => refused += 1,
            }
            let agree = match (&expected, &answer) {
                (Ok(expected), Ok(found)) => same(expected, found),
                (Err(_), Err(_)) => true,
                _ => false,
            };
            if !agree {
                let (before, status) = (&case.before, &case.status);
                differ.push(format!(
                    "{before} → {status}\n  host:   {expected:?}\n  server: {answer:?}"
                ));
            }
        }
        ensure!(
            refused >= 40 && taken >= 40,
            "{refused} refused, {taken} taken"
        );
        ensure!(
            differ.is_empty(),
            "{} of {}:\n{}",
            differ.len(),
            refused + taken,
            differ.join("\n")
        );
        Ok(())
    })
}

/// The schema as the server publishes it to accounts that may not read definitions.
async fn published(scene: &Scene<'_>, kind: Resource) -> Result<Value> {
    let path = format!("/openapi/v3/apis/{}", kind.api_version);
    scene
        .eventually("the schema is published", async || {
            let text = scene
                .api
                .send(http::Method::GET, &path, "application/json", String::new());
            let Some(text) = text.await? else {
                return Ok(None);
            };
            let document: Value = serde_json::from_str(&text)?;
            let schemas = document["components"]["schemas"].as_object();
            let is = |schema: &&Value| {
                schema["x-kubernetes-group-version-kind"][0]["kind"] == kind.kind
                    && schema["properties"]["status"].is_object()
            };
            Ok(schemas.and_then(|all| all.values().find(is).cloned()))
        })
        .await
}

const TIGHTENED: Resource = Resource {
    api_version: "schema.guesthouse.dev/v1",
    kind: "Tightened",
    plural: "tighteneds",
};

fn tightened(tight: bool) -> Value {
    let mut phase = json!({"type": "string", "maxLength": 20});
    let mut list =
        json!({"type": "array", "maxItems": 9, "items": {"type": "string", "maxLength": 20}});
    let mut inner = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
    if tight {
        phase["enum"] = json!(["New"]);
        list["x-kubernetes-list-type"] = "set".into();
        inner["required"] = json!(["b"]);
        inner["x-kubernetes-validations"] = json!([{"rule": "self.a > 5"}]);
    }
    json!({"type": "object", "properties": {"status": {"type": "object", "properties": {
        "phase": phase, "list": list, "inner": inner, "more": {"type": "integer"}}}}})
}

#[test]
fn what_was_written_before_a_schema_was_tightened_is_judged_as_the_server_judges_it() -> Result<()>
{
    scenario("tightened", async |scene| {
        define(scene, TIGHTENED, tightened(false)).await?;
        let old = json!({"phase": "Old", "list": ["a", "a"], "inner": {"a": 1}});
        let changes = [
            json!({"more": 1}),
            json!({"phase": "New"}),
            json!({"phase": "Other"}),
            json!({"list": ["a", "a", "b"]}),
            json!({"inner": {"a": 2}}),
            json!({"inner": {"a": 6, "b": 1}}),
            json!({"inner": {"a": 2, "b": 1}}),
            json!({"phase": null, "list": null}),
        ];
        let mut objects = Vec::new();
        for number in 0..changes.len() {
            objects.push(created(scene, TIGHTENED, &format!("case-{number}"), &old).await?);
        }
        let probe = created(scene, TIGHTENED, "probe", &json!({"more": 0})).await?;
        let name = format!("{}.schema.guesthouse.dev", TIGHTENED.plural);
        let versions = json!({"spec": {"versions": [version(tightened(true))]}});
        scene.api.patch(KINDS, "", &name, versions).await?;
        scene
            .eventually("the tightened schema is in force", async || {
                let object = scene
                    .api
                    .get(TIGHTENED, &scene.namespace, &name_of(&probe))
                    .await?;
                let wrong = json!({"phase": "Wrong", "more": 1});
                let answer = put(scene, TIGHTENED, &object, &wrong).await?;
                Ok(answer.is_err().then_some(()))
            })
            .await?;

        let ours = StatusSchema::of_crd(&tightened(true));
        let (mut differ, mut refused) = (Vec::new(), 0);
        for (object, change) in objects.iter().zip(&changes) {
            let mut status = old.clone();
            for (name, value) in change.as_object().into_iter().flatten() {
                status[name] = value.clone();
            }
            let expected = expected(&ours, object, &status)?;
            let answer = put(scene, TIGHTENED, object, &status).await?;
            refused += usize::from(answer.is_err());
            if expected.is_ok() != answer.is_ok() {
                differ.push(format!(
                    "{status}\n  host:   {expected:?}\n  server: {answer:?}"
                ));
            }
        }
        ensure!(
            refused >= 3 && refused <= changes.len() - 3,
            "{refused} refused"
        );
        ensure!(differ.is_empty(), "{}", differ.join("\n"));
        Ok(())
    })
}

/// What the host expects: the status as it will stand, or why it will be refused.
fn expected(
    schema: &StatusSchema,
    object: &Value,
    status: &Value,
) -> Result<Result<Value, String>> {
    let mut next = status.clone();
    schema.prune(&mut next);
    schema.fill(&mut next);
    let found = schema.violations(&next, &object["status"], &Json::of(object)?);
    if found.is_empty() {
        return Ok(Ok(next));
    }
    let said: Vec<_> = found.iter().map(ToString::to_string).collect();
    Ok(Err(said.join("; ")))
}

async fn define(scene: &Scene<'_>, kind: Resource, schema: Value) -> Result<()> {
    let (group, _) = kind.api_version.split_once('/').context("a group")?;
    let definition = json!({
        "metadata": {"name": format!("{}.{group}", kind.plural)},
        "spec": {
            "group": group,
            "names": {"kind": kind.kind, "plural": kind.plural},
            "scope": "Namespaced",
            "versions": [version(schema)],
        },
    });
    scene.api.create(KINDS, "", definition).await?;
    let path = kind.path(&scene.namespace, "");
    scene
        .eventually("the kind is served", async || {
            let list = scene
                .api
                .send(http::Method::GET, &path, "application/json", String::new());
            Ok(list.await?.map(|_| ()))
        })
        .await
}

fn version(schema: Value) -> Value {
    json!({"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}})
}

/// A new object with that status, as the server has it.
async fn created(scene: &Scene<'_>, kind: Resource, name: &str, status: &Value) -> Result<Value> {
    let object = json!({"metadata": {"name": name}, "spec": {"size": 5}});
    let object = scene.create(kind, object).await?;
    if status.is_null() {
        return Ok(object);
    }
    if let Err(message) = put(scene, kind, &object, status).await? {
        bail!("{status} must be possible: {message}");
    }
    scene.api.get(kind, &scene.namespace, name).await
}

/// The status that came of it, or why the server refused it.
async fn put(
    scene: &Scene<'_>,
    kind: Resource,
    object: &Value,
    status: &Value,
) -> Result<Result<Value, String>> {
    let name = name_of(object);
    let path = format!("{}/status", kind.path(&scene.namespace, &name));
    let body = json!({
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, "resourceVersion": object["metadata"]["resourceVersion"]},
        "status": status,
    });
    let sent = scene.api.send(
        http::Method::PUT,
        &path,
        "application/json",
        body.to_string(),
    );
    match sent.await {
        Ok(text) => {
            let mut object: Value = serde_json::from_str(&text.context("the object is there")?)?;
            Ok(Ok(object["status"].take()))
        }
        Err(error) => match error.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
                Ok(Err(status.message.clone()))
            }
            _ => Err(error),
        },
    }
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}
