//! A CustomResourceDefinition from Rust types.
//!
//! Its status is one that every tool understands: with [`Crd::with_conditions`] it has `observedGeneration` and the standard
//! conditions, and the host writes both. Nothing in status is required, since the host may write conditions first.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::contract::Kind;
use crate::{Reconciler, schema};

/// A CustomResourceDefinition, built step by step.
#[derive(Clone, Debug)]
pub struct Crd {
    group: String,
    version: String,
    kind: String,
    plural: String,
    scope: &'static str,
    short_names: Vec<String>,
    categories: Vec<String>,
    columns: Vec<Value>,
    selectable: Vec<Value>,
    spec: Map<String, Value>,
    status: Map<String, Value>,
}

impl Crd {
    /// The kind of a plugin's spec and status: `Crd::of::<ReportJob>("batch.acme.io/v1", "ReportJob")`. Namespaced, and the
    /// plural is the lower-case kind with an `s`.
    pub fn of<P: Reconciler>(api_version: &str, kind: &str) -> Crd
    where
        P::Spec: JsonSchema,
        P::Status: JsonSchema,
    {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let (mut spec, mut status) = (
            schema::structural::<P::Spec>(),
            schema::structural::<P::Status>(),
        );
        for part in [&mut spec, &mut status] {
            part.insert("type".into(), json!("object"));
        }
        status.remove("required");
        Crd {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
            scope: "Namespaced",
            short_names: Vec::new(),
            categories: Vec::new(),
            columns: Vec::new(),
            selectable: Vec::new(),
            spec,
            status,
        }
    }

    /// Another plural.
    pub fn plural(mut self, plural: &str) -> Crd {
        self.plural = plural.into();
        self
    }

    /// Objects without a namespace.
    pub fn cluster_scoped(mut self) -> Crd {
        self.scope = "Cluster";
        self
    }

    /// A short name for kubectl.
    pub fn short_name(mut self, name: &str) -> Crd {
        self.short_names.push(name.into());
        self
    }

    /// A category for kubectl.
    pub fn category(mut self, name: &str) -> Crd {
        self.categories.push(name.into());
        self
    }

    /// A printer column: name, type (`string`, `integer`, `date` …) and JSON path.
    pub fn column(mut self, name: &str, type_: &str, path: &str) -> Crd {
        self.columns
            .push(json!({"name": name, "type": type_, "jsonPath": path}));
        self
    }

    /// A printer column of `-o wide`.
    pub fn wide_column(mut self, name: &str, type_: &str, path: &str) -> Crd {
        self.columns
            .push(json!({"name": name, "type": type_, "jsonPath": path, "priority": 1}));
        self
    }

    /// The column `Ready`, from the condition of that name.
    pub fn ready_column(self) -> Crd {
        self.column(
            "Ready",
            "string",
            r#".status.conditions[?(@.type=="Ready")].status"#,
        )
    }

    /// The column `Age`.
    pub fn age_column(self) -> Crd {
        self.column("Age", "date", ".metadata.creationTimestamp")
    }

    /// A field that `--field-selector` may name: `.status.phase`.
    pub fn selectable(mut self, path: &str) -> Crd {
        self.selectable.push(json!({"jsonPath": path}));
        self
    }

    /// The status of an object that nobody has handled yet.
    pub fn status_default(mut self, status: Value) -> Crd {
        self.status.insert("default".into(), status);
        self
    }

    /// Adds `observedGeneration` and the standard `conditions` to status.
    pub fn with_conditions(mut self) -> Crd {
        let text = json!({"type": "string"});
        let conditions = json!({
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status", "reason", "message", "lastTransitionTime"],
                "properties": {
                    "type": text,
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": text,
                    "message": text,
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                },
            },
        });
        let members = self.status.entry("properties").or_insert_with(|| json!({}));
        members["conditions"] = conditions;
        members["observedGeneration"] = json!({"type": "integer", "format": "int64"});
        self
    }

    /// The kind it defines.
    pub fn kind(&self) -> Kind {
        Kind {
            api_version: format!("{}/{}", self.group, self.version),
            kind: self.kind.clone(),
        }
    }

    /// The whole definition as JSON text, members in alphabetical order.
    pub fn json(&self) -> String {
        let mut names = json!({
            "kind": self.kind, "listKind": format!("{}List", self.kind),
            "plural": self.plural, "singular": self.kind.to_lowercase(),
        });
        let mut version = json!({
            "name": self.version, "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": self.spec, "status": self.status}}},
        });
        if self.spec.contains_key("required") {
            version["schema"]["openAPIV3Schema"]["required"] = json!(["spec"]);
        }
        for (name, list) in [
            ("shortNames", &self.short_names),
            ("categories", &self.categories),
        ] {
            if !list.is_empty() {
                names[name] = json!(list);
            }
        }
        for (name, list) in [
            ("additionalPrinterColumns", &self.columns),
            ("selectableFields", &self.selectable),
        ] {
            if !list.is_empty() {
                version[name] = json!(list);
            }
        }
        let mut crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {"group": self.group, "scope": self.scope, "names": names, "versions": [version]},
        });
        crd.sort_all_objects();
        crd.to_string()
    }
}
