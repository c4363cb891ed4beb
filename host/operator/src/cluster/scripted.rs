//! A scripted API server on loopback: named scenarios which a real one cannot be made to play on demand.
//!
//! Replies are given in the order of requests, one connection each. A request beyond the script is held open without an answer.
//! What the script says is bytes on a socket: a cut is a cut, silence is silence.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::transport::{Transport, TransportOptions};

/// How long a test waits for what must come. Only a failing test ever waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.query
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// One reply of the script.
pub(crate) struct Reply {
    head: String,
    steps: Vec<Step>,
}

enum Step {
    Chunk(Vec<u8>),
    /// Goes on when told to.
    Wait(oneshot::Receiver<()>),
    /// The connection breaks without an end of the body.
    Cut,
    /// Nothing more is sent, nothing is closed.
    Silence,
}

impl Reply {
    /// A whole answer.
    pub(crate) fn json(code: u16, body: &str) -> Self {
        Self::with_headers(code, "", body)
    }

    /// A whole answer with further header lines, each ended by `\r\n`.
    pub(crate) fn with_headers(code: u16, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let head = format!(
            "HTTP/1.1 {code} X\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n{headers}\r\n"
        );
        Self {
            head,
            steps: vec![Step::Chunk(body.as_ref().to_vec())],
        }
    }

    /// A `Status` with this code.
    pub(crate) fn status(code: u16, message: &str) -> Self {
        Self::json(
            code,
            &format!(r#"{{"kind":"Status","code":{code},"message":"{message}","details":{{}}}}"#),
        )
    }

    /// An open watch; lines are added by the calls below, and it ends in good order unless one says otherwise.
    pub(crate) fn watch() -> Self {
        Self {
            steps: vec![],
            ..Self::json(200, "")
        }
    }

    pub(crate) fn line(self, line: &str) -> Self {
        self.text(&format!("{line}\n"))
    }

    pub(crate) fn text(mut self, text: &str) -> Self {
        self.steps.push(Step::Chunk(text.as_bytes().to_vec()));
        self
    }

    /// Goes on only after the returned sender was used.
    pub(crate) fn wait(mut self) -> (Self, oneshot::Sender<()>) {
        let (go, wait) = oneshot::channel();
        self.steps.push(Step::Wait(wait));
        (self, go)
    }

    pub(crate) fn cut(mut self) -> Self {
        self.steps.push(Step::Cut);
        self
    }

    pub(crate) fn silence(mut self) -> Self {
        self.steps.push(Step::Silence);
        self
    }

    async fn play(self, socket: &mut TcpStream) -> std::io::Result<()> {
        // What comes before a wait, a cut or a silence is one write: a test of idle times never sees a gap within it.
        let mut out = self.head.into_bytes();
        for step in self.steps {
            if let Step::Chunk(bytes) = step {
                if !bytes.is_empty() {
                    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                    out.extend_from_slice(&bytes);
                    out.extend_from_slice(b"\r\n");
                }
                continue;
            }
            socket.write_all(&std::mem::take(&mut out)).await?;
            match step {
                Step::Wait(wait) => drop(wait.await),
                Step::Silence => std::future::pending().await,
                Step::Chunk(_) | Step::Cut => return Ok(()),
            }
        }
        out.extend_from_slice(b"0\r\n\r\n");
        socket.write_all(&out).await
    }
}

/// The server; ends with the test.
pub(crate) struct Scripted {
    address: std::net::SocketAddr,
    seen: mpsc::UnboundedReceiver<Seen>,
    task: JoinHandle<()>,
}

impl Scripted {
    pub(crate) async fn play(script: Vec<Reply>) -> Self {
        let mut script = script.into_iter();
        Self::answer(move |_| script.next()).await
    }

    /// Answers each request by what it asks for; none is held open.
    pub(crate) async fn answer(
        mut reply: impl FnMut(&Seen) -> Option<Reply> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, seen) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            while let Ok((mut socket, _)) = listener.accept().await {
                // The request is read before the next connection is taken, so the script's order is the requests' order.
                let Some(request) = read(&mut socket).await else {
                    continue;
                };
                let reply = reply(&request);
                let _ = tell.send(request);
                open.spawn(async move {
                    match reply {
                        Some(reply) => drop(reply.play(&mut socket).await),
                        None => std::future::pending().await,
                    }
                });
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    /// The next request, in the order they came.
    pub(crate) async fn seen(&mut self) -> Seen {
        tokio::time::timeout(PATIENCE, self.seen.recv())
            .await
            .expect("a request that never came")
            .unwrap()
    }

    /// An address at it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A transport to it.
    pub(crate) fn transport(&self, options: TransportOptions) -> Transport {
        Transport::new(
            kube::Config::new(format!("http://{}", self.address).parse().unwrap()),
            options,
        )
        .unwrap()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(socket: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            break at;
        }
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(key, _)| key.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, value)| value.parse().unwrap());
    while bytes.len() < head_end + 4 + length {
        if socket.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    let body = String::from_utf8(bytes[head_end + 4..].to_vec()).ok()?;
    Some(Seen {
        method,
        path: path.to_owned(),
        query,
        headers,
        body,
    })
}
