//! What user-supplied bytes are, read before anything is compiled: precompiled code is refused, the door is chosen, and a
//! contract version or an import that this host does not serve is named.

use guesthouse_core::{
    contract::CONTRACT,
    refusal::{Refusal, RefusalKind::*},
};
use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};

use crate::{refuse::refuse, wasi::preview1::MODULE};

/// Most functions in a module, and most bytes of one: the compiler's time grows with both. Python's interpreter loop, the
/// largest function known, is a quarter of this.
const MAX_FUNCTIONS: u64 = 250_000;
const MAX_FUNCTION: usize = 1 << 20;

/// What a file that zstd packed begins with (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What the bytes are, and by which door they are entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A core module with a component's types in a section: still to be made a component.
    Core,
    /// A component that exports the contract.
    Component,
    /// A component that exports `wasi:cli/run`.
    ComponentCommand,
    /// A core module that exports `_start`.
    CoreCommand,
}

/// Names at the outermost level.
#[derive(Default)]
struct Names {
    component: bool,
    typed: bool,
    imports: Vec<String>,
    exports: Vec<String>,
}

/// The first thing that is looked at.
pub(crate) fn small_enough(wasm: &[u8], max: u64) -> Result<(), Refusal> {
    if wasm.len() as u64 <= max {
        return Ok(());
    }
    let len = wasm.len();
    let text = format!("the module has {len} bytes, at most {max} are taken");
    Err(refuse(TooLarge, text))
}

/// Says what the bytes are, and that the host can link and call them.
pub(crate) fn inspect(wasm: &[u8]) -> Result<Form, Refusal> {
    if wasm.starts_with(b"\x7fELF") || wasmtime::Engine::detect_precompiled(wasm).is_some() {
        return Err(refuse(
            Precompiled,
            "this is compiled native code; give the WebAssembly it was made from",
        ));
    }
    if wasm.starts_with(&ZSTD) {
        return Err(refuse(
            BadModule,
            "this is packed by zstd: a ConfigMap may hold it like that, everybody else unpacks it first (zstd -d)",
        ));
    }
    if !wasm.starts_with(b"\0asm") {
        return Err(refuse(
            BadModule,
            "this is not WebAssembly: it does not start with \\0asm",
        ));
    }
    let names = read(wasm)
        .map_err(|error| refuse(BadModule, format!("damaged WebAssembly: {error}")))??;
    if names.component {
        component(&names)
    } else {
        core(wasm, &names)
    }
}

/// Checks every instruction, before a compiler sees them; bytes whose code is in the cache passed this before.
pub(crate) fn validate(wasm: &[u8]) -> Result<(), Refusal> {
    Validator::new_with_features(features())
        .validate_all(wasm)
        .map(|_| ())
        .map_err(|error| refuse(BadModule, format!("not valid here: {error}")))
}

/// What the engine takes: all of WebAssembly 3 but what would let a reply depend on the machine or needs 64-bit memories.
fn features() -> WasmFeatures {
    let mut features = WasmFeatures::WASM3 | WasmFeatures::COMPONENT_MODEL;
    features.remove(WasmFeatures::MEMORY64 | WasmFeatures::RELAXED_SIMD | WasmFeatures::THREADS);
    features
}

/// One walk over the sections; sizes are checked in nested modules too.
fn read(wasm: &[u8]) -> Result<Result<Names, Refusal>, wasmparser::BinaryReaderError> {
    let mut names = Names::default();
    let (mut depth, mut functions) = (0u32, 0u64);
    for payload in Parser::new(0).parse_all(wasm) {
        match payload? {
            Payload::Version { encoding, .. } => {
                depth += 1;
                names.component |= depth == 1 && encoding == Encoding::Component;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CodeSectionStart { count, .. } => functions += u64::from(count),
            Payload::CodeSectionEntry(body) if body.range().len() > MAX_FUNCTION => {
                return Ok(Err(refuse(
                    TooLarge,
                    format!("a function has more than {MAX_FUNCTION} bytes"),
                )));
            }
            Payload::CustomSection(section) if depth == 1 => {
                names.typed |= section.name().starts_with("component-type")
            }
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    names.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    names.exports.push(export?.name.name.to_owned());
                }
            }
            Payload::ImportSection(section) if depth == 1 => {
                for import in section.into_imports() {
                    names.imports.push(import?.module.to_owned());
                }
            }
            Payload::ExportSection(section) if depth == 1 => {
                for export in section {
                    names.exports.push(export?.name.to_owned());
                }
            }
            _ => {}
        }
    }
    if functions > MAX_FUNCTIONS {
        return Ok(Err(refuse(
            TooLarge,
            format!("the module has {functions} functions, at most {MAX_FUNCTIONS} are taken"),
        )));
    }
    Ok(Ok(names))
}

/// The contract comes first: a component may export both.
fn component(names: &Names) -> Result<Form, Refusal> {
    let form = match contract(&names.exports) {
        Ok(()) => Form::Component,
        Err(_) if names.exports.iter().any(|name| is_run(name)) => Form::ComponentCommand,
        Err(refusal) => return Err(refusal),
    };
    imports(names.imports.iter().map(String::as_str))?;
    Ok(form)
}

/// A core module without types is linked as it is: its own start code sets up its language's runtime, which an adapter would
/// call into too early (Go).
fn core_command(names: &Names) -> Result<Form, Refusal> {
    if !names.exports.iter().any(|name| name == "_start") {
        return Err(no_contract());
    }
    match names.imports.iter().find(|module| *module != MODULE) {
        Some(module) => Err(unknown_import(module)),
        None => Ok(Form::CoreCommand),
    }
}

fn core(wasm: &[u8], names: &Names) -> Result<Form, Refusal> {
    if !names.typed {
        return core_command(names);
    }
    let world = wit_component::metadata::decode(wasm)
        .map_err(|error| refuse(BadModule, format!("its component-type section: {error:#}")))?
        .1;
    let keys = |map: &mut dyn Iterator<Item = String>| map.collect::<Vec<_>>();
    let of = &world.resolve.worlds[world.world];
    contract(&keys(
        &mut of
            .exports
            .keys()
            .map(|key| world.resolve.name_world_key(key)),
    ))?;
    imports(
        keys(
            &mut of
                .imports
                .keys()
                .map(|key| world.resolve.name_world_key(key)),
        )
        .iter()
        .map(String::as_str),
    )?;
    // What neither the adapter nor the component model's own names satisfy.
    let stray = names.imports.iter().find(|module| {
        !(module.contains(':') || module.starts_with(['[', '$', '_']) || module.as_str() == MODULE)
    });
    match stray {
        Some(module) => Err(unknown_import(module)),
        None => Ok(Form::Core),
    }
}

/// The version of the contract in the name of an export.
fn contract(exports: &[String]) -> Result<(), Refusal> {
    let (package, host) = CONTRACT.split_once('@').unwrap_or((CONTRACT, ""));
    let prefix = format!("{package}/plugin@");
    let mut versions = exports
        .iter()
        .filter_map(|name| name.strip_prefix(prefix.as_str()))
        .peekable();
    if versions.peek().is_none() {
        return Err(no_contract());
    }
    // A plugin may bring several, for hosts of several ages.
    let versions: Vec<&str> = versions.collect();
    if versions.iter().any(|version| same_line(version, host)) {
        return Ok(());
    }
    Err(refuse(
        ContractMismatch,
        format!(
            "the plugin is built against {package}@{}, this host serves {CONTRACT}; use an SDK or a host of the same version",
            versions.join(", ")
        ),
    ))
}

/// Whether an export is the contract's interface in a version that this host serves.
pub(crate) fn is_contract(export: &str) -> bool {
    let (package, host) = CONTRACT.split_once('@').unwrap_or((CONTRACT, ""));
    let version = export
        .strip_prefix(package)
        .and_then(|rest| rest.strip_prefix("/plugin@"));
    version.is_some_and(|version| same_line(version, host))
}

/// Whether an export is the way into a command.
pub(crate) fn is_run(export: &str) -> bool {
    let version = export.strip_prefix("wasi:cli/run@");
    version.is_some_and(|version| same_line(version, "0.2.0"))
}

/// Whether this host serves a contract, by package and version.
pub(crate) fn serves(contract: &str) -> bool {
    let (package, host) = CONTRACT.split_once('@').unwrap_or((CONTRACT, ""));
    let version = contract
        .strip_prefix(package)
        .and_then(|rest| rest.strip_prefix('@'));
    version.is_some_and(|version| same_line(version, host))
}

/// Whether two versions differ in the last number at most: that only ever adds.
fn same_line(version: &str, host: &str) -> bool {
    let line = |text: &str| {
        let (line, patch) = text.rsplit_once('.')?;
        patch
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| line.to_owned())
    };
    line(version).is_some_and(|l| Some(l) == line(host))
}

/// Whether this host satisfies all imports, by the names of their interfaces.
fn imports<'a>(mut imports: impl Iterator<Item = &'a str>) -> Result<(), Refusal> {
    match imports.find(|name| !served(name)) {
        Some(name) => Err(unknown_import(name)),
        None => Ok(()),
    }
}

/// Packages of WASI that exist here; most of what is in them is refused when it is used.
const WASI: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

fn served(import: &str) -> bool {
    let Some((path, version)) = import.split_once('@') else {
        return false;
    };
    let Some((package, interface)) = path.split_once('/') else {
        return false;
    };
    let (contract, host) = CONTRACT.split_once('@').unwrap_or((CONTRACT, ""));
    if package == contract {
        return ["log", "types"].contains(&interface) && same_line(version, host);
    }
    package
        .strip_prefix("wasi:")
        .is_some_and(|name| WASI.contains(&name))
        && same_line(version, "0.2.0")
}

fn unknown_import(name: &str) -> Refusal {
    refuse(
        ContractMismatch,
        format!(
            "the plugin imports `{name}`, which this host does not have: it serves {CONTRACT} and WASI 0.2 without http"
        ),
    )
}

fn no_contract() -> Refusal {
    refuse(
        ContractMismatch,
        format!(
            "the module exports neither the contract {CONTRACT} nor a command's `_start` or `wasi:cli/run`; build it with an SDK, with the WIT, or as a program"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_differs_in_the_last_number_is_served() {
        for (version, served) in [
            ("0.1.0", true),
            ("0.1.9", true),
            ("0.2.0", false),
            ("1.1.0", false),
            ("0.1.0-draft", false),
            ("0.1", false),
        ] {
            assert_eq!(same_line(version, "0.1.0"), served, "{version}");
        }
    }

    #[test]
    fn imports_are_served_by_package_and_version() {
        for name in [
            "wasi:io/streams@0.2.0",
            "wasi:sockets/tcp@0.2.9",
            "guesthouse:reconciler/log@0.1.0",
        ] {
            assert!(served(name), "{name}");
        }
        for name in [
            "wasi:http/types@0.2.0",
            "wasi:io/streams@0.3.0",
            "guesthouse:reconciler/kube@0.1.0",
            "env",
            "wasi:io/streams",
        ] {
            assert!(!served(name), "{name}");
        }
    }
}
