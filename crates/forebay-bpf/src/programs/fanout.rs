//! Selects the worker of a packet: a program for `PACKET_FANOUT_EBPF`, and one for the
//! queues of a TAP device (`TUNSETSTEERINGEBPF`).
//!
//! Workers share nothing, so packets that belong together must reach the same worker: the
//! packets of a connection in both directions, and the fragments of its datagrams. These
//! have the address pair in common, which can be read from every packet with an IP header
//! after the Ethernet header and at most two VLAN tags. So the hash of the pair selects the
//! worker; packets without addresses (ARP, MPLS, PPPoE, invalid ones) go to worker 0.
//!
//! On a packet socket, a program starts at the network header for received packets, with one tag
//! removed; for packets that this host sends, at the Ethernet header. On a TAP device it is
//! always at the Ethernet header.

use forebay_packet::HashKey;

use crate::error::BpfError;
use crate::object::{Loader, include_program};
use crate::program::{Kind, Program};

/// The most members of a fanout group (`PACKET_FANOUT_MAX` of the kernel).
pub const MAX_WORKERS: u32 = 1 << 16;

/// The worker, of `workers`, for packets whose address pair has this hash. Uses the lower
/// half of the hash, which bucket selection does not use.
#[must_use]
pub fn worker_of(hash: u64, workers: u32) -> u32 {
    (((hash & 0xffff_ffff) * u64::from(workers)) >> 32) as u32
}

/// Loads the program for a group of packet sockets.
///
/// # Errors
/// If the number of workers is invalid, or the kernel refuses the program.
pub fn load(hash_key: &HashKey, workers: u32) -> Result<Program, BpfError> {
    load_for(hash_key, workers, true)
}

/// Loads the program for a TAP device with a queue for each worker.
///
/// # Errors
/// As for [`load`].
pub fn load_for_queues(hash_key: &HashKey, workers: u32) -> Result<Program, BpfError> {
    load_for(hash_key, workers, false)
}

fn load_for(hash_key: &HashKey, workers: u32, as_received: bool) -> Result<Program, BpfError> {
    if workers == 0 || workers > MAX_WORKERS {
        return Err(BpfError::Setting {
            setting: "the number of workers",
            value: u64::from(workers),
            expected: "1 to 65536",
        });
    }
    Loader::new(include_program!("fanout"))
        .hash_key(hash_key)
        .set("workers", workers.into())
        .set("as_received", as_received.into())
        .load("forebay_fanout", Kind::SocketFilter)
}
