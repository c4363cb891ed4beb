//! Plugins out of registries: a manifest by tag or digest, its one layer of WebAssembly, and the signatures beside it.
//!
//! What faces a foreign server is read here and not by the library that pushes: it reads manifests and errors without a bound.
//! Nothing is believed: a manifest has the digest it was asked for by, a layer has the digest that the manifest names, and
//! neither is larger than it may be. Names and passwords are sent to the registry and to the token service it names alone, and
//! never in clear text, unless clear text is what was asked for: then to that host, and to those that may be asked so as well.

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, AUTHORIZATION, WWW_AUTHENTICATE},
};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;

use crate::{
    Digest, Reference,
    credentials::Login,
    http::{Answer, Clear, FetchError, Http},
    signature::Evidence,
};

/// Largest manifest, bytes (what registries themselves take).
const MAX_MANIFEST: u64 = 4 << 20;
/// Largest signed payload or bundle, bytes.
const MAX_SIGNATURE: u64 = 256 << 10;
/// Largest answer of a token service, bytes.
const MAX_TOKEN: u64 = 64 << 10;
/// Signatures of one manifest that are looked at, of each kind.
const MAX_SIGNATURES: usize = 16;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The layer that is the plugin; the others are what older tools call it.
pub(crate) const WASM: &str = "application/wasm";
const WASM_LAYERS: [&str; 3] = [
    WASM,
    "application/vnd.wasm.content.layer.v1+wasm",
    "application/vnd.module.wasm.content.layer.v1+wasm",
];
const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";

/// How a registry is asked.
#[derive(Clone, Default)]
pub struct Access {
    /// Who to be.
    pub login: Option<Login>,
    /// Where that was looked for, in words, for errors.
    pub tried: String,
    /// Further certificate authorities, PEM.
    pub ca: Option<String>,
    /// Whether it is asked in clear text.
    pub insecure: bool,
    /// Other hosts that may be asked in clear text where it sends us there, each with its port if it has one.
    pub clear: Vec<String>,
}

/// One repository of a registry.
pub struct Registry {
    http: Http,
    access: Access,
    reference: Reference,
    /// What the last challenge was answered with.
    authorization: Mutex<Option<HeaderValue>>,
}

/// What a reference stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Of the manifest.
    pub manifest: Digest,
    /// Of the plugin.
    pub layer: Digest,
    /// Of the plugin, bytes, as the manifest says.
    pub size: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    layers: Vec<Descriptor>,
    /// Of an index.
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    artifact_type: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl Registry {
    /// Sets up the way there; nothing is asked yet.
    pub fn new(reference: &Reference, access: Access) -> Result<Self, FetchError> {
        Ok(Self {
            http: Http::new(access.ca.as_deref(), Clear::new(&access.clear))?,
            access,
            reference: reference.clone(),
            authorization: Mutex::new(None),
        })
    }

    /// What the reference stands for now.
    pub async fn resolve(&self) -> Result<Resolved, FetchError> {
        let (url, manifest, digest) = self.manifest(&self.reference).await?;
        let form = |why: String| FetchError::Form {
            url: url.to_string(),
            what: "manifest of a plugin",
            why,
        };
        if !manifest.manifests.is_empty() {
            return Err(form(
                "it is an index of several manifests; name one of them by its digest".to_owned(),
            ));
        }
        let is_wasm = |layer: &&Descriptor| WASM_LAYERS.contains(&layer.media_type.as_str());
        let mut wasm = manifest.layers.iter().filter(is_wasm);
        let (Some(layer), None) = (wasm.next(), wasm.next()) else {
            let types: Vec<_> = manifest
                .layers
                .iter()
                .map(|it| it.media_type.as_str())
                .collect();
            return Err(form(format!(
                "it must have one layer of type {WASM}, as guesthouse push makes it; it has: {}",
                types.join(", ")
            )));
        };
        Ok(Resolved {
            manifest: digest,
            layer: layer
                .digest
                .parse()
                .map_err(|error| form(format!("{error}")))?,
            size: layer.size,
        })
    }

    /// The plugin itself.
    pub async fn pull(&self, resolved: &Resolved, most: u64) -> Result<Vec<u8>, FetchError> {
        if resolved.size > most {
            return Err(FetchError::TooLarge {
                url: self.url(&format!("blobs/{}", resolved.layer))?.to_string(),
                most,
            });
        }
        self.blob(&resolved.layer, resolved.size).await
    }

    /// All signatures of a manifest that can be found, of whatever worth.
    pub async fn signatures(&self, manifest: &Digest) -> Result<Vec<Evidence>, FetchError> {
        let mut found = self.simple_signatures(manifest).await?;
        found.extend(self.bundles(manifest).await?);
        Ok(found)
    }

    /// Those under the tag `sha256-….sig`.
    async fn simple_signatures(&self, manifest: &Digest) -> Result<Vec<Evidence>, FetchError> {
        let tag = self
            .reference
            .tagged(format!("sha256-{}.sig", manifest.hex()));
        let (_, signatures, _) = match self.manifest(&tag).await {
            Err(error) if error.is_absent() => return Ok(Vec::new()),
            found => found?,
        };
        let mut found = Vec::new();
        for layer in signatures.layers.iter().take(MAX_SIGNATURES) {
            let Some(signature) = layer.annotations.get(SIGNATURE) else {
                continue;
            };
            if layer.media_type != SIMPLE_SIGNING {
                continue;
            }
            if let Some(payload) = self.signed_text(layer).await? {
                let signature = signature.clone();
                found.push(Evidence::Simple { payload, signature });
            }
        }
        Ok(found)
    }

    /// Those that refer to the manifest: by the registry's own list, or by the tag that stands for it where there is none.
    async fn bundles(&self, manifest: &Digest) -> Result<Vec<Evidence>, FetchError> {
        let url = self.url(&format!("referrers/{manifest}"))?;
        let answer = self.ask(&url, INDEX, MAX_MANIFEST).await?;
        let list = match answer.status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::BAD_REQUEST => {
                let tag = self.reference.tagged(format!("sha256-{}", manifest.hex()));
                match self.manifest(&tag).await {
                    Err(error) if error.is_absent() => return Ok(Vec::new()),
                    found => found?.1,
                }
            }
            _ => parse(&url, &answer.good(&url)?)?,
        };
        let is_bundle = |one: &&Descriptor| one.artifact_type.starts_with(BUNDLE);
        let mut found = Vec::new();
        for one in list.manifests.iter().filter(is_bundle).take(MAX_SIGNATURES) {
            let Ok(digest) = one.digest.parse() else {
                continue;
            };
            let (_, manifest, _) = self.manifest(&self.reference.resolved(digest)).await?;
            let mut layers = manifest.layers.iter();
            let layer = layers.find(|layer| layer.media_type.starts_with(BUNDLE));
            if let Some(layer) = layer
                && let Some(text) = self.signed_text(layer).await?
            {
                found.push(Evidence::Bundle(text));
            }
        }
        Ok(found)
    }

    /// A small blob that is text; none if it is neither.
    async fn signed_text(&self, layer: &Descriptor) -> Result<Option<String>, FetchError> {
        let Ok(digest) = layer.digest.parse() else {
            return Ok(None);
        };
        if layer.size > MAX_SIGNATURE {
            return Ok(None);
        }
        Ok(String::from_utf8(self.blob(&digest, layer.size).await?).ok())
    }

    async fn manifest(&self, which: &Reference) -> Result<(Url, Manifest, Digest), FetchError> {
        let url = self.url(&format!("manifests/{}", which.wanted()))?;
        let accept = format!("{MANIFEST}, {INDEX}");
        let bytes = self.ask(&url, &accept, MAX_MANIFEST).await?.good(&url)?;
        let found = Digest::of(&bytes);
        if let Some(wanted) = which.digest().filter(|wanted| **wanted != found) {
            return Err(FetchError::OtherDigest {
                url: url.to_string(),
                found,
                wanted: *wanted,
            });
        }
        let manifest: Manifest = parse(&url, &bytes)?;
        if !manifest.media_type.is_empty() && ![MANIFEST, INDEX].contains(&&*manifest.media_type) {
            return Err(FetchError::Form {
                url: url.to_string(),
                what: "OCI manifest",
                why: format!("its type is {}", manifest.media_type),
            });
        }
        Ok((url, manifest, found))
    }

    async fn blob(&self, digest: &Digest, size: u64) -> Result<Vec<u8>, FetchError> {
        let url = self.url(&format!("blobs/{digest}"))?;
        let bytes = self.ask(&url, "*/*", size).await?.good(&url)?;
        let found = Digest::of(&bytes);
        if found != *digest {
            return Err(FetchError::OtherDigest {
                url: url.to_string(),
                found,
                wanted: *digest,
            });
        }
        Ok(bytes)
    }

    fn url(&self, path: &str) -> Result<Url, FetchError> {
        let scheme = if self.access.insecure {
            "http"
        } else {
            "https"
        };
        let host = match self.reference.registry() {
            // Its name, and where it is.
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let repository = self.reference.repository();
        let text = format!("{scheme}://{host}/v2/{repository}/{path}");
        Url::parse(&text).map_err(|error| FetchError::Reference(format!("{text}: {error}")))
    }

    /// Asks; when challenged, once more as whoever we are to be.
    async fn ask(&self, url: &Url, accept: &str, most: u64) -> Result<Answer, FetchError> {
        // What an error says of itself has its place too.
        let most = most.max(MAX_TOKEN);
        let mut authorization = self.authorization.lock().await;
        let answer = self.send(url, accept, authorization.as_ref(), most).await?;
        let refused = |status| [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
        if !refused(answer.status) {
            return Ok(answer);
        }
        let login = |status| FetchError::Login {
            url: url.to_string(),
            status,
            tried: self.access.tried.clone(),
        };
        // Of a host that we were sent to it is no question for what this one is to have.
        let challenge = answer.headers.get(WWW_AUTHENTICATE);
        let challenge = challenge.filter(|_| answer.is_own);
        let challenge = challenge.and_then(|text| text.to_str().ok());
        let answered = match challenge {
            Some(challenge) if answer.status == StatusCode::UNAUTHORIZED => {
                self.answer(challenge).await?
            }
            _ => None,
        };
        let Some(answered) = answered else {
            return Err(login(answer.status));
        };
        let answer = self.send(url, accept, Some(&answered), most).await?;
        if refused(answer.status) {
            return Err(login(answer.status));
        }
        *authorization = Some(answered);
        Ok(answer)
    }

    async fn send(
        &self,
        url: &Url,
        accept: &str,
        authorization: Option<&HeaderValue>,
        most: u64,
    ) -> Result<Answer, FetchError> {
        let mut headers = HeaderMap::new();
        if let Ok(accept) = HeaderValue::from_str(accept) {
            headers.insert(ACCEPT, accept);
        }
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        self.http.get(url, headers, most).await
    }

    /// What answers a challenge: a token of the service it names, or name and password; none if there is nothing to try.
    async fn answer(&self, challenge: &str) -> Result<Option<HeaderValue>, FetchError> {
        let challenges = http_auth::parse_challenges(challenge).unwrap_or_default();
        let is = |name: &str| {
            let mut all = challenges.iter();
            all.find(|one| one.scheme.eq_ignore_ascii_case(name))
        };
        if let Some(bearer) = is("bearer") {
            let parameter = |name: &str| {
                let mut all = bearer.params.iter();
                let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.to_unescaped())
            };
            let Some(realm) = parameter("realm") else {
                return Ok(None);
            };
            return self.token(&realm, parameter("service")).await.map(Some);
        }
        Ok(is("basic").and_then(|_| self.basic()))
    }

    fn basic(&self) -> Option<HeaderValue> {
        let login = self.access.login.as_ref()?;
        let pair = format!("{}:{}", login.user, login.password);
        sensitive(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
    }

    /// A token to read this repository with (<https://distribution.github.io/distribution/spec/auth/token/>).
    async fn token(&self, realm: &str, service: Option<String>) -> Result<HeaderValue, FetchError> {
        let bad = |why: String| {
            let realm: String = realm.chars().take(100).collect();
            FetchError::Reference(format!("the registry's token service {realm}: {why}"))
        };
        let mut url = Url::parse(realm).map_err(|error| bad(error.to_string()))?;
        let clear = Clear::new(&self.access.clear);
        if url.scheme() != "https" && !self.access.insecure {
            return Err(bad("it is named in clear text".to_owned()));
        }
        if !clear.allows(&self.url("")?, &url) {
            return Err(bad(
                "it is named in clear text, and on a host that the policy does not name under `insecure`".to_owned(),
            ));
        }
        {
            let mut query = url.query_pairs_mut();
            if let Some(service) = service {
                query.append_pair("service", &service);
            }
            let scope = format!("repository:{}:pull", self.reference.repository());
            query.append_pair("scope", &scope);
        }
        let basic = self.basic();
        let answer = self.send(&url, "application/json", basic.as_ref(), MAX_TOKEN);
        let answer = answer.await?;
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status) {
            return Err(FetchError::Login {
                url: url.to_string(),
                status: answer.status,
                tried: self.access.tried.clone(),
            });
        }
        #[derive(Deserialize)]
        struct Token {
            token: Option<String>,
            access_token: Option<String>,
        }
        // Never quoted: it is a secret.
        let token = serde_json::from_slice::<Token>(&answer.good(&url)?).ok();
        let token = token.and_then(|token| token.token.or(token.access_token));
        let value = token.and_then(|token| sensitive(&format!("Bearer {token}")));
        value.ok_or_else(|| bad("its answer has no token".to_owned()))
    }
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn parse(url: &Url, bytes: &[u8]) -> Result<Manifest, FetchError> {
    serde_json::from_slice(bytes).map_err(|error| FetchError::Form {
        url: url.to_string(),
        what: "OCI manifest",
        why: error.to_string(),
    })
}
