//! The segments of one direction that wait for bytes before them: a list of blocks in the order of
//! their sequence numbers, without overlaps.
//!
//! All of them are less than 2^31 behind the next byte expected, so that the difference of two
//! sequence numbers is their distance, also where the numbers wrap.

use super::pool::{BLOCK, Blocks, NONE};

/// How far `to` is behind `from` in the sequence, negative if it is before it.
#[inline]
pub(super) fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

/// A list of held bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    first: u32,
    last: u32,
    blocks: u32,
}

impl Default for Held {
    fn default() -> Self {
        Self { first: NONE, last: NONE, blocks: 0 }
    }
}

/// What became of bytes that were to be held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inserted {
    /// Some of them are different from bytes that were held.
    pub conflict: bool,
    /// There was no room for all of them.
    pub full: bool,
}

fn end(pool: &Blocks, block: u32) -> u32 {
    let head = pool.head(block);
    head.start.wrapping_add(head.len)
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// The sequence number of the first held byte.
    pub(super) fn start(&self, pool: &Blocks) -> Option<u32> {
        (self.first != NONE).then(|| pool.head(self.first).start)
    }

    /// The sequence number behind the last held byte.
    pub(super) fn end(&self, pool: &Blocks) -> Option<u32> {
        (self.last != NONE).then(|| end(pool, self.last))
    }

    /// Holds bytes that start at a sequence number, except where there are some already.
    pub(super) fn insert(&mut self, pool: &mut Blocks, start: u32, bytes: &[u8]) -> Inserted {
        let mut inserted = Inserted::default();
        let (mut at, mut rest) = (start, bytes);
        let (mut previous, mut current) = (NONE, self.first);
        if self.end(pool).is_some_and(|end| distance(end, at) >= 0) {
            (previous, current) = (self.last, NONE);
        }
        while !rest.is_empty() {
            while current != NONE && distance(at, end(pool, current)) <= 0 {
                (previous, current) = (current, pool.head(current).next);
            }
            let ahead = match current {
                NONE => rest.len(),
                _ => distance(at, pool.head(current).start).max(0) as usize,
            };
            let len = if ahead == 0 {
                let offset = distance(pool.head(current).start, at) as usize;
                let held = &pool.bytes(current)[offset..];
                let len = held.len().min(rest.len());
                inserted.conflict |= held[..len] != rest[..len];
                len
            } else {
                let len = ahead.min(rest.len()).min(BLOCK);
                let block = if self.blocks < pool.per_connection {
                    pool.take(at, &rest[..len], current)
                } else {
                    None
                };
                let Some(block) = block else {
                    inserted.full = true;
                    return inserted;
                };
                self.link(pool, previous, block, current);
                previous = block;
                len
            };
            at = at.wrapping_add(len as u32);
            rest = &rest[len..];
        }
        inserted
    }

    fn link(&mut self, pool: &mut Blocks, previous: u32, block: u32, next: u32) {
        match previous {
            NONE => self.first = block,
            _ => pool.set_next(previous, block),
        }
        if next == NONE {
            self.last = block;
        }
        self.blocks += 1;
    }

    /// Whether held bytes are different from `bytes`, which start at a sequence number.
    pub(super) fn conflicts(&self, pool: &Blocks, start: u32, bytes: &[u8]) -> bool {
        let mut current = self.first;
        while current != NONE {
            let head = pool.head(current);
            // Where the block starts in `bytes`.
            let offset = i64::from(distance(start, head.start));
            if offset >= bytes.len() as i64 {
                break;
            }
            let (skip, from) = ((-offset).max(0) as usize, offset.max(0) as usize);
            let held = pool.bytes(current).get(skip..).unwrap_or_default();
            let len = held.len().min(bytes.len() - from);
            if held[..len] != bytes[from..from + len] {
                return true;
            }
            current = head.next;
        }
        false
    }

    /// The first block if it starts at or before `next`, and how many of its bytes are before.
    pub(super) fn ready(&self, pool: &Blocks, next: u32) -> Option<(u32, usize)> {
        let start = self.start(pool)?;
        let skip = distance(start, next);
        let len = pool.bytes(self.first).len();
        (skip >= 0).then(|| (self.first, len.min(skip as usize)))
    }

    /// Gives the first block back.
    pub(super) fn pop(&mut self, pool: &mut Blocks) {
        let block = self.first;
        self.first = pool.head(block).next;
        if self.first == NONE {
            self.last = NONE;
        }
        self.blocks -= 1;
        pool.give_back(block);
    }

    /// Gives all blocks back.
    pub(super) fn clear(&mut self, pool: &mut Blocks) {
        while !self.is_empty() {
            self.pop(pool);
        }
    }
}
