//! The contract's records, `guesthouse:reconciler/types@0.1.0`, as plain Rust types.
//!
//! They are written by hand and compiled on every target, so that plugins test natively; on `wasm32` the generated bindings
//! lift and lower these very types, and a field or case that differs from the WIT does not compile. `wit/reconciler.wit`
//! says what each member means. Authors seldom touch them: [`crate::Observation`] reads and [`crate::Decision`] builds.

#![allow(missing_docs)] // the members are the WIT's, and documented there

/// JSON text, byte for byte.
pub type Json = String;
/// RFC 3339, UTC, whole seconds: `2026-11-29T21:53:00Z`.
pub type Timestamp = String;
/// A length of time in whole seconds.
pub type Seconds = u32;
/// Name and value of an HTTP header.
pub type Header = (String, String);

/// Declares records, each with the same derives.
macro_rules! records {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $(pub $field: $ty),* }
    )*};
}

/// Declares variants, each with the same derives.
macro_rules! variants {
    ($($(#[$doc:meta])* $name:ident { $($case:ident $(($ty:ty))?),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name { $($case $(($ty))?),* }
    )*};
}

/// Declares enums and what the bindings call to read one from its index.
macro_rules! enums {
    ($($(#[$doc:meta])* $name:ident { $first:ident, $($case:ident),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $name { $first, $($case),* }
        impl $name {
            #[doc(hidden)]
            pub fn _lift(index: u8) -> $name {
                $(if index == $name::$case as u8 { return $name::$case; })*
                $name::$first
            }
        }
    )*};
}

records! {
    /// Why something is as it is: a CamelCase reason for machines, a message for people.
    Cause { reason: String, message: String }
    /// A kind as a manifest names it.
    Kind { api_version: String, kind: String }
    /// One object by name.
    ObjectRef { kind: Kind, namespace: Option<String>, name: String }
    /// A part of a later version.
    Extension { name: String, value: Json }

    /// What a plugin says of itself.
    Descriptor {
        name: String, version: String, sdk: String, kinds: Vec<ServedKind>, needs: Vec<Need>, finalizes: bool,
        config_schema: Option<Json>, grants: Json, extensions: Vec<String>,
    }
    /// A kind the plugin can be mapped to.
    ServedKind { kind: Kind, crd: Option<Json> }

    /// All that a plugin sees in one call.
    Observation {
        object: Json, related: Vec<Related>, children: Vec<Child>, receipts: Vec<Receipt>, config: Json, mapping: String,
        now: Timestamp, attempt: u32, round: u32, extensions: Vec<Extension>,
    }
    /// The answer to a need.
    Related { name: String, answer: Answer }
    /// Objects found, in the order of namespace and name.
    Objects { items: Vec<Json>, truncated: bool }
    /// A child on record, or asked for last.
    Child {
        effect: String, object: ObjectRef, uid: Option<String>, state: ChildState, message: String, error: Option<Cause>,
    }
    /// What became of an http effect.
    Receipt { effect: String, key: Option<String>, state: ReceiptState }
    /// Sent without a definite answer.
    FailedSend { attempts: u32, error: Cause, next_at: Timestamp }
    /// An HTTP answer.
    Response { code: u16, headers: Vec<Header>, body: Body, truncated: bool, at: Timestamp }

    /// All that a plugin wants.
    Decision {
        status: Option<Status>, conditions: Vec<Condition>, labels: Vec<(String, Option<String>)>,
        annotations: Vec<(String, Option<String>)>, needs: Vec<Need>, effects: Vec<Effect>, complete: bool,
        events: Vec<Event>, wake: Option<Wake>, finalized: bool, extensions: Vec<Extension>,
    }
    /// A condition of the object's status.
    Condition { type_: String, status: ConditionStatus, reason: String, message: String }
    /// An Event to tell.
    Event { type_: EventType, reason: String, note: String }
    /// Something to read beside the object.
    Need { name: String, source: Source, view: View, limit: Option<u32> }
    /// Objects of a kind by label.
    Selection { kind: Kind, namespace: Option<String>, labels: String }
    /// Something outside the cluster, read by GET or HEAD.
    Fetch { request: Request, fresh: Seconds }
    /// Something asked for, by id.
    Effect { id: String, after: Vec<String>, action: Action }
    /// A child, by server-side apply.
    Apply {
        object: Json, ownership: Ownership, mode: Mode, on_immutable: OnImmutable, on_delete: OnDelete,
        generate: Vec<Generated>,
    }
    /// A random value of a Secret, made by the host once.
    Generated { key: String, length: u32, alphabet: Option<String> }
    /// A deletion.
    Delete { object: ObjectRef, uid: Option<String> }
    /// A request with a receipt.
    Http { request: Request, delivery: Delivery, key: Option<String>, literal_key: Option<String> }
    /// An HTTP request.
    Request {
        method: String, url: String, headers: Vec<Header>, body: Body, credential: Option<String>, timeout: Option<Seconds>,
    }
    /// No decision, and why.
    Failure {
        kind: FailureKind, cause: Cause, after: Option<Seconds>, status: Option<Status>, conditions: Vec<Condition>,
    }
}

variants! {
    /// What came of a need.
    Answer { Objects(Objects), Response(Response), Unavailable(Cause) }
    /// The state of a receipt.
    ReceiptState { Answered(Response), Failed(FailedSend), Unknown }
    /// A body.
    Body { Empty, Text(String), Bytes(Vec<u8>) }
    /// The status wanted.
    Status { Replace(Json), Merge(Json) }
    /// When to be called again at the latest.
    Wake { At(Timestamp), After(Seconds) }
    /// Where a need looks.
    Source { Object(ObjectRef), Selected(Selection), Owned(Kind), Fetch(Fetch) }
    /// What an effect does.
    Action { Apply(Apply), Delete(Delete), Http(Http), Other(Extension) }
}

enums! {
    /// How a child stands (kstatus).
    ChildState { Absent, InProgress, Current, Failed, Terminating }
    /// `True`, `False` or `Unknown`.
    ConditionStatus { True, False, Unknown }
    /// Whether somebody must act.
    EventType { Normal, Warning }
    /// How much of an object a need shows.
    View { Full, Metadata }
    /// Whose a child is.
    Ownership { Owned, Adopt, Fields }
    /// Whether drift is corrected.
    Mode { Keep, Once }
    /// What to do when a field cannot be changed.
    OnImmutable { Fail, Recreate }
    /// What happens to the child at the end.
    OnDelete { Delete, Orphan }
    /// How often a request may be sent.
    Delivery { AtLeastOnce, AtMostOnce }
    /// Whether it may work later.
    FailureKind { Retry, Terminal }
}

impl Default for Decision {
    /// Nothing to do, and status stays as it is.
    fn default() -> Decision {
        Decision {
            status: None,
            conditions: Vec::new(),
            labels: Vec::new(),
            annotations: Vec::new(),
            needs: Vec::new(),
            effects: Vec::new(),
            complete: false,
            events: Vec::new(),
            wake: None,
            finalized: false,
            extensions: Vec::new(),
        }
    }
}

impl Kind {
    /// A kind: `Kind::new("apps/v1", "Deployment")`.
    pub fn new(api_version: &str, kind: &str) -> Kind {
        Kind {
            api_version: api_version.into(),
            kind: kind.into(),
        }
    }

    /// An object of this kind in the reconciled object's namespace.
    pub fn named(self, name: impl Into<String>) -> ObjectRef {
        ObjectRef {
            kind: self,
            namespace: None,
            name: name.into(),
        }
    }
}

impl Cause {
    /// A cause; the reason in CamelCase, and neither with a counter or a time in it.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Cause {
        Cause {
            reason: reason.into(),
            message: message.into(),
        }
    }
}

impl Response {
    /// Whether the code is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// The first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(have, _)| have == name)
            .map(|(_, value)| value.as_str())
    }

    /// The body, if it is text.
    pub fn text(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The body as JSON of that type; `None` if it is not.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.text()?).ok()
    }
}
