//! Scans that something other than the caller's code may carry out: worker threads, another
//! process, a device.
//!
//! An [`Accelerator`] takes texts in batches and returns, for each batch, every match in it or a
//! [`Cause`] why it has none to give. There are three: [`Inline`] scans in the caller's thread,
//! [`Threads`] on threads of this process, and [`Remote`] in a [`Device`] that another process
//! serves over shared memory; it is the reference for hardware, and `docs/accelerator-interface.md`
//! describes it field by field. [`Simulated`] is its client with a device in the
//! same process, for simulations of hardware. [`Offload`] is the side of the caller: it closes batches by size or
//! age, and returns the verdicts of each flow in the order of its texts.
//!
//! Invariants of every accelerator:
//! - A submitted batch is completed exactly once, at the latest by the first poll after its
//!   deadline.
//! - Whatever goes wrong (no memory, no device, a fault, a late answer, an answer that is not
//!   valid) is a [`Cause`], which means that any literal may occur in any text of the batch. It
//!   never means that there is no match.
//! - No call blocks except [`Accelerator::wait`], which takes a limit.
//!
//! Texts are independent of each other and of earlier batches. A device keeps no state of flows: for
//! a stream the caller submits the end of the text before once more ([`StreamTail`]). So batches may
//! be completed in any order, and a device that restarts has forgotten nothing.
//!
//! Times are nanoseconds of any clock that never goes back; callers pass them.

mod batch;
mod device;
mod in_flight;
mod inline;
mod offload;
mod probe;
pub mod protocol;
mod remote;
mod shared;
mod socket;
mod stream_tail;
mod threads;

use std::fmt;
use std::io;
use std::time::Duration;

pub use device::{Device, DeviceError, DeviceLimits};
pub use inline::Inline;
pub use offload::{Counts, Offload, OffloadOptions, Scanned, Verdict};
pub use protocol::SetIdentity;
pub use remote::{Remote, RemoteError, RemoteOptions, Simulated};
pub use stream_tail::StreamTail;
pub use threads::{Threads, ThreadsError};

use crate::matches::Match;

/// The most batches that can be in flight.
pub const MAX_IN_FLIGHT: u32 = 1024;

/// The most bytes of the texts of a batch.
pub const MAX_BATCH_BYTES: u32 = 16 << 20;

/// The most texts of a batch.
pub const MAX_BATCH_TEXTS: u32 = 1 << 16;

/// The sizes of batches, and how long one may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Bytes of the texts of a batch, each rounded up to a multiple of 8.
    pub bytes: u32,
    /// Texts of a batch.
    pub texts: u32,
    /// Matches of a batch; a batch with more overflows.
    pub matches: u32,
    /// Batches submitted and not completed.
    pub in_flight: u32,
    /// Nanoseconds from the submission of a batch to its deadline.
    pub time_limit: u64,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { bytes: 64 << 10, texts: 256, matches: 4096, in_flight: 16, time_limit: 50_000_000 }
    }
}

impl BatchLimits {
    /// Checks the limits, and names the first that is out of range.
    ///
    /// # Errors
    /// One is zero or above its maximum.
    pub fn check(&self) -> Result<(), LimitError> {
        let limits = [
            ("bytes", self.bytes, MAX_BATCH_BYTES),
            ("texts", self.texts, MAX_BATCH_TEXTS),
            ("matches", self.matches, MAX_BATCH_BYTES),
            ("in_flight", self.in_flight, MAX_IN_FLIGHT),
        ];
        for (name, value, most) in limits {
            if !(1..=most).contains(&value) {
                return Err(LimitError { name, value, most });
            }
        }
        Ok(())
    }
}

/// A limit of batches that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} of a batch: expected 1 to {most}, found {value}")]
pub struct LimitError {
    name: &'static str,
    value: u32,
    most: u32,
}

/// Why a text may match although nothing was found in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// All batches are in flight, or the device refused one for lack of room.
    Busy,
    /// The device could not carry out the scan.
    Fault,
    /// The batch was not completed before its deadline.
    TimeOut,
    /// The batch has more matches than its result area holds.
    Overflow,
    /// The device restarted, or its process ended, while the batch was in flight.
    Reset,
    /// The device's answer was not valid.
    Garbage,
    /// No device is connected.
    Unavailable,
    /// The text is longer than a batch.
    TooLong,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Busy,
        Self::Fault,
        Self::TimeOut,
        Self::Overflow,
        Self::Reset,
        Self::Garbage,
        Self::Unavailable,
        Self::TooLong,
    ];

    /// The name of its counter.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Fault => "fault",
            Self::TimeOut => "time_out",
            Self::Overflow => "overflow",
            Self::Reset => "reset",
            Self::Garbage => "garbage",
            Self::Unavailable => "unavailable",
            Self::TooLong => "too_long",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a text was not added to the open batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The open batch has no room for it: submit the batch, then add the text again.
    Full,
    /// No batch can be opened, or none that has room: the text may match.
    MayMatch(Cause),
}

/// The number of a submitted batch: 0 for an accelerator's first, then one more for each.
pub type Ticket = u64;

/// A completed batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its ticket.
    pub ticket: Ticket,
    /// All matches, sorted, each once, or why any literal may occur in any text.
    pub result: Result<Vec<Match>, Cause>,
}

/// What scans texts in batches. The texts of a batch are numbered from 0.
pub trait Accelerator {
    /// Appends a text to the open batch, and opens one if there is none. The text is the parts, one
    /// after the other.
    ///
    /// # Errors
    /// There is no room.
    fn push(&mut self, parts: &[&[u8]]) -> Result<(), Refused>;

    /// Submits the open batch at time `now`, and returns its ticket; none if no batch is open.
    fn submit(&mut self, now: u64) -> Option<Ticket>;

    /// Appends the batches that are completed at time `now`, in any order.
    fn poll(&mut self, now: u64, completed: &mut Vec<Completion>);

    /// Waits until a batch may be completed, at most for `limit`.
    ///
    /// # Errors
    /// The system refuses to wait.
    fn wait(&mut self, limit: Duration) -> io::Result<()>;

    /// The number of batches submitted and not completed.
    fn in_flight(&self) -> usize;
}

impl<A: Accelerator + ?Sized> Accelerator for Box<A> {
    fn push(&mut self, parts: &[&[u8]]) -> Result<(), Refused> {
        (**self).push(parts)
    }

    fn submit(&mut self, now: u64) -> Option<Ticket> {
        (**self).submit(now)
    }

    fn poll(&mut self, now: u64, completed: &mut Vec<Completion>) {
        (**self).poll(now, completed);
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        (**self).wait(limit)
    }

    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
}
