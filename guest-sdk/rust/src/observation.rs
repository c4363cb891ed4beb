//! What a plugin sees, typed.
//!
//! The object's text is gone through once: spec and status straight into the plugin's types, metadata borrowed, all else
//! skipped. Labels and annotations are looked up in their text when asked for.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::contract::{self, Answer, Child, FailedSend, Objects, ReceiptState, Response};
use crate::{Failure, Reconciler, raw};

/// All that a plugin sees in one call, with spec, status and config in its own types.
pub struct Observation<'a, P: Reconciler> {
    seen: &'a contract::Observation,
    meta: Meta<'a>,
    spec: P::Spec,
    status: Option<P::Status>,
    config: P::Config,
}

#[derive(Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de>, T: Deserialize<'de>"))]
struct Object<'a, S, T> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    spec: Option<S>,
    status: Option<T>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(default)]
    generation: i64,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
}

/// What became of an http effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Receipt<'a> {
    /// Not sent yet.
    Unsent,
    /// A definite answer: 2xx, 3xx, or 4xx but 408, 425 and 429.
    Answered(&'a Response),
    /// Sent without a definite answer; sent again if it is still asked for.
    Failed(&'a FailedSend),
    /// At-most-once only: the answer is lost.
    Unknown,
}

/// What came of a need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Related<'a> {
    /// Not asked for yet.
    Unasked,
    /// The objects found, maybe none.
    Objects(&'a Objects),
    /// The answer of a `fetch`, whatever its code.
    Response(&'a Response),
    /// Asked for, and there is no answer.
    Unavailable(&'a contract::Cause),
}

impl<'a, P: Reconciler> Observation<'a, P> {
    /// Reads the object and the config into the plugin's types.
    ///
    /// Errors are terminal: `BadObject` when spec or status do not fit, `BadConfig` when the config does not.
    pub fn read(seen: &'a contract::Observation) -> Result<Self, Failure> {
        let object: Object<'a, P::Spec, P::Status> = serde_json::from_str(&seen.object)
            .map_err(|e| Failure::stall("BadObject", raw::explain(&seen.object, &e)))?;
        let spec = match object.spec {
            Some(spec) => spec,
            // A kind without spec, or an object that left it out: the same as an empty one.
            None => serde_json::from_str("{}").map_err(|e| {
                Failure::stall("BadObject", ["spec: ", &raw::explain("{}", &e)].concat())
            })?,
        };
        let config = serde_json::from_str(&seen.config)
            .map_err(|e| Failure::stall("BadConfig", raw::explain(&seen.config, &e)))?;
        Ok(Observation {
            seen,
            meta: object.metadata,
            spec,
            status: object.status,
            config,
        })
    }

    /// The object's spec.
    pub fn spec(&self) -> &P::Spec {
        &self.spec
    }

    /// The object's status; `None` when there is none yet.
    pub fn status(&self) -> Option<&P::Status> {
        self.status.as_ref()
    }

    /// The mapping's config.
    pub fn config(&self) -> &P::Config {
        &self.config
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.meta.name
    }

    /// The object's namespace; `None` for a cluster-scoped one.
    pub fn namespace(&self) -> Option<&str> {
        self.meta.namespace.as_deref()
    }

    /// The object's uid.
    pub fn uid(&self) -> &str {
        &self.meta.uid
    }

    /// The object's generation; 0 for a kind without.
    pub fn generation(&self) -> i64 {
        self.meta.generation
    }

    /// A label of the object.
    pub fn label(&self, key: &str) -> Option<Cow<'a, str>> {
        raw::member(self.meta.labels?, key)
    }

    /// An annotation of the object.
    pub fn annotation(&self, key: &str) -> Option<Cow<'a, str>> {
        raw::member(self.meta.annotations?, key)
    }

    /// What became of the http effect of that id that was asked for without a key.
    pub fn receipt(&self, id: &str) -> Receipt<'a> {
        self.receipt_of(id, None)
    }

    /// What became of the http effect of that id and key.
    pub fn receipt_for(&self, id: &str, key: &str) -> Receipt<'a> {
        self.receipt_of(id, Some(key))
    }

    /// What became of the effect `id` under whatever key it was sent last; of an id only the last key is on record.
    pub fn last_receipt(&self, id: &str) -> Receipt<'a> {
        self.receipt_where(|receipt| receipt.effect == id)
    }

    fn receipt_of(&self, id: &str, key: Option<&str>) -> Receipt<'a> {
        self.receipt_where(|receipt| receipt.effect == id && receipt.key.as_deref() == key)
    }

    fn receipt_where(&self, fits: impl Fn(&contract::Receipt) -> bool) -> Receipt<'a> {
        let found = self.seen.receipts.iter().find(|receipt| fits(receipt));
        match found.map(|receipt| &receipt.state) {
            None => Receipt::Unsent,
            Some(ReceiptState::Answered(response)) => Receipt::Answered(response),
            Some(ReceiptState::Failed(send)) => Receipt::Failed(send),
            Some(ReceiptState::Unknown) => Receipt::Unknown,
        }
    }

    /// The children on record and those asked for last, by effect id.
    pub fn children(&self) -> &'a [Child] {
        &self.seen.children
    }

    /// The child that the effect of that id asked for.
    pub fn child(&self, id: &str) -> Option<&'a Child> {
        self.seen.children.iter().find(|child| child.effect == id)
    }

    /// The answer to the need of that name.
    pub fn related(&self, name: &str) -> Related<'a> {
        match self
            .seen
            .related
            .iter()
            .find(|related| related.name == name)
            .map(|related| &related.answer)
        {
            None => Related::Unasked,
            Some(Answer::Objects(objects)) => Related::Objects(objects),
            Some(Answer::Response(response)) => Related::Response(response),
            Some(Answer::Unavailable(cause)) => Related::Unavailable(cause),
        }
    }

    /// When this pass began, RFC 3339 in whole seconds. Between two wakes the decision must not depend on it.
    pub fn now(&self) -> &'a str {
        &self.seen.now
    }

    /// How many passes in a row failed before this one.
    pub fn attempt(&self) -> u32 {
        self.seen.attempt
    }

    /// The object's whole text, byte for byte as the API server sent it.
    pub fn object_json(&self) -> &'a str {
        &self.seen.object
    }

    /// The text of the object's spec, untouched; `None` when there is none. (`null` is a text.)
    pub fn spec_json(&self) -> Option<&'a str> {
        #[derive(Deserialize)]
        struct Spec<'t> {
            #[serde(borrow, default, deserialize_with = "present")]
            spec: Option<&'t RawValue>,
        }
        fn present<'de, D: serde::Deserializer<'de>>(
            from: D,
        ) -> Result<Option<&'de RawValue>, D::Error> {
            <&RawValue>::deserialize(from).map(Some)
        }
        serde_json::from_str::<Spec<'a>>(&self.seen.object)
            .ok()?
            .spec
            .map(RawValue::get)
    }

    /// The observation as the contract has it: mapping, round, extensions, receipts and related objects in full.
    pub fn raw(&self) -> &'a contract::Observation {
        self.seen
    }
}

impl Related<'_> {
    /// The first object found, in a type of the plugin's: for a need of one object by name. `None` when there is none, and as
    /// long as it was not asked for: then the decision is not carried out anyway, if only it names the need.
    ///
    /// Without an answer it is a retry with the cause's reason; a plugin that can do without matches on
    /// [`Related::Unavailable`] first. `BadRelated` when the object does not fit the type, or the need was a `fetch`.
    pub fn one<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        Ok(self.all()?.into_iter().next())
    }

    /// All objects found, in a type of the plugin's; otherwise as [`Related::one`].
    pub fn all<T: DeserializeOwned>(&self) -> Result<Vec<T>, Failure> {
        match self {
            Related::Unasked => Ok(Vec::new()),
            Related::Objects(objects) => objects.parse(),
            Related::Response(_) => Err(Failure::stall(
                "BadRelated",
                "the need is a fetch: it has an answer, not objects",
            )),
            Related::Unavailable(cause) => Err(Failure::retry(&cause.reason, &cause.message)),
        }
    }
}

impl Objects {
    /// The objects in a type of the plugin's; `BadRelated` when one does not fit.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<Vec<T>, Failure> {
        let one = |text: &String| {
            serde_json::from_str(text)
                .map_err(|e| Failure::stall("BadRelated", raw::explain(text, &e)))
        };
        self.items.iter().map(one).collect()
    }
}
