//! The command door: any WASI program is a plugin. The verb is its second argument, an observation stands on its standard
//! input as JSON, the reply on its standard output, and what it says on standard error is the log.
//!
//! An exit code other than 0 is no refusal: it is a failure that asks for a retry, with the end of standard error as its
//! message. So a program that knows nothing of the contract's failures can still say no.

use guesthouse_core::{
    contract::{
        CONTRACT, Cause, Description, Descriptor, Failure, FailureKind, Observation, Reply, Verb,
        cut,
    },
    refusal::{Refusal, RefusalKind::*},
};
use serde::de::DeserializeOwned;
use wasmtime::{
    Engine, InstancePre, Module, Store,
    component::{self, Component, ComponentExportIndex},
};

use crate::{inspect, meter::Stop, refuse::refuse, state::State, wasi::preview1};

/// The reason of a failure that is an exit code.
const FAILED: &str = "CommandFailed";
/// Most of standard error that becomes a failure's message, bytes.
const MAX_WORDS: usize = 900;
/// The argument before the verb: the program's own name.
const PROGRAM: &str = "plugin";

/// A command's code, linked.
#[derive(Clone)]
pub(crate) enum Command {
    /// A core module that exports `_start`.
    Core(InstancePre<State>),
    /// A component that exports `wasi:cli/run`.
    Component(component::InstancePre<State>, ComponentExportIndex),
}

/// A command's instance.
pub(crate) enum Instance {
    Core(wasmtime::Instance),
    Component(component::Instance),
}

impl Command {
    /// A core module's; its imports are satisfied by [`preview1`].
    pub(crate) fn core(engine: &Engine, module: &Module) -> Result<Self, Refusal> {
        let linked =
            preview1::link(engine, module).and_then(|linker| linker.instantiate_pre(module));
        linked.map(Self::Core).map_err(|error| {
            let text = format!("its imports have other types than this host's: {error:#}");
            refuse(ContractMismatch, text)
        })
    }

    /// A component's.
    pub(crate) fn component(
        component: &Component,
        pre: component::InstancePre<State>,
    ) -> Result<Self, Refusal> {
        let ty = component.component_type();
        let name = ty
            .exports(component.engine())
            .map(|(name, _)| name)
            .find(|name| inspect::is_run(name));
        let run = name
            .and_then(|name| component.get_export_index(None, name))
            .and_then(|interface| component.get_export_index(Some(&interface), "run"));
        let run = run
            .ok_or_else(|| refuse(ContractMismatch, "its `wasi:cli/run` has no function `run`"))?;
        Ok(Self::Component(pre, run))
    }

    pub(crate) fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<Instance> {
        match self {
            Self::Core(pre) => pre.instantiate(store).map(Instance::Core),
            Self::Component(pre, _) => pre.instantiate(store).map(Instance::Component),
        }
    }

    /// Runs an instance to its end, and says with which exit code.
    fn run(&self, store: &mut Store<State>, instance: &Instance) -> wasmtime::Result<u32> {
        let ended = match (self, instance) {
            (Self::Component(_, run), Instance::Component(instance)) => instance
                .get_typed_func::<(), (Result<(), ()>,)>(&mut *store, run)
                .and_then(|run| run.call(&mut *store, ()))
                .map(|(result,)| u32::from(result.is_err())),
            (_, Instance::Core(instance)) => instance
                .get_typed_func::<(), ()>(&mut *store, "_start")
                .and_then(|start| start.call(&mut *store, ()))
                .map(|()| 0),
            _ => Err(wasmtime::Error::msg("an instance of another command")),
        };
        match ended {
            Err(error) => match error.downcast_ref::<Stop>() {
                Some(Stop::Exit { code }) => Ok(*code),
                _ => Err(error),
            },
            code => code,
        }
    }

    /// `describe`; the outer error is the runtime's.
    pub(crate) fn describe(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
        output: u64,
    ) -> wasmtime::Result<Result<Descriptor, Refusal>> {
        begin(store, "describe", Vec::new(), output);
        let code = self.run(store, instance)?;
        Ok(described(store.data_mut(), code))
    }

    /// `reconcile` or `finalize`; the outer error is the runtime's.
    pub(crate) fn call(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
        verb: Verb,
        seen: &Observation,
        output: u64,
    ) -> wasmtime::Result<Result<Reply, Refusal>> {
        let verb = match verb {
            Verb::Reconcile => "reconcile",
            Verb::Finalize => "finalize",
        };
        let text = match serde_json::to_vec(seen) {
            Ok(text) => text,
            Err(error) => {
                return Ok(Err(refuse(
                    Host,
                    format!("an observation as JSON: {error}"),
                )));
            }
        };
        begin(store, verb, text, output);
        let code = self.run(store, instance)?;
        Ok(replied(store.data_mut(), code))
    }
}

fn begin(store: &mut Store<State>, verb: &str, input: Vec<u8>, output: u64) {
    let state = store.data_mut();
    state.world.arguments = vec![PROGRAM.to_owned(), verb.to_owned()];
    state.world.input = input.into();
    state.output.capture(output);
}

fn described(state: &mut State, code: u32) -> Result<Descriptor, Refusal> {
    if code != 0 {
        return Err(refuse(Panic, words(state, code)));
    }
    let Description {
        contract,
        descriptor,
    } = read(state, "{\"contract\": …, \"descriptor\": …}")?;
    if contract.is_empty() {
        let text = format!(
            "the plugin names no contract: print {{\"contract\": \"{CONTRACT}\", \"descriptor\": …}}, or the version it was written for"
        );
        return Err(refuse(ContractMismatch, text));
    }
    if !inspect::serves(&contract) {
        let text = format!(
            "the plugin is written for {contract}, this host serves {CONTRACT}; use an SDK or a host of the same version"
        );
        return Err(refuse(ContractMismatch, text));
    }
    Ok(descriptor)
}

fn replied(state: &mut State, code: u32) -> Result<Reply, Refusal> {
    if code == 0 {
        return read(state, "{\"decision\": …} or {\"failure\": …}");
    }
    Ok(Reply::Failure(Failure {
        kind: FailureKind::Retry,
        cause: Cause::new(FAILED, words(state, code)),
        after: None,
        status: None,
        conditions: Vec::new(),
    }))
}

fn words(state: &mut State, code: u32) -> String {
    let words = state.output.last_words();
    if words.is_empty() {
        format!("exit code {code}, and nothing on standard error")
    } else {
        cut(&words, MAX_WORDS).to_owned()
    }
}

/// What stands on standard output; `wanted` says what should.
fn read<T: DeserializeOwned>(state: &mut State, wanted: &str) -> Result<T, Refusal> {
    let bytes = state.output.captured();
    if bytes.iter().all(u8::is_ascii_whitespace) {
        let text = format!("standard output is empty; wanted is {wanted}");
        return Err(refuse(BadOutput, text));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        refuse(
            BadOutput,
            format!("standard output is not {wanted}: {error}"),
        )
    })
}
