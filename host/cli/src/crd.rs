//! `guesthouse crd`: the kinds that a plugin brings, or those of the host.

use std::path::Path;

use anyhow::{Context, Result, bail};
use guesthouse_sandbox::{Plugin, Sandbox, Settings};
use serde_json::Value;

use crate::{args::CrdArgs, exit::Refused, yaml};

pub(crate) fn run(args: &CrdArgs) -> Result<()> {
    let crds = match &args.plugin {
        None => vec![
            guesthouse_operator::journals::crd(),
            guesthouse_operator::mapping_objects::crd(),
        ],
        Some(path) => of_plugin(&load(path)?)?,
    };
    let documents: Vec<String> = crds.iter().map(yaml::print).collect::<Result<_>>()?;
    yaml::out(&documents.join("---\n"))
}

/// Loads a plugin as the host does.
pub(crate) fn load(path: &Path) -> Result<Plugin> {
    let wasm = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let sandbox = Sandbox::new(Settings::default())?;
    let refused = |refusal: guesthouse_core::refusal::Refusal| {
        Refused(format!("{}: {refusal}", path.display()))
    };
    Ok(sandbox.load(&wasm).map_err(refused)?)
}

fn of_plugin(plugin: &Plugin) -> Result<Vec<Value>> {
    let descriptor = plugin.descriptor();
    let crds = descriptor
        .kinds
        .iter()
        .filter_map(|served| served.crd.as_ref());
    let crds: Vec<Value> = crds
        .map(|crd| {
            crd.read()
                .with_context(|| format!("the CustomResourceDefinition in {}", descriptor.name))
        })
        .collect::<Result<_>>()?;
    if crds.is_empty() {
        bail!(
            "the plugin {} brings no CustomResourceDefinition",
            descriptor.name
        );
    }
    Ok(crds)
}

/// The definition a plugin brings for a kind.
pub(crate) fn for_kind(plugin: &Plugin, kind: &guesthouse_core::contract::Kind) -> Option<Value> {
    let served = plugin
        .descriptor()
        .kinds
        .iter()
        .find(|served| served.kind == *kind)?;
    served.crd.as_ref()?.read().ok()
}
