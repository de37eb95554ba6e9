//! Selects the worker of a packet: a program for `PACKET_FANOUT_EBPF`, and one for the
//! queues of a TAP device (`TUNSETSTEERINGEBPF`).
//!
//! Workers share nothing, so packets that belong together must reach the same worker: the
//! packets of a connection in both directions, and the fragments of its datagrams. These
//! have the address pair in common, which can be read from every packet with an IP header
//! after the Ethernet header and at most two VLAN tags. So the hash of the pair selects the
//! worker; packets without addresses (ARP, MPLS, PPPoE, invalid ones) go to worker 0.
//!
//! On a packet socket, R1 is at the network header for received packets, with one tag
//! removed; for packets that this host sends, at the Ethernet header. On a TAP device it is
//! always at the Ethernet header.

use forebay_packet::HashKey;
use forebay_packet::flow::AddressKind;

use crate::asm::Register::{FP, R0, R1, R2, R3, R4, R5, R6, R7, R8};
use crate::asm::{Alu, Assembler, Condition, Helper, Label, Size};
use crate::error::BpfError;
use crate::flow::link::{ETHER_TYPE, ETHERNET, emit_tags};
use crate::flow::{frame, pair};
use crate::program::{Kind, Program};

/// The most members of a fanout group (`PACKET_FANOUT_MAX` of the kernel).
pub const MAX_WORKERS: u32 = 1 << 16;

/// The worker, of `workers`, for packets whose address pair has this hash. Uses the lower
/// half of the hash, which bucket selection does not use.
#[must_use]
pub fn worker_of(hash: u64, workers: u32) -> u32 {
    (((hash & 0xffff_ffff) * u64::from(workers)) >> 32) as u32
}

/// Fields of `struct __sk_buff`.
const SKB_PACKET_TYPE: i16 = 4;
const SKB_PROTOCOL: i16 = 16;
/// Packet type of packets that this host sends (`<linux/if_packet.h>`).
const PACKET_OUTGOING: i32 = 4;

/// Stack offset of the copied headers.
const HEADER: i16 = frame::FREE - 32;

/// Version and length of the shortest IPv4 header.
const IPV4_SHORTEST: i32 = 0x45;

/// Generates and loads the program for a group of packet sockets.
///
/// # Errors
/// If the number of workers is invalid, or the kernel refuses the program.
pub fn load(hash_key: &HashKey, workers: u32) -> Result<Program, BpfError> {
    load_for(hash_key, workers, Start::AsReceived)
}

/// Generates and loads the program for a TAP device with a queue for each worker.
///
/// # Errors
/// As for [`load`].
pub fn load_for_queues(hash_key: &HashKey, workers: u32) -> Result<Program, BpfError> {
    load_for(hash_key, workers, Start::Ethernet)
}

/// The header at the start of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The Ethernet header, or the network header of a received packet.
    AsReceived,
    /// The Ethernet header.
    Ethernet,
}

fn load_for(hash_key: &HashKey, workers: u32, start: Start) -> Result<Program, BpfError> {
    if workers == 0 || workers > MAX_WORKERS {
        return Err(BpfError::Setting {
            setting: "the number of workers",
            value: u64::from(workers),
            expected: "1 to 65536",
        });
    }
    Program::load("forebay_fanout", Kind::SocketFilter, assemble(hash_key, workers, start))
}

/// The code. R6 is the context, R7 the current offset.
fn assemble(hash_key: &HashKey, workers: u32, start: Start) -> Assembler {
    let mut asm = Assembler::new();
    let (ip, hashed, elsewhere) = (asm.label("ip"), asm.label("hashed"), asm.label("no_addresses"));
    asm.mov(R6, R1);
    emit_link(&mut asm, start, ip, elsewhere);

    asm.bind(ip);
    let (v4, v6) = (asm.label("ipv4"), asm.label("ipv6"));
    copy(&mut asm, 0, pair::IPV4_HEADER, elsewhere);
    asm.load(Size::Byte, R8, FP, HEADER);
    asm.mov(R1, R8);
    asm.alu(Alu::Rsh, R1, 4);
    asm.branch(Condition::Equal, R1, 4, v4);
    asm.branch(Condition::Equal, R1, 6, v6);
    asm.jump(elsewhere);

    asm.bind(v4);
    asm.branch(Condition::Less, R8, IPV4_SHORTEST, elsewhere);
    asm.load_network(Size::Word, R4, FP, HEADER + pair::IPV4_SOURCE);
    asm.load_network(Size::Word, R5, FP, HEADER + pair::IPV4_DESTINATION);
    pair::emit_ipv4(&mut asm);
    pair::emit_hash(&mut asm, hash_key, AddressKind::Ipv4, R0);
    asm.jump(hashed);

    asm.bind(v6);
    copy(&mut asm, pair::IPV6_SOURCE, 32, elsewhere);
    pair::emit_ipv6(&mut asm, FP, HEADER, HEADER + 16);
    pair::emit_hash(&mut asm, hash_key, AddressKind::Ipv6, R0);

    asm.bind(hashed);
    emit_worker(&mut asm, workers);
    asm.exit();
    asm.bind(elsewhere);
    asm.exit_with(0);
    asm
}

/// R0 = [`worker_of`] the hash in R0.
pub(crate) fn emit_worker(asm: &mut Assembler, workers: u32) {
    asm.alu32(Alu::Mov, R0, R0);
    // At most 65,536, so the constant is no negative number.
    asm.alu(Alu::Mul, R0, workers.cast_signed());
    asm.alu(Alu::Rsh, R0, 32);
}

/// Jumps to `ip` with R7 at the IP header, or to `elsewhere`.
fn emit_link(asm: &mut Assembler, start: Start, ip: Label, elsewhere: Label) {
    let typed = asm.label("typed");
    asm.mov(R7, 0);
    if start == Start::AsReceived {
        asm.load(Size::Word, R2, R6, SKB_PROTOCOL);
        asm.load(Size::Word, R1, R6, SKB_PACKET_TYPE);
        asm.branch(Condition::NotEqual, R1, PACKET_OUTGOING, typed);
    }
    copy(asm, 0, ETHERNET, elsewhere);
    asm.load(Size::Half, R2, FP, HEADER + ETHER_TYPE);
    asm.mov(R7, ETHERNET);
    asm.bind(typed);
    emit_tags(asm, ip, elsewhere, (FP, HEADER), |asm, len| copy(asm, 0, len, elsewhere));
}

/// Copies `bytes` bytes from `offset` after R7 to the stack.
fn copy(asm: &mut Assembler, offset: i16, bytes: i32, elsewhere: Label) {
    asm.mov(R1, R6);
    asm.mov(R2, R7);
    asm.alu(Alu::Add, R2, i32::from(offset));
    asm.mov(R3, FP);
    asm.alu(Alu::Add, R3, i32::from(HEADER));
    asm.mov(R4, bytes);
    asm.call(Helper::SkbLoadBytes);
    asm.branch(Condition::SignedLess, R0, 0, elsewhere);
}
