//! Objects in and out of the API server, as the JSON that is on the wire.
//!
//! Tests claim things about what stands in the cluster, so no types stand in between.

use anyhow::{Context, Result};
use http::{Method, Request};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use std::path::Path;

/// A kind at the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its API version.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its plural name.
    pub plural: &'static str,
}

const fn resource(api_version: &'static str, kind: &'static str, plural: &'static str) -> Resource {
    Resource {
        api_version,
        kind,
        plural,
    }
}

/// The jobs of the report-job plugin.
pub const REPORT_JOBS: Resource = resource("batch.acme.io/v1", "ReportJob", "reportjobs");
/// The kind that the echo plugin brings.
pub const ECHOES: Resource = resource("test.guesthouse.dev/v1", "Echo", "echoes");
/// Websites of the website plugin.
pub const WEBSITES: Resource = resource("web.acme.io/v1", "Website", "websites");
/// Requests of the provision-request plugin.
pub const PROVISION_REQUESTS: Resource =
    resource("acme.io/v1", "ProvisionRequest", "provisionrequests");
/// The kind that the decide plugin brings.
pub const WISHES: Resource = resource("test.guesthouse.dev/v1", "Wish", "wishes");
/// Mails of the email-request plugin.
pub const EMAIL_REQUESTS: Resource = resource("notify.acme.io/v1", "EmailRequest", "emailrequests");
/// Backups of the nightly-backup plugin.
pub const NIGHTLY_BACKUPS: Resource =
    resource("backup.acme.io/v1", "NightlyBackup", "nightlybackups");
/// Checksums of the config-checksum plugin.
pub const CONFIG_CHECKSUMS: Resource =
    resource("ops.acme.io/v1", "ConfigChecksum", "configchecksums");
/// Children of websites.
pub const DEPLOYMENTS: Resource = resource("apps/v1", "Deployment", "deployments");
/// Children of websites.
pub const SERVICES: Resource = resource("v1", "Service", "services");
/// Children of websites.
pub const INGRESSES: Resource = resource("networking.k8s.io/v1", "Ingress", "ingresses");
/// Credentials and generated values.
pub const SECRETS: Resource = resource("v1", "Secret", "secrets");
/// Children that are made once.
pub const JOBS: Resource = resource("batch/v1", "Job", "jobs");
/// Mappings and plugins.
pub const CONFIG_MAPS: Resource = resource("v1", "ConfigMap", "configmaps");
/// Events as the host tells them.
pub const EVENTS: Resource = resource("events.k8s.io/v1", "Event", "events");
/// The host's records.
pub const JOURNALS: Resource = resource("guesthouse.dev/v1alpha1", "Journal", "journals");
/// How the host's mappings stand.
pub const MAPPINGS: Resource = resource("guesthouse.dev/v1alpha1", "Mapping", "mappings");
/// Who is at work.
pub const LEASES: Resource = resource("coordination.k8s.io/v1", "Lease", "leases");
/// Grants of RBAC over all namespaces.
pub const ROLE_BINDINGS: Resource = resource(
    "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding",
    "clusterrolebindings",
);
/// What RBAC can grant over all namespaces.
pub const ROLES: Resource = resource(
    "rbac.authorization.k8s.io/v1",
    "ClusterRole",
    "clusterroles",
);
/// Namespaces; themselves in none.
pub const NAMESPACES: Resource = resource("v1", "Namespace", "namespaces");
/// Definitions of kinds; in no namespace.
pub const KINDS: Resource = resource(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

impl Resource {
    /// Path of one object, or of all with an empty name; an empty namespace for what is in none.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.api_version.contains('/') {
            "apis"
        } else {
            "api"
        };
        let mut path = format!("/{root}/{}", self.api_version);
        if !namespace.is_empty() {
            path += &format!("/namespaces/{namespace}");
        }
        path += &format!("/{}", self.plural);
        if !name.is_empty() {
            path += &format!("/{name}");
        }
        path
    }
}

/// What an Event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// `Normal` or `Warning`.
    pub type_: String,
    /// CamelCase.
    pub reason: String,
    /// In words.
    pub note: String,
}

/// A client of the API server as the administrator. Its connection lives in the runtime that it was made in.
#[derive(Clone)]
pub struct Api(Client);

impl Api {
    /// As a kubeconfig says.
    pub async fn new(kubeconfig: &Path) -> Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Self(Client::try_from(config)?))
    }

    /// One request; the answer as text. `None` where the server says 404.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: String,
    ) -> Result<Option<String>> {
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("content-type", content_type)
            .body(body.into_bytes())?;
        match self.0.request_text(request).await {
            Ok(text) => Ok(Some(text)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error).with_context(|| format!("{method} {path}")),
        }
    }

    async fn must(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: String,
    ) -> Result<Value> {
        let text = self.send(method, path, content_type, body).await?;
        let text = text.with_context(|| format!("{path} is not there"))?;
        serde_json::from_str(&text).with_context(|| path.to_owned())
    }

    /// The text of an object exactly as the server sends it.
    pub async fn text(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<String>> {
        let path = resource.path(namespace, name);
        self.send(Method::GET, &path, JSON, String::new()).await
    }

    /// An object, if it is there.
    pub async fn find(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>> {
        let text = self.text(resource, namespace, name).await?;
        text.map(|text| serde_json::from_str(&text).context("an object"))
            .transpose()
    }

    /// An object that must be there.
    pub async fn get(&self, resource: Resource, namespace: &str, name: &str) -> Result<Value> {
        let found = self.find(resource, namespace, name).await?;
        found.with_context(|| format!("{} {namespace}/{name} is not there", resource.kind))
    }

    /// All objects of a kind in a namespace.
    pub async fn list(&self, resource: Resource, namespace: &str) -> Result<Vec<Value>> {
        let path = resource.path(namespace, "");
        let mut list = self.must(Method::GET, &path, JSON, String::new()).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Creates an object; kind and API version are filled in.
    pub async fn create(
        &self,
        resource: Resource,
        namespace: &str,
        mut object: Value,
    ) -> Result<Value> {
        object["apiVersion"] = resource.api_version.into();
        object["kind"] = resource.kind.into();
        let path = resource.path(namespace, "");
        self.must(Method::POST, &path, JSON, object.to_string())
            .await
    }

    /// A merge patch (RFC 7386).
    pub async fn patch(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value> {
        let path = resource.path(namespace, name);
        let merge = "application/merge-patch+json";
        self.must(Method::PATCH, &path, merge, patch.to_string())
            .await
    }

    /// Asks for an object's deletion.
    pub async fn delete(&self, resource: Resource, namespace: &str, name: &str) -> Result<()> {
        let path = resource.path(namespace, name);
        self.must(Method::DELETE, &path, JSON, String::new())
            .await?;
        Ok(())
    }

    /// The Events about an object, oldest first.
    pub async fn events(&self, namespace: &str, about: &str) -> Result<Vec<Event>> {
        let mut events = self.list(EVENTS, namespace).await?;
        events.retain(|event| event["regarding"]["name"] == about);
        events.sort_by_key(|event| event["eventTime"].to_string());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(events
            .iter()
            .map(|event| Event {
                type_: text(&event["type"]),
                reason: text(&event["reason"]),
                note: text(&event["note"]),
            })
            .collect())
    }
}

const JSON: &str = "application/json";
