//! Packets of flows whose slots are known.
//!
//! An entry's state and epoch are in its upper word, and packets change nothing else of it. So
//! only that word is read and written, in fewer instructions. Measured by `forebay-bench flows`.

use super::bucket::{self, Clock, Entry};
use super::kernel::{self, STRETCH, bits};
use super::layout::CellOf;
use super::memory::{Mapped, UPPER};
use super::store::Store;
use super::{Ended, Reason, Stay, TableKey, TableState};
use crate::level::Level;

/// The entries and cells of a table, at a time.
pub(super) struct Entries<'a, K: TableKey, S: TableState> {
    words: &'a mut [[u64; 2]],
    cells: &'a mut Mapped<CellOf<K, S>>,
    level: Level,
    clock: Clock,
}

impl<'a, K: TableKey, S: TableState> Entries<'a, K, S> {
    #[inline(always)]
    pub(super) fn new(store: &'a mut Store<K, S>, clock: Clock) -> Self {
        let Store { buckets, cells, secret } = store;
        Self { words: buckets.words_mut(), cells, level: secret.level, clock }
    }

    /// Packets of the flows in these slots, of those whose bits are set; the first one's index is
    /// `first`.
    #[inline(always)]
    pub(super) fn packets<T: Into<Stay>>(
        mut self,
        which: u64,
        slots: &[u32; STRETCH],
        first: usize,
        each: &mut impl FnMut(usize, &mut S, bool) -> T,
        ended: &mut impl FnMut(Ended<K, S>),
    ) {
        kernel::compiled_for(self.level, move || {
            for i in bits(which) {
                self.packet(slots[i], first + i, each, ended);
            }
        });
    }

    /// A packet of the flow in a slot.
    #[inline(always)]
    pub(super) fn packet<T: Into<Stay>>(
        &mut self,
        slot: u32,
        i: usize,
        each: &mut impl FnMut(usize, &mut S, bool) -> T,
        ended: &mut impl FnMut(Ended<K, S>),
    ) {
        let (clock, slot) = (self.clock, slot as usize);
        let (words, cell) = (&mut self.words[slot], self.cells.value_mut(slot));
        let before = words[UPPER];
        let (mut state, is_new) = (bucket::state(before), clock.is_silent(before));
        if is_new {
            let flow = Entry::unpack(u128::from(words[1 - UPPER]) | u128::from(before) << 64);
            flow.into_iter().for_each(|e| ended(Store::<K, S>::ended(e, cell, Reason::Idle)));
            (state, cell.state) = (0, S::Beside::default());
        }
        let stay = S::change(&mut state, &mut cell.state, |state| each(i, state, is_new)).into();
        let after = bucket::with_state(before, state, clock.stamp(stay));
        // A line that does not change is not written back to memory.
        if after != before {
            words[UPPER] = after;
        }
    }
}
