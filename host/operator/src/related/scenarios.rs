//! Related objects against the scripted server: who shares a watch, who is woken, and what is answered when there is no
//! answer.

use std::collections::{BTreeSet, VecDeque};

use guesthouse_core::{
    contract::{Answer, View},
    needs::{Namespaces, ReadSource, Reading},
    object::ObjectKey,
    pass::{ChildRef, Found, Gathered},
};

use super::*;
use crate::cluster::{
    TransportOptions,
    scripted::{PATIENCE, Reply, Scripted},
};

mod children;
mod kinds;
mod readings;

const KIND: &str = "/apis/acme.io/v1";
const ALL: &str = "/apis/acme.io/v1/things";
const NS: &str = "/apis/acme.io/v1/namespaces/ns/things";

/// A kind as discovery tells it: kind, plural, whether namespaced.
type Served = (&'static str, &'static str, bool);
const THINGS: Served = ("Thing", "things", true);

/// What the server was asked and what it answers.
#[derive(Default)]
struct Script {
    kinds: Vec<Served>,
    /// Replies to the next requests of these lines; what has none is held open.
    replies: VecDeque<(String, Reply)>,
    asked: Vec<String>,
}

struct Play {
    related: Related,
    wakes: UnboundedReceiver<Wake>,
    script: Arc<Mutex<Script>>,
    server: Scripted,
}

/// A request in one line: path, field selector, label selector, and `metadata` where no more is asked for.
fn line(seen: &crate::cluster::scripted::Seen) -> String {
    let mut line = seen.path.clone();
    for parameter in ["fieldSelector", "labelSelector"] {
        if let Some(value) = seen.param(parameter) {
            line.push_str(&format!(" {value}"));
        }
    }
    let metadata = seen
        .header("accept")
        .is_some_and(|accept| accept.contains("PartialObjectMetadata"));
    line + if metadata { " metadata" } else { "" }
}

impl Play {
    async fn new(options: RelatedOptions) -> Self {
        let script = Arc::new(Mutex::new(Script {
            kinds: vec![THINGS, ("World", "worlds", false)],
            ..Script::default()
        }));
        let shared = script.clone();
        let server = Scripted::answer(move |seen| {
            let mut script = shared.lock().unwrap();
            let line = line(seen);
            script.asked.push(line.clone());
            if line == KIND {
                return Some(discovery(&script.kinds));
            }
            let at = script.replies.iter().position(|(to, _)| *to == line)?;
            script.replies.remove(at).map(|(_, reply)| reply)
        })
        .await;
        let transport = server.transport(TransportOptions::default());
        let outgoing = Outgoing::new(4).unwrap();
        let credentials = Credentials::new(Api::new(transport.clone()), "host");
        let (related, wakes) = Related::start(
            transport,
            Arc::new(outgoing),
            Arc::new(credentials),
            options,
        );
        Self {
            related,
            wakes,
            script,
            server,
        }
    }

    /// Delays so short that no test waits for them; a first list is waited for as long as for anything.
    async fn quick() -> Self {
        Self::new(options()).await
    }

    fn reply(&self, to: &str, reply: Reply) {
        let to = to.to_owned();
        self.script.lock().unwrap().replies.push_back((to, reply));
    }

    /// From now on the server serves these kinds alone.
    fn serves(&self, kinds: &[Served]) {
        self.script.lock().unwrap().kinds = kinds.to_vec();
    }

    /// Requests for objects, in order.
    fn asked(&self) -> Vec<String> {
        let script = self.script.lock().unwrap();
        let asked = script.asked.iter().filter(|line| *line != KIND);
        asked.cloned().collect()
    }

    fn discoveries(&self) -> usize {
        let script = self.script.lock().unwrap();
        script.asked.iter().filter(|line| *line == KIND).count()
    }

    /// The next wake, as mapping numbers.
    async fn woken(&mut self) -> Vec<u32> {
        let wake = tokio::time::timeout(PATIENCE, self.wakes.recv());
        let Wake(keys) = wake.await.expect("a wake that never came").unwrap();
        keys.iter().map(|key| key.mapping.0).collect()
    }

    async fn gather(&self, of: u32, reads: &Gather) -> Gathered {
        self.related.gather(&reader(&key(of)), reads).await
    }

    /// The names of a single reading's objects, or its trouble's reason.
    async fn read(&self, of: u32, reading: &Reading) -> String {
        let reads = needs_of(std::slice::from_ref(reading));
        let gathered = self.gather(of, &reads).await;
        self.related.subscribe(&reader(&key(of)), &reads);
        names(&gathered.answers[0])
    }

    fn targets(&self) -> BTreeSet<String> {
        let targets = self.related.shared.table().targets();
        targets
            .into_iter()
            .map(|(target, users)| format!("{} {:?} {users}", target.namespace, target.pick))
            .collect()
    }
}

fn options() -> RelatedOptions {
    RelatedOptions {
        wait: PATIENCE,
        grace: PATIENCE,
        poll: Duration::from_millis(1),
        tick: Duration::from_millis(1),
        watch: WatchOptions {
            idle: PATIENCE,
            poll: Duration::from_millis(1),
            backoff: Duration::from_millis(1),
            backoff_max: Duration::from_millis(4),
            ..WatchOptions::default()
        },
    }
}

/// The key of a mapping's object `ns/parent`; tests tell keys apart by the mapping's number.
fn key(of: u32) -> Key {
    Key {
        mapping: MappingId(of),
        object: ObjectKey::new("ns", "parent"),
    }
}

fn reader(key: &Key) -> Reader<'_> {
    Reader {
        key,
        identity: &Identity::Host,
        confined: false,
    }
}

fn confined(key: &Key) -> Reader<'_> {
    Reader {
        confined: true,
        ..reader(key)
    }
}

fn thing() -> Kind {
    Kind {
        api_version: "acme.io/v1".into(),
        kind: "Thing".into(),
    }
}

fn by_name(name: &str) -> Reading {
    Reading {
        name: name.into(),
        source: ReadSource::Object {
            kind: thing(),
            namespace: "ns".into(),
            name: name.into(),
        },
        view: View::Full,
        limit: 10,
    }
}

fn by_label(labels: &str) -> Reading {
    Reading {
        name: labels.into(),
        source: ReadSource::Selected {
            kind: thing(),
            namespaces: Namespaces::These(vec!["ns".into()]),
            labels: labels.into(),
        },
        view: View::Full,
        limit: 10,
    }
}

fn needs_of(readings: &[Reading]) -> Gather {
    Gather {
        readings: readings.to_vec(),
        children: vec![],
    }
}

fn children_of(names: &[&str]) -> Gather {
    let child = |name: &&str| ChildRef {
        kind: thing(),
        namespace: "ns".into(),
        name: (*name).into(),
        marked: true,
    };
    Gather {
        readings: vec![],
        children: names.iter().map(child).collect(),
    }
}

fn names(answer: &Answer) -> String {
    match answer {
        Answer::Objects(objects) => {
            let name = |item: &Json| Head::parse(item.as_str()).unwrap().name.into_owned();
            objects.items.iter().map(name).collect::<Vec<_>>().join(" ")
        }
        Answer::Unavailable(cause) => cause.reason.clone(),
        Answer::Response(response) => response.code.to_string(),
    }
}

fn discovery(kinds: &[(&str, &str, bool)]) -> Reply {
    if kinds.is_empty() {
        return Reply::json(404, "404 page not found");
    }
    let served = |(kind, plural, namespaced): &(&str, &str, bool)| {
        format!(r#"{{"name":"{plural}","kind":"{kind}","namespaced":{namespaced}}}"#)
    };
    let served: Vec<_> = kinds.iter().map(served).collect();
    Reply::json(200, &format!(r#"{{"resources":[{}]}}"#, served.join(",")))
}

/// An object with the labels `l` (a value) and the owner mark.
fn marked(name: &str, version: u64, label: &str, mark: &str) -> String {
    let mark = if mark.is_empty() {
        String::new()
    } else {
        format!(r#","guesthouse.dev/owner":"{mark}""#)
    };
    format!(
        r#"{{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{{"name":"{name}","namespace":"ns","uid":"u-{name}","resourceVersion":"{version}","labels":{{"l":"{label}"{mark}}}}}}}"#
    )
}

fn object(name: &str, version: u64) -> String {
    marked(name, version, "a", "mark")
}

fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

fn end_of_list() -> String {
    let bookmark = r#"{"kind":"Thing","metadata":{"resourceVersion":"50","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
    event("BOOKMARK", bookmark)
}

/// A streamed list of these objects as of version 50; what comes after it is live.
fn listing(objects: &[String]) -> Reply {
    objects
        .iter()
        .fold(Reply::watch(), |reply, object| {
            reply.line(&event("ADDED", object))
        })
        .line(&end_of_list())
}
