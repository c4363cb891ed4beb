//! `guesthouse rollback`.

use anyhow::{Context, Result};
use guesthouse_operator::{
    To,
    cluster::{Transport, TransportOptions},
};

use crate::args::RollbackArgs;

pub(crate) fn run(args: &RollbackArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(rollback(args))
}

async fn rollback(args: &RollbackArgs) -> Result<()> {
    let transport = Transport::infer(TransportOptions::default()).await?;
    let namespace = match &args.namespace {
        Some(namespace) => namespace.clone(),
        None => transport.default_namespace().to_owned(),
    };
    let to = match (&args.to, args.undo) {
        (_, true) => To::Newest,
        (Some(digest), false) => To::Digest(digest),
        (None, false) => To::Before,
    };
    let mapping = &args.mapping;
    let done = guesthouse_operator::rollback(transport, &namespace, mapping, to)
        .await
        .with_context(|| format!("the mapping {mapping} in {namespace}"))?;
    let config_map = &done.config_map;
    match done.digest {
        Some(digest) => println!("mapping/{mapping} pinned to {digest} (configmap/{config_map})"),
        None => println!("mapping/{mapping} follows its source again (configmap/{config_map})"),
    }
    Ok(())
}
