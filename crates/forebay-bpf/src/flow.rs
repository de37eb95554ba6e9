//! The flow of a packet and its hash in the kernel, as in `forebay-packet`:
//! `programs/key.h`.
//!
//! The kernel handles only the common packets: Ethernet with at most two VLAN tags, IPv4
//! without options or IPv6 without extension headers, no fragment, no tunnel, no ICMP
//! error, nothing truncated. For these the hash is, bit for bit, that of `FlowKey::hash`.
//! All other packets are *not mine*: user space decodes them. A flow of `forebay-packet`
//! may consist of packets of both kinds; a program that uses this code keeps such a flow in
//! user space, identified by the addresses, which are found for nearly all packets.
//!
//! The key is that of `Decoded::affinity` with the same options, without VLAN or tunnel
//! identifiers.

use forebay_packet::{Affinity, HashKey};

use crate::object::Loader;

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

impl FlowOptions {
    /// Sets the settings of `programs/key.h`, which has these numbers too.
    pub(crate) fn set<'a>(&self, loader: Loader<'a>) -> Loader<'a> {
        let affinity = match self.affinity {
            Affinity::FiveTuple => 0,
            Affinity::IpPair => 1,
            Affinity::Source => 2,
            Affinity::Destination => 3,
        };
        loader
            .hash_key(&self.hash_key)
            .set("affinity", affinity)
            .set("tunnels", self.tunnels.into())
    }
}
