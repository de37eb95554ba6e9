//! How packets are decoded.

use super::protocol::{ICMP, ICMPV6};
use crate::flow::FlowKey;
use crate::hash::HashKey;

/// Which packets belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Affinity {
    /// Those of one transport connection.
    #[default]
    FiveTuple,
    /// All between two addresses.
    IpPair,
    /// All from one address.
    Source,
    /// All to one address.
    Destination,
}

impl Affinity {
    /// What keeps a packet together with others whose flow has `key`; `reversed` says
    /// whether the packet goes from the key's high end to its low end.
    #[inline]
    pub(crate) fn of(self, key: FlowKey, reversed: bool) -> FlowKey {
        match self {
            Self::FiveTuple => key,
            Self::IpPair => key.address_pair(),
            Self::Source => key.source(reversed),
            Self::Destination => key.destination(reversed),
        }
    }

    /// Whether the packets of a flow can have two hashes, one for each direction.
    #[must_use]
    pub fn has_directions(self) -> bool {
        matches!(self, Self::Source | Self::Destination)
    }

    /// The hashes that packets of the flow with `key` can have, one for each direction.
    #[must_use]
    pub fn hashes(self, key: &FlowKey, hash_key: &HashKey) -> [u64; 2] {
        // Messages of ICMP are kept together whatever their types.
        let is_icmp = matches!(key.protocol, ICMP | ICMPV6);
        let key = if is_icmp { key.without_ports() } else { *key };
        [false, true].map(|reversed| self.of(key, reversed).hash(hash_key))
    }
}

/// How packets are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// What [`Decoded::affinity`](super::Decoded::affinity) distinguishes.
    pub affinity: Affinity,
    /// VLAN identifiers are part of a flow.
    pub vlan_in_key: bool,
    /// Tunnel identifiers (VNI, TEID, GRE key, ERSPAN and PPPoE session, MPLS
    /// label) are part of a flow.
    pub tunnel_in_key: bool,
    /// Tunnels to look into; 0 takes the outermost IP header.
    pub tunnel_depth: u8,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            affinity: Affinity::FiveTuple,
            vlan_in_key: false,
            tunnel_in_key: false,
            tunnel_depth: 4,
        }
    }
}
