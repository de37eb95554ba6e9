//! The packets: no two alike, each a flow of its own, in slots of 2,112 bytes that are visited
//! in shuffled order.

use std::collections::HashSet;
use std::sync::Arc;

use forebay_packet::random::Random;
use forebay_packet::{Arena, BATCH, Batch, Interface, PacketMeta};
use forebay_rules::packed::{HAS_PORTS, Key4, NOT_TCP};
use forebay_rules::rule::{TCP, UDP, flag};

use crate::failure::{During, Result};
use crate::suites::rules::frames::frame;
use crate::suites::rules::headers::{NETWORKS, SERVERS, address};

/// Bytes of a packet, and of a large one.
pub const LEN: usize = 64;
pub const LARGE: usize = 1_500;

/// Packets of a connection.
pub const SEGMENTS: usize = 16;

/// Bytes in front of the payload of a TCP segment.
const HEADERS: usize = 54;

/// Bytes of a slot of an arena for packets of any usual size: with the alignment of the
/// EtherType a stride of 2,112 bytes.
const SLOT: usize = 2048;

/// The port that the filter matches.
pub const PORT: u16 = 3000;

/// Packets in a hundred that the filter lets pass.
pub const HITS: usize = 30;

/// Packets in a thousand that go to the networks of the rules' servers; no rule matches the
/// others.
const TO_SERVERS: usize = 100;

const SEED: u64 = 20_261_122;

/// `count` packets of `len` bytes in batches, in a shuffled order; with pieces of `payloads`, if there
/// are any.
pub fn batches(count: usize, len: usize, payloads: &[u8]) -> Result<Vec<Batch>> {
    let mut arena = Arena::new(count, SLOT).during("getting memory for packets")?;
    let mut random = Random::new(SEED);
    let mut flows = HashSet::with_capacity(count);
    while arena.len() < count {
        let key = key(&mut random);
        if flows.insert((key.source, key.destination, key.first, key.second, key.kind)) {
            let packet = packet(&key, len, arena.len(), (payloads, &mut random));
            arena.push(&packet, len as u32, 0, 0);
        }
    }
    Ok(in_order_of(arena, &Random::new(!SEED).draw(count, count)))
}

/// As [`batches`], but the packets are TCP connections from their handshakes on, of [`SEGMENTS`]
/// packets each, without losses; all connections go on side by side.
pub fn connections(count: usize, len: usize, payloads: &[u8]) -> Result<Vec<Batch>> {
    let mut arena = Arena::new(count, SLOT).during("getting memory for packets")?;
    let (mut random, mut flows) = (Random::new(SEED), HashSet::new());
    while arena.len() + SEGMENTS <= count {
        let key = Key4 { kind: u16::from(TCP) | HAS_PORTS, ..key(&mut random) };
        if flows.insert((key.source, key.destination, key.first, key.second)) {
            let mut next = [random.next() as u32, random.next() as u32];
            for number in 0..SEGMENTS {
                let (side, flags) = turn(number);
                let (first, second) = (key.first, key.second);
                let key = match side {
                    0 => Key4 { flags: flags.into(), ..key },
                    _ => Key4 {
                        flags: flags.into(),
                        source: key.destination,
                        destination: key.source,
                        first: second,
                        second: first,
                        ..key
                    },
                };
                let mut packet = packet(&key, len, arena.len(), (payloads, &mut random));
                packet[38..42].copy_from_slice(&next[side].to_be_bytes());
                packet[42..46].copy_from_slice(&next[1 - side].to_be_bytes());
                if flags & flag::SYN != 0 {
                    // What is behind the headers is padding.
                    packet[16..18].copy_from_slice(&(HEADERS as u16 - 14).to_be_bytes());
                    next[side] = next[side].wrapping_add(1);
                } else {
                    next[side] = next[side].wrapping_add((len - HEADERS) as u32);
                }
                arena.push(&packet, len as u32, 0, 0);
            }
        }
    }
    // Packet by packet of each connection, the connections in a new order each time.
    let connections = arena.len() / SEGMENTS;
    let mut order = Vec::with_capacity(arena.len());
    for number in 0..SEGMENTS {
        let drawn = Random::new(number as u64).draw(connections, connections);
        order.extend(drawn.into_iter().map(|one| one * SEGMENTS as u32 + number as u32));
    }
    Ok(in_order_of(arena, &order))
}

/// The packets at these places, in their order.
fn in_order_of(arena: Arena, places: &[u32]) -> Vec<Batch> {
    let interfaces = Arc::new(vec![Interface::default()]);
    let in_order = arena.into_batches(&interfaces);
    let meta: Vec<PacketMeta> =
        in_order.iter().flat_map(|batch| (0..batch.len()).map(|i| batch.meta(i))).collect();
    let Some(first) = in_order.first() else { return Vec::new() };
    let batch_of = |places: &[u32]| {
        let mut batch = Batch::new(Arc::clone(first.region()), Arc::clone(&interfaces));
        for &place in places {
            // No chunk is longer than a batch.
            let _ = batch.push(meta[place as usize]);
        }
        batch
    };
    places.chunks(BATCH).map(batch_of).collect()
}

/// A packet of `len` bytes, number `number` of all, with a piece of `payloads` if there are any.
fn packet(key: &Key4, len: usize, number: usize, payload: (&[u8], &mut Random)) -> Vec<u8> {
    let (payloads, random) = payload;
    let mut packet = vec![0; len];
    if let Some(last) = payloads.len().checked_sub(len) {
        packet.copy_from_slice(&payloads[random.index(last + 1)..][..len]);
    }
    let head = frame(key);
    packet[..head.len()].copy_from_slice(&head);
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xaa, 2, 0, 0, 0, 0, 0xbb]);
    packet[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    // The end of each packet is different.
    packet[len - 4..].copy_from_slice(&(number as u32).to_be_bytes());
    packet
}

/// The side that sends packet `number` of a connection, and its control bits.
fn turn(number: usize) -> (usize, u8) {
    match number {
        0 => (0, flag::SYN),
        1 => (1, flag::SYN | flag::ACK),
        // A request, and its answer.
        _ => (usize::from(number % 8 != 2), flag::ACK),
    }
}

/// The fields of a packet.
fn key(random: &mut Random) -> Key4 {
    let source = address(&NETWORKS, random);
    let networks = if random.index(1_000) < TO_SERVERS { &SERVERS } else { &NETWORKS };
    let destination = address(networks, random);
    let client = 32_768 + random.index(28_232) as u16;
    let server = match random.index(100) {
        0..HITS => PORT,
        // Any other port below those of clients.
        _ => match 1 + random.index(32_766) as u16 {
            port if port < PORT => port,
            port => port + 1,
        },
    };
    let (first, second) = if random.index(2) == 0 { (client, server) } else { (server, client) };
    let (protocol, flags) = match random.index(100) {
        0..20 => (UDP, NOT_TCP),
        20..25 => (TCP, flag::SYN.into()),
        25..30 => (TCP, (flag::FIN | flag::ACK).into()),
        _ => (TCP, flag::ACK.into()),
    };
    let kind = u16::from(protocol) | HAS_PORTS;
    Key4 { source, destination, first, second, kind, flags }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_connections_follow_one_another() {
        let batches = connections(320, LEN, &[]).unwrap();
        let mut next = std::collections::HashMap::new();
        let decoder = forebay_packet::Decoder::default();
        let packets = batches.iter().flat_map(|batch| (0..batch.len()).map(|i| batch.packet(i)));
        for packet in packets {
            let (plain, carried) = decoder.decode_plain_with_carried(packet).unwrap();
            let (sequence, _) = carried.tcp_numbers.unwrap();
            let expected = next.entry((plain.key, plain.reversed)).or_insert(sequence);
            assert_eq!(*expected, sequence);
            let is_syn = plain.tcp_flags.unwrap() & flag::SYN != 0;
            assert_eq!(carried.payload.len(), if is_syn { 0 } else { LEN - HEADERS });
            *expected = sequence.wrapping_add(u32::from(is_syn) + carried.payload.len() as u32);
        }
        assert_eq!(next.len(), 2 * 320 / SEGMENTS);
    }

    #[test]
    fn packets_lie_2112_bytes_apart_in_no_order_and_differ() {
        let batches = batches(1000, LEN, &[]).unwrap();
        let offsets: Vec<u32> =
            batches.iter().flat_map(|batch| batch.offsets().iter().copied()).collect();
        assert!(offsets.iter().all(|offset| (offset + 12) % 64 == 0));
        assert!(offsets.windows(2).any(|pair| pair[0] > pair[1]));
        let slots: HashSet<u32> = offsets.iter().map(|offset| offset / 2112).collect();
        assert_eq!(slots.len(), 1000);
        let packets: HashSet<&[u8]> = batches
            .iter()
            .flat_map(|batch| (0..batch.len()).map(|i| &batch.packet(i)[12..]))
            .collect();
        assert_eq!(packets.len(), 1000);
    }
}
