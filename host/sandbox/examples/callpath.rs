//! What one call costs, in its parts: `cargo run --release -p guesthouse-sandbox --example callpath -- PLUGIN.wasm [OBJECT.json]`.
//! Without an object the plugin is shown one of 2 KB that tells the tests' guest to echo it.

use std::time::{Duration, Instant};

use guesthouse_core::{
    contract::{Json, Observation},
    limits::Limits,
};
use guesthouse_sandbox::{Sandbox, Settings, Verb};

const CALLS: usize = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let wasm = std::fs::read(
        args.next()
            .ok_or("usage: callpath PLUGIN.wasm [OBJECT.json]")?,
    )?;
    let object = match args.next() {
        Some(path) => std::fs::read_to_string(path)?,
        None => sample(),
    };
    let sandbox = Sandbox::new(Settings::default())?;
    let began = Instant::now();
    let plugin = sandbox.load(&wasm)?;
    println!(
        "load      {:>8.1} ms, {} bytes",
        began.elapsed().as_secs_f64() * 1e3,
        wasm.len()
    );
    println!("object    {:>8} bytes", object.len());
    let seen = Observation {
        object: Json::parse(object)?,
        related: Vec::new(),
        children: Vec::new(),
        receipts: Vec::new(),
        config: Json::empty_object(),
        mapping: "callpath".into(),
        now: "2026-11-29T21:53:00Z".into(),
        attempt: 0,
        round: 0,
        extensions: Vec::new(),
    };
    let limits = Limits::default();
    let mut parts: [Vec<Duration>; 4] = Default::default();
    for _ in 0..CALLS {
        let start = Instant::now();
        let mut guest = plugin.open(&limits)?;
        let opened = Instant::now();
        let reply = guest.call(Verb::Reconcile, &seen)?;
        let called = Instant::now();
        drop(guest);
        let gone = Instant::now();
        drop(reply);
        for (part, time) in
            parts
                .iter_mut()
                .zip([opened - start, called - opened, gone - called, gone - start])
        {
            part.push(time);
        }
    }
    for (name, mut times) in ["open", "call", "drop", "all"].into_iter().zip(parts) {
        times.sort_unstable();
        let micros = |per_mille: usize| times[times.len() * per_mille / 1000].as_secs_f64() * 1e6;
        println!(
            "{name:<10}{:>8.1} µs median, {:.1} at 99 %",
            micros(500),
            micros(990)
        );
    }
    Ok(())
}

/// An object as a custom resource is: metadata, spec and status.
fn sample() -> String {
    let labels: Vec<String> = (0..10)
        .map(|n| format!(r#""example.com/label-{n}":"value-{n}""#))
        .collect();
    let items: Vec<String> = (0..24)
        .map(|n| format!(r#"{{"name":"item-{n}","size":{n},"ready":true,"note":"as asked for"}}"#))
        .collect();
    format!(
        r#"{{"do":"echo","apiVersion":"example.com/v1","kind":"Sample","metadata":{{"name":"sample","labels":{{{}}}}},"spec":{{"items":[{}]}}}}"#,
        labels.join(","),
        items.join(",")
    )
}
