//! `guesthouse drain`.

use anyhow::{Context, Result, bail};
use guesthouse_operator::{
    Drained, Released,
    cluster::{Transport, TransportOptions},
};

use crate::args::DrainArgs;

pub(crate) fn run(args: &DrainArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    runtime.block_on(drain(args))
}

async fn drain(args: &DrainArgs) -> Result<()> {
    let transport = Transport::infer(TransportOptions::default()).await?;
    let namespace = match &args.namespace {
        Some(namespace) => namespace.clone(),
        None => transport.default_namespace().to_owned(),
    };
    let (mut all, mut stay) = (0_usize, 0_usize);
    let tell = |drained: Drained| {
        all += 1;
        let (object, mapping) = (drained.object, drained.mapping);
        match drained.result {
            Ok(Released::Kept) => println!("{object} is held by the mapping {mapping}"),
            Ok(Released::Off) => println!("{object} is let go by the mapping {mapping}"),
            Ok(Released::NotOn) => println!("{object} was not held any more"),
            Ok(Released::Gone) => println!("{object} is gone"),
            Err(why) => {
                stay += 1;
                eprintln!("{object} stays: {why}");
            }
        }
    };
    guesthouse_operator::drain(transport, &namespace, &args.mappings, args.dry_run, tell)
        .await
        .with_context(|| format!("reading the journals in {namespace}"))?;
    if all == 0 {
        println!("no object is held in the journals of {namespace}");
    }
    if stay > 0 {
        bail!("{stay} of {all} objects stay; run it again when that is mended");
    }
    Ok(())
}
