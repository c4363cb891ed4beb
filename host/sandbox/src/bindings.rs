//! The contract's types as the runtime passes them, generated from `wit/`. Observations go in borrowed: an object's text is
//! copied once, into the guest's memory.

#![allow(missing_docs, unreachable_pub, clippy::all)]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "reconciler",
    ownership: Borrowing { duplicate_if_necessary: true },
});

pub(crate) use guesthouse::reconciler::{log::Level, types};

use guesthouse_core::refusal::{Refusal, RefusalKind::ContractMismatch};
use wasmtime::{
    Result, Store,
    component::{Component, ComponentExportIndex, Instance, InstancePre, TypedFunc},
};

use crate::{inspect, refuse::refuse, state::State};

/// Where the contract's functions are in a component, looked up once. The generated bindings check the types of all three
/// functions in every instance, which takes longer than the rest of opening one; here only the one that is called is checked.
#[derive(Clone)]
pub(crate) struct Exports {
    pre: InstancePre<State>,
    describe: ComponentExportIndex,
    reconcile: ComponentExportIndex,
    finalize: ComponentExportIndex,
}

/// `reconcile` and `finalize`.
pub(crate) type Handler<'a> =
    TypedFunc<(types::Observation<'a>,), (std::result::Result<types::Decision, types::Failure>,)>;

impl Exports {
    /// Finds the functions of the contract's version that this host serves.
    pub(crate) fn find(
        component: &Component,
        pre: InstancePre<State>,
    ) -> std::result::Result<Self, Refusal> {
        let missing = |what: &str| {
            refuse(
                ContractMismatch,
                format!("the plugin does not export {what}"),
            )
        };
        let ty = component.component_type();
        let name = ty
            .exports(component.engine())
            .map(|(name, _)| name)
            .find(|name| inspect::is_contract(name));
        let plugin = name
            .and_then(|name| component.get_export_index(None, name))
            .ok_or_else(|| missing("the contract"))?;
        let find = |name: &str| {
            component
                .get_export_index(Some(&plugin), name)
                .ok_or_else(|| missing(name))
        };
        Ok(Self {
            describe: find("describe")?,
            reconcile: find("reconcile")?,
            finalize: find("finalize")?,
            pre,
        })
    }

    pub(crate) fn instantiate(&self, store: &mut Store<State>) -> Result<Instance> {
        self.pre.instantiate(store)
    }

    pub(crate) fn describe(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
    ) -> Result<TypedFunc<(), (types::Descriptor,)>> {
        // All three, since this is the one call of a load: a plugin with a wrong type is never published.
        self.handler(store, instance, crate::Verb::Reconcile)?;
        self.handler(store, instance, crate::Verb::Finalize)?;
        instance.get_typed_func(store, &self.describe)
    }

    pub(crate) fn handler<'a>(
        &self,
        store: &mut Store<State>,
        instance: &Instance,
        verb: crate::Verb,
    ) -> Result<Handler<'a>> {
        let function = match verb {
            crate::Verb::Reconcile => &self.reconcile,
            crate::Verb::Finalize => &self.finalize,
        };
        instance.get_typed_func(store, function)
    }
}

impl From<Level> for crate::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}
