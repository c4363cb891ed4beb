use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};
use serde_json::json;

use super::*;

/// A key pair of a test.
pub(crate) struct Signer {
    pair: EcdsaKeyPair,
    pub(crate) public: PublicKey,
    pub(crate) pem: String,
}

impl Signer {
    pub(crate) fn new(name: &str) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let random = SystemRandom::new();
        let der = key.serialize_der();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random);
        let pem = key.public_key_pem();
        Self {
            pair: pair.unwrap(),
            public: PublicKey::from_pem(name, &pem).unwrap(),
            pem,
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> String {
        let signature = self.pair.sign(&SystemRandom::new(), message).unwrap();
        BASE64_STANDARD.encode(signature)
    }

    fn simple(&self, type_: &str, digest: &str) -> Evidence {
        let identity = json!({"docker-reference": "registry.example/plugin"});
        let image = json!({"docker-manifest-digest": digest});
        let critical = json!({"identity": identity, "image": image, "type": type_});
        let payload = json!({"critical": critical, "optional": null}).to_string();
        Evidence::Simple {
            signature: self.sign(payload.as_bytes()),
            payload,
        }
    }

    fn bundle(&self, type_: &str, predicate: &str, hex: &str) -> String {
        let subject = json!([{"digest": {"sha512": "x"}}, {"digest": {"sha256": hex}}]);
        let statement = json!({"_type": "https://in-toto.io/Statement/v1", "subject": subject, "predicateType": predicate});
        let payload = statement.to_string();
        let sig = self.sign(&pre_authentication(type_, payload.as_bytes()));
        let payload = BASE64_STANDARD.encode(payload);
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "dsseEnvelope": {"payload": payload, "payloadType": type_, "signatures": [{"sig": sig}]},
        })
        .to_string()
    }
}

const BYTES: &[u8] = b"the plugin";

/// What `key` and another key say of evidence for `BYTES` under this manifest.
fn verdicts(
    evidence: &Evidence,
    key: &Signer,
    manifest: Option<&Digest>,
) -> [Option<&'static str>; 2] {
    let subject = Subject {
        bytes: BYTES,
        manifest,
    };
    [&key.public, &Signer::new("other").public].map(|key| evidence.refuted(key, subject))
}

#[test]
fn a_payload_counts_for_the_manifest_that_it_names_and_the_key_that_signed_it() {
    let (key, manifest) = (Signer::new("k"), Digest::of(b"manifest"));
    let good = key.simple(SIMPLE_SIGNING, &manifest.to_string());
    assert_eq!(
        verdicts(&good, &key, Some(&manifest)),
        [None, Some(OTHER_KEY)]
    );
    let other = Digest::of(b"other");
    let elsewhere = verdicts(&good, &key, Some(&other));
    assert_eq!(elsewhere[0], Some(OTHER_SUBJECT));
    assert_eq!(verdicts(&good, &key, None)[0], Some(OTHER_SUBJECT));
    let type_ = key.simple("something", &manifest.to_string());
    assert!(verdicts(&type_, &key, Some(&manifest))[0].is_some());
    let Evidence::Simple { payload, signature } = good else {
        panic!()
    };
    let changed = Evidence::Simple {
        payload: payload.replace("registry.example", "registry.evil"),
        signature,
    };
    assert_eq!(
        verdicts(&changed, &key, Some(&manifest))[0],
        Some(OTHER_KEY)
    );
}

#[test]
fn a_bundle_counts_only_as_a_signature_of_its_subject() {
    let (key, manifest) = (Signer::new("k"), Digest::of(b"manifest"));
    let hex = manifest.hex();
    let good = Evidence::Bundle(key.bundle(IN_TOTO, IS_SIGNATURE, &hex));
    assert_eq!(
        verdicts(&good, &key, Some(&manifest)),
        [None, Some(OTHER_KEY)]
    );
    for (type_, predicate, hex, expected) in [
        (
            IN_TOTO,
            IS_SIGNATURE,
            Digest::of(b"other").hex(),
            OTHER_SUBJECT,
        ),
        (
            IN_TOTO,
            "https://slsa.dev/provenance/v1",
            hex.clone(),
            "another attestation than a signature",
        ),
        ("text/plain", IS_SIGNATURE, hex.clone(), "over no statement"),
    ] {
        let evidence = Evidence::Bundle(key.bundle(type_, predicate, &hex));
        assert_eq!(
            verdicts(&evidence, &key, Some(&manifest))[0],
            Some(expected)
        );
    }
    let swapped = key.bundle(IN_TOTO, IS_SIGNATURE, &hex);
    let swapped = swapped.replace(IN_TOTO, "application/vnd.in-toto");
    let swapped = Evidence::Bundle(swapped);
    assert_eq!(
        verdicts(&swapped, &key, Some(&manifest))[0],
        Some(OTHER_KEY),
        "the type is signed too"
    );
    for torn in [
        "{}",
        "{",
        "[]",
        r#"{"dsseEnvelope": {"payload": "", "payloadType": "", "signatures": []}}"#,
    ] {
        let torn = Evidence::Bundle(torn.to_owned());
        assert!(verdicts(&torn, &key, Some(&manifest))[0].is_some());
    }
}

#[test]
fn a_detached_signature_counts_for_its_bytes() {
    let key = Signer::new("k");
    let plain = Evidence::Detached(format!("{}\n", key.sign(BYTES)));
    assert!(matches!(verdicts(&plain, &key, None), [None, Some(_)]));
    let message = json!({"messageSignature": {"signature": key.sign(BYTES)}}).to_string();
    let bundle = Evidence::Detached(message.clone());
    assert!(matches!(verdicts(&bundle, &key, None), [None, Some(_)]));
    let other = Evidence::Detached(key.sign(b"other bytes"));
    assert!(verdicts(&other, &key, None)[0].is_some());
    assert!(verdicts(&Evidence::Detached("%".into()), &key, None)[0].is_some());
    let manifest = Digest::of(b"manifest");
    let of_bytes = Evidence::Bundle(message);
    assert!(
        verdicts(&of_bytes, &key, Some(&manifest))[0].is_some(),
        "a manifest is signed as one"
    );
}

#[test]
fn a_key_is_p256_in_pem_and_what_is_not_is_named() {
    let rsa_like = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let private = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for (pem, expected) in [
        ("", "BEGIN PUBLIC KEY"),
        (private.as_str(), "BEGIN PUBLIC KEY"),
        (&rsa_like.public_key_pem(), "P-256"),
    ] {
        let error = PublicKey::from_pem("release", pem).unwrap_err().to_string();
        assert!(
            error.contains("release") && error.contains(expected),
            "{error}"
        );
    }
}

/// Made by cosign 3.1.3 with `--key`, `--tlog-upload=false` and `--use-signing-config=false`: `sign` in both of its forms, and
/// `sign-blob`. That this host reads what it writes itself would show little.
#[test]
fn what_cosign_itself_made_counts() {
    let pem = include_str!("cosign/cosign.pub");
    let key = PublicKey::from_pem("cosign.pub", pem).unwrap();
    let manifest = Digest::of(include_bytes!("cosign/manifest.json"));
    let simple = Evidence::Simple {
        payload: include_str!("cosign/payload.json").to_owned(),
        signature: include_str!("cosign/payload.sig").to_owned(),
    };
    let bundle = Evidence::Bundle(include_str!("cosign/bundle.json").to_owned());
    let blob = Evidence::Detached(include_str!("cosign/blob.sig").to_owned());
    let blob_bundle = Evidence::Detached(include_str!("cosign/blob.bundle").to_owned());
    for (evidence, manifest) in [
        (simple, Some(&manifest)),
        (bundle, Some(&manifest)),
        (blob, None),
        (blob_bundle, None),
    ] {
        let good = Subject {
            bytes: b"a plugin",
            manifest,
        };
        assert_eq!(evidence.refuted(&key, good), None, "{evidence:?}");
        let other = Signer::new("other").public;
        assert!(evidence.refuted(&other, good).is_some(), "{evidence:?}");
        let elsewhere = Digest::of(b"other");
        let wrong = Subject {
            bytes: b"another plugin",
            manifest: manifest.map(|_| &elsewhere),
        };
        assert!(evidence.refuted(&key, wrong).is_some(), "{evidence:?}");
    }
}
