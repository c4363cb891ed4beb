//! A loaded plugin: compiled, linked and described. Immutable and shared; a hot swap is another value.

use std::sync::Arc;

use guesthouse_core::{
    contract::{Descriptor, Json, Observation},
    limits::Limits,
    refusal::Refusal,
};

use crate::{
    Called, Guest, Verb,
    bindings::Exports,
    cache::hex,
    command::Command,
    inspect::Form,
    load::{self, Shared},
    registry::{Digest, Resident},
};

/// A WebAssembly module at one digest, ready to be called. Cheap to clone.
#[derive(Clone)]
pub struct Plugin(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) host: Arc<Shared>,
    pub(crate) hash: Digest,
    pub(crate) form: Form,
    pub(crate) resident: Resident,
    digest: String,
    cached: bool,
    descriptor: Descriptor,
}

/// By what a plugin is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// It exports the contract.
    Contract,
    /// It is a program that reads and writes JSON.
    Command,
}

/// The two doors: code that is ready to be instantiated.
#[derive(Clone)]
pub(crate) enum Code {
    /// Exports the contract.
    Contract(Exports),
    /// Reads and writes JSON.
    Command(Command),
}

impl Plugin {
    pub(crate) fn new(
        host: Arc<Shared>,
        (hash, form): (Digest, Form),
        code: Code,
        cached: bool,
        descriptor: Option<Descriptor>,
    ) -> Self {
        // Only the plugin that is asked to describe itself is without, and nobody else sees that one.
        let descriptor = descriptor.unwrap_or_else(|| Descriptor {
            name: String::new(),
            version: String::new(),
            sdk: String::new(),
            kinds: Vec::new(),
            needs: Vec::new(),
            finalizes: false,
            config_schema: None,
            grants: Json::empty_object(),
            extensions: Vec::new(),
        });
        Self(Arc::new(Inner {
            host,
            hash,
            form,
            resident: Resident::new(code),
            digest: format!("sha256:{}", hex(&hash)),
            cached,
            descriptor,
        }))
    }

    /// `sha256:` and the hash of the bytes as they were given, in hex: what names this plugin in logs and policy.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// What the plugin says of itself.
    pub fn descriptor(&self) -> &Descriptor {
        &self.0.descriptor
    }

    /// The door it is entered by.
    pub fn door(&self) -> Door {
        match self.0.form {
            Form::Core | Form::Component => Door::Contract,
            Form::CoreCommand | Form::ComponentCommand => Door::Command,
        }
    }

    /// Whether the code came from the cache.
    pub fn cached(&self) -> bool {
        self.0.cached
    }

    /// One call in a fresh instance, gone afterwards. Waits for a free slot; then takes at most four times the limit's time.
    pub fn call(&self, verb: Verb, seen: &Observation, limits: &Limits) -> Called {
        match self.open(limits) {
            Ok(mut guest) => {
                let result = guest.call(verb, seen);
                guest.finish(result)
            }
            Err(refusal) => Called {
                result: Err(refusal),
                logs: Vec::new(),
                dropped_logs: 0,
                used: Default::default(),
            },
        }
    }

    /// The native code; brought back where it was given up.
    pub(crate) fn code(&self) -> Result<Code, Refusal> {
        self.0.resident.code(|| load::bring_back(&self.0))
    }

    /// A fresh instance, for those who measure the parts of a call. Waits for a free slot: a thread that holds one guest and
    /// opens another can wait for itself.
    pub fn open(&self, limits: &Limits) -> Result<Guest, Refusal> {
        Guest::open(self.clone(), limits)
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("digest", &self.0.digest)
            .finish_non_exhaustive()
    }
}
