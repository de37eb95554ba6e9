//! Send frames of the sockets of a queue, and their return.

use std::sync::{Arc, Mutex};

use super::ring::{CompletionRing, Frame};

/// Frames sent by the sockets of a queue, which return through one ring.
pub(super) struct Sent {
    completion: CompletionRing,
    /// The ranges of frames of each sender.
    first_frame: u32,
    frames_each: u32,
    /// By sender: frames that returned and were not collected.
    back: Vec<Vec<Frame>>,
}

impl Sent {
    /// Each of `workers` senders has `frames_each` frames, from `first_frame` on.
    pub(super) fn new(
        completion: CompletionRing,
        first_frame: u32,
        frames_each: u32,
        workers: u32,
    ) -> Self {
        Self {
            completion,
            first_frame,
            frames_each: frames_each.max(1),
            back: (0..workers).map(|_| Vec::new()).collect(),
        }
    }
}

/// The frames of one sender.
pub(super) struct Pool {
    sent: Arc<Mutex<Sent>>,
    worker: usize,
    pub(super) free: Vec<Frame>,
}

impl Pool {
    pub(super) fn new(sent: &Arc<Mutex<Sent>>, worker: usize, free: Vec<Frame>) -> Self {
        Self { sent: Arc::clone(sent), worker, free }
    }

    /// Collects the frames that were sent; returns their number.
    pub(super) fn reap(&mut self) -> usize {
        // A panic while the lock was held loses at most frames.
        let mut sent = self.sent.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Sent { completion, first_frame, frames_each, back } = &mut *sent;
        completion.take(|number, frame| {
            let owner = number.wrapping_sub(*first_frame) / *frames_each;
            if let Some(back) = back.get_mut(owner as usize) {
                back.push(frame);
            }
        });
        let before = self.free.len();
        self.free.append(&mut back[self.worker]);
        self.free.len() - before
    }
}
