//! Plugins with children, needs and an end, one for each way of working.

use serde_json::{Value, json};

use super::plugins::{Said, effect, object, receipt, replace, said};
use crate::{
    contract::{
        Action, Answer, Apply, Child, ChildState, Decision, Effect, Http, Json, Kind, Mode, Need,
        ObjectRef, Observation, OnDelete, OnImmutable, Ownership, ReceiptState, Reply, Source,
        View,
    },
    pass::PluginFacts,
};

pub(super) fn finalizes() -> PluginFacts {
    PluginFacts {
        finalizes: true,
        ..PluginFacts::default()
    }
}

/// A wish, with what makes it another than the usual one.
pub(super) fn child(
    id: &str,
    after: &[&str],
    object: Value,
    change: impl FnOnce(&mut Apply),
) -> Effect {
    let mut apply = Apply {
        object: Json::of(&object).unwrap(),
        ownership: Ownership::Owned,
        mode: Mode::Keep,
        on_immutable: OnImmutable::Fail,
        on_delete: OnDelete::Delete,
        generate: Vec::new(),
    };
    change(&mut apply);
    Effect {
        id: id.into(),
        after: after.iter().map(|id| (*id).to_owned()).collect(),
        action: Action::Apply(apply),
    }
}

pub(super) fn config(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": data.to_string()}})
}

fn kind(api_version: &str, kind: &str) -> Kind {
    Kind {
        api_version: api_version.into(),
        kind: kind.into(),
    }
}

pub(super) fn spec(seen: &Observation) -> Value {
    object(seen)["spec"].clone()
}

pub(super) fn seen_child<'a>(seen: &'a Observation, id: &str) -> Option<&'a Child> {
    seen.children.iter().find(|child| child.effect == id)
}

/// All children there shall be, and a phase that says whether they are there.
pub(super) fn family(seen: &Observation, effects: Vec<Effect>) -> Said {
    let is_current = |effect: &Effect| {
        let child = seen_child(seen, &effect.id);
        child.is_some_and(|child| child.state == ChildState::Current)
    };
    let phase = if effects.iter().all(is_current) {
        "Ready"
    } else {
        "Pending"
    };
    said(Decision {
        status: replace(json!({"phase": phase})),
        complete: true,
        effects,
        ..Decision::default()
    })
}

/// ConfigMap, then a Deployment, then a Service, and an Ingress where the spec asks for one.
pub(super) fn website(seen: &Observation) -> Said {
    let spec = spec(seen);
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": spec["replicas"]}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "service"}, "spec": {"ports": [{"port": 80}]}});
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "ingress"}, "spec": {}});
    let mut effects = vec![
        child(
            "config",
            &[],
            config("config", spec["page"].clone()),
            |_| {},
        ),
        child("web", &["config"], web, |_| {}),
        child("service", &["web"], service, |_| {}),
    ];
    if spec["ingress"] == true {
        effects.push(child("ingress", &[], ingress, |_| {}));
    }
    family(seen, effects)
}

/// Two ConfigMaps side by side, all legal: the garbage collector's to clean up.
pub(super) fn plain(seen: &Observation) -> Said {
    let value = spec(seen)["value"].clone();
    let mut effects = vec![child("a", &[], config("a", value.clone()), |_| {})];
    if spec(seen)["one"] != true {
        effects.push(child("b", &[], config("b", value), |_| {}));
    }
    family(seen, effects)
}

fn request(id: &str, key: &str, method: &str) -> Effect {
    let mut effect = effect(id, Some(key), "http://exporter/databases/job");
    if let Action::Http(Http { request, .. }) = &mut effect.action {
        request.method = method.into();
    }
    effect
}

/// Something outside the cluster, of the size the spec says.
pub(super) fn provision(seen: &Observation) -> Said {
    let size = spec(seen)["value"].to_string();
    let provision = request("provision", &size, "PUT");
    let done = seen.receipts.iter().any(|receipt| {
        receipt.effect == "provision"
            && receipt.key.as_deref() == Some(&size)
            && matches!(&receipt.state, ReceiptState::Answered(answer) if answer.code < 300)
    });
    said(Decision {
        status: replace(json!({"phase": if done { "Ready" } else { "Pending" }, "value": size})),
        effects: vec![provision],
        ..Decision::default()
    })
}

/// Its end.
pub(super) fn deprovision(seen: &Observation) -> Said {
    let gone = match receipt(seen, "deprovision") {
        Some(ReceiptState::Answered(answer)) => answer.code < 300 || answer.code == 404,
        _ => false,
    };
    said(Decision {
        status: replace(json!({"phase": if gone { "Gone" } else { "Cleaning" }})),
        effects: if gone {
            Vec::new()
        } else {
            vec![request("deprovision", "", "DELETE")]
        },
        finalized: gone,
        ..Decision::default()
    })
}

/// Says that it is finished whatever became of its effect.
pub(super) fn hasty(seen: &Observation) -> Said {
    let mut said = deprovision(seen)?;
    if let Reply::Decision(decision) = &mut said {
        decision.effects = vec![request("deprovision", "", "DELETE")];
        decision.finalized = true;
    }
    Ok(said)
}

/// Nothing to clean up.
pub(super) fn finished(_: &Observation) -> Said {
    said(Decision {
        finalized: true,
        ..Decision::default()
    })
}

pub(super) fn need(name: &str, object: &str) -> Need {
    Need {
        name: name.into(),
        source: Source::Object(ObjectRef {
            kind: kind("v1", "ConfigMap"),
            namespace: None,
            name: object.into(),
        }),
        view: View::Full,
        limit: None,
    }
}

/// The text in a ConfigMap that was asked for; none as long as there is no answer.
pub(super) fn told(seen: &Observation, name: &str) -> Option<String> {
    let related = seen.related.iter().find(|related| related.name == name)?;
    let text = match &related.answer {
        Answer::Objects(objects) => objects.items.first().map(|item| {
            item.read::<Value>().unwrap()["data"]["value"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        }),
        _ => None,
    };
    Some(text.unwrap_or_default())
}

/// Follows a chain of ConfigMaps, each of which names the next, and writes down where it ends.
pub(super) fn follower(seen: &Observation) -> Said {
    let mut needs = vec![need("0", "start")];
    let mut end = String::new();
    while let Some(next) =
        told(seen, &(needs.len() - 1).to_string()).filter(|next| !next.is_empty())
    {
        end.clone_from(&next);
        needs.push(need(&needs.len().to_string(), &next));
    }
    said(Decision {
        status: replace(json!({"value": end})),
        effects: vec![child("end", &[], config("end", json!(end)), |_| {})],
        complete: true,
        needs,
        ..Decision::default()
    })
}

/// Each comes after the one before: they go in reverse.
pub(super) fn waves(seen: &Observation) -> Said {
    family(
        seen,
        vec![
            child("1", &[], config("first", json!(1)), |_| {}),
            child("2", &["1"], config("second", json!(1)), |_| {}),
            child("3", &["2"], config("third", json!(1)), |_| {}),
        ],
    )
}

/// One stays when the object goes, the other does not.
pub(super) fn orphan(seen: &Observation) -> Said {
    family(
        seen,
        vec![
            child("heir", &[], config("heir", json!(1)), |apply| {
                apply.on_delete = OnDelete::Orphan
            }),
            child("a", &[], config("a", json!(1)), |_| {}),
        ],
    )
}

/// A value in a ConfigMap of somebody else.
pub(super) fn fields(seen: &Observation) -> Said {
    let shared = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"ours": spec(seen)["value"].to_string()}});
    let mut effects = vec![child("part", &[], shared, |apply| {
        apply.ownership = Ownership::Fields
    })];
    if spec(seen)["off"] == true {
        effects.clear();
    }
    family(seen, effects)
}

/// A Job that runs once.
pub(super) fn once(seen: &Observation) -> Said {
    let run = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "run"}, "spec": {"template": {"x": spec(seen)["value"]}}});
    family(
        seen,
        vec![child("run", &[], run, |apply| apply.mode = Mode::Once)],
    )
}

/// A Job that is made again when its template changes.
pub(super) fn recreate(seen: &Observation) -> Said {
    let run = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "run"}, "spec": {"template": {"x": spec(seen)["value"]}}});
    family(
        seen,
        vec![child("run", &[], run, |apply| {
            apply.on_immutable = OnImmutable::Recreate
        })],
    )
}

/// Children where no owner reference reaches: in another namespace, and in none.
pub(super) fn abroad(seen: &Observation) -> Said {
    let mut far = config("far", spec(seen)["value"].clone());
    far["metadata"]["namespace"] = "other".into();
    let wide = json!({"apiVersion": "acme.io/v1", "kind": "ClusterThing", "metadata": {"name": "wide"}, "spec": {}});
    let mut effects = vec![
        child("far", &[], far, |_| {}),
        child("wide", &[], wide, |_| {}),
        child("near", &[], config("near", json!(1)), |_| {}),
    ];
    if spec(seen)["near"] == true {
        effects.drain(..2);
    }
    family(seen, effects)
}

/// Takes over what is nobody's.
pub(super) fn adopter(seen: &Observation) -> Said {
    family(
        seen,
        vec![child("legacy", &[], config("legacy", json!(1)), |apply| {
            apply.ownership = Ownership::Adopt
        })],
    )
}

/// A child that is another with each call.
pub(super) fn restless(seen: &Observation) -> Said {
    let had = object(seen)["status"]["value"].as_i64().unwrap_or(0);
    said(Decision {
        status: replace(json!({"value": had + 1})),
        effects: vec![child("a", &[], config("a", json!(had)), |_| {})],
        complete: true,
        ..Decision::default()
    })
}

/// A ConfigMap, and a request once it is there.
pub(super) fn announcer(_: &Observation) -> Said {
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}});
    let mut announce = effect("announce", None, "http://exporter/announce");
    announce.after = vec!["web".into()];
    said(Decision {
        status: replace(json!({"phase": "Announced"})),
        effects: vec![announce, child("web", &[], web, |_| {})],
        complete: true,
        ..Decision::default()
    })
}

/// Asks for its own deletion once it is done.
pub(super) fn mayfly(_: &Observation) -> Said {
    let delete = crate::contract::Delete {
        object: ObjectRef {
            kind: kind("batch.acme.io/v1", "ReportJob"),
            namespace: None,
            name: "job".into(),
        },
        uid: None,
    };
    let own = child("a", &[], config("a", json!(1)), |_| {});
    let end = Effect {
        id: "end".into(),
        after: vec!["a".into()],
        action: Action::Delete(delete),
    };
    said(Decision {
        status: replace(json!({"phase": "Done"})),
        effects: vec![own, end],
        complete: true,
        ..Decision::default()
    })
}
