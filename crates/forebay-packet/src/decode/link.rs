//! Link layers, and what lies between them and IP: VLAN tags (IEEE 802.1Q, 802.1ad,
//! 802.1BR), provider backbones (802.1ah), LLC/SNAP, MPLS (RFC 3032), PPPoE (RFC 2516).

use super::{Header, Outcome, Walk};
use crate::flow::{AddressKind, FlowKey};
use crate::link::LinkType;

/// EtherTypes from here up are types; below they are 802.3 lengths.
const FIRST_ETHER_TYPE: u16 = 0x0600;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const ARP: u16 = 0x0806;
pub(super) const TRANSPARENT_ETHERNET: u16 = 0x6558;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const MPLS: u16 = 0x8847;
pub(super) const MPLS_MULTICAST: u16 = 0x8848;
pub(super) const PPP: u16 = 0x880b;

/// Kinds of identifiers, so that equal numbers of different kinds differ.
const VLAN_TAG: u8 = 1;
const E_TAG: u8 = 2;
const SERVICE_TAG: u8 = 3;
const PPPOE_SESSION: u8 = 4;
const MPLS_LABEL: u8 = 5;

type Next = Option<(Header, usize)>;

impl Walk<'_> {
    /// The first header of a packet on a link of that type.
    pub(super) fn link(&mut self, link: LinkType) -> Next {
        // What a link type's decoder finds nothing in is still of a known type.
        self.found.outcome = Outcome::NotIp;
        match link {
            LinkType::ETHERNET => Some((Header::Ethernet, 0)),
            // 12 and 14 are DLT_RAW of two systems, found in old files.
            LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12) | LinkType(14) => {
                Some((Header::Ip, 0))
            }
            LinkType::LINUX_SLL => self.cooked(14, 16),
            LinkType::LINUX_SLL2 => self.cooked(0, 20),
            LinkType::NULL => {
                let family = self.bytes.u32_le(0)?;
                // Address families are small: a large one is of the other order.
                let family = if family > 0xffff { family.swap_bytes() } else { family };
                loopback(family)
            }
            LinkType::LOOP => loopback(self.bytes.u32(0)?),
            _ => {
                self.found.outcome = Outcome::UnknownLink;
                None
            }
        }
    }

    /// Linux cooked captures: the protocol field, then the payload. Protocols
    /// 1 and 4 are 802.3 and 802.2 frames without an EtherType.
    fn cooked(&mut self, protocol_at: usize, payload_at: usize) -> Next {
        match self.bytes.u16(protocol_at)? {
            4 => Some((Header::Llc, payload_at)),
            protocol if protocol >= FIRST_ETHER_TYPE => {
                Some((Header::EtherType(protocol), payload_at))
            }
            _ => None,
        }
    }

    pub(super) fn ethernet(&mut self, at: usize) -> Next {
        let destination = self.bytes.mac(at)?;
        let source = self.bytes.mac(at + 6)?;
        let ether_type = self.bytes.u16(at + 12)?;
        let shown = if ether_type < FIRST_ETHER_TYPE { 0 } else { ether_type };
        self.found_ether(source, destination, shown);
        if ether_type < FIRST_ETHER_TYPE {
            return Some((Header::Llc, at + 14));
        }
        Some((Header::EtherType(ether_type), at + 14))
    }

    /// Notes a pair of MAC addresses, unless an outer header gave IP addresses.
    fn found_ether(&mut self, source: u128, destination: u128, ether_type: u16) {
        if matches!(self.found.key.kind, AddressKind::Opaque | AddressKind::Mac) {
            let (pair, reversed) =
                FlowKey::two_way(AddressKind::Mac, 0, (source, 0), (destination, 0));
            let key = FlowKey { port_low: ether_type, ..pair };
            self.found(key, reversed, key, Outcome::NotIp);
        }
    }

    /// Follows a tag to the EtherType behind it.
    fn retag(&mut self, ether_type: u16) {
        if self.found.key.kind == AddressKind::Mac {
            self.found.key.port_low = ether_type;
            self.found.key.scope = self.scope;
            self.found.affinity = self.options.affinity.of(self.found.key, self.found.reversed);
        }
    }

    pub(super) fn llc(&mut self, at: usize) -> Next {
        let sap = self.bytes.u16(at)?;
        let control = self.bytes.u8(at + 2)?;
        match (sap, control) {
            // SNAP with an organisation code that says "EtherType".
            (0xaaaa, 0x03) => {
                let organisation = self.bytes.u32(at + 2)? & 0x00ff_ffff;
                let ether_type = self.bytes.u16(at + 6)?;
                let known = matches!(organisation, 0 | 0x00_00f8);
                known.then_some((Header::EtherType(ether_type), at + 8))
            }
            (0x0606, 0x03) => Some((Header::Ip, at + 3)),
            _ => None,
        }
    }

    pub(super) fn ether_type(&mut self, ether_type: u16, at: usize) -> Next {
        match ether_type {
            IPV4 | IPV6 => Some((Header::Ip, at)),
            ARP => self.arp(at),
            // Customer, provider and two older tags.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                let id = self.bytes.u16(at)? & 0x0fff;
                let inner = self.bytes.u16(at + 2)?;
                self.enter(VLAN_TAG, u32::from(id), self.options.vlan_in_key);
                self.tagged(inner, at + 4)
            }
            0x893f => {
                let base = u32::from(self.bytes.u16(at + 2)? & 0x3fff);
                let id = base << 8 | u32::from(self.bytes.u8(at + 5)?);
                let inner = self.bytes.u16(at + 6)?;
                self.enter(E_TAG, id, self.options.vlan_in_key);
                self.tagged(inner, at + 8)
            }
            0x88e7 => {
                let id = self.bytes.u32(at)? & 0x00ff_ffff;
                self.enter(SERVICE_TAG, id, self.options.vlan_in_key);
                Some((Header::Ethernet, at + 4))
            }
            MPLS | MPLS_MULTICAST => Some((Header::Mpls, at)),
            0x8864 => {
                let session = self.bytes.u16(at + 2)?;
                self.enter(PPPOE_SESSION, u32::from(session), self.options.tunnel_in_key);
                Some((Header::Ppp, at + 6))
            }
            TRANSPARENT_ETHERNET => Some((Header::Ethernet, at)),
            PPP => Some((Header::Ppp, at)),
            _ => None,
        }
    }

    fn tagged(&mut self, inner: u16, at: usize) -> Next {
        if inner < FIRST_ETHER_TYPE {
            self.retag(0);
            return Some((Header::Llc, at));
        }
        self.retag(inner);
        Some((Header::EtherType(inner), at))
    }

    /// A label stack, then what its first nibble looks like: IP, a pseudowire
    /// control word (RFC 4385) before Ethernet, or Ethernet.
    pub(super) fn mpls(&mut self, at: usize) -> Next {
        let entry = self.bytes.u32(at)?;
        self.enter(MPLS_LABEL, entry >> 12, self.options.tunnel_in_key);
        let after = at + 4;
        if entry & 0x100 == 0 {
            return Some((Header::Mpls, after));
        }
        match self.bytes.u8(after)? >> 4 {
            4 | 6 => Some((Header::Ip, after)),
            0 => Some((Header::Ethernet, after + 4)),
            // The associated channel of a pseudowire (RFC 5586): no user's packet.
            1 => None,
            _ => Some((Header::Ethernet, after)),
        }
    }

    /// PPP, with or without its address and control bytes, its protocol in one
    /// byte or two (RFC 1661 sections 2 and 6.5).
    pub(super) fn ppp(&mut self, at: usize) -> Next {
        let at = if self.bytes.u16(at)? == 0xff03 { at + 2 } else { at };
        let first = self.bytes.u8(at)?;
        let (protocol, at) =
            if first & 1 == 1 { (u16::from(first), at + 1) } else { (self.bytes.u16(at)?, at + 2) };
        match protocol {
            0x0021 | 0x0057 => Some((Header::Ip, at)),
            0x0281 | 0x0283 => Some((Header::Mpls, at)),
            _ => None,
        }
    }

    /// ARP for IPv4 (RFC 826), whatever the hardware.
    fn arp(&mut self, at: usize) -> Next {
        let protocol = self.bytes.u16(at + 2)?;
        let hardware_len = usize::from(self.bytes.u8(at + 4)?);
        let protocol_len = self.bytes.u8(at + 5)?;
        if protocol == IPV4 && protocol_len == 4 {
            let source = self.bytes.u32(at + 8 + hardware_len)?;
            let destination = self.bytes.u32(at + 12 + 2 * hardware_len)?;
            let ends = ((u128::from(source), 0), (u128::from(destination), 0));
            self.found_pair(AddressKind::Arp, 0, ends.0, ends.1, Outcome::Arp);
        }
        None
    }
}

/// BSD address families; each system numbers IPv6 its own way, and the
/// version nibble says it all.
fn loopback(family: u32) -> Next {
    matches!(family, 2 | 10 | 24 | 28 | 30).then_some((Header::Ip, 4))
}
