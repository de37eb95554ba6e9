//! Packets in memory, checked once, for code without bounds checks.
//!
//! Invariants of a [`Packets`]: the three tables are equally long; each
//! packet's offset + captured length is within `memory`; `tail` bytes past the
//! end of `memory` may be read as well, though their content is meaningless; no
//! offset is above `last`.

use std::ops::Range;

use forebay_packet::{Batch, Region, TAIL_GUARD};

/// The memory that contains the packets.
#[derive(Clone, Copy, Debug)]
enum Memory<'a> {
    Bytes(&'a [u8]),
    Region(&'a Region),
    Batch(&'a Batch),
}

impl<'a> Memory<'a> {
    fn base(self) -> *const u8 {
        match self {
            Self::Bytes(bytes) => bytes.as_ptr(),
            Self::Region(region) => region.as_ptr(),
            Self::Batch(batch) => batch.region().as_ptr(),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Region(region) => region.len(),
            Self::Batch(batch) => batch.region().len(),
        }
    }
}

/// Packets of one memory range.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a> {
    memory: Memory<'a>,
    tail: usize,
    /// The number of the first packet in its batch, if it is from one.
    first: usize,
    offset: &'a [u32],
    cap_len: &'a [u32],
    wire_len: &'a [u32],
    last: usize,
}

/// Tables that do not describe packets of the memory given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketsError {
    /// The tables differ in length.
    #[error("{offsets} offsets, {cap_lens} captured lengths and {wire_lens} wire lengths")]
    Lengths {
        /// Offsets given.
        offsets: usize,
        /// Captured lengths given.
        cap_lens: usize,
        /// Lengths on the wire given.
        wire_lens: usize,
    },
    /// A packet ends beyond the memory.
    #[error("packet {packet} ends at byte {end}, past the {memory} bytes there are")]
    Outside {
        /// The packet, from 0.
        packet: usize,
        /// Its offset plus its captured length.
        end: u64,
        /// Bytes of memory.
        memory: usize,
    },
}

impl<'a> Packets<'a> {
    /// Packet `i` is the `cap_len[i]` bytes of `memory` from `offset[i]`, and
    /// was `wire_len[i]` bytes long on the wire.
    ///
    /// # Errors
    /// If the tables differ in length, or a packet is outside `memory`.
    pub fn new(
        memory: &'a [u8],
        offset: &'a [u32],
        cap_len: &'a [u32],
        wire_len: &'a [u32],
    ) -> Result<Self, PacketsError> {
        Self::checked(Memory::Bytes(memory), offset, cap_len, wire_len)
    }

    fn checked(
        memory: Memory<'a>,
        offset: &'a [u32],
        cap_len: &'a [u32],
        wire_len: &'a [u32],
    ) -> Result<Self, PacketsError> {
        if offset.len() != cap_len.len() || offset.len() != wire_len.len() {
            return Err(PacketsError::Lengths {
                offsets: offset.len(),
                cap_lens: cap_len.len(),
                wire_lens: wire_len.len(),
            });
        }
        // Maxima first, which the compiler vectorises.
        let ends = || offset.iter().zip(cap_len).map(|(&at, &len)| u64::from(at) + u64::from(len));
        let limit = memory.len() as u64;
        if ends().fold(0, u64::max) > limit {
            let outside = ends().enumerate().find(|&(_, end)| end > limit);
            if let Some((packet, end)) = outside {
                return Err(PacketsError::Outside { packet, end, memory: memory.len() });
            }
        }
        let last = offset.iter().fold(0, |last, &at| at.max(last)) as usize;
        Ok(Self { memory, tail: 0, first: 0, offset, cap_len, wire_len, last })
    }

    /// The same for a region of our own, whose tail guard may be read too.
    ///
    /// # Errors
    /// As [`Packets::new`].
    ///
    /// # Panics
    /// If a device may write to the region: only batches have packets there.
    pub fn in_region(
        region: &'a Region,
        offset: &'a [u32],
        cap_len: &'a [u32],
        wire_len: &'a [u32],
    ) -> Result<Self, PacketsError> {
        assert!(!region.is_shared(), "packets that no batch holds");
        let packets = Self::checked(Memory::Region(region), offset, cap_len, wire_len)?;
        Ok(Self { tail: TAIL_GUARD, ..packets })
    }

    /// All packets of a batch, including dropped ones.
    #[must_use]
    pub fn of_batch(batch: &'a Batch) -> Self {
        // A batch guarantees what `new` checks.
        let memory = Memory::Batch(batch);
        Self {
            memory,
            tail: TAIL_GUARD,
            first: 0,
            offset: batch.offsets(),
            cap_len: batch.cap_lens(),
            wire_len: batch.wire_lens(),
            last: memory.len(),
        }
    }

    /// Number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offset.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offset.is_empty()
    }

    /// The packets of `range`.
    ///
    /// # Panics
    /// If `range` is not within 0 to [`Packets::len`].
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Self {
        Self {
            first: self.first + range.start,
            offset: &self.offset[range.clone()],
            cap_len: &self.cap_len[range.clone()],
            wire_len: &self.wire_len[range],
            ..*self
        }
    }

    /// The captured bytes of packet `i`.
    ///
    /// # Panics
    /// If `i` is not below [`Packets::len`].
    #[must_use]
    pub fn packet(&self, i: usize) -> &'a [u8] {
        let (start, len) = (self.offset[i] as usize, self.cap_len[i] as usize);
        match self.memory {
            Memory::Bytes(bytes) => &bytes[start..][..len],
            Memory::Region(region) => &region.bytes()[start..][..len],
            Memory::Batch(batch) => batch.packet(self.first + i),
        }
    }

    /// Length of packet `i` on the wire in bytes.
    ///
    /// # Panics
    /// If `i` is not below [`Packets::len`].
    #[must_use]
    pub fn wire_len(&self, i: usize) -> u32 {
        self.wire_len[i]
    }

    /// The start of the packets' memory.
    #[must_use]
    pub fn base(&self) -> *const u8 {
        self.memory.base()
    }

    /// The packets' offsets, captured lengths and lengths on the wire.
    #[must_use]
    pub fn tables(&self) -> [&'a [u32]; 3] {
        [self.offset, self.cap_len, self.wire_len]
    }

    /// The highest offset from which `reach` bytes may be read, and to which code may add up to `reach` in 32
    /// bits; `None` if there is none.
    #[must_use]
    pub fn limit(&self, reach: usize) -> Option<usize> {
        self.memory.len().saturating_add(self.tail).min(u32::MAX as usize).checked_sub(reach)
    }

    /// Whether all offsets are known to be at most `limit`; `false` means
    /// unknown.
    pub(crate) fn surely_within(&self, limit: usize) -> bool {
        self.last <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_checked() {
        let memory = [0; 10];
        let packets = Packets::new(&memory, &[0, 10, 4], &[10, 0, 6], &[1, 2, 3]).unwrap();
        assert_eq!((packets.len(), packets.packet(2).len(), packets.wire_len(1)), (3, 6, 2));
        let error = Packets::new(&memory, &[0, 5, 4], &[10, 6, 7], &[1, 2, 3]).unwrap_err();
        assert_eq!(error, PacketsError::Outside { packet: 1, end: 11, memory: 10 });
        let wraps = Packets::new(&memory, &[u32::MAX], &[u32::MAX], &[0]).unwrap_err();
        let end = 2 * u64::from(u32::MAX);
        assert_eq!(wraps, PacketsError::Outside { packet: 0, end, memory: 10 });
        let error = Packets::new(&memory, &[0, 1], &[1], &[1, 1]).unwrap_err();
        assert_eq!(error.to_string(), "2 offsets, 1 captured lengths and 2 wire lengths");
        assert!(Packets::new(&[], &[], &[], &[]).unwrap().is_empty());
    }

    #[test]
    fn the_limit_counts_the_tail() {
        let memory = [0; 10];
        let packets = Packets::new(&memory, &[3], &[1], &[1]).unwrap();
        assert_eq!(
            (packets.limit(10), packets.limit(4), packets.limit(11)),
            (Some(0), Some(6), None)
        );
        assert!(packets.surely_within(3) && !packets.surely_within(2));
        let region = Region::new(10).unwrap();
        let packets = Packets::in_region(&region, &[10], &[0], &[1]).unwrap();
        assert_eq!(packets.limit(TAIL_GUARD), Some(10));
    }
}
