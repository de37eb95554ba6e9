//! The last word of a key: ports, protocol, kind of addresses.
//!
//! Datagrams in which user space may find another one are not the kernel's: tunnels by
//! protocol number, UDP to a tunnel's port, and ICMP errors, which belong to the flow of
//! the packet they quote. Any other ICMP belongs to its address pair.

use forebay_packet::Affinity;
use forebay_packet::flow::AddressKind;

use super::{FlowOptions, frame, pair, require};
use crate::asm::Register::{FP, R0, R1, R2, R3, R4, R5, R7, R9};
use crate::asm::{Alu, Assembler, Condition, Label, Size};

const ICMP: i32 = 1;
const TCP: i32 = 6;
const UDP: i32 = 17;
const ICMPV6: i32 = 58;

/// Protocols with ports besides TCP and UDP: DCCP, SCTP, UDP-Lite.
const OTHERS_WITH_PORTS: [i32; 3] = [33, 132, 136];
/// Tunnels by protocol: IPv4, IPv6 and GRE in IP.
const TUNNEL_PROTOCOLS: [i32; 3] = [4, 41, 47];
/// Tunnels by destination port: VXLAN (as assigned, and Linux's default), GENEVE, GTP-U.
const TUNNEL_PORTS: [i32; 4] = [4789, 8472, 6081, 2152];

/// ICMP messages that quote a packet, as in `forebay-packet`.
const ICMP_ERRORS: [i32; 5] = [3, 4, 5, 11, 12];
/// The first ICMPv6 message that is not an error.
const ICMPV6_FIRST_INFORMATIONAL: i32 = 128;

/// Offset of TCP's flags.
const TCP_FLAGS: i16 = 13;

/// The bit of a key's last word for valid ports.
const HAS_PORTS: u64 = 1 << 48;

/// Properties of the IP header before a transport header.
#[derive(Clone, Copy)]
pub(super) struct Datagram {
    pub kind: AddressKind,
    /// Length of the IP header.
    pub header: i32,
    /// The part of the header that its length field includes.
    pub length_counts: i32,
}

impl Datagram {
    /// Offset from the IP header.
    fn at(self, offset: i16) -> i16 {
        self.header as i16 + offset
    }

    /// Appends code that jumps to `otherwise` unless `bytes` bytes of the transport header
    /// are in the frame, and in the datagram by its length in R3. Clobbers R1.
    fn require(self, asm: &mut Assembler, bytes: i32, otherwise: Label) {
        asm.branch(Condition::Less, R3, self.length_counts + bytes, otherwise);
        require(asm, self.header + bytes, otherwise);
    }
}

/// Appends code for the last of the hashed words, and [`frame::SIGNAL`]. In: the IP header
/// at R7, the protocol in R2, the datagram's length in R3, the order of the addresses in
/// R9.
pub(super) fn emit(
    asm: &mut Assembler,
    options: &FlowOptions,
    datagram: Datagram,
    not_mine: Label,
) {
    let (done, bare) = (asm.label("done"), asm.label("bare"));
    let (tcp, udp, ports) = (asm.label("tcp"), asm.label("udp"), asm.label("ports"));
    let icmp = asm.label("icmp");
    asm.mov(R0, 0);
    unknown_length(asm);
    asm.branch(Condition::Equal, R2, TCP, tcp);
    asm.branch(Condition::Equal, R2, UDP, udp);
    let icmp_here = if datagram.kind == AddressKind::Ipv4 { ICMP } else { ICMPV6 };
    asm.branch(Condition::Equal, R2, icmp_here, icmp);
    for protocol in OTHERS_WITH_PORTS {
        asm.branch(Condition::Equal, R2, protocol, ports);
    }
    if options.tunnels {
        for protocol in TUNNEL_PROTOCOLS {
            asm.branch(Condition::Equal, R2, protocol, not_mine);
        }
    }
    asm.jump(bare);

    asm.bind(icmp);
    emit_icmp(asm, datagram, bare, not_mine);

    asm.bind(tcp);
    if options.affinity == Affinity::FiveTuple {
        emit_flags(asm, datagram, ports);
    }
    asm.jump(ports);

    asm.bind(udp);
    if options.tunnels {
        datagram.require(asm, 4, not_mine);
        asm.load_network(Size::Half, R1, R7, datagram.at(2));
        for port in TUNNEL_PORTS {
            asm.branch(Condition::Equal, R1, port, not_mine);
        }
    }
    asm.bind(ports);
    datagram.require(asm, 4, not_mine);
    if options.affinity == Affinity::FiveTuple {
        emit_ports(asm, datagram);
        asm.jump(done);
    }

    asm.bind(bare);
    if options.affinity == Affinity::FiveTuple {
        asm.alu(Alu::Lsh, R2, 32);
        asm.constant(R1, pair::bare_ends(datagram.kind));
        asm.alu(Alu::Or, R1, R2);
    } else {
        asm.constant(R1, pair::bare_ends(datagram.kind));
    }
    asm.bind(done);
    asm.store(Size::Double, FP, frame::WORDS[4], R1);
    asm.store(Size::Double, FP, frame::SIGNAL, R0);
}

/// Hosts that leave segmentation to the network card send a length of 0, and so do
/// jumbograms: it limits nothing.
fn unknown_length(asm: &mut Assembler) {
    let known = asm.label("length_known");
    asm.branch(Condition::NotEqual, R3, 0, known);
    asm.mov(R3, 0xffff);
    asm.bind(known);
}

fn emit_icmp(asm: &mut Assembler, datagram: Datagram, bare: Label, not_mine: Label) {
    datagram.require(asm, 2, not_mine);
    asm.load(Size::Byte, R1, R7, datagram.at(0));
    if datagram.kind == AddressKind::Ipv4 {
        for kind in ICMP_ERRORS {
            asm.branch(Condition::Equal, R1, kind, not_mine);
        }
    } else {
        asm.branch(Condition::Less, R1, ICMPV6_FIRST_INFORMATIONAL, not_mine);
    }
    asm.jump(bare);
}

/// R0 = the flags and [`frame::TCP`], or jumps to `otherwise` if they are cut off.
fn emit_flags(asm: &mut Assembler, datagram: Datagram, otherwise: Label) {
    datagram.require(asm, i32::from(TCP_FLAGS) + 1, otherwise);
    asm.load(Size::Byte, R0, R7, datagram.at(TCP_FLAGS));
    asm.alu(Alu::Or, R0, frame::TCP);
}

/// R1 = the last word for a datagram with ports, in the order of the addresses or, if these
/// are equal, in their own.
fn emit_ports(asm: &mut Assembler, datagram: Datagram) {
    let (reversed, ordered) = (asm.label("ports_reversed"), asm.label("ports_ordered"));
    asm.load_network(Size::Half, R4, R7, datagram.at(0));
    asm.load_network(Size::Half, R5, R7, datagram.at(2));
    asm.branch(Condition::Equal, R9, pair::IN_ORDER, ordered);
    asm.branch(Condition::Equal, R9, pair::REVERSED, reversed);
    asm.branch(Condition::LessOrEqual, R4, R5, ordered);
    asm.bind(reversed);
    asm.mov(R1, R4);
    asm.mov(R4, R5);
    asm.mov(R5, R1);
    asm.alu(Alu::Or, R0, frame::FROM_HIGH);
    asm.bind(ordered);
    asm.alu(Alu::Lsh, R5, 16);
    asm.alu(Alu::Lsh, R2, 32);
    asm.constant(R1, pair::bare_ends(datagram.kind) | HAS_PORTS);
    asm.alu(Alu::Or, R1, R2);
    asm.alu(Alu::Or, R1, R5);
    asm.alu(Alu::Or, R1, R4);
}
