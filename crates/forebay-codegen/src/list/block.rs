//! The operations of one block, in the order of a list schedule.
//!
//! The operations form a dependence graph. It is scheduled as Fisher and others
//! describe ("Some design principles for an instruction set processor with list
//! scheduling", and any compiler text since): cycle by cycle; of the operations
//! whose operands are ready, those with the longest path to the end of the
//! block come first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::select::Key;
use crate::machine::{ISSUE_WIDTH, latency};

/// Loads issued in one cycle.
const LOADS: u32 = 3;

/// The method of computing a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A load in the packet's byte order.
    Load,
    /// A load with the byte order reversed.
    LoadReversed,
    /// The bytes of a load that is in a register, reversed.
    Reverse,
    /// The captured length.
    Length,
    /// The length on the wire.
    WireLength,
    /// A constant.
    Constant,
    /// A load from its slot in the frame.
    Slot,
    /// Arithmetic.
    Binary,
}

impl Work {
    fn is_load(self) -> bool {
        matches!(
            self,
            Self::Load | Self::LoadReversed | Self::Length | Self::WireLength | Self::Slot
        )
    }

    /// Cycles until the result may be used.
    fn latency(self, load_latency: u8) -> u32 {
        u32::from(match self {
            Self::Load | Self::Length | Self::Slot => load_latency,
            Self::LoadReversed => load_latency + latency::SIMPLE,
            Self::WireLength => 2 * load_latency,
            Self::Constant => 0,
            Self::Reverse | Self::Binary => latency::SIMPLE,
        })
    }
}

/// An operation of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// The key that it computes.
    pub key: Key,
    pub work: Work,
    /// The keys that it reads from registers.
    pub sources: [Option<Key>; 2],
}

/// Sorts `ops` into the order of a list schedule. Each must come after its
/// operands.
pub(crate) fn schedule(ops: &mut Vec<Op>, load_latency: u8) {
    if ops.len() < 2 {
        return;
    }
    let graph = Dependences::new(ops, load_latency);
    let order = graph.order(ops, load_latency);
    *ops = order.into_iter().map(|index| ops[index as usize]).collect();
}

struct Dependences {
    /// Cycles from each operation's issue to the end of the block.
    height: Vec<u32>,
    /// By operation: the number of its operands that are computed in the block.
    waits: Vec<u32>,
    /// Pairs of an operation and a reader of its result, ordered by the
    /// operation.
    readers: Vec<(u32, u32)>,
}

impl Dependences {
    fn new(ops: &[Op], load_latency: u8) -> Self {
        let mut places: Vec<(Key, u32)> =
            ops.iter().enumerate().map(|(index, op)| (op.key, index as u32)).collect();
        places.sort_unstable();
        let mut waits = vec![0; ops.len()];
        let mut readers = Vec::with_capacity(ops.len());
        for (index, op) in ops.iter().enumerate() {
            for source in op.sources.into_iter().flatten() {
                if let Ok(found) = places.binary_search_by_key(&source, |&(key, _)| key) {
                    readers.push((places[found].1, index as u32));
                    waits[index] += 1;
                }
            }
        }
        readers.sort_unstable();
        let mut height = vec![0; ops.len()];
        for &(read, reader) in readers.iter().rev() {
            let below = height[reader as usize] + ops[reader as usize].work.latency(load_latency);
            height[read as usize] = below.max(height[read as usize]);
        }
        Self { height, waits, readers }
    }

    fn readers(&self, op: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.readers.partition_point(|&(read, _)| read < op);
        self.readers[start..].iter().take_while(move |&&(read, _)| read == op).map(|&(_, to)| to)
    }

    fn order(mut self, ops: &[Op], load_latency: u8) -> Vec<u32> {
        let priority = |height: &[u32], op: u32| {
            let latency = ops[op as usize].work.latency(load_latency);
            (height[op as usize] + latency, Reverse(op))
        };
        let mut ready: BinaryHeap<(u32, Reverse<u32>)> = (0..ops.len() as u32)
            .filter(|&op| self.waits[op as usize] == 0)
            .map(|op| priority(&self.height, op))
            .collect();
        // Operations with operands not ready yet: the cycle, then the number.
        let mut waiting: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
        let mut earliest = vec![0_u32; ops.len()];
        let mut order = Vec::with_capacity(ops.len());
        let mut put_off = Vec::new();
        let mut cycle = 0;
        while order.len() < ops.len() {
            while let Some(&Reverse((at, op))) = waiting.peek()
                && at <= cycle
            {
                waiting.pop();
                ready.push(priority(&self.height, op));
            }
            let (mut slots, mut loads) = (ISSUE_WIDTH, LOADS);
            while slots > 0
                && let Some((height, Reverse(op))) = ready.pop()
            {
                let work = ops[op as usize].work;
                if work.is_load() {
                    if loads == 0 {
                        put_off.push((height, Reverse(op)));
                        continue;
                    }
                    loads -= 1;
                }
                slots -= 1;
                order.push(op);
                let done = cycle + work.latency(load_latency);
                for reader in self.readers(op).collect::<Vec<_>>() {
                    let at = &mut earliest[reader as usize];
                    *at = done.max(*at);
                    self.waits[reader as usize] -= 1;
                    if self.waits[reader as usize] == 0 {
                        waiting.push(Reverse((*at, reader)));
                    }
                }
            }
            ready.extend(put_off.drain(..));
            cycle = match waiting.peek() {
                Some(&Reverse((at, _))) if ready.is_empty() => at.max(cycle + 1),
                _ => cycle + 1,
            };
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(key: u32, work: Work, sources: [Option<u32>; 2]) -> Op {
        Op { key: Key(key), work, sources: sources.map(|source| source.map(Key)) }
    }

    #[test]
    fn the_longest_way_goes_first_and_operands_before_what_reads_them() {
        let mut ops = vec![
            op(2, Work::Constant, [None, None]),
            op(3, Work::Load, [None, None]),
            op(4, Work::Binary, [Some(3), None]),
            op(5, Work::Load, [Some(4), None]),
            op(7, Work::Load, [None, None]),
            op(8, Work::Binary, [Some(5), Some(7)]),
        ];
        schedule(&mut ops, 5);
        let order: Vec<u32> = ops.iter().map(|op| op.key.0).collect();
        assert_eq!(order, [3, 7, 2, 4, 5, 8]);
    }

    #[test]
    fn a_long_chain_keeps_its_order() {
        let mut ops: Vec<Op> =
            (0..5000).map(|n| op(n + 10, Work::Binary, [(n > 0).then_some(n + 9), None])).collect();
        schedule(&mut ops, 5);
        assert!(ops.windows(2).all(|pair| pair[0].key < pair[1].key));
    }
}
