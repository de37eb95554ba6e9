//! What may be spent on cut trees, so that no list takes long to build.

/// What may be spent on a cut tree: work and memory, not time, so that the same list
/// becomes the same tree on every machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Entries that may still be looked at.
    work: usize,
    /// Entries that may still be put into leaves.
    room: usize,
}

impl Budget {
    /// Entries looked at, for each of a list. Lists of ClassBench take up to 90.
    const WORK: usize = 400;
    /// Entries of leaves, for each of a list. The trees taken for ClassBench's
    /// lists have up to 4.
    const ROOM: usize = 8;
    /// So many entries short lists are given too.
    const LEAST: usize = 4096;

    /// For a tree of so many entries.
    pub fn of(entries: usize) -> Self {
        let entries = entries.max(Self::LEAST);
        Self { work: entries.saturating_mul(Self::WORK), room: entries.saturating_mul(Self::ROOM) }
    }

    /// Takes work; false if there is none left.
    pub fn spend(&mut self, work: usize) -> bool {
        self.work = self.work.saturating_sub(work);
        !self.is_spent()
    }

    /// Takes room for so many entries of leaves.
    pub fn keep(&mut self, entries: usize) {
        self.room = self.room.saturating_sub(entries);
    }

    /// Whether the tree is not to be had within the budget.
    pub fn is_spent(&self) -> bool {
        self.work == 0 || self.room == 0
    }
}
