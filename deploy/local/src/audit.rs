//! The API server's audit log, read as values: what was really asked of the server, by whom.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// One answered request. Fields and names are those of `audit.k8s.io/v1` at level `Metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// Path and query.
    #[serde(rename = "requestURI")]
    pub request_uri: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Who asked.
    pub user: User,
    /// The account on whose behalf, if the caller impersonated one.
    #[serde(default)]
    pub impersonated_user: Option<User>,
    /// What the caller says it is.
    #[serde(default)]
    pub user_agent: String,
    /// The object; absent for paths that are no resources.
    #[serde(default)]
    pub object_ref: Option<ObjectRef>,
    #[serde(default)]
    response_status: ResponseStatus,
    /// When the answer was complete (RFC 3339, microseconds).
    pub stage_timestamp: String,
}

/// An identity in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct User {
    /// The user's name.
    #[serde(default)]
    pub username: String,
}

/// The object a request was about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// Plural name, like `configmaps`.
    pub resource: String,
    /// Like `status`; empty for the object itself.
    pub subresource: String,
    /// Empty for the core group.
    pub api_group: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Empty for lists, and for creates whose name is in the body.
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl AuditEvent {
    /// True for requests that may change an object, whether or not they did.
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// The HTTP status of the answer.
    pub fn code(&self) -> u16 {
        self.response_status.code
    }

    /// True when the request was about this resource (plural name), any subresource included.
    pub fn concerns(&self, resource: &str) -> bool {
        self.object_ref
            .as_ref()
            .is_some_and(|o| o.resource == resource)
    }
}

/// All complete lines of an audit log. A line that is being written is left for the next reading.
pub(crate) fn read(path: &Path) -> Result<Vec<AuditEvent>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("audit log: {line}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_still_being_written_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let line = r#"{"kind":"Event","level":"Metadata","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/configmaps","verb":"create","user":{"username":"admin"},"objectRef":{"resource":"configmaps","namespace":"a","apiVersion":"v1"},"responseStatus":{"code":201},"stageTimestamp":"2026-01-01T00:00:00.000000Z"}"#;
        std::fs::write(&path, format!("{line}\n{}", &line[..40])).unwrap();
        let events = read(&path).unwrap();
        assert_eq!(events.len(), 1);
        assert!(events[0].is_write() && events[0].concerns("configmaps"));
        assert_eq!(events[0].code(), 201);
    }
}
