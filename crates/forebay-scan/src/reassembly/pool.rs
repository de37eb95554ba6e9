//! The memory that the connections of a worker share: held segments, and digests of segments that
//! were delivered.
//!
//! Held bytes are in blocks of a fixed size, so that no arrival pattern fragments the memory.
//! Histories of digests are given out in turn: the newest takes the memory of the oldest, whose
//! owner detects that by a serial number. Neither grows beyond its limit.

use forebay_packet::HashKey;

use super::digest::DigestKey;
use crate::simd::prefetch_all;

/// Bytes of a segment that a block holds: those of a frame of 1,500 bytes.
pub(super) const BLOCK: usize = 1460;

/// Bytes that a block takes, with what is kept about it.
pub const BLOCK_BYTES: usize = BLOCK + size_of::<Head>();

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// Digests in a cache line, with the numbers that their segments start at.
const IN_LINE: usize = 5;

/// Cache lines of a history.
const LINES: usize = 13;

/// Digests of a history.
pub(super) const DIGESTS: usize = IN_LINE * LINES;

/// Bytes that a history takes.
pub const HISTORY_BYTES: usize = size_of::<History>();

/// Limits of the memory for reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the blocks that hold segments of one connection.
    pub connection: usize,
    /// Bytes of the blocks that hold segments of all connections.
    pub held: usize,
    /// Bytes of the digests of delivered segments, of all connections.
    pub digests: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self::of(32 << 20)
    }
}

impl Limits {
    /// Half of a memory for held segments, of which a connection may have a part, and half for
    /// digests.
    #[must_use]
    pub fn of(memory: usize) -> Self {
        let held = memory / 2;
        Self { connection: (held / 64).max(64 << 10), held, digests: memory - held }
    }

    /// The most bytes that a pool takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.held + self.digests) as u64
    }
}

/// What is kept about a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The block behind it in its list.
    pub next: u32,
    /// The sequence number of its first byte.
    pub start: u32,
    /// Its bytes.
    pub len: u32,
}

/// Blocks of held bytes.
#[derive(Debug)]
pub(super) struct Blocks {
    heads: Vec<Head>,
    data: Vec<[u8; BLOCK]>,
    free: u32,
    used: usize,
    limit: usize,
    pub per_connection: u32,
}

impl Blocks {
    /// A block with `bytes`, at most [`BLOCK`]; none at the limit.
    pub(super) fn take(&mut self, start: u32, bytes: &[u8], next: u32) -> Option<u32> {
        let head = Head { next, start, len: bytes.len() as u32 };
        let block = if self.free != NONE {
            let block = self.free;
            self.free = self.heads[block as usize].next;
            self.heads[block as usize] = head;
            block
        } else if self.heads.len() < self.limit {
            self.heads.push(head);
            self.data.push([0; BLOCK]);
            self.heads.len() as u32 - 1
        } else {
            return None;
        };
        self.data[block as usize][..bytes.len()].copy_from_slice(bytes);
        self.used += 1;
        Some(block)
    }

    /// Gives a block back.
    pub(super) fn give_back(&mut self, block: u32) {
        self.heads[block as usize].next = self.free;
        self.free = block;
        self.used -= 1;
    }

    pub(super) fn head(&self, block: u32) -> Head {
        self.heads[block as usize]
    }

    pub(super) fn set_next(&mut self, block: u32, next: u32) {
        self.heads[block as usize].next = next;
    }

    pub(super) fn bytes(&self, block: u32) -> &[u8] {
        &self.data[block as usize][..self.heads[block as usize].len as usize]
    }
}

/// Segments with their digests, in a cache line.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Line {
    digests: [u64; IN_LINE],
    starts: [u32; IN_LINE],
}

/// Digests of the last segments that were delivered in one direction, without gaps between them, each
/// at its number modulo [`DIGESTS`]. Whose they are and how many, only their owner has: a segment is
/// recorded in one cache line.
#[derive(Clone, Debug, Default)]
struct History {
    lines: [Line; LINES],
}

impl History {
    fn line(&self, number: u8) -> &Line {
        &self.lines[usize::from(number) % DIGESTS / IN_LINE]
    }

    fn start(&self, number: u8) -> u32 {
        self.line(number).starts[usize::from(number) % DIGESTS % IN_LINE]
    }

    fn digest(&self, number: u8) -> u64 {
        self.line(number).digests[usize::from(number) % DIGESTS % IN_LINE]
    }

    fn set(&mut self, number: u8, start: u32, digest: u64) {
        let at = usize::from(number) % DIGESTS;
        let (line, at) = (&mut self.lines[at / IN_LINE], at % IN_LINE);
        (line.starts[at], line.digests[at]) = (start, digest);
    }
}

/// What is known of the segments that were delivered in one direction, without gaps between them.
/// A single one needs no history: many directions have no second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivered {
    /// The serial number of the history; 0 for none.
    serial: u64,
    /// Of a single segment.
    digest: u64,
    start: u32,
    /// Segments recorded; where they are twice as many as [`DIGESTS`], it has once as many instead.
    recorded: u8,
}

const _: () = assert!(2 * DIGESTS <= u8::MAX as usize, "segments recorded");

impl Delivered {
    /// Forgets what was recorded. The memory of a history remains for other segments.
    pub(super) fn clear(&mut self) {
        self.recorded = 0;
    }

    /// Counts a segment. Returns the number that it has in a history.
    fn count(&mut self) -> u8 {
        let number = self.recorded;
        self.recorded =
            if usize::from(number) + 1 == 2 * DIGESTS { DIGESTS as u8 } else { number + 1 };
        number
    }
}

/// How bytes that were delivered compare with those of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Same,
    Different,
    Unknown,
}

/// The histories of directions, each known by its serial number; 0 is none.
#[derive(Debug)]
pub(super) struct Histories {
    key: DigestKey,
    slots: Vec<History>,
    limit: usize,
    serial: u64,
}

impl Histories {
    /// Where the history with a serial number is, if its memory was not given to another one: that
    /// has happened when as many have begun since as there are.
    fn find(&self, serial: u64) -> Option<usize> {
        let is_kept = self.serial.wrapping_sub(serial) < self.limit as u64;
        self.index(serial).filter(|_| is_kept)
    }

    /// Where the history with a serial number is or was.
    fn index(&self, serial: u64) -> Option<usize> {
        // A division of 32 bits takes a third of the time of one of 64.
        let number = serial.checked_sub(1)?;
        match (u32::try_from(number), u32::try_from(self.limit)) {
            (Ok(number), Ok(limit)) => number.checked_rem(limit).map(|index| index as usize),
            _ => number.checked_rem(self.limit as u64).map(|index| index as usize),
        }
    }

    /// Records bytes that were delivered, which `start` at a sequence number, behind those that
    /// were recorded before.
    pub(super) fn record(&mut self, delivered: &mut Delivered, start: u32, bytes: &[u8]) {
        if self.limit == 0 {
            return;
        }
        let digest = self.key.digest(bytes);
        let found = self.find(delivered.serial);
        if found.is_none() && delivered.recorded > 1 {
            // The segments before are not known any more.
            delivered.recorded = 0;
        }
        let number = delivered.count();
        if number == 0 {
            (delivered.start, delivered.digest) = (start, digest);
            return;
        }
        let index = found.unwrap_or_else(|| {
            let index = self.begin();
            delivered.serial = self.serial;
            index
        });
        let history = &mut self.slots[index];
        if number == 1 {
            history.set(0, delivered.start, delivered.digest);
        }
        history.set(number, start, digest);
    }

    /// Starts a history in place of the oldest, and returns where it is.
    fn begin(&mut self) -> usize {
        self.serial += 1;
        let index = ((self.serial - 1) % self.limit as u64) as usize;
        if index == self.slots.len() {
            self.slots.push(History::default());
        }
        index
    }

    /// Fetches what the next segment is recorded in ahead of its use.
    pub(super) fn prefetch(&self, delivered: &Delivered) {
        if delivered.recorded > 0
            && let Some(index) = self.index(delivered.serial)
            && let Some(slot) = self.slots.get(index)
        {
            prefetch_all(slot.line(delivered.recorded));
        }
    }

    /// Compares bytes which `start` at a sequence number with those that were delivered there.
    /// `end` is the end of the last segment that was recorded.
    pub(super) fn compare(
        &self,
        delivered: &Delivered,
        start: u32,
        mut bytes: &[u8],
        end: u32,
    ) -> Comparison {
        if delivered.recorded == 1 {
            let len = end.wrapping_sub(delivered.start) as usize;
            return match bytes.len() {
                _ if start != delivered.start => Comparison::Unknown,
                bytes if bytes != len => Comparison::Unknown,
                _ if self.key.digest(bytes) == delivered.digest => Comparison::Same,
                _ => Comparison::Different,
            };
        }
        if delivered.recorded == 0 {
            return Comparison::Unknown;
        }
        let Some(index) = self.find(delivered.serial) else { return Comparison::Unknown };
        let slot = &self.slots[index];
        let kept = delivered.recorded.saturating_sub(DIGESTS as u8)..delivered.recorded;
        let Some(first) = kept.clone().rev().find(|&number| slot.start(number) == start) else {
            return Comparison::Unknown;
        };
        for number in first..kept.end {
            if bytes.is_empty() {
                break;
            }
            let behind = if number + 1 == kept.end { end } else { slot.start(number + 1) };
            let len = behind.wrapping_sub(slot.start(number)) as usize;
            if len > bytes.len() {
                return Comparison::Unknown;
            }
            let (segment, rest) = bytes.split_at(len);
            if self.key.digest(segment) != slot.digest(number) {
                return Comparison::Different;
            }
            bytes = rest;
        }
        if bytes.is_empty() { Comparison::Same } else { Comparison::Unknown }
    }
}

/// The memory for the connections of one thread.
#[derive(Debug)]
pub struct Pool {
    pub(super) blocks: Blocks,
    pub(super) histories: Histories,
}

impl Pool {
    /// A pool with these limits. `secret` is that of the digests.
    #[must_use]
    pub fn new(limits: &Limits, secret: &HashKey) -> Self {
        let blocks = limits.held / BLOCK_BYTES;
        let histories = limits.digests / HISTORY_BYTES;
        Self {
            blocks: Blocks {
                heads: Vec::with_capacity(blocks),
                data: Vec::with_capacity(blocks),
                free: NONE,
                used: 0,
                limit: blocks.min(NONE as usize),
                per_connection: u32::try_from(limits.connection / BLOCK_BYTES).unwrap_or(u32::MAX),
            },
            histories: Histories {
                key: DigestKey::new(secret),
                slots: Vec::with_capacity(histories),
                limit: histories,
                serial: 0,
            },
        }
    }

    /// The bytes of the blocks in use.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.blocks.used * BLOCK_BYTES
    }
}
