//! On a real registry.

use base64::{Engine, prelude::BASE64_STANDARD};
use guesthouse_artifact::policy::{Candidate, Demands, Policy, Source, admit};
use guesthouse_artifact::{
    Access, Digest, DockerConfig, Evidence, FetchError, Login, PublicKey, Reference, Registry, push,
};
use guesthouse_local::{Registry as Server, RegistryOptions};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair},
};

use crate::run;

const MOST: u64 = 1 << 20;
const CREATED: &str = "2026-01-01T00:00:00Z";

/// A core module with this name in it.
fn module(name: &str) -> Vec<u8> {
    wat::parse_str(format!("(module (memory (export {name:?}) 1))")).unwrap()
}

/// A server, and how to ask it.
struct Scene {
    server: Server,
    access: Access,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn start(tls: bool, login: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = RegistryOptions {
            dir: dir.path().to_owned(),
            tls,
            login,
        };
        let server = Server::start(options).unwrap();
        let access = Access {
            login: login.then(|| login_of(&server)),
            tried: "the test's own login".to_owned(),
            ca: server.ca().map(str::to_owned),
            insecure: !tls,
        };
        Self {
            server,
            access,
            _dir: dir,
        }
    }

    fn reference(&self, name: &str) -> Reference {
        format!("{}/{name}", self.server.address()).parse().unwrap()
    }

    fn registry(&self, reference: &Reference) -> Registry {
        Registry::new(reference, self.access.clone()).unwrap()
    }

    async fn push(&self, name: &str, wasm: &[u8]) -> Digest {
        let reference = self.reference(name);
        let pushed = push(&reference, wasm.to_vec(), CREATED, &self.access).await;
        pushed.unwrap().manifest
    }
}

fn login_of(server: &Server) -> Login {
    let config = DockerConfig::parse(&server.docker_config()).unwrap();
    config.login(&server.address(), "a").unwrap().unwrap()
}

#[test]
fn what_is_pushed_is_pulled_over_tls_with_a_login_and_named_by_its_digest() {
    run(async {
        let scene = Scene::start(true, true);
        let (wasm, reference) = (module("one"), scene.reference("team/app:1"));
        let pushed = push(&reference, wasm.clone(), CREATED, &scene.access)
            .await
            .unwrap();
        assert_eq!(pushed.plugin, Digest::of(&wasm));
        let again = push(&reference, wasm.clone(), CREATED, &scene.access)
            .await
            .unwrap();
        assert_eq!(again, pushed, "the same bytes are the same artifact");
        for reference in [reference.clone(), reference.resolved(pushed.manifest)] {
            let registry = scene.registry(&reference);
            let resolved = registry.resolve().await.unwrap();
            assert_eq!(resolved.manifest, pushed.manifest);
            assert_eq!(registry.pull(&resolved, MOST).await.unwrap(), wasm);
            let too_large = registry.pull(&resolved, 10).await;
            assert!(matches!(too_large, Err(FetchError::TooLarge { .. })));
        }
        let absent = scene
            .registry(&scene.reference("team/other:1"))
            .resolve()
            .await;
        assert!(absent.is_err_and(|error| error.is_absent()));
    });
}

/// adm-controller#208, yoke#169
#[test]
fn a_private_registry_refuses_and_the_error_names_what_was_tried() {
    run(async {
        let mut scene = Scene::start(true, true);
        scene.push("app:1", &module("one")).await;
        let reference = scene.reference("app:1");
        let config = DockerConfig::parse(&format!(
            r#"{{"auths": {{"{}": {{"username": "plugins", "password": "wrong"}}}}}}"#,
            scene.server.address()
        ));
        let wrong = config
            .unwrap()
            .login(&scene.server.address(), "app")
            .unwrap();
        for (login, tried) in [(None, "no credentials"), (wrong, "the Secret pull")] {
            scene.access.login = login;
            scene.access.tried = tried.to_owned();
            let error = scene
                .registry(&reference)
                .resolve()
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains("401") && error.contains(tried), "{error}");
            assert!(!error.contains("wrong"), "{error}");
            let error = push(&reference, module("one"), CREATED, &scene.access).await;
            let error = error.unwrap_err().to_string();
            assert!(error.contains(tried), "{error}");
        }
    });
}

#[test]
fn an_unknown_authority_is_refused_and_clear_text_is_asked_only_where_it_is_said() {
    run(async {
        let mut scene = Scene::start(true, false);
        scene.push("app:1", &module("one")).await;
        let reference = scene.reference("app:1");
        scene.access.ca = None;
        let error = scene
            .registry(&reference)
            .resolve()
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("certificate"), "{error}");
        scene.access.ca = Some("no pem".to_owned());
        let error = Registry::new(&reference, scene.access.clone())
            .err()
            .unwrap();
        assert!(error.to_string().starts_with("ca: "), "{error}");

        let mut clear = Scene::start(false, false);
        clear.push("app:1", &module("one")).await;
        let reference = clear.reference("app:1");
        assert!(clear.registry(&reference).resolve().await.is_ok());
        clear.access.insecure = false;
        assert!(clear.registry(&reference).resolve().await.is_err());
    });
}

#[test]
fn a_tag_that_moves_stands_for_the_new_plugin_and_a_digest_for_the_old_one() {
    run(async {
        let scene = Scene::start(false, false);
        let reference = scene.reference("app:1");
        let first = scene.push("app:1", &module("one")).await;
        let second = scene.push("app:1", &module("two")).await;
        let registry = scene.registry(&reference);
        let resolved = registry.resolve().await.unwrap();
        assert_eq!(resolved.manifest, second);
        assert_eq!(registry.pull(&resolved, MOST).await.unwrap(), module("two"));
        let pinned = scene.registry(&reference.resolved(first));
        let resolved = pinned.resolve().await.unwrap();
        assert_eq!(pinned.pull(&resolved, MOST).await.unwrap(), module("one"));
    });
}

/// A signature as `cosign sign` before 3 leaves it, pushed by the library's own means.
#[test]
fn a_signature_beside_a_manifest_is_found_and_counts_by_its_key() {
    run(async {
        let scene = Scene::start(false, false);
        let reference = scene.reference("app:1");
        let manifest = scene.push("app:1", &module("one")).await;
        let registry = scene.registry(&reference);
        assert_eq!(registry.signatures(&manifest).await.unwrap(), []);

        let key = rcgen::KeyPair::generate().unwrap();
        let (random, der) = (SystemRandom::new(), key.serialize_der());
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random);
        let payload = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":""}},"image":{{"docker-manifest-digest":"{manifest}"}},"type":"cosign container image signature"}},"optional":null}}"#
        );
        let signature = pair.unwrap().sign(&random, payload.as_bytes()).unwrap();
        let signature = BASE64_STANDARD.encode(signature);
        push_signature(&scene, &manifest, &payload, &signature).await;

        let found = registry.signatures(&manifest).await.unwrap();
        assert_eq!(found, [Evidence::Simple { payload, signature }]);
        // For this manifest and by this key; the same for another manifest is worth nothing.
        let other = Digest::of(b"other");
        for (named, good) in [(manifest, true), (other, false)] {
            let demands = Demands {
                keys: Some(vec![
                    PublicKey::from_pem("k", &key.public_key_pem()).unwrap(),
                ]),
                ..Demands::default()
            };
            let candidate = Candidate {
                source: Source::Oci(reference.place()),
                origin: reference.to_string(),
                manifest: Some(named),
                bytes: module("one"),
                evidence: found.clone(),
            };
            let admitted = admit(&Policy::default(), &demands, candidate);
            assert_eq!(admitted.is_ok(), good);
        }
    });
}

async fn push_signature(scene: &Scene, manifest: &Digest, payload: &str, signature: &str) {
    use oci_client::client::{Client, ClientConfig, ClientProtocol, Config, ImageLayer};
    let annotations = [(
        "dev.cosignproject.cosign/signature".into(),
        signature.to_owned(),
    )];
    let layer = ImageLayer::new(
        payload.as_bytes().to_vec(),
        "application/vnd.dev.cosign.simplesigning.v1+json".into(),
        Some(annotations.into()),
    );
    let config = Config::new(
        "{}",
        "application/vnd.oci.image.config.v1+json".into(),
        None,
    );
    let client = Client::new(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    });
    let tag = format!(
        "{}/app:sha256-{}.sig",
        scene.server.address(),
        manifest.hex()
    );
    let auth = oci_client::secrets::RegistryAuth::Anonymous;
    let pushed = client
        .push(&tag.parse().unwrap(), &[layer], config, &auth, None)
        .await;
    pushed.unwrap();
}
