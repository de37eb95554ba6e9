//! Keys of IPv4 flows in 106 bits.

use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;

/// Bit of keys that have ports.
const HAS_PORTS: u32 = 104;
/// Bit of every key, so that none is zero.
pub(crate) const PRESENT: u32 = 105;

/// The bits of an entry that are its key.
pub(crate) const KEY_MASK: u128 = (1 << (PRESENT + 1)) - 1;

/// Bit of the low port, which keys without ports have only if they are digests.
const DIGEST: u32 = 64;

/// The key of a flow between IPv4 addresses, without VLAN and tunnel identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ShortKey(pub(crate) u128);

impl ShortKey {
    /// The key in short, unless it has other addresses or a scope, or ports that mean nothing.
    #[inline]
    #[must_use]
    pub fn new(key: &FlowKey) -> Option<Self> {
        let has_stray_ports = !key.has_ports && key.port_low | key.port_high != 0;
        if key.kind != AddressKind::Ipv4 || key.scope != 0 || has_stray_ports {
            return None;
        }
        let [low, high] = [key.low, key.high].map(|address| u32::try_from(address).ok());
        let (low, high) = (u128::from(low?), u128::from(high?));
        let ports = u128::from(key.port_low) << 64 | u128::from(key.port_high) << 80;
        let protocol = u128::from(key.protocol) << 96;
        let has_ports = u128::from(key.has_ports) << HAS_PORTS;
        Some(Self(low | high << 32 | ports | protocol | has_ports | 1 << PRESENT))
    }

    /// What stands for a key that is not short, by a hash of it. It is no short key.
    #[inline]
    pub(crate) fn digest(hash: u128) -> Self {
        Self(hash & KEY_MASK & !(1 << HAS_PORTS) | 1 << DIGEST | 1 << PRESENT)
    }

    /// Whether it stands for a key that is not short.
    #[inline(always)]
    pub(crate) fn is_digest(self) -> bool {
        (self.0 >> DIGEST) as u64 & !(self.0 >> HAS_PORTS) as u64 & 1 != 0
    }

    /// The key as it was before.
    #[must_use]
    pub fn whole(self) -> FlowKey {
        let Self(bits) = self;
        FlowKey {
            low: bits & u128::from(u32::MAX),
            high: bits >> 32 & u128::from(u32::MAX),
            scope: 0,
            port_low: (bits >> 64) as u16,
            port_high: (bits >> 80) as u16,
            protocol: (bits >> 96) as u8,
            kind: AddressKind::Ipv4,
            has_ports: bits >> HAS_PORTS & 1 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_short_key_has_all_of_the_key(
            ends in any::<[(u32, u16); 2]>(), protocol in any::<u8>(), has_ports in any::<bool>(),
        ) {
            let [a, b] = ends.map(|(address, port)| (u128::from(address), port));
            let (key, _) = FlowKey::two_way(AddressKind::Ipv4, protocol, a, b);
            let key = if has_ports { FlowKey { has_ports, ..key } } else { key.without_ports() };
            let short = ShortKey::new(&key).unwrap();
            prop_assert_eq!(short.whole(), key);
            prop_assert_eq!(short.0 & !KEY_MASK, 0);
            prop_assert_ne!(short.0, 0);
            prop_assert!(!short.is_digest());
        }

        #[test]
        fn a_digest_is_no_short_key(hash in any::<u128>()) {
            let digest = ShortKey::digest(hash);
            prop_assert!(digest.is_digest());
            prop_assert_eq!(digest.0 & !KEY_MASK, 0);
            prop_assert_ne!(digest.0 >> PRESENT, 0);
        }
    }

    #[test]
    fn only_keys_of_ipv4_without_scope_are_short() {
        let key = FlowKey { kind: AddressKind::Ipv4, low: 1, high: 2, ..FlowKey::default() };
        assert!(ShortKey::new(&key).is_some());
        for other in [
            FlowKey { kind: AddressKind::Ipv6, ..key },
            FlowKey { kind: AddressKind::Arp, ..key },
            FlowKey { scope: 1, ..key },
            FlowKey { high: 1 << 32, ..key },
            FlowKey { port_high: 1, ..key },
        ] {
            assert_eq!(ShortKey::new(&other), None);
        }
    }
}
