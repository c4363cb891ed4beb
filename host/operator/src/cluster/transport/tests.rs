use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;

/// A TLS server which answers every request with the HTTP version it came by, and counts connections.
struct Secure {
    address: SocketAddr,
    certificate: Vec<u8>,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Secure {
    async fn offering(protocols: &[&str]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key =
            rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let certificate = made.cert.der().to_vec();
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        tls.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                let acceptor = acceptor.clone();
                open.spawn(async move {
                    let stream = acceptor.accept(socket).await.unwrap();
                    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    let answer = service_fn(|request: Request<Incoming>| async move {
                        let version = format!("{:?}", request.version());
                        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(version))))
                    });
                    let stream = TokioIo::new(stream);
                    if h2 {
                        drop(
                            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                                .serve_connection(stream, answer)
                                .await,
                        );
                    } else {
                        drop(
                            hyper::server::conn::http1::Builder::new()
                                .serve_connection(stream, answer)
                                .await,
                        );
                    }
                });
            }
        });
        Self {
            address,
            certificate,
            connections,
            task,
        }
    }

    fn transport(&self, options: TransportOptions) -> Transport {
        let mut config = Config::new(format!("https://{}", self.address).parse().unwrap());
        config.root_cert = Some(vec![self.certificate.clone()]);
        Transport::new(config, options).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn version(transport: &Transport) -> Bytes {
    transport
        .call(
            &Identity::Host,
            Request::get("/x").body(Body::empty()).unwrap(),
        )
        .await
        .unwrap()
        .body
}

#[tokio::test]
async fn requests_share_one_http2_connection_and_watches_have_their_own() {
    let server = Secure::offering(&["h2", "http/1.1"]).await;
    let transport = server.transport(TransportOptions {
        watches_per_connection: 2,
        ..TransportOptions::default()
    });
    for _ in 0..3 {
        assert_eq!(version(&transport).await, "HTTP/2.0");
    }
    assert_eq!(server.connections(), 1);
    let mut lanes = Vec::new();
    for want in [2, 2, 3] {
        let lane = transport.lane();
        let request = Request::get("/x").body(Body::empty()).unwrap();
        assert_eq!(
            transport
                .open(&Identity::Host, &lane, request)
                .await
                .unwrap()
                .version(),
            http::Version::HTTP_2
        );
        assert_eq!(server.connections(), want, "two watches a connection");
        lanes.push(lane);
    }
    lanes.remove(0);
    let (first, second) = (transport.lane(), transport.lane());
    assert!(
        Arc::ptr_eq(&first.shares, &lanes[0].shares),
        "a share given back is given again"
    );
    assert!(Arc::ptr_eq(&second.shares, &lanes[1].shares));
}

#[tokio::test]
async fn a_server_without_http2_is_spoken_to_in_http1() {
    for protocols in [&["http/1.1"][..], &[]] {
        let server = Secure::offering(protocols).await;
        assert_eq!(
            version(&server.transport(TransportOptions::default())).await,
            "HTTP/1.1"
        );
    }
}

#[tokio::test]
async fn a_server_nobody_vouches_for_is_unreachable_and_the_message_says_why() {
    let (server, other) = (
        Secure::offering(&["h2"]).await,
        Secure::offering(&["h2"]).await,
    );
    let mut config = Config::new(format!("https://{}", server.address).parse().unwrap());
    config.root_cert = Some(vec![other.certificate.clone()]);
    let transport = Transport::new(config, TransportOptions::default()).unwrap();
    let error = transport
        .call(
            &Identity::Host,
            Request::get("/x").body(Body::empty()).unwrap(),
        )
        .await
        .err()
        .unwrap();
    assert!(
        matches!(&error, RequestError::Unreachable(text) if text.contains("certificate")),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_costs_the_connect_timeout() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let config = Config::new(
        format!("https://{}", silent.local_addr().unwrap())
            .parse()
            .unwrap(),
    );
    let options = TransportOptions {
        connect_timeout: Duration::from_millis(20),
        ..TransportOptions::default()
    };
    let transport = Transport::new(config, options).unwrap();
    let error = transport
        .call(
            &Identity::Host,
            Request::get("/x").body(Body::empty()).unwrap(),
        )
        .await
        .err()
        .unwrap();
    assert!(
        matches!(&error, RequestError::Unreachable(text) if text.contains("no connection within 0.02 s")),
        "{error}"
    );
}

#[test]
fn a_proxy_the_host_does_not_know_is_refused_by_name_without_its_password() {
    for proxy in ["socks5://p:1", "https://p:1", "http://user:secret@p:1"] {
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        config.proxy_url = Some(proxy.parse().unwrap());
        let error = Transport::new(config, TransportOptions::default()).unwrap_err();
        assert!(error.to_string().contains("proxy p "), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
