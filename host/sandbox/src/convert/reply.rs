//! What a plugin returns, taken over into the contract's values. Here is checked what the types cannot say and JSON would:
//! texts that must be JSON are, and no label is named twice. What the values mean is the core's to check.

use std::collections::BTreeMap;

use guesthouse_core::{
    contract::{
        Action, Apply, Body, Cause, Condition, ConditionStatus, Decision, Delete, Delivery,
        Descriptor, Effect, Event, EventType, Extension, Failure, FailureKind, Fetch, Generated,
        Http, Json, Kind, Mode, Need, ObjectRef, OnDelete, OnImmutable, Ownership, Reply, Request,
        Selection, ServedKind, Source, Status, View, Wake,
    },
    refusal::{Refusal, RefusalKind::BadOutput},
};

use crate::{bindings::types as wire, refuse::refuse};

type Taken<T> = Result<T, Refusal>;

/// The reply of `reconcile` and `finalize`.
pub(crate) fn reply(reply: Result<wire::Decision, wire::Failure>) -> Taken<Reply> {
    match reply {
        Ok(it) => decision(it).map(Reply::Decision),
        Err(it) => failure(it).map(Reply::Failure),
    }
}

/// The reply of `describe`.
pub(crate) fn descriptor(it: wire::Descriptor) -> Taken<Descriptor> {
    let kinds = it.kinds.into_iter().enumerate().map(|(at, served)| {
        let crd = served
            .crd
            .map(|text| json(text, || format!("descriptor.kinds[{at}].crd")))
            .transpose()?;
        Ok(ServedKind {
            kind: kind(served.kind),
            crd,
        })
    });
    Ok(Descriptor {
        kinds: kinds.collect::<Taken<_>>()?,
        name: it.name,
        version: it.version,
        sdk: it.sdk,
        needs: it.needs.into_iter().map(need).collect(),
        finalizes: it.finalizes,
        config_schema: it
            .config_schema
            .map(|text| json(text, || "descriptor.configSchema".into()))
            .transpose()?,
        grants: json(it.grants, || "descriptor.grants".into())?,
        extensions: it.extensions,
    })
}

fn decision(it: wire::Decision) -> Taken<Decision> {
    Ok(Decision {
        status: it.status.map(|it| status(it, "decision")).transpose()?,
        conditions: it.conditions.into_iter().map(condition).collect(),
        labels: map(it.labels, "labels")?,
        annotations: map(it.annotations, "annotations")?,
        needs: it.needs.into_iter().map(need).collect(),
        effects: it.effects.into_iter().map(effect).collect::<Taken<_>>()?,
        complete: it.complete,
        events: it.events.into_iter().map(event).collect(),
        wake: it.wake.map(|wake| match wake {
            wire::Wake::At(time) => Wake::At(time),
            wire::Wake::After(seconds) => Wake::After(seconds),
        }),
        finalized: it.finalized,
        extensions: it
            .extensions
            .into_iter()
            .map(|it| extension(it, "decision.extensions"))
            .collect::<Taken<_>>()?,
    })
}

fn failure(it: wire::Failure) -> Taken<Failure> {
    Ok(Failure {
        kind: match it.kind {
            wire::FailureKind::Retry => FailureKind::Retry,
            wire::FailureKind::Terminal => FailureKind::Terminal,
        },
        cause: Cause {
            reason: it.cause.reason,
            message: it.cause.message,
        },
        after: it.after,
        status: it.status.map(|it| status(it, "failure")).transpose()?,
        conditions: it.conditions.into_iter().map(condition).collect(),
    })
}

/// Text that must be JSON; the refusal names the member and the place in it.
fn json(text: String, member: impl FnOnce() -> String) -> Taken<Json> {
    Json::parse(text).map_err(|error| refuse(BadOutput, format!("{} is {error}", member())))
}

fn map(
    pairs: Vec<(String, Option<String>)>,
    member: &str,
) -> Taken<BTreeMap<String, Option<String>>> {
    let mut map = BTreeMap::new();
    for (name, value) in pairs {
        if map.contains_key(&name) {
            return Err(refuse(
                BadOutput,
                format!("decision.{member} has `{name}` twice"),
            ));
        }
        map.insert(name, value);
    }
    Ok(map)
}

fn status(it: wire::Status, of: &str) -> Taken<Status> {
    match it {
        wire::Status::Replace(text) => {
            json(text, || format!("{of}.status.replace")).map(Status::Replace)
        }
        wire::Status::Merge(text) => json(text, || format!("{of}.status.merge")).map(Status::Merge),
    }
}

fn condition(it: wire::Condition) -> Condition {
    Condition {
        type_: it.type_,
        status: match it.status {
            wire::ConditionStatus::True => ConditionStatus::True,
            wire::ConditionStatus::False => ConditionStatus::False,
            wire::ConditionStatus::Unknown => ConditionStatus::Unknown,
        },
        reason: it.reason,
        message: it.message,
    }
}

fn event(it: wire::Event) -> Event {
    Event {
        type_: match it.type_ {
            wire::EventType::Normal => EventType::Normal,
            wire::EventType::Warning => EventType::Warning,
        },
        reason: it.reason,
        note: it.note,
    }
}

fn extension(it: wire::ExtensionResult, of: &str) -> Taken<Extension> {
    let value = json(it.value, || format!("{of}.{}", it.name))?;
    Ok(Extension {
        name: it.name,
        value,
    })
}

fn kind(it: wire::KindResult) -> Kind {
    Kind {
        api_version: it.api_version,
        kind: it.kind,
    }
}

fn object_ref(it: wire::ObjectRefResult) -> ObjectRef {
    ObjectRef {
        kind: kind(it.kind),
        namespace: it.namespace,
        name: it.name,
    }
}

fn need(it: wire::Need) -> Need {
    Need {
        name: it.name,
        source: match it.source {
            wire::Source::Object(object) => Source::Object(object_ref(object)),
            wire::Source::Selected(by) => Source::Selected(Selection {
                kind: kind(by.kind),
                namespace: by.namespace,
                labels: by.labels,
            }),
            wire::Source::Owned(owned) => Source::Owned(kind(owned)),
            wire::Source::Fetch(fetch) => Source::Fetch(Fetch {
                request: request(fetch.request),
                fresh: fetch.fresh,
            }),
        },
        view: match it.view {
            wire::View::Full => View::Full,
            wire::View::Metadata => View::Metadata,
        },
        limit: it.limit,
    }
}

fn effect(it: wire::Effect) -> Taken<Effect> {
    let action = match it.action {
        wire::Action::Apply(apply) => Action::Apply(self::apply(apply, &it.id)?),
        wire::Action::Delete(delete) => Action::Delete(Delete {
            object: object_ref(delete.object),
            uid: delete.uid,
        }),
        wire::Action::Http(http) => Action::Http(self::http(http)),
        wire::Action::Other(other) => {
            Action::Other(extension(other, &format!("effect `{}`", it.id))?)
        }
    };
    Ok(Effect {
        id: it.id,
        after: it.after,
        action,
    })
}

fn apply(it: wire::Apply, id: &str) -> Taken<Apply> {
    Ok(Apply {
        object: json(it.object, || format!("effect `{id}`: apply.object"))?,
        ownership: match it.ownership {
            wire::Ownership::Owned => Ownership::Owned,
            wire::Ownership::Adopt => Ownership::Adopt,
            wire::Ownership::Fields => Ownership::Fields,
        },
        mode: match it.mode {
            wire::Mode::Keep => Mode::Keep,
            wire::Mode::Once => Mode::Once,
        },
        on_immutable: match it.on_immutable {
            wire::OnImmutable::Fail => OnImmutable::Fail,
            wire::OnImmutable::Recreate => OnImmutable::Recreate,
        },
        on_delete: match it.on_delete {
            wire::OnDelete::Delete => OnDelete::Delete,
            wire::OnDelete::Orphan => OnDelete::Orphan,
        },
        generate: it
            .generate
            .into_iter()
            .map(|it| Generated {
                key: it.key,
                length: it.length,
                alphabet: it.alphabet,
            })
            .collect(),
    })
}

fn http(it: wire::Http) -> Http {
    Http {
        request: request(it.request),
        delivery: match it.delivery {
            wire::Delivery::AtLeastOnce => Delivery::AtLeastOnce,
            wire::Delivery::AtMostOnce => Delivery::AtMostOnce,
        },
        key: it.key,
        literal_key: it.literal_key,
    }
}

fn request(it: wire::Request) -> Request {
    Request {
        method: it.method,
        url: it.url,
        headers: it.headers,
        body: match it.body {
            wire::BodyResult::Empty => Body::Empty,
            wire::BodyResult::Text(text) => Body::Text(text),
            wire::BodyResult::Bytes(bytes) => Body::Bytes(bytes),
        },
        credential: it.credential,
        timeout: it.timeout,
    }
}
