//! On a real registry.

use guesthouse_artifact::policy::{Candidate, Demands, Policy, Source, admit};
use guesthouse_artifact::{
    Access, Digest, DockerConfig, Evidence, FetchError, Login, PublicKey, Reference, Registry, push,
};
use guesthouse_local::{Registry as Server, RegistryOptions};
use oci_client::client::{ClientConfig, ClientProtocol};
use serde_json::{Value, json};

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
            clear: Vec::new(),
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

/// What cosign 3.1.3 left in a registry for a manifest, in both of its forms: a `.sig` tag, and a bundle that refers to the
/// manifest. This registry has no list of referrers, so that a tag stands for it, as cosign does it there.
#[test]
fn the_signatures_that_cosign_leaves_in_a_registry_are_found_and_count() {
    run(async {
        let scene = Scene::start(false, false);
        let artifact = Raw::new(&scene);
        let manifest = artifact
            .manifest("app:1", COSIGN[0], MANIFEST, &[b"{}", EMPTY])
            .await;
        let reference = scene.reference("app:1");
        let registry = scene.registry(&reference);
        assert_eq!(registry.signatures(&manifest).await.unwrap(), []);
        artifact.signatures(&manifest).await;

        let found = registry.signatures(&manifest).await.unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        let pem = include_str!("../../src/signature/cosign/cosign.pub");
        let judge = |pem: &str, evidence: &Evidence| {
            let demands = Demands {
                keys: Some(vec![PublicKey::from_pem("k", pem).unwrap()]),
                ..Demands::default()
            };
            let candidate = Candidate {
                source: Source::Oci(reference.place()),
                origin: reference.to_string(),
                manifest: Some(manifest),
                bytes: EMPTY.to_vec(),
                evidence: vec![evidence.clone()],
            };
            admit(&Policy::default(), &demands, candidate)
        };
        let other = rcgen::KeyPair::generate().unwrap().public_key_pem();
        for evidence in &found {
            assert!(judge(pem, evidence).is_ok(), "{evidence:?}");
            assert!(judge(&other, evidence).is_err(), "{evidence:?}");
        }
    });
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// The plugin that was signed.
const EMPTY: &[u8] = b"\0asm\x01\0\0\0";
/// Its manifest, the payload, and the bundle.
const COSIGN: [&[u8]; 3] = [
    include_bytes!("../../src/signature/cosign/manifest.json"),
    include_bytes!("../../src/signature/cosign/payload.json"),
    include_bytes!("../../src/signature/cosign/bundle.json"),
];

/// Manifests as they are given.
struct Raw<'a> {
    scene: &'a Scene,
    client: oci_client::Client,
}

impl<'a> Raw<'a> {
    fn new(scene: &'a Scene) -> Self {
        let client = oci_client::Client::new(ClientConfig {
            protocol: ClientProtocol::Http,
            ..ClientConfig::default()
        });
        Self { scene, client }
    }

    async fn manifest(&self, name: &str, text: &[u8], type_: &str, blobs: &[&[u8]]) -> Digest {
        let at = format!("{}/{name}", self.scene.server.address());
        let at: oci_client::Reference = at.parse().unwrap();
        for blob in blobs {
            let digest = Digest::of(blob).to_string();
            let pushed = self.client.push_blob(&at, blob.to_vec(), &digest).await;
            pushed.unwrap();
        }
        let type_ = type_.parse().unwrap();
        let pushed = self
            .client
            .push_manifest_raw(&at, text.to_vec(), type_)
            .await;
        pushed.unwrap();
        Digest::of(text)
    }

    async fn signatures(&self, manifest: &Digest) {
        let [_, payload, bundle] = COSIGN;
        let descriptor = |type_: &str, bytes: &[u8]| {
            let digest = Digest::of(bytes).to_string();
            json!({"mediaType": type_, "digest": digest, "size": bytes.len()})
        };
        let config = descriptor("application/vnd.oci.empty.v1+json", b"{}");
        let with = |layer: Value| json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
        let mut signed = descriptor("application/vnd.dev.cosign.simplesigning.v1+json", payload);
        let signature = include_str!("../../src/signature/cosign/payload.sig");
        signed["annotations"] = json!({"dev.cosignproject.cosign/signature": signature});
        let text = with(signed).to_string();
        let tag = format!("app:sha256-{}.sig", manifest.hex());
        let blobs: [&[u8]; 2] = [b"{}", payload];
        self.manifest(&tag, text.as_bytes(), MANIFEST, &blobs).await;

        let text = with(descriptor(BUNDLE, bundle)).to_string();
        let name = format!("app@{}", Digest::of(text.as_bytes()));
        let blobs: [&[u8]; 2] = [b"{}", bundle];
        self.manifest(&name, text.as_bytes(), MANIFEST, &blobs)
            .await;
        let mut refers = descriptor(MANIFEST, text.as_bytes());
        refers["artifactType"] = json!(BUNDLE);
        let index = "application/vnd.oci.image.index.v1+json";
        let list = json!({"schemaVersion": 2, "mediaType": index, "manifests": [refers]});
        let tag = format!("app:sha256-{}", manifest.hex());
        self.manifest(&tag, list.to_string().as_bytes(), index, &[])
            .await;
    }
}
