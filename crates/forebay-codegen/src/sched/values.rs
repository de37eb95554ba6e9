//! The op that defines each register of a loop, and the ops that read it.

use crate::mir::{LoopBody, Reg};

/// Definitions and readers of registers. Invariants, which no op defines, are
/// left out.
#[derive(Clone, Debug)]
pub struct Values {
    maker: Vec<Option<u32>>,
    /// Registers read by each op, op by op.
    reads: Lists,
    /// Ops that read each register, register by register, ascending.
    readers: Lists,
}

impl Values {
    /// The values of `body`.
    #[must_use]
    pub fn of_loop(body: &LoopBody) -> Self {
        let mut maker = vec![None; body.classes.len()];
        for (number, op) in body.ops.iter().enumerate() {
            if let Some(dest) = op.dest {
                maker[dest.0 as usize] = Some(number as u32);
            }
        }
        let mut reads = Vec::with_capacity(3 * body.ops.len());
        for (number, op) in body.ops.iter().enumerate() {
            let first = reads.len();
            for reg in op.reads() {
                if maker[reg.0 as usize].is_some()
                    && !reads[first..].contains(&(number as u32, reg.0))
                {
                    reads.push((number as u32, reg.0));
                }
            }
        }
        let readers = Lists::new(maker.len(), reads.iter().map(|&(op, reg)| (reg, op)));
        let reads = Lists::new(body.ops.len(), reads.iter().copied());
        Self { maker, reads, readers }
    }

    /// The op that defines `reg`.
    #[must_use]
    pub fn maker(&self, reg: Reg) -> Option<u32> {
        self.maker[reg.0 as usize]
    }

    /// The registers that `op` reads, each once.
    pub fn reads(&self, op: usize) -> impl Iterator<Item = Reg> + '_ {
        self.reads.list(op).iter().map(|&reg| Reg(reg))
    }

    /// The ops that read `reg`, ascending.
    #[must_use]
    pub fn readers(&self, reg: Reg) -> &[u32] {
        self.readers.list(reg.0 as usize)
    }
}

/// Lists of numbers, stored one after another.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// Where each list starts, and the end.
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Pairs of a list's number, below `lists`, and an item of it; items of a
    /// list stay in order.
    pub(super) fn new(lists: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0u32; lists + 1];
        for (list, _) in pairs.clone() {
            starts[list as usize + 1] += 1;
        }
        for list in 0..lists {
            starts[list + 1] += starts[list];
        }
        let mut items = vec![0; starts[lists] as usize];
        let mut next = starts.clone();
        for (list, item) in pairs {
            items[next[list as usize] as usize] = item;
            next[list as usize] += 1;
        }
        Self { starts, items }
    }

    pub(super) fn list(&self, list: usize) -> &[u32] {
        &self.items[self.starts[list] as usize..self.starts[list + 1] as usize]
    }
}
