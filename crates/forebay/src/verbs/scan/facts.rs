//! What is known of a packet for the conditions of rules.
//!
//! A sensor inspects the packet in a tunnel, and also the one around it. What is not known excludes
//! no rule: the length of a payload that is not captured whole, or of protocols whose headers are not
//! decoded; the ports of a later fragment; the protocol behind extension headers of IPv6 that are cut.

use forebay_packet::decode::{DecodeOutcome, ip_packet};
use forebay_packet::flow::AddressKind;
use forebay_packet::{Batch, Decoder};
use forebay_scan::rules::{Field, PacketFacts};

use super::rules::ends;

/// Protocol numbers of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: [u8; 2] = [1, 58];

/// Replaces `facts` by those of a packet: of the outermost one, and of that in each of its tunnels.
pub(super) fn find(decoder: &Decoder, batch: &Batch, i: usize, facts: &mut Vec<PacketFacts>) {
    let (link, packet) = (batch.interface(i).link, batch.packet(i));
    facts.clear();
    for (depth, decoder) in decoder.by_depth().enumerate() {
        let (decoded, carried) = decoder.decode_with_carried(link, packet);
        let Some((source, destination)) = ends(&decoded) else { continue };
        let protocol = decoded.key.protocol;
        let mut found = PacketFacts::new(protocol, source, destination);
        found.tcp_flags = decoded.tcp_flags;
        let has_transport = decoded.outcome == DecodeOutcome::Ip;
        if has_transport || decoded.key.kind == AddressKind::Ipv4 {
            found.set(Field::IpProtocol, u32::from(protocol));
        }
        if has_transport {
            let is_whole =
                batch.wire_len(i) as usize <= packet.len() && decoded.fragments[0].is_none();
            let len = carried.and_then(|carried| payload_len(packet, carried.payload, protocol));
            if let Some(len) = len.filter(|_| is_whole) {
                found.set(Field::PayloadLen, len);
            }
        }
        let icmp = ip_packet(link, packet).and_then(|ip| ip.upper_layer().icmp);
        if let Some((kind, code)) = icmp.filter(|_| depth == 0 && ICMP.contains(&protocol)) {
            found.set(Field::IcmpType, u32::from(kind));
            found.set(Field::IcmpCode, u32::from(code));
        }
        let is_new = facts.last().is_none_or(|last| {
            (last.protocol, last.source, last.destination) != (protocol, source, destination)
        });
        if is_new {
            facts.push(found);
        }
    }
}

/// The bytes behind a TCP or UDP header by the lengths in the headers. `payload` is part of `packet`,
/// up to the end of the datagram.
fn payload_len(packet: &[u8], payload: &[u8], protocol: u8) -> Option<u32> {
    match protocol {
        TCP => Some(payload.len() as u32),
        UDP if payload.is_empty() => Some(0),
        UDP => {
            let start = payload.as_ptr().addr().checked_sub(packet.as_ptr().addr())?;
            let field = packet.get(start.checked_sub(4)?..)?.first_chunk()?;
            u32::from(u16::from_be_bytes(*field)).checked_sub(8)
        }
        _ => None,
    }
}
