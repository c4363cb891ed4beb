//! A request of the Kubernetes API, as far as rules and judges need to understand it.

use http::{Method, Uri};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is asked for, in the API's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// One object.
    Get,
    /// A page of all.
    List,
    /// A stream of changes, which may begin with a list.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// No resource: discovery, health, schemas.
    Other,
}

impl Verb {
    /// Whether it may change an object.
    pub fn is_write(self) -> bool {
        matches!(
            self,
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete
        )
    }
}

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Plural name of the resource; empty for paths that are none.
    pub resource: String,
    /// Empty for all namespaces, and for what is in none.
    pub namespace: String,
    /// Empty for all objects. A create's is taken from its body.
    pub name: String,
    /// As in `status`.
    pub subresource: String,
}

/// What a write says, as far as its safety depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrote {
    /// `metadata.resourceVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `metadata.uid`, or the one that a deletion is held to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// `status.observedGeneration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// `status.phase`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Of a journal: the name of its object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Receipts of a journal as `effect/key state`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<String>,
    /// Its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Children in a journal as `Kind name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<String>,
    /// A finalizer that a JSON patch puts on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<String>,
}

/// One request and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// When it came, in milliseconds since 1970.
    pub at: u64,
    /// Milliseconds until it was answered or given up; for a stream, until it began.
    pub took: u64,
    /// What was asked for.
    pub verb: Verb,
    /// Of what.
    pub target: Target,
    /// Path and query.
    pub path: String,
    /// The code that the client saw; 0: none.
    pub code: u16,
    /// Whether the server was asked.
    #[serde(default)]
    pub sent: bool,
    /// The code of the server; 0: it was not asked, or its answer was not seen.
    pub server: u16,
    /// The rule that struck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What a write says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrote: Option<Wrote>,
}

impl Asked {
    /// Understands a request.
    pub(super) fn read(method: &Method, uri: &Uri, body: &[u8], at: u64) -> Self {
        let query = uri.query().unwrap_or_default();
        let mut target = target(uri.path());
        let verb = verb(method, &target, query);
        let body: Option<Value> = serde_json::from_slice(body).ok();
        if verb == Verb::Create
            && let Some(name) = body.as_ref().and_then(|b| b["metadata"]["name"].as_str())
        {
            target.name = name.to_owned();
        }
        let wrote = body.filter(|_| verb.is_write()).map(|body| wrote(&body));
        Self {
            at,
            took: 0,
            verb,
            target,
            path: uri
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            code: 0,
            sent: false,
            server: 0,
            rule: None,
            wrote,
        }
    }

    /// Whether the server carried it out, whatever its client knows of that.
    pub fn is_done(&self) -> bool {
        (200..300).contains(&self.server)
    }

    /// The same, or nobody knows.
    pub fn may_be_done(&self) -> bool {
        self.is_done() || (self.sent && self.server == 0)
    }

    /// Whether it is no request but what befell the stream of one.
    pub fn is_strike(&self) -> bool {
        self.verb == Verb::Watch && self.sent && self.took == 0 && self.rule.is_some()
    }

    /// Whether it is the apply of a child.
    pub fn applies(&self) -> bool {
        self.verb == Verb::Patch && self.path.contains("fieldManager=guesthouse")
    }

    /// The path alone.
    pub fn place(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// Whether a watch begins with a list.
    pub fn lists(&self) -> bool {
        self.verb == Verb::List || self.path.contains("sendInitialEvents=true")
    }
}

fn wrote(body: &Value) -> Wrote {
    let text = |value: &Value| {
        let text = value.as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let receipts = body["record"]["receipts"].as_array();
    let receipt = |receipt: &Value| {
        let state = receipt["state"].as_object();
        let state = state.and_then(|s| s.keys().next()).map(String::as_str);
        format!(
            "{}/{} {}",
            receipt["effect"].as_str().unwrap_or_default(),
            receipt["key"].as_str().unwrap_or_default(),
            state.or(receipt["state"].as_str()).unwrap_or_default()
        )
    };
    let children = body["record"]["inventory"].as_array();
    let child = |child: &Value| {
        let (kind, name) = (&child["kind"]["kind"], &child["name"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {}", text(kind), text(name))
    };
    Wrote {
        version: text(&body["metadata"]["resourceVersion"]),
        uid: text(&body["metadata"]["uid"]).or(text(&body["preconditions"]["uid"])),
        kind: text(&body["kind"]),
        inventory: children.into_iter().flatten().map(child).collect(),
        finalizer: finalizer(body),
        generation: body["status"]["observedGeneration"].as_i64(),
        phase: text(&body["status"]["phase"]),
        about: text(&body["record"]["object"]["name"]),
        receipts: receipts.into_iter().flatten().map(receipt).collect(),
    }
}

/// What a JSON patch adds to the finalizers.
fn finalizer(body: &Value) -> Option<String> {
    let mut operations = body.as_array()?.iter();
    let put = operations.find(|operation| {
        let path = operation["path"].as_str().unwrap_or_default();
        path.starts_with("/metadata/finalizers")
            && operation["op"] != "test"
            && operation["op"] != "remove"
    })?;
    let value = match &put["value"] {
        Value::Array(all) => all.first()?,
        value => value,
    };
    Some(value.as_str()?.to_owned())
}

/// `/api/v1/…` or `/apis/GROUP/VERSION/…`, then `[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]`.
fn target(path: &str) -> Target {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let rest = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => return Target::default(),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
    Target {
        resource: part(0),
        namespace: namespace.to_owned(),
        name: part(1),
        subresource: part(2),
    }
}

fn verb(method: &Method, target: &Target, query: &str) -> Verb {
    let watches = query
        .split('&')
        .any(|part| part == "watch=1" || part == "watch=true");
    match method.as_str() {
        _ if target.resource.is_empty() => Verb::Other,
        "GET" if watches => Verb::Watch,
        "GET" if target.name.is_empty() => Verb::List,
        "GET" => Verb::Get,
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "DELETE" => Verb::Delete,
        _ => Verb::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: Method, path: &str, body: &str) -> Asked {
        Asked::read(&method, &path.parse().unwrap(), body.as_bytes(), 0)
    }

    #[test]
    fn verbs_and_targets_are_those_of_the_api() {
        for (method, path, verb, target) in [
            (
                Method::GET,
                "/apis/g/v1/things?watch=1&x=y",
                Verb::Watch,
                ["things", "", "", ""],
            ),
            (
                Method::GET,
                "/apis/g/v1/namespaces/n/things?limit=5",
                Verb::List,
                ["things", "n", "", ""],
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n",
                Verb::Get,
                ["namespaces", "", "n", ""],
            ),
            (
                Method::PUT,
                "/apis/g/v1/namespaces/n/things/a/status",
                Verb::Update,
                ["things", "n", "a", "status"],
            ),
            (Method::GET, "/apis/g/v1", Verb::Other, ["", "", "", ""]),
            (Method::GET, "/readyz", Verb::Other, ["", "", "", ""]),
        ] {
            let asked = read(method, path, "");
            let found = &asked.target;
            let found = [
                &found.resource,
                &found.namespace,
                &found.name,
                &found.subresource,
            ];
            assert_eq!(
                (asked.verb, found.map(String::as_str)),
                (verb, target),
                "{path}"
            );
        }
    }

    #[test]
    fn of_a_write_all_that_its_safety_depends_on_is_noted() {
        let body = r#"{"metadata":{"name":"j","resourceVersion":"7","uid":"u"},"status":{"observedGeneration":3},
            "record":{"inventory":[{"kind":{"kind":"Service"},"name":"s"}],"receipts":[{"effect":"e","key":"k","state":{"answered":{"code":201}}},{"effect":"f","state":"unknown"}]}}"#;
        let asked = read(Method::POST, "/apis/g/v1/namespaces/n/journals", body);
        assert_eq!(asked.target.name, "j");
        let wrote = asked.wrote.unwrap();
        assert_eq!(
            (
                wrote.version.as_deref(),
                wrote.uid.as_deref(),
                wrote.generation
            ),
            (Some("7"), Some("u"), Some(3))
        );
        assert_eq!(wrote.receipts, ["e/k answered", "f/ unknown"]);
        assert_eq!(wrote.inventory, ["Service s"]);

        let body = r#"{"preconditions":{"uid":"u"}}"#;
        let asked = read(Method::DELETE, "/api/v1/namespaces/n/services/s", body);
        assert_eq!(asked.wrote.unwrap().uid.as_deref(), Some("u"));
        let finalizer = |patch: &str| {
            let asked = read(Method::PATCH, "/apis/g/v1/namespaces/n/things/a", patch);
            asked.wrote.unwrap().finalizer
        };
        let test = r#"{"op":"test","path":"/metadata/finalizers/0","value":"f"}"#;
        for (patch, put) in [
            (
                r#"{"op":"add","path":"/metadata/finalizers","value":["f"]}"#,
                Some("f"),
            ),
            (
                r#"{"op":"add","path":"/metadata/finalizers/-","value":"f"}"#,
                Some("f"),
            ),
            (r#"{"op":"remove","path":"/metadata/finalizers/0"}"#, None),
        ] {
            let put = put.map(str::to_owned);
            assert_eq!(finalizer(&format!("[{test},{patch}]")), put, "{patch}");
        }
    }
}
