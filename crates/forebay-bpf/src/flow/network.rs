//! IPv4 without options and IPv6 without extension headers: addresses, and the transport
//! header. The version is that of the header itself, as in `forebay-packet`.

use forebay_packet::flow::AddressKind;
use forebay_packet::{Affinity, HashKey};

use super::pair::{
    IPV4_DESTINATION, IPV4_HEADER, IPV4_SOURCE, IPV6_DESTINATION, IPV6_HEADER, IPV6_SOURCE,
};
use super::transport::{self, Datagram};
use super::{Exits, FlowOptions, frame, pair, require, siphash};
use crate::asm::Register::{FP, R0, R1, R2, R3, R4, R5, R7, R9};
use crate::asm::{Alu, Assembler, Condition, Label, Size};

/// Fields of the headers.
const IPV4_TOTAL_LENGTH: i16 = 2;
const IPV4_FRAGMENT: i16 = 6;
const IPV4_PROTOCOL: i16 = 9;
const IPV6_PAYLOAD_LENGTH: i16 = 4;
const IPV6_NEXT_HEADER: i16 = 6;

/// Version and length of an IPv4 header of five words, the shortest.
const IPV4_NO_OPTIONS: i32 = 0x45;
/// Offset and "more fragments" of the fragment field.
const FRAGMENT: u16 = 0x3fff;

/// Next headers that are not transport: hop-by-hop options, routing, fragment,
/// authentication, destination options, mobility, host identity, shim6.
const EXTENSION_HEADERS: [i32; 8] = [0, 43, 44, 51, 60, 135, 139, 140];
/// An authentication header, which IPv4 can also have.
const AUTHENTICATION: i32 = 51;

/// Appends code for the IP header at R7; see [`super::emit`].
pub(super) fn emit(asm: &mut Assembler, options: &FlowOptions, exits: Exits) {
    let (v6, hashed) = (asm.label("ipv6"), asm.label("hashed"));
    version(asm, v6, exits.no_addresses);
    ipv4_addresses(asm);
    asm.store(Size::Double, FP, frame::PAIR, R1);
    ipv4_rest(asm, options, exits);
    siphash::emit(asm, &options.hash_key, pair::words(AddressKind::Ipv4), R9);
    asm.jump(hashed);

    asm.bind(v6);
    ipv6_addresses(asm, options);
    ipv6_rest(asm, options, exits);
    siphash::emit(asm, &options.hash_key, pair::words(AddressKind::Ipv6), R9);
    asm.bind(hashed);
}

/// Appends code for the hash of the address pair; see [`super::emit_pair_hash`].
pub(super) fn emit_pair_hash(asm: &mut Assembler, key: &HashKey, no_addresses: Label) {
    let (v6, hashed) = (asm.label("ipv6"), asm.label("hashed"));
    version(asm, v6, no_addresses);
    ipv4_addresses(asm);
    pair::emit_hash(asm, key, AddressKind::Ipv4, R9);
    asm.jump(hashed);
    asm.bind(v6);
    pair::emit_ipv6(asm, R7, IPV6_SOURCE, IPV6_DESTINATION);
    pair::emit_hash(asm, key, AddressKind::Ipv6, R9);
    asm.bind(hashed);
}

/// Falls through for IPv4, with its fixed header in the frame; R3 = the header's first
/// byte. Jumps to `v6` for IPv6, with its header in the frame.
fn version(asm: &mut Assembler, v6: Label, no_addresses: Label) {
    let (v4, other) = (asm.label("ipv4"), asm.label("version_6"));
    require(asm, IPV4_HEADER, no_addresses);
    asm.load(Size::Byte, R3, R7, 0);
    asm.mov(R2, R3);
    asm.alu(Alu::Rsh, R2, 4);
    asm.branch(Condition::Equal, R2, 4, v4);
    asm.branch(Condition::Equal, R2, 6, other);
    asm.jump(no_addresses);
    asm.bind(other);
    require(asm, IPV6_HEADER, no_addresses);
    asm.jump(v6);
    asm.bind(v4);
    // A header of less than five words is invalid.
    asm.branch(Condition::Less, R3, IPV4_NO_OPTIONS, no_addresses);
}

/// The pair, as words; its name in R1, the addresses in R4 and R5.
fn ipv4_addresses(asm: &mut Assembler) {
    asm.load_network(Size::Word, R4, R7, IPV4_SOURCE);
    asm.load_network(Size::Word, R5, R7, IPV4_DESTINATION);
    pair::emit_ipv4(asm);
}

/// Ports and protocol of a datagram with addresses in R4 and R5, and the first byte of its
/// header in R3.
fn ipv4_rest(asm: &mut Assembler, options: &FlowOptions, exits: Exits) {
    asm.branch(Condition::NotEqual, R3, IPV4_NO_OPTIONS, exits.not_mine);
    asm.load(Size::Half, R1, R7, IPV4_FRAGMENT);
    asm.branch(Condition::AnyBit, R1, i32::from(FRAGMENT.to_be()), exits.not_mine);
    // The order of the ends, by address.
    asm.mov(R9, pair::IN_ORDER);
    let ordered = asm.label("ordered");
    asm.branch(Condition::Less, R4, R5, ordered);
    asm.mov(R9, pair::REVERSED);
    asm.branch(Condition::Greater, R4, R5, ordered);
    asm.mov(R9, pair::EQUAL);
    asm.bind(ordered);
    match options.affinity {
        Affinity::FiveTuple | Affinity::IpPair => {}
        Affinity::Source => asm.store(Size::Double, FP, frame::WORDS[0], R4),
        Affinity::Destination => asm.store(Size::Double, FP, frame::WORDS[0], R5),
    }
    asm.load_network(Size::Half, R3, R7, IPV4_TOTAL_LENGTH);
    asm.load(Size::Byte, R2, R7, IPV4_PROTOCOL);
    asm.branch(Condition::Equal, R2, AUTHENTICATION, exits.not_mine);
    let datagram =
        Datagram { kind: AddressKind::Ipv4, header: IPV4_HEADER, length_counts: IPV4_HEADER };
    transport::emit(asm, options, datagram, exits.not_mine);
}

/// The pair, as words and as name; leaves the order of the ends in R9.
fn ipv6_addresses(asm: &mut Assembler, options: &FlowOptions) {
    pair::emit_ipv6(asm, R7, IPV6_SOURCE, IPV6_DESTINATION);
    asm.mov(R9, R5);
    pair::emit_hash(asm, &options.hash_key, AddressKind::Ipv6, R0);
    asm.store(Size::Double, FP, frame::PAIR, R0);
    let only = match options.affinity {
        Affinity::FiveTuple | Affinity::IpPair => None,
        Affinity::Source => Some(IPV6_SOURCE),
        Affinity::Destination => Some(IPV6_DESTINATION),
    };
    if let Some(address) = only {
        asm.load_network(Size::Double, R1, R7, address + 8);
        asm.load_network(Size::Double, R2, R7, address);
        asm.store(Size::Double, FP, frame::WORDS[0], R1);
        asm.store(Size::Double, FP, frame::WORDS[1], R2);
        asm.store(Size::Double, FP, frame::WORDS[2], 0);
        asm.store(Size::Double, FP, frame::WORDS[3], 0);
    }
}

/// Ports and protocol of a datagram with the order of addresses in R9.
fn ipv6_rest(asm: &mut Assembler, options: &FlowOptions, exits: Exits) {
    asm.load_network(Size::Half, R3, R7, IPV6_PAYLOAD_LENGTH);
    asm.load(Size::Byte, R2, R7, IPV6_NEXT_HEADER);
    for header in EXTENSION_HEADERS {
        asm.branch(Condition::Equal, R2, header, exits.not_mine);
    }
    let datagram = Datagram { kind: AddressKind::Ipv6, header: IPV6_HEADER, length_counts: 0 };
    transport::emit(asm, options, datagram, exits.not_mine);
}
