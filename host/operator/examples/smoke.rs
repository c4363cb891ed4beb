#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]
use guesthouse_core::{identity::Identity, object::ObjectKey};
use guesthouse_operator::cluster::*;
use std::{sync::Arc, time::{Duration, Instant}};
use tokio::sync::mpsc;
fn rss() -> String { std::fs::read_to_string("/proc/self/status").unwrap().lines().filter(|l| l.starts_with("VmRSS") || l.starts_with("VmHWM")).collect::<Vec<_>>().join(" ") }
fn cpu() -> f64 { let s = std::fs::read_to_string("/proc/self/stat").unwrap(); let f: Vec<&str> = s[s.rfind(')').unwrap()+2..].split(' ').collect(); (f[11].parse::<f64>().unwrap()+f[12].parse::<f64>().unwrap())/100.0 }
async fn next(rx: &mut mpsc::UnboundedReceiver<Notice>) -> Event { tokio::time::timeout(Duration::from_secs(60), rx.recv()).await.unwrap().unwrap().event }
async fn until(rx: &mut mpsc::UnboundedReceiver<Notice>, what: &str, f: impl Fn(&Event) -> bool) { loop { let e = next(rx).await; if f(&e) { println!("  {what}: {e:?}"); return; } else { println!("  ({e:?})"); } } }
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let n: usize = std::env::args().nth(1).map_or(0, |v| v.parse().unwrap());
    let t = Transport::infer(TransportOptions::default()).await.unwrap();
    println!("{t:?}");
    let api = Api::new(t.clone());
    let d = Discovery::new(api.clone());
    let host = Identity::Host;
    let crds = d.resolve(&host, "apiextensions.k8s.io/v1", "CustomResourceDefinition").await.unwrap().unwrap();
    println!("crds {} ns={} status={} crd={:?}", crds.plural, crds.namespaced, crds.has_status, crds.crd.is_some());
    let things = Arc::new(Resource { group: "acme.io".into(), version: "v1".into(), kind: "Thing".into(), plural: "things".into(), namespaced: true, has_status: true, crd: None });
    println!("absent: {:?}", d.resolve(&host, "acme.io/v1", "Thing").await);
    let (tx, mut rx) = mpsc::unbounded_channel();
    let make = n > 0 && std::env::args().nth(2).is_none();
    let mut w = if !make && n > 0 { None } else { Some(Watch::spawn(WatchId(1), t.clone(), host.clone(), things.clone(), Scope::namespace("default"), WatchOptions { poll: Duration::from_millis(300), ..Default::default() }, tx.clone())) };
    let crd = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.acme.io"},"spec":{"group":"acme.io","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}}]}}"#;
    if let Some(w) = &mut w {
        if !make { until(&mut rx, "absent", |e| matches!(e, Event::State(KindState::Absent))).await; }
        println!("create crd {:?}", api.create(&host, &crds, "", crd).await.map(|a| a.code));
        until(&mut rx, "active", |e| matches!(e, Event::State(KindState::Active))).await;
        let r = d.resolve(&host, "acme.io/v1", "Thing").await.unwrap().unwrap();
        println!("resolved status={} crd={:?}", r.has_status, r.crd.as_ref().map(|c| (&c.name, c.generation, c.schema.is_some())));
        if n == 0 {
            let a = api.create(&host, &r, "default", r#"{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"n":9007199254740993,"f":1.0,"z":null}}"#).await.unwrap();
            let s = a.stamp().unwrap(); println!("created {} v{}", a.code, s.resource_version);
            until(&mut rx, "changed", |e| matches!(e, Event::Changed { initial: false, .. })).await;
            let key = ObjectKey::new("default", "a");
            println!("raw {}", w.store().get(&key).unwrap().raw());
            println!("again {:?}", api.create(&host, &r, "default", r#"{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{"name":"a"}}"#).await.map(|a| a.code));
            let body = format!(r#"{{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{{"name":"a","uid":"{}","resourceVersion":"{}"}},"status":{{"phase":"Done","bogus":1}}}}"#, s.uid, s.resource_version);
            let st = api.put_status(&host, &r, "default", "a", body.clone(), Want::Metadata).await.unwrap();
            println!("status {} {:?} {}", st.code, st.warnings, st.text().unwrap().len());
            println!("stale {:?}", api.put_status(&host, &r, "default", "a", body, Want::Object).await.map(|a| a.code));
            let p = api.patch(&host, &r, "default", "a", PatchKind::Merge, r#"{"metadata":{"labels":{"x":"y"}}}"#, Want::Object).await.unwrap();
            println!("absorb {:?}", w.store().absorb(&p.body));
            until(&mut rx, "echo", |e| matches!(e, Event::Changed { version, .. } if Some(*version) == p.stamp().unwrap().version())).await;
            println!("apply {:?}", api.patch(&host, &r, "default", "b", PatchKind::Apply { manager: "guesthouse/x", force: true }, r#"{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{"name":"b"},"spec":{}}"#, Want::Metadata).await.map(|a| a.code));
            println!("get missing {:?}", api.get(&host, &r, "default", "zz").await);
            println!("list {:?}", api.list(&host, &r, &Scope::all(), View::Metadata, 1).await.map(|l| (l.items.len(), l.truncated, l.items)));
            println!("wrong uid {:?}", api.delete(&host, &r, "default", "a", Preconditions { uid: Some("nope"), resource_version: None }, Propagation::Background).await.map(|a| a.code));
            println!("delete {:?}", api.delete(&host, &r, "default", "a", Preconditions { uid: Some(&s.uid), resource_version: None }, Propagation::Background).await.map(|a| a.code));
            until(&mut rx, "deleted", |e| matches!(e, Event::Deleted { .. })).await;
            let nss = d.resolve(&host, "v1", "Namespace").await.unwrap().unwrap();
            let (tx2, mut rx2) = mpsc::unbounded_channel();
            let w2 = Watch::spawn(WatchId(2), t.clone(), host.clone(), Arc::new(nss), Scope::all(), WatchOptions::default(), tx2);
            until(&mut rx2, "namespaces", |e| matches!(e, Event::State(KindState::Active))).await;
            println!("ns {:?}", w2.store().keys());
            println!("del crd {:?}", api.delete(&host, &crds, "", "things.acme.io", Preconditions::default(), Propagation::Background).await.map(|a| a.code));
            until(&mut rx, "gone", |e| matches!(e, Event::State(KindState::Gone))).await;
            println!("store {}", w.store().len());
            println!("create crd {:?}", api.create(&host, &crds, "", crd).await.map(|a| a.code));
            until(&mut rx, "active again", |e| matches!(e, Event::State(KindState::Active))).await;
            println!("del crd {:?}", api.delete(&host, &crds, "", "things.acme.io", Preconditions::default(), Propagation::Background).await.map(|a| a.code));
            return;
        }
        let pad = "lorem ipsum dolor sit amet ".repeat(90);
        let mut set = tokio::task::JoinSet::new();
        let t0 = Instant::now();
        for i in 0..n {
            let (api, r, host, pad) = (api.clone(), r.clone(), host.clone(), pad.clone());
            if set.len() >= 32 { set.join_next().await; }
            set.spawn(async move { let mut x = (i as u64 + 1).wrapping_mul(0x9e3779b97f4a7c15); let mut hex = String::new(); for _ in 0..40 { x ^= x << 13; x ^= x >> 7; x ^= x << 17; hex += &format!("{x:016x}"); }
                api.create(&host, &r, "default", format!(r#"{{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{{"name":"t-{i}"}},"spec":{{"pad":"{pad}","hex":"{hex}"}}}}"#)).await.unwrap(); });
        }
        while set.join_next().await.is_some() {}
        println!("created {n} in {:?}", t0.elapsed());
        return;
    }
    println!("before {} cpu {}", rss(), cpu());
    let (c0, t0) = (cpu(), Instant::now());
    let w = Watch::spawn(WatchId(1), t.clone(), host.clone(), things.clone(), Scope::namespace("default"), WatchOptions::default(), tx);
    let mut changed = 0;
    loop { match next(&mut rx).await { Event::Changed { .. } => changed += 1, Event::State(KindState::Active) => break, _ => {} } }
    println!("listed {changed} in {:?} cpu {:.2} {} payload {}", t0.elapsed(), cpu() - c0, rss(), w.store().entries().iter().map(|(_, e)| e.raw().len()).sum::<usize>());
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("settled {}", rss());
}
