//! Rules 7 and 8: what holds on every way to where a value is used.
//!
//! The rules are about three things only: how many bytes were captured, from
//! the packet's start and behind the indices of loads; which divisors are not
//! 0; and which parameters have values. A [`State`] has those. It is changed by
//! the tests on the way, and where ways meet, what holds on all of them stays.
//! That is less than what `simplify` knows. It shares with `simplify` only the
//! bounds that the shape of a value sets, the maps, and the search for blocks
//! that are reached.
//!
//! Blocks are visited in order; a backward edge that takes something away from
//! a block has it visited again. A number that changes at a block visited often
//! is given up, so that loops come to an end.

use super::IrError;
use crate::ir::bounds::Bounds;
use crate::ir::map::{Map, same};
use crate::ir::{Arithmetic, BlockId, Edge, Function, Predicate, Terminator, Value, ValueId};
use forebay_packet::cancel;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Visits of one block after which a number that still changes is given up.
const VISITS: u32 = 4;

/// Entries of maps looked at, for each block of the function: those noted when
/// `captured` grows, and those that two ways do not share where they meet.
/// Filters have few indices and divisors and take fewer than one; what lies
/// beyond is forgotten, so that a function made to have many may be refused,
/// but not take time that grows with the square of its size.
const STEPS_PER_BLOCK: usize = 64;

/// Blocks up to which a function is allowed as much as one of that many.
const SMALL: usize = 1000;

/// What holds at the start of a block or along an edge.
#[derive(Clone, Default, PartialEq)]
struct State {
    /// Bytes captured, at least.
    captured: u64,
    /// Bytes captured behind indices of loads, at least.
    behind: Map<u64>,
    /// The divisors that are not 0.
    divisors: Map<()>,
    /// The parameters that have values.
    defined: Map<()>,
}

impl State {
    /// What holds in both; numbers that differ are given up if `settle`.
    fn meet(&self, other: &Self, settle: bool, steps: &mut usize) -> Self {
        let least = |a: u64, b: u64| if settle { same(a, b) } else { Some(a.min(b)) };
        // Dominance has to be exact: parameters are few.
        let mut all = usize::MAX;
        Self {
            captured: least(self.captured, other.captured).unwrap_or(0),
            behind: self.behind.intersection(&other.behind, least, steps),
            divisors: self.divisors.intersection(&other.divisors, same, steps),
            defined: self.defined.intersection(&other.defined, same, &mut all),
        }
    }
}

/// What using a value asks for, and all that it is computed from.
#[derive(Clone, Copy, Default)]
struct Asks {
    /// Bytes from the packet's start.
    bytes: u64,
    /// Something else as well: bytes behind an index, a divisor that its shape
    /// allows to be 0, a parameter.
    more: bool,
}

/// Verifies rules 7 and 8 of `function`, which keeps all others.
pub(super) fn verify(function: &Function) -> Result<(), IrError> {
    let mut ways = Ways::new(function);
    ways.find();
    ways.check()
}

struct Ways<'a> {
    function: &'a Function,
    bounds: Vec<Bounds>,
    asks: Vec<Asks>,
    /// The indices of loads with the greatest number that each can be, least
    /// first.
    indices: Vec<(u32, ValueId)>,
    /// The bytes that loads ask for behind each index, at most.
    most: FxHashMap<ValueId, u64>,
    /// The divisors that may be 0 by their shape.
    is_divisor: FxHashSet<ValueId>,
    /// What holds in each block on the ways found so far.
    states: Vec<Option<State>>,
    steps: usize,
    /// The last use that each value was looked at for.
    seen: Vec<u32>,
    uses: u32,
    stack: Vec<ValueId>,
}

impl<'a> Ways<'a> {
    fn new(function: &'a Function) -> Self {
        let count = function.values().len();
        let bounds = Bounds::of_all(function);
        let mut asks: Vec<Asks> = Vec::with_capacity(count);
        let (mut most, mut is_divisor) = (FxHashMap::default(), FxHashSet::default());
        for &value in function.values() {
            let mut own = Asks::default();
            match value {
                Value::Load { index: None, width, displacement } => {
                    own.bytes = u64::from(displacement) + u64::from(width.bytes());
                }
                Value::Load { index: Some(index), width, displacement } => {
                    own.more = true;
                    let bytes = u64::from(displacement) + u64::from(width.bytes());
                    let most = most.entry(index).or_insert(bytes);
                    *most = bytes.max(*most);
                }
                Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, right, .. }
                    if bounds[right.0 as usize].low == 0 =>
                {
                    own.more = true;
                    is_divisor.insert(right);
                }
                Value::Parameter { .. } => own.more = true,
                Value::Binary { .. } | Value::Constant(_) | Value::WireLength => {}
            }
            for operand in value.operands() {
                let Asks { bytes, more } = asks[operand.0 as usize];
                own = Asks { bytes: own.bytes.max(bytes), more: own.more | more };
            }
            asks.push(own);
        }
        let high = |&index: &ValueId| (bounds[index.0 as usize].high, index);
        let mut indices: Vec<_> = most.keys().map(high).collect();
        indices.sort_unstable();
        let blocks = function.blocks.len();
        Self {
            function,
            bounds,
            asks,
            indices,
            most,
            is_divisor,
            states: vec![None; blocks],
            steps: STEPS_PER_BLOCK * blocks.max(SMALL),
            seen: vec![0; count],
            uses: 0,
            stack: Vec::new(),
        }
    }

    /// Finds what holds in every block.
    fn find(&mut self) {
        let mut visits = vec![0; self.states.len()];
        let mut queue = BTreeSet::from([0]);
        self.states[0] = Some(State::default());
        while let Some(index) = queue.pop_first() {
            visits[index] += 1;
            cancel::check();
            for (edge, state) in self.edges(index) {
                let target = edge.target.0 as usize;
                let joined = match &self.states[target] {
                    None => state,
                    Some(known) => {
                        let joined = known.meet(&state, visits[target] > VISITS, &mut self.steps);
                        if joined == *known {
                            continue;
                        }
                        joined
                    }
                };
                self.states[target] = Some(joined);
                queue.insert(target);
            }
        }
    }

    /// What holds in a block, whose parameters have their values.
    fn inside(&self, index: usize) -> Option<State> {
        let mut state = self.states[index].clone()?;
        for parameter in &self.function.blocks[index].parameters {
            state.defined.insert(parameter.0, ());
        }
        Some(state)
    }

    /// The edges out of a block and what holds there, before the parameters of
    /// the target have their new values.
    fn edges(&mut self, index: usize) -> impl Iterator<Item = (&'a Edge, State)> + use<'a> {
        let function = self.function;
        let end = &function.blocks[index].end;
        let mut states = [self.inside(index), None];
        if let (Terminator::Test { predicate, .. }, [state, other]) = (end, &mut states) {
            other.clone_from(state);
            for (state, holds) in [(state, true), (other, false)] {
                if let Some(state) = state {
                    self.learn(state, *predicate, holds);
                }
            }
        }
        end.edges().zip(states).filter_map(|(edge, state)| Some((edge, state?)))
    }

    /// Notes what follows from a predicate that holds, or does not.
    fn learn(&mut self, state: &mut State, predicate: Predicate, holds: bool) {
        // What it says of a divisor that is 0.
        let (value, of_zero) = match predicate {
            Predicate::Captured { index, bytes } => {
                if holds {
                    self.learn_captured(state, index, u64::from(bytes));
                }
                return;
            }
            Predicate::Compare { relation, left, right } => {
                let Some(constant) = self.function.as_constant(right) else { return };
                (left, relation.holds(0, constant))
            }
            Predicate::Member { value, set } => {
                (value, self.function.sets[set.0 as usize].binary_search(&0).is_ok())
            }
        };
        if of_zero != holds && self.is_divisor.contains(&value) {
            state.divisors.insert(value.0, ());
        }
    }

    fn learn_captured(&mut self, state: &mut State, index: Option<ValueId>, bytes: u64) {
        let mut captured = bytes;
        if let Some(index) = index {
            captured += u64::from(self.bounds[index.0 as usize].low);
            self.learn_behind(state, index, bytes);
        }
        if captured <= state.captured {
            return;
        }
        state.captured = captured;
        // Enough bytes for the greatest number that an index can be.
        for at in 0..self.indices.len() {
            let (high, index) = self.indices[at];
            let Some(bytes @ 1..) = captured.checked_sub(u64::from(high)) else { break };
            let Some(left) = self.steps.checked_sub(1) else { break };
            self.steps = left;
            self.learn_behind(state, index, bytes);
        }
    }

    fn learn_behind(&self, state: &mut State, index: ValueId, bytes: u64) {
        let Some(&most) = self.most.get(&index) else { return };
        let bytes = bytes.min(most);
        if state.behind.get(index.0).is_none_or(|known| known < bytes) {
            state.behind.insert(index.0, bytes);
        }
    }

    /// Checks every use of a value.
    fn check(&mut self) -> Result<(), IrError> {
        for (index, block) in self.function.blocks.iter().enumerate() {
            cancel::check();
            let Some(state) = self.inside(index) else { continue };
            match &block.end {
                Terminator::Return(value) => self.used(index, *value, &state)?,
                Terminator::Jump(_) => {}
                Terminator::Test { predicate, .. } => {
                    for value in predicate.operands() {
                        self.used(index, value, &state)?;
                    }
                }
            }
            if block.end.edges().all(|edge| edge.arguments.is_empty()) {
                continue;
            }
            for (edge, state) in self.edges(index) {
                for &value in &edge.arguments {
                    self.used(index, value, &state)?;
                }
            }
        }
        Ok(())
    }

    /// Checks the use of a value, and of all that it is computed from, in a
    /// block or on an edge out of it.
    fn used(&mut self, block: usize, value: ValueId, state: &State) -> Result<(), IrError> {
        self.uses += 1;
        self.stack.push(value);
        while let Some(value) = self.stack.pop() {
            let Asks { bytes, more } = self.asks[value.0 as usize];
            if !more && bytes <= state.captured {
                continue;
            }
            if std::mem::replace(&mut self.seen[value.0 as usize], self.uses) != self.uses {
                self.used_alone(block as u32, value, state)?;
                self.stack.extend(self.function.get(value).operands());
            }
        }
        Ok(())
    }

    /// Checks what a value itself asks for.
    fn used_alone(&self, block: u32, id: ValueId, state: &State) -> Result<(), IrError> {
        let name = |id| self.function.name(id);
        match self.function.get(id) {
            Value::Parameter { block: BlockId(owner), .. } => {
                if state.defined.get(id.0).is_none() {
                    return Err(IrError::NotDominated { block, value: name(id), owner });
                }
            }
            Value::Load { width, index, displacement } => {
                let bytes = u64::from(displacement) + u64::from(width.bytes());
                let captured = match index {
                    None => state.captured,
                    Some(index) => state.behind.get(index.0).unwrap_or(0),
                };
                if captured < bytes {
                    let load = self.function.definition(id);
                    return Err(IrError::Unguarded { block, value: name(id), load });
                }
            }
            Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, right, .. } => {
                if self.is_divisor.contains(&right) && state.divisors.get(right.0).is_none() {
                    return Err(IrError::Divisor { block, value: name(id), divisor: name(right) });
                }
            }
            Value::Binary { .. } | Value::Constant(_) | Value::WireLength => {}
        }
        Ok(())
    }
}
