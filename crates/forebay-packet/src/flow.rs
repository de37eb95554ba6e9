//! The two-way key of a flow, and its keyed hash.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::hash::{HashKey, siphash13};

/// What a [`FlowKey`]'s addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum AddressKind {
    /// No address was found: `low` is a digest of the leading bytes.
    #[default]
    Opaque,
    /// IPv4 addresses, in the low 32 bits.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// MAC addresses, in the low 48 bits; `protocol` is 0 and `port_low` the
    /// EtherType.
    Mac,
    /// The IPv4 addresses of an ARP packet.
    Arp,
}

/// A flow, the same for both directions: `(low, port_low)` orders before or
/// equal to `(high, port_high)`. The one exception is ICMP that expects no
/// answer, which [`FlowKey::one_way`] makes: there `low` is the source,
/// `port_low` the type and `port_high` the code, as Community ID requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FlowKey {
    /// The smaller end's address.
    pub low: u128,
    /// The larger end's address.
    pub high: u128,
    /// Digest of VLAN and tunnel identifiers, 0 where they are not in the key.
    pub scope: u64,
    /// The smaller end's port, or ICMP type or its counterpart.
    pub port_low: u16,
    /// The larger end's port, or ICMP type or its counterpart.
    pub port_high: u16,
    /// IP protocol number of the transport.
    pub protocol: u8,
    /// What the addresses are.
    pub kind: AddressKind,
    /// Whether the ports mean something: false for a protocol without ports,
    /// and for a fragment or cut packet whose ports cannot be read.
    pub has_ports: bool,
}

/// One end of a flow.
pub type Endpoint = (u128, u16);

impl FlowKey {
    /// The key of a packet from `source` to `destination`, and whether the
    /// source is the high end.
    #[must_use]
    pub fn two_way(
        kind: AddressKind,
        protocol: u8,
        source: Endpoint,
        destination: Endpoint,
    ) -> (Self, bool) {
        let reversed = source > destination;
        let ((low, port_low), (high, port_high)) =
            if reversed { (destination, source) } else { (source, destination) };
        let key =
            Self { low, high, port_low, port_high, protocol, kind, has_ports: false, scope: 0 };
        (key, reversed)
    }

    /// The key of an ICMP message that has no counterpart.
    #[must_use]
    pub fn one_way(kind: AddressKind, protocol: u8, source: Endpoint, dest: Endpoint) -> Self {
        Self {
            low: source.0,
            high: dest.0,
            port_low: source.1,
            port_high: dest.1,
            protocol,
            kind,
            has_ports: true,
            scope: 0,
        }
    }

    /// This key without ports, its ends in order.
    #[must_use]
    pub fn without_ports(self) -> Self {
        let (low, high) = (self.low.min(self.high), self.low.max(self.high));
        Self { low, high, port_low: 0, port_high: 0, has_ports: false, ..self }
    }

    /// The key of everything between this key's addresses.
    #[must_use]
    pub fn address_pair(self) -> Self {
        match self.kind {
            AddressKind::Ipv4 | AddressKind::Ipv6 => Self { protocol: 0, ..self.without_ports() },
            AddressKind::Opaque | AddressKind::Mac | AddressKind::Arp => self,
        }
    }

    /// Source and destination of a packet that has this key, with `reversed` as it was decoded; none
    /// if its addresses are not those of IP.
    #[must_use]
    pub fn ip_ends(&self, reversed: bool) -> Option<[(IpAddr, u16); 2]> {
        let address = |bits: u128| match self.kind {
            AddressKind::Ipv4 => Some(IpAddr::V4(Ipv4Addr::from(bits as u32))),
            AddressKind::Ipv6 => Some(IpAddr::V6(Ipv6Addr::from(bits))),
            AddressKind::Opaque | AddressKind::Mac | AddressKind::Arp => None,
        };
        let low = (address(self.low)?, self.port_low);
        let high = (address(self.high)?, self.port_high);
        Some(if reversed { [high, low] } else { [low, high] })
    }

    /// The key of everything from the sender of a packet that has this key; `reversed`
    /// returns whether that is the high end.
    #[must_use]
    pub fn source(self, reversed: bool) -> Self {
        let low = if reversed { self.high } else { self.low };
        let sender = Self { low, high: 0, protocol: 0, port_low: 0, port_high: 0, ..self };
        match self.kind {
            AddressKind::Opaque => self,
            AddressKind::Ipv4 | AddressKind::Ipv6 | AddressKind::Mac | AddressKind::Arp => {
                Self { has_ports: false, ..sender }
            }
        }
    }

    /// The key of everything to the receiver of a packet that has this key; `reversed` as
    /// for [`FlowKey::source`]. What is from an address and what is to it have one key.
    #[must_use]
    pub fn destination(self, reversed: bool) -> Self {
        self.source(!reversed)
    }

    /// As `==`, without branches, for keys that are most likely equal.
    #[inline]
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let addresses = (self.low ^ other.low) | (self.high ^ other.high);
        let others = (self.scope ^ other.scope) | (self.ends() ^ other.ends());
        addresses as u64 | (addresses >> 64) as u64 | others == 0
    }

    /// All but addresses and scope.
    #[inline]
    fn ends(&self) -> u64 {
        u64::from(self.port_low)
            | u64::from(self.port_high) << 16
            | u64::from(self.protocol) << 32
            | (self.kind as u64) << 40
            | u64::from(self.has_ports) << 48
    }

    /// The keyed hash of the flow: SipHash-1-3 over little-endian 64-bit words.
    ///
    /// The words are the addresses (one word for a pair of IPv4 addresses, four
    /// for any other, low half first), then `port_low`, `port_high`,
    /// `protocol`, `kind` and `has_ports` in that order from bit 0 up, then
    /// `scope` unless it is 0. Equal for both directions, because the key is.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &HashKey) -> u64 {
        let mut words = [0_u64; 6];
        let mut n = match self.kind {
            AddressKind::Ipv4 | AddressKind::Arp => {
                words[0] = self.low as u64 | (self.high as u64) << 32;
                1
            }
            AddressKind::Opaque | AddressKind::Ipv6 | AddressKind::Mac => {
                words[0] = self.low as u64;
                words[1] = (self.low >> 64) as u64;
                words[2] = self.high as u64;
                words[3] = (self.high >> 64) as u64;
                4
            }
        };
        words[n] = self.ends();
        n += 1;
        if self.scope != 0 {
            words[n] = self.scope;
            n += 1;
        }
        siphash13(key, &words[..n])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_senders_key_is_of_its_address_alone() {
        let ends = ((7, 80), (9, 1024));
        let (there, forth) = FlowKey::two_way(AddressKind::Ipv4, 6, ends.0, ends.1);
        let (back, reversed) = FlowKey::two_way(AddressKind::Ipv4, 6, ends.1, ends.0);
        let (other, direction) = FlowKey::two_way(AddressKind::Ipv4, 17, ends.0, (200, 53));
        assert_eq!(there.source(forth), other.source(direction));
        assert_ne!(there.source(forth), back.source(reversed));
        assert_eq!(back.source(reversed).low, 9);
    }

    #[test]
    fn a_receivers_key_is_that_of_what_it_sends() {
        let ends = ((7, 80), (9, 1024));
        let (there, forth) = FlowKey::two_way(AddressKind::Ipv4, 6, ends.0, ends.1);
        let (back, reversed) = FlowKey::two_way(AddressKind::Ipv4, 6, ends.1, ends.0);
        assert_eq!(there.destination(forth).low, 9);
        assert_eq!(there.destination(forth), back.source(reversed));
        assert_eq!(there.source(forth), back.destination(reversed));
        let quench = FlowKey::one_way(AddressKind::Ipv4, 1, (9, 4), (7, 0));
        assert_eq!((quench.source(false).low, quench.destination(false).low), (9, 7));
    }

    proptest! {
        #[test]
        fn both_directions_have_one_key_and_one_hash(
            a in any::<(u32, u16)>(), b in any::<(u32, u16)>(), protocol in any::<u8>(),
            seed in any::<[u64; 2]>(),
        ) {
            let a = (u128::from(a.0), a.1);
            let b = (u128::from(b.0), b.1);
            let (there, _) = FlowKey::two_way(AddressKind::Ipv4, protocol, a, b);
            let (back, _) = FlowKey::two_way(AddressKind::Ipv4, protocol, b, a);
            prop_assert_eq!(there, back);
            prop_assert_eq!(there.hash(&HashKey(seed)), back.hash(&HashKey(seed)));
        }

        #[test]
        fn every_field_counts(
            low in any::<u128>(), high in any::<u128>(), bit in 0_u32..128, seed in any::<[u64; 2]>(),
        ) {
            let key = FlowKey { low, high, kind: AddressKind::Ipv6, ..FlowKey::default() };
            let seed = HashKey(seed);
            let others = [
                FlowKey { low: low ^ 1 << bit, ..key },
                FlowKey { high: high ^ 1 << bit, ..key },
                FlowKey { scope: 1 << (bit % 64), ..key },
                FlowKey { port_low: 1 << (bit % 16), ..key },
                FlowKey { port_high: 1 << (bit % 16), ..key },
                FlowKey { protocol: 1 << (bit % 8), ..key },
                FlowKey { kind: AddressKind::Mac, ..key },
                FlowKey { has_ports: true, ..key },
            ];
            for other in others {
                prop_assert_ne!(key.hash(&seed), other.hash(&seed));
                prop_assert!(key.is(&key) && !key.is(&other));
            }
        }
    }
}
