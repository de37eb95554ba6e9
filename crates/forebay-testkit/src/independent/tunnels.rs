//! The part of the independent flow check that looks into tunnels.

use super::layers::{
    GRE, IP_IN_IP, IPV6_IN_IP, Inside, Layer, Transport, UDP, be16, point_to_point_layer,
    point_to_point_protocol,
};

/// What a packet carries if it is a tunnel's; `None` when that cannot be told.
pub(super) fn inside<'a>(t: &Transport<'a>) -> Option<Inside<'a>> {
    match t.protocol {
        IP_IN_IP => Some(Inside::Packet(Layer::Ipv4, t.payload)),
        IPV6_IN_IP => Some(Inside::Packet(Layer::Ipv6, t.payload)),
        GRE => gre(t.payload),
        UDP => datagram_tunnel(t),
        _ => Some(Inside::Opaque),
    }
}

/// RFC 2784 and 2890 for version 0; RFC 2637 for version 1. RFC 2784 has receivers discard what
/// carries RFC 1701's source routes.
fn gre(bytes: &[u8]) -> Option<Inside<'_>> {
    let (flags, protocol) = (be16(bytes, 0)?, be16(bytes, 2)?);
    let field = |bit: u16| if flags & bit != 0 { 4 } else { 0 };
    let (checksum, key, sequence) = (field(0x8000), field(0x2000), field(0x1000));
    match flags & 0x0007 {
        _ if flags & 0x4000 != 0 => None,
        0 => gre_payload(protocol, sequence != 0, bytes.get(4 + checksum + key + sequence..)?),
        // An acknowledgement alone has no sequence number and no payload.
        1 if protocol == 0x880b && key != 0 && sequence != 0 => {
            point_to_point_payload(bytes.get(12 + field(0x0080)..)?)
        }
        _ => Some(Inside::Opaque),
    }
}

fn point_to_point_payload(payload: &[u8]) -> Option<Inside<'_>> {
    let (protocol, rest) = point_to_point_protocol(payload)?;
    Some(match point_to_point_layer(protocol) {
        Some(layer) => Inside::Packet(layer, rest),
        None => Inside::Opaque,
    })
}

fn gre_payload(protocol: u16, sequence: bool, payload: &[u8]) -> Option<Inside<'_>> {
    Some(match protocol {
        0x0800 | 0x0806 | 0x86dd | 0x8847 | 0x8848 | 0x8100 | 0x88a8 => {
            Inside::Packet(Layer::EtherType(protocol), payload)
        }
        0x6558 => Inside::Packet(Layer::Ethernet, payload),
        0x880b => point_to_point_payload(payload)?,
        // ERSPAN type I has no header of its own, and no sequence number.
        0x88be if !sequence => Inside::Packet(Layer::Ethernet, payload),
        0x88be | 0x22eb => match (protocol, payload.first()? >> 4) {
            (0x88be, 1) => Inside::Packet(Layer::Ethernet, payload.get(8..)?),
            (0x22eb, 2) => {
                let last = be16(payload, 10)?;
                let header = if last & 1 == 1 { 20 } else { 12 };
                // Frame type: 0 is Ethernet, 2 is IP.
                match last >> 10 & 0x1f {
                    0 => Inside::Packet(Layer::Ethernet, payload.get(header..)?),
                    2 => Inside::Packet(Layer::Ip, payload.get(header..)?),
                    _ => Inside::Opaque,
                }
            }
            _ => Inside::Opaque,
        },
        _ => Inside::Opaque,
    })
}

/// The tunnels over UDP, known by their destination port and a valid header of their own.
fn datagram_tunnel<'a>(t: &Transport<'a>) -> Option<Inside<'a>> {
    let destination = be16(t.payload, 2)?;
    if !matches!(destination, 2152 | 4789 | 6081 | 8472) {
        return Some(Inside::Opaque);
    }
    let after_header = t.payload.get(8..)?;
    let (payload, cut) = match usize::from(be16(t.payload, 4)?) {
        0 => (after_header, t.cut),
        1..8 => return Some(Inside::Opaque),
        n if n - 8 > after_header.len() => (after_header, true),
        n => (&after_header[..n - 8], false),
    };
    if payload.len() < 8 {
        // A datagram too short for any tunnel header carries something else.
        return if cut { None } else { Some(Inside::Opaque) };
    }
    match destination {
        2152 => gtp_user(payload),
        6081 => geneve(payload),
        _ if payload[0] & 0x08 != 0 => Some(Inside::Packet(Layer::Ethernet, payload.get(8..)?)),
        _ => Some(Inside::Opaque),
    }
}

fn geneve(payload: &[u8]) -> Option<Inside<'_>> {
    let version = payload[0] >> 6;
    let control = payload[1] & 0x80 != 0;
    // Transit devices do not look into control packets: RFC 8926 section 3.4.
    if version != 0 || control {
        return Some(Inside::Opaque);
    }
    let inner = payload.get(8 + 4 * usize::from(payload[0] & 0x3f)..)?;
    Some(match be16(payload, 2)? {
        0x6558 => Inside::Packet(Layer::Ethernet, inner),
        ethertype @ (0x0800 | 0x0806 | 0x86dd | 0x8847 | 0x8848) => {
            Inside::Packet(Layer::EtherType(ethertype), inner)
        }
        _ => Inside::Opaque,
    })
}

/// TS 29.281 section 5.1: version 1, protocol type GTP, message G-PDU.
fn gtp_user(payload: &[u8]) -> Option<Inside<'_>> {
    const G_PDU: u8 = 255;
    if payload[0] >> 5 != 1 || payload[0] & 0x10 == 0 || payload[1] != G_PDU {
        return Some(Inside::Opaque);
    }
    let end = payload.len().min(8 + usize::from(be16(payload, 2)?));
    let payload = &payload[..end];
    let mut at = 8;
    if payload[0] & 0x07 != 0 {
        let mut next = *payload.get(11)?;
        at = 12;
        while payload[0] & 0x04 != 0 && next != 0 {
            let length = 4 * usize::from(*payload.get(at)?);
            if length == 0 {
                return None;
            }
            at += length;
            next = *payload.get(at - 1)?;
        }
    }
    Some(Inside::Packet(Layer::Ip, payload.get(at..)?))
}
