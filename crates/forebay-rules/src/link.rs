//! Where in a captured packet its outermost IP header is.
//!
//! Passed over are link headers, VLAN tags (IEEE 802.1Q, 802.1ad, 802.1BR),
//! provider backbones (802.1ah), LLC/SNAP, PPPoE sessions (RFC 2516), PPP
//! (RFC 1661) and MPLS label stacks (RFC 3032): what carries a packet over a
//! link. Not tunnels: what has an IP header of its own is looked at as that.

use forebay_packet::LinkType;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
/// Customer tag, provider tag, and two numbers in use before that.
const VLAN_TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
const BRIDGE_PORT_TAG: u16 = 0x893f;
const SERVICE_TAG: u16 = 0x88e7;
/// EtherTypes from here up are types; below they are IEEE 802.3 lengths.
const FIRST_ETHER_TYPE: u16 = 0x0600;

/// PPP over a serial line, and as it is captured behind PPPoE's Ethernet header.
const PPP: [LinkType; 2] = [LinkType(9), LinkType(50)];
const PPP_ETHER: LinkType = LinkType(51);
const CISCO_HDLC: LinkType = LinkType(104);
/// Raw IP in captures of two BSDs.
const RAW_BSD: [LinkType; 2] = [LinkType(12), LinkType(14)];

/// The most headers that are passed over; more are an attack.
const MAX_HEADERS: usize = 16;

/// What lies at a place of a packet.
#[derive(Clone, Copy)]
enum Header {
    Ethernet,
    EtherType(u16),
    Llc,
    Ppp,
    Mpls,
    Ip,
}

/// The bytes from the IP header on, of a packet that came over a link of that
/// type; none if no IP header can be reached.
pub(crate) fn ip_packet(link: LinkType, bytes: &[u8]) -> Option<&[u8]> {
    let (mut header, mut at) = first_header(link, bytes)?;
    for _ in 0..MAX_HEADERS {
        if let Header::Ip = header {
            return bytes.get(at..);
        }
        (header, at) = next_header(header, at, bytes)?;
    }
    None
}

/// The header behind the link's own, and where it starts.
fn first_header(link: LinkType, bytes: &[u8]) -> Option<(Header, usize)> {
    let ether_type = |at| u16_at(bytes, at).map(by_type);
    match link {
        LinkType::ETHERNET => Some((Header::Ethernet, 0)),
        LinkType::LINUX_SLL => Some((ether_type(14)?, 16)),
        LinkType::LINUX_SLL2 => Some((ether_type(0)?, 20)),
        CISCO_HDLC => Some((ether_type(2)?, 4)),
        LinkType::NULL | LinkType::LOOP => Some((Header::Ip, 4)),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => Some((Header::Ip, 0)),
        PPP_ETHER => Some((Header::Ppp, 6)),
        _ if PPP.contains(&link) => Some((Header::Ppp, 0)),
        _ if RAW_BSD.contains(&link) => Some((Header::Ip, 0)),
        _ => None,
    }
}

fn by_type(ether_type: u16) -> Header {
    if ether_type < FIRST_ETHER_TYPE { Header::Llc } else { Header::EtherType(ether_type) }
}

/// What follows the header at `at`, and where.
fn next_header(header: Header, at: usize, bytes: &[u8]) -> Option<(Header, usize)> {
    match header {
        Header::Ip => Some((header, at)),
        Header::EtherType(IPV4) => (*bytes.get(at)? >> 4 == 4).then_some((Header::Ip, at)),
        Header::EtherType(IPV6) => (*bytes.get(at)? >> 4 == 6).then_some((Header::Ip, at)),
        Header::EtherType(MPLS | MPLS_MULTICAST) => Some((Header::Mpls, at)),
        Header::EtherType(PPPOE_SESSION) => Some((Header::Ppp, at + 6)),
        Header::EtherType(tag) if VLAN_TAGS.contains(&tag) => {
            Some((by_type(u16_at(bytes, at + 2)?), at + 4))
        }
        Header::EtherType(BRIDGE_PORT_TAG) => Some((by_type(u16_at(bytes, at + 6)?), at + 8)),
        Header::EtherType(SERVICE_TAG) => Some((Header::Ethernet, at + 4)),
        Header::EtherType(_) => None,
        Header::Ethernet => Some((by_type(u16_at(bytes, at + 12)?), at + 14)),
        Header::Llc => llc(at, bytes),
        Header::Ppp => ppp(at, bytes),
        // The bottom of the stack is marked; what follows, only its first bits say.
        Header::Mpls => {
            let is_bottom = bytes.get(at + 2)? & 1 != 0;
            Some((if is_bottom { Header::Ip } else { Header::Mpls }, at + 4))
        }
    }
}

/// IEEE 802.2 with SNAP, its organisation code that of EtherTypes, or with IP's
/// own access point.
fn llc(at: usize, bytes: &[u8]) -> Option<(Header, usize)> {
    match bytes.get(at..)? {
        [0xaa, 0xaa, 0x03, 0, 0, 0 | 0xf8, high, low, ..] => {
            Some((by_type(u16::from_be_bytes([*high, *low])), at + 8))
        }
        [0x06, 0x06, 0x03, ..] => Some((Header::Ip, at + 3)),
        _ => None,
    }
}

/// PPP, with or without address and control bytes, the protocol's number in one
/// byte or two (RFC 1661 sections 2 and 6.5).
fn ppp(at: usize, bytes: &[u8]) -> Option<(Header, usize)> {
    let at = if u16_at(bytes, at)? == 0xff03 { at + 2 } else { at };
    let first = *bytes.get(at)?;
    let (protocol, at) =
        if first & 1 != 0 { (first.into(), at + 1) } else { (u16_at(bytes, at)?, at + 2) };
    match protocol {
        0x0021 | 0x0057 => Some((Header::Ip, at)),
        0x0281 | 0x0283 => Some((Header::Mpls, at)),
        _ => None,
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|pair| u16::from_be_bytes(*pair))
}
