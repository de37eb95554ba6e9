//! Replaces long `or` chains by lookups in sets.
//!
//! `host a or host b or …` is a chain of equality tests with a common successor
//! if they hold, each followed by the next test if not; `not` of that has
//! another successor. The tests are pure and have the same successor, so their
//! order does not matter: tests of one value are brought together, and if there
//! are enough of them, one set lookup replaces them all. Masked values are
//! separate values, so networks of one prefix length make one set.
//!
//! A test can take part if its block is entered only from the chain, and if
//! there is no other test in between: the bytes guarded by a length test must
//! not be read before it. A test for a divisor of 0 looks like a link of a
//! chain and is such a guard too, so values that divide by a value take no
//! part.

use forebay_packet::cancel;
use rustc_hash::FxHashMap;

use crate::ir::{
    Arithmetic, BlockId, Edge, Function, Predicate, Relation, SetId, Terminator, Value, ValueId,
};

/// The number of constants of one value from which on a set lookup replaces
/// comparisons. A lookup costs a back end a hash and a load, about as much as
/// three or four comparisons.
const MEMBERS: usize = 4;

/// Turns chains of `function`, which has no backward edges, into lookups. May
/// leave unreachable blocks. Returns whether there were any chains.
pub(super) fn gather(function: &mut Function) -> bool {
    let mut any = false;
    let mut entered = vec![0_u32; function.blocks.len()];
    for edge in function.blocks.iter().flat_map(|block| block.end.edges()) {
        entered[edge.target.0 as usize] += 1;
    }
    let divides = values_with_division(function);
    let mut taken = vec![false; function.blocks.len()];
    for index in 0..function.blocks.len() {
        cancel::check();
        if taken[index] {
            continue;
        }
        let Some(chain) = Chain::from(function, BlockId(index as u32), &entered, &divides) else {
            continue;
        };
        for block in &chain.blocks {
            taken[block.0 as usize] = true;
        }
        if chain.tests() < chain.blocks.len() {
            chain.replace(function);
            any = true;
        }
    }
    any
}

/// By value: whether computing it divides by a value.
fn values_with_division(function: &Function) -> Vec<bool> {
    let mut divides: Vec<bool> = Vec::with_capacity(function.values().len());
    for &value in function.values() {
        let own = match value {
            Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, right, .. } => {
                function.as_constant(right).is_none()
            }
            _ => false,
        };
        divides.push(own || value.operands().any(|operand| divides[operand.0 as usize]));
    }
    divides
}

/// An equality test: one link.
struct Link {
    value: ValueId,
    constants: Vec<u32>,
    /// The edge taken if the value is one of the constants.
    hit: Edge,
    miss: Edge,
}

impl Link {
    fn of(function: &mut Function, block: BlockId, divides: &[bool]) -> Option<Self> {
        let Terminator::Test { predicate, then, otherwise } = &function.block(block).end else {
            return None;
        };
        let (then, otherwise) = (then.clone(), otherwise.clone());
        if predicate.operands().any(|value| divides[value.0 as usize]) {
            return None;
        }
        match *predicate {
            Predicate::Compare { relation: Relation::Equal, left, right } => {
                let constants = vec![function.as_constant(right)?];
                Some(Self { value: left, constants, hit: then, miss: otherwise })
            }
            Predicate::Compare { relation: Relation::AnyBit, left, right } => {
                function.as_constant(right)?;
                let masked = Value::Binary { op: Arithmetic::And, left, right };
                let value = function.value(masked);
                Some(Self { value, constants: vec![0], hit: otherwise, miss: then })
            }
            Predicate::Member { value, set } => {
                let constants = function.sets[set.0 as usize].clone();
                Some(Self { value, constants, hit: then, miss: otherwise })
            }
            Predicate::Compare { .. } | Predicate::Captured { .. } => None,
        }
    }
}

struct Chain {
    blocks: Vec<BlockId>,
    /// Values in order of appearance, with the constants they are compared
    /// with.
    groups: Vec<(ValueId, Vec<u32>)>,
    hit: Edge,
    /// The edge taken if the last link fails.
    miss: Edge,
}

impl Chain {
    /// The chain that starts at `block`.
    fn from(
        function: &mut Function,
        block: BlockId,
        entered: &[u32],
        divides: &[bool],
    ) -> Option<Self> {
        let first = Link::of(function, block, divides)?;
        let mut places = FxHashMap::default();
        let mut chain = Self {
            blocks: vec![block],
            groups: vec![(first.value, first.constants)],
            hit: first.hit,
            miss: first.miss,
        };
        loop {
            let next = chain.miss.target;
            let alone = entered[next.0 as usize] == 1;
            if !alone || !function.block(next).parameters.is_empty() {
                break;
            }
            let Some(link) = Link::of(function, next, divides) else { break };
            if link.hit != chain.hit {
                break;
            }
            if chain.blocks.len() == 1 {
                places.insert(chain.groups[0].0, 0);
            }
            let place = *places.entry(link.value).or_insert(chain.groups.len());
            if place == chain.groups.len() {
                chain.groups.push((link.value, Vec::new()));
            }
            chain.groups[place].1.extend(link.constants);
            chain.blocks.push(next);
            chain.miss = link.miss;
        }
        for (_, constants) in &mut chain.groups {
            constants.sort_unstable();
            constants.dedup();
        }
        Some(chain)
    }

    /// The number of tests after the replacement.
    fn tests(&self) -> usize {
        self.groups.iter().map(|(_, constants)| tests(constants)).sum()
    }

    /// Writes the tests of the groups to the first blocks of the chain.
    fn replace(self, function: &mut Function) {
        let mut predicates = Vec::new();
        for (value, constants) in self.groups {
            if tests(&constants) == 1 && constants.len() > 1 {
                let set = SetId(function.sets.len() as u32);
                function.sets.push(constants);
                predicates.push(Predicate::Member { value, set });
            } else {
                for constant in constants {
                    let right = function.constant(constant);
                    let relation = Relation::Equal;
                    predicates.push(Predicate::Compare { relation, left: value, right });
                }
            }
        }
        let last = predicates.len() - 1;
        for (index, predicate) in predicates.into_iter().enumerate() {
            let otherwise =
                if index == last { self.miss.clone() } else { Edge::to(self.blocks[index + 1]) };
            function.blocks[self.blocks[index].0 as usize].end =
                Terminator::Test { predicate, then: self.hit.clone(), otherwise };
        }
    }
}

/// The number of tests for a value and its constants.
fn tests(constants: &[u32]) -> usize {
    if constants.len() < MEMBERS { constants.len() } else { 1 }
}
