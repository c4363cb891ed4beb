//! Servers that do what a real registry cannot be made to do: garbage, other bytes, bodies and redirects without an end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use guesthouse_artifact::{Access, Digest, FetchError, Reference, Registry, download};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::run;

/// What is answered at a path.
#[derive(Clone)]
enum Reply {
    /// Status, headers, body.
    Is(u16, String, Vec<u8>),
    /// A body that goes on for as long as somebody reads.
    Endless,
    /// The start of a body, then the end of the connection.
    Cut,
}

fn ok(body: impl Into<Vec<u8>>) -> Reply {
    Reply::Is(200, String::new(), body.into())
}

/// A scripted server on loopback.
struct Script {
    address: String,
    replies: Arc<Mutex<HashMap<String, Reply>>>,
    /// Heads of all requests.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Script {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Self {
            address: listener.local_addr().unwrap().to_string(),
            replies: Arc::default(),
            heard: Arc::default(),
        };
        let (replies, heard) = (script.replies.clone(), script.heard.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (replies, heard) = (replies.clone(), heard.clone());
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else {
                            return;
                        };
                        head.push(byte);
                    }
                    let head = String::from_utf8_lossy(&head).to_lowercase();
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    let path = path.split('?').next().unwrap_or_default().to_owned();
                    heard.lock().unwrap().push(head);
                    let reply = replies.lock().unwrap().get(&path).cloned();
                    let _ = answer(&mut stream, reply).await;
                });
            }
        });
        script
    }

    fn at(&self, path: &str, reply: Reply) {
        self.replies.lock().unwrap().insert(path.to_owned(), reply);
    }

    fn registry(&self) -> Registry {
        let reference: Reference = format!("{}/app:1", self.address).parse().unwrap();
        let access = Access {
            insecure: true,
            tried: "no credentials".to_owned(),
            ..Access::default()
        };
        Registry::new(&reference, access).unwrap()
    }

    /// As somebody with a password, where these others may be asked in clear text too.
    fn private(&self, clear: &[&str]) -> Registry {
        let config = format!(
            r#"{{"auths": {{"{}": {{"username": "u", "password": "p"}}}}}}"#,
            self.address
        );
        let config = guesthouse_artifact::DockerConfig::parse(&config).unwrap();
        let access = Access {
            insecure: true,
            login: config.login(&self.address, "app").unwrap(),
            clear: clear.iter().map(|&host| host.to_owned()).collect(),
            ..Access::default()
        };
        let reference: Reference = format!("{}/app:1", self.address).parse().unwrap();
        Registry::new(&reference, access).unwrap()
    }

    /// A manifest with one layer of this digest and size.
    fn manifest(&self, digest: &str, size: u64) {
        let layer =
            serde_json::json!({"mediaType": "application/wasm", "digest": digest, "size": size});
        self.at(
            "/v2/app/manifests/1",
            ok(serde_json::json!({"layers": [layer]}).to_string()),
        );
    }
}

async fn answer(stream: &mut tokio::net::TcpStream, reply: Option<Reply>) -> std::io::Result<()> {
    let (status, headers, body) = match reply {
        Some(Reply::Is(status, headers, body)) => (status, headers, body),
        Some(Reply::Endless) => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            loop {
                stream.write_all(&[b' '; 4096]).await?;
            }
        }
        Some(Reply::Cut) => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
            return stream.write_all(head).await;
        }
        None => (404, String::new(), b"nothing here".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await
}

#[test]
fn a_manifest_that_is_garbage_torn_endless_or_of_something_else_is_an_error_that_says_so() {
    run(async {
        let script = Script::start().await;
        let index = r#"{"manifests": [{"digest": "sha256:0", "size": 1}]}"#;
        let many = r#"{"layers": [{"mediaType": "application/wasm", "digest": "a", "size": 1}, {"mediaType": "application/wasm", "digest": "b", "size": 1}]}"#;
        let digest =
            r#"{"layers": [{"mediaType": "application/wasm", "digest": "md5:1", "size": 1}]}"#;
        let docker = r#"{"mediaType": "application/vnd.docker.distribution.manifest.v2+json"}"#;
        for (reply, expected) in [
            (ok("<html>"), "no OCI manifest"),
            (ok(index), "index of several manifests"),
            (ok("{}"), "one layer of type application/wasm"),
            (ok(many), "one layer of type application/wasm"),
            (ok(digest), "no digest"),
            (ok(docker), "its type is application/vnd.docker"),
            (Reply::Endless, "more than 4194304 bytes"),
            (Reply::Cut, "/v2/app/manifests/1: "),
            (
                Reply::Is(500, String::new(), b"line\x1b[31m one\nline two".to_vec()),
                "500 Internal Server Error: line",
            ),
        ] {
            script.at("/v2/app/manifests/1", reply);
            let error = script.registry().resolve().await.unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
            assert!(!error.contains('\n') && !error.contains('\x1b'), "{error}");
        }
    });
}

#[test]
fn a_layer_is_read_up_to_its_size_and_counts_by_its_digest() {
    run(async {
        let script = Script::start().await;
        let right = Digest::of(b"plugin");
        let blob = format!("/v2/app/blobs/{right}");
        let pull = async |most: u64| {
            let registry = script.registry();
            let resolved = registry.resolve().await.unwrap();
            registry.pull(&resolved, most).await
        };
        script.manifest(&right.to_string(), 6);
        script.at(&blob, ok("plugin"));
        assert_eq!(pull(6).await.unwrap(), b"plugin");
        script.at(&blob, ok("plugim"));
        assert!(matches!(pull(6).await, Err(FetchError::OtherDigest { .. })));
        script.at(&blob, Reply::Endless);
        assert!(matches!(pull(6).await, Err(FetchError::TooLarge { .. })));
        script.at(&blob, Reply::Cut);
        assert!(matches!(pull(6).await, Err(FetchError::NoAnswer { .. })));
        // A manifest that promises more than a plugin may have: not even asked for.
        script.manifest(&right.to_string(), 7);
        let before = script.heard.lock().unwrap().len();
        assert!(matches!(pull(6).await, Err(FetchError::TooLarge { .. })));
        assert_eq!(
            script.heard.lock().unwrap().len(),
            before + 1,
            "the manifest alone"
        );
    });
}

#[test]
fn redirects_end_and_take_no_credentials_elsewhere() {
    run(async {
        let (script, other) = (Script::start().await, Script::start().await);
        let to = |place: &str| Reply::Is(307, format!("location: {place}\r\n"), Vec::new());
        script.at("/loop", to("/loop"));
        let url = |path: &str| format!("http://{}{path}", script.address);
        let digest = Digest::of(b"plugin");
        let looped = download(&url("/loop"), &digest, None, &[], 100)
            .await
            .unwrap_err();
        assert!(looped.to_string().contains("more redirects"), "{looped}");
        assert!(script.heard.lock().unwrap().len() < 20);

        // A registry whose layers lie elsewhere, as in a bucket.
        let challenge = "www-authenticate: Basic realm=\"a\"\r\n".to_owned();
        script.at("/v2/app/manifests/1", Reply::Is(401, challenge, Vec::new()));
        let registry = script.private(&[&other.address]);
        assert!(matches!(
            registry.resolve().await,
            Err(FetchError::Login { .. })
        ));
        assert!(
            script
                .heard
                .lock()
                .unwrap()
                .last()
                .unwrap()
                .contains("authorization: basic")
        );
        script.at(
            "/v2/app/manifests/1",
            to(&format!("http://{}/elsewhere", other.address)),
        );
        assert!(registry.resolve().await.is_err());
        let heard = other.heard.lock().unwrap().join("");
        assert!(
            heard.contains("/elsewhere") && !heard.contains("authorization"),
            "{heard}"
        );
    });
}

#[test]
fn clear_text_goes_to_the_host_that_was_asked_and_to_those_that_are_named() {
    run(async {
        let (script, other) = (Script::start().await, Script::start().await);
        let manifest = "/v2/app/manifests/1";
        let realm = |host: &str| {
            let challenge = format!("www-authenticate: Bearer realm=\"http://{host}/token\"\r\n");
            Reply::Is(401, challenge, Vec::new())
        };
        let to = |place: String| Reply::Is(307, format!("location: {place}\r\n"), Vec::new());
        let asked = async |clear: &[&str]| script.private(clear).resolve().await.unwrap_err();
        let heard = |server: &Script| std::mem::take(&mut *server.heard.lock().unwrap()).join("");
        other.at("/token", ok(r#"{"token": "t0ken"}"#));

        script.at(manifest, realm(&other.address));
        let error = asked(&[]).await.to_string();
        assert!(error.contains("does not name"), "{error}");
        assert_eq!(
            heard(&other),
            "",
            "credentials went to a host that is not named"
        );
        // Another port is another host.
        let (name, _) = other.address.split_once(':').unwrap();
        asked(&[name]).await;
        assert_eq!(heard(&other), "");
        asked(&[&other.address]).await;
        assert!(heard(&other).contains("authorization: basic"));

        script.at(manifest, to(format!("http://{}/elsewhere", other.address)));
        let error = asked(&[]).await.to_string();
        assert!(error.contains("does not name"), "{error}");
        let url = format!("http://{}{manifest}", script.address);
        let digest = Digest::of(b"plugin");
        let error = download(&url, &digest, None, &[], 100).await.unwrap_err();
        assert!(error.to_string().contains("does not name"), "{error}");
        assert_eq!(
            heard(&other),
            "",
            "a redirect led to a host that is not named"
        );

        // A host that we were sent to is not told who we are, and its words are not repeated.
        heard(&script);
        other.at("/elsewhere", realm(&script.address));
        let error = asked(&[&other.address]).await;
        assert!(matches!(error, FetchError::Login { .. }), "{error}");
        let all = heard(&script) + &heard(&other);
        assert!(!all.contains("authorization"), "{all}");
        let words = b"the inner service says hunter2".to_vec();
        other.at("/elsewhere", Reply::Is(500, String::new(), words));
        let error = asked(&[&other.address]).await.to_string();
        assert!(
            error.contains("500") && !error.contains("hunter2"),
            "{error}"
        );
    });
}

#[test]
fn what_a_server_says_is_cut_wherever_an_error_repeats_it() {
    run(async {
        let script = Script::start().await;
        let (long, manifest) = ("x".repeat(50_000), "/v2/app/manifests/1");
        let layer = serde_json::json!({"mediaType": "a/b", "digest": "c", "size": 1});
        let layers = vec![layer; 30_000];
        let wasm = serde_json::json!({"mediaType": "application/wasm", "digest": long, "size": 1});
        let json = |value: serde_json::Value| ok(value.to_string());
        let challenge = |realm: &str| {
            let challenge = format!("www-authenticate: Bearer realm=\"{realm}\"\r\n");
            Reply::Is(401, challenge, Vec::new())
        };
        let at = format!("http://{}/{}", script.address, &long[..10_000]);
        for reply in [
            json(serde_json::json!({"layers": layers})),
            json(serde_json::json!({"layers": [wasm]})),
            json(serde_json::json!({"mediaType": long})),
            json(serde_json::json!({"layers": long})),
            Reply::Is(500, String::new(), long.clone().into_bytes()),
            challenge(&at),
            challenge(&long[..10_000]),
        ] {
            script.at(manifest, reply);
            let error = script.registry().resolve().await.unwrap_err().to_string();
            assert!(error.len() < 800, "{} bytes: {error:.400}", error.len());
        }
    });
}

#[test]
fn a_token_is_asked_for_where_the_registry_says_and_used_once_it_is_there() {
    run(async {
        let script = Script::start().await;
        let realm = format!("http://{}/token", script.address);
        let challenge = format!("www-authenticate: Bearer realm=\"{realm}\",service=\"s\"\r\n");
        script.at("/v2/app/manifests/1", Reply::Is(401, challenge, Vec::new()));
        script.at("/token", ok(r#"{"token": "t0ken"}"#));
        let error = script.registry().resolve().await.unwrap_err();
        assert!(matches!(error, FetchError::Login { .. }), "{error}");
        let heard = script.heard.lock().unwrap().clone();
        assert!(
            heard[1].starts_with("get /token?service=s&scope=repository%3aapp%3apull"),
            "{}",
            heard[1]
        );
        assert!(
            heard[2].contains("authorization: bearer t0ken"),
            "{}",
            heard[2]
        );
        script.at("/token", Reply::Endless);
        assert!(matches!(
            script.registry().resolve().await,
            Err(FetchError::TooLarge { .. })
        ));
        script.at("/token", ok(r#"{"token": 7, "secret": "hunter2"}"#));
        let error = script.registry().resolve().await.unwrap_err().to_string();
        assert!(
            error.contains("no token") && !error.contains("hunter2"),
            "{error}"
        );
    });
}

#[test]
fn a_download_counts_by_its_digest() {
    run(async {
        let script = Script::start().await;
        let url = format!("http://{}/a.wasm", script.address);
        script.at("/a.wasm", ok("plugin"));
        let get = |bytes: &'static [u8], most| {
            let url = url.clone();
            async move { download(&url, &Digest::of(bytes), None, &[], most).await }
        };
        assert_eq!(get(b"plugin", 6).await.unwrap(), b"plugin");
        let error = get(b"other", 6).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains(&Digest::of(b"plugin").to_string()),
            "{error}"
        );
        assert!(matches!(
            get(b"plugin", 5).await,
            Err(FetchError::TooLarge { .. })
        ));
        script.at("/a.wasm", Reply::Endless);
        assert!(matches!(
            get(b"plugin", 6).await,
            Err(FetchError::TooLarge { .. })
        ));
    });
}
