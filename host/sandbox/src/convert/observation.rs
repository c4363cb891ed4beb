//! An observation as the runtime lowers it: every text is a reference into the observation, so its bytes are copied once,
//! into the guest's memory. Lists of lists need the inner lists to lie somewhere; that is all that is allocated here, and
//! for an observation without answers it is nothing.

use guesthouse_core::contract::{
    Answer, Body, Cause, Child, ChildState, Extension, Json, ObjectRef, Observation, Receipt,
    ReceiptState, Related, Response,
};

use crate::bindings::types as wire;

type Header<'a> = (&'a str, &'a str);

/// Lends the runtime's form of `seen` to `f`.
pub(crate) fn with_observation<T>(
    seen: &Observation,
    f: impl FnOnce(wire::Observation<'_>) -> T,
) -> T {
    let items: Vec<Vec<&str>> = seen.related.iter().map(items).collect();
    let related_headers: Vec<Vec<Header<'_>>> = seen
        .related
        .iter()
        .map(|one| headers(answered(one)))
        .collect();
    let receipt_headers: Vec<Vec<Header<'_>>> = seen
        .receipts
        .iter()
        .map(|one| headers(receipted(one)))
        .collect();
    let related: Vec<_> = seen
        .related
        .iter()
        .zip(items.iter().zip(&related_headers))
        .map(|(one, (items, headers))| related(one, items, headers))
        .collect();
    let children: Vec<_> = seen.children.iter().map(child).collect();
    let receipts: Vec<_> = seen
        .receipts
        .iter()
        .zip(&receipt_headers)
        .map(|(one, headers)| receipt(one, headers))
        .collect();
    let extensions: Vec<_> = seen.extensions.iter().map(extension).collect();
    f(wire::Observation {
        object: seen.object.as_str(),
        related: &related,
        children: &children,
        receipts: &receipts,
        config: seen.config.as_str(),
        mapping: &seen.mapping,
        now: &seen.now,
        attempt: seen.attempt,
        round: seen.round,
        extensions: &extensions,
    })
}

fn items(one: &Related) -> Vec<&str> {
    match &one.answer {
        Answer::Objects(objects) => objects.items.iter().map(Json::as_str).collect(),
        _ => Vec::new(),
    }
}

fn answered(one: &Related) -> Option<&Response> {
    match &one.answer {
        Answer::Response(response) => Some(response),
        _ => None,
    }
}

fn receipted(one: &Receipt) -> Option<&Response> {
    match &one.state {
        ReceiptState::Answered(response) => Some(response),
        _ => None,
    }
}

fn headers(response: Option<&Response>) -> Vec<Header<'_>> {
    response.map_or_else(Vec::new, |it| {
        it.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    })
}

fn related<'a>(
    one: &'a Related,
    items: &'a [&'a str],
    headers: &'a [Header<'a>],
) -> wire::Related<'a> {
    let answer = match &one.answer {
        Answer::Objects(objects) => wire::Answer::Objects(wire::Objects {
            items,
            truncated: objects.truncated,
        }),
        Answer::Response(it) => wire::Answer::Response(response(it, headers)),
        Answer::Unavailable(why) => wire::Answer::Unavailable(cause(why)),
    };
    wire::Related {
        name: &one.name,
        answer,
    }
}

fn response<'a>(it: &'a Response, headers: &'a [Header<'a>]) -> wire::Response<'a> {
    let body = match &it.body {
        Body::Empty => wire::BodyParam::Empty,
        Body::Text(text) => wire::BodyParam::Text(text),
        Body::Bytes(bytes) => wire::BodyParam::Bytes(bytes),
    };
    wire::Response {
        code: it.code,
        headers,
        body,
        truncated: it.truncated,
        at: &it.at,
    }
}

fn cause(it: &Cause) -> wire::CauseParam<'_> {
    wire::CauseParam {
        reason: &it.reason,
        message: &it.message,
    }
}

fn object_ref(it: &ObjectRef) -> wire::ObjectRefParam<'_> {
    wire::ObjectRefParam {
        kind: wire::KindParam {
            api_version: &it.kind.api_version,
            kind: &it.kind.kind,
        },
        namespace: it.namespace.as_deref(),
        name: &it.name,
    }
}

fn child(it: &Child) -> wire::Child<'_> {
    wire::Child {
        effect: &it.effect,
        object: object_ref(&it.object),
        uid: it.uid.as_deref(),
        state: match it.state {
            ChildState::Absent => wire::ChildState::Absent,
            ChildState::InProgress => wire::ChildState::InProgress,
            ChildState::Current => wire::ChildState::Current,
            ChildState::Failed => wire::ChildState::Failed,
            ChildState::Terminating => wire::ChildState::Terminating,
        },
        message: &it.message,
        error: it.error.as_ref().map(cause),
    }
}

fn receipt<'a>(it: &'a Receipt, headers: &'a [Header<'a>]) -> wire::Receipt<'a> {
    let state = match &it.state {
        ReceiptState::Answered(answer) => wire::ReceiptState::Answered(response(answer, headers)),
        ReceiptState::Failed(send) => wire::ReceiptState::Failed(wire::FailedSend {
            attempts: send.attempts,
            error: cause(&send.error),
            next_at: &send.next_at,
        }),
        ReceiptState::Unknown => wire::ReceiptState::Unknown,
    };
    wire::Receipt {
        effect: &it.effect,
        key: it.key.as_deref(),
        state,
    }
}

fn extension(it: &Extension) -> wire::ExtensionParam<'_> {
    wire::ExtensionParam {
        name: &it.name,
        value: it.value.as_str(),
    }
}
