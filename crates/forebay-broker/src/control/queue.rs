//! The queue of requests, from the threads that serve clients to the broker's own.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use super::message::{Answer, Request};

/// A request, with the channel for its answer.
pub struct ControlRequest {
    /// What is requested.
    pub kind: Request,
    reply: mpsc::Sender<Answer>,
    /// Lives as long as the client waits, if there is one.
    client: Option<Weak<()>>,
    /// Dropped after the answer, or without one; the memory before the bell rings.
    _held: Option<(Memory, Bell)>,
}

impl ControlRequest {
    /// A request that is answered over a channel.
    #[must_use]
    pub fn new(request: Request) -> (Self, mpsc::Receiver<Answer>) {
        let (reply, answer) = mpsc::channel();
        (Self { kind: request, reply, client: None, _held: None }, answer)
    }

    /// As [`ControlRequest::new`], of a client that waits as long as `present` lives. The
    /// memory is held, and the bell silent, until the answer is there, or none will come.
    pub(super) fn of_client(
        request: Request,
        held: (Memory, Bell),
        present: &Arc<()>,
    ) -> (Self, mpsc::Receiver<Answer>) {
        let (request, answer) = Self::new(request);
        (Self { client: Some(Arc::downgrade(present)), _held: Some(held), ..request }, answer)
    }

    /// Whether it is a question whose client has hung up. Orders are never idle.
    fn is_idle(&self) -> bool {
        !self.kind.is_order()
            && self.client.as_ref().is_some_and(|client| client.strong_count() == 0)
    }

    /// Answers. The client may have hung up.
    pub fn answer(self, answer: Answer) {
        let _ = self.reply.send(answer);
    }
}

/// The requests of all clients, one after another.
pub struct Requests {
    requests: mpsc::Receiver<ControlRequest>,
    sender: mpsc::Sender<ControlRequest>,
}

impl Default for Requests {
    fn default() -> Self {
        let (sender, requests) = mpsc::channel();
        Self { requests, sender }
    }
}

impl Requests {
    /// The sender that servers hand requests to.
    #[must_use]
    pub fn sender(&self) -> mpsc::Sender<ControlRequest> {
        self.sender.clone()
    }

    /// The next request, if one comes in time. Questions of clients that have hung up are
    /// passed over.
    #[must_use]
    pub fn next(&self, patience: Duration) -> Option<ControlRequest> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // The sender is kept open by this very value: without a request, time has run out.
            let request = self.requests.recv_timeout(left).ok()?;
            if !request.is_idle() {
                return Some(request);
            }
            if left.is_zero() {
                return None;
            }
        }
    }
}

/// Rings when it is dropped: the answer to a request is there, or there will be none.
pub(super) struct Bell(pub(super) Arc<OwnedFd>);

impl Drop for Bell {
    fn drop(&mut self) {
        // It is full when it has not been heard for 2^64 - 2 requests.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// Memory for the request of one client, counted in the sum of all clients of a socket.
#[derive(Default)]
pub(super) struct Memory {
    sum: Arc<AtomicUsize>,
    bytes: usize,
}

impl Memory {
    /// None yet.
    pub(super) fn of(sum: &Arc<AtomicUsize>) -> Self {
        Self { sum: Arc::clone(sum), bytes: 0 }
    }

    /// Takes more, to have at least `bytes`, unless the sum would exceed `most`.
    pub(super) fn grow(&mut self, bytes: usize, most: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        // Only the thread of the socket adds.
        let fits = self.sum.load(Ordering::Relaxed) + more <= most;
        if fits {
            self.sum.fetch_add(more, Ordering::Relaxed);
            self.bytes += more;
        }
        fits
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.sum.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
