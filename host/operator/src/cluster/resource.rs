//! A kind as the API server serves it, and the paths of its objects.

use std::sync::{Arc, OnceLock};

use guesthouse_core::schema::StatusSchema;

/// A served kind in one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: Box<str>,
    /// Version within the group.
    pub version: Box<str>,
    /// Kind, as in manifests.
    pub kind: Box<str>,
    /// Plural name, as in paths.
    pub plural: Box<str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether the `/status` subresource is served.
    pub has_status: bool,
    /// The CustomResourceDefinition behind it, or what the server publishes of it; `None` for built-in kinds, and where neither
    /// can be read.
    pub crd: Option<Arc<CrdInfo>>,
}

/// What the host keeps of a CustomResourceDefinition.
#[derive(Debug, Clone)]
pub struct CrdInfo {
    /// Its name, `<plural>.<group>`.
    pub name: Box<str>,
    /// Its uid; another uid is another kind under the same name. Empty where the definition may not be read.
    pub uid: Box<str>,
    /// Its generation; another one may bring another schema. A hash of the schema where the definition may not be read.
    pub generation: i64,
    /// The `openAPIV3Schema` of the resource's version.
    pub schema: Option<serde_json::Value>,
    /// What the schema says of a status; compiled when it is first asked for.
    pub(super) status: OnceLock<StatusSchema>,
}

impl CrdInfo {
    /// What the schema says of a status. Compiled once, however many mappings ask; what of it cannot be judged is said then.
    pub fn status(&self) -> StatusSchema {
        let compiled = self.status.get_or_init(|| {
            let schema = self.schema.as_ref();
            let status = schema.map_or_else(StatusSchema::unknown, StatusSchema::of_crd);
            for skipped in status.skipped() {
                tracing::warn!(crd = %self.name, "left to the API server: {skipped}");
            }
            status
        });
        compiled.clone()
    }
}

impl PartialEq for CrdInfo {
    fn eq(&self, other: &Self) -> bool {
        let what = |crd: &Self| (crd.name.clone(), crd.uid.clone(), crd.generation);
        what(self) == what(other) && self.schema == other.schema
    }
}

/// A name or namespace that cannot stand in a path, or a namespace where none belongs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// Kubernetes refuses such names too.
    #[error("`{0}` cannot be a name or namespace")]
    Segment(String),
    /// An object of a namespaced kind needs its namespace.
    #[error("{0} is a namespaced kind: the object's namespace is missing")]
    NamespaceMissing(String),
    /// A cluster-scoped kind has none.
    #[error("{0} is a cluster-scoped kind: it has no namespace")]
    NamespaceGiven(String),
}

impl Resource {
    /// Whether a watch of the other one's objects is a watch of these: another schema changes nothing of that, another
    /// definition under the same name does.
    pub fn same_objects(&self, other: &Self) -> bool {
        let uid = |resource: &Self| resource.crd.as_ref().map(|crd| crd.uid.clone());
        uid(self) == uid(other) && self.plural == other.plural && self.version == other.version
    }

    /// `group/version`, or `version` alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of the collection: of one namespace, or of the whole cluster if `namespace` is empty.
    pub fn collection(&self, namespace: &str) -> Result<String, BadAddress> {
        let mut path = String::with_capacity(96);
        path.push_str(if self.group.is_empty() {
            "/api"
        } else {
            "/apis"
        });
        if !self.group.is_empty() {
            push_segment(&mut path, &self.group)?;
        }
        push_segment(&mut path, &self.version)?;
        if !namespace.is_empty() {
            if !self.namespaced {
                return Err(BadAddress::NamespaceGiven(self.kind.to_string()));
            }
            path.push_str("/namespaces");
            push_segment(&mut path, namespace)?;
        }
        push_segment(&mut path, &self.plural)?;
        Ok(path)
    }

    /// The path of one object; `namespace` is empty exactly for cluster-scoped kinds.
    pub fn object(&self, namespace: &str, name: &str) -> Result<String, BadAddress> {
        if self.namespaced && namespace.is_empty() {
            return Err(BadAddress::NamespaceMissing(self.kind.to_string()));
        }
        let mut path = self.collection(namespace)?;
        push_segment(&mut path, name)?;
        Ok(path)
    }
}

/// Appends `/segment`, percent-encoded: names come from plugins too, and must not reach another path.
pub(super) fn push_segment(path: &mut String, segment: &str) -> Result<(), BadAddress> {
    if matches!(segment, "" | "." | "..") || segment.contains(['/', '%']) {
        return Err(BadAddress::Segment(segment.to_owned()));
    }
    path.push('/');
    encode(path, segment);
    Ok(())
}

/// Appends `text` percent-encoded for a path segment or a query value.
pub(super) fn encode(out: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b':') {
            out.push(char::from(byte));
        } else {
            out.extend([
                '%',
                char::from(HEX[usize::from(byte >> 4)]),
                char::from(HEX[usize::from(byte & 15)]),
            ]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, namespaced: bool) -> Resource {
        Resource {
            group: group.into(),
            version: "v1".into(),
            kind: "Thing".into(),
            plural: "things".into(),
            namespaced,
            has_status: true,
            crd: None,
        }
    }

    /// kubernetes#74105, KubeOps#476, kro#1029: a kind that is deleted and defined again is watched as if nothing happened.
    #[test]
    fn another_definition_under_the_same_name_is_watched_anew_and_another_schema_is_not() {
        let defined = |uid: &str, generation| Resource {
            crd: Some(Arc::new(CrdInfo {
                name: "things.acme.io".into(),
                uid: uid.into(),
                generation,
                schema: Some(serde_json::json!({"description": generation.to_string()})),
                status: OnceLock::new(),
            })),
            ..resource("acme.io", true)
        };
        let first = defined("u1", 1);
        assert!(first.same_objects(&defined("u1", 2)) && first != defined("u1", 2));
        assert!(
            !first.same_objects(&defined("u2", 1)),
            "deleted and defined again"
        );
        let renamed = Resource {
            plural: "stuff".into(),
            ..defined("u1", 1)
        };
        assert!(!first.same_objects(&renamed));
        let moved = Resource {
            version: "v2".into(),
            ..defined("u1", 1)
        };
        assert!(!first.same_objects(&moved));
    }

    #[test]
    fn paths_follow_group_and_scope() {
        let (core, custom, cluster) = (
            resource("", true),
            resource("acme.io", true),
            resource("acme.io", false),
        );
        assert_eq!(
            core.object("ns", "a").unwrap(),
            "/api/v1/namespaces/ns/things/a"
        );
        assert_eq!(custom.collection("").unwrap(), "/apis/acme.io/v1/things");
        assert_eq!(
            custom.collection("ns").unwrap(),
            "/apis/acme.io/v1/namespaces/ns/things"
        );
        assert_eq!(
            cluster.object("", "system:a b").unwrap(),
            "/apis/acme.io/v1/things/system:a%20b"
        );
        assert_eq!(
            (core.api_version(), custom.api_version()),
            ("v1".into(), "acme.io/v1".into())
        );
    }

    #[test]
    fn a_name_never_reaches_another_path() {
        for name in ["", ".", "..", "a/b", "../secrets", "%2e%2e", "/"] {
            assert!(
                resource("", true).object("ns", name).is_err(),
                "name {name}"
            );
        }
        for namespace in [".", "..", "a/b", "%2e%2e", "/"] {
            assert!(
                resource("", true).object(namespace, "a").is_err(),
                "namespace {namespace}"
            );
        }
        assert_eq!(
            resource("", true).object("ns", "a?b#c").unwrap(),
            "/api/v1/namespaces/ns/things/a%3Fb%23c"
        );
        assert_eq!(
            resource("", true).object("", "a"),
            Err(BadAddress::NamespaceMissing("Thing".into()))
        );
        assert_eq!(
            resource("", false).object("ns", "a"),
            Err(BadAddress::NamespaceGiven("Thing".into()))
        );
    }
}
