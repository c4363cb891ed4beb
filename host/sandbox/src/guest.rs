//! One call: a store, an instance and their end. What a guest did or left behind never reaches another call.

use std::time::Duration;

use guesthouse_core::{
    contract::{Descriptor, Observation, Reply, Verb},
    limits::Limits,
    refusal::{Refusal, RefusalKind},
};
use wasmtime::{Store, component};

use crate::{
    LogLine, Metering, Plugin, command, convert, meter,
    plugin::Code,
    refuse::{ended, not_opened, refuse},
    slots::Slot,
    state::State,
};

/// All that came of one call.
#[derive(Clone, Debug)]
pub struct Called {
    /// The reply, or why there is none.
    pub result: Result<Reply, Refusal>,
    /// What the guest said, in order.
    pub logs: Vec<LogLine>,
    /// Lines over the limit.
    pub dropped_logs: u64,
    /// What the call took.
    pub used: Used,
}

/// What a call took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Most bytes of memories and tables at once.
    pub memory_peak: u64,
    /// From open to the reply, by the clock.
    pub elapsed: Duration,
    /// Instructions, where they are counted.
    pub fuel: Option<u64>,
}

/// Store handles a guest may hold at once; a Python plugin holds a few dozen.
const MAX_HANDLES: usize = 1000;

/// An instance of either door's code.
enum Instance {
    Contract(component::Instance),
    Command(command::Instance),
}

/// A running instance, good for one call.
pub struct Guest {
    // In the order in which they go: the instance before the slot it sits in.
    store: Store<State>,
    instance: Instance,
    limits: Limits,
    metering: Metering,
    spent: bool,
    _slot: Slot,
    code: Code,
}

impl Guest {
    pub(crate) fn open(plugin: Plugin, limits: &Limits) -> Result<Self, Refusal> {
        let host = &plugin.0.host;
        // Before a slot is taken: bringing code back takes a while.
        let code = plugin.code()?;
        let slot = host.slots.take();
        let metering = host.settings.metering;
        let mut store = Store::new(&host.engine, State::new(limits));
        store.set_hostcall_fuel(usize::try_from(limits.output.0).unwrap_or(usize::MAX));
        store.set_max_component_handles(MAX_HANDLES);
        let instance = meter::arm(&mut store, metering, limits).and_then(|()| match &code {
            Code::Contract(exports) => exports.instantiate(&mut store).map(Instance::Contract),
            Code::Command(command) => command.instantiate(&mut store).map(Instance::Command),
        });
        match instance {
            Ok(instance) => Ok(Self {
                store,
                instance,
                limits: limits.clone(),
                metering,
                spent: false,
                _slot: slot,
                code,
            }),
            Err(error) => Err(not_opened(&error, store.data_mut(), limits)),
        }
    }

    /// The call. A guest serves one; a second is refused.
    pub fn call(&mut self, verb: Verb, seen: &Observation) -> Result<Reply, Refusal> {
        self.spend()?;
        let now = seen.now.parse::<jiff::Timestamp>().map_err(|error| {
            refuse(
                RefusalKind::Host,
                format!("observation.now `{}` is not a time: {error}", seen.now),
            )
        })?;
        self.store.data_mut().world.now = now.as_second();
        let (store, output) = (&mut self.store, self.limits.output.0);
        let replied = match (&self.code, &self.instance) {
            (Code::Contract(exports), Instance::Contract(instance)) => {
                let function = exports.handler(store, instance, verb);
                let function =
                    function.map_err(|error| not_opened(&error, store.data_mut(), &self.limits))?;
                let reply = convert::with_observation(seen, |seen| function.call(store, (seen,)));
                reply.map(|(reply,)| convert::reply(reply))
            }
            (Code::Command(command), Instance::Command(instance)) => {
                command.call(store, instance, verb, seen, output)
            }
            _ => return Err(two_doors()),
        };
        replied.unwrap_or_else(|error| Err(ended(&error, self.store.data_mut(), &self.limits)))
    }

    /// Asks the plugin to describe itself.
    pub(crate) fn describe(&mut self) -> Result<Descriptor, Refusal> {
        self.spend()?;
        let (store, output) = (&mut self.store, self.limits.output.0);
        let described = match (&self.code, &self.instance) {
            (Code::Contract(exports), Instance::Contract(instance)) => {
                let function = exports.describe(store, instance);
                let function =
                    function.map_err(|error| not_opened(&error, store.data_mut(), &self.limits))?;
                let described = function.call(store, ());
                described.map(|(descriptor,)| convert::descriptor(descriptor))
            }
            (Code::Command(command), Instance::Command(instance)) => {
                command.describe(store, instance, output)
            }
            _ => return Err(two_doors()),
        };
        described.unwrap_or_else(|error| Err(ended(&error, self.store.data_mut(), &self.limits)))
    }

    /// The result of [`Self::call`] with what the guest said and used; ends the guest.
    pub fn finish(mut self, result: Result<Reply, Refusal>) -> Called {
        let fuel = match self.metering {
            Metering::Epoch => None,
            Metering::Fuel => self
                .store
                .get_fuel()
                .ok()
                .map(|left| meter::fuel(&self.limits).saturating_sub(left)),
        };
        let state = self.store.data_mut();
        let used = Used {
            memory_peak: state.meter.peak(),
            elapsed: state.meter.elapsed(),
            fuel,
        };
        let (logs, dropped_logs) = state.output.finish();
        Called {
            result,
            logs,
            dropped_logs,
            used,
        }
    }

    fn spend(&mut self) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.spent, true) {
            return Err(refuse(
                RefusalKind::Host,
                "a guest serves one call; open another",
            ));
        }
        Ok(())
    }
}

/// An instance is of its own plugin's code; this says so if it ever were not.
fn two_doors() -> Refusal {
    refuse(
        RefusalKind::Host,
        "an instance of the one door's code was entered by the other",
    )
}
