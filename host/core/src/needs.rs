//! What a plugin needs to read beside its object: checked against the grants, resolved to what the shell reads and watches,
//! and answered from what the shell holds.
//!
//! A need is granted or not before anything is read; what is not granted, not served or too large is *answered* as
//! unavailable, since the plugin decides what to do without it. Only a need that no mapping could allow (a selector that is
//! none, a fetch by POST) makes the whole decision a bad one. Answers are in the order of namespace and name, whatever
//! order the shell's stores keep, and hold the objects' own bytes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    children::OWNER_LABEL,
    contract::{
        Answer, Body, Cause, Delivery, Fetch, Http, Json, Kind, MAX_EFFECT_ID, Need, ObjectRef,
        Objects, Selection, Source, View,
    },
    grants::Grants,
    keys::{Hash, request_fingerprint},
    object::{Head, ObjectKey},
    plan::{Rejection, Send},
    selector::Selector,
    units::Span,
};

/// Most needs of one decision, those of the descriptor included.
pub const MAX_NEEDS: usize = 64;
/// Objects in an answer where the need names no limit.
pub const DEFAULT_LIMIT: u32 = 500;
/// Most objects in an answer, whatever the need asks for.
pub const MAX_LIMIT: u32 = 5000;
/// Most bytes of objects in one answer.
pub const MAX_ANSWER: usize = 4 << 20;
/// Most bytes of objects in all answers of one call.
pub const MAX_ANSWERS: usize = 16 << 20;

/// One thing to read, granted and with its namespaces resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The need's name.
    pub name: String,
    /// What to read.
    pub source: ReadSource,
    /// How much of each object.
    pub view: View,
    /// At most this many objects.
    pub limit: u32,
}

/// What to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadSource {
    /// One object by name.
    Object {
        /// Its kind.
        kind: Kind,
        /// Its namespace; empty: none, or the object has none to inherit.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Objects of a kind by label.
    Selected {
        /// Their kind.
        kind: Kind,
        /// Where.
        namespaces: Namespaces,
        /// A selector as after `kubectl get -l`, checked.
        labels: String,
    },
    /// A GET or HEAD, read again when older than `fresh` seconds.
    Fetch {
        /// The request.
        send: Box<Send>,
        /// How old an answer may be, seconds.
        fresh: u32,
    },
}

/// Where objects are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// All, or a cluster-scoped kind.
    All,
    /// Only these, each read by itself; none where a cluster-scoped object's mapping grants none. Objects of cluster-scoped
    /// kinds are in none and always included.
    These(Vec<String>),
}

/// Whether the needs of a decision can be read at all, beside those of its plugin's descriptor.
///
/// # Errors
/// What no mapping could allow: a name that is empty, too long or given twice with another meaning, a selector that does not
/// parse, an object without a name, a fetch that is no plain GET or HEAD, more than [`MAX_NEEDS`].
pub fn check_needs(descriptor: &[Need], decision: &[Need]) -> Result<(), Rejection> {
    let mut seen: BTreeMap<&str, &Need> = BTreeMap::new();
    for need in descriptor.iter().chain(decision) {
        let name = need.name.as_str();
        if name.is_empty() || name.len() > MAX_EFFECT_ID {
            return Err(Rejection::bad(format!(
                "the need `{name}` must have a name of 1 to {MAX_EFFECT_ID} bytes"
            )));
        }
        if seen.insert(name, need).is_some_and(|before| before != need) {
            return Err(Rejection::bad(format!(
                "the need `{name}` is there twice and differs; give each thing to read a name of its own"
            )));
        }
        check_source(&need.source)
            .map_err(|why| Rejection::bad(format!("the need `{name}`: {why}")))?;
    }
    if seen.len() > MAX_NEEDS {
        return Err(Rejection::bad(format!(
            "{} needs are more than {MAX_NEEDS}; select by label what is read one by one",
            seen.len()
        )));
    }
    Ok(())
}

fn check_source(source: &Source) -> Result<(), String> {
    match source {
        Source::Object(object) if object.name.is_empty() => Err(format!(
            "a {} without a name; to read several, select them",
            object.kind
        )),
        Source::Object(_) | Source::Owned(_) => Ok(()),
        Source::Selected(selection) => match Selector::parse(&selection.labels) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        },
        Source::Fetch(fetch) => {
            let request = &fetch.request;
            if !matches!(request.method.as_str(), "GET" | "HEAD") {
                return Err(format!(
                    "a fetch is a GET or HEAD, not {}; what changes something is an http effect",
                    request.method
                ));
            }
            if request.body != Body::Empty {
                return Err("a fetch has no body".into());
            }
            Ok(())
        }
    }
}

/// A need as it is read, or the answer it has without being read (not granted, not valid). `owner_mark` is the value of
/// the object's children's [`OWNER_LABEL`].
pub fn resolve(
    need: &Need,
    grants: &Grants,
    object: &ObjectKey,
    owner_mark: &str,
) -> Result<Reading, Answer> {
    let own = object.namespace();
    let source = match &need.source {
        Source::Object(object) => by_name(object, grants, own),
        Source::Selected(selection) => selected(selection, grants, own),
        Source::Owned(kind) => {
            grants
                .read_everywhere(kind, own)
                .map(|namespaces| ReadSource::Selected {
                    kind: kind.clone(),
                    namespaces,
                    labels: format!("{OWNER_LABEL}={owner_mark}"),
                })
        }
        Source::Fetch(fetch) => fetched(&need.name, fetch, grants),
    };
    let limit = need.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    match source {
        Ok(source) => Ok(Reading {
            name: need.name.clone(),
            source,
            view: need.view,
            limit,
        }),
        Err(why) => Err(Answer::Unavailable(Cause::new("Denied", why))),
    }
}

fn by_name(object: &ObjectRef, grants: &Grants, own: &str) -> Result<ReadSource, String> {
    let namespace = object
        .namespace
        .as_deref()
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or(own);
    grants.read(&object.kind, own, namespace, &object.name)?;
    Ok(ReadSource::Object {
        kind: object.kind.clone(),
        namespace: namespace.to_owned(),
        name: object.name.clone(),
    })
}

fn selected(selection: &Selection, grants: &Grants, own: &str) -> Result<ReadSource, String> {
    let kind = &selection.kind;
    let labels = Selector::parse(&selection.labels).map_err(|error| error.to_string())?;
    let namespaces = match selection.namespace.as_deref() {
        Some("*") => grants.read_everywhere(kind, own)?,
        None | Some("") if own.is_empty() => grants.read_everywhere(kind, own)?,
        named => {
            let namespace = named
                .filter(|namespace| !namespace.is_empty())
                .unwrap_or(own);
            grants.read_all_of(kind, own, namespace)?;
            Namespaces::These(vec![namespace.to_owned()])
        }
    };
    Ok(ReadSource::Selected {
        kind: kind.clone(),
        namespaces,
        labels: labels.to_string(),
    })
}

fn fetched(name: &str, fetch: &Fetch, grants: &Grants) -> Result<ReadSource, String> {
    check_source(&Source::Fetch(fetch.clone()))?;
    let http = Http {
        request: fetch.request.clone(),
        delivery: Delivery::AtLeastOnce,
        key: None,
        literal_key: None,
    };
    let grant = grants.http(&http)?;
    if let Some(credential) = &fetch.request.credential
        && !grant.credentials.contains(credential)
    {
        return Err(format!(
            "the credential `{credential}` is not granted for {}; add it to `credentials` of this host's entry in `grants.http`",
            fetch.request.url
        ));
    }
    let asked = fetch
        .request
        .timeout
        .map(|seconds| Span::from_secs(u64::from(seconds)));
    let send = Send {
        effect: name.to_owned(),
        key: None,
        idempotency_key: String::new(),
        at_most_once: false,
        // The mapping has it; whoever knows the mapping puts it in.
        credential: None,
        timeout: asked.map_or(grant.timeout, |asked| asked.min(grant.timeout)),
        answer_headers: grant.answer_headers.clone(),
        answer_body: grant.answer_body,
        fingerprint: request_fingerprint(&http),
        after: Vec::new(),
        request: http.request,
    };
    Ok(ReadSource::Fetch {
        send: Box::new(send),
        fresh: fetch.fresh,
    })
}

/// Which objects of a kind a reading is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    name: Option<String>,
    namespaces: Namespaces,
    labels: Selector,
}

impl Filter {
    /// The filter of a source; a fetch is about no object.
    pub fn of(source: &ReadSource) -> Option<Self> {
        match source {
            ReadSource::Object {
                namespace, name, ..
            } => Some(Self {
                name: Some(name.clone()),
                namespaces: Namespaces::These(vec![namespace.clone()]),
                labels: Selector::default(),
            }),
            ReadSource::Selected {
                namespaces, labels, ..
            } => Some(Self {
                name: None,
                namespaces: namespaces.clone(),
                labels: Selector::parse(labels).ok()?,
            }),
            ReadSource::Fetch { .. } => None,
        }
    }

    /// Whether an object is one of them, by its key and its text.
    pub fn fits(&self, key: &ObjectKey, raw: &str) -> bool {
        let named = self.name.as_deref().is_none_or(|name| name == key.name());
        let there = match &self.namespaces {
            Namespaces::All => true,
            Namespaces::These(these) => {
                key.namespace().is_empty() || these.iter().any(|ns| ns == key.namespace())
            }
        };
        named && there && (self.labels.is_everything() || self.fits_labels(raw))
    }

    fn fits_labels(&self, raw: &str) -> bool {
        Head::parse(raw).is_ok_and(|head| {
            self.labels
                .matches(|label| head.labels.get(label).map(|value| &**value))
        })
    }
}

/// The answer to a reading out of objects of its kind, in any order: those it is about, by namespace and name, up to its
/// limit, as much of each as it wants.
pub fn select<'a>(
    objects: impl Iterator<Item = (&'a ObjectKey, &'a str)>,
    reading: &Reading,
) -> Answer {
    let (Some(filter), Some(kind)) = (Filter::of(&reading.source), reading.source.kind()) else {
        return Answer::Objects(Objects {
            items: Vec::new(),
            truncated: false,
        });
    };
    let mut found: Vec<_> = objects.filter(|(key, raw)| filter.fits(key, raw)).collect();
    found.sort_unstable_by_key(|(key, _)| (key.namespace(), key.name()));
    found.dedup_by_key(|(key, _)| *key);
    let limit = usize::try_from(reading.limit).unwrap_or(usize::MAX);
    let truncated = found.len() > limit;
    let mut items = Vec::with_capacity(found.len().min(limit));
    let mut size = 0;
    for (_, raw) in found.into_iter().take(limit) {
        let item = match reading.view {
            View::Full => Json::trusted(raw),
            View::Metadata => metadata(kind, raw),
        };
        size += item.as_str().len();
        if size > MAX_ANSWER {
            return Answer::Unavailable(Cause::new(
                "TooLarge",
                format!(
                    "the need `{}` finds more than {} MiB of objects; ask for less by `limit`, `labels` or `view: metadata`",
                    reading.name,
                    MAX_ANSWER >> 20
                ),
            ));
        }
        items.push(item);
    }
    Answer::Objects(Objects { items, truncated })
}

impl ReadSource {
    /// The kind it is about; a fetch has none.
    pub fn kind(&self) -> Option<&Kind> {
        match self {
            ReadSource::Object { kind, .. } | ReadSource::Selected { kind, .. } => Some(kind),
            ReadSource::Fetch { .. } => None,
        }
    }
}

/// apiVersion, kind and the object's own text of its metadata. A metadata-only watch names another kind
/// (`PartialObjectMetadata`), so the kind is the one that was asked for.
pub fn metadata(kind: &Kind, raw: &str) -> Json {
    #[derive(Deserialize)]
    struct Outline<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    let outline = serde_json::from_str::<Outline<'_>>(raw).ok();
    let metadata = outline
        .and_then(|outline| outline.metadata)
        .map_or("{}", RawValue::get);
    let (Ok(api_version), Ok(name)) = (Json::of(&kind.api_version), Json::of(&kind.kind)) else {
        return Json::empty_object();
    };
    Json::trusted(format!(
        "{{\"apiVersion\":{},\"kind\":{},\"metadata\":{metadata}}}",
        api_version.as_str(),
        name.as_str()
    ))
}

/// What a decision depends on in these answers, for the memo: all but the time at which a fetch was answered.
pub fn covers<'a>(answers: impl IntoIterator<Item = &'a Answer>) -> u64 {
    let mut hash = Hash::of("related");
    for answer in answers {
        hash = match answer {
            Answer::Objects(objects) => objects.items.iter().fold(
                hash.part("objects")
                    .part([u8::from(objects.truncated)])
                    .part((objects.items.len() as u64).to_le_bytes()),
                |hash, item| hash.part(item.as_str()),
            ),
            Answer::Response(response) => {
                let headers = response.headers.iter().fold(
                    hash.part("response")
                        .part(response.code.to_le_bytes())
                        .part((response.headers.len() as u64).to_le_bytes()),
                    |hash, (name, value)| hash.part(name).part(value),
                );
                // Text and bytes of the same content are two bodies to a plugin.
                let form = match &response.body {
                    Body::Empty => 0,
                    Body::Text(_) => 1,
                    Body::Bytes(_) => 2,
                };
                headers
                    .part([form, u8::from(response.truncated)])
                    .part(response.body.as_bytes())
            }
            Answer::Unavailable(cause) => hash
                .part("unavailable")
                .part(&cause.reason)
                .part(&cause.message),
        };
    }
    hash.number()
}

#[cfg(test)]
mod tests;
