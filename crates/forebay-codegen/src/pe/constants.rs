//! Vector constants of the loops.

use super::elements::Element;
use super::layout::{Layout, Plane};
use crate::emit::pool::Pool;
use crate::mir::{Address, Base, Index, InvariantSource, LoopBody, Operand, PoolId, Reg, RegClass};
use iced_x86::Code;
use rustc_hash::FxHashMap;

/// The constants of a loop. Those used most are kept in registers, the others read from memory each
/// time.
pub(super) struct Constants {
    load: Code,
    most: usize,
    /// Those that may be memory operands.
    operands: Vec<PoolId>,
    held: Vec<(PoolId, Reg)>,
}

impl Constants {
    /// `load` is the instruction that loads a whole vector. `most` constants are kept in registers,
    /// or more if operands that cannot be memory need them.
    pub(super) fn new(load: Code, most: usize) -> Self {
        Self { load, most, operands: Vec::new(), held: Vec::new() }
    }

    /// The constant as an operand: memory, until [`Constants::settle`].
    pub(super) fn operand(&mut self, id: PoolId) -> Operand {
        if !self.operands.contains(&id) {
            self.operands.push(id);
        }
        Operand::Memory(in_pool(id))
    }

    /// The constant in a register, for operands that cannot be memory.
    pub(super) fn register(&mut self, body: &mut LoopBody, id: PoolId) -> Reg {
        if let Some((_, reg)) = self.held.iter().find(|(known, _)| *known == id) {
            return *reg;
        }
        let reg = body.reg(RegClass::Vector);
        let source = InvariantSource::Vector(self.load, id);
        body.invariants.push(crate::mir::Invariant { reg, source });
        self.held.push((id, reg));
        reg
    }

    /// Keeps the constants used most in registers.
    pub(super) fn settle(mut self, body: &mut LoopBody) {
        let mut uses: FxHashMap<PoolId, usize> = FxHashMap::default();
        for operand in body.ops.iter().flat_map(|op| &op.operands) {
            if let Operand::Memory(Address { base: Base::Pool(id), .. }) = operand {
                *uses.entry(*id).or_default() += 1;
            }
        }
        let mut by_use = std::mem::take(&mut self.operands);
        by_use.sort_by_key(|id| std::cmp::Reverse(uses.get(id)));
        for id in by_use {
            if self.held.len() < self.most {
                self.register(body, id);
            }
        }
        for op in &mut body.ops {
            for operand in &mut op.operands {
                let held = |(id, _): &&(PoolId, Reg)| *operand == Operand::Memory(in_pool(*id));
                if let Some(&(_, reg)) = self.held.iter().find(held) {
                    *operand = Operand::Reg(reg);
                    op.units = op.units.without_load();
                }
            }
        }
    }
}

/// A whole constant of the pool as a memory operand.
pub(super) fn in_pool(id: PoolId) -> Address {
    Address { base: Base::Pool(id), index: Index::None, displacement: 0, broadcast: false }
}

/// A vector that repeats `element`.
pub(super) fn repeated(pool: &mut Pool, element: &[u8], vector: usize) -> PoolId {
    pool.add(&element.repeat(vector / element.len()), vector)
}

/// By byte of a plane's vector: the byte of its source.
pub(super) fn shuffle(layout: &Layout, plane: &Plane, pool: &mut Pool) -> PoolId {
    let share = (layout.vector / layout.packets) as usize;
    let chunks = &layout.sources[plane.source].chunks;
    let mut bytes = vec![0x80; layout.vector as usize];
    for element in &plane.elements {
        let start = element.lane * plane.lane_bytes as usize;
        for (position, wanted) in element.bytes.iter().enumerate() {
            let Some(wanted) = *wanted else { continue };
            let own_chunk = (start + position) / 16;
            let holds = |chunk: usize| {
                chunks.get(chunk).is_some_and(|&at| wanted >= at && wanted < at + 16)
            };
            let chunk = if holds(own_chunk) {
                own_chunk
            } else {
                (0..chunks.len()).find(|&chunk| holds(chunk)).unwrap_or(own_chunk)
            };
            let within = wanted.wrapping_sub(chunks[chunk]) as usize;
            for packet in 0..layout.packets as usize {
                let first = if layout.merges() { 0 } else { packet * share };
                let from = first + chunk * 16 + within;
                // `vpshufb` takes positions within a chunk of 16 bytes.
                let index = if layout.any_byte { from } else { from % 16 };
                bytes[packet * share + start + position] = index as u8;
            }
        }
    }
    pool.add(&bytes, layout.vector as usize)
}

/// A vector with the number of each element in its lane, 0 elsewhere.
pub(super) fn lanes(
    layout: &Layout,
    plane: &Plane,
    pool: &mut Pool,
    number: impl Fn(&Element) -> u32,
) -> PoolId {
    let share = (layout.vector / layout.packets) as usize;
    let width = plane.lane_bytes as usize;
    let mut bytes = vec![0; layout.vector as usize];
    for element in &plane.elements {
        for packet in 0..layout.packets as usize {
            let start = packet * share + element.lane * width;
            let number = number(element).to_le_bytes();
            bytes[start..start + width].copy_from_slice(&number[..width]);
        }
    }
    pool.add(&bytes, layout.vector as usize)
}

/// A bit for each byte of the vector that a plane's shuffle fills.
pub(super) fn filled(layout: &Layout, plane: &Plane) -> u64 {
    let share = (layout.vector / layout.packets) as usize;
    let mut filled = 0;
    for element in &plane.elements {
        for (position, byte) in element.bytes.iter().enumerate() {
            if byte.is_some() {
                let at = element.lane * plane.lane_bytes as usize + position;
                filled |= (0..layout.packets as usize)
                    .map(|packet| 1u64 << (packet * share + at))
                    .sum::<u64>();
            }
        }
    }
    filled
}

/// Whether every byte that is filled is compared in full, and no other is.
pub(super) fn whole_bytes(plane: &Plane) -> bool {
    plane.elements.iter().all(|element| {
        element.bytes.iter().enumerate().all(|(position, byte)| {
            let mask = element.mask >> (8 * position) & 0xff;
            if byte.is_some() { mask == 0xff } else { mask == 0 }
        })
    })
}
