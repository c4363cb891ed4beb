//! A plugin without an SDK: the verb is the second argument, JSON goes in and out. What it does stands in `object.do`.

#![allow(clippy::unwrap_used, clippy::panic)] // It is there to misbehave.

use std::{
    hash::{BuildHasher, RandomState},
    hint::black_box,
    io::{Read, Write},
    process::exit,
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).unwrap();
    match arguments[1].as_str() {
        "describe" => print(&json!({
            "contract": "guesthouse:reconciler@0.1.0",
            "descriptor": {"name": "command", "version": "1.0.0", "finalizes": true},
        })),
        "finalize" => print(&json!({"decision": {"finalized": true}})),
        "reconcile" => obey(&arguments, &input),
        other => panic!("there is no verb {other}"),
    }
}

fn print(value: &Value) {
    println!("{value}");
}

fn status(value: Value) {
    print(&json!({"decision": {"status": {"replace": value}}}));
}

fn obey(arguments: &[String], input: &str) {
    let seen: Value = serde_json::from_str(input).unwrap();
    let object = &seen["object"];
    let n = usize::try_from(object["n"].as_u64().unwrap_or(0)).unwrap();
    let text = object["text"].as_str().unwrap_or_default();
    match object["do"].as_str().unwrap() {
        "nothing" => print(&json!({"decision": {}})),
        "print" => println!("{text}"),
        "silence" => {}
        "exit" => {
            eprintln!("{text}");
            exit(i32::try_from(n).unwrap());
        }
        "exit in silence" => exit(3),
        "exit after the reply" => {
            print(&json!({"decision": {}}));
            exit(0);
        }
        "panic" => panic!("{text}"),
        "flood" => status(json!({"flood": "x".repeat(n)})),
        "chatter" => {
            (0..n).for_each(|_| eprintln!("{text}"));
            print(&json!({"decision": {}}));
        }
        "loop" => loop {
            black_box(());
        },
        "eat" => {
            let all: Vec<Vec<u8>> = (0..n).map(|_| black_box(vec![1; 1 << 20])).collect();
            status(json!({"ate": all.len()}));
        }
        "recurse" => {
            black_box(deeper(1));
        }
        "sleep" => {
            let before = Instant::now();
            std::thread::sleep(Duration::from_secs(3600));
            status(json!({"slept": before.elapsed().as_secs()}));
        }
        "world" => status(world(arguments)),
        other => panic!("there is nothing to do called {other}"),
    }
}

/// All that a program can ask of the world around it.
fn world(arguments: &[String]) -> Value {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let file = std::fs::File::open("/etc/hostname").map(|_| ());
    let error = |result: std::io::Result<()>| result.err().map(|error| error.kind().to_string());
    json!({
        "arguments": arguments, "environment": std::env::vars().count(), "now": now.unwrap().as_secs(),
        "random": RandomState::new().hash_one(1), "file": error(file),
        "flush": error(std::io::stdout().flush()),
    })
}

#[allow(unconditional_recursion)]
fn deeper(depth: u64) -> u64 {
    black_box(deeper(depth + 1)) + depth
}
