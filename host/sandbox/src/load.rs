//! From bytes to a plugin: size, form and contract are checked before anything is compiled; code comes from the cache or the
//! compiler; a plugin that cannot describe itself, or asks for what this host does not carry out, is never published.

use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
    time::Duration,
};

use guesthouse_core::{
    config_schema,
    contract::Descriptor,
    limits::Limits,
    refusal::{Refusal, RefusalKind::*},
};
use sha2::{Digest as _, Sha256};
use wasmtime::{Engine, Module, component::Component};

use crate::{
    Plugin, SandboxError, Settings, Supported,
    bindings::Exports,
    cache::{Cache, hex},
    command::Command,
    compile::{self, COMPILE_STACK},
    componentize::componentize,
    engine::{self, Shape, Ticker},
    inspect::{Form, inspect, small_enough, validate},
    plugin::{Code, Inner},
    refuse::refuse,
    registry::{Digest, Registry, Stats, lock},
    slots::Slots,
    wasi,
};

/// Runs plugins. Cheap to clone; plugins keep what they need of it alive.
#[derive(Clone)]
pub struct Sandbox(Arc<Shared>);

/// What all plugins of a sandbox share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    pub(crate) slots: Arc<Slots>,
    cache: Option<Cache>,
    degraded: Option<String>,
    pub(crate) registry: Registry,
    /// Held by the one compilation that runs: the compiler's memory is bounded per compilation.
    compiling: Mutex<()>,
    _ticker: Ticker,
}

impl Sandbox {
    /// Sets up the runtime: reserves the pool, opens the cache, starts the clock.
    pub fn new(settings: Settings) -> Result<Self, SandboxError> {
        let shape = Shape {
            metering: settings.metering,
            stack: settings.stack,
        };
        let (engine, degraded) = engine::running(shape, settings.slots)?;
        let cache = settings
            .cache
            .as_ref()
            .map(|at| Cache::open(at, engine::identity(&engine)))
            .transpose()?;
        let ticker = Ticker::start(&engine)?;
        let slots = Slots::new(settings.slots.max(1));
        Ok(Self(Arc::new(Shared {
            engine,
            settings,
            slots,
            cache,
            degraded,
            registry: Registry::default(),
            compiling: Mutex::new(()),
            _ticker: ticker,
        })))
    }

    /// Why calls are slower than they need be, if they are: the pool of instances could not be reserved.
    pub fn degraded(&self) -> Option<&str> {
        self.0.degraded.as_deref()
    }

    /// Gives up the native code of plugins that were not called for so long; their next call brings it back. Only of those
    /// whose code the cache holds. How many.
    pub fn rest(&self, idle: Duration) -> usize {
        let cache = self.0.cache.as_ref();
        let holds = |digest: &Digest| cache.is_some_and(|cache| cache.holds(digest));
        self.0.registry.rest(idle, holds)
    }

    /// What is loaded, and what was done since the start.
    pub fn stats(&self) -> Stats {
        self.0.registry.stats()
    }

    /// Makes a plugin of a component, of a core module that carries the contract's types, or of a command; the same one for
    /// bytes that are loaded already. Compiles unless the cache has the code, one module at a time, and takes a call's slot to
    /// ask for the descriptor. Works on a thread of its own.
    pub fn load(&self, wasm: &[u8]) -> Result<Plugin, Refusal> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("load".into())
                .stack_size(COMPILE_STACK);
            let work = thread
                .spawn_scoped(scope, || load(&self.0, wasm))
                .map_err(|error| refuse(Host, format!("cannot start a thread to load: {error}")))?;
            work.join().unwrap_or_else(|_| {
                Err(refuse(BadModule, "reading the module made the host panic"))
            })
        })
    }
}

fn load(host: &Arc<Shared>, wasm: &[u8]) -> Result<Plugin, Refusal> {
    small_enough(wasm, host.settings.max_module)?;
    let hash: Digest = Sha256::digest(wasm).into();
    let place = host.registry.place(&hash);
    // Held to the end: who loads the same bytes meanwhile waits, and finds them loaded.
    let mut held = lock(&place);
    if let Some(loaded) = held.upgrade() {
        host.registry.counts.shared.fetch_add(1, Relaxed);
        return Ok(Plugin(loaded));
    }
    let form = inspect(wasm)?;
    let (native, cached) = compiled(host, wasm, form, &hash)?;
    let code = link(&host.engine, native, form)?;
    let describe =
        |descriptor| Plugin::new(host.clone(), (hash, form), code.clone(), cached, descriptor);
    let descriptor = describe(None)
        .open(&Limits::default())
        .and_then(|mut guest| guest.describe())
        .map_err(|refusal| Refusal::new(refusal.kind, format!("describe: {}", refusal.message)))?;
    check(&descriptor, &host.settings.supported)?;
    let plugin = describe(Some(descriptor));
    *held = Arc::downgrade(&plugin.0);
    Ok(plugin)
}

/// The native code of a plugin that gave it up.
pub(crate) fn bring_back(plugin: &Inner) -> Result<Code, Refusal> {
    let host = &plugin.host;
    let code = host
        .cache
        .as_ref()
        .and_then(|cache| cache.get(&plugin.hash));
    let native = match code.map(|code| native(&host.engine, plugin.form, &code)) {
        Some(Ok(native)) => native,
        // Gone from the cache since: as at the first load, if somebody kept the bytes.
        _ => {
            let recall = host.settings.recall.as_ref();
            let wasm = recall.and_then(|recall| recall.bytes(&plugin.hash));
            let wasm = wasm.ok_or_else(|| {
                let text = "its compiled code went from the cache while it was not called, and its bytes are kept nowhere; touch the plugin's source or restart the host";
                refuse(Host, text)
            })?;
            compiled(host, &wasm, plugin.form, &plugin.hash)?.0
        }
    };
    host.registry.counts.woken.fetch_add(1, Relaxed);
    link(&host.engine, native, plugin.form)
}

/// Links compiled code with all it imports, and finds the way into it.
fn link(engine: &Engine, native: Native, form: Form) -> Result<Code, Refusal> {
    let component = match native {
        Native::Module(module) => return Command::core(engine, &module).map(Code::Command),
        Native::Component(component) => component,
    };
    let linker = wasi::link(&component)
        .map_err(|error| refuse(Host, format!("cannot be linked: {error:#}")))?;
    let pre = linker.instantiate_pre(&component).map_err(|error| {
        refuse(
            ContractMismatch,
            format!("its imports have other types than this host's: {error:#}"),
        )
    })?;
    match form {
        Form::ComponentCommand => Command::component(&component, pre).map(Code::Command),
        _ => Exports::find(&component, pre).map(Code::Contract),
    }
}

/// The compiled code, and whether it came from the cache.
fn compiled(
    host: &Shared,
    wasm: &[u8],
    form: Form,
    digest: &Digest,
) -> Result<(Native, bool), Refusal> {
    if let Some(code) = host.cache.as_ref().and_then(|cache| cache.get(digest)) {
        match native(&host.engine, form, &code) {
            Ok(native) => {
                host.registry.counts.cached.fetch_add(1, Relaxed);
                return Ok((native, true));
            }
            Err(error) => tracing::warn!(
                error = format!("{error:#}"),
                "an entry of compiled code does not load, compiled anew"
            ),
        }
    }
    tracing::info!(
        digest = hex(digest),
        bytes = wasm.len(),
        "compiling a plugin; the cache has no code for it"
    );
    validate(wasm)?;
    let whole = match form {
        Form::Core => componentize(wasm)?,
        _ => wasm.to_vec(),
    };
    let settings = &host.settings;
    let shape = Shape {
        metering: settings.metering,
        stack: settings.stack,
    };
    let code = {
        let _one = host
            .compiling
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        compile::compile(&settings.compiler, shape, &settings.budget, whole)?
    };
    host.registry.counts.compiled.fetch_add(1, Relaxed);
    let native = native(&host.engine, form, &code)
        .map_err(|error| refuse(TooLarge, format!("does not fit in here: {error:#}")))?;
    if let Some(cache) = &host.cache {
        cache.put(digest, &code);
    }
    Ok((native, false))
}

/// Native code in this process.
enum Native {
    Component(Component),
    Module(Module),
}

/// The one place where bytes become native code.
fn native(engine: &Engine, form: Form, code: &[u8]) -> wasmtime::Result<Native> {
    // SAFETY: `code` is what `Engine::precompile_component` or `precompile_module` returned: either to this process just now (in a child process of
    // our own program over a pipe that nobody else holds), or to a host with our key, whose keyed hash over these very bytes
    // was verified after they were read. They are copied from here, so nobody changes them afterwards.
    #[allow(unsafe_code)]
    unsafe {
        match form {
            Form::CoreCommand => Module::deserialize(engine, code).map(Native::Module),
            _ => Component::deserialize(engine, code).map(Native::Component),
        }
    }
}

/// Longest version and name of an SDK, bytes.
const MAX_WORD: usize = 64;

/// Refuses by name what the caller does not carry out, and what would cost others.
fn check(descriptor: &Descriptor, supported: &Supported) -> Result<(), Refusal> {
    let name = &descriptor.name;
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty()
        || name.len() > 63
        || name.starts_with('-')
        || name.ends_with('-')
        || !name.bytes().all(lower)
    {
        return Err(refuse(
            BadOutput,
            format!(
                "describe: name: `{name}` is not a lower-case name of at most 63 characters, as in report-job"
            ),
        ));
    }
    for (field, text) in [("version", &descriptor.version), ("sdk", &descriptor.sdk)] {
        // They stand in logs, tables and records.
        if text.len() > MAX_WORD || text.contains(char::is_control) {
            let what = format!("describe: {field}: more than {MAX_WORD} bytes, or not one line");
            return Err(refuse(BadOutput, what));
        }
    }
    if let Some(schema) = &descriptor.config_schema {
        config_schema::check(schema.as_str())
            .map_err(|why| refuse(TooLarge, format!("describe: configSchema: {why}")))?;
    }
    if let Some(extension) = descriptor
        .extensions
        .iter()
        .find(|name| !supported.extensions.contains(&name.as_str()))
    {
        return Err(refuse(
            Unsupported,
            format!(
                "the plugin cannot do without the extension `{extension}` (descriptor.extensions), which this host does not carry out"
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use guesthouse_core::contract::Json;

    fn descriptor() -> Descriptor {
        Descriptor {
            name: "report-job".into(),
            version: String::new(),
            sdk: String::new(),
            kinds: Vec::new(),
            needs: Vec::new(),
            finalizes: false,
            config_schema: None,
            grants: Json::empty_object(),
            extensions: Vec::new(),
        }
    }

    #[track_caller]
    fn refused(change: impl Fn(&mut Descriptor), supported: Supported, part: &str) {
        let mut changed = descriptor();
        change(&mut changed);
        let refusal = check(&changed, &Supported::default()).unwrap_err();
        assert_eq!(refusal.kind, Unsupported);
        assert!(refusal.message.contains(part), "{refusal}");
        assert_eq!(
            check(&changed, &supported),
            Ok(()),
            "the same where the caller supports it"
        );
    }

    #[test]
    fn what_the_caller_does_not_carry_out_is_refused_by_name() {
        let all = Supported {
            extensions: &["acme.io/x"],
        };
        assert_eq!(check(&descriptor(), &Supported::default()), Ok(()));
        refused(
            |it| it.extensions = vec!["acme.io/x".into()],
            all,
            "extension `acme.io/x`",
        );
    }

    #[test]
    fn a_version_is_a_word_and_a_schema_does_not_fan_out() {
        let refusal = |change: &dyn Fn(&mut Descriptor)| {
            let mut changed = descriptor();
            change(&mut changed);
            check(&changed, &Supported::default()).unwrap_err().message
        };
        let long = refusal(&|it| it.version = "1".repeat(65));
        assert!(long.contains("version"), "{long}");
        let lines = refusal(&|it| it.sdk = "a\nb".into());
        assert!(lines.contains("sdk"), "{lines}");
        let schema = r##"{"$ref": "https://example.com"}"##;
        let schema = refusal(&|it| it.config_schema = Some(Json::trusted(schema)));
        assert!(schema.contains("configSchema"), "{schema}");
    }

    #[test]
    fn a_name_is_lower_case_and_short() {
        for name in ["", "Report", "a_b", "-a", "a-", &"x".repeat(64)] {
            let refusal = check(
                &Descriptor {
                    name: name.into(),
                    ..descriptor()
                },
                &Supported::default(),
            )
            .unwrap_err();
            assert_eq!(refusal.kind, BadOutput, "{name}");
        }
    }
}
