//! `guesthouse push` and `guesthouse pull`: plugins into registries and out of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use guesthouse_artifact::{
    Access, DockerConfig, Evidence, PublicKey, Reference, Registry,
    policy::{Candidate, Demands, Policy, Source, admit},
};

use crate::{exit::Refused, yaml};

/// Largest plugin that is pulled, bytes.
const MAX_PLUGIN: u64 = 64 << 20;

/// How a registry is reached.
#[derive(Args)]
pub(crate) struct RegistryArgs {
    /// A certificate authority beside those this machine trusts, PEM.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Talk in clear text.
    #[arg(long)]
    pub(crate) insecure: bool,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  guesthouse push plugin.wasm registry.example/team/report-job:1.2.0
  cosign sign --key cosign.key $(guesthouse push plugin.wasm registry.example/team/report-job:1.2.0)
  guesthouse push plugin.wasm localhost:5000/report-job:dev --insecure

Prints the reference with the manifest's digest to stdout, and the plugin's own digest to stderr.
Credentials are those of docker login (~/.docker/config.json, or the folder in DOCKER_CONFIG), but for credential helpers.
With SOURCE_DATE_EPOCH set, the same file gets the same digest each time.")]
pub(crate) struct PushArgs {
    /// The plugin's WebAssembly file.
    pub(crate) file: PathBuf,
    /// REGISTRY/REPOSITORY:TAG.
    pub(crate) reference: Reference,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  guesthouse pull registry.example/team/report-job:1.2.0
  guesthouse pull registry.example/team/report-job:1.2.0 -o plugin.wasm --key cosign.pub

Prints the reference with the manifest's digest to stdout, and the plugin's own digest to stderr. With --key nothing is
written unless the plugin is signed by that key (exit code 4).")]
pub(crate) struct PullArgs {
    /// REGISTRY/REPOSITORY:TAG, or …@sha256:….
    pub(crate) reference: Reference,
    /// Where to put it [default: the repository's last name with `.wasm`].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// A public key that must have signed it, as cosign.pub.
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) registry: RegistryArgs,
}

pub(crate) fn push(args: &PushArgs) -> Result<()> {
    let file = args.file.display();
    let wasm = std::fs::read(&args.file).with_context(|| format!("reading {file}"))?;
    let access = access(&args.reference, &args.registry)?;
    let created = created()?;
    let pushing = guesthouse_artifact::push(&args.reference, wasm, &created, &access);
    let pushed = block_on(pushing)?.with_context(|| format!("pushing {file}"))?;
    eprintln!("plugin {}", pushed.plugin);
    yaml::out(&format!("{}\n", args.reference.resolved(pushed.manifest)))
}

pub(crate) fn pull(args: &PullArgs) -> Result<()> {
    let reference = &args.reference;
    let key = match &args.key {
        Some(path) => {
            let pem = std::fs::read_to_string(path);
            let pem = pem.with_context(|| format!("reading {}", path.display()))?;
            Some(PublicKey::from_pem(&path.display().to_string(), &pem)?)
        }
        None => None,
    };
    let registry = Registry::new(reference, access(reference, &args.registry)?)?;
    let pulling = async {
        let resolved = registry.resolve().await?;
        let evidence: Vec<Evidence> = match key {
            Some(_) => registry.signatures(&resolved.manifest).await?,
            None => Vec::new(),
        };
        let bytes = registry.pull(&resolved, MAX_PLUGIN).await?;
        Ok::<_, guesthouse_artifact::FetchError>((resolved, evidence, bytes))
    };
    let pulled = block_on(pulling)?;
    let (resolved, evidence, bytes) = pulled.with_context(|| format!("pulling {reference}"))?;
    let demands = Demands {
        by: "--key",
        keys: key.map(|key| vec![key]),
        manifest: reference.digest().copied(),
        ..Demands::default()
    };
    let candidate = Candidate {
        source: Source::Oci(reference.place()),
        origin: reference.resolved(resolved.manifest).to_string(),
        manifest: Some(resolved.manifest),
        bytes,
        evidence,
    };
    let admitted = admit(&Policy::default(), &demands, candidate)
        .map_err(|denied| Refused(format!("{reference}: {denied}")))?;
    let name = reference
        .repository()
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let default = format!("{name}.wasm");
    let output = args.output.as_deref().unwrap_or(Path::new(&default));
    std::fs::write(output, admitted.bytes())
        .with_context(|| format!("writing {}", output.display()))?;
    eprintln!("plugin {} in {}", admitted.digest(), output.display());
    yaml::out(&format!("{}\n", reference.resolved(resolved.manifest)))
}

/// As docker and cosign do it, so that whoever logged in with them is logged in here.
fn access(reference: &Reference, args: &RegistryArgs) -> Result<Access> {
    let ca = match &args.ca {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            Some(text.with_context(|| format!("reading {}", path.display()))?)
        }
        None => None,
    };
    let mut access = Access {
        login: None,
        tried: "no credentials: docker login, or DOCKER_CONFIG, names some".to_owned(),
        ca,
        insecure: args.insecure,
        clear: Vec::new(),
    };
    let dir = match std::env::var_os("DOCKER_CONFIG") {
        Some(dir) => Some(dir.into()),
        None => std::env::home_dir().map(|home| home.join(".docker")),
    };
    let Some(path) = dir
        .map(|dir| dir.join("config.json"))
        .filter(|path| path.is_file())
    else {
        return Ok(access);
    };
    let shown = path.display();
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {shown}"))?;
    let config = DockerConfig::parse(&text).with_context(|| format!("reading {shown}"))?;
    let login = config.login(reference.registry(), reference.repository());
    access.login = login.with_context(|| format!("reading {shown}"))?;
    access.tried = match access.login {
        Some(_) => format!("the credentials in {shown}"),
        None => format!(
            "no credentials: {shown} has no entry for {}, it has: {}",
            reference.place(),
            config.registries()
        ),
    };
    Ok(access)
}

/// Now, or what reproducible builds say (<https://reproducible-builds.org/specs/source-date-epoch/>).
fn created() -> Result<String> {
    let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") else {
        return Ok(jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string());
    };
    let seconds: i64 = epoch.parse().context("SOURCE_DATE_EPOCH is no number")?;
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => Ok(time.to_string()),
        Err(error) => bail!("SOURCE_DATE_EPOCH: {error}"),
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    Ok(runtime.block_on(work))
}
