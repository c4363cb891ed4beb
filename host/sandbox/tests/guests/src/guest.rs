//! The behaviours, by name.

#![allow(unsafe_code, missing_docs, unreachable_pub)] // The generated bindings.

use std::{collections::HashMap, hint::black_box, io::Write, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};

wit_bindgen::generate!({ path: "../../../../wit", world: "reconciler" });

use exports::guesthouse::reconciler::plugin::{Decision, Descriptor, Failure, Guest, Observation};
use guesthouse::reconciler::{
    log::{Level, write},
    types::{
        Action, Apply, Body, Cause, Delivery, Effect, Extension, FailureKind, Http, Mode, OnDelete,
        OnImmutable, Ownership, Request, Status,
    },
};

struct Obedient;
export!(Obedient);

impl Guest for Obedient {
    fn describe() -> Descriptor {
        Descriptor {
            name: "obedient".into(),
            version: "1.0.0".into(),
            sdk: String::new(),
            kinds: Vec::new(),
            needs: Vec::new(),
            finalizes: false,
            config_schema: None,
            grants: "{}".into(),
            extensions: Vec::new(),
        }
    }

    fn reconcile(seen: Observation) -> Result<Decision, Failure> {
        obey(seen)
    }

    fn finalize(_: Observation) -> Result<Decision, Failure> {
        Ok(Decision {
            finalized: true,
            ..nothing()
        })
    }
}

fn nothing() -> Decision {
    Decision {
        status: None,
        conditions: Vec::new(),
        labels: Vec::new(),
        annotations: Vec::new(),
        needs: Vec::new(),
        effects: Vec::new(),
        complete: false,
        events: Vec::new(),
        wake: None,
        finalized: false,
        extensions: Vec::new(),
    }
}

fn status(text: impl Into<String>) -> Result<Decision, Failure> {
    Ok(Decision {
        status: Some(Status::Replace(text.into())),
        ..nothing()
    })
}

fn label(name: &str, value: &str) -> (String, Option<String>) {
    (name.into(), Some(value.into()))
}

/// What the object says to do. Read as a real plugin reads: what is not wanted is skipped.
#[derive(Deserialize)]
struct Order<'a> {
    #[serde(rename = "do", default)]
    what: &'a str,
    #[serde(default)]
    n: u64,
}

fn obey(seen: Observation) -> Result<Decision, Failure> {
    let Order { what, n: number } =
        serde_json::from_str(&seen.object).expect("the object is an order");
    match what {
        "" => status(seen.object),
        "echo" => status(seen.object),
        "nothing" => Ok(nothing()),
        "fail" => Err(Failure {
            kind: FailureKind::Retry,
            cause: Cause {
                reason: "Sad".into(),
                message: "no".into(),
            },
            after: Some(7),
            status: Some(Status::Merge("{\"a\":null}".into())),
            conditions: Vec::new(),
        }),
        "everything" => Ok(everything(&seen)),
        "panic" => panic!("boom"),
        "panic after noise" => {
            (0..10_000).for_each(|n| eprintln!("noise {n}"));
            panic!("boom")
        }
        "index" => status(vec![1, 2, 3][number as usize].to_string()),
        "trap" => std::process::abort(),
        "exit" => std::process::exit(number as i32),
        "loop" => loop {
            black_box(());
        },
        "fill" => fill(),
        "sleep" => sleep(number),
        "recurse" => status(recurse(1).to_string()),
        "deep" => status(descend(number).to_string()),
        "eat" => eat(number),
        "try to eat" => try_to_eat(number),
        "print" => print(number),
        "log" => log(number),
        "talk" => talk(),
        "bad status" => status("{\"a\": }"),
        "bad child" => Ok(Decision {
            effects: vec![apply("{")],
            ..nothing()
        }),
        "same label twice" => Ok(Decision {
            labels: vec![label("a", "1"), label("b", "2"), label("a", "3")],
            ..nothing()
        }),
        "same annotation twice" => Ok(Decision {
            annotations: vec![label("x", "1"), label("x", "1")],
            ..nothing()
        }),
        "large" => {
            status(serde_json::to_string(&"x".repeat(number as usize)).expect("a string is JSON"))
        }
        "world" => status(world(&seen.now).to_string()),
        "files" => status(files().to_string()),
        "nan" => status(nan(number).to_string()),
        other => panic!("no behaviour {other}"),
    }
}

fn apply(object: &str) -> Effect {
    Effect {
        id: "child".into(),
        after: Vec::new(),
        action: Action::Apply(Apply {
            object: object.into(),
            ownership: Ownership::Owned,
            mode: Mode::Keep,
            on_immutable: OnImmutable::Fail,
            on_delete: OnDelete::Delete,
            generate: Vec::new(),
        }),
    }
}

/// Gives back all of the observation, in the parts of a decision that carry free text.
fn everything(seen: &Observation) -> Decision {
    let http = Effect {
        id: "send".into(),
        after: vec!["child".into()],
        action: Action::Http(Http {
            request: Request {
                method: "PUT".into(),
                url: "http://example.com/".into(),
                headers: vec![("x".into(), "y".into())],
                body: Body::Bytes(vec![0, 255]),
                credential: None,
                timeout: Some(3),
            },
            delivery: Delivery::AtMostOnce,
            key: Some("k".into()),
            literal_key: None,
        }),
    };
    Decision {
        status: Some(Status::Replace(json!(format!("{seen:?}")).to_string())),
        labels: vec![label("a", "1"), ("b".into(), None)],
        effects: vec![apply("{\"n\":9007199254740993,\"f\":1.0}"), http],
        extensions: vec![Extension {
            name: "e".into(),
            value: "[]".into(),
        }],
        complete: true,
        ..nothing()
    }
}

fn fill() -> ! {
    let mut block = vec![0u8; 32 << 20];
    for byte in (0..=255).cycle() {
        block.fill(byte);
        black_box(&mut block);
    }
    unreachable!("a cycle has no end")
}

fn sleep(seconds: u64) -> Result<Decision, Failure> {
    let began = std::time::Instant::now();
    std::thread::sleep(Duration::from_secs(seconds));
    status(json!({"slept": began.elapsed().as_secs()}).to_string())
}

#[allow(unconditional_recursion)]
fn recurse(n: u64) -> u64 {
    black_box(recurse(black_box(n) + 1)) + 1
}

fn descend(n: u64) -> u64 {
    if n == 0 {
        0
    } else {
        black_box(descend(black_box(n) - 1)) + 1
    }
}

fn eat(mebibytes: u64) -> Result<Decision, Failure> {
    let blocks: Vec<Vec<u8>> = (0..mebibytes).map(|n| vec![n as u8 | 1; 1 << 20]).collect();
    status(json!({"ate": black_box(&blocks).len()}).to_string())
}

fn try_to_eat(mebibytes: u64) -> Result<Decision, Failure> {
    let got = Vec::<u8>::new()
        .try_reserve_exact((mebibytes as usize) << 20)
        .is_ok();
    status(json!({"got": got}).to_string())
}

fn print(lines: u64) -> Result<Decision, Failure> {
    for n in 0..if lines == 0 { u64::MAX } else { lines } {
        if n % 2 == 0 {
            println!("line {n}")
        } else {
            eprintln!("line {n}")
        }
    }
    std::io::stdout()
        .write_all(&[b'x'; 100_000])
        .expect("stdout is never full");
    Ok(nothing())
}

fn log(lines: u64) -> Result<Decision, Failure> {
    for n in 0..if lines == 0 { u64::MAX } else { lines } {
        write(Level::Warn, &format!("line {n}"));
    }
    Ok(nothing())
}

fn talk() -> Result<Decision, Failure> {
    write(Level::Debug, "one");
    println!("two");
    eprintln!("three");
    write(Level::Error, "four\nfive");
    print!("six");
    std::io::stdout().flush().expect("stdout is never full");
    Ok(nothing())
}

/// All that a program can learn about where it runs.
fn world(now: &str) -> Value {
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    let map: HashMap<u32, ()> = (0..100).map(|n| (n, ())).collect();
    json!({
        "now": now,
        "wall": wall,
        "hashes": map.keys().collect::<Vec<_>>(),
        "environment": std::env::vars().count(),
        "arguments": std::env::args().count(),
    })
}

fn files() -> Value {
    let error = |result: std::io::Result<()>| result.err().map(|error| error.kind().to_string());
    let mut line = String::new();
    json!({
        "read": error(std::fs::read("/etc/passwd").map(drop)),
        "write": error(std::fs::write("x", "y")),
        "list": error(std::fs::read_dir(".").map(drop)),
        "stdin": std::io::stdin().read_line(&mut line).ok(),
    })
}

/// A NaN that a machine would give a sign or a payload of its own.
fn nan(n: u64) -> Value {
    let zero = black_box(n as f64 * 0.0);
    let made = [
        zero / zero,
        -(zero / zero),
        f64::INFINITY - f64::INFINITY + zero,
        (black_box(-1.0) - zero).sqrt(),
    ];
    json!(made.map(|nan| format!("{:x}", nan.to_bits())))
}
