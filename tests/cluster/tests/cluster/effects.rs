//! What is sent outside: with which secrets, how often, and what is remembered of it.

use anyhow::{Context, Result, ensure};
use guesthouse_tests::{Arguments, EVENTS, Receiver, SECRETS, Scene, WISHES, condition, scenario};
use serde_json::{Value, json};

const TOKEN: &str = "s3cr3t-4f9d1c7e";
const TOKEN_BASE64: &str = "czNjcjN0LTRmOWQxYzdl";

#[test]
fn a_credential_reaches_the_receiver_and_stands_nowhere_else() -> Result<()> {
    scenario("credential", async |scene| {
        let receiver = Receiver::start().await?;
        scene.map("wishes", &mapping(scene)?.to_string()).await?;
        let how = Arguments {
            log: "trace,guesthouse::step=trace".to_owned(),
            ..Arguments::default()
        };
        let _host = scene.host_with(&how)?;
        scene
            .wish(
                "wish",
                json!({"reconcile": {"http": [put(&receiver, "send")]}}),
            )
            .await?;
        // The Secret is missing: that is said, nothing is sent, and it goes on when it comes.
        let missing = "the credential in the Secret token, key value, cannot be used";
        scene.unready(WISHES, "wish", missing).await?;
        ensure!(receiver.requests().is_empty());
        let secret = json!({"metadata": {"name": "token"}, "data": {"value": TOKEN_BASE64}});
        scene.api.create(SECRETS, &scene.home, secret).await?;
        let sent = |wish: &Value| wish["status"]["receipts"]["send"] == "200";
        scene.object_is(WISHES, "wish", "sent", sent).await?;
        let requests = receiver.requests();
        ensure!(requests.len() == 1, "{requests:#?}");
        ensure!(
            requests[0].contains(&format!("authorization: Bearer {TOKEN}\r\n")),
            "{requests:#?}"
        );
        nowhere(scene).await?;

        // One that is refused says so without saying it.
        let mut denied = mapping(scene)?;
        denied["grants"]["http"][0]["credentials"] = json!([]);
        scene.map("wishes", &denied.to_string()).await?;
        scene
            .wish(
                "denied",
                json!({"reconcile": {"http": [put(&receiver, "send")]}}),
            )
            .await?;
        scene
            .condition_is(WISHES, "denied", "Stalled", "True", "credentials")
            .await?;
        ensure!(receiver.requests().len() == 1);
        nowhere(scene).await
    })
}

/// keeperhub#1922
#[test]
fn what_may_be_sent_at_most_once_is_unknown_after_a_kill_and_never_sent_again() -> Result<()> {
    scenario("at-most-once", async |scene| {
        let receiver = Receiver::start().await?;
        scene.map("wishes", &mapping(scene)?.to_string()).await?;
        let host = scene.host()?;
        receiver.silent(true);
        let mut once = put(&receiver, "once");
        once["atMostOnce"] = json!(true);
        once["key"] = json!("1");
        once["credential"] = Value::Null;
        scene
            .wish("wish", json!({"reconcile": {"http": [once]}}))
            .await?;
        scene
            .until("the request is under way", || {
                Ok(receiver.requests().len() == 1)
            })
            .await?;
        let journal = scene.journal("wish").await?.context("a journal")?;
        ensure!(
            journal["record"]["receipts"][0]["state"]["intent"].is_object(),
            "{journal}"
        );
        host.kill();
        receiver.silent(false);
        let host = scene.host()?;
        let unknown = |wish: &Value| wish["status"]["receipts"]["once"] == "Unknown";
        scene
            .object_is(WISHES, "wish", "told that the answer is lost", unknown)
            .await?;
        scene.stop(host).await?;
        let position = scene.log()?.len();
        let _host = scene.host()?;
        scene.quiet("wish", position).await?;
        ensure!(
            receiver.requests().len() == 1,
            "it was sent again: {:#?}",
            receiver.requests()
        );
        // The plugin's word, another key, sends it anew.
        once["key"] = json!("2");
        scene
            .patch(
                WISHES,
                "wish",
                json!({"spec": {"reconcile": {"http": [once]}}}),
            )
            .await?;
        let sent = |wish: &Value| wish["status"]["receipts"]["once"] == "200";
        scene.object_is(WISHES, "wish", "sent", sent).await?;
        ensure!(receiver.requests().len() == 2);
        Ok(())
    })
}

#[test]
fn receipts_go_with_their_object_and_another_request_under_the_same_key_is_refused() -> Result<()> {
    scenario("receipts", async |scene| {
        let receiver = Receiver::start().await?;
        scene.map("wishes", &mapping(scene)?.to_string()).await?;
        let _host = scene.host()?;
        let mut request = put(&receiver, "send");
        request["credential"] = Value::Null;
        scene
            .wish("wish", json!({"reconcile": {"http": [request]}}))
            .await?;
        let sent = |wish: &Value| wish["status"]["receipts"]["send"] == "200";
        scene.object_is(WISHES, "wish", "sent", sent).await?;
        request["body"] = json!("another");
        scene
            .patch(
                WISHES,
                "wish",
                json!({"spec": {"reconcile": {"http": [request]}}}),
            )
            .await?;
        let told = scene.unready(WISHES, "wish", "key").await?;
        ensure!(condition(&told, "Ready")["reason"] == "BadOutput", "{told}");
        ensure!(receiver.requests().len() == 1);
        scene.delete(WISHES, "wish").await?;
        scene
            .eventually("the journal is gone", async || {
                Ok(scene.journal("wish").await?.is_none().then_some(()))
            })
            .await
    })
}

fn mapping(scene: &Scene<'_>) -> Result<Value> {
    let mut mapping = scene.wishes("decide", &[])?;
    mapping["credentials"] = json!({
        "token": {"secret": {"name": "token", "key": "value"}, "prefix": "Bearer "},
    });
    mapping["grants"]["http"][0]["credentials"] = json!(["token"]);
    mapping["retry"] = json!({"base": "200ms"});
    Ok(mapping)
}

fn put(receiver: &Receiver, id: &str) -> Value {
    json!({
        "id": id, "method": "PUT", "url": format!("{}/{id}", receiver.url()),
        "body": "hello", "credential": "token",
    })
}

/// The token stands in no log line, journal, Event or object, neither plain nor encoded.
async fn nowhere(scene: &Scene<'_>) -> Result<()> {
    let mut places = vec![("the log", json!(scene.log()?).to_string())];
    ensure!(
        places[0].1.contains("guesthouse::step"),
        "no step was logged"
    );
    places.push(("a journal", json!(scene.journals().await?).to_string()));
    for (what, kind, namespace) in [
        ("a wish", WISHES, &scene.namespace),
        ("an Event", EVENTS, &scene.namespace),
        ("an Event of the host", EVENTS, &scene.home),
    ] {
        let objects = scene.api.list(kind, namespace).await?;
        places.push((what, json!(objects).to_string()));
    }
    for secret in [TOKEN, TOKEN_BASE64] {
        for (what, text) in &places {
            ensure!(!text.contains(secret), "{what} holds the credential");
        }
    }
    Ok(())
}
