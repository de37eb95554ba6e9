//! Entries, four to a bucket.

use super::Stay;
use crate::key::{KEY_MASK, PRESENT, ShortKey};

/// Entries of a bucket.
pub(crate) const SLOTS: usize = 4;

/// Bit of an entry where its age begins, and the values that ages have.
pub(super) const AGE_AT: u32 = 106;
pub(crate) const AGES: u64 = 64;

/// Bit of an entry where its state begins.
const STATE_AT: u32 = 112;

/// A cache line of four entries: key, the epoch of the last packet, state; 0 if free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Bucket(pub(crate) [u128; SLOTS]);

impl Bucket {
    /// The free entries, a bit for each.
    #[inline(always)]
    pub(crate) fn free(&self) -> u32 {
        self.mask(|bits| bits >> PRESENT & 1 == 0)
    }

    /// A bit for each entry that is so. Without branches, which would be taken at random.
    #[inline(always)]
    pub(crate) fn mask(&self, is: impl Fn(u128) -> bool) -> u32 {
        let Self(entries) = self;
        (0..SLOTS).fold(0, |mask, slot| mask | u32::from(is(entries[slot])) << slot)
    }
}

/// A flow in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: ShortKey,
    pub(crate) state: u16,
    /// The epoch of the last packet, modulo [`AGES`].
    epoch: u8,
}

/// The bits of an entry.
#[inline(always)]
pub(crate) fn pack(key: u128, state: u16, epoch: u64) -> u128 {
    key | u128::from(epoch % AGES) << AGE_AT | u128::from(state) << STATE_AT
}

/// The bits of an entry with another key.
pub(crate) fn with_key(bits: u128, key: u128) -> u128 {
    bits & !KEY_MASK | key
}

/// The state in the upper word of an entry.
#[inline(always)]
pub(super) fn state(upper: u64) -> u16 {
    (upper >> (STATE_AT - 64)) as u16
}

/// The upper word of an entry with another state and epoch.
#[inline(always)]
pub(super) fn with_state(upper: u64, state: u16, epoch: u64) -> u64 {
    let key = upper & (KEY_MASK >> 64) as u64;
    key | (epoch % AGES) << (AGE_AT - 64) | u64::from(state) << (STATE_AT - 64)
}

impl Entry {
    pub(crate) fn unpack(bits: u128) -> Option<Self> {
        let key = ShortKey(bits & KEY_MASK);
        let epoch = (bits >> AGE_AT) as u8 % AGES as u8;
        (bits != 0).then_some(Self { key, state: state((bits >> 64) as u64), epoch })
    }

    /// Epochs since the last packet.
    pub(crate) fn age(&self, now: u64) -> u8 {
        ((now % AGES) as u8).wrapping_sub(self.epoch) % AGES as u8
    }
}

/// The time, and how long flows may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) epoch: u64,
    pub(crate) lifetime: u8,
}

impl Clock {
    pub(crate) fn is_idle(self, entry: &Entry) -> bool {
        entry.age(self.epoch) >= self.lifetime
    }

    /// The entries of idle flows, a bit for each.
    #[inline(always)]
    pub(crate) fn idle(self, bucket: &Bucket) -> u32 {
        bucket.mask(|bits| (bits >> PRESENT & 1 != 0) & self.is_silent((bits >> 64) as u64))
    }

    /// Whether the flow of an entry, which is not free, is idle, by the entry's upper word.
    #[inline(always)]
    pub(crate) fn is_silent(self, upper: u64) -> bool {
        // The age becomes the highest bits. Below those of the epoch all are set, so that the key
        // takes nothing from it.
        let now = self.epoch << (AGE_AT - 64) | ((1 << (AGE_AT - 64)) - 1);
        let highest = u64::BITS - AGES.ilog2();
        now.wrapping_sub(upper) << (128 - STATE_AT) >= u64::from(self.lifetime) << highest
    }

    /// The epoch that a flow gets for a packet now. An earlier one has it end sooner.
    pub(crate) fn stamp(self, stay: Stay) -> u64 {
        match stay {
            Stay::Lifetime => self.epoch,
            Stay::Epochs(epochs) => {
                self.epoch.wrapping_sub(self.lifetime.saturating_sub(epochs).into())
            }
        }
    }
}
