//! What a port is to the rest of the program: a place batches come from or go to.
//!
//! Capture files and live interfaces implement both sides. A receiver never waits for
//! packets: a caller with several asks each in turn, and waits on their descriptors when
//! all are idle. Every packet that a port loses is counted by it under one name.

use std::os::fd::BorrowedFd;

use forebay_packet::{Batch, LiveMask, Rewrite};

use crate::error::Error;

/// What a receiver has.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each batch")]
pub enum Received {
    /// Packets, at least one.
    Batch(Batch),
    /// Nothing at the moment.
    Idle,
    /// The source has ended.
    End,
}

/// Packets lost, and why.
pub type Losses = Vec<(&'static str, u64)>;

/// What a receiver counted since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Packets given out.
    pub packets: u64,
    /// Bytes of those, as they were on the wire.
    pub bytes: u64,
    /// Packets that reached the port, and were lost there.
    pub losses: Losses,
    /// Packets that were lost before they reached it, as far as the device tells. They
    /// may include packets that were never meant for this port.
    pub before: Losses,
}

/// Where packets come from.
pub trait Rx: Send {
    /// The next packets, without waiting for any from a device.
    ///
    /// # Errors
    /// What is wrong with the source. Every packet before the fault was given
    /// out by earlier calls; calls after the error return [`Received::End`].
    fn receive(&mut self) -> Result<Received, Error>;

    /// Becomes readable when an idle receiver has something; nothing for one that is
    /// never idle.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes nothing more from its device; what it has is still given out, some of it
    /// perhaps some milliseconds later.
    ///
    /// # Errors
    /// The system's.
    fn refuse(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// What it counted.
    ///
    /// # Errors
    /// The system's, where counters are read from it.
    fn counters(&mut self) -> Result<RxCounters, Error>;
}

/// What a transmitter counted since it was opened. All packets that it was given are
/// sent, lost, or held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxCounters {
    /// Packets sent.
    pub packets: u64,
    /// Bytes of those, as they left.
    pub bytes: u64,
    /// Packets that could not be sent.
    pub losses: Losses,
    /// Packets that lie in a ring, not yet taken by the device.
    pub held: u64,
    /// How it is about the files, of one that writes files.
    pub recorded: Option<Recorded>,
}

/// How it is about the files of a recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The file that is being written, under the name that it will have; empty for none.
    pub file: String,
    /// Files begun.
    pub files: u64,
    /// Files that were removed for newer ones.
    pub removed: u64,
    /// Why packets are lost at the moment.
    pub fault: Option<String>,
    /// Whether it will not be tried again.
    pub has_stopped: bool,
}

/// Where packets go.
pub trait Tx: Send {
    /// Does what is to be done by the user that the process stays, before the first packet:
    /// files are created.
    ///
    /// # Errors
    /// That there is no such file.
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Sends the packets of `batch` that are live and in `which`, in order, each
    /// rewritten as the element of `rewrites` that the packet's output numbers says;
    /// where there is none, as it is.
    ///
    /// A packet that cannot be sent is counted as lost, and is no error. Packets may wait
    /// in a ring until [`Tx::flush`].
    ///
    /// # Errors
    /// What is wrong with the destination as a whole.
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &[Rewrite]) -> Result<(), Error>;

    /// Has everything that lies in a ring sent, without waiting for the end of it.
    ///
    /// # Errors
    /// As [`Tx::send`].
    fn flush(&mut self) -> Result<(), Error>;

    /// What it counted.
    ///
    /// # Errors
    /// The system's, where counters are read from it.
    fn counters(&mut self) -> Result<TxCounters, Error>;

    /// Ends what is sent: a capture is whole then, and has its name.
    ///
    /// # Errors
    /// As [`Tx::send`].
    fn finish(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
