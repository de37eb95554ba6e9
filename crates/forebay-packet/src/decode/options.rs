//! How packets are decoded.

use crate::flow::FlowKey;

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
