//! A judge of reassembly: a map of every byte that was sent, and connections made of any bytes.

use std::collections::BTreeMap;

use forebay_packet::HashKey;
use forebay_scan::reassembly::{
    BLOCK_BYTES, Connection, HISTORY_BYTES, Limits, Pool, Segment, Uncertainties,
};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
pub const URG: u8 = 32;

/// What was sent in one direction, by the distance from the first byte.
#[derive(Default)]
struct Sent {
    start: Option<u32>,
    bytes: BTreeMap<u32, Vec<u8>>,
    delivered: Vec<u8>,
    acked: Option<u32>,
    fin: Option<u32>,
}

impl Sent {
    fn note(&mut self, segment: &Segment<'_>) {
        let syn = u32::from(segment.flags & SYN != 0);
        let first = segment.sequence.wrapping_add(syn);
        let start = *self.start.get_or_insert(first);
        let at = first.wrapping_sub(start);
        // A keep-alive before the first byte repeats none.
        let is_none = at == u32::MAX && segment.payload.len() == 1 && self.delivered.is_empty();
        for (i, &byte) in (0u32..).zip(segment.payload).filter(|_| !is_none) {
            self.bytes.entry(at.wrapping_add(i)).or_default().push(byte);
        }
        if segment.flags & FIN != 0 {
            self.fin = Some(at.wrapping_add(segment.payload.len() as u32));
        }
    }

    /// Asserts that the delivered bytes are the only stream that any receiver can have got.
    fn check(&self) {
        let len = self.delivered.len() as u32;
        assert_eq!(self.bytes.len() as u32, len, "every byte was delivered");
        for ((&at, values), (i, &delivered)) in self.bytes.iter().zip((0..).zip(&self.delivered)) {
            assert_eq!(at, i, "no hole");
            assert!(values.iter().all(|&value| value == delivered), "byte {i}: {values:?}");
        }
        if let Some(fin) = self.fin {
            assert_eq!(fin, len, "the FIN is behind the last byte");
        }
        if let (Some(acked), Some(start)) = (self.acked, self.start) {
            let acked = acked.wrapping_sub(start) as i32;
            assert!(acked <= len as i32 + i32::from(self.fin.is_some()), "{acked} of {len}");
        }
    }
}

/// A connection beside the map of what was sent.
#[derive(Default)]
pub struct Judged {
    connection: Connection,
    sent: [Sent; 2],
    pub uncertain: Uncertainties,
}

impl Judged {
    /// Gives a segment to the connection, and checks what it returns.
    pub fn segment(&mut self, direction: usize, segment: &Segment<'_>, pool: &mut Pool) {
        let mut pieces = Vec::new();
        let outcome = self.connection.segment(direction, segment, pool, |piece| {
            assert!(!piece.bytes.is_empty());
            pieces.push((piece.direction, piece.bytes.to_vec(), piece.continues));
        });
        if outcome.restarted {
            self.check(outcome.uncertain);
            (self.sent, self.uncertain) = Default::default();
        }
        self.uncertain.extend(outcome.uncertain);
        if segment.flags & ACK != 0 {
            let acked = &mut self.sent[1 - direction].acked;
            let new = segment.acknowledgment;
            if acked.is_none_or(|old| new.wrapping_sub(old) as i32 > 0) {
                *acked = Some(new);
            }
        }
        if segment.flags & (SYN | RST) == SYN && self.sent[direction].start.is_none() {
            self.sent[direction].acked = None;
        }
        if segment.flags & RST == 0 {
            self.sent[direction].note(segment);
        }
        for (direction, bytes, continues) in pieces {
            let sent = &mut self.sent[direction].delivered;
            assert!(continues != sent.is_empty() || !self.uncertain.is_empty());
            sent.extend_from_slice(&bytes);
        }
    }

    fn check(&self, found: Uncertainties) {
        if self.uncertain.is_empty() && found.is_empty() {
            self.sent.iter().for_each(Sent::check);
        }
    }

    /// Ends the connection, and returns what was in doubt.
    pub fn end(mut self, pool: &mut Pool) -> Uncertainties {
        let found = self.connection.end(pool);
        self.check(found);
        self.uncertain.extend(found);
        self.uncertain
    }

    /// What was delivered in a direction.
    pub fn delivered(&self, direction: usize) -> &[u8] {
        &self.sent[direction].delivered
    }
}

/// A pool of so many blocks and histories; `per_connection` of the blocks for one connection.
pub fn pool(per_connection: usize, blocks: usize, histories: usize) -> Pool {
    let limits = Limits {
        connection: per_connection * BLOCK_BYTES,
        held: blocks * BLOCK_BYTES,
        digests: histories * HISTORY_BYTES,
    };
    Pool::new(&limits, &HashKey([1, 2]))
}

/// Two connections of segments made from any bytes, most of which have consistent contents.
pub fn connections_of(data: &[u8]) {
    let Some((&head, data)) = data.split_first() else { return };
    let blocks = usize::from(head & 7);
    let mut pool = pool(usize::from(head >> 3 & 3) + 1, blocks, usize::from(head >> 5));
    let base = [0u32, u32::MAX - 20, 1 << 31, u32::MAX];
    let mut connections = [Judged::default(), Judged::default()];
    let contents: Vec<u8> =
        (0..4096u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut opened = 0u8;
    for op in data.chunks_exact(6) {
        let [which, flags, at, len, ack, variant] = *op else { continue };
        let (number, direction) = (usize::from(which & 1), usize::from(which >> 1 & 1));
        let open = 1 << (number * 2 + direction);
        let isn = base[usize::from(which >> 2 & 1) * 2 + direction];
        // Most segments are near the start; a few are far away.
        let far = if which >= 0xf0 { u32::from(which) << 26 } else { 0 };
        let len = usize::from(len) * if variant & 0x10 != 0 { 16 } else { 1 };
        let mut flags = flags & (FIN | SYN | RST | ACK | URG);
        if which & 0x38 != 0 {
            flags &= ACK;
        }
        if opened & open == 0 && variant & 0x80 == 0 {
            flags |= SYN;
        }
        opened |= open;
        let skip = u32::from(flags & SYN == 0);
        let offset = if flags & SYN != 0 { 0 } else { usize::from(at) };
        let mut payload = contents[offset..][..len.min(contents.len() - offset)].to_vec();
        if variant & 0x0f == 1 && !payload.is_empty() {
            let at = usize::from(ack) % payload.len();
            payload[at] ^= 0x20;
        }
        let segment = Segment {
            sequence: isn.wrapping_add(offset as u32 + skip).wrapping_add(far),
            acknowledgment: base[usize::from(which >> 2 & 1) * 2 + 1 - direction]
                .wrapping_add(1 + u32::from(ack)),
            flags,
            sent: payload.len() as u32 + u32::from(variant & 0x0f == 2),
            payload: &payload,
        };
        connections[number].segment(direction, &segment, &mut pool);
        assert!(pool.held_bytes() <= blocks * BLOCK_BYTES);
    }
    for connection in connections {
        connection.end(&mut pool);
    }
    assert_eq!(pool.held_bytes(), 0, "all memory is given back");
}
