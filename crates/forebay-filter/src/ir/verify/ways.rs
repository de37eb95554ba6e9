//! Rules 7 and 8: what holds on every path to a use of a value.
//!
//! The rules concern three things only: how many bytes were captured, from the
//! packet's start and behind the indices of loads; which divisors are not 0;
//! and which parameters have values. [`Guarantees`] has those. Tests on the path
//! change it, and where paths merge, it keeps what holds on all of them.
//! That is less than the facts of `simplify`. The shared code is limited to the
//! bounds of values, the maps, and the search for reachable blocks.
//!
//! Blocks are visited in order; a backward edge that removes something from a
//! block's state has it visited again. A number that still changes at a block
//! visited often is dropped, so that loops converge.

use super::error::IrError;
use crate::ir::bounds::Bounds;
use crate::ir::map::{Map, same};
use crate::ir::{Arithmetic, BlockId, Edge, Function, Predicate, Terminator, Value, ValueId};
use forebay_packet::cancel;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Visits of one block after which a changing number is dropped.
const VISITS: u32 = 4;

/// Map entries examined, for each block of the function: those added when
/// `captured` grows, and those that differ where two paths merge. Filters have
/// few indices and divisors and need fewer than one; entries beyond are
/// dropped. A function constructed to have many may thus be rejected, but does
/// not take quadratic time.
const STEPS_PER_BLOCK: usize = 64;

/// Smaller functions get the bound of a function of this many blocks.
const SMALL: usize = 1000;

/// What holds at the start of a block or along an edge.
#[derive(Clone, Default, PartialEq)]
struct Guarantees {
    /// The least number of captured bytes.
    captured: u64,
    /// The least number of captured bytes behind indices of loads.
    behind: Map<u64>,
    /// The divisors that are not 0.
    divisors: Map<()>,
    /// The parameters that have values.
    defined: Map<()>,
}

impl Guarantees {
    /// What holds in both; drops numbers that differ if `settle`.
    fn meet(&self, other: &Self, settle: bool, steps: &mut usize) -> Self {
        let least = |a: u64, b: u64| if settle { same(a, b) } else { Some(a.min(b)) };
        // Dominance must be exact; parameters are few.
        let mut all = usize::MAX;
        Self {
            captured: least(self.captured, other.captured).unwrap_or(0),
            behind: self.behind.intersection(&other.behind, least, steps),
            divisors: self.divisors.intersection(&other.divisors, same, steps),
            defined: self.defined.intersection(&other.defined, same, &mut all),
        }
    }
}

/// Requirements of a value, and of all that it is computed from.
#[derive(Clone, Copy, Default)]
struct Asks {
    /// Bytes from the packet's start.
    bytes: u64,
    /// Whether there are others: bytes behind an index, a divisor that may be 0
    /// by its bounds, a parameter.
    more: bool,
}

/// Verifies rules 7 and 8 of `function`, which must satisfy all others.
pub(super) fn verify(function: &Function) -> Result<(), IrError> {
    let mut ways = Ways::new(function);
    ways.find();
    ways.check()
}

struct Ways<'a> {
    function: &'a Function,
    bounds: Vec<Bounds>,
    asks: Vec<Asks>,
    /// The indices of loads with their upper bounds, lowest bound first.
    indices: Vec<(u32, ValueId)>,
    /// The most bytes that loads need behind each index.
    most: FxHashMap<ValueId, u64>,
    /// The divisors that may be 0 by their bounds.
    is_divisor: FxHashSet<ValueId>,
    /// By block: what holds on the paths found so far.
    states: Vec<Option<Guarantees>>,
    steps: usize,
    /// By value: the last use for which it was checked.
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

    /// Computes the state of every block.
    fn find(&mut self) {
        let mut visits = vec![0; self.states.len()];
        let mut queue = BTreeSet::from([0]);
        self.states[0] = Some(Guarantees::default());
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

    /// What holds inside a block, whose parameters have their values.
    fn inside(&self, index: usize) -> Option<Guarantees> {
        let mut state = self.states[index].clone()?;
        for parameter in &self.function.blocks[index].parameters {
            state.defined.insert(parameter.0, ());
        }
        Some(state)
    }

    /// The edges out of a block and what holds on them, before the parameters
    /// of the target are assigned.
    fn edges(&mut self, index: usize) -> impl Iterator<Item = (&'a Edge, Guarantees)> + use<'a> {
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

    /// Adds what follows from the outcome of a predicate.
    fn learn(&mut self, state: &mut Guarantees, predicate: Predicate, holds: bool) {
        // The outcome for a divisor of 0.
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

    fn learn_captured(&mut self, state: &mut Guarantees, index: Option<ValueId>, bytes: u64) {
        let mut captured = bytes;
        if let Some(index) = index {
            captured += u64::from(self.bounds[index.0 as usize].low);
            self.learn_behind(state, index, bytes);
        }
        if captured <= state.captured {
            return;
        }
        state.captured = captured;
        // Enough bytes for the upper bound of an index.
        for at in 0..self.indices.len() {
            let (high, index) = self.indices[at];
            let Some(bytes @ 1..) = captured.checked_sub(u64::from(high)) else { break };
            let Some(left) = self.steps.checked_sub(1) else { break };
            self.steps = left;
            self.learn_behind(state, index, bytes);
        }
    }

    fn learn_behind(&self, state: &mut Guarantees, index: ValueId, bytes: u64) {
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

    /// Checks a use of a value, and of all that it is computed from, in a block
    /// or on an edge out of it.
    fn used(&mut self, block: usize, value: ValueId, state: &Guarantees) -> Result<(), IrError> {
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

    /// Checks the requirements of the value itself.
    fn used_alone(&self, block: u32, id: ValueId, state: &Guarantees) -> Result<(), IrError> {
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
