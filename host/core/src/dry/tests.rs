use super::*;
use crate::{
    contract::Decision,
    mapping::CheckedMapping,
    outcome::Outcome,
    pass::{Carry, KindFacts, PluginFacts},
    schema::StatusSchema,
};
use serde_json::{Value, json};

const MAPPING: &str = "
for: {apiVersion: g.io/v1, kind: Thing}
plugin: {file: p.wasm}
serviceAccount: a
grants:
  http: [{host: out.example, methods: [PUT]}]
  apply: [{apiVersion: v1, kind: ConfigMap}]
";

/// Runs a plugin that answers these, one call after the other; how it ended, the names of the steps, and the calls.
fn run(finalizes: bool, until: Until, answers: Vec<Value>) -> (Over, Vec<&'static str>, usize) {
    let terms = Terms {
        mapping: Arc::new(CheckedMapping::parse("m", MAPPING, "home").unwrap()),
        digest: "sha256:0".to_owned(),
        kind: KindFacts {
            takes_status: Ok(()),
            schema: StatusSchema::unknown(),
            fingerprint: String::new(),
        },
        plugin: PluginFacts {
            finalizes,
            ..PluginFacts::default()
        },
    };
    let object = json!({
        "apiVersion": "g.io/v1", "kind": "Thing",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 1},
    });
    let begin = Begin {
        key: ObjectKey::new("n", "a"),
        object: Some(Json::of(&object).unwrap()),
        journals: Vec::new(),
        carry: Carry::default(),
        forced: true,
    };
    let world = World::new(object, Vec::new());
    let mut answers = answers.into_iter();
    let (mut run, mut ask) = DryRun::start(Arc::new(terms), begin, world, Nothing, until, Time(0));
    let over = loop {
        match ask {
            Ask::Over(over) => break over,
            Ask::Call(..) => {
                let decision: Decision = serde_json::from_value(answers.next().unwrap()).unwrap();
                ask = run.answer(Ok(Reply::Decision(decision)));
            }
        }
    };
    let steps = run.steps.iter().map(|step| step.action.name()).collect();
    (over, steps, run.replies.len())
}

fn status(phase: &str) -> Value {
    json!({"status": {"replace": {"phase": phase}}})
}

fn child() -> Value {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    json!({"complete": true, "effects": [{"id": "c", "action": {"apply": {"object": object}}}]})
}

#[test]
fn a_run_goes_on_to_the_end_of_the_pass_that_called_the_plugin_or_until_nothing_is_asked_for() {
    let (over, steps, calls) = run(false, Until::Decided, vec![status("Done")]);
    assert!(matches!(over, Over::Ended(end) if end.outcome == Outcome::Applied));
    assert_eq!((steps, calls), (vec!["status"], 1));
    // The finalizer is a pass of its own, before any call.
    let (_, steps, calls) = run(true, Until::Decided, vec![status("Done")]);
    assert_eq!((&steps[..2], calls), (&["journal", "finalizer"][..], 1));
    // A child that was made is another pass; who only wants the decision does not wait for it.
    let (_, _, calls) = run(false, Until::Decided, vec![child()]);
    assert_eq!(calls, 1);
    let (over, steps, calls) = run(false, Until::Settled, vec![child(), child()]);
    assert!(matches!(over, Over::Ended(_)), "{over:?}");
    assert!(steps.contains(&"apply"), "{steps:?}");
    assert_eq!(calls, 2);
}

#[test]
fn a_run_is_over_where_a_request_would_be_sent_and_where_it_never_would_be() {
    let request = json!({"method": "PUT", "url": "https://out.example/x"});
    let send = json!({"effects": [{"id": "s", "action": {"http": {"request": request}}}]});
    let (over, _, _) = run(false, Until::Settled, vec![send]);
    assert!(matches!(over, Over::Sends), "{over:?}");
    // Another child with each call: no pass is the last one.
    let (over, _, calls) = run(
        false,
        Until::Settled,
        (0..MOST_PASSES).map(another).collect(),
    );
    assert!(matches!(over, Over::Endless), "{over:?}");
    assert_eq!(calls, MOST_PASSES);
}

fn another(number: usize) -> Value {
    let mut decision = child();
    decision["effects"][0]["action"]["apply"]["object"]["data"] = json!({"n": number.to_string()});
    decision
}
