//! The part of the independent flow check that knows link types, and tags and fabrics on
//! Ethernet.
//!
//! Sources: the LINKTYPE_ registry of tcpdump.org and the specifications it names; radiotap.org;
//! IEEE 802.11 clause 9, 802.1AE clause 9, 802.1CB clause 7; IEC 62439-3 (HSR); RFC 1547 and 1661
//! (PPP), RFC 2427 (frame relay), RFC 6325 (TRILL), RFC 8300 (NSH); Wireshark's and Snort's
//! descriptions of Cisco MetaData, FabricPath and VN-Tag; linux/netfilter/nfnetlink_log.h and
//! net/dsa/tag_dsa.c of Linux.

use super::layers::{Layer, be16};

type Found<'a> = Option<(Layer, &'a [u8])>;

/// What a tag's EtherType announces: the layer behind the tag.
pub fn tag(ethertype: u16, bytes: &[u8]) -> Found<'_> {
    let typed = |len: usize| Some((Layer::EtherType(be16(bytes, len)?), bytes.get(len + 2..)?));
    match ethertype {
        // VN-Tag, HSR (path and size, sequence) and R-TAG: four bytes.
        0x8926 | 0x892f | 0xf1c1 => typed(4),
        // Marvell: two reserved bytes and the four of the tag.
        0xdada => typed(6),
        // MetaData: version, length in units of 8 bytes, options.
        0x8909 => typed((8 * usize::from(*bytes.get(1)?)).checked_sub(2)?),
        0x88e5 => match bytes.first()? {
            // Version, E and C must be clear; SC says that an identifier of 8 bytes follows.
            tci if tci & 0b1000_1100 != 0 => None,
            tci if tci & 0b0010_0000 != 0 => typed(14),
            _ => typed(6),
        },
        0x8903 => Some((Layer::Ethernet, bytes.get(2..)?)),
        0x22f3 => {
            let options = (be16(bytes, 0)? >> 6) & 31;
            Some((Layer::Ethernet, bytes.get(6 + usize::from(options) * 4..)?))
        }
        0x894f => {
            let rest = bytes.get(4 * usize::from(bytes.get(1)? & 63)..)?;
            Some(match bytes.get(3)? {
                1 => (Layer::Ipv4, rest),
                2 => (Layer::Ipv6, rest),
                3 => (Layer::Ethernet, rest),
                4 => (Layer::EtherType(0x894f), rest),
                5 => (Layer::Mpls, rest),
                _ => return None,
            })
        }
        _ => None,
    }
}

/// The pseudo-header of each link type in the LINKTYPE_ registry that is known here.
pub fn link_layer(link: u32, bytes: &[u8]) -> Option<(Layer, &[u8])> {
    match link {
        1 => Some((Layer::Ethernet, bytes)),
        12 | 14 | 101 => Some((Layer::Ip, bytes)),
        228 => Some((Layer::Ipv4, bytes)),
        229 => Some((Layer::Ipv6, bytes)),
        0 => {
            let family = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
            // Written in the byte order of the capturing host; no family exceeds 16 bits.
            let family = if family > 0xffff { family.swap_bytes() } else { family };
            address_family(family, &bytes[4..])
        }
        108 => address_family(
            u32::from(be16(bytes, 0)?) << 16 | u32::from(be16(bytes, 2)?),
            &bytes[4..],
        ),
        113 => cooked(be16(bytes, 2)?, be16(bytes, 14)?, &bytes[16..]),
        276 => cooked(be16(bytes, 8)?, be16(bytes, 0)?, bytes.get(20..)?),
        _ => other_link_layer(link, bytes),
    }
}

/// AF_INET is 2 everywhere; AF_INET6 differs between Linux, NetBSD/OpenBSD, FreeBSD and macOS.
fn address_family(family: u32, bytes: &[u8]) -> Option<(Layer, &[u8])> {
    match family {
        2 => Some((Layer::Ipv4, bytes)),
        10 | 24 | 28 | 30 => Some((Layer::Ipv6, bytes)),
        _ => None,
    }
}

/// Linux cooked capture: the protocol is an EtherType except on netlink and 802.11 devices and
/// for the values below 0x0600 that Linux invented, of which 4 is LLC.
fn cooked(hardware: u16, protocol: u16, bytes: &[u8]) -> Option<(Layer, &[u8])> {
    const NETLINK: u16 = 824;
    const IEEE80211: std::ops::RangeInclusive<u16> = 801..=803;
    match protocol {
        _ if hardware == NETLINK || IEEE80211.contains(&hardware) => None,
        4 => Some((Layer::LogicalLinkControl, bytes)),
        0x0600.. => Some((Layer::EtherType(protocol), bytes)),
        _ => None,
    }
}

/// A packet of a link type.
fn other_link_layer(link: u32, bytes: &[u8]) -> Found<'_> {
    let little = |at: usize| Some(usize::from(be16(bytes, at)?.swap_bytes()));
    match link {
        9 | 50 if matches!(bytes.first()?, 0x0f | 0x8f) => other_link_layer(104, bytes),
        9 | 50 => Some((Layer::PointToPoint, bytes)),
        51 => Some((Layer::EtherType(0x8864), bytes)),
        104 => Some((Layer::EtherType(be16(bytes, 2)?), &bytes[4..])),
        105 => wireless(bytes, false),
        107 => frame_relay(bytes),
        127 => wireless(bytes.get(little(2)?..)?, radiotap_pads(bytes)?),
        163 => wireless(bytes.get(usize::from(be16(bytes, 6)?)..)?, false),
        192 => {
            let inner = u32::try_from(little(4)?).ok()?;
            let rest = bytes.get(little(2)?..)?;
            if inner == 1 { Some((Layer::Ethernet, rest)) } else { link_layer(inner, rest) }
        }
        239 => netfilter(bytes.get(4..)?),
        284 => Some((Layer::EtherType(be16(bytes, 16)?), &bytes[18..])),
        285 => Some((Layer::EtherType(be16(bytes, 20)?), &bytes[22..])),
        _ => None,
    }
}

/// Whether the flags field of a radiotap header has bit 5: the payload is padded to 4 bytes.
fn radiotap_pads(bytes: &[u8]) -> Option<bool> {
    let words = bytes.get(4..)?.chunks_exact(4).position(|word| word[3] < 0x80)? + 1;
    let present = bytes[4];
    let mut at = 4 + 4 * words;
    if present & 1 != 0 {
        at = at.div_ceil(8) * 8 + 8;
    }
    Some(present & 2 != 0 && bytes.get(at)? & 0x20 != 0)
}

fn wireless(bytes: &[u8], padded: bool) -> Found<'_> {
    let [control, flags] = *bytes.first_chunk()?;
    // Data with a payload, in the clear, the first fragment.
    let fragment = bytes.get(22)? & 15;
    if control & 0b0100_1111 != 0b0000_1000 || flags & 0x40 != 0 || fragment != 0 {
        return None;
    }
    let mut header = 24;
    if flags & 3 == 3 {
        header += 6;
    }
    let quality = control & 0x80 != 0;
    let aggregate = quality && bytes.get(header)? & 0x80 != 0;
    if quality {
        header += 2;
        if flags & 0x80 != 0 {
            header += 4;
        }
    }
    if padded {
        header = header.div_ceil(4) * 4;
    }
    let layer = if aggregate { Layer::Ethernet } else { Layer::LogicalLinkControl };
    Some((layer, bytes.get(header..)?))
}

fn frame_relay(bytes: &[u8]) -> Found<'_> {
    let address = bytes.iter().position(|byte| byte & 1 == 1)? + 1;
    let rest = bytes.get(address..)?;
    if *rest.first()? != 3 {
        return Some((Layer::EtherType(be16(rest, 0)?), &rest[2..]));
    }
    let rest = rest[1..].strip_prefix(&[0]).unwrap_or(&rest[1..]);
    match *rest.first()? {
        0xcc => Some((Layer::Ipv4, &rest[1..])),
        0x8e => Some((Layer::Ipv6, &rest[1..])),
        0xcf => Some((Layer::PointToPoint, &rest[1..])),
        0x80 => match rest.get(1..6)? {
            [0, 0, 0, high, low] => {
                Some((Layer::EtherType(u16::from_be_bytes([*high, *low])), &rest[6..]))
            }
            [0, 0x80, 0xc2, 0, 1 | 7] => Some((Layer::Ethernet, &rest[6..])),
            _ => None,
        },
        _ => None,
    }
}

/// Attributes in the capturing host's byte order, each padded to 4 bytes; 9 is the payload.
fn netfilter(mut bytes: &[u8]) -> Found<'_> {
    loop {
        let (len, kind) = (be16(bytes, 0)?, be16(bytes, 2)?);
        let (len, kind) =
            if kind > 255 { (len.swap_bytes(), kind.swap_bytes()) } else { (len, kind) };
        if kind == 9 {
            return Some((Layer::Ip, &bytes[4..]));
        }
        bytes = bytes.get(usize::from(len).max(4).div_ceil(4) * 4..)?;
    }
}
