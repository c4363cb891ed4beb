//! A finalizer whose mapping gave it another name or another policy.

use serde_json::{Value, json};

use super::{
    driver::{START, with},
    world::key,
};
use crate::{
    contract::{Json, Kind},
    journal::{FinalizerRecord, Journal, Subject},
    mapping::OnRemove,
    object::Uid,
    pass::{Begin, Carry, Pass, PluginFacts, Step, StepAction, StoredJournal, Told},
};

const OLD: &str = "acme.io/old";
const NEW: &str = "guesthouse.dev/report-jobs";

/// A pass of an object with these finalizers, whose journal has `OLD` under `release`.
fn start(members: &str, finalizers: Value) -> (Pass, Step) {
    let kind = Kind {
        api_version: "batch.acme.io/v1".into(),
        kind: "ReportJob".into(),
    };
    let subject = Subject::new(&kind, "ns", "job", &Uid::new("u"));
    let mut journal = Journal::new(subject, "report-jobs");
    journal.finalizer = Some(FinalizerRecord {
        name: OLD.into(),
        on_remove: OnRemove::Release,
        before: None,
    });
    let object = json!({"metadata": {
        "namespace": "ns", "name": "job", "uid": "u", "resourceVersion": "7", "generation": 1, "finalizers": finalizers,
    }});
    let begin = Begin {
        key: key("job"),
        object: Some(Json::of(&object).unwrap()),
        journals: vec![StoredJournal {
            name: "j".into(),
            version: "1".into(),
            journal,
        }],
        carry: Carry::default(),
        forced: false,
    };
    let facts = PluginFacts {
        finalizes: true,
        ..PluginFacts::default()
    };
    Pass::start(with(members, "", facts), begin, START)
}

#[test]
fn a_new_name_is_on_record_with_the_old_one_before_it_takes_its_place() {
    let (mut pass, step) = start("", json!(["others.example/a", OLD]));
    let StepAction::Journal(write) = step.action else {
        panic!("{}", step.action.name());
    };
    let record = write.journal.finalizer.unwrap();
    assert_eq!(record.names().collect::<Vec<_>>(), [NEW, OLD]);
    let step = pass.resume(Told::Journaled(Ok("2".into())), START);
    let StepAction::Finalizer(write) = step.action else {
        panic!("{}", step.action.name());
    };
    let put = json!({"op": "replace", "path": "/metadata/finalizers/1", "value": NEW});
    assert_eq!(write.patch[2], put);
}

#[test]
fn another_policy_is_put_on_record_though_the_finalizer_is_on() {
    let members = format!(", finalizer: {OLD}, onRemove: keep");
    let (mut pass, step) = start(&members, json!([OLD]));
    let StepAction::Journal(write) = step.action else {
        panic!("{}", step.action.name());
    };
    let record = write.journal.finalizer.unwrap();
    assert_eq!(
        (record.on_remove, record.before),
        (OnRemove::Keep, None),
        "{}",
        record.name
    );
    let step = pass.resume(Told::Journaled(Ok("2".into())), START);
    let StepAction::End(end) = step.action else {
        panic!("{}", step.action.name());
    };
    assert!(end.again, "the pass itself is still to be made");
}
