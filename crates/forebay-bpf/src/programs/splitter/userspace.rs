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

use super::code::{COUNTERS, LENGTH};
use super::entry::{LOOK_UP, SENSOR_MASK};
use super::moving::{self, FIN, RST, SYN};
use super::state::{FLOW_BIT, SECTION, State, TALLY_PACKET};
use crate::asm::Register::{FP, R0, R1, R2, R3, R6, R8, R9};
use crate::asm::{Alu, Assembler, Condition, Size};
use crate::error::BpfError;
use crate::flow::{XDP_DATA, XDP_DATA_END, frame};
use crate::program::{Kind, Program};

/// What a packet says of its connection.
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
    /// As flow code leaves it in [`frame::SIGNAL`].
    fn word(self) -> u64 {
        let word = match self {
            Self::Nothing => 0,
            Self::Begins => frame::TCP | SYN,
            Self::LowEnds => frame::TCP | FIN,
            Self::HighEnds => frame::TCP | FIN | frame::FROM_HIGH,
            Self::Reset => frame::TCP | RST,
        };
        u64::from(word.cast_unsigned())
    }
}

/// What the program is asked: the hash, the signal, the packet's length.
const QUESTION: usize = 24;
const SIGNAL_AT: i16 = 8;
const LENGTH_AT: i16 = 16;

/// A thread of user space that goes by the kernel's tables.
#[derive(Debug)]
pub struct UserspaceSteering {
    state: Arc<State>,
    section: u32,
    program: Program,
}

impl UserspaceSteering {
    pub(super) fn load(state: Arc<State>, section: u32) -> Result<Self, BpfError> {
        let mut asm = Assembler::new();
        let asked = asm.label("asked");
        asm.load(Size::Word, R6, R1, XDP_DATA);
        asm.load(Size::Word, R2, R1, XDP_DATA_END);
        asm.mov(R3, R6);
        asm.alu(Alu::Add, R3, QUESTION as i32);
        asm.branch(Condition::LessOrEqual, R3, R2, asked);
        asm.exit_with(SENSOR_MASK.cast_signed());
        asm.bind(asked);
        asm.load(Size::Double, R9, R6, 0);
        for (at, slot) in [(SIGNAL_AT, frame::SIGNAL), (LENGTH_AT, LENGTH)] {
            asm.load(Size::Double, R1, R6, at);
            asm.store(Size::Double, FP, slot, R1);
        }
        asm.load_map_value(R1, &state.counters, section * SECTION);
        asm.store(Size::Double, FP, COUNTERS, R1);
        moving::emit_bucket_word(&mut asm, &state, 0);
        asm.load(Size::Double, R8, R1, 0);
        moving::emit(&mut asm, &state);
        asm.mov(R0, R8);
        asm.exit();
        let program = Program::load("forebay_seat", Kind::Xdp { multi_buffer: false }, asm)?;
        Ok(Self { state, section, program })
    }

    /// What the table says of a bucket.
    #[must_use]
    pub fn entry(&self, bucket: u16) -> u32 {
        self.state.entry(bucket)
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
        let mut question = [0; QUESTION];
        let fields = [hash, signal.word(), bytes.into()];
        for (bytes, field) in question.chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&u64::to_ne_bytes(field));
        }
        let run = self.program.run(&question, &mut [])?;
        Ok((run.result & SENSOR_MASK) as u16)
    }

    /// Counts a packet for its bucket.
    pub fn count(&self, hash: u64, bytes: u32) {
        let cell = self.state.bucket_cell(self.section, (hash >> 48) as u16);
        // This thread is the only one that adds.
        let tally = cell[0].load(Relaxed).wrapping_add(TALLY_PACKET + u64::from(bytes));
        cell[0].store(tally, Relaxed);
        let flow = 1 << (hash >> FLOW_BIT & 31) << (32 * self.state.generation());
        if cell[1].load(Relaxed) & flow == 0 {
            // Whoever rotates may clear the other half meanwhile.
            cell[1].fetch_or(flow, Relaxed);
        }
    }
}
