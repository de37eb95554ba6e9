//! Determines and hashes the flow of a packet in the kernel, as `forebay-packet` does.
//!
//! The kernel handles only the common packets: Ethernet with at most two VLAN tags, IPv4
//! without options or IPv6 without extension headers, no fragment, no tunnel, no ICMP
//! error, nothing truncated. For these the hash is, bit for bit, that of `FlowKey::hash`.
//! All other packets are *not mine*: user space decodes them. A flow of `forebay-packet`
//! may consist of packets of both kinds; a program that uses this code keeps such a flow in
//! user space, identified by the addresses, which are found for nearly all packets
//! (`pair`).
//!
//! The key is that of `Decoded::affinity` with the same options, without VLAN or tunnel
//! identifiers.

pub(crate) mod link;
pub(crate) mod network;
pub(crate) mod pair;
pub(crate) mod siphash;
pub(crate) mod transport;

use forebay_packet::{Affinity, HashKey};

use crate::asm::Register::{R1, R6, R7, R8};
use crate::asm::{Assembler, Label, Size};

/// Options of the flow code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// Which packets belong together.
    pub affinity: Affinity,
    /// The secret of the hash.
    pub hash_key: HashKey,
    /// Whether user space decodes tunnels, so that their packets are not the kernel's.
    /// False only for a tunnel depth of 0.
    pub tunnels: bool,
}

/// Results of the flow code, as offsets from the frame pointer.
pub(crate) mod frame {
    /// The hashed words: addresses, then ports and protocol.
    pub const WORDS: [i16; 5] = [-8, -16, -24, -32, -40];
    /// The name of the address pair, 64 bits.
    pub const PAIR: i16 = -48;
    /// 64 bits: the flags of a TCP header, with [`TCP`] and [`FROM_HIGH`]; 0 without a TCP
    /// header, or if a flow is more than a connection.
    pub const SIGNAL: i16 = -56;
    /// There is a TCP header.
    pub const TCP: i32 = 1 << 8;
    /// The packet goes from its key's high end to the low end.
    pub const FROM_HIGH: i32 = 1 << 9;
    /// Below is free for the program.
    pub const FREE: i16 = -56;
}

/// Jump targets of the flow code when it does not fall through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exits {
    /// User space has to decode the packet; `frame::PAIR` is set.
    pub not_mine: Label,
    /// Likewise, and there are no addresses after the Ethernet header.
    pub no_addresses: Label,
}

/// Appends code that determines the flow of an XDP frame. In: R6 is the context. Falls
/// through with the hash in R9, `frame::PAIR` and `frame::SIGNAL` set, and R7 at the IP
/// header; keeps R6, clobbers R0 to R5 and R8.
pub(crate) fn emit(asm: &mut Assembler, options: &FlowOptions, exits: Exits) {
    asm.load(Size::Word, R7, R6, XDP_DATA);
    asm.load(Size::Word, R8, R6, XDP_DATA_END);
    link::emit(asm, exits.no_addresses);
    network::emit(asm, options, exits);
}

/// Appends code for R9 = hash of the address pair of an XDP frame, or jumps to
/// `no_addresses`. In: R6 is the context, which is kept; clobbers all other registers.
pub(crate) fn emit_pair_hash(asm: &mut Assembler, key: &HashKey, no_addresses: Label) {
    asm.load(Size::Word, R7, R6, XDP_DATA);
    asm.load(Size::Word, R8, R6, XDP_DATA_END);
    link::emit(asm, no_addresses);
    network::emit_pair_hash(asm, key, no_addresses);
}

/// Fields of `struct xdp_md`.
pub(crate) const XDP_DATA: i16 = 0;
pub(crate) const XDP_DATA_END: i16 = 4;
pub(crate) const XDP_RX_QUEUE: i16 = 16;

/// Appends code that jumps to `otherwise` unless `bytes` bytes from R7 on are in the frame.
/// R8 is the frame's end; clobbers R1.
pub(crate) fn require(asm: &mut Assembler, bytes: i32, otherwise: Label) {
    asm.mov(R1, R7);
    asm.alu(crate::asm::Alu::Add, R1, bytes);
    asm.branch(crate::asm::Condition::Greater, R1, R8, otherwise);
}
