use std::time::Duration;

use guesthouse_core::identity::Identity;
use serde_json::{Value, json};

use super::super::scripted::{PATIENCE, Reply, Scripted};
use super::super::transport::TransportOptions;
use super::*;

fn resource() -> Resource {
    let (group, version, kind, plural) = (
        "acme.io".into(),
        "v1".into(),
        "Thing".into(),
        "things".into(),
    );
    Resource {
        group,
        version,
        kind,
        plural,
        namespaced: true,
        has_status: true,
        crd: None,
    }
}

async fn scripted(script: Vec<Reply>) -> (Scripted, Api) {
    let server = Scripted::play(script).await;
    let api = Api::new(server.transport(TransportOptions::default()));
    (server, api)
}

const OBJECT: &str = r#"{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{"name":"a","uid":"u","resourceVersion":"7","managedFields":[]}}"#;

#[test]
fn warnings_are_read_as_kubernetes_writes_them() {
    let mut headers = HeaderMap::new();
    for value in [
        r#"299 - "unknown field \"spec.x\"""#,
        r#"299 - "second""#,
        r#"110 - "stale""#,
        "299",
    ] {
        headers.append(header::WARNING, value.parse().unwrap());
    }
    assert_eq!(warnings(&headers), [r#"unknown field "spec.x""#, "second"]);
}

#[tokio::test]
async fn a_get_answers_with_the_compacted_text() {
    let (mut server, api) = scripted(vec![Reply::json(200, OBJECT)]).await;
    let text = api
        .get(&Identity::Host, &resource(), "ns", "a")
        .await
        .unwrap();
    assert_eq!(&*text, OBJECT.replace(r#","managedFields":[]"#, ""));
    let seen = server.seen().await;
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("GET", "/apis/acme.io/v1/namespaces/ns/things/a")
    );
    assert!(
        seen.header("user-agent")
            .unwrap()
            .starts_with("guesthouse/")
    );
}

/// crossplane#5334: two managers own parts of a status, and fields cannot be deleted; here it is one writer and one verb.
/// kopf#574: what the server prunes is in its warnings.
#[tokio::test]
async fn a_status_goes_to_the_subresource_and_its_warnings_come_back() {
    let (mut server, api) = scripted(vec![
        Reply::with_headers(
            200,
            "Warning: 299 - \"unknown field \\\"status.x\\\"\"\r\n",
            OBJECT,
        ),
        Reply::json(200, OBJECT),
    ])
    .await;
    let answer = api
        .put_status(
            &Identity::Host,
            &resource(),
            "ns",
            "a",
            "{}",
            Want::Metadata,
        )
        .await
        .unwrap();
    assert_eq!(answer.warnings, [r#"unknown field "status.x""#]);
    assert_eq!(answer.stamp().unwrap().version(), Some(7));
    let seen = server.seen().await;
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("PUT", "/apis/acme.io/v1/namespaces/ns/things/a/status")
    );
    assert_eq!(seen.param("fieldValidation"), Some("Warn"));
    assert_eq!(
        seen.header("accept"),
        Some("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
    );
    assert_eq!(
        (seen.header("content-type"), seen.body.as_str()),
        (Some("application/json"), "{}")
    );
    api.put_status(&Identity::Host, &resource(), "ns", "a", "{}", Want::Object)
        .await
        .unwrap();
    assert_eq!(
        server.seen().await.header("accept"),
        Some("application/json")
    );
}

#[tokio::test]
async fn each_kind_of_patch_says_what_it_is() {
    let kinds = [
        (PatchKind::Merge, "application/merge-patch+json", None, None),
        (PatchKind::Json, "application/json-patch+json", None, None),
        (
            PatchKind::Apply {
                manager: "guesthouse/a b",
                force: true,
            },
            "application/apply-patch+yaml",
            Some("guesthouse/a b"),
            Some("true"),
        ),
        (
            PatchKind::Apply {
                manager: "m",
                force: false,
            },
            "application/apply-patch+yaml",
            Some("m"),
            Some("false"),
        ),
    ];
    let (mut server, api) =
        scripted(kinds.iter().map(|_| Reply::json(200, OBJECT)).collect()).await;
    for (kind, content_type, manager, force) in kinds {
        api.patch(
            &Identity::Host,
            &resource(),
            "ns",
            "a",
            kind,
            "{}",
            Want::Object,
        )
        .await
        .unwrap();
        let seen = server.seen().await;
        assert_eq!(
            (seen.method.as_str(), seen.header("content-type")),
            ("PATCH", Some(content_type))
        );
        assert_eq!(
            (seen.param("fieldManager"), seen.param("force")),
            (manager, force)
        );
    }
}

#[tokio::test]
async fn create_replace_and_delete_go_where_they_should() {
    let (mut server, api) = scripted(vec![
        Reply::json(201, OBJECT),
        Reply::json(200, OBJECT),
        Reply::json(200, "{}"),
    ])
    .await;
    assert_eq!(
        api.create(&Identity::Host, &resource(), "ns", OBJECT)
            .await
            .unwrap()
            .code,
        201
    );
    let seen = server.seen().await;
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str(), seen.body.as_str()),
        ("POST", "/apis/acme.io/v1/namespaces/ns/things", OBJECT)
    );
    api.replace(&Identity::Host, &resource(), "ns", "a", OBJECT)
        .await
        .unwrap();
    assert_eq!(server.seen().await.method, "PUT");
    let preconditions = Preconditions {
        uid: Some("u"),
        resource_version: None,
    };
    api.delete(
        &Identity::Host,
        &resource(),
        "ns",
        "a",
        preconditions,
        Propagation::Background,
    )
    .await
    .unwrap();
    let seen = server.seen().await;
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str()),
        ("DELETE", "/apis/acme.io/v1/namespaces/ns/things/a")
    );
    let body: Value = serde_json::from_str(&seen.body).unwrap();
    assert_eq!(
        body,
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": "u"}})
    );
    assert!(matches!(
        api.create(&Identity::Host, &resource(), "", OBJECT).await,
        Err(RequestError::NotSent(_))
    ));
}

#[tokio::test]
async fn a_refusal_is_one_request_and_a_typed_error() {
    let (mut server, api) = scripted(vec![
        Reply::status(409, "stale"),
        Reply::with_headers(429, "Retry-After: 2\r\n", "slow down"),
        Reply::json(200, "no object"),
        Reply::json(200, "").cut(),
    ])
    .await;
    let get = || async {
        api.get(&Identity::Host, &resource(), "ns", "a")
            .await
            .unwrap_err()
    };
    assert_eq!(get().await, RequestError::Conflict("stale".into()));
    assert_eq!(
        get().await,
        RequestError::Throttled {
            retry_after: Some(Duration::from_secs(2)),
            message: "slow down".into()
        }
    );
    assert!(matches!(get().await, RequestError::Unreadable(_)));
    assert!(matches!(get().await, RequestError::Unreachable(_)), "cut");
    for _ in 0..4 {
        server.seen().await;
    }
}

#[tokio::test]
async fn no_answer_in_time_and_no_server_at_all_are_unreachable() {
    let server = Scripted::play(vec![]).await;
    let api = Api::new(server.transport(TransportOptions {
        request_timeout: Duration::from_millis(20),
        ..TransportOptions::default()
    }));
    let error = api
        .get(&Identity::Host, &resource(), "ns", "a")
        .await
        .unwrap_err();
    assert_eq!(
        error,
        RequestError::Unreachable("no answer within 0.02 s".into())
    );
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let api = Api::new(Transport::new(config, TransportOptions::default()).unwrap());
    let error = api
        .get(&Identity::Host, &resource(), "ns", "a")
        .await
        .unwrap_err();
    assert!(
        matches!(&error, RequestError::Unreachable(text) if text.contains("refused")),
        "{error}"
    );
}

#[tokio::test]
async fn no_more_requests_than_allowed_are_in_flight() {
    let (first, go) = Reply::json(200, OBJECT).wait();
    let mut server = Scripted::play(vec![first, Reply::json(200, OBJECT)]).await;
    let api = Api::new(server.transport(TransportOptions {
        in_flight: 1,
        ..TransportOptions::default()
    }));
    let ask = |api: Api| {
        tokio::spawn(async move { api.get(&Identity::Host, &resource(), "ns", "a").await })
    };
    let (one, two) = (ask(api.clone()), ask(api));
    server.seen().await;
    // The second request may not come while the first is open. Its absence can only be waited for; a broken limit shows at once.
    assert!(
        tokio::time::timeout(Duration::from_millis(50), server.seen())
            .await
            .is_err()
    );
    go.send(()).unwrap();
    server.seen().await;
    for answer in [one, two] {
        tokio::time::timeout(PATIENCE, answer)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }
}

fn pages() -> Vec<Reply> {
    let gzip = {
        use std::io::Write;
        let text = r#"{"kind":"ThingList","metadata":{"resourceVersion":"9","continue":"a/b=="},"items":[{"metadata":{"name":"a","managedFields":[]}},{"metadata":{"name":"b"}}]}"#;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    vec![
        Reply::with_headers(200, "Content-Encoding: gzip\r\n", gzip),
        Reply::json(
            200,
            r#"{"kind":"ThingList","metadata":{"resourceVersion":"9"},"items":[{"kind":"Thing","apiVersion":"acme.io/v1","metadata":{"name":"c"}}]}"#,
        ),
    ]
}

#[tokio::test]
async fn a_list_is_paged_gzipped_and_from_the_most_recent_state() {
    let (mut server, api) = scripted(pages()).await;
    let scope = Scope::namespace("ns").labels("a=b,c!=d");
    let listed = api
        .list(&Identity::Host, &resource(), &scope, View::Object, 10)
        .await
        .unwrap();
    assert_eq!(
        listed.items.iter().map(|text| &**text).collect::<Vec<_>>(),
        [
            r#"{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{"name":"a"}}"#,
            r#"{"apiVersion":"acme.io/v1","kind":"Thing","metadata":{"name":"b"}}"#,
            r#"{"kind":"Thing","apiVersion":"acme.io/v1","metadata":{"name":"c"}}"#
        ]
    );
    assert_eq!(
        (listed.resource_version.as_str(), listed.truncated),
        ("9", false)
    );
    let (first, second) = (server.seen().await, server.seen().await);
    assert_eq!(
        (
            first.param("limit"),
            first.param("continue"),
            first.param("labelSelector")
        ),
        (Some("10"), None, Some("a=b,c!=d"))
    );
    assert_eq!(
        (second.param("limit"), second.param("continue")),
        (Some("8"), Some("a/b=="))
    );
    for seen in [&first, &second] {
        assert_eq!(
            (
                seen.param("resourceVersion"),
                seen.param("resourceVersionMatch")
            ),
            (None, None)
        );
        assert_eq!(seen.header("accept-encoding"), Some("gzip"));
    }
}

#[tokio::test]
async fn a_list_stops_at_its_limit_and_says_so() {
    let (_server, api) = scripted(pages()).await;
    let listed = api
        .list(
            &Identity::Host,
            &resource(),
            &Scope::named("ns", "a"),
            View::Metadata,
            2,
        )
        .await
        .unwrap();
    assert_eq!((listed.items.len(), listed.truncated), (2, true));
}
