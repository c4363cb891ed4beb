//! What the host says in conditions, what it leaves to others, and what it refuses.

use super::*;

/// A kind as one would write it: conditions by type, with the members of `metav1.Condition`.
fn strict(more: Value) -> StatusSchema {
    let mut status = json!({"type": "object", "properties": {
        "observedGeneration": {"type": "integer", "format": "int64"},
        "phase": {"type": "string", "enum": ["New", "Done"]},
        "count": {"type": "integer"},
        "sync": {"type": "object", "properties": {"revision": {"type": "string"}, "by": {"type": "string"}}},
        "text": {"type": "string"},
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": {
            "type": "object", "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {"type": "string"}, "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "reason": {"type": "string", "minLength": 1, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
                "message": {"type": "string", "maxLength": 32768},
            }}},
    }});
    for (name, value) in more.as_object().unwrap() {
        status[name] = value.clone();
    }
    StatusSchema::of_crd(&json!({"type": "object", "properties": {"status": status}}))
}

fn strict_case(current: Value) -> Case {
    Case {
        schema: strict(json!({})),
        ..case(current)
    }
}

fn condition(type_: &str, status: ConditionStatus) -> Condition {
    Condition {
        type_: type_.into(),
        status,
        reason: "Mine".into(),
        message: "m".into(),
    }
}

/// A condition as it stands in a cluster.
fn stood(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "reason": "R", "message": "", "observedGeneration": 1, "lastTransitionTime": EARLIER})
}

fn paths(found: &Computed) -> Vec<&str> {
    found.dropped.iter().map(String::as_str).collect()
}

fn violations(found: Result<Computed, StatusError>) -> Vec<String> {
    match found {
        Err(StatusError::Violates { violations }) => {
            violations.iter().map(ToString::to_string).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// kubernetes#97408, kubernetes/kubectl#962, fluxcd/flux2#4346, controlplaneio-fluxcd/flux-operator#992
#[test]
fn each_outcome_is_told_as_kstatus_flux_and_kubectl_wait_read_it() {
    // Outcome, reason of its cause; then type, status and reason of each condition, and whether the generation counts.
    type Row = (
        Outcome,
        Option<&'static str>,
        &'static [(&'static str, &'static str, &'static str)],
    );
    let rows: [Row; 9] = [
        (Outcome::Unchanged, None, &[("Ready", "True", "Succeeded")]),
        (Outcome::Applied, None, &[("Ready", "True", "Succeeded")]),
        (
            Outcome::Applied,
            Some("Published"),
            &[("Ready", "True", "Published")],
        ),
        (
            Outcome::Waiting,
            None,
            &[
                ("Ready", "Unknown", "Progressing"),
                ("Reconciling", "True", "Progressing"),
            ],
        ),
        (
            Outcome::Waiting,
            Some("DependencyNotReady"),
            &[
                ("Ready", "Unknown", "DependencyNotReady"),
                ("Reconciling", "True", "Progressing"),
            ],
        ),
        (
            Outcome::Retrying,
            Some("NoQuota"),
            &[
                ("Ready", "False", "NoQuota"),
                ("Reconciling", "True", "ProgressingWithRetry"),
            ],
        ),
        (
            Outcome::PluginFailed,
            Some("BadOutput"),
            &[
                ("Ready", "False", "BadOutput"),
                ("Reconciling", "True", "ProgressingWithRetry"),
            ],
        ),
        (
            Outcome::Denied,
            Some("NoGrant"),
            &[("Ready", "False", "NoGrant"), ("Stalled", "True", "Denied")],
        ),
        (
            Outcome::Stalled,
            Some("NotConverging"),
            &[
                ("Ready", "False", "NotConverging"),
                ("Stalled", "True", "NotConverging"),
            ],
        ),
    ];
    for (outcome, reason, expected) in rows {
        // Whatever was said before goes: never Reconciling and Stalled together.
        let before = json!({"observedGeneration": 1, "conditions": [stood("Stalled", "True"), stood("Reconciling", "True")]});
        let next = Case {
            outcome,
            cause: reason.map(|reason| Cause::new(reason, "why")),
            ..strict_case(before)
        }
        .next()
        .unwrap();
        let mut said: Vec<_> = next["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| {
                assert_eq!(c["observedGeneration"], 2, "{outcome}: {c}");
                let text = |name: &str| c[name].as_str().unwrap();
                (text("type"), text("status"), text("reason"))
            })
            .collect();
        said.sort_by_key(|(type_, ..)| *type_ != "Ready");
        assert_eq!(said, expected, "{outcome} {reason:?}");
        assert_eq!(next["observedGeneration"], 2, "{outcome}");
    }
}

#[test]
fn what_is_paused_gone_or_unreachable_stays_as_it_was() {
    for outcome in [Outcome::Paused, Outcome::Gone, Outcome::ClusterFailed] {
        let before = json!({"phase": "New", "conditions": [stood("Reconciling", "True"), stood("Ready", "False")]});
        let found = Case {
            outcome,
            status: replace(json!({"phase": "Done"})),
            ..strict_case(before)
        };
        assert_eq!(found.next(), None, "{outcome}");
    }
}

/// "a future `wake` with nothing owed" is applied: the plugin's Ready stands, and the host adds nothing to it.
#[test]
fn ready_is_the_plugins_while_all_is_well_and_the_hosts_when_it_is_not() {
    let with = |outcome| Case {
        outcome,
        conditions: vec![condition("Ready", ConditionStatus::Unknown)],
        ..strict_case(json!({"conditions": [stood("Ready", "True")]}))
    };
    assert_eq!(
        types(&with(Outcome::Applied).next().unwrap()),
        [("Ready", "Unknown")]
    );
    assert_eq!(
        types(&with(Outcome::Waiting).next().unwrap()),
        [("Ready", "Unknown"), ("Reconciling", "True")]
    );
    assert_eq!(
        types(&with(Outcome::Stalled).next().unwrap()),
        [("Ready", "False"), ("Stalled", "True")]
    );
}

/// crossplane#5334
#[test]
fn what_a_mapping_names_as_foreign_stays_as_it_was_read_and_a_wish_for_it_is_named() {
    let current = json!({"phase": "New", "sync": {"revision": "r1", "by": "other"},
        "conditions": [stood("Synced", "False"), stood("Old", "True")]});
    let foreign = |paths: &[&str]| paths.iter().map(|p| FieldPath::parse(p).unwrap()).collect();
    let replaced = Case {
        status: replace(json!({"phase": "Done"})),
        foreign: foreign(&[".status.sync.revision", ".status.conditions.Synced"]),
        ..strict_case(current.clone())
    };
    let found = replaced.run().unwrap();
    let next = found.changed.clone().unwrap();
    assert_eq!(next["sync"], json!({"revision": "r1"}));
    assert_eq!(types(&next), [("Synced", "False"), ("Ready", "True")]);
    assert_eq!(next["conditions"][0], current["conditions"][0], "untouched");
    assert_eq!(paths(&found), [] as [&str; 0]);

    let named = Case {
        status: replace(
            json!({"phase": "Done", "sync": {"revision": "mine"}, "conditions": [stood("Synced", "True")]}),
        ),
        conditions: vec![condition("Old", ConditionStatus::False)],
        foreign: foreign(&[
            ".status.sync",
            ".status.conditions.Synced",
            ".status.conditions.Old",
        ]),
        ..strict_case(current.clone())
    };
    let found = named.run().unwrap();
    let next = found.changed.clone().unwrap();
    assert_eq!(next["sync"], current["sync"]);
    assert_eq!(
        types(&next),
        [("Synced", "False"), ("Old", "True"), ("Ready", "True")]
    );
    assert_eq!(
        paths(&found),
        [
            "status.sync (foreign)",
            "status.conditions[type=Synced] (foreign)",
            "status.conditions[type=Old] (foreign)"
        ]
    );

    let all = Case {
        status: replace(json!({"phase": "Done", "conditions": [stood("Old", "False")]})),
        foreign: foreign(&[".status.conditions"]),
        ..strict_case(current.clone())
    };
    assert_eq!(
        types(&all.next().unwrap()),
        [("Synced", "False"), ("Old", "False"), ("Ready", "True")]
    );

    let merged = Case {
        status: merge(json!({"phase": "Done", "sync": null})),
        foreign: foreign(&[".status.sync"]),
        ..strict_case(current.clone())
    };
    let found = merged.run().unwrap();
    assert_eq!(found.changed.clone().unwrap()["sync"], current["sync"]);
    assert_eq!(paths(&found), ["status.sync (foreign)"]);

    // Nothing was there: nothing comes, and no empty map is left behind.
    let absent = Case {
        status: replace(json!({"phase": "Done"})),
        foreign: foreign(&[".status.sync.revision"]),
        ..strict_case(json!({"phase": "New"}))
    };
    assert_eq!(absent.next().unwrap().get("sync"), None);
}

/// crossplane#5007
#[test]
fn a_status_that_the_server_would_refuse_is_refused_with_path_and_what_is_allowed() {
    let found = Case {
        status: replace(json!({"phase": "Dnoe", "count": "3"})),
        ..strict_case(json!({"phase": "New"}))
    }
    .run();
    let error = found.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the status does not fit the kind's schema: status.count is \"3\", must be an integer; \
         status.phase is \"Dnoe\", must be one of \"New\", \"Done\""
    );
    let many: Vec<Value> = (0..9)
        .map(|n| json!({"type": format!("T{n}"), "status": "Yes"}))
        .collect();
    let many = Case {
        status: replace(json!({"conditions": many})),
        ..strict_case(Value::Null)
    };
    let text = many.run().unwrap_err().to_string();
    assert!(text.ends_with("; and 22 more"), "{text}");
    let of_the_plugin = Case {
        conditions: vec![Condition {
            reason: "not a reason".into(),
            ..condition("Mine", ConditionStatus::True)
        }],
        ..strict_case(Value::Null)
    };
    assert_eq!(
        violations(of_the_plugin.run()),
        [
            "status.conditions[0].reason is \"not a reason\", must match `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`"
        ]
    );
}

#[test]
fn the_hosts_word_gets_out_even_where_the_status_that_stands_is_no_longer_valid() {
    let tightened = |status| Case {
        status,
        outcome: Outcome::PluginFailed,
        schema: strict(json!({"required": ["count"], "maxProperties": 3})),
        ..case(json!({"phase": "Gone", "text": "t", "sync": {}}))
    };
    let next = tightened(None).next().unwrap();
    assert_eq!(types(&next), [("Ready", "False"), ("Reconciling", "True")]);
    assert_eq!(next["phase"], "Gone");
    // A plugin that says what stands says nothing new.
    let same = replace(json!({"phase": "Gone", "text": "t", "sync": {}}));
    assert!(tightened(same).next().is_some());
    let other = replace(json!({"phase": "Gone", "text": "u", "sync": {}}));
    assert_eq!(
        violations(tightened(other).run()),
        [
            "status is an object, must have at most 3 fields, has 5",
            "status.count is missing, must be there"
        ]
    );
}

#[test]
fn a_condition_of_the_host_that_the_schema_refuses_is_left_out_and_named() {
    let ready_only = json!({"type": "array", "items": {"type": "object", "properties": {
        "type": {"type": "string", "enum": ["Ready"]}, "status": {"type": "string"}, "reason": {"type": "string"}}}});
    let found = Case {
        outcome: Outcome::Waiting,
        schema: StatusSchema::of_crd(&json!({"properties": {"status": {"type": "object", "properties": {"conditions": ready_only}}}})),
        ..case(Value::Null)
    }
    .run()
    .unwrap();
    let next = found.changed.clone().unwrap();
    assert_eq!(
        next["conditions"],
        json!([{"type": "Ready", "status": "Unknown", "reason": "Progressing"}])
    );
    assert_eq!(
        paths(&found),
        [
            "status.conditions[type=Reconciling] (the kind's schema: status.conditions[].type is \"Reconciling\", must be one of \"Ready\")",
            "status.conditions[0].message"
        ]
    );
}

#[test]
fn a_kind_whose_conditions_are_no_list_keeps_them_to_itself() {
    let schema = StatusSchema::of_crd(
        &json!({"properties": {"status": {"type": "object", "properties": {
        "conditions": {"type": "object", "additionalProperties": {"type": "string"}}}}}}),
    );
    let own = Case {
        status: replace(json!({"conditions": {"sky": "clear"}})),
        schema: schema.clone(),
        ..case(json!({"conditions": {"sky": "grey"}}))
    };
    assert_eq!(own.next(), Some(json!({"conditions": {"sky": "clear"}})));
    let failed = Case {
        outcome: Outcome::PluginFailed,
        schema,
        ..case(json!({"conditions": {"sky": "grey"}}))
    };
    assert_eq!(failed.next(), None);
}

#[test]
fn the_budget_is_the_plugins_alone_and_a_refusal_of_it_can_be_written() {
    let of = |bytes: usize| json!({"text": "x".repeat(bytes)});
    let frame = of(0).to_string().len();
    let full = Case {
        status: replace(of(MAX_STATUS - frame)),
        ..strict_case(Value::Null)
    };
    let next = full.next().unwrap();
    assert!(
        next.to_string().len() > MAX_STATUS,
        "the host's part comes on top"
    );
    let over = Case {
        status: replace(of(MAX_STATUS - frame + 1)),
        ..strict_case(Value::Null)
    };
    let error = over.run().unwrap_err();
    assert_eq!(error, StatusError::TooLarge(MAX_STATUS + 1));
    assert_eq!(
        error.to_string(),
        format!(
            "the status has {} bytes, more than the {MAX_STATUS} that fit",
            MAX_STATUS + 1
        )
    );
    // What stands may be larger than what may be written.
    let refusal = Case {
        outcome: Outcome::PluginFailed,
        ..strict_case(of(2 * MAX_STATUS))
    };
    assert_eq!(
        types(&refusal.next().unwrap()),
        [("Ready", "False"), ("Reconciling", "True")]
    );
}

/// controller-runtime's and Flux's `observedGeneration: -1` as a default of the CRD.
#[test]
fn a_default_of_the_schema_is_no_reason_to_write_and_none_to_hold_it_against_the_plugin() {
    let schema = StatusSchema::of_crd(
        &json!({"properties": {"status": {"type": "object", "default": {"observedGeneration": -1}, "properties": {
        "observedGeneration": {"type": "integer"}, "mode": {"type": "string", "default": "auto"}, "phase": {"type": "string"}}}}}),
    );
    let settled = Case {
        status: replace(json!({"phase": "Done"})),
        schema: schema.clone(),
        ..case(json!({"observedGeneration": 2, "mode": "auto", "phase": "Done"}))
    };
    assert_eq!(settled.next(), None);
    let silent = Case {
        outcome: Outcome::Retrying,
        schema,
        ..case(json!({"observedGeneration": -1}))
    };
    assert_eq!(silent.next(), None);
}
