//! What is there only so that a plugin links: files, sockets and whatever a later WASI 0.2.z adds.

use wasmtime::{
    Result,
    component::{
        LinkerInstance, ResourceType, Type, Val,
        types::{ComponentFunc, ComponentItem},
    },
};

use super::{clock, io};
use crate::{meter::Stop, state::State};

/// Any resource that cannot come into being here.
struct Absent;

/// Defines `item` of `interface` so that its use is refused.
pub(super) fn define(
    instance: &mut LinkerInstance<'_, State>,
    interface: &str,
    item: &str,
    ty: &ComponentItem,
) -> Result<()> {
    match ty {
        ComponentItem::ComponentFunc(func) => function(instance, interface, item, func),
        ComponentItem::Resource(_) => resource(instance, item),
        // Types need no definition; modules and components cannot be in an interface.
        _ => Ok(()),
    }
}

fn function(
    instance: &mut LinkerInstance<'_, State>,
    interface: &str,
    item: &str,
    func: &ComponentFunc,
) -> Result<()> {
    let stop = Stop::Used(what(interface));
    let answer = denial(func);
    instance.func_new(item, move |_, _, _, results| match (&answer, results) {
        (Some(answer), [result]) => {
            *result = answer.clone();
            Ok(())
        }
        _ => Err(stop.into()),
    })
}

/// The interface in a user's words.
fn what(interface: &str) -> &'static str {
    if interface.starts_with("wasi:sockets/") {
        "the network"
    } else if interface.starts_with("wasi:filesystem/") {
        "files"
    } else {
        "a part of WASI"
    }
}

/// An answer that says no, if the function's type has one: the guest may then go another way.
fn denial(func: &ComponentFunc) -> Option<Val> {
    let mut results = func.results();
    match (results.next()?, results.next()) {
        // `filesystem-error-code`: an error of a stream is never one of files.
        (Type::Option(_), None) => Some(Val::Option(None)),
        (Type::Result(result), None) => {
            let Some(Type::Enum(codes)) = result.err() else {
                return None;
            };
            let code = codes
                .names()
                .find(|name| ["access-denied", "access"].contains(name))?
                .to_owned();
            Some(Val::Result(Err(Some(Box::new(Val::Enum(code))))))
        }
        _ => None,
    }
}

/// A resource by its name. Names are unique over WASI 0.2, and one resource is known by the same name wherever it is used.
fn resource(instance: &mut LinkerInstance<'_, State>, name: &str) -> Result<()> {
    let ty = match name {
        "pollable" => ResourceType::host::<clock::Pollable>(),
        "input-stream" => ResourceType::host::<io::InputStream>(),
        "output-stream" => ResourceType::host::<io::OutputStream>(),
        "error" => ResourceType::host::<io::IoError>(),
        "terminal-input" => ResourceType::host::<io::TerminalInput>(),
        "terminal-output" => ResourceType::host::<io::TerminalOutput>(),
        _ => ResourceType::host::<Absent>(),
    };
    let waits = name == "pollable";
    instance.resource(name, ty, move |mut store, number| {
        if waits {
            store.data_mut().world.forget(number);
        }
        Ok(())
    })
}

/// `wasi:filesystem/preopens`: no directory is open.
pub(super) fn no_directories(instance: &mut LinkerInstance<'_, State>) -> Result<()> {
    instance.func_new("get-directories", |_, _, _, results| {
        if let [result] = results {
            *result = Val::List(Vec::new());
        }
        Ok(())
    })
}
