//! Time as a guest sees it: nothing here waits.

use wasmtime::{
    Result, StoreContextMut,
    component::{ComponentType, LinkerInstance, Lower, Resource},
};

use crate::state::State;

/// `wasi:io/poll` `pollable`; its number is one of `World`'s.
pub(super) struct Pollable;

#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

/// What a clock says of its own exactness, nanoseconds.
const RESOLUTION: u64 = 1;

pub(super) fn monotonic(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    instance.func_wrap("now", |store, (): ()| Ok((store.data().world.monotonic,)))?;
    instance.func_wrap("resolution", |_, (): ()| Ok((RESOLUTION,)))?;
    instance.func_wrap("subscribe-instant", |store, (when,): (u64,)| {
        Ok((wait(store, when),))
    })?;
    instance.func_wrap("subscribe-duration", |store, (time,): (u64,)| {
        let when = store.data().world.monotonic.saturating_add(time);
        Ok((wait(store, when),))
    })
}

fn wait(mut store: StoreContextMut<'_, State>, when: u64) -> Resource<Pollable> {
    Resource::new_own(store.data_mut().world.wait_until(when))
}

pub(super) fn wall(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    instance.func_wrap("now", |store, (): ()| {
        // WASI's clock cannot be before 1970.
        Ok((Datetime {
            seconds: u64::try_from(store.data().world.now).unwrap_or(0),
            nanoseconds: 0,
        },))
    })?;
    instance.func_wrap("resolution", |_, (): ()| {
        Ok((Datetime {
            seconds: 1,
            nanoseconds: 0,
        },))
    })
}

pub(super) fn poll(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    instance.func_wrap(
        "[method]pollable.ready",
        |store, (this,): (Resource<Pollable>,)| {
            let world = &store.data().world;
            Ok((world.ready_at(this.rep()) <= world.monotonic,))
        },
    )?;
    instance.func_wrap(
        "[method]pollable.block",
        |mut store, (this,): (Resource<Pollable>,)| {
            store.data_mut().world.poll(&[this.rep()]);
            Ok(())
        },
    )?;
    instance.func_wrap("poll", |mut store, (these,): (Vec<Resource<Pollable>>,)| {
        let numbers: Vec<u32> = these.iter().map(Resource::rep).collect();
        Ok((store.data_mut().world.poll(&numbers),))
    })
}
