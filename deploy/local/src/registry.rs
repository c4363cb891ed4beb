//! A real registry on this machine: CNCF distribution, on 127.0.0.1 and a port of its own.
//!
//! It is ended with its value, and by the watchdog when the value's owner is killed.

use crate::layout::write_file;
use crate::process::{ProcessId, Watchdog};
use anyhow::{Context, Result, bail};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The release of `github.com/distribution/distribution` that is built.
pub const REGISTRY_VERSION: &str = "v3.1.2";

/// Far beyond what its start takes.
const DEADLINE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// [`Registry::USER`] with [`Registry::PASSWORD`], in the form of `htpasswd -B`; made for this.
const HTPASSWD: &str = "plugins:$2a$04$oghz2TNJ7Z/wdJ45EW2psucWsSjWVMZBvSEWZlV4nTplIJhowdBay\n";

/// How a registry is run.
#[derive(Debug, Clone)]
pub struct RegistryOptions {
    /// Its own folder: configuration, log, content.
    pub dir: PathBuf,
    /// Whether it speaks TLS, with a certificate of an authority made for it.
    pub tls: bool,
    /// Whether it asks for [`Registry::USER`] and [`Registry::PASSWORD`].
    pub login: bool,
}

/// A running registry.
#[derive(Debug)]
pub struct Registry {
    program: PathBuf,
    options: RegistryOptions,
    port: u16,
    ca: Option<String>,
    running: Option<(Child, Option<Watchdog>)>,
}

impl Registry {
    /// Who may read and write where a login is asked for.
    pub const USER: &str = "plugins";
    /// The password of [`Registry::USER`].
    pub const PASSWORD: &str = "let-me-in";

    /// Its program, built on first use.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn locate_or_build() -> Result<PathBuf> {
        crate::go_build::registry()
    }

    /// Starts a registry, built on first use, and waits until it listens.
    ///
    /// # Errors
    /// When it cannot be built or does not start; the error names its log.
    pub fn start(options: RegistryOptions) -> Result<Self> {
        let program = Self::locate_or_build()?;
        std::fs::create_dir_all(&options.dir)
            .with_context(|| format!("create {}", options.dir.display()))?;
        let ca = match options.tls {
            true => Some(certificates(&options.dir)?),
            false => None,
        };
        let mut registry = Self {
            program,
            options,
            port: 0,
            ca,
            running: None,
        };
        registry.go_on()?;
        Ok(registry)
    }

    /// `127.0.0.1:PORT`, as references name it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The authority of its certificate, PEM.
    pub fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    /// The docker config JSON that a pull secret for it holds.
    pub fn docker_config(&self) -> String {
        let entry = serde_json::json!({"username": Self::USER, "password": Self::PASSWORD});
        serde_json::json!({"auths": {self.address(): entry}}).to_string()
    }

    /// Where it logs every request, one a line.
    pub fn access_log(&self) -> PathBuf {
        self.options.dir.join("access.log")
    }

    /// Ends it; content and address stay.
    pub fn stop(&mut self) {
        if let Some((mut child, watchdog)) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
            drop(watchdog);
        }
    }

    /// Starts it, again under the same address if it had one.
    ///
    /// # Errors
    /// When it does not start; the error names its log.
    pub fn go_on(&mut self) -> Result<()> {
        self.stop();
        let dir = std::path::absolute(&self.options.dir).context("the registry's folder")?;
        let (config, log) = (dir.join("config.json"), dir.join("registry.log"));
        write_file(&config, self.config(&dir)?.to_string().as_bytes(), 0o600)?;
        let file = std::fs::File::create(&log).with_context(|| log.display().to_string())?;
        let mut access = std::fs::File::options();
        let access = access.create(true).append(true).open(self.access_log());
        let access = access.context("open the registry's access log")?;
        let child = Command::new(&self.program)
            .arg("serve")
            .arg(&config)
            // It would look for a collector.
            .env("OTEL_TRACES_EXPORTER", "none")
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(access)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", self.program.display()))?;
        let process = ProcessId::of(child.id());
        // From here on a failure ends it.
        self.running = Some((child, None));
        if let Some((_, watchdog)) = &mut self.running {
            *watchdog = Watchdog::start()?;
            if let (Some(watchdog), Some(process)) = (watchdog, &process) {
                watchdog.watch(process)?;
            }
        }
        self.port = self.wait(&log)?;
        Ok(())
    }

    fn config(&self, dir: &Path) -> Result<serde_json::Value> {
        let mut config = serde_json::json!({
            "version": 0.1,
            "log": {"level": "info"},
            "storage": {"filesystem": {"rootdirectory": dir.join("content")}},
            "http": {"addr": self.address(), "secret": "of-one-process-alone"},
        });
        if self.options.tls {
            config["http"]["tls"] = serde_json::json!({
                "certificate": dir.join("serving.crt"),
                "key": dir.join("serving.key"),
            });
        }
        if self.options.login {
            let path = dir.join("htpasswd");
            write_file(&path, HTPASSWD.as_bytes(), 0o600)?;
            config["auth"] = serde_json::json!({"htpasswd": {"realm": "plugins", "path": path}});
        }
        Ok(config)
    }

    /// It says itself where it listens.
    fn wait(&mut self, log: &Path) -> Result<u16> {
        let started = Instant::now();
        loop {
            let text = std::fs::read_to_string(log).unwrap_or_default();
            let port = text.split("listening on 127.0.0.1:").nth(1).map(|rest| {
                let end = rest.find(|c: char| !c.is_ascii_digit());
                &rest[..end.unwrap_or(0)]
            });
            if let Some(port) = port.filter(|port| !port.is_empty()) {
                return port.parse().context("the registry's port");
            }
            let ended = match &mut self.running {
                Some((child, _)) => child.try_wait().context("look at the registry")?,
                None => None,
            };
            if ended.is_some() || started.elapsed() > DEADLINE {
                let last = text.lines().last().unwrap_or_default().to_owned();
                bail!("the registry does not start ({}): {last}", log.display());
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Writes a certificate for this machine's loopback address, and returns its authority.
fn certificates(dir: &Path) -> Result<String> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let key = KeyPair::generate().context("make the authority's key")?;
    let ca = params
        .self_signed(&key)
        .context("sign the authority's certificate")?
        .pem();
    let issuer = Issuer::new(params, key);
    let names = ["127.0.0.1", "localhost"].map(str::to_owned);
    let mut params = CertificateParams::new(names).context("name the registry")?;
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().context("make a key")?;
    let serving = params
        .signed_by(&key, &issuer)
        .context("sign a certificate")?;
    write_file(&dir.join("serving.crt"), serving.pem().as_bytes(), 0o644)?;
    write_file(
        &dir.join("serving.key"),
        key.serialize_pem().as_bytes(),
        0o600,
    )?;
    Ok(ca)
}
