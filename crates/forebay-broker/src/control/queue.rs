//! The queue of requests, from the threads that serve clients to the broker's own.

use std::os::fd::OwnedFd;
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
    /// After the answer, or without one: values are dropped in this order.
    _bell: Option<Bell>,
}

impl ControlRequest {
    /// A request that is answered over a channel.
    #[must_use]
    pub fn new(request: Request) -> (Self, mpsc::Receiver<Answer>) {
        let (reply, answer) = mpsc::channel();
        (Self { kind: request, reply, client: None, _bell: None }, answer)
    }

    /// As [`ControlRequest::new`], of a client that waits as long as `present` lives. The bell
    /// rings when the answer is there, or none will come.
    pub(super) fn of_client(
        request: Request,
        bell: Bell,
        present: &Arc<()>,
    ) -> (Self, mpsc::Receiver<Answer>) {
        let (request, answer) = Self::new(request);
        (Self { client: Some(Arc::downgrade(present)), _bell: Some(bell), ..request }, answer)
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
