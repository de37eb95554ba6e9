//! The interface of ports: sources and destinations of batches.
//!
//! Capture files and live interfaces implement both sides. A receiver never waits for
//! packets: a caller with several receivers polls them round-robin, and waits on their
//! descriptors when all are idle. Every packet that a port loses is counted under one name.

use std::os::fd::BorrowedFd;

use forebay_packet::{Batch, LiveMask, Rewrites};

use crate::error::Error;

/// The result of polling a receiver.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each batch")]
pub enum Received {
    /// Packets, at least one.
    Batch(Batch),
    /// No packets at the moment.
    Idle,
    /// The source has ended.
    End,
}

/// Lost packets by cause.
pub type Losses = Vec<(&'static str, u64)>;

/// Counters of a receiver since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Packets returned.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that reached the port and were lost there.
    pub losses: Losses,
    /// Packets that were lost before they reached the port, as far as the device counts
    /// them. They may include packets that were not for this port.
    pub before: Losses,
}

/// A source of packets.
pub trait Rx: Send {
    /// The next packets, without waiting for a device.
    ///
    /// # Errors
    /// An error of the source. Every packet before it was returned by earlier calls; calls
    /// after the error return [`Received::End`].
    fn receive(&mut self) -> Result<Received, Error>;

    /// A descriptor that becomes readable when an idle receiver has packets; `None` for a
    /// receiver that is never idle.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Stops receiving from the device; packets received before are still returned,
    /// possibly some milliseconds later.
    ///
    /// # Errors
    /// The system's.
    fn refuse(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The counters.
    ///
    /// # Errors
    /// The system's, if counters are read from it.
    fn counters(&mut self) -> Result<RxCounters, Error>;
}

/// Counters of a transmitter since it was opened. Each packet passed to it is sent, lost,
/// or held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxCounters {
    /// Packets sent.
    pub packets: u64,
    /// Their bytes, as sent.
    pub bytes: u64,
    /// Packets that could not be sent.
    pub losses: Losses,
    /// Packets in a ring, not yet taken by the device.
    pub held: u64,
    /// The state of the files, for a recorder.
    pub recorded: Option<Recorded>,
}

/// The state of a recorder's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The present file, under its final name; empty for none.
    pub file: String,
    /// Files started.
    pub files: u64,
    /// Files removed for newer ones.
    pub removed: u64,
    /// The cause of present losses.
    pub fault: Option<String>,
    /// Whether it will not be retried.
    pub has_stopped: bool,
}

/// A destination of packets.
pub trait Tx: Send {
    /// Completes the set-up as the user under which the process continues, before the first
    /// packet: files are created.
    ///
    /// # Errors
    /// If a file cannot be created.
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Sends the packets of `batch` that are live and in `which`, in order, each rewritten
    /// as `rewrites` say for the packet's output.
    ///
    /// A packet that cannot be sent is counted as lost, and is no error. Packets may wait
    /// in a ring until [`Tx::flush`].
    ///
    /// # Errors
    /// An error of the destination as a whole.
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error>;

    /// Sends all packets in a ring, without waiting for completion.
    ///
    /// # Errors
    /// As [`Tx::send`].
    fn flush(&mut self) -> Result<(), Error>;

    /// The counters.
    ///
    /// # Errors
    /// The system's, if counters are read from it.
    fn counters(&mut self) -> Result<TxCounters, Error>;

    /// Ends sending: a capture is completed and gets its name.
    ///
    /// # Errors
    /// As [`Tx::send`].
    fn finish(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
