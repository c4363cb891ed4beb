//! The exporter over real connections.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use report_exporter::{Exporter, Fail, Mode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Sends one request; the code, the head and the body of the answer, or `None` if the connection closed without any.
async fn send(
    url: &str,
    method: &str,
    path: &str,
    key: Option<&str>,
    body: &str,
) -> Option<(u16, String, Value)> {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://"))
        .await
        .unwrap();
    let key = key
        .map(|key| format!("idempotency-key: {key}\r\n"))
        .unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: e\r\nconnection: close\r\ncontent-type: application/json\r\n{key}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A cut connection may show as an end or as a reset.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    Some((
        code,
        head.to_lowercase(),
        serde_json::from_str(body).unwrap_or(Value::Null),
    ))
}

async fn put(exporter: &Exporter, id: &str, key: &str, body: &str) -> Option<u16> {
    Some(
        send(
            &exporter.url(),
            "PUT",
            &format!("/reports/{id}"),
            Some(key),
            body,
        )
        .await?
        .0,
    )
}

async fn start() -> Exporter {
    Exporter::start("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn a_report_is_made_once_for_each_key() {
    let exporter = start().await;
    let first = send(&exporter.url(), "PUT", "/reports/a%2Fb", Some("k"), "{}")
        .await
        .unwrap();
    let url = format!("{}/reports/a%2Fb", exporter.url());
    assert_eq!((first.0, &first.2), (201, &json!({"url": url})));
    let again = send(&exporter.url(), "PUT", "/reports/a%2Fb", Some("k"), "{}")
        .await
        .unwrap();
    assert_eq!((again.0, again.2), (first.0, first.2), "the same answer");
    assert_eq!(
        put(&exporter, "a%2Fb", "k", "{1}").await,
        Some(422),
        "another body under the same key"
    );
    assert_eq!(
        send(&exporter.url(), "PUT", "/reports/c", None, "{}")
            .await
            .unwrap()
            .0,
        400,
        "no key"
    );
    let stats = exporter.stats();
    assert_eq!(
        (stats.made, stats.repeats, stats.duplicates, stats.in_flight),
        (1, 1, 0, 0)
    );
    assert_eq!(stats.attempts["a/b"].len(), 3);
    assert_eq!(put(&exporter, "a%2Fb", "k2", "{}").await, Some(201));
    assert_eq!(exporter.stats().duplicates, 1);
    let listed = send(&exporter.url(), "GET", "/reports", None, "")
        .await
        .unwrap()
        .2;
    assert_eq!(listed, json!([{"id": "a/b", "key": "k2", "body": "{}"}]));
}

#[tokio::test]
async fn it_fails_as_told_and_makes_nothing_then() {
    let exporter = start().await;
    for (mode, code) in [
        (Mode::Http500, Some(500)),
        (Mode::Http429, Some(429)),
        (Mode::Http422, Some(422)),
        (Mode::Close, None),
        (Mode::Down, None),
    ] {
        exporter.fail(Fail::times(mode, 1));
        assert_eq!(put(&exporter, "a", "k", "{}").await, code, "{mode:?}");
    }
    let stats = exporter.stats();
    assert_eq!((stats.made, stats.failed, stats.in_flight), (0, 5, 0));
    assert_eq!(put(&exporter, "a", "k", "{}").await, Some(201));
    assert_eq!(exporter.stats().made, 1);
}

#[tokio::test]
async fn a_lost_answer_is_found_again_under_its_key() {
    let exporter = start().await;
    exporter.fail(Fail::times(Mode::Lost, 1));
    assert_eq!(put(&exporter, "a", "k", "{}").await, None);
    assert_eq!(put(&exporter, "a", "k", "{}").await, Some(201));
    let stats = exporter.stats();
    assert_eq!((stats.made, stats.repeats, stats.duplicates), (1, 1, 0));
}

#[tokio::test]
async fn it_can_be_told_over_http() {
    let exporter = start().await;
    let url = exporter.url();
    let fail =
        json!({"mode": "http429", "times": null, "report": "a", "retryAfter": 7}).to_string();
    assert_eq!(
        send(&url, "POST", "/admin/fail", None, &fail)
            .await
            .unwrap()
            .0,
        204
    );
    assert_eq!(
        send(&url, "POST", "/admin/delay", None, r#"{"ms": 1}"#)
            .await
            .unwrap()
            .0,
        204
    );
    let (code, head, _) = send(&url, "PUT", "/reports/a", Some("k"), "{}")
        .await
        .unwrap();
    assert!(code == 429 && head.contains("retry-after: 7"), "{head}");
    assert_eq!(
        put(&exporter, "b", "l", "{}").await,
        Some(201),
        "others are not concerned"
    );
    assert_eq!(
        send(&url, "POST", "/admin/fail", None, r#"{"mode": "none"}"#)
            .await
            .unwrap()
            .0,
        204
    );
    assert_eq!(put(&exporter, "a", "k", "{}").await, Some(201));
    let stats = send(&url, "GET", "/admin/stats", None, "").await.unwrap().2;
    assert_eq!(
        (&stats["made"], &stats["failed"], &stats["inFlight"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert_eq!(stats["attempts"]["a"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        send(&url, "POST", "/admin/fail", None, r#"{"mode": "bogus"}"#)
            .await
            .unwrap()
            .0,
        422
    );
}

#[tokio::test]
async fn a_hanging_request_is_in_flight_until_its_connection_ends() {
    let exporter = start().await;
    exporter.fail(Fail::times(Mode::Hang, 1));
    let url = exporter.url();
    let hanging =
        tokio::spawn(async move { send(&url, "PUT", "/reports/a", Some("k"), "{}").await });
    while exporter.stats().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    hanging.abort();
    assert!(hanging.await.unwrap_err().is_cancelled());
    while exporter.stats().in_flight != 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(exporter.stats().made, 0);
}

#[tokio::test]
async fn a_stopped_exporter_frees_its_port_and_closes_its_connections() {
    let exporter = start().await;
    exporter.fail(Fail::always(Mode::Hang));
    let url = exporter.url();
    let asked = url.clone();
    let hanging =
        tokio::spawn(async move { send(&asked, "PUT", "/reports/a", Some("k"), "{}").await });
    while exporter.stats().in_flight == 0 {
        tokio::task::yield_now().await;
    }
    exporter.stop().await;
    assert_eq!(hanging.await.unwrap(), None);
    assert!(
        TcpStream::connect(url.trim_start_matches("http://"))
            .await
            .is_err()
    );
}
