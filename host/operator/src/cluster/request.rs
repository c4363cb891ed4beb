//! Typed requests for single objects, and reads of small lists.
//!
//! One call is one request: nothing is retried here, since only the pass knows whether a repeat is right. Objects go out and
//! come in as text. Every call names the identity it is made as; until impersonation is built, all use the host's credentials.

use bytes::Bytes;
use guesthouse_core::identity::Identity;
use guesthouse_core::object::{self, ObjectError, Stamp};
use http::{HeaderMap, Method, Request, header};
use kube::client::Body;

use super::error::RequestError;
use super::resource::{BadAddress, Resource, encode};
use super::transport::{Reply, Transport};
use super::watch::Scope;

mod list;

pub use list::{Listed, View};
pub(crate) use list::{page, typed};

/// Requests over one transport. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Api {
    transport: Transport,
}

/// A success.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code: 200, or 201 for something created, or 202 for a deletion that waits for finalizers.
    pub code: u16,
    /// The answer's body: the object, its metadata alone where that was asked for, or a `Status` after a deletion.
    pub body: Bytes,
    /// The server's warnings, such as fields it does not know and pruned.
    pub warnings: Vec<String>,
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> Result<&str, RequestError> {
        object::utf8(&self.body).map_err(unreadable)
    }

    /// Name, uid and version of the object as it is after the request.
    pub fn stamp(&self) -> Result<Stamp<'_>, RequestError> {
        Stamp::parse(self.text()?).map_err(unreadable)
    }
}

/// What a write shall answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The whole object.
    Object,
    /// Its metadata (`PartialObjectMetadata`): cheaper for both sides when only the version is needed.
    Metadata,
}

/// The kind of a patch's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind<'a> {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Server-side apply.
    Apply {
        /// The field manager.
        manager: &'a str,
        /// Take over fields other managers own.
        force: bool,
    },
}

/// What must still be true of an object for its deletion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Preconditions<'a> {
    /// The uid it must have; 409 otherwise.
    pub uid: Option<&'a str>,
    /// The version it must have; 409 otherwise.
    pub resource_version: Option<&'a str>,
}

/// What becomes of what a deleted object owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// The garbage collector deletes it afterwards.
    Background,
    /// The object waits until it is gone.
    Foreground,
    /// It stays.
    Orphan,
}

const JSON: &str = "application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

impl Api {
    /// Requests over `transport`.
    pub fn new(transport: Transport) -> Self {
        Self { transport }
    }

    /// The transport beneath.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// The object as text, without `managedFields`. `namespace` is empty for cluster-scoped kinds, here and below.
    pub async fn get(
        &self,
        identity: &Identity,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Box<str>, RequestError> {
        let path = resource.object(namespace, name)?;
        let answer = self
            .ask(identity, Method::GET, &path, &[], Bytes::new())
            .await?;
        object::compact(&answer.body).map_err(unreadable)
    }

    /// Writes `/status` with a body of apiVersion, kind, metadata {name, namespace, uid, resourceVersion} and status: the one
    /// verb that checks uid and version. A body without `status` clears it. Unknown fields come back as warnings.
    pub async fn put_status(
        &self,
        identity: &Identity,
        resource: &Resource,
        namespace: &str,
        name: &str,
        body: impl Into<Bytes>,
        want: Want,
    ) -> Result<Answer, RequestError> {
        let path = resource.object(namespace, name)? + "/status?fieldValidation=Warn";
        self.ask(
            identity,
            Method::PUT,
            &path,
            &[
                (header::ACCEPT, want.accept()),
                (header::CONTENT_TYPE, JSON),
            ],
            body.into(),
        )
        .await
    }

    /// Patches the object itself (a status in the body is ignored by the server where `/status` exists).
    #[expect(
        clippy::too_many_arguments,
        reason = "an address, an identity and a body; a struct would only rename them"
    )]
    pub async fn patch(
        &self,
        identity: &Identity,
        resource: &Resource,
        namespace: &str,
        name: &str,
        kind: PatchKind<'_>,
        body: impl Into<Bytes>,
        want: Want,
    ) -> Result<Answer, RequestError> {
        let mut path = resource.object(namespace, name)?;
        let content_type = match kind {
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Json => "application/json-patch+json",
            PatchKind::Apply { manager, force } => {
                path.push_str("?fieldManager=");
                encode(&mut path, manager);
                path.push_str(if force { "&force=true" } else { "&force=false" });
                "application/apply-patch+yaml"
            }
        };
        let headers = [
            (header::ACCEPT, want.accept()),
            (header::CONTENT_TYPE, content_type),
        ];
        self.ask(identity, Method::PATCH, &path, &headers, body.into())
            .await
    }

    /// Creates an object; its name stands in the body.
    pub async fn create(
        &self,
        identity: &Identity,
        resource: &Resource,
        namespace: &str,
        body: impl Into<Bytes>,
    ) -> Result<Answer, RequestError> {
        if resource.namespaced && namespace.is_empty() {
            return Err(BadAddress::NamespaceMissing(resource.kind.to_string()).into());
        }
        let path = resource.collection(namespace)?;
        self.ask(
            identity,
            Method::POST,
            &path,
            &[(header::CONTENT_TYPE, JSON)],
            body.into(),
        )
        .await
    }

    /// Replaces an object; a `resourceVersion` in the body is checked.
    pub async fn replace(
        &self,
        identity: &Identity,
        resource: &Resource,
        namespace: &str,
        name: &str,
        body: impl Into<Bytes>,
    ) -> Result<Answer, RequestError> {
        let path = resource.object(namespace, name)?;
        self.ask(
            identity,
            Method::PUT,
            &path,
            &[(header::CONTENT_TYPE, JSON)],
            body.into(),
        )
        .await
    }

    /// Deletes an object.
    pub async fn delete(
        &self,
        identity: &Identity,
        resource: &Resource,
        namespace: &str,
        name: &str,
        preconditions: Preconditions<'_>,
        propagation: Propagation,
    ) -> Result<Answer, RequestError> {
        let path = resource.object(namespace, name)?;
        let mut options = serde_json::json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": match propagation {
                Propagation::Background => "Background",
                Propagation::Foreground => "Foreground",
                Propagation::Orphan => "Orphan",
            },
        });
        if let Some(uid) = preconditions.uid {
            options["preconditions"]["uid"] = uid.into();
        }
        if let Some(version) = preconditions.resource_version {
            options["preconditions"]["resourceVersion"] = version.into();
        }
        self.ask(
            identity,
            Method::DELETE,
            &path,
            &[(header::CONTENT_TYPE, JSON)],
            options.to_string().into(),
        )
        .await
    }

    /// At most `limit` objects of `scope`, from the most recent state, in pages.
    pub async fn list(
        &self,
        identity: &Identity,
        resource: &Resource,
        scope: &Scope,
        view: View,
        limit: usize,
    ) -> Result<Listed, RequestError> {
        list::collect(&self.transport, identity, resource, scope, view, limit).await
    }

    /// Any path, read as it is: discovery and the like.
    pub(crate) async fn read(
        &self,
        identity: &Identity,
        path: &str,
    ) -> Result<Answer, RequestError> {
        self.ask(identity, Method::GET, path, &[], Bytes::new())
            .await
    }

    async fn ask(
        &self,
        identity: &Identity,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, &'static str)],
        body: Bytes,
    ) -> Result<Answer, RequestError> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request
            .body(Body::from(body))
            .map_err(|error| RequestError::NotSent(error.to_string()))?;
        let reply = succeed(self.transport.call(identity, request).await?)?;
        Ok(Answer {
            code: reply.code,
            warnings: warnings(&reply.headers),
            body: reply.body,
        })
    }
}

impl Want {
    fn accept(self) -> &'static str {
        match self {
            Want::Object => JSON,
            Want::Metadata => PARTIAL,
        }
    }
}

impl From<BadAddress> for RequestError {
    fn from(error: BadAddress) -> Self {
        RequestError::NotSent(error.to_string())
    }
}

pub(crate) fn unreadable(error: ObjectError) -> RequestError {
    RequestError::Unreadable(error.to_string())
}

/// Turns every code but 2xx into its error.
pub(crate) fn succeed(reply: Reply) -> Result<Reply, RequestError> {
    if (200..300).contains(&reply.code) {
        return Ok(reply);
    }
    Err(RequestError::from_answer(
        reply.code,
        &reply.headers,
        &reply.body,
    ))
}

/// The texts of `Warning: 299 - "text"` headers (RFC 7234, 5.5, as Kubernetes uses it: code 299, agent `-`).
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let text = |value: &http::HeaderValue| {
        let value = String::from_utf8_lossy(value.as_bytes());
        let quoted = value.strip_prefix("299 ")?.split_once('"')?.1;
        let quoted = quoted.rsplit_once('"').map_or(quoted, |(text, _)| text);
        let mut out = String::with_capacity(quoted.len());
        let mut chars = quoted.chars();
        while let Some(char) = chars.next() {
            out.extend(if char == '\\' {
                chars.next()
            } else {
                Some(char)
            });
        }
        Some(out)
    };
    headers
        .get_all(header::WARNING)
        .iter()
        .filter_map(text)
        .collect()
}

#[cfg(test)]
mod tests;
