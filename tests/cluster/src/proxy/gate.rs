//! The way between host and proxy as a network that may let nothing through.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A direction, as the host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Neither.
    Both,
    /// What the host sends.
    Send,
    /// What it would receive.
    Receive,
}

/// Whether anything passes.
#[derive(Default)]
pub(super) struct Gate {
    sending_blocked: AtomicBool,
    receiving_blocked: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
    held: AtomicU64,
}

impl Gate {
    pub(super) fn close(&self, way: Way) {
        if way != Way::Receive {
            self.sending_blocked.store(true, Ordering::SeqCst);
        }
        if way != Way::Send {
            self.receiving_blocked.store(true, Ordering::SeqCst);
        }
    }

    pub(super) fn open(&self) {
        self.sending_blocked.store(false, Ordering::SeqCst);
        self.receiving_blocked.store(false, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.waiting());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How often something was held up.
    pub(super) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the caller has to wait; it is woken when the gate opens.
    fn holds(&self, blocked: &AtomicBool, context: &Context<'_>) -> bool {
        if !blocked.load(Ordering::SeqCst) {
            return false;
        }
        self.held.fetch_add(1, Ordering::Relaxed);
        self.waiting().push(context.waker().clone());
        // It may have opened before the waker was there.
        blocked.load(Ordering::SeqCst)
    }
}

/// A connection through the gate.
pub(super) struct Gated {
    pub(super) stream: TcpStream,
    pub(super) gate: Arc<Gate>,
}

impl AsyncRead for Gated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.gate.holds(&self.gate.sending_blocked, context) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Gated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.gate.holds(&self.gate.receiving_blocked, context) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
