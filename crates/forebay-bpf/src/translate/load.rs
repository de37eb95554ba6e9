//! Loads of a filter: a load beyond the packet ends the filter with 0.

use forebay_filter::program::instruction::Operation;

use super::registers::{FETCHED, LENGTH, X, width};
use crate::asm::Register::{FP, R0, R1, R2, R3, R4, R6, R9};
use crate::asm::{Alu, Assembler, Condition, Helper, Label, Register, Size};

/// The result of a socket filter for a packet that it cannot decide: keep all.
pub const KEEP_ALL: u32 = u32::MAX;

/// The place where a filter runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// On frames in a driver's buffer.
    Xdp {
        /// Whether frames may have several buffers; bytes after the first buffer are
        /// fetched by a call.
        multi_buffer: bool,
    },
    /// On packets of a packet socket, from the link header on. The kernel keeps the
    /// outermost VLAN tag of most packets outside the packet; the filter cannot decide such
    /// a packet and keeps it whole ([`KEEP_ALL`]), for user space to decide.
    Socket,
}

/// The most bytes of a frame that can be read: the verifier's limit of a packet pointer's
/// offset (`MAX_PACKET_OFF`).
const REACH: u32 = 0xffff;

/// Fields of `struct xdp_md`.
const XDP_DATA: i16 = 0;
const XDP_DATA_END: i16 = 4;

/// Fields of `struct __sk_buff`.
const SKB_LENGTH: i16 = 0;
const SKB_VLAN_PRESENT: i16 = 20;

/// The start of the frame, for XDP.
const DATA: Register = R9;

/// Whether an operation is a load beyond any packet.
pub(super) fn always_fails(operation: Operation) -> bool {
    let beyond = |size: Size, at: u32| at > REACH - size.bytes();
    match operation {
        Operation::LoadAbsolute(size, at) | Operation::LoadIndirect(size, at) => {
            beyond(width(size), at)
        }
        Operation::LoadXHeader(at) => beyond(Size::Byte, at),
        _ => false,
    }
}

/// The offset of a load in the frame.
#[derive(Clone, Copy)]
enum Place {
    /// A constant offset.
    Fixed(u32),
    /// At the offset in R2.
    Found,
}

/// A load of bytes outside the first buffer.
struct Fetch {
    from: Label,
    back: Label,
    place: Place,
    size: Size,
    into: Register,
}

/// The loads of one filter.
pub(super) struct Loads {
    context: Context,
    reject: Label,
    fetches: Vec<Fetch>,
}

impl Loads {
    pub fn new(context: Context, reject: Label) -> Self {
        Self { context, reject, fetches: Vec::new() }
    }

    /// The set-up of loads, and the length of the frame if needed.
    pub fn begin(&mut self, asm: &mut Assembler, wants_length: bool, verdict: Label) {
        match self.context {
            Context::Xdp { .. } => {
                if wants_length {
                    asm.mov(R1, R6);
                    asm.call(Helper::XdpGetBuffLen);
                    asm.store(Size::Word, FP, LENGTH, R0);
                }
                asm.load(Size::Word, DATA, R6, XDP_DATA);
            }
            Context::Socket => {
                let whole = asm.label("tag_in_place");
                asm.load(Size::Word, R1, R6, SKB_VLAN_PRESENT);
                asm.branch(Condition::Equal, R1, 0, whole);
                asm.alu32(Alu::Mov, R0, KEEP_ALL.cast_signed());
                asm.jump(verdict);
                asm.bind(whole);
                if wants_length {
                    asm.load(Size::Word, R0, R6, SKB_LENGTH);
                    asm.store(Size::Word, FP, LENGTH, R0);
                }
            }
        }
    }

    /// `into` = the bytes at `at`.
    pub fn absolute(&mut self, asm: &mut Assembler, into: Register, size: Size, at: u32) {
        if at > REACH - size.bytes() {
            return asm.jump(self.reject);
        }
        self.fetch(asm, into, size, Place::Fixed(at));
    }

    /// `into` = the bytes at X + `at`.
    pub fn indirect(&mut self, asm: &mut Assembler, into: Register, size: Size, at: u32) {
        if at > REACH - size.bytes() {
            return asm.jump(self.reject);
        }
        // X has 32 bits, and the sum does not wrap in 64.
        asm.mov(R2, X);
        asm.alu(Alu::Add, R2, at.cast_signed());
        asm.branch(Condition::Greater, R2, (REACH - size.bytes()).cast_signed(), self.reject);
        self.fetch(asm, into, size, Place::Found);
    }

    /// `into` = the bytes at `place`, which is within the limit.
    fn fetch(&mut self, asm: &mut Assembler, into: Register, size: Size, place: Place) {
        let Context::Xdp { multi_buffer } = self.context else {
            return self.call(asm, Helper::SkbLoadBytes, into, size, place);
        };
        let back = asm.label("loaded");
        let otherwise = if multi_buffer {
            let from = asm.label("fetch");
            self.fetches.push(Fetch { from, back, place, size, into });
            from
        } else {
            self.reject
        };
        // Variable offsets need CAP_PERFMON as well, so constant ones are added as
        // constants.
        asm.load(Size::Word, R4, R6, XDP_DATA_END);
        asm.mov(R1, DATA);
        match place {
            Place::Fixed(0) => {}
            Place::Fixed(at) => asm.alu(Alu::Add, R1, at.cast_signed()),
            Place::Found => asm.alu(Alu::Add, R1, R2),
        }
        asm.mov(R3, R1);
        asm.alu(Alu::Add, R3, size.bytes().cast_signed());
        asm.branch(Condition::Greater, R3, R4, otherwise);
        asm.load_network(size, into, R1, 0);
        asm.bind(back);
    }

    /// `into` = the bytes at `place`, copied by a helper.
    fn call(
        &mut self,
        asm: &mut Assembler,
        helper: Helper,
        into: Register,
        size: Size,
        place: Place,
    ) {
        if let Place::Fixed(at) = place {
            asm.mov(R2, at.cast_signed());
        }
        asm.mov(R1, R6);
        asm.mov(R3, FP);
        asm.alu(Alu::Add, R3, i32::from(FETCHED));
        asm.mov(R4, size.bytes().cast_signed());
        asm.call(helper);
        asm.branch(Condition::NotEqual, R0, 0, self.reject);
        asm.load_network(size, into, FP, FETCHED);
    }

    /// The code for bytes outside the first buffer.
    pub fn end(&mut self, asm: &mut Assembler) {
        for fetch in std::mem::take(&mut self.fetches) {
            asm.bind(fetch.from);
            self.call(asm, Helper::XdpLoadBytes, fetch.into, fetch.size, fetch.place);
            asm.jump(fetch.back);
        }
    }
}
