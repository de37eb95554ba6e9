//! Offsets beyond all bytes of packets, for fields that are in one of two places.

use crate::pe::atom::{Atom, Field, MAX_END};

/// Bytes that are taken from one of two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pe) struct Region {
    /// What decides: whether a field of packets equals a constant.
    pub(in crate::pe) equal: (Field, u32),
    /// What to add to an offset within the region where the guard holds.
    then: i64,
    /// The same where it does not hold.
    otherwise: i64,
}

impl Region {
    /// Offsets of a region: more than any end of a field, and than the lengths of filters with regions.
    const SIZE: u32 = 2 * MAX_END;

    /// The number of the region that has the offset; `None` for bytes of a packet.
    pub(in crate::pe) fn of(offset: u32) -> Option<usize> {
        (offset / Self::SIZE).checked_sub(1).map(|number| number as usize)
    }

    /// The atom that decides.
    pub(in crate::pe) fn guard(&self) -> Atom {
        Atom::Equal(self.equal.0, self.equal.1)
    }

    /// Where the bytes `low` to `high` of the region come from if the guard holds, and if not.
    pub(in crate::pe) fn sources(self, (low, high): (u32, u32)) -> [(u32, u32); 2] {
        [self.then, self.otherwise].map(|distance| {
            let at = |offset: u32| (i64::from(offset % Self::SIZE) + distance) as u32;
            (at(low), at(high))
        })
    }

    /// The region whose fields are those at `then` on packets for which the guard holds, and else
    /// those `distance` bytes on.
    pub(super) fn new(equal: (Field, u32), then: u32, distance: i64) -> Self {
        let base = i64::from(then / Self::SIZE * Self::SIZE);
        Self { equal, then: base, otherwise: base + distance }
    }

    /// The offset in region `number` for the one at `then` of its sources.
    pub(super) fn offset(number: usize, then: u32) -> u32 {
        (number as u32 + 1) * Self::SIZE + then % Self::SIZE
    }
}
