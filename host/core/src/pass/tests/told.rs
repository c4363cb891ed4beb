//! Whatever a driver tells, a pass neither panics nor goes on for ever.

use proptest::prelude::*;
use serde_json::json;

use super::{
    driver::{START, with},
    families::{child, config, need},
    plugins::effect,
    world::key,
};
use crate::{
    contract::{
        Answer, Body, Cause, Decision, Failure, FailureKind, Json, Mode, Objects, OnDelete,
        OnImmutable, Ownership, Reply, Response, Status, Wake,
    },
    pass::{
        Begin, Carry, Found, Gathered, Looked, Pass, PluginFacts, Sent, StepAction, Told,
        WriteError,
    },
    refusal::{Refusal, RefusalKind},
    units::Span,
};

fn json_text() -> impl Strategy<Value = Json> {
    let object = |uid: &str, version: &str, generation: i64| {
        Json::of(&json!({"metadata": {"namespace": "ns", "name": "job", "uid": uid, "resourceVersion": version, "generation": generation}, "status": {"phase": "x"}})).unwrap()
    };
    prop_oneof![
        6 => (1..9u32).prop_map(move |version| object("u", &version.to_string(), 1)),
        2 => (1..4i64).prop_map(move |generation| object("u", "7", generation)),
        1 => Just(object("other", "9", 1)),
        3 => Just(Json::trusted(r#"{"metadata":{"namespace":"ns","name":"job","uid":"u","resourceVersion":"8","generation":2,"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["guesthouse.dev/report-jobs"]},"status":{}}"#)),
        1 => Just(Json::trusted(r#"{"metadata":{"namespace":"ns","name":"job","uid":"u","resourceVersion":"8","generation":1,"labels":{"off":"1"},"finalizers":["guesthouse.dev/report-jobs"]}}"#)),
        1 => Just(Json::trusted(r#"{"metadata":{"namespace":"ns","name":"job","uid":"u","resourceVersion":"8","generation":1,"finalizers":["guesthouse.dev/report-jobs"]}}"#)),
        1 => Just(Json::trusted("{}")),
        1 => Just(Json::trusted("no json")),
        1 => Just(Json::trusted(r#"{"metadata":{"uid":"u"},"status":{"conditions":7}}"#)),
    ]
}

fn write_error() -> impl Strategy<Value = WriteError> {
    prop_oneof![
        3 => Just(WriteError::Conflict),
        1 => Just(WriteError::NotFound),
        1 => Just(WriteError::Invalid("i".into())),
        1 => Just(WriteError::Forbidden("f".into())),
        1 => Just(WriteError::Refused("r".into())),
        1 => Just(WriteError::Invalid("field is immutable".into())),
        1 => Just(WriteError::NoSuchKind("k".into())),
        1 => any::<Option<u64>>().prop_map(|span| WriteError::Unavailable { message: "u".into(), retry_after: span.map(Span) }),
    ]
}

fn answered<T: std::fmt::Debug>(
    good: impl Strategy<Value = T>,
) -> impl Strategy<Value = Result<T, WriteError>> {
    prop_oneof![3 => good.prop_map(Ok), 1 => write_error().prop_map(Err)]
}

fn decision() -> impl Strategy<Value = Decision> {
    let sends = proptest::collection::vec(
        (
            "[ab]",
            proptest::option::of("[12]"),
            "http://(exporter|elsewhere)/",
        ),
        0..3,
    );
    let status = proptest::option::of(prop_oneof![
        Just("{}"),
        Just("[]"),
        Just(r#"{"phase":"y"}"#)
    ]);
    let wake = proptest::option::of(prop_oneof![
        any::<u32>().prop_map(Wake::After),
        Just(Wake::At("1970-01-01T00:00:00Z".into())),
        Just(Wake::At("never".into())),
    ]);
    let children = proptest::collection::vec(applied(), 0..4);
    let needs = proptest::collection::vec("[xyz]", 0..3);
    let flags = (any::<bool>(), any::<bool>(), proptest::bool::weighted(0.3));
    (sends, status, wake, flags, children, needs).prop_map(
        |(sends, status, wake, (label, complete, finalized), children, needs)| Decision {
            effects: sends
                .into_iter()
                .map(|(id, key, url)| effect(&id, key.as_deref(), &url))
                .chain(children)
                .collect(),
            complete,
            finalized,
            needs: needs.iter().map(|name| need(name, name)).collect(),
            status: status.map(|text| Status::Replace(Json::trusted(text))),
            labels: label
                .then(|| ("l".to_owned(), Some("v".to_owned())))
                .into_iter()
                .collect(),
            wake,
            ..Decision::default()
        },
    )
}

/// A child of any kind of wish; ids and places meet often.
fn applied() -> impl Strategy<Value = crate::contract::Effect> {
    let ownership = prop_oneof![Just(Ownership::Owned), Just(Ownership::Adopt)];
    let mode = prop_oneof![Just(Mode::Keep), Just(Mode::Once)];
    let immutable = prop_oneof![Just(OnImmutable::Fail), Just(OnImmutable::Recreate)];
    let delete = prop_oneof![Just(OnDelete::Delete), Just(OnDelete::Orphan)];
    let how = (ownership, mode, immutable, delete);
    ("[cd]", "[efgh]", any::<bool>(), any::<bool>(), how).prop_map(
        |(id, name, far, later, (ownership, mode, on_immutable, on_delete))| {
            let mut object = config(&name, json!(1));
            if far {
                object["metadata"]["namespace"] = "other".into();
            }
            let after: &[&str] = if later && id == "d" { &["c"] } else { &[] };
            child(&id, after, object, |apply| {
                (apply.ownership, apply.mode) = (ownership, mode);
                (apply.on_immutable, apply.on_delete) = (on_immutable, on_delete);
            })
        },
    )
}

/// What stands where a child is to be: ours by one of two marks, somebody else's, on its way out, or no object at all.
fn standing() -> impl Strategy<Value = Option<Json>> {
    let mark = crate::children::owner_mark("report-jobs", &crate::object::Uid::new("u"));
    let ours = move |uid: &str, going: bool| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e", "namespace": "ns", "uid": uid, "resourceVersion": "3", "labels": {"guesthouse.dev/owner": mark}}});
        if going {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Some(Json::of(&object).unwrap())
    };
    prop_oneof![
        Just(None),
        ("[12]", proptest::bool::weighted(0.2)).prop_map(move |(uid, going)| ours(&uid, going)),
        Just(Some(Json::trusted(r#"{"metadata":{"uid":"9"}}"#))),
        Just(Some(Json::trusted("no json"))),
    ]
}

fn reply() -> impl Strategy<Value = Result<Reply, Refusal>> {
    let failure = (any::<bool>(), "[A-Za-z ]{0,3}", any::<Option<u32>>()).prop_map(
        |(retry, reason, after)| {
            Reply::Failure(Failure {
                kind: if retry {
                    FailureKind::Retry
                } else {
                    FailureKind::Terminal
                },
                cause: Cause::new(reason, "m"),
                after,
                status: None,
                conditions: Vec::new(),
            })
        },
    );
    prop_oneof![
        6 => decision().prop_map(|decision| Ok(Reply::Decision(decision))),
        1 => failure.prop_map(Ok),
        1 => Just(Err(Refusal::new(RefusalKind::Trap, "t"))),
    ]
}

fn sent() -> impl Strategy<Value = Sent> {
    let response = |code| Response {
        code,
        headers: Vec::new(),
        body: Body::Empty,
        truncated: false,
        at: String::new(),
    };
    prop_oneof![
        (any::<u16>(), any::<Option<u64>>()).prop_map(move |(code, span)| Sent::Answered {
            response: response(code),
            retry_after: span.map(Span)
        }),
        Just(Sent::Answered {
            response: response(200),
            retry_after: None
        }),
        Just(Sent::Lost(Cause::new("Timeout", "t"))),
        Just(Sent::NotSent(Cause::new("Unreachable", "u"))),
    ]
}

/// An answer of each kind; which is told is decided by what was asked, or not.
#[derive(Clone, Debug)]
struct Answers {
    fits: bool,
    other: usize,
    told: [Told; 6],
    sent: Vec<Sent>,
    children: Vec<Option<Json>>,
    results: Vec<Result<bool, WriteError>>,
    later: u64,
}

fn answers() -> impl Strategy<Value = Answers> {
    let told = (
        answered(proptest::option::of(json_text())),
        reply(),
        answered("[1-9]"),
        answered(json_text()),
        proptest::collection::vec(sent(), 0..4),
    );
    let beside = (
        proptest::collection::vec(standing(), 3),
        proptest::collection::vec(answered(any::<bool>()), 3),
    );
    (
        proptest::bool::weighted(0.95),
        0..6usize,
        told,
        0..100_000u64,
        beside,
    )
        .prop_map(
            |(
                fits,
                other,
                (object, reply, journaled, written, sent),
                later,
                (children, results),
            )| Answers {
                children,
                results,
                fits,
                other,
                told: [
                    Told::Object(object),
                    Told::Reply(reply),
                    Told::Journaled(journaled),
                    Told::Sent(sent.clone()),
                    Told::Written(written),
                    Told::Done,
                ],
                sent,
                later,
            },
        )
}

fn fitting(action: &StepAction, answers: &Answers) -> Told {
    let index = match action {
        StepAction::Read => 0,
        StepAction::Call(..) => 1,
        StepAction::Journal(_) | StepAction::DropJournal { .. } => 2,
        StepAction::Send(sends) => {
            let some = answers
                .sent
                .first()
                .cloned()
                .unwrap_or(Sent::Lost(Cause::new("Timeout", "t")));
            let all = answers.sent.iter().cloned().chain(std::iter::repeat(some));
            return Told::Sent(all.take(sends.len()).collect());
        }
        StepAction::Patch(_) | StepAction::Status(_) | StepAction::Finalizer(_) => 4,
        StepAction::Tell(_) | StepAction::End(_) => 5,
        StepAction::Gather(gather) => {
            let empty = || {
                let (items, truncated) = (Vec::new(), false);
                Answer::Objects(Objects { items, truncated })
            };
            let found = |child: &Option<Json>| child.clone().map_or(Found::Absent, Found::Object);
            let children = answers.children.iter().map(found).cycle();
            return Told::Gathered(Gathered {
                answers: gather.readings.iter().map(|_| empty()).collect(),
                children: children.take(gather.children.len()).collect(),
            });
        }
        StepAction::Look(objects) => {
            let looked = |(result, object): (&Result<bool, WriteError>, &Option<Json>)| {
                result.clone().map(|namespaced| Looked {
                    namespaced,
                    object: object.clone(),
                })
            };
            let all = answers
                .results
                .iter()
                .zip(&answers.children)
                .map(looked)
                .cycle();
            return Told::Looked(all.take(objects.len()).collect());
        }
        StepAction::Apply(writes) => {
            let none = || Json::trusted(r#"{"metadata":{"uid":"1","resourceVersion":"5"}}"#);
            let applied = |(result, object): (&Result<bool, WriteError>, &Option<Json>)| {
                result.clone().map(|_| object.clone().unwrap_or_else(none))
            };
            let all = answers
                .results
                .iter()
                .zip(&answers.children)
                .map(applied)
                .cycle();
            return Told::Applied(all.take(writes.len()).collect());
        }
        StepAction::Remove(removals) => {
            let all = answers.results.iter().cloned().cycle();
            return Told::Removed(all.take(removals.len()).collect());
        }
        StepAction::DeleteSelf { .. } => return Told::Removed(vec![answers.results[0].clone()]),
    };
    answers.told[index].clone()
}

/// A pass of at most five calls, four waves, three conflicts and a refusal cannot take more steps than this.
const MOST: usize = 90;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_pass_ends_whatever_it_is_told(object in proptest::option::of(json_text()), forced: bool, release: bool, facts in (any::<bool>(), proptest::bool::weighted(0.1)), all in proptest::collection::vec(answers(), 1..20)) {
        let mut now = START;
        let begin = Begin { key: key("job"), object, journals: Vec::new(), carry: Carry::default(), forced };
        let facts = PluginFacts {
            finalizes: facts.0,
            needs: vec![need("x", "x")],
            broken: facts.1.then(|| "b".to_owned()),
        };
        let members = if release { ", onBroken: release, onExit: finalize" } else { "" };
        let (mut pass, mut step) = Pass::start(with(members, "!off", facts), begin, now);
        let mut steps = 0;
        for answers in all.iter().cycle() {
            let StepAction::End(end) = &step.action else {
                steps += 1;
                prop_assert!(steps <= MOST, "it goes on and on: {}", step.action.name());
                let told = if answers.fits { fitting(&step.action, answers) } else { answers.told[answers.other].clone() };
                now = now.after(Span(answers.later));
                step = pass.resume(told, now);
                continue;
            };
            prop_assert!(end.calls <= 5);
            // Told something after its end, it ends again.
            let after = pass.resume(answers.told[answers.other].clone(), now);
            prop_assert_eq!(after.action.name(), "end");
            break;
        }
    }
}
