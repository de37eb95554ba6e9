//! Length tests where their loads are used.
//!
//! A program loads, and so ends early if the bytes were not captured, also what
//! no test needs any more once others are decided. libpcap's optimiser drops
//! such loads (`opt_deadstores` in `optimize.c`). That is no simplification: a
//! packet that was cut short is judged by what comes later.

use forebay_packet::cancel;

use crate::ir::{Block, BlockId, Edge, Function, Predicate, Terminator, Value, ValueId};

/// Moves each length test that rejects the packet where it fails to the tests
/// that use the loads it vouches for; drops it where there are none, and tests
/// that decide nothing. `function`
/// has no backward edges. Does nothing to one with parameters.
pub(super) fn guard_uses(function: &mut Function) {
    if function.blocks.iter().any(|block| !block.parameters.is_empty()) {
        return;
    }
    let leads = leads(function);
    let guards = |(index, block): (usize, &Block)| {
        cancel::check();
        match &block.end {
            Terminator::Test { predicate, .. } if leads[index].0 as usize == index => {
                guards_of(function, *predicate)
            }
            _ => Vec::new(),
        }
    };
    let guards: Vec<Vec<Predicate>> = function.blocks.iter().enumerate().map(guards).collect();
    let mut places = Vec::with_capacity(function.blocks.len());
    let mut next = 0;
    for guards in &guards {
        places.push(BlockId(next));
        next += guards.len() as u32 + 1;
    }
    let reject = Edge::to(BlockId(next));
    let mut blocks = Vec::with_capacity(next as usize + 1);
    let mut push = |end: Terminator| blocks.push(Block { parameters: Vec::new(), end });
    for (number, (block, guards)) in function.blocks.iter().zip(guards).enumerate() {
        let first = places[number].0;
        for (index, predicate) in guards.into_iter().enumerate() {
            let then = Edge::to(BlockId(first + index as u32 + 1));
            push(Terminator::Test { predicate, then, otherwise: reject.clone() });
        }
        let mut end = match leads[number] {
            BlockId(own) if own as usize == number => block.end.clone(),
            other => Terminator::Jump(Edge::to(other)),
        };
        for edge in end.edges_mut() {
            edge.target = places[leads[edge.target.0 as usize].0 as usize];
        }
        push(end);
    }
    let zero = function.constant(0);
    blocks.push(Block { parameters: Vec::new(), end: Terminator::Return(zero) });
    function.blocks = blocks;
}

/// The block that decides next from each block on: itself, unless it is a jump,
/// a length test that rejects the packet where it fails, or a test of which both
/// ways lead to one block. libpcap's optimiser drops the last as well, with what
/// they load (`opt_j` in `optimize.c`).
fn leads(function: &Function) -> Vec<BlockId> {
    let mut leads: Vec<BlockId> = (0..function.blocks.len() as u32).map(BlockId).collect();
    for index in (0..leads.len()).rev() {
        let block = &function.blocks[index];
        let lead = |edge: &Edge| leads[edge.target.0 as usize];
        leads[index] = match (&block.end, rejecting_guard(function, block)) {
            (_, Some(then)) | (Terminator::Jump(then), _) => lead(then),
            (Terminator::Test { then, otherwise, .. }, _) if lead(then) == lead(otherwise) => {
                lead(then)
            }
            _ => leads[index],
        };
    }
    leads
}

/// Where a block goes on if it is a length test that rejects the packet where
/// it fails.
pub(super) fn rejecting_guard<'a>(function: &Function, block: &'a Block) -> Option<&'a Edge> {
    match &block.end {
        Terminator::Test { predicate: Predicate::Captured { .. }, then, otherwise } => {
            let Terminator::Return(value) = function.block(otherwise.target).end else {
                return None;
            };
            (function.as_constant(value) == Some(0)).then_some(then)
        }
        _ => None,
    }
}

/// The length tests that vouch for what `predicate` loads, in the order of the
/// loads.
fn guards_of(function: &Function, predicate: Predicate) -> Vec<Predicate> {
    let mut loads: Vec<ValueId> = Vec::new();
    let mut stack: Vec<ValueId> = predicate.operands().collect();
    let mut seen = rustc_hash::FxHashSet::default();
    while let Some(id) = stack.pop() {
        if seen.insert(id) {
            let value = function.get(id);
            stack.extend(value.operands());
            if matches!(value, Value::Load { .. }) {
                loads.push(id);
            }
        }
    }
    loads.sort_unstable();
    let guard = |&id: &ValueId| match function.get(id) {
        Value::Load { width, index, displacement } => {
            // A load beyond all packets has no value: see `fold`.
            let bytes = displacement.saturating_add(width.bytes());
            Predicate::Captured { index, bytes }
        }
        _ => Predicate::Captured { index: None, bytes: 0 },
    };
    loads.iter().map(guard).collect()
}
