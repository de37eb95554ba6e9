//! Rules 7 and 8: what holds on every way to where a value is used.
//!
//! Blocks are visited in order with what is known, and which parameters have
//! values, on all ways there found so far; a backward edge that takes something
//! away from a block has it visited again. An interval that changes at a block
//! visited often is given up, so that loops come to an end.
//!
//! Where ways meet, the facts of each are made one, and something that each
//! knows in its own way, one by a test of the index, another by a test of more
//! bytes than the index can reach, is lost. A value that looks unguarded is
//! therefore traced back along all ways before it is called so.

use super::IrError;
use crate::ir::facts::{Facts, Map, Subject};
use crate::ir::{Arithmetic, BlockId, Edge, Function, Terminator, Value, ValueId};
use forebay_packet::cancel;
use std::collections::BTreeSet;

/// Visits of one block after which an interval that still changes is given up.
const VISITS: u32 = 4;

/// What is known on the ways to a block or along an edge.
#[derive(Clone)]
struct State {
    facts: Facts,
    /// The parameters that have values.
    defined: Map<()>,
}

/// What using a value asks for.
#[derive(Clone, Copy)]
enum Need {
    /// At least so many bytes were captured, behind an index if there is one.
    Captured(Option<ValueId>, u64),
    NotZero(ValueId),
}

impl Need {
    fn is_met(self, facts: &Facts, subject: &Subject) -> bool {
        match self {
            Self::Captured(index, bytes) => facts.has_captured(subject, index, bytes),
            Self::NotZero(divisor) => facts.is_not_zero(subject, divisor),
        }
    }
}

/// Verifies rules 7 and 8 of `function`, which keeps all others.
pub(super) fn verify(function: &Function) -> Result<(), IrError> {
    let mut ways = Ways {
        function,
        subject: Subject::new(function),
        states: vec![None; function.blocks.len()],
        demanding: demanding(function),
        seen: vec![0; function.values().len()],
        uses: 0,
    };
    ways.find();
    ways.check()
}

/// For each value, whether using it asks for anything.
fn demanding(function: &Function) -> Vec<bool> {
    let mut demanding: Vec<bool> = Vec::with_capacity(function.values().len());
    for &value in function.values() {
        let own = matches!(
            value,
            Value::Load { .. }
                | Value::Parameter { .. }
                | Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, .. }
        );
        demanding.push(own || value.operands().any(|operand| demanding[operand.0 as usize]));
    }
    demanding
}

struct Ways<'a> {
    function: &'a Function,
    subject: Subject<'a>,
    /// What is known in each block; nothing if no packet comes there.
    states: Vec<Option<State>>,
    demanding: Vec<bool>,
    /// The last use that each value was looked at for.
    seen: Vec<u32>,
    uses: u32,
}

impl Ways<'_> {
    /// Finds what is known in every block.
    fn find(&mut self) {
        let mut visits = vec![0; self.states.len()];
        let mut queue = BTreeSet::from([0]);
        self.states[0] = Some(State { facts: Facts::none(), defined: Map::default() });
        while let Some(index) = queue.pop_first() {
            visits[index] += 1;
            cancel::check();
            for (edge, mut state) in self.edges(index) {
                let target = edge.target.0 as usize;
                let parameters = &self.function.blocks[target].parameters;
                state.facts.pass(&self.subject, parameters, &edge.arguments);
                let joined = match &self.states[target] {
                    None => state,
                    Some(known) => {
                        let mut steps = usize::MAX;
                        let facts = if visits[target] > VISITS {
                            known.facts.unchanged(&state.facts)
                        } else {
                            known.facts.join(&state.facts, &mut steps)
                        };
                        let both = |(), ()| Some(());
                        let defined = known.defined.intersection(&state.defined, both, &mut steps);
                        if facts == known.facts && defined == known.defined {
                            continue;
                        }
                        State { facts, defined }
                    }
                };
                self.states[target] = Some(joined);
                queue.insert(target);
            }
        }
    }

    /// The edges out of a block that packets can take, and what is known there,
    /// before the parameters of the target have their new values.
    fn edges(&mut self, index: usize) -> Vec<(Edge, State)> {
        let function = self.function;
        let Some(State { facts, mut defined }) = self.states[index].clone() else {
            return Vec::new();
        };
        for parameter in &function.blocks[index].parameters {
            defined.insert(parameter.0, ());
        }
        let end = &function.blocks[index].end;
        let mut edges = Vec::new();
        for (edge, holds) in end.edges().zip([true, false]) {
            let facts = match end {
                Terminator::Test { predicate, .. } => {
                    facts.assume(&mut self.subject, *predicate, holds)
                }
                _ => Some(facts.clone()),
            };
            if let Some(facts) = facts {
                edges.push((edge.clone(), State { facts, defined: defined.clone() }));
            }
        }
        edges
    }

    /// Checks every use of a value.
    fn check(&mut self) -> Result<(), IrError> {
        let function = self.function;
        for (index, block) in function.blocks.iter().enumerate() {
            cancel::check();
            let Some(mut state) = self.states[index].clone() else {
                continue;
            };
            for parameter in &block.parameters {
                state.defined.insert(parameter.0, ());
            }
            match &block.end {
                Terminator::Return(value) => self.used(index, *value, &state)?,
                Terminator::Jump(_) => {}
                Terminator::Test { predicate, .. } => {
                    for value in predicate.operands() {
                        self.used(index, value, &state)?;
                    }
                }
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
        let mut stack = vec![value];
        while let Some(value) = stack.pop() {
            let seen = std::mem::replace(&mut self.seen[value.0 as usize], self.uses);
            if seen == self.uses || !self.demanding[value.0 as usize] {
                continue;
            }
            self.used_alone(block, value, state)?;
            stack.extend(self.function.get(value).operands());
        }
        Ok(())
    }

    /// Checks what a value itself asks for.
    fn used_alone(&mut self, index: usize, id: ValueId, state: &State) -> Result<(), IrError> {
        let block = index as u32;
        let name = |id| self.function.name(id);
        match self.function.get(id) {
            Value::Parameter { block: BlockId(owner), .. } => {
                if state.defined.get(id.0).is_none() {
                    return Err(IrError::NotDominated { block, value: name(id), owner });
                }
            }
            Value::Load { width, index: base, displacement } => {
                let bytes = u64::from(displacement) + u64::from(width.bytes());
                if !self.is_met(index, Need::Captured(base, bytes), state) {
                    let load = self.function.definition(id);
                    return Err(IrError::Unguarded { block, value: name(id), load });
                }
            }
            Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, right, .. } => {
                if !self.is_met(index, Need::NotZero(right), state) {
                    return Err(IrError::Divisor { block, value: name(id), divisor: name(right) });
                }
            }
            Value::Binary { .. } | Value::Constant(_) | Value::WireLength => {}
        }
        Ok(())
    }

    /// Whether `need` is met where `state` holds, in block `index` or on an
    /// edge out of it.
    fn is_met(&mut self, index: usize, need: Need, state: &State) -> bool {
        need.is_met(&state.facts, &self.subject) || self.is_met_before(index, need)
    }

    /// Whether `need` is met somewhere on each way to block `index`, by facts
    /// that still hold there.
    fn is_met_before(&mut self, index: usize, need: Need) -> bool {
        let owners = self.owners(need);
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.states.len()];
        for (block, edge) in self
            .function
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(index, block)| block.end.edges().map(move |edge| (index, edge)))
        {
            before[edge.target.0 as usize].push(block);
        }
        let mut visited = vec![false; self.states.len()];
        let mut stack = vec![index];
        while let Some(index) = stack.pop() {
            if std::mem::replace(&mut visited[index], true) {
                continue;
            }
            // Farther back the parameters have values of another turn, or none.
            if index == 0 || owners.contains(&index) {
                return false;
            }
            for &previous in &before[index] {
                let edges = self.edges(previous);
                let met = |(edge, state): &(Edge, State)| {
                    edge.target.0 as usize != index || need.is_met(&state.facts, &self.subject)
                };
                if !edges.iter().all(met) {
                    stack.push(previous);
                }
            }
        }
        true
    }

    /// The blocks whose parameters the value is computed from that `need` is
    /// about.
    fn owners(&self, need: Need) -> Vec<usize> {
        let mut owners = Vec::new();
        let mut seen = vec![false; self.seen.len()];
        let mut stack = match need {
            Need::Captured(index, _) => Vec::from_iter(index),
            Need::NotZero(divisor) => vec![divisor],
        };
        while let Some(id) = stack.pop() {
            if !std::mem::replace(&mut seen[id.0 as usize], true) {
                let value = self.function.get(id);
                if let Value::Parameter { block, .. } = value {
                    owners.push(block.0 as usize);
                }
                stack.extend(value.operands());
            }
        }
        owners
    }
}
