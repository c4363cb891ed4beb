use super::*;
use crate::contract::ConditionStatus;
use serde_json::json;

mod rules;

const NOW: Time = Time(1_000_000);
const EARLIER: &str = "1970-01-01T00:00:01Z";

fn open() -> StatusSchema {
    StatusSchema::of_crd(
        &json!({"properties": {"status": {"x-kubernetes-preserve-unknown-fields": true, "properties": {"conditions": {}, "observedGeneration": {}}}}}),
    )
}

fn plain() -> StatusSchema {
    StatusSchema::of_crd(
        &json!({"properties": {"status": {"properties": {"phase": {}, "a": {"x-kubernetes-preserve-unknown-fields": true}}}}}),
    )
}

struct Case {
    current: Value,
    status: Option<Status>,
    conditions: Vec<Condition>,
    outcome: Outcome,
    schema: StatusSchema,
    foreign: Vec<FieldPath>,
    cause: Option<Cause>,
}

fn case(current: Value) -> Case {
    Case {
        current,
        status: None,
        conditions: vec![],
        outcome: Outcome::Applied,
        schema: plain(),
        foreign: vec![],
        cause: None,
    }
}

fn replace(value: Value) -> Option<Status> {
    Some(Status::Replace(Json::of(&value).unwrap()))
}

fn merge(value: Value) -> Option<Status> {
    Some(Status::Merge(Json::of(&value).unwrap()))
}

impl Case {
    fn run(&self) -> Result<Computed, StatusError> {
        let broken = Cause::new("Broken", "it broke");
        let trouble = self.outcome.is_trouble().then_some(&broken);
        let verdict = Verdict {
            outcome: self.outcome,
            cause: self.cause.as_ref().or(trouble),
            generation: 2,
            handled: !self.outcome.is_trouble(),
            now: NOW,
        };
        let object = json!({"spec": {"size": 3}, "status": self.current});
        compute(
            &Json::of(&object).unwrap(),
            &self.current,
            Wish {
                status: self.status.as_ref(),
                conditions: &self.conditions,
                foreign: &self.foreign,
            },
            verdict,
            &self.schema,
        )
    }

    fn next(&self) -> Option<Value> {
        self.run().unwrap().changed
    }
}

fn types(status: &Value) -> Vec<(&str, &str)> {
    let conditions = status["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    conditions
        .iter()
        .map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
        .collect()
}

/// metacontroller: an answer without a status wipes the old one. hypershift#9550: a merge patch cannot set null.
#[test]
fn absent_leaves_the_status_alone_replace_replaces_and_merge_merges() {
    let current = json!({"phase": "Pending", "a": {"x": 1, "y": null}});
    assert_eq!(case(current.clone()).next(), None);
    let replaced = Case {
        status: replace(json!({"phase": "Done"})),
        ..case(current.clone())
    };
    assert_eq!(replaced.next(), Some(json!({"phase": "Done"})));
    let merged = Case {
        status: merge(json!({"a": {"x": null, "z": []}})),
        ..case(current.clone())
    };
    assert_eq!(
        merged.next(),
        Some(json!({"phase": "Pending", "a": {"y": null, "z": []}}))
    );
    let nulled = Case {
        status: replace(json!({"a": {"x": null}})),
        ..case(current)
    };
    assert_eq!(
        nulled.next(),
        Some(json!({"a": {"x": null}})),
        "replace can say null"
    );
}

#[test]
fn an_equal_status_is_not_written_whatever_the_form_of_its_numbers() {
    let current = json!({"a": {"n": 1, "big": 9007199254740993_i64}});
    assert_eq!(
        Case {
            status: replace(json!({"a": {"big": 9007199254740993_i64, "n": 1.0}})),
            ..case(current)
        }
        .next(),
        None
    );
}

/// crossplane#5007, kopf#574: what the server prunes is written for ever.
#[test]
fn a_field_outside_the_schema_is_named_and_not_written_for_ever() {
    let found = Case {
        status: replace(json!({"phase": "P", "extra": 1})),
        ..case(json!({"phase": "P"}))
    }
    .run()
    .unwrap();
    assert_eq!(
        found,
        Computed {
            changed: None,
            dropped: vec!["status.extra".into()]
        }
    );
}

#[test]
fn the_observed_generation_is_the_hosts_and_written_only_where_it_is_kept() {
    let wish = || replace(json!({"phase": "Done", "observedGeneration": 77}));
    let kept = Case {
        status: wish(),
        schema: open(),
        ..case(json!({"observedGeneration": 1}))
    }
    .next()
    .unwrap();
    assert_eq!(kept["observedGeneration"], 2);
    let not = Case {
        status: wish(),
        ..case(json!({}))
    }
    .run()
    .unwrap();
    assert_eq!(not.changed, Some(json!({"phase": "Done"})));
}

#[test]
fn after_a_failure_the_generation_counts_as_seen_only_where_conditions_say_so() {
    let failed = |schema| Case {
        outcome: Outcome::PluginFailed,
        schema,
        ..case(json!({"observedGeneration": 1}))
    };
    assert_eq!(failed(open()).next().unwrap()["observedGeneration"], 2);
    let silent = StatusSchema::of_crd(
        &json!({"properties": {"status": {"properties": {"observedGeneration": {}}}}}),
    );
    assert_eq!(failed(silent).next(), None);
}

#[test]
fn conditions_follow_the_outcome_as_kstatus_reads_them() {
    for (outcome, expected) in [
        (Outcome::Applied, vec![("Ready", "True")]),
        (Outcome::Unchanged, vec![("Ready", "True")]),
        (
            Outcome::Waiting,
            vec![("Ready", "Unknown"), ("Reconciling", "True")],
        ),
        (
            Outcome::Retrying,
            vec![("Ready", "False"), ("Reconciling", "True")],
        ),
        (
            Outcome::PluginFailed,
            vec![("Ready", "False"), ("Reconciling", "True")],
        ),
        (
            Outcome::Denied,
            vec![("Ready", "False"), ("Stalled", "True")],
        ),
        (
            Outcome::Stalled,
            vec![("Ready", "False"), ("Stalled", "True")],
        ),
    ] {
        let next = Case {
            outcome,
            schema: open(),
            ..case(Value::Null)
        }
        .next()
        .unwrap();
        assert_eq!(types(&next), expected, "{outcome}");
    }
}

#[test]
fn a_transition_time_moves_with_the_status_of_its_condition_alone() {
    let ready = |status: &str| json!({"type": "Ready", "status": status, "reason": "Old", "message": "", "observedGeneration": 1, "lastTransitionTime": EARLIER});
    let kept = Case {
        schema: open(),
        ..case(json!({"conditions": [ready("True")]}))
    }
    .next()
    .unwrap();
    assert_eq!(kept["conditions"][0]["lastTransitionTime"], EARLIER);
    assert_eq!(kept["conditions"][0]["reason"], "Succeeded");
    let moved = Case {
        schema: open(),
        ..case(json!({"conditions": [ready("False")]}))
    }
    .next()
    .unwrap();
    assert_eq!(moved["conditions"][0]["lastTransitionTime"], NOW.seconds());
}

/// yoke, wasm-operator: counters and times in a status make every pass a write.
#[test]
fn the_second_pass_writes_nothing() {
    let first = Case {
        status: replace(json!({"phase": "Done"})),
        schema: open(),
        ..case(Value::Null)
    };
    let written = first.next().unwrap();
    assert_eq!(
        Case {
            current: written,
            ..first
        }
        .next(),
        None
    );
}

#[test]
fn with_replace_types_no_longer_named_go_and_with_merge_they_stay() {
    let had = json!({"conditions": [
        {"type": "Mine", "status": "True", "reason": "R", "message": "", "lastTransitionTime": EARLIER},
        {"type": "Reconciling", "status": "True", "reason": "R", "message": "", "lastTransitionTime": EARLIER},
    ]});
    let replaced = Case {
        status: replace(json!({})),
        schema: open(),
        ..case(had.clone())
    }
    .next()
    .unwrap();
    assert_eq!(types(&replaced), [("Ready", "True")]);
    let merged = Case {
        status: merge(json!({"x": 1})),
        schema: open(),
        ..case(had)
    }
    .next()
    .unwrap();
    assert_eq!(types(&merged), [("Mine", "True"), ("Ready", "True")]);
}

#[test]
fn a_plugin_that_sets_ready_keeps_it_and_may_not_set_the_hosts() {
    let condition = |type_: &str| Condition {
        type_: type_.into(),
        status: ConditionStatus::False,
        reason: "R".into(),
        message: "m".into(),
    };
    let mine = Case {
        conditions: vec![condition("Ready")],
        schema: open(),
        ..case(Value::Null)
    }
    .next()
    .unwrap();
    assert_eq!(types(&mine), [("Ready", "False")]);
    let error = Case {
        conditions: vec![condition("Stalled")],
        schema: open(),
        ..case(Value::Null)
    }
    .run()
    .unwrap_err();
    assert_eq!(error, StatusError::HostCondition("Stalled".into()));
}

#[test]
fn what_is_no_status_is_refused() {
    for (wish, expected) in [
        (json!([]), StatusError::NotAnObject("a list")),
        (json!({"conditions": {}}), StatusError::BadConditions),
        (
            json!({"conditions": [{"status": "True"}]}),
            StatusError::BadConditions,
        ),
    ] {
        let found = Case {
            status: replace(wish.clone()),
            schema: open(),
            ..case(Value::Null)
        }
        .run();
        assert_eq!(found.unwrap_err(), expected, "{wish}");
    }
    let huge = Case {
        status: replace(json!({"a": "x".repeat(MAX_STATUS)})),
        ..case(Value::Null)
    }
    .run();
    assert!(matches!(huge, Err(StatusError::TooLarge(_))));
}

#[test]
fn a_kind_without_conditions_gets_none() {
    assert_eq!(case(Value::Null).next(), None);
    let open_only = StatusSchema::of_crd(
        &json!({"properties": {"status": {"x-kubernetes-preserve-unknown-fields": true}}}),
    );
    let next = Case {
        status: replace(json!({"phase": "Done"})),
        schema: open_only,
        ..case(Value::Null)
    }
    .next();
    assert_eq!(
        next,
        Some(json!({"phase": "Done", "observedGeneration": 2}))
    );
}
