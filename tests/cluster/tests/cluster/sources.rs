//! Plugins out of registries, from URLs and out of ConfigMaps, and who vouches for them.

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use guesthouse_local::{Registry, RegistryOptions};
use guesthouse_tests::{
    Arguments, CONFIG_MAPS, ECHOES, REPORT_JOBS, SECRETS, Scene, host_binary, output, plugin,
    scenario,
};
use rcgen::{KeyPair, SigningKey};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

/// A registry of a test.
struct Store<'a> {
    scene: &'a Scene<'a>,
    server: Registry,
    dir: PathBuf,
}

impl<'a> Store<'a> {
    async fn start(scene: &'a Scene<'a>, tls: bool, login: bool) -> Result<Self> {
        let dir = scene.dir.join("registry");
        let options = RegistryOptions {
            dir: dir.clone(),
            tls,
            login,
        };
        // The first one builds it.
        let server = tokio::task::block_in_place(|| Registry::start(options))?;
        std::fs::write(dir.join("config.json"), server.docker_config())?;
        if let Some(ca) = server.ca() {
            std::fs::write(dir.join("ca.crt"), ca)?;
            let object = json!({"metadata": {"name": "ca"}, "data": {"ca.crt": ca}});
            scene.api.create(CONFIG_MAPS, &scene.home, object).await?;
        }
        Ok(Self { scene, server, dir })
    }

    fn reference(&self) -> String {
        format!("{}/team/app:1", self.server.address())
    }

    /// What `guesthouse push` prints: the reference with the manifest's digest.
    fn push(&self, name: &str) -> Result<String> {
        let mut push = Command::new(host_binary()?);
        push.arg("push").arg(plugin(name)?).arg(self.reference());
        match self.server.ca() {
            Some(_) => push.arg("--ca").arg(self.dir.join("ca.crt")),
            None => push.arg("--insecure"),
        };
        let printed = output(push.env("DOCKER_CONFIG", &self.dir))?;
        Ok(printed.trim().to_owned())
    }

    /// `plugin:` of a mapping.
    fn source(&self) -> Value {
        let ca = json!({"configMap": {"name": "ca", "key": "ca.crt"}});
        json!({"oci": self.reference(), "interval": "1s", "ca": ca})
    }

    async fn pull_secret(&self, name: &str, config: &str) -> Result<()> {
        let object = json!({
            "metadata": {"name": name},
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": BASE64_STANDARD.encode(config)},
        });
        let home = &self.scene.home;
        self.scene.api.create(SECRETS, home, object).await?;
        Ok(())
    }
}

/// Maps report jobs to the plugin from there.
async fn map(scene: &Scene<'_>, source: Value) -> Result<()> {
    let mut mapping = scene.mapping(REPORT_JOBS, &plugin("echo")?);
    mapping["plugin"] = source;
    scene.map("jobs", &mapping.to_string()).await
}

async fn told(scene: &Scene<'_>, reason: &str, part: &str) -> Result<String> {
    let event = scene.told(&scene.home, "jobs", reason, part).await?;
    Ok(event.note)
}

/// Shows that the peer plugin serves: it is the one that ends jobs.
async fn ends_jobs(scene: &Scene<'_>, name: &str) -> Result<()> {
    scene.job(name, json!({})).await?;
    scene.done(name).await?;
    Ok(())
}

/// A host whose plugins are not shared with other tests.
fn host(scene: &Scene<'_>, more: &[&str]) -> Arguments {
    Arguments {
        cache: Some(scene.dir.join("cache")),
        ..Arguments::with(more)
    }
}

/// The digest of a plugin's bytes.
fn sha256(bytes: &[u8]) -> String {
    guesthouse_artifact::Digest::of(bytes).hex()
}

/// adm-controller#208, yoke#169: a private registry is asked with the pull secret, and the error names what was tried.
#[test]
fn a_private_registry_is_pulled_from_with_the_pull_secret_and_a_moved_tag_is_swapped_in()
-> Result<()> {
    scenario("oci-private", async |scene| {
        let store = Store::start(scene, true, true).await?;
        let first = store.push("peer_plugin")?;
        let _host = scene.host_with(&host(scene, &[]))?;
        map(scene, store.source()).await?;
        let note = told(scene, "PluginRefused", "401").await?;
        ensure!(note.contains("the mapping names no pullSecret"), "{note}");

        let elsewhere = r#"{"auths": {"elsewhere.example": {"username": "a", "password": "b"}}}"#;
        store.pull_secret("elsewhere", elsewhere).await?;
        let with = |secret: &str| {
            let mut source = store.source();
            source["pullSecret"] = json!(secret);
            source
        };
        map(scene, with("elsewhere")).await?;
        let note = told(scene, "PluginRefused", "the Secret elsewhere has no entry").await?;
        ensure!(note.contains("elsewhere.example"), "{note}");
        map(scene, with("registry")).await?;
        told(scene, "PluginRefused", "there is no Secret registry").await?;
        // Made later, it counts without anybody touching the mapping.
        store
            .pull_secret("registry", &store.server.docker_config())
            .await?;
        told(scene, "MappingActive", &first).await?;
        ends_jobs(scene, "before").await?;

        let second = store.push("echo")?;
        ensure!(first != second);
        let note = told(scene, "MappingActive", &second).await?;
        ensure!(note.contains("echo"), "{note}");
        Ok(())
    })
}

#[test]
fn a_restart_without_the_registry_serves_from_the_disk_until_it_is_back() -> Result<()> {
    scenario("oci-offline", async |scene| {
        let mut store = Store::start(scene, true, false).await?;
        let first = store.push("peer_plugin")?;
        let host = scene.host_with(&host(scene, &[]))?;
        map(scene, store.source()).await?;
        told(scene, "MappingActive", &first).await?;
        ends_jobs(scene, "before").await?;
        scene.stop(host).await?;

        store.server.stop();
        let _host = scene.host_with(&self::host(scene, &[]))?;
        ends_jobs(scene, "meanwhile").await?;
        let note = told(scene, "PluginRefused", "refused").await?;
        ensure!(note.contains("serves on"), "{note}");

        store.server.go_on()?;
        let second = store.push("echo")?;
        told(scene, "MappingActive", &second).await?;
        Ok(())
    })
}

#[test]
fn a_moved_tag_is_refused_by_the_digest_of_the_mapping_and_the_pinned_plugin_serves_on()
-> Result<()> {
    scenario("oci-pinned", async |scene| {
        let store = Store::start(scene, true, false).await?;
        store.push("peer_plugin")?;
        let digest = format!("sha256:{}", sha256(&std::fs::read(plugin("peer_plugin")?)?));
        let mut source = store.source();
        source["digest"] = json!(digest);
        let _host = scene.host_with(&host(scene, &[]))?;
        map(scene, source).await?;
        told(scene, "MappingActive", "peer").await?;
        store.push("echo")?;
        let note = told(
            scene,
            "PluginRefused",
            &format!("the mapping demands {digest}"),
        )
        .await?;
        ensure!(note.contains("serves on"), "{note}");
        // The same place for another mapping, which demands nothing: judged apart.
        let mut free = scene.mapping(ECHOES, &plugin("echo")?);
        free["plugin"] = store.source();
        scene.map("free", &free.to_string()).await?;
        scene
            .told(&scene.home, "free", "MappingActive", "echo")
            .await?;
        ends_jobs(scene, "after").await?;
        // The tag is asked again: that it still stands for what was refused clears nothing.
        let asked = || -> Result<usize> {
            let log = std::fs::read_to_string(store.server.access_log())?;
            Ok(log.matches("GET /v2/team/app/manifests/1 ").count())
        };
        // Of both mappings; the second round of one is begun after the first was told.
        let before = asked()?;
        scene
            .until("the tag is asked again", || Ok(asked()? >= before + 5))
            .await?;
        let active =
            |line: &&Value| line["reason"] == "MappingActive" && line["config_map"] == "jobs";
        let log = scene.log()?;
        ensure!(log.iter().filter(active).count() == 1, "it was cleared");
        Ok(())
    })
}

#[test]
fn a_plugin_behind_a_url_is_fetched_and_refused_by_its_digest() -> Result<()> {
    scenario("url", async |scene| {
        // A registry's blobs are files behind https.
        let store = Store::start(scene, true, false).await?;
        store.push("peer_plugin")?;
        let right = sha256(&std::fs::read(plugin("peer_plugin")?)?);
        let address = store.server.address();
        let source = |sha256: &str| {
            let url = format!("https://{address}/v2/team/app/blobs/sha256:{right}");
            let ca = json!({"configMap": {"name": "ca", "key": "ca.crt"}});
            json!({"url": url, "sha256": sha256, "ca": ca})
        };
        let _host = scene.host_with(&host(scene, &[]))?;
        map(scene, source(&"0".repeat(64))).await?;
        told(scene, "PluginRefused", "bytes of another digest").await?;
        map(scene, source(&right)).await?;
        told(scene, "MappingActive", "from https://127.0.0.1").await?;
        ends_jobs(scene, "after").await?;
        Ok(())
    })
}

/// The host allows both places, and neither brought what the other did.
#[test]
fn what_another_place_brought_is_taken_out_of_the_store_for_no_mapping() -> Result<()> {
    scenario("borrowed", async |scene| {
        let store = Store::start(scene, true, false).await?;
        let address = store.server.address();
        let policy = scene.dir.join("policy.yaml");
        let allow = json!({"allow": ["configMap:*", format!("https://{address}/*")]});
        std::fs::write(&policy, allow.to_string())?;
        let wasm = |name| anyhow::Ok(BASE64_STANDARD.encode(std::fs::read(plugin(name)?)?));
        put(
            scene,
            json!({"plugin.wasm": wasm("peer_plugin")?, "echo.wasm": wasm("echo")?}),
        )
        .await?;
        let _host = scene.host_with(&host(scene, &["--policy", &policy.to_string_lossy()]))?;
        let at = |key: &str| json!({"configMap": {"name": "the-plugin", "key": key}});
        map(scene, at("plugin.wasm")).await?;
        told(scene, "MappingActive", "peer").await?;

        let hex = sha256(&std::fs::read(plugin("peer_plugin")?)?);
        let ca = json!({"configMap": {"name": "ca", "key": "ca.crt"}});
        let mut other = scene.mapping(ECHOES, &plugin("echo")?);
        other["plugin"] =
            json!({"url": format!("https://{address}/absent.wasm"), "sha256": hex, "ca": ca});
        scene.map("other", &other.to_string()).await?;
        scene
            .told(&scene.home, "other", "PluginRefused", "404")
            .await?;

        other["plugin"] = at("echo.wasm");
        scene.map("other", &other.to_string()).await?;
        scene
            .told(&scene.home, "other", "MappingActive", "echo")
            .await?;
        let pin = json!({"pin.guesthouse.dev/other": format!("sha256:{hex}")});
        let patch = json!({"metadata": {"annotations": pin}});
        let home = &scene.home;
        scene.api.patch(CONFIG_MAPS, home, "other", patch).await?;
        scene
            .until("the pinned version is refused", || {
                let mut log = scene.log()?.into_iter();
                Ok(log.any(|line| line.to_string().contains("never came from")))
            })
            .await?;
        let active = |line: &Value| {
            let text = line["message"].as_str().unwrap_or_default();
            line["reason"] == "MappingActive"
                && line["config_map"] == "other"
                && text.contains(&hex[..12])
        };
        ensure!(!scene.log()?.iter().any(active), "it was let in");
        Ok(())
    })
}

#[test]
fn a_plugin_in_a_config_map_may_be_packed_by_zstd() -> Result<()> {
    scenario("zstd", async |scene| {
        let wasm = std::fs::read(plugin("peer_plugin")?)?;
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let packed = ruzstd::encoding::compress_to_vec(&wasm[..], level);
        ensure!(packed.len() < wasm.len());
        put(
            scene,
            json!({"plugin.wasm": BASE64_STANDARD.encode(&packed)}),
        )
        .await?;
        let _host = scene.host_with(&host(scene, &[]))?;
        let at = json!({"name": "the-plugin", "key": "plugin.wasm"});
        // The digest is that of the plugin, not of what it is packed into.
        let digest = format!("sha256:{}", sha256(&wasm));
        map(scene, json!({"configMap": at, "digest": digest})).await?;
        told(scene, "MappingActive", "from the ConfigMap the-plugin").await?;
        ends_jobs(scene, "packed").await?;
        Ok(())
    })
}

/// Puts a ConfigMap with a plugin in place.
async fn put(scene: &Scene<'_>, data: Value) -> Result<()> {
    let (name, home) = ("the-plugin", &scene.home);
    if scene.api.find(CONFIG_MAPS, home, name).await?.is_some() {
        let patch = json!({"binaryData": data});
        scene.api.patch(CONFIG_MAPS, home, name, patch).await?;
    } else {
        let object = json!({"metadata": {"name": name}, "binaryData": data});
        scene.api.create(CONFIG_MAPS, home, object).await?;
    }
    Ok(())
}

/// A plugin and its signature, as `cosign sign-blob` makes it.
fn signed(name: &str, key: &KeyPair) -> Result<Value> {
    let wasm = std::fs::read(plugin(name)?)?;
    let signature = BASE64_STANDARD.encode(key.sign(&wasm).context("sign")?);
    Ok(json!({
        "plugin.wasm": BASE64_STANDARD.encode(&wasm),
        "plugin.wasm.sig": BASE64_STANDARD.encode(signature),
    }))
}

#[test]
fn what_the_hosts_policy_does_not_let_in_is_told_and_the_last_good_plugin_serves_on() -> Result<()>
{
    scenario("policy", async |scene| {
        let store = Store::start(scene, false, false).await?;
        store.push("echo")?;
        let (key, other) = (KeyPair::generate()?, KeyPair::generate()?);
        let policy = scene.dir.join("policy.yaml");
        let pem = scene.dir.join("cosign.pub");
        std::fs::write(&pem, key.public_key_pem())?;
        let address = store.server.address();
        let text = json!({
            "allow": ["configMap:the-plugin/*", format!("oci:{address}/team/*")],
            "requireSignature": [{"name": "release", "file": pem}],
        });
        std::fs::write(&policy, text.to_string())?;
        put(scene, signed("peer_plugin", &key)?).await?;
        let serving = scene.host_with(&host(scene, &["--policy", &policy.to_string_lossy()]))?;
        let at = json!({"configMap": {"name": "the-plugin", "key": "plugin.wasm"}});
        map(scene, at.clone()).await?;
        told(scene, "MappingActive", "signed by release").await?;
        ends_jobs(scene, "signed").await?;

        put(scene, signed("echo", &other)?).await?;
        let part = "the host's policy demands a signature by release";
        let note = told(scene, "PluginRefused", part).await?;
        ensure!(
            note.contains("another key") && note.contains("serves on"),
            "{note}"
        );
        // A key of the mapping's own comes on top and replaces nothing.
        let mut own = at.clone();
        own["signature"] = json!({"keys": [{"pem": other.public_key_pem()}]});
        map(scene, own).await?;
        let note = told(scene, "PluginRefused", part).await?;
        ensure!(note.contains("serves on"), "{note}");
        // Places that are not allowed, and clear text that is not: neither is even asked for.
        map(scene, json!({"file": plugin("echo")?})).await?;
        let note = told(scene, "PluginRefused", "does not allow plugins from file:").await?;
        ensure!(note.contains("serves on"), "{note}");
        map(scene, json!({"oci": store.reference(), "insecure": true})).await?;
        told(scene, "PluginRefused", "in clear text").await?;
        ends_jobs(scene, "still").await?;

        // Signed rightly, it is let in.
        put(scene, signed("echo", &key)?).await?;
        map(scene, at).await?;
        let note = told(scene, "MappingActive", "echo").await?;
        ensure!(note.contains("signed by release"), "{note}");

        // What vouched for a version is kept with it: it serves on after a restart, though its source has another one by then
        // that is not let in.
        put(scene, signed("peer_plugin", &key)?).await?;
        scene
            .until("the first one serves again", || {
                let log = scene.log()?;
                let last = log.iter().rfind(|line| line["reason"] == "MappingActive");
                let text = last.and_then(|line| line["message"].as_str());
                Ok(text.is_some_and(|text| text.contains("peer")))
            })
            .await?;
        scene.stop(serving).await?;
        put(scene, signed("echo", &other)?).await?;
        let again = host(scene, &["--policy", &policy.to_string_lossy()]);
        let _host = scene.host_with(&again)?;
        ends_jobs(scene, "after").await?;
        Ok(())
    })
}
