//! Lists in pages: always from the most recent state, never whole.

use std::io::Read;

use guesthouse_core::identity::Identity;
use guesthouse_core::object::{Stamp, join, utf8};
use http::{Request, header};
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{JSON, PARTIAL, succeed, unreadable};
use crate::cluster::error::RequestError;
use crate::cluster::resource::{Resource, encode};
use crate::cluster::transport::Transport;
use crate::cluster::watch::Scope;

/// How much of each object a list shall hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Whole objects.
    Object,
    /// `PartialObjectMetadata`.
    Metadata,
}

impl View {
    /// What a single object, or one in a watch, is asked for as.
    pub(crate) fn accept(self) -> &'static str {
        match self {
            View::Object => JSON,
            View::Metadata => PARTIAL,
        }
    }
}

/// Objects of a list, as text without `managedFields`, each with apiVersion and kind.
#[derive(Debug, Clone, Default)]
pub struct Listed {
    /// The objects, in the server's order (by namespace, then name).
    pub items: Vec<Box<str>>,
    /// The list's version: what a watch would continue from.
    pub resource_version: String,
    /// Whether there were more than the limit.
    pub truncated: bool,
}

/// One page, still as the text received.
pub(crate) struct Page {
    body: Vec<u8>,
}

/// What a page's text holds, borrowed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Items<'a> {
    #[serde(default)]
    metadata: Meta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    resource_version: String,
    r#continue: Option<String>,
}

impl Page {
    pub(crate) fn read(&self) -> Result<Items<'_>, RequestError> {
        let text = utf8(&self.body).map_err(unreadable)?;
        serde_json::from_str(text)
            .map_err(|error| RequestError::Unreadable(format!("list: {error}")))
    }
}

impl<'a> Items<'a> {
    /// The texts of the objects. Those of built-in kinds carry neither apiVersion nor kind.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().flatten().map(|item| item.get())
    }

    /// The version of the whole list, the same on every page.
    pub(crate) fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }

    /// The token of the next page.
    pub(crate) fn next(&self) -> Option<&str> {
        self.metadata
            .r#continue
            .as_deref()
            .filter(|token| !token.is_empty())
    }
}

/// Asks for one page of at most `limit` objects. Without a `resourceVersion` parameter the server answers from the most recent
/// state; any other choice could bring an older state back after a restart.
pub(crate) async fn page(
    transport: &Transport,
    identity: &Identity,
    resource: &Resource,
    scope: &Scope,
    view: View,
    limit: usize,
    token: Option<&str>,
) -> Result<Page, RequestError> {
    let mut path = resource.collection(&scope.namespace)?;
    path.push_str("?limit=");
    path.push_str(&limit.to_string());
    scope.push_query(&mut path);
    if let Some(token) = token {
        path.push_str("&continue=");
        encode(&mut path, token);
    }
    let accept = match view {
        View::Object => JSON,
        View::Metadata => "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    };
    let request = Request::get(path)
        .header(header::ACCEPT, accept)
        .header(header::ACCEPT_ENCODING, "gzip")
        .body(Body::empty());
    let request = request.map_err(|error| RequestError::NotSent(error.to_string()))?;
    let mut reply = transport.call(identity, request).await?;
    // Errors are compressed too where they are long.
    if reply
        .headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|encoding| encoding == "gzip")
    {
        let mut plain = Vec::with_capacity(reply.body.len() * 8);
        flate2::read::MultiGzDecoder::new(&*reply.body)
            .read_to_end(&mut plain)
            .map_err(|error| RequestError::Unreachable(format!("list cut or not gzip: {error}")))?;
        reply.body = plain.into();
    }
    Ok(Page {
        body: succeed(reply)?.body.into(),
    })
}

/// Pages until the limit or the end. An expired token starts over once per call of the pass, not here.
pub(super) async fn collect(
    transport: &Transport,
    identity: &Identity,
    resource: &Resource,
    scope: &Scope,
    view: View,
    limit: usize,
) -> Result<Listed, RequestError> {
    let mut listed = Listed::default();
    let mut token: Option<String> = None;
    loop {
        let room = limit - listed.items.len();
        let page = page(
            transport,
            identity,
            resource,
            scope,
            view,
            room.clamp(1, 500),
            token.as_deref(),
        )
        .await?;
        let items = page.read()?;
        for text in items.texts().take(room) {
            let parts = typed(text, resource, &Stamp::parse(text).map_err(unreadable)?);
            listed.items.push(join(&[&parts.0, parts.1, parts.2]));
        }
        listed.resource_version.clear();
        listed.resource_version.push_str(items.resource_version());
        token = items.next().map(str::to_owned);
        if token.is_none() || listed.items.len() >= limit {
            listed.truncated = token.is_some() || items.texts().nth(room).is_some();
            return Ok(listed);
        }
    }
}

/// The text of an object in a list as three parts to join: apiVersion and kind first if they are absent (as in lists of
/// built-in kinds), and no `managedFields`.
pub(crate) fn typed<'a>(
    text: &'a str,
    resource: &Resource,
    stamp: &Stamp<'a>,
) -> (String, &'a str, &'a str) {
    let (before, after) = stamp.without_managed(text);
    match before.trim_ascii_start().strip_prefix('{') {
        Some(rest) if stamp.kind.is_empty() && stamp.api_version.is_empty() => {
            let comma = if rest.trim_ascii_start().starts_with('}') {
                ""
            } else {
                ","
            };
            (
                format!(
                    r#"{{"apiVersion":"{}","kind":"{}"{comma}"#,
                    resource.api_version(),
                    resource.kind
                ),
                rest,
                after,
            )
        }
        _ => (String::new(), before, after),
    }
}
