//! The same decisions in user space, for the packets that are its own to decode.
//!
//! A flow may have packets of both kinds, so both must agree on its sensor: by one table,
//! and by one set of records. Where a bucket is settled, its entry is all there is to know.
//! Where it moves, the code that decides in the kernel is asked, run for the flow's hash in
//! the place of a frame; that takes a system call, for few packets and a short time.
//!
//! A worker counts as a processor does, in a section of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::entry::{LOOK_UP, SENSOR_MASK};
use super::maps::{SplitterMaps, ask};
use crate::error::BpfError;
use crate::program::{Kind, Program};
use crate::sys::layout::{FLOW_BIT, SIGNAL_FROM_HIGH, SIGNAL_TCP, TALLY_PACKET};

/// Flags of a TCP header (RFC 9293 section 3.1).
const FIN: u64 = 0x01;
const SYN: u64 = 0x02;
const RST: u64 = 0x04;

/// What a packet shows of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Signal {
    /// Nothing.
    #[default]
    Nothing,
    /// It begins: a SYN without ACK.
    Begins,
    /// The end of its key with the lower address will send no more.
    LowEnds,
    /// The other end will send no more.
    HighEnds,
    /// It is no more.
    Reset,
}

impl Signal {
    /// As flow code leaves it.
    fn word(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Begins => SIGNAL_TCP | SYN,
            Self::LowEnds => SIGNAL_TCP | FIN,
            Self::HighEnds => SIGNAL_TCP | FIN | SIGNAL_FROM_HIGH,
            Self::Reset => SIGNAL_TCP | RST,
        }
    }
}

/// A thread of user space that reads the kernel's tables.
#[derive(Debug)]
pub struct UserspaceSteering {
    maps: Arc<SplitterMaps>,
    section: u32,
    program: Program,
}

impl UserspaceSteering {
    /// The place of a thread of user space, of which there are as many as the limits say.
    /// Each is for one thread only.
    ///
    /// # Errors
    /// A number that no worker has; the kernel's refusal.
    pub fn load(maps: Arc<SplitterMaps>, number: u32) -> Result<Self, BpfError> {
        let section = maps.section_of(number)?;
        let loader = maps.loader().set("own_section", section.into());
        let program = loader.load("forebay_seat", Kind::Xdp { multi_buffer: false })?;
        Ok(Self { maps, section, program })
    }

    /// The table's entry of a bucket.
    #[must_use]
    pub fn entry(&self, bucket: u16) -> u32 {
        self.maps.entry(bucket)
    }

    /// The sensor of a packet by its flow's hash, [`super::NO_SENSOR`] where there is none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sensor_of(&self, hash: u64, signal: Signal, bytes: u32) -> Result<u16, BpfError> {
        let entry = self.entry((hash >> 48) as u16);
        if entry & LOOK_UP == 0 {
            return Ok((entry & SENSOR_MASK) as u16);
        }
        let run = ask(&self.program, [hash, signal.word(), bytes.into()])?;
        Ok((run.result & SENSOR_MASK) as u16)
    }

    /// Counts a packet for its bucket.
    pub fn count(&self, hash: u64, bytes: u32) {
        let cell = self.maps.cell(self.section, (hash >> 48) as u16);
        // This thread is the only one that adds.
        let tally = cell.tally.load(Relaxed).wrapping_add(TALLY_PACKET + u64::from(bytes));
        cell.tally.store(tally, Relaxed);
        let flow = 1 << (hash >> FLOW_BIT & 31) << (32 * self.maps.generation());
        if cell.flows.load(Relaxed) & flow == 0 {
            // Whoever rotates may clear the other half meanwhile.
            cell.flows.fetch_or(flow, Relaxed);
        }
    }
}
