//! The one way of bytes into the sandbox: judged, kept, loaded, told.

use std::{sync::Arc, time::Duration};

use guesthouse_artifact::{
    Digest, Evidence, Pin, PublicKey, Store,
    policy::{self, Admitted, Candidate, Demands, Source},
};
use guesthouse_core::mapping::{PluginSource, SourcePlace};
use guesthouse_sandbox::Plugin;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

use super::{Good, Loaded, Sources, texts};

/// Longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What a source found.
#[derive(Default)]
pub(super) struct Found {
    /// Where, for people.
    pub(super) origin: String,
    /// The manifest it came by.
    pub(super) manifest: Option<Digest>,
    pub(super) bytes: Vec<u8>,
    pub(super) evidence: Vec<Evidence>,
}

/// What became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// It serves.
    Loaded,
    /// It does not, and nothing but another version changes that.
    Refused,
}

/// Loads what one source finds, and tells of it.
pub(super) struct Loader {
    source: PluginSource,
    sources: Arc<Sources>,
    loaded: UnboundedSender<Loaded>,
    /// What was last let through: it serves, and stays in the store.
    good: Option<(Good, Option<Pin>)>,
    /// Why the version that was offered last was not let through.
    verdict: Option<String>,
    /// What was last told against it, so that it is told once.
    refused: Option<String>,
}

impl Loader {
    pub(super) fn new(
        source: PluginSource,
        sources: Arc<Sources>,
        loaded: UnboundedSender<Loaded>,
    ) -> Self {
        Self {
            source,
            sources,
            loaded,
            good: None,
            verdict: None,
            refused: None,
        }
    }

    pub(super) fn source(&self) -> &PluginSource {
        &self.source
    }

    pub(super) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Whether the host's policy allows this place at all, and clear text if that is asked for.
    pub(super) fn allowed(&self) -> Result<(), String> {
        let policy = &self.sources.policy;
        let place = self.named().map_err(|why| self.about(&why))?;
        let mut allowed = policy.allows(&place);
        if self.source.insecure {
            allowed = allowed.and_then(|()| policy.allows_insecure(&host(&place)));
        }
        allowed.map_err(|denied| self.about(&denied.to_string()))
    }

    /// Whether signatures have to be looked for.
    pub(super) fn wants_signature(&self) -> bool {
        self.source.signature.is_some() || self.sources.policy.wants_signature()
    }

    /// Bytes out of the store, if this place once brought them: another one did not vouch for them.
    pub(super) fn kept(&self, digest: &Digest) -> Option<Vec<u8>> {
        let (store, place) = (self.sources.store.as_ref()?, self.named().ok()?);
        Vouched::read(store, digest, &place)?;
        store.get(digest)
    }

    /// A signature that the mapping itself holds.
    pub(super) fn detached(&self) -> Option<Evidence> {
        let signature = self.source.signature.as_ref()?;
        signature.detached.clone().map(Evidence::Detached)
    }

    /// Judges, keeps and loads a plugin, and tells of it. An error is one that a further try may mend: what the mapping names
    /// could not be read.
    pub(super) async fn offer(&mut self, found: Found) -> Result<Offered, String> {
        let demands = self.demands().await?;
        let candidate = Candidate {
            source: self.named()?,
            origin: found.origin,
            manifest: found.manifest,
            bytes: found.bytes,
            evidence: found.evidence,
        };
        let sources = self.sources.clone();
        let turn = sources.turns.clone().acquire_owned().await;
        // Hashing and compiling take seconds of CPU: never on a thread that others wait for.
        let work = move || {
            // To the end, also of work that nobody waits for any more.
            let _turn = turn;
            load(&sources, &demands, candidate)
        };
        let why = match tokio::task::spawn_blocking(work).await {
            Ok(Ok((good, pin))) => {
                (self.good, self.verdict) = (Some((good, pin)), None);
                self.tell_good();
                return Ok(Offered::Loaded);
            }
            Ok(Err(why)) => why,
            Err(error) => format!("loading ended early: {error}"),
        };
        let why = self.about(&why);
        self.verdict = Some(why.clone());
        self.refuse_again(why);
        Ok(Offered::Refused)
    }

    /// The version that was offered last is still the newest: what was said of it holds again, and not that nobody answered.
    pub(super) fn confirm(&mut self) -> Offered {
        let verdict = self.verdict.clone();
        let told = self.refused == verdict;
        match verdict {
            None if told => Offered::Loaded,
            None => {
                self.tell_good();
                Offered::Loaded
            }
            Some(_) if told => Offered::Refused,
            Some(why) => {
                self.refuse_again(why);
                Offered::Refused
            }
        }
    }

    /// Tells why there is no new version, once.
    pub(super) fn fail(&mut self, why: &str) {
        let why = self.about(why);
        if self.refused.as_ref() != Some(&why) {
            self.refuse_again(why);
        }
    }

    /// Tells why there is none, as it is.
    pub(super) fn refuse(&self, why: String) {
        self.tell(Err(why));
    }

    fn refuse_again(&mut self, why: String) {
        self.tell(Err(why.clone()));
        self.refused = Some(why);
    }

    fn tell_good(&mut self) {
        if let Some((good, _)) = &self.good {
            self.tell(Ok(good.clone()));
            self.refused = None;
        }
    }

    fn tell(&self, result: Result<Good, String>) {
        let _ = self.loaded.send(Loaded {
            source: self.source.clone(),
            result,
        });
    }

    /// With the field and the place in front.
    fn about(&self, why: &str) -> String {
        let place = match self.source.place() {
            Some(SourcePlace::File(path)) => format!("file: {path}"),
            Some(SourcePlace::ConfigMap(at)) => format!("configMap: {}, key {}", at.name, at.key),
            Some(SourcePlace::Url(url)) => format!("url: {url}"),
            Some(SourcePlace::Oci(reference)) => format!("oci: {reference}"),
            None => String::new(),
        };
        match why.starts_with("cannot ") {
            true => format!("plugin.{place} {why}"),
            false => format!("plugin.{place}: {why}"),
        }
    }

    /// The place as policies name it.
    fn named(&self) -> Result<Source, String> {
        Ok(match self.source.place() {
            Some(SourcePlace::File(path)) => Source::File(path.to_owned()),
            Some(SourcePlace::ConfigMap(at)) => Source::ConfigMap(at.name.clone(), at.key.clone()),
            Some(SourcePlace::Url(text)) => {
                let url = ::url::Url::parse(text).map_err(|error| error.to_string())?;
                Source::Url(url.to_string())
            }
            Some(SourcePlace::Oci(text)) => Source::Oci(reference(text)?.place()),
            None => return Err("the mapping names no place".to_owned()),
        })
    }

    /// What the mapping demands, with its keys read.
    async fn demands(&self) -> Result<Demands, String> {
        let source = &self.source;
        let digest = match (&source.digest, &source.sha256) {
            (Some(digest), _) => Some(digest.parse().map_err(|error| format!("{error}"))?),
            (None, Some(hex)) => Some(Digest::from_hex(hex).map_err(|error| error.to_string())?),
            (None, None) => None,
        };
        let manifest = match source.place() {
            Some(SourcePlace::Oci(text)) => reference(text)?.digest().copied(),
            _ => None,
        };
        let mut keys = None;
        if let Some(signature) = &source.signature {
            let mut read = Vec::new();
            for from in &signature.keys {
                let pem = texts::read(&self.sources, from).await;
                let pem = pem.map_err(|why| format!("signature.keys: {from}: {why}"))?;
                let key = PublicKey::from_pem(&from.to_string(), &pem);
                read.push(key.map_err(|bad| format!("signature.keys: {bad}"))?);
            }
            keys = Some(read);
        }
        Ok(Demands {
            digest,
            manifest,
            keys,
            ..Demands::default()
        })
    }
}

/// Host, with its port if it has one, as policies name it.
fn host(place: &Source) -> String {
    match place {
        Source::Url(text) => {
            let rest = text.split_once("://").map_or("", |(_, rest)| rest);
            rest.split('/').next().unwrap_or_default().to_owned()
        }
        Source::Oci(text) => text.split('/').next().unwrap_or_default().to_owned(),
        Source::File(_) | Source::ConfigMap(..) => String::new(),
    }
}

/// A reference that the mapping's check let through may still be none.
pub(super) fn reference(text: &str) -> Result<guesthouse_artifact::Reference, String> {
    text.parse().map_err(|error| format!("{error}"))
}

/// The choke point: nothing else of this host makes code of bytes that came from elsewhere.
fn load(
    sources: &Sources,
    demands: &Demands,
    candidate: Candidate,
) -> Result<(Good, Option<Pin>), String> {
    let (place, vouched) = Vouched::of(&candidate);
    let admitted = policy::admit(&sources.policy, demands, candidate);
    let admitted = admitted.map_err(|denied| denied.to_string())?;
    let pin = keep(sources, &admitted, &place, &vouched);
    let plugin: Plugin = sources
        .sandbox
        .load(admitted.bytes())
        .map_err(|refusal| refusal.to_string())?;
    let origin = admitted.origin().to_owned();
    Ok((Good { plugin, origin }, pin))
}

/// That a place brought a version that was let in, and who vouched for it, kept beside its bytes: so one that is taken from there
/// is judged by what was judged at first, and only as one of a place that it came from. A note that somebody changed proves
/// nothing more than the signatures in it.
#[derive(Serialize, Deserialize)]
struct Vouched {
    manifest: Option<String>,
    evidence: Vec<Evidence>,
}

impl Vouched {
    fn of(candidate: &Candidate) -> (Source, Self) {
        let vouched = Self {
            manifest: candidate.manifest.map(|manifest| manifest.to_string()),
            evidence: candidate.evidence.clone(),
        };
        (candidate.source.clone(), vouched)
    }

    /// What one place vouched for, another one did not.
    fn name(digest: &Digest, source: &Source) -> String {
        format!("vouched for {digest} from {source}")
    }

    fn read(store: &Store, digest: &Digest, source: &Source) -> Option<Self> {
        serde_json::from_slice(&store.noted(&Self::name(digest, source))?).ok()
    }
}

/// A version by its digest out of the store: what a rollback and a restart begin from. It is judged anew as one of this source,
/// by what vouched for it when it came from there. None: it is not in the store; an error says why it is not let in, which may
/// pass.
pub(crate) async fn kept(
    sources: Arc<Sources>,
    source: PluginSource,
    digest: &str,
) -> Result<Option<Plugin>, String> {
    let digest: Digest = digest.parse().map_err(|error| format!("{error}"))?;
    let Some(store) = sources.store.clone() else {
        return Ok(None);
    };
    let (told, _nobody) = tokio::sync::mpsc::unbounded_channel();
    let loader = Loader::new(source, sources.clone(), told);
    let (demands, place) = (loader.demands().await?, loader.named()?);
    let turn = sources.turns.clone().acquire_owned().await;
    let work = move || -> Result<Option<Plugin>, String> {
        let _turn = turn;
        let Some(bytes) = store.get(&digest) else {
            return Ok(None);
        };
        // Allowed places and signatures beside them would mean nothing for bytes that any other mapping brought.
        let Some(vouched) = Vouched::read(&store, &digest, &place) else {
            return Err(format!(
                "{digest} is in the store, and never came from {place}: only what a mapping's own place brought is taken from the store for it"
            ));
        };
        let candidate = Candidate {
            source: place,
            origin: format!("{digest} in the store"),
            manifest: vouched.manifest.and_then(|it| it.parse().ok()),
            bytes,
            evidence: vouched.evidence,
        };
        let (good, pin) = load(&sources, &demands, candidate)?;
        if let Some(pin) = pin {
            sources.pins.hold(loader.source(), digest, pin);
        }
        Ok(Some(good.plugin))
    };
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| format!("loading ended early: {error}"))?
}

fn keep(sources: &Sources, admitted: &Admitted, place: &Source, vouched: &Vouched) -> Option<Pin> {
    let store = sources.store.as_ref()?;
    store.put(admitted.bytes());
    // Also of one that nobody signed: that it came from there.
    if let Ok(note) = serde_json::to_vec(vouched) {
        store.note(&Vouched::name(admitted.digest(), place), &note);
    }
    Some(store.pin(admitted.digest()))
}

/// The pauses between tries: 1 s, 2 s, 4 s … a minute.
#[derive(Default)]
pub(super) struct Pauses(u32);

impl Pauses {
    pub(super) async fn pause(&mut self) {
        let pause = Duration::from_secs(1 << self.0.min(6)).min(MAX_PAUSE);
        self.0 += 1;
        tokio::time::sleep(pause).await;
    }

    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }
}
