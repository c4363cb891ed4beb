//! The provisioner over real connections.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use provisioner::{Fail, Mode, Provisioner, State};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SMALL: &str = r#"{"size":"small","region":"eu"}"#;

/// Sends one request; code, head and body of the answer, or `None` if the connection closed without any.
async fn send(
    url: &str,
    line: &str,
    key: Option<&str>,
    body: &str,
) -> Option<(u16, String, Value)> {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let key = key.map(|key| format!("idempotency-key: {key}\r\n"));
    let (key, length) = (key.unwrap_or_default(), body.len());
    let request = format!(
        "{line} HTTP/1.1\r\nhost: p\r\nconnection: close\r\ncontent-type: application/json\r\n{key}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A cut connection may show as an end or as a reset.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    Some((code, head.to_lowercase(), body))
}

/// A request about the resource `a`: its code, if it was answered.
async fn ask(provisioner: &Provisioner, method: &str, key: Option<&str>) -> Option<u16> {
    let body = if method == "PUT" { SMALL } else { "" };
    let line = format!("{method} /resources/a");
    let answer = send(&provisioner.url(), &line, key, body).await?;
    Some(answer.0)
}

async fn start() -> Provisioner {
    Provisioner::start("127.0.0.1:0").await.unwrap()
}

/// How often the resource `a` was made.
fn created(provisioner: &Provisioner) -> u64 {
    let acts = provisioner.stats().acts.remove("a");
    acts.map_or(0, |acts| acts.created)
}

#[tokio::test]
async fn a_resource_is_looked_for_made_watched_and_taken_away() {
    let provisioner = start().await;
    provisioner.delay(None);
    let url = provisioner.url();
    assert_eq!(ask(&provisioner, "GET", None).await, Some(404));
    let made = send(&url, "PUT /resources/a", Some("k1"), SMALL).await;
    let (code, _, body) = made.clone().unwrap();
    let wanted = json!({"id": "a", "size": "small", "region": "eu", "state": "provisioning"});
    assert_eq!((code, body), (201, wanted));
    provisioner.finish();
    let again = send(&url, "PUT /resources/a", Some("k1"), SMALL).await;
    let (made, again) = (made.unwrap(), again.unwrap());
    assert_eq!((made.0, made.2), (again.0, again.2), "the same answer");
    let now = send(&url, "GET /resources/a", None, "").await.unwrap().2;
    assert_eq!(
        (&now["state"], &now["endpoint"]),
        (&json!("ready"), &json!("a.eu.provisioned.example:5432"))
    );
    let all = send(&url, "GET /resources", None, "").await.unwrap().2;
    assert_eq!(all, json!([now]));
    assert_eq!(provisioner.resources()[0].state, State::Ready);
    assert_eq!(ask(&provisioner, "DELETE", Some("k2")).await, Some(204));
    assert_eq!(ask(&provisioner, "GET", None).await, Some(404));

    let ledger = provisioner.ledger();
    let lines: Vec<_> = ledger
        .iter()
        .map(|e| (e.method.as_str(), e.key.as_deref(), e.answer))
        .collect();
    let wanted = [
        ("GET", None, Some(404)),
        ("PUT", Some("k1"), Some(201)),
        ("PUT", Some("k1"), Some(201)),
        ("GET", None, Some(200)),
        ("DELETE", Some("k2"), Some(204)),
        ("GET", None, Some(404)),
    ];
    assert_eq!(lines, wanted);
    assert!(ledger.iter().all(|entry| entry.resource == "a"));
    assert!(ledger.is_sorted_by_key(|entry| entry.at) && ledger[0].at > 0);
    assert_eq!((provisioner.stats().repeats, created(&provisioner)), (1, 1));
}

#[tokio::test]
async fn it_fails_as_told_and_does_nothing_then() {
    let provisioner = start().await;
    for (mode, code) in [
        (Mode::Answer(503), Some(503)),
        (Mode::Answer(403), Some(403)),
        (Mode::Close, None),
    ] {
        provisioner.fail(Fail::times(mode, 1).method("PUT"));
        assert_eq!(ask(&provisioner, "PUT", Some("k")).await, code, "{mode:?}");
    }
    assert_eq!((provisioner.stats().failed, created(&provisioner)), (3, 0));
    assert_eq!(ask(&provisioner, "PUT", Some("k")).await, Some(201));
}

#[tokio::test]
async fn a_lost_answer_is_found_again_under_its_key_and_by_looking() {
    let provisioner = start().await;
    provisioner.fail(Fail::times(Mode::Lost, 1));
    assert_eq!(ask(&provisioner, "PUT", Some("k")).await, None);
    assert_eq!(ask(&provisioner, "GET", None).await, Some(200));
    assert_eq!(ask(&provisioner, "PUT", Some("k")).await, Some(201));
    assert_eq!(created(&provisioner), 1);
}

#[tokio::test]
async fn it_can_be_told_over_http() {
    let provisioner = start().await;
    let url = provisioner.url();
    let tell = async |path: &str, body: Value| {
        let line = format!("POST /admin/{path}");
        send(&url, &line, None, &body.to_string()).await.unwrap().0
    };
    let fail = json!({"mode": {"answer": 429}, "method": "PUT", "resource": "a", "retryAfter": 7});
    assert_eq!(tell("fail", fail).await, 204);
    let line = "PUT /resources/a";
    let (code, head, _) = send(&url, line, Some("k"), SMALL).await.unwrap();
    assert!(code == 429 && head.contains("retry-after: 7"), "{head}");
    assert_eq!(ask(&provisioner, "GET", None).await, Some(404));
    assert_eq!(tell("fail", json!({"mode": "none"})).await, 204);
    assert_eq!(tell("delay", json!({"ms": null})).await, 204);
    assert_eq!(ask(&provisioner, "PUT", Some("k")).await, Some(201));
    assert_eq!(provisioner.resources()[0].state, State::Provisioning);
    assert_eq!(tell("finish", json!({})).await, 204);
    assert_eq!(provisioner.resources()[0].state, State::Ready);
    assert_eq!(tell("fail", json!({"mode": "bogus"})).await, 422);
    let stats = send(&url, "GET /admin/stats", None, "").await.unwrap().2;
    assert_eq!(stats["acts"]["a"]["created"], 1);
    let ledger = send(&url, "GET /admin/ledger", None, "").await.unwrap().2;
    assert_eq!(ledger, json!(provisioner.ledger()));
}

#[tokio::test]
async fn a_hanging_request_is_in_flight_until_its_connection_ends() {
    let provisioner = start().await;
    provisioner.fail(Fail::times(Mode::Hang, 1));
    let url = provisioner.url();
    let hanging =
        tokio::spawn(async move { send(&url, "PUT /resources/a", Some("k"), SMALL).await });
    while provisioner.stats().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    while provisioner.stats().in_flight != 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(provisioner.ledger()[0].answer, None);
    assert_eq!(created(&provisioner), 0);
}
