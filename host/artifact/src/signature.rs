//! Signatures as cosign makes them with a key pair, verified with the public key alone: no certificate, no log, no network.
//!
//! Three shapes are understood, and in each the signed text itself must name what is signed:
//! - the payload beside a manifest under the tag `sha256-….sig` (simple signing: the payload names the manifest's digest);
//! - a Sigstore bundle that refers to a manifest (DSSE: the in-toto statement's subject is the manifest's digest, and its
//!   predicate says that it is a signature and not some other attestation by the same key);
//! - a detached signature over the bytes: base64 as `cosign sign-blob` prints it, or its bundle.
//!
//! Keys are ECDSA P-256, which is what `cosign generate-key-pair` makes.

use base64::{Engine, prelude::BASE64_STANDARD};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls_pki_types::{SubjectPublicKeyInfoDer, pem::PemObject};
use serde::{Deserialize, Serialize};

use crate::Digest;

/// What stands before the point in the DER of a P-256 public key (RFC 5480): its algorithm and its curve.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// `critical.type` of a simple signing payload.
const SIMPLE_SIGNING: &str = "cosign container image signature";
/// Type of the payload of a DSSE envelope.
const IN_TOTO: &str = "application/vnd.in-toto+json";
/// What a statement says when it is a signature and nothing else.
const IS_SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";

/// A key that signatures are verified with.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    name: String,
    /// Uncompressed point.
    point: Vec<u8>,
}

/// Text that is no key this host can use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key {0} cannot be used: {1}")]
pub struct BadKey(String, &'static str);

impl PublicKey {
    /// From PEM, as in `cosign.pub`; `name` is what errors call it.
    pub fn from_pem(name: &str, pem: &str) -> Result<Self, BadKey> {
        let bad = |why| BadKey(name.to_owned(), why);
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()).map_err(|_| {
            bad("it is no public key in PEM (-----BEGIN PUBLIC KEY-----), as cosign.pub is")
        })?;
        let point = der.strip_prefix(&P256).filter(|point| point.len() == 65);
        let point = point.ok_or_else(|| {
            bad("it is no ECDSA key of curve P-256, as cosign generate-key-pair makes them")
        })?;
        Ok(Self {
            name: name.to_owned(),
            point: point.to_vec(),
        })
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this key made the signature (ASN.1) over the message.
    fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point)
            .verify(message, signature)
            .is_ok()
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublicKey({})", self.name)
    }
}

/// A signature that was found, of whatever worth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Evidence {
    /// A payload under the tag `sha256-….sig`, with its signature in base64.
    Simple {
        /// The payload's text.
        payload: String,
        /// The signature over it.
        signature: String,
    },
    /// A bundle that refers to a manifest.
    Bundle(String),
    /// A signature over the bytes: base64, or a bundle.
    Detached(String),
}

/// What is to be vouched for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The plugin.
    pub(crate) bytes: &'a [u8],
    /// The manifest it came by, if it came from a registry.
    pub(crate) manifest: Option<&'a Digest>,
}

impl Evidence {
    /// Why this does not show that `key` vouches for `subject`; nothing if it does.
    pub(crate) fn refuted(&self, key: &PublicKey, subject: Subject<'_>) -> Option<&'static str> {
        let result = match self {
            Self::Simple { payload, signature } => simple(key, payload, signature, subject),
            Self::Bundle(text) => bundle(key, text, subject),
            Self::Detached(text) if text.trim_start().starts_with('{') => {
                bundle(key, text, subject)
            }
            Self::Detached(text) => detached(key, text, subject.bytes),
        };
        result.err()
    }
}

type Shown = Result<(), &'static str>;

const OTHER_KEY: &str = "made by another key";
const OTHER_SUBJECT: &str = "for something else";

fn decode(text: &str) -> Result<Vec<u8>, &'static str> {
    BASE64_STANDARD.decode(text.trim()).map_err(|_| "no base64")
}

fn must(holds: bool, else_: &'static str) -> Shown {
    if holds { Ok(()) } else { Err(else_) }
}

fn detached(key: &PublicKey, text: &str, bytes: &[u8]) -> Shown {
    must(
        key.signed(bytes, &decode(text)?),
        "made by another key, or over other bytes",
    )
}

fn simple(key: &PublicKey, payload: &str, signature: &str, subject: Subject<'_>) -> Shown {
    #[derive(Deserialize)]
    struct Payload {
        critical: Critical,
    }
    #[derive(Deserialize)]
    struct Critical {
        image: Image,
        #[serde(rename = "type")]
        type_: String,
    }
    #[derive(Deserialize)]
    struct Image {
        #[serde(rename = "docker-manifest-digest")]
        digest: String,
    }
    must(
        key.signed(payload.as_bytes(), &decode(signature)?),
        OTHER_KEY,
    )?;
    let said: Payload = serde_json::from_str(payload).map_err(|_| "over no payload of cosign's")?;
    must(
        said.critical.type_ == SIMPLE_SIGNING,
        "over no payload of cosign's",
    )?;
    names(subject.manifest, &said.critical.image.digest)
}

fn names(manifest: Option<&Digest>, said: &str) -> Shown {
    let same = manifest.is_some_and(|digest| digest.to_string() == said);
    must(same, OTHER_SUBJECT)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    dsse_envelope: Option<Envelope>,
    message_signature: Option<MessageSignature>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    sig: String,
}

#[derive(Deserialize)]
struct MessageSignature {
    signature: String,
}

fn bundle(key: &PublicKey, text: &str, subject: Subject<'_>) -> Shown {
    let bundle: Bundle = serde_json::from_str(text).map_err(|_| "no bundle")?;
    match (
        bundle.dsse_envelope,
        bundle.message_signature,
        subject.manifest,
    ) {
        (Some(envelope), None, Some(manifest)) => enveloped(key, &envelope, manifest),
        (None, Some(message), None) => detached(key, &message.signature, subject.bytes),
        _ => Err("a bundle of another form than it takes here"),
    }
}

fn enveloped(key: &PublicKey, envelope: &Envelope, manifest: &Digest) -> Shown {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Statement {
        predicate_type: String,
        subject: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        digest: std::collections::BTreeMap<String, String>,
    }
    let payload = decode(&envelope.payload)?;
    let message = pre_authentication(&envelope.payload_type, &payload);
    let made_by_key = |signature: &EnvelopeSignature| {
        decode(&signature.sig).is_ok_and(|signature| key.signed(&message, &signature))
    };
    must(envelope.signatures.iter().any(made_by_key), OTHER_KEY)?;
    must(envelope.payload_type == IN_TOTO, "over no statement")?;
    let statement: Statement = serde_json::from_slice(&payload).map_err(|_| "over no statement")?;
    must(
        statement.predicate_type == IS_SIGNATURE,
        "another attestation than a signature",
    )?;
    let hex = manifest.hex();
    let is_manifest = |named: &Named| named.digest.get("sha256") == Some(&hex);
    must(statement.subject.iter().any(is_manifest), OTHER_SUBJECT)
}

/// What a DSSE envelope's signature is over (its protocol, version 1).
fn pre_authentication(type_: &str, payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {type_} {} ", type_.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
pub(crate) mod tests;
