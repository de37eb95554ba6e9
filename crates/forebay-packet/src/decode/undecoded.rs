//! Names of what the walk does not look into.

use std::fmt;

use crate::link::LinkType;

/// What a walk over headers ended at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Undecoded {
    /// A link type that is not decoded.
    Link(LinkType),
    /// An EtherType, or a header of its that is not decoded, as encrypted MACsec.
    EtherType(u16),
    /// Service access points of IEEE 802.2.
    Llc(u16),
    /// A protocol of PPP.
    Ppp(u16),
    /// A protocol of frame relay.
    Nlpid(u8),
    /// An IEEE 802.11 frame that is no data, a later fragment or encrypted.
    Wireless,
    /// An IP protocol that hides ports: the address pair is the key.
    Protocol(u8),
}

impl fmt::Display for Undecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(link) => match link.name() {
                Some(name) => write!(f, "link type {name}"),
                None => write!(f, "link type {}", link.0),
            },
            Self::EtherType(ether_type) => write!(f, "EtherType {ether_type:#06x}"),
            Self::Llc(sap) => write!(f, "LLC {sap:#06x}"),
            Self::Ppp(protocol) => write!(f, "PPP protocol {protocol:#06x}"),
            Self::Nlpid(protocol) => write!(f, "NLPID {protocol:#04x}"),
            Self::Wireless => f.write_str("IEEE 802.11 without readable data"),
            Self::Protocol(protocol) => write!(f, "IP protocol {protocol}"),
        }
    }
}
