//! Plugins into registries, in the form that other tools read: one layer `application/wasm` and the config of
//! <https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/>, as `wkg oci push` makes them.
//!
//! The config is written here and not by `oci-wasm`: that crate needs an older oci-client, and OpenSSL by default.

use oci_client::{
    Client,
    client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol, Config, ImageLayer},
    manifest::OciImageManifest,
    secrets::RegistryAuth,
};
use serde::Serialize;
use wasmparser::{Parser, Payload};

use crate::{
    Access, Digest, Reference,
    http::{Clear, FetchError, Http},
    registry::{MANIFEST, WASM},
};

/// Media type of the config.
pub(crate) const CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Of the manifest: what to name it by.
    pub manifest: Digest,
    /// Of the plugin's bytes.
    pub plugin: Digest,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WasmConfig {
    created: String,
    architecture: &'static str,
    os: &'static str,
    layer_digests: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<Component>,
}

/// What a component takes and gives.
#[derive(Serialize, Debug, PartialEq, Eq)]
struct Component {
    exports: Vec<String>,
    imports: Vec<String>,
    target: Option<String>,
}

/// Pushes a plugin; `created` is an RFC 3339 time, and with the same one the same bytes get the same digest.
pub async fn push(
    reference: &Reference,
    wasm: Vec<u8>,
    created: &str,
    access: &Access,
) -> Result<Pushed, FetchError> {
    if let Some(digest) = reference.digest() {
        return Err(FetchError::Reference(format!(
            "{reference}: a digest cannot be pushed to; name a tag instead of {digest}"
        )));
    }
    let plugin = Digest::of(&wasm);
    let config = config(&wasm, created, plugin).map_err(FetchError::Reference)?;
    // It sets up TLS, and says what is wrong with the authority.
    Http::new(access.ca.as_deref(), Clear::default())?;
    let failed = |error: &dyn std::error::Error| {
        let (url, why) = (reference.to_string(), said(error));
        match is_login(&why) {
            true => FetchError::Push {
                url,
                why,
                tried: access.tried.clone(),
            },
            false => FetchError::NoAnswer { url, why },
        }
    };
    let mut client = ClientConfig {
        user_agent: concat!("guesthouse/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    };
    if access.insecure {
        client.protocol = ClientProtocol::Http;
    }
    client.extra_root_certificates = authorities(access.ca.as_deref());
    let client = Client::try_from(client).map_err(|error| failed(&error))?;
    let login = access.login.as_ref();
    let auth = login.map_or(RegistryAuth::Anonymous, |login| {
        RegistryAuth::Basic(login.user.clone(), login.password.clone())
    });
    let layers = [ImageLayer::new(wasm, WASM.to_owned(), None)];
    let config = Config::new(config, CONFIG.to_owned(), None);
    let mut manifest = OciImageManifest::build(&layers, &config, None);
    manifest.media_type = Some(MANIFEST.to_owned());
    let to = reference.of_library();
    let pushed = client.push(&to, &layers, config, &auth, Some(manifest));
    let pushed = pushed.await.map_err(|error| failed(&error))?;
    let digest = pushed.manifest_url.rsplit('/').next().unwrap_or_default();
    let manifest = digest.parse().map_err(|_| FetchError::Form {
        url: pushed.manifest_url.clone(),
        what: "place of a manifest",
        why: "it ends in no digest".to_owned(),
    })?;
    Ok(Pushed { manifest, plugin })
}

/// Each certificate by itself: the library takes one at a time.
fn authorities(pem: Option<&str>) -> Vec<Certificate> {
    const END: &str = "-----END CERTIFICATE-----";
    let whole = pem.unwrap_or_default().split_inclusive(END);
    let whole = whole.filter(|part| part.contains(END));
    let certificate = |part: &str| Certificate {
        encoding: CertificateEncoding::Pem,
        data: part.as_bytes().to_vec(),
    };
    whole.map(certificate).collect()
}

/// An error with its innermost reason.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = inner.source();
    }
    text
}

/// Whether it is about who we are.
fn is_login(text: &str) -> bool {
    let lower = text.to_lowercase();
    ["unauthorized", "not authorized", "authentication", "denied"]
        .iter()
        .any(|word| lower.contains(word))
}

fn config(wasm: &[u8], created: &str, digest: Digest) -> Result<Vec<u8>, String> {
    let component = component(wasm).map_err(|why| {
        // What was expected comes behind it, byte by byte.
        let why = why.split(" - ").next().unwrap_or_default().to_owned();
        format!("the file is no WebAssembly: {why}")
    })?;
    let config = WasmConfig {
        created: created.to_owned(),
        architecture: "wasm",
        os: match component {
            Some(_) => "wasip2",
            None => "wasip1",
        },
        layer_digests: vec![digest.to_string()],
        component,
    };
    serde_json::to_vec(&config).map_err(|error| error.to_string())
}

/// The names at the outside of a component; none for a core module.
fn component(wasm: &[u8]) -> Result<Option<Component>, String> {
    let mut outside = Component {
        exports: Vec::new(),
        imports: Vec::new(),
        target: None,
    };
    let (mut depth, mut is_component, mut begun) = (0u32, false, false);
    for payload in Parser::new(0).parse_all(wasm) {
        match payload.map_err(|error| error.message().to_owned())? {
            Payload::Version { encoding, .. } if !begun => {
                begun = true;
                is_component = encoding == wasmparser::Encoding::Component;
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(|error| error.message().to_owned())?;
                    outside.imports.push(import.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    let export = export.map_err(|error| error.message().to_owned())?;
                    outside.exports.push(export.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(is_component.then_some(outside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_says_what_wkg_says_of_modules_and_components() {
        let module = b"\0asm\x01\0\0\0";
        let text = config(module, "2026-01-01T00:00:00Z", Digest::of(module)).unwrap();
        let said: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            (&said["os"], &said["architecture"]),
            (&"wasip1".into(), &"wasm".into())
        );
        assert_eq!(said["layerDigests"][0], Digest::of(module).to_string());
        assert!(said.get("component").is_none());
        let component = wat::parse_str(
            r#"(component
                (import "guesthouse:reconciler/log@0.1.0" (instance))
                (component $inner (import "hidden" (func)))
                (core module $m (func (export "also-hidden")))
                (instance $empty)
                (export "guesthouse:reconciler/plugin@0.1.0" (instance $empty)))"#,
        )
        .unwrap();
        let text = config(&component, "2026-01-01T00:00:00Z", Digest::of(&component)).unwrap();
        let said: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(said["os"], "wasip2");
        assert_eq!(
            said["component"]["imports"],
            serde_json::json!(["guesthouse:reconciler/log@0.1.0"])
        );
        assert_eq!(
            said["component"]["exports"],
            serde_json::json!(["guesthouse:reconciler/plugin@0.1.0"])
        );
        assert!(
            config(b"text", "", Digest::of(b""))
                .unwrap_err()
                .contains("no WebAssembly")
        );
    }

    #[test]
    fn a_bundle_of_authorities_is_taken_apart() {
        let one = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        assert_eq!(authorities(Some(&format!("# two\n{one}{one}"))).len(), 2);
        assert!(authorities(None).is_empty());
    }
}
