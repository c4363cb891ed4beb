//! A whole life of a ProvisionRequest at the real provisioner, under a host that fits on a page: looks, receipts by id and key,
//! the same idempotency key for the same wish, time that only moves between passes.

#![allow(clippy::unwrap_used, clippy::panic)] // a test

use guesthouse_sdk::contract::{
    Answer, Body, Cause, Decision, FailedSend, Failure, Receipt, ReceiptState, Related, Request,
    Response, Source,
};
use guesthouse_sdk::testing::{decide, finalize, observe};
use guesthouse_sdk::{Value, json};
use provision_request::{ProvisionRequest, RELEASE};
use provisioner::{Acts, Fail, Mode, Provisioner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ID: &str = "acme.db.u-1";

struct Host {
    provisioner: Provisioner,
    object: Value,
    receipts: Vec<Receipt>,
    look: Option<(u64, Answer)>,
    now: u64,
    attempt: u32,
}

impl Host {
    async fn new() -> Host {
        let provisioner = Provisioner::start("127.0.0.1:0").await.unwrap();
        provisioner.delay(None);
        let object = json!({
            "metadata": {"name": "db", "namespace": "acme", "uid": "u-1", "generation": 1},
            "spec": {"size": "small", "region": "eu"},
        });
        Host {
            provisioner,
            object,
            receipts: Vec::new(),
            look: None,
            now: 0,
            attempt: 0,
        }
    }

    fn time(&self) -> String {
        format!(
            "2026-01-01T{:02}:{:02}:{:02}Z",
            self.now / 3600,
            self.now / 60 % 60,
            self.now % 60
        )
    }

    fn call(&self) -> Result<Decision, Failure> {
        let config = json!({"provisioner": self.provisioner.url()});
        let mut scene = observe(&self.object)
            .config(config)
            .now(&self.time())
            .attempt(self.attempt);
        let seen = scene.raw();
        seen.receipts = self.receipts.clone();
        let related = |(_, answer): &(u64, Answer)| Related {
            name: "resource".into(),
            answer: answer.clone(),
        };
        seen.related = self.look.iter().map(related).collect();
        match self.object["metadata"].get("deletionTimestamp") {
            None => decide::<ProvisionRequest>(&scene),
            Some(_) => finalize::<ProvisionRequest>(&scene),
        }
    }

    /// One pass. Whether the object is let go.
    async fn pass(&mut self) -> bool {
        let mut tried = Vec::new();
        for _ in 0..5 {
            let decision = match self.call() {
                Ok(decision) => decision,
                Err(_) => {
                    self.attempt += 1;
                    self.look = None;
                    return false;
                }
            };
            if let Some(need) = decision.needs.first() {
                let Source::Fetch(fetch) = &need.source else {
                    panic!("{need:?}")
                };
                let fits = |(at, _): &(u64, Answer)| self.now - at <= u64::from(fetch.fresh);
                if !self.look.as_ref().is_some_and(fits) {
                    let answer = match self.send(&fetch.request, None).await {
                        Some(response) if response.code < 500 => Answer::Response(response),
                        _ => Answer::Unavailable(Cause::new("Failed", "no answer")),
                    };
                    self.look = Some((self.now, answer));
                    continue;
                }
            }
            let wish = ["provision", RELEASE]
                .into_iter()
                .find_map(|id| Some((id, decision.http(id)?.clone())));
            let untried = wish.filter(|(id, http)| !tried.contains(&(*id, http.key.clone())));
            let Some((id, http)) = untried else {
                if let Some(status) = decision.status_text() {
                    self.object["status"] = serde_json::from_str(status).unwrap();
                }
                return decision.finalized;
            };
            let key = format!("u-1/{id}/{:?}", http.key);
            let state = match self.send(&http.request, Some(&key)).await {
                Some(response) if response.code < 500 => ReceiptState::Answered(response),
                _ => ReceiptState::Failed(FailedSend {
                    attempts: 1,
                    error: Cause::new("Unreachable", "no answer"),
                    next_at: self.time(),
                }),
            };
            self.receipts.retain(|receipt| receipt.effect != id);
            tried.push((id, http.key.clone()));
            let (effect, key) = (id.to_owned(), http.key);
            self.receipts.push(Receipt { effect, key, state });
        }
        panic!("a pass of more than five rounds")
    }

    async fn send(&self, request: &Request, key: Option<&str>) -> Option<Response> {
        let url = self.provisioner.url();
        let path = request.url.strip_prefix(&url).unwrap();
        let body = match &request.body {
            Body::Text(text) => text.as_str(),
            _ => "",
        };
        let key = key.map(|key| format!("idempotency-key: {key}\r\n"));
        let message = format!(
            "{} {path} HTTP/1.1\r\nhost: p\r\nconnection: close\r\n{}content-length: {}\r\n\r\n{body}",
            request.method,
            key.unwrap_or_default(),
            body.len(),
        );
        let address = url.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(message.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // A cut connection may show as an end or as a reset.
        let _ = stream.read_to_string(&mut answer).await;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some(Response {
            code: head.split(' ').nth(1)?.parse().unwrap(),
            headers: Vec::new(),
            body: Body::Text(body.into()),
            truncated: false,
            at: self.time(),
        })
    }

    /// Passes until the resource is ready in that size, or until the object is let go; what is under way is finished in between.
    async fn settle(&mut self, size: Option<&str>) {
        for _ in 0..12 {
            if self.pass().await {
                assert_eq!(size, None, "let go");
                return;
            }
            let status = &self.object["status"];
            if size.is_some_and(|size| status["phase"] == "Ready" && status["size"] == size) {
                return;
            }
            self.provisioner.finish();
            self.now += 5;
        }
        panic!("does not settle: {} {:?}", self.object, self.receipts);
    }

    fn edit(&mut self, size: &str) {
        self.object["spec"]["size"] = json!(size);
        let generation = self.object["metadata"]["generation"].as_i64().unwrap();
        self.object["metadata"]["generation"] = json!(generation + 1);
    }

    /// Created, made larger and small again within the time that a look is good for, deleted; before each step something
    /// goes wrong.
    async fn live(mut self, mut trouble: impl FnMut(usize, &mut Host)) -> Acts {
        trouble(0, &mut self);
        self.settle(Some("small")).await;
        trouble(1, &mut self);
        self.edit("large");
        self.pass().await;
        trouble(2, &mut self);
        self.edit("small");
        self.settle(Some("small")).await;
        assert_eq!(self.provisioner.resources()[0].size, "small");
        trouble(3, &mut self);
        self.object["metadata"]["deletionTimestamp"] = json!(self.time());
        self.settle(None).await;
        assert_eq!(self.provisioner.resources(), []);
        let acts = self.provisioner.stats().acts[ID];
        assert_eq!((acts.created, acts.deleted), (1, 1));
        assert!(acts.resized <= 2, "{acts:?}");
        acts
    }
}

#[tokio::test]
async fn a_life_without_trouble_is_four_deeds() {
    let host = Host::new().await;
    assert_eq!(host.live(|_, _| ()).await.resized, 2);
    let mut host = Host::new().await;
    host.settle(Some("small")).await;
    host.edit("large");
    host.settle(Some("large")).await;
    let wanted = Acts {
        created: 1,
        resized: 1,
        deleted: 0,
    };
    assert_eq!(host.provisioner.stats().acts[ID], wanted);
    let before = host.provisioner.ledger().len();
    host.pass().await;
    assert_eq!(
        host.provisioner.ledger().len(),
        before,
        "settled: nothing is asked"
    );
}

#[tokio::test]
async fn no_single_failure_makes_two_or_leaves_one_behind() {
    for method in ["GET", "PUT", "DELETE"] {
        for mode in [Mode::Answer(503), Mode::Close, Mode::Lost] {
            for step in 0..4 {
                let host = Host::new().await;
                host.live(|now, host| {
                    if now == step {
                        host.provisioner.fail(Fail::times(mode, 2).method(method));
                    }
                })
                .await;
            }
        }
    }
}

#[tokio::test]
async fn receipts_that_are_lost_make_no_second_resource() {
    for step in 0..4 {
        let host = Host::new().await;
        host.live(|now, host| {
            if now == step {
                (host.receipts, host.look) = (Vec::new(), None);
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_refused_deletion_is_asked_for_again_and_keeps_the_object_until_then() {
    let host = Host::new().await;
    host.live(|now, host| {
        if now == 3 {
            host.provisioner
                .fail(Fail::times(Mode::Answer(403), 3).method("DELETE"));
        }
    })
    .await;
}
