//! Whatever a driver tells, a pass neither panics nor goes on for ever.

use proptest::prelude::*;
use serde_json::json;

use super::{
    driver::{GRANTS, START, terms},
    plugins::effect,
    world::key,
};
use crate::{
    contract::{Body, Cause, Decision, Failure, FailureKind, Json, Reply, Response, Status, Wake},
    pass::{Begin, Carry, Pass, Sent, StepAction, Told, WriteError},
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
    (sends, status, wake, any::<bool>()).prop_map(|(sends, status, wake, label)| Decision {
        effects: sends
            .into_iter()
            .map(|(id, key, url)| effect(&id, key.as_deref(), &url))
            .collect(),
        status: status.map(|text| Status::Replace(Json::trusted(text))),
        labels: label
            .then(|| ("l".to_owned(), Some("v".to_owned())))
            .into_iter()
            .collect(),
        wake,
        ..Decision::default()
    })
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
    (
        proptest::bool::weighted(0.95),
        0..6usize,
        told,
        0..100_000u64,
    )
        .prop_map(
            |(fits, other, (object, reply, journaled, written, sent), later)| Answers {
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
        StepAction::Patch(_) | StepAction::Status(_) => 4,
        StepAction::Tell(_) | StepAction::End(_) => 5,
        _ => 5,
    };
    answers.told[index].clone()
}

/// A pass of at most five calls, three conflicts and a refusal cannot take more steps than this.
const MOST: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_pass_ends_whatever_it_is_told(object in proptest::option::of(json_text()), forced: bool, all in proptest::collection::vec(answers(), 1..20)) {
        let mut now = START;
        let begin = Begin { key: key("job"), object, journals: Vec::new(), carry: Carry::default(), forced };
        let (mut pass, mut step) = Pass::start(terms(GRANTS, "sha256:0"), begin, now);
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
