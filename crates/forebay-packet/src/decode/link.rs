//! Link layers, and what lies between them and IP: tags, backbones, fabrics, LLC/SNAP,
//! labels, PPP. `docs/decoded-headers.md` lists them with their sources.
//!
//! [`next`] is a pure function from a header to the one behind it, so that the walk for a
//! flow, the search for the outermost IP header and the removal of headers are one walk.

use super::bytes::Bytes;
use super::decoded::DecodeOutcome;
use super::ether_type::{
    ARP, E_TAG, IPV4, IPV6, MPLS, MPLS_MULTICAST, PPP, PPPOE_SESSION, SERVICE_TAG,
    TRANSPARENT_ETHERNET, vlan_tag,
};
use super::radio;
use super::undecoded::Undecoded;
use super::walk::{Header, Next, Walk};
use crate::flow::{AddressKind, FlowKey};
use crate::link::LinkType;

/// EtherTypes from here up are types; below they are 802.3 lengths.
const FIRST_ETHER_TYPE: u16 = 0x0600;

/// Kinds of identifiers, so that equal numbers of different kinds differ; tunnel.rs has
/// those from 16 up.
const VLAN_ID: u8 = 1;
const E_TAG_ID: u8 = 2;
const SERVICE_ID: u8 = 3;
const PPPOE_ID: u8 = 4;
const LABEL: u8 = 5;

/// The most attributes of a Netfilter log message that are passed over.
const MAX_ATTRIBUTES: usize = 32;

// Steps are inlined: a step that a call returns is written in parts and read as a whole, which
// costs a processor more than the step.

/// The first header of a packet on a link of that type.
#[inline(always)]
pub(super) fn first(bytes: Bytes<'_>, link: LinkType, at: usize) -> Next {
    match link {
        LinkType::ETHERNET => Some((Header::Ethernet(0), at)),
        // 12 and 14 are DLT_RAW of two systems, found in old files.
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 | LinkType(12) | LinkType(14) => {
            Some((Header::Ip, at))
        }
        LinkType::LINUX_SLL => cooked(bytes, at + 14, at + 16),
        LinkType::LINUX_SLL2 => cooked(bytes, at, at + 20),
        LinkType::NULL => {
            let family = bytes.u32_le(at)?;
            // Address families are small: a large one is of the other order.
            let family = if family > 0xffff { family.swap_bytes() } else { family };
            loopback(family, at + 4)
        }
        LinkType::LOOP => loopback(bytes.u32(at)?, at + 4),
        // An address byte of Cisco's HDLC marks its frames.
        LinkType::PPP | LinkType::PPP_HDLC => match bytes.u8(at)? {
            0x0f | 0x8f => Some((Header::CiscoHdlc, at)),
            _ => Some((Header::Ppp, at)),
        },
        LinkType::PPP_ETHER => Some((Header::EtherType(PPPOE_SESSION), at)),
        LinkType::C_HDLC => Some((Header::CiscoHdlc, at)),
        LinkType::FRELAY => frame_relay(bytes, at),
        LinkType::IEEE802_11 => Some((Header::Wireless { padded: false }, at)),
        LinkType::IEEE802_11_RADIO => radio::radiotap(bytes, at),
        LinkType::IEEE802_11_AVS => radio::avs(bytes, at),
        LinkType::PPI => radio::per_packet_information(bytes, at),
        LinkType::NFLOG => netfilter_log(bytes, at),
        // Linux puts a switch's tag where the EtherType would be.
        LinkType::DSA_TAG_DSA => Some((Header::Ethernet(4), at)),
        LinkType::DSA_TAG_EDSA => Some((Header::Ethernet(8), at)),
        _ => Some((Header::Undecoded(Undecoded::Link(link)), at)),
    }
}

/// What follows a header of a link layer; nothing where that is cut off or malformed.
#[inline(always)]
pub(super) fn next(bytes: Bytes<'_>, header: Header, at: usize) -> Next {
    match header {
        Header::Link(link) => first(bytes, link, at),
        Header::Ethernet(tag) => {
            let at = at + 12 + tag;
            Some((by_type(bytes.u16(at)?), at + 2))
        }
        Header::EtherType(ether_type) => behind_type(bytes, ether_type, at),
        Header::Llc => llc(bytes, at),
        Header::Mpls => mpls(bytes, at),
        Header::Ppp => ppp(bytes, at),
        Header::CiscoHdlc => Some((Header::EtherType(bytes.u16(at + 2)?), at + 4)),
        Header::Wireless { padded } => radio::frame(bytes, at, padded),
        Header::Arp | Header::Ip | Header::Transport(_) | Header::Undecoded(_) => None,
    }
}

#[inline(always)]
fn by_type(ether_type: u16) -> Header {
    if ether_type < FIRST_ETHER_TYPE { Header::Llc } else { Header::EtherType(ether_type) }
}

/// Linux cooked captures: the protocol field, then the payload. Protocols
/// 1 and 4 are 802.3 and 802.2 frames without an EtherType.
fn cooked(bytes: Bytes<'_>, protocol_at: usize, payload_at: usize) -> Next {
    match bytes.u16(protocol_at)? {
        4 => Some((Header::Llc, payload_at)),
        protocol => Some((Header::EtherType(protocol), payload_at)),
    }
}

/// BSD address families; each system numbers IPv6 its own way, and the
/// version nibble is enough.
fn loopback(family: u32, at: usize) -> Next {
    matches!(family, 2 | 10 | 24 | 28 | 30).then_some((Header::Ip, at))
}

/// What an EtherType announces, which starts at `at`.
#[inline(always)]
fn behind_type(bytes: Bytes<'_>, ether_type: u16, at: usize) -> Next {
    // A tag of so many bytes, the last two of which are the next EtherType.
    let tag = |len: usize| Some((by_type(bytes.u16(at + len - 2)?), at + len));
    let nothing = Some((Header::Undecoded(Undecoded::EtherType(ether_type)), at));
    match ether_type {
        IPV4 | IPV6 => Some((Header::Ip, at)),
        ARP => Some((Header::Arp, at)),
        vlan_tag!() => tag(4),
        // VN-Tag; HSR; 802.1CB's redundancy tag.
        0x8926 | 0x892f | 0xf1c1 => tag(6),
        // 802.1BR; Marvell's switches, with the number that Linux gives their tag.
        E_TAG | 0xdada => tag(8),
        // Cisco MetaData: its second byte counts units of 8 bytes, both EtherTypes included.
        0x8909 => match bytes.u8(at + 1)? {
            0 => None,
            units => tag(8 * usize::from(units)),
        },
        // MACsec: no payload is read that is encrypted or changed (flags E and C). The secure
        // channel's identifier is there only on request.
        0x88e5 => match bytes.u8(at)? {
            flags if flags & 0x8c != 0 => nothing,
            flags => tag(if flags & 0x20 != 0 { 16 } else { 8 }),
        },
        SERVICE_TAG => Some((Header::Ethernet(0), at + 4)),
        // FabricPath.
        0x8903 => Some((Header::Ethernet(0), at + 2)),
        // TRILL, version 0, with a number of options words.
        0x22f3 => match bytes.u16(at)? {
            flags if flags >> 14 != 0 => nothing,
            flags => Some((Header::Ethernet(0), at + 6 + 4 * usize::from(flags >> 6 & 0x1f))),
        },
        0x894f => service_header(bytes, at),
        MPLS | MPLS_MULTICAST => Some((Header::Mpls, at)),
        PPPOE_SESSION => Some((Header::Ppp, at + 6)),
        TRANSPARENT_ETHERNET => Some((Header::Ethernet(0), at)),
        PPP => Some((Header::Ppp, at)),
        _ => nothing,
    }
}

/// A network service header (RFC 8300): its length in words, then what it carries.
fn service_header(bytes: Bytes<'_>, at: usize) -> Next {
    let words = usize::from(bytes.u16(at)? & 0x3f);
    let after = at + 4 * words;
    match bytes.u8(at + 3)? {
        // Base header and service path are two words.
        _ if words < 2 => None,
        1 | 2 => Some((Header::Ip, after)),
        3 => Some((Header::Ethernet(0), after)),
        4 => Some((Header::EtherType(0x894f), after)),
        5 => Some((Header::Mpls, after)),
        _ => Some((Header::Undecoded(Undecoded::EtherType(0x894f)), at)),
    }
}

fn llc(bytes: Bytes<'_>, at: usize) -> Next {
    let sap = bytes.u16(at)?;
    match (sap, bytes.u8(at + 2)?) {
        (0xaaaa, 0x03) => snap(bytes, at + 3),
        (0x0606, 0x03) => Some((Header::Ip, at + 3)),
        _ => Some((Header::Undecoded(Undecoded::Llc(sap)), at)),
    }
}

/// An organisation code and a protocol of its own.
fn snap(bytes: Bytes<'_>, at: usize) -> Next {
    let organisation = u32::from(bytes.u8(at)?) << 16 | u32::from(bytes.u16(at + 1)?);
    let protocol = bytes.u16(at + 3)?;
    match (organisation, protocol) {
        // Those that say "EtherType".
        (0 | 0x00_00f8, _) => Some((Header::EtherType(protocol), at + 5)),
        // Bridged Ethernet, with and without its check sequence (RFC 2427).
        (0x00_80c2, 1 | 7) => Some((Header::Ethernet(0), at + 5)),
        _ => Some((Header::Undecoded(Undecoded::Llc(0xaaaa)), at)),
    }
}

/// A label stack, then what its first nibble looks like: IP, a pseudowire
/// control word (RFC 4385) before Ethernet, or Ethernet.
fn mpls(bytes: Bytes<'_>, at: usize) -> Next {
    let entry = bytes.u32(at)?;
    let after = at + 4;
    if entry & 0x100 == 0 {
        return Some((Header::Mpls, after));
    }
    match bytes.u8(after)? >> 4 {
        4 | 6 => Some((Header::Ip, after)),
        0 => Some((Header::Ethernet(0), after + 4)),
        // The associated channel of a pseudowire (RFC 5586): no user's packet.
        1 => None,
        _ => Some((Header::Ethernet(0), after)),
    }
}

/// PPP, with or without its address and control bytes, its protocol in one
/// byte or two (RFC 1661 sections 2 and 6.5).
fn ppp(bytes: Bytes<'_>, at: usize) -> Next {
    let at = if bytes.u16(at)? == 0xff03 { at + 2 } else { at };
    let first = bytes.u8(at)?;
    let (protocol, at) =
        if first & 1 == 1 { (u16::from(first), at + 1) } else { (bytes.u16(at)?, at + 2) };
    match protocol {
        0x0021 | 0x0057 => Some((Header::Ip, at)),
        0x0281 | 0x0283 => Some((Header::Mpls, at)),
        _ => Some((Header::Undecoded(Undecoded::Ppp(protocol)), at)),
    }
}

/// Frame relay: an address of two to four bytes, then RFC 2427's encapsulation or Cisco's,
/// which is an EtherType.
fn frame_relay(bytes: Bytes<'_>, at: usize) -> Next {
    let mut after = at;
    for _ in 0..4 {
        after += 1;
        if bytes.u8(after - 1)? & 1 != 0 {
            break;
        }
    }
    if bytes.u8(after)? != 0x03 {
        return Some((Header::EtherType(bytes.u16(after)?), after + 2));
    }
    // A zero byte may align what follows.
    let protocol_at = if bytes.u8(after + 1)? == 0 { after + 2 } else { after + 1 };
    match bytes.u8(protocol_at)? {
        0x80 => snap(bytes, protocol_at + 1),
        0xcc | 0x8e => Some((Header::Ip, protocol_at + 1)),
        0xcf => Some((Header::Ppp, protocol_at + 1)),
        protocol => Some((Header::Undecoded(Undecoded::Nlpid(protocol)), at)),
    }
}

/// A message of Linux's packet log: attributes, one of which is an IP packet.
fn netfilter_log(bytes: Bytes<'_>, at: usize) -> Next {
    const PAYLOAD: u16 = 9;
    let mut at = at + 4;
    for _ in 0..MAX_ATTRIBUTES {
        let (len, kind) = (bytes.u16_le(at)?, bytes.u16_le(at + 2)?);
        // In the capturing host's order; there are few kinds, so a large one is of the other.
        let swapped = kind & 0x7fff > 0xff;
        let (len, kind) = if swapped { (len.swap_bytes(), kind.swap_bytes()) } else { (len, kind) };
        match usize::from(len) {
            0..4 => return None,
            _ if kind & 0x7fff == PAYLOAD => return Some((Header::Ip, at + 4)),
            len => at += len.next_multiple_of(4),
        }
    }
    None
}

impl Walk<'_> {
    /// Passes a header of a link layer, and notes its part of the flow.
    pub(super) fn link_header(&mut self, header: Header, at: usize) -> Next {
        let (next, after) = next(self.bytes, header, at)?;
        if self.options.vlan_in_key || self.options.tunnel_in_key {
            self.identifier(header, at);
        }
        match header {
            Header::Ethernet(_) => {
                let (destination, source) = (self.bytes.mac(at)?, self.bytes.mac(at + 6)?);
                self.found_macs(source, destination);
                self.retag(next);
            }
            Header::Wireless { .. } => {
                if let Some((source, destination)) = radio::stations(self.bytes, at) {
                    self.found_macs(source, destination);
                }
            }
            Header::EtherType(_) => self.retag(next),
            _ => {}
        }
        Some((next, after))
    }

    /// Makes a header's identifier part of the key, where that is asked for.
    fn identifier(&mut self, header: Header, at: usize) {
        let options = self.options;
        let found = match header {
            Header::EtherType(vlan_tag!()) => {
                self.bytes.u16(at).map(|tag| (VLAN_ID, u32::from(tag & 0x0fff)))
            }
            Header::EtherType(E_TAG) => {
                let base = self.bytes.u16(at + 2).map(|base| u32::from(base & 0x3fff) << 8);
                let extension = self.bytes.u8(at + 5).map(u32::from);
                base.zip(extension).map(|(base, extension)| (E_TAG_ID, base | extension))
            }
            Header::EtherType(SERVICE_TAG) => {
                self.bytes.u32(at).map(|tag| (SERVICE_ID, tag & 0x00ff_ffff))
            }
            Header::EtherType(PPPOE_SESSION) => {
                self.bytes.u16(at + 2).map(|session| (PPPOE_ID, u32::from(session)))
            }
            Header::Mpls => self.bytes.u32(at).map(|entry| (LABEL, entry >> 12)),
            _ => None,
        };
        if let Some((kind, id)) = found {
            let is_tunnel = matches!(kind, PPPOE_ID | LABEL);
            self.enter(
                kind,
                id,
                if is_tunnel { options.tunnel_in_key } else { options.vlan_in_key },
            );
        }
    }

    /// Notes a pair of MAC addresses, unless an outer header gave IP addresses.
    fn found_macs(&mut self, source: u128, destination: u128) {
        if matches!(self.found.key.kind, AddressKind::Opaque | AddressKind::Mac) {
            let (key, reversed) =
                FlowKey::two_way(AddressKind::Mac, 0, (source, 0), (destination, 0));
            self.found(key, reversed, key, DecodeOutcome::NotIp);
        }
    }

    /// Follows a tag to the EtherType behind it.
    fn retag(&mut self, next: Header) {
        let ether_type = match next {
            Header::EtherType(ether_type) => ether_type,
            Header::Llc => 0,
            _ => return,
        };
        if self.found.key.kind == AddressKind::Mac {
            self.found.key.port_low = ether_type;
            self.found.key.scope = self.scope;
            self.found.affinity = self.options.affinity.of(self.found.key, self.found.reversed);
        }
    }

    /// ARP for IPv4 (RFC 826), whatever the hardware.
    pub(super) fn arp(&mut self, at: usize) -> Next {
        let protocol = self.bytes.u16(at + 2)?;
        let hardware_len = usize::from(self.bytes.u8(at + 4)?);
        let protocol_len = self.bytes.u8(at + 5)?;
        if protocol == IPV4 && protocol_len == 4 {
            let source = self.bytes.u32(at + 8 + hardware_len)?;
            let destination = self.bytes.u32(at + 12 + 2 * hardware_len)?;
            let ends = ((u128::from(source), 0), (u128::from(destination), 0));
            self.found_pair(AddressKind::Arp, 0, ends.0, ends.1, DecodeOutcome::Arp);
        }
        None
    }
}
