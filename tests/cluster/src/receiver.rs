//! Whoever http effects are sent to, when a test wants to see the requests byte by byte.

use anyhow::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A server that keeps every request as it came, and answers 200 unless it was told to keep silent.
#[derive(Debug)]
pub struct Receiver {
    address: String,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<String>,
    silent: bool,
    /// Code and body of the next answers; 200 and `ok` before anything was said.
    answer: Option<(u16, String)>,
}

impl Receiver {
    /// Listens on a free port, until it is dropped.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let state = Arc::<Mutex<State>>::default();
        let shared = state.clone();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move {
                    // A client that goes away is no trouble of ours.
                    let _ = serve(stream, &shared).await;
                });
            }
        });
        Ok(Self {
            address,
            state,
            server,
        })
    }

    /// Its address, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on requests are kept and not answered, or answered.
    pub fn silent(&self, silent: bool) {
        lock(&self.state).silent = silent;
    }

    /// From now on requests are answered so.
    pub fn answer(&self, code: u16, body: &str) {
        lock(&self.state).answer = Some((code, body.to_owned()));
    }

    /// Every request so far: head and body.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.state).requests.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(mut stream: TcpStream, state: &Mutex<State>) -> Result<()> {
    let request = read(&mut stream).await?;
    let (silent, answer) = {
        let mut state = lock(state);
        state.requests.push(request);
        (state.silent, state.answer.clone())
    };
    if silent {
        // Until the client gives up.
        let _ = stream.read(&mut [0]).await?;
        return Ok(());
    }
    let (code, body) = answer.unwrap_or((200, "ok".to_owned()));
    let answer = format!(
        "HTTP/1.1 {code} Said\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    Ok(stream.shutdown().await?)
}

/// One request whose body has a length.
async fn read(stream: &mut TcpStream) -> Result<String> {
    let (mut text, mut buffer) = (String::new(), [0_u8; 4096]);
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            let length = length
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
            if body.len() >= length {
                return Ok(text);
            }
        }
        let count = stream.read(&mut buffer).await?;
        anyhow::ensure!(count > 0, "cut");
        text += &String::from_utf8_lossy(&buffer[..count]);
    }
}
