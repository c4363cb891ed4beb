//! The control plane that all tests of this process share.

use crate::api::{Api, ECHOES, KINDS, Resource};
use crate::artifacts::{host_binary, output, plugin, target_dir};
use anyhow::{Context, Result, anyhow};
use guesthouse_local::{Binaries, Cluster, Component, FileLock, Options};
use http::Method;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// A control plane with the kinds of host and plugins, and a folder for what tests leave.
///
/// Its processes end with this one, however it ends: guesthouse-local's watchdog sees to it.
#[derive(Debug)]
pub struct Plane {
    /// The processes. Many ask; only a test on a control plane of its own changes them.
    cluster: RwLock<Cluster>,
    /// Logs, plugins that are exchanged; emptied by the next run.
    pub dir: PathBuf,
    _lock: FileLock,
}

impl Plane {
    /// The one of this process, started by whoever asks first.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Plane, String>> = OnceLock::new();
        let plane = SHARED.get_or_init(|| Self::start("shared").map_err(|e| format!("{e:#}")));
        plane
            .as_ref()
            .map_err(|why| anyhow!("no control plane: {why}"))
    }

    /// One more, for a test that breaks it; it ends when it is dropped.
    pub fn start(name: &str) -> Result<Self> {
        let (dir, lock) = folder(name)?;
        let binaries = Binaries::locate_or_build()?;
        let options = Options::new(dir.join("plane")).with_audit();
        let cluster = Cluster::start(&binaries, options)?;
        let plane = Self {
            cluster: RwLock::new(cluster),
            dir,
            _lock: lock,
        };
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(plane.install())?;
        Ok(plane)
    }

    /// The control plane, to be asked.
    pub fn cluster(&self) -> RwLockReadGuard<'_, Cluster> {
        self.cluster.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.cluster().kubeconfig()
    }

    pub(crate) fn restart(&self, component: Component) -> Result<()> {
        let mut cluster = self.cluster.write().unwrap_or_else(PoisonError::into_inner);
        cluster.restart(component)
    }

    /// Defines the kind that is committed beside a plugin, if nobody has yet; ready to be used.
    pub(crate) async fn define_of(&self, api: &Api, plugin: &str) -> Result<()> {
        let path = crate::artifacts::root().join(format!("plugins/{plugin}/crd.yaml"));
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let kind: Value =
            serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
        let name = kind["metadata"]["name"].as_str().unwrap_or_default();
        if api.find(KINDS, "", name).await?.is_none() {
            api.create(KINDS, "", kind.clone()).await?;
        }
        wait_served(api, &kind).await
    }

    /// The kinds of the host and of the plugins, ready to be used.
    async fn install(&self) -> Result<()> {
        let api = Api::new(&self.kubeconfig()).await?;
        let host = Command::new(host_binary()?)
            .args(["crd", "--host"])
            .pipe(output)?;
        let mut printed = vec![host];
        for name in ["report_job", "website", "provision_request"] {
            let crd = Command::new(host_binary()?)
                .arg("crd")
                .arg(plugin(name)?)
                .pipe(output)?;
            printed.push(crd);
        }
        let mut kinds = vec![
            serde_json::from_str::<Value>(&echo::crd().json())?,
            serde_json::from_str::<Value>(&decide::crd().json())?,
        ];
        for printed in printed {
            let all = serde_saphyr::from_multiple::<Value>(&printed);
            kinds.extend(all.context("guesthouse crd prints YAML")?);
        }
        for kind in &kinds {
            api.create(KINDS, "", kind.clone()).await?;
        }
        for kind in &kinds {
            wait_served(&api, kind).await?;
        }
        Ok(())
    }
}

/// `command.pipe(output)` reads in the order it happens.
trait Pipe {
    fn pipe<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        f(self)
    }
}

impl Pipe for Command {}

/// A defined kind is served a moment later than its definition is accepted.
async fn wait_served(api: &Api, definition: &Value) -> Result<()> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let path = format!(
        "/apis/{group}/{}/{plural}",
        text(&spec["versions"][0]["name"])
    );
    crate::run::eventually(&format!("{path} is served"), async || {
        let list = api
            .send(Method::GET, &path, "application/json", String::new())
            .await?;
        Ok(list.map(|_| ()))
    })
    .await
}

/// The echo plugin's kind under another group and name, which no other test knows.
pub(crate) fn echo_kind(resource: Resource) -> Result<Value> {
    let (group, _) = resource
        .api_version
        .split_once('/')
        .context("a group and a version")?;
    let singular = resource.kind.to_lowercase();
    let text = echo::crd()
        .json()
        .replace("test.guesthouse.dev", group)
        .replace(ECHOES.plural, resource.plural)
        .replace("\"Echo\"", &format!("{:?}", resource.kind))
        .replace("\"echo\"", &format!("{singular:?}"))
        .replace("\"EchoList\"", &format!("\"{}List\"", resource.kind));
    serde_json::from_str(&text).context("the echo plugin's kind under another name")
}

/// A folder of this process alone: the same one run after run, another one only while it is in use.
fn folder(name: &str) -> Result<(PathBuf, FileLock)> {
    let all = target_dir().join("cluster-tests");
    for number in 0..100 {
        let dir = all.join(format!("{name}-{number}"));
        if let Some(lock) = FileLock::try_take(&all.join(format!("{name}-{number}.lock")))? {
            remove(&dir)?;
            std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
            return Ok((dir, lock));
        }
    }
    Err(anyhow!("all folders under {} are in use", all.display()))
}

/// All but the control plane's own folder: what a killed run left running there is found by it, and ended.
fn remove(dir: &Path) -> Result<()> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() != "plane" {
            std::fs::remove_dir_all(entry.path())
                .with_context(|| format!("remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}
