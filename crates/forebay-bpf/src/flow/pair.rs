//! The address pair of a packet, regardless of ports and protocols.
//!
//! It is found for every packet with an IP header right after the (tagged) Ethernet header,
//! including fragments, options, extension headers and tunnels. It has two representations:
//! the hash of `FlowKey::address_pair`, which selects the worker, and a 64-bit name (the
//! addresses themselves for IPv4, that hash for IPv6), by which a flow is remembered.

use forebay_packet::HashKey;
use forebay_packet::flow::AddressKind;

use super::{frame, siphash};
use crate::asm::Register::{FP, R1, R2, R3, R4, R5};
use crate::asm::{Alu, Assembler, Condition, Register, Size};

/// Offsets of the addresses in the headers.
pub(crate) const IPV4_SOURCE: i16 = 12;
pub(crate) const IPV4_DESTINATION: i16 = 16;
pub(crate) const IPV6_SOURCE: i16 = 8;
pub(crate) const IPV6_DESTINATION: i16 = 24;

/// Lengths of the headers without options.
pub(crate) const IPV4_HEADER: i32 = 20;
pub(crate) const IPV6_HEADER: i32 = 40;

/// The word after the addresses, for a key with addresses only.
pub(crate) fn bare_ends(kind: AddressKind) -> u64 {
    (kind as u64) << 40
}

/// The words that are hashed for addresses of this kind.
pub(crate) fn words(kind: AddressKind) -> &'static [i16] {
    if kind == AddressKind::Ipv4 {
        const { &[frame::WORDS[0], frame::WORDS[4]] }
    } else {
        &frame::WORDS
    }
}

/// Appends code for the pair of IPv4 addresses in R4 (source) and R5 (destination): its
/// word to `frame::WORDS[0]` and to R1. Clobbers R2.
pub(crate) fn emit_ipv4(asm: &mut Assembler) {
    let ordered = asm.label("ordered");
    asm.mov(R1, R4);
    asm.mov(R2, R5);
    asm.branch(Condition::LessOrEqual, R1, R2, ordered);
    asm.mov(R1, R5);
    asm.mov(R2, R4);
    asm.bind(ordered);
    asm.alu(Alu::Lsh, R2, 32);
    asm.alu(Alu::Or, R1, R2);
    asm.store(Size::Double, FP, frame::WORDS[0], R1);
}

/// The order of the ends of a pair of IPv6 addresses, in R5.
pub(crate) const IN_ORDER: i32 = 0;
pub(crate) const REVERSED: i32 = 1;
/// Both addresses are the same.
pub(crate) const EQUAL: i32 = 2;

/// Appends code for the pair of IPv6 addresses at these offsets from `base`: its words to
/// `frame::WORDS`, and their order to R5. Clobbers R1 to R4.
pub(crate) fn emit_ipv6(asm: &mut Assembler, base: Register, source: i16, destination: i16) {
    let (reversed, store) = (asm.label("reversed"), asm.label("store"));
    for (register, offset) in
        [(R1, source), (R2, source + 8), (R3, destination), (R4, destination + 8)]
    {
        asm.load_network(Size::Double, register, base, offset);
    }
    let equal_so_far = asm.label("equal_so_far");
    asm.mov(R5, IN_ORDER);
    asm.branch(Condition::Less, R1, R3, store);
    asm.branch(Condition::Equal, R1, R3, equal_so_far);
    asm.jump(reversed);
    asm.bind(equal_so_far);
    asm.branch(Condition::Less, R2, R4, store);
    asm.branch(Condition::Greater, R2, R4, reversed);
    asm.mov(R5, EQUAL);
    asm.jump(store);
    asm.bind(reversed);
    store_ipv6(asm, [R4, R3, R2, R1]);
    asm.mov(R5, REVERSED);
    let done = asm.label("done");
    asm.jump(done);
    asm.bind(store);
    store_ipv6(asm, [R2, R1, R4, R3]);
    asm.bind(done);
}

fn store_ipv6(asm: &mut Assembler, halves: [Register; 4]) {
    for (slot, half) in frame::WORDS.into_iter().zip(halves) {
        asm.store(Size::Double, FP, slot, half);
    }
}

/// Appends code for `dst` = hash of the pair whose address words are in place. Clobbers R0
/// to R5 and the last of `frame::WORDS`.
pub(crate) fn emit_hash(asm: &mut Assembler, key: &HashKey, kind: AddressKind, dst: Register) {
    asm.constant(R1, bare_ends(kind));
    asm.store(Size::Double, FP, frame::WORDS[4], R1);
    siphash::emit(asm, key, words(kind), dst);
}
