//! Long `or` chains become look-ups in sets.
//!
//! `host a or host b or …` is a chain of tests for equality, each of which goes
//! to the same place if it holds and to the next test if not; so is `not` of
//! that, which goes to another place. The tests are pure and all lead to one
//! place, so that their order does not matter: those of one value are brought
//! together, and where there are enough of them, one look-up in a set replaces
//! them all. Masked values are values of their own, so that networks of one
//! prefix length make one set.
//!
//! A test may take part if its block is entered only from the chain, and if
//! nothing else is tested in between: behind a length test the bytes it
//! vouches for may not be looked at earlier. A test for a divisor of 0 looks
//! like a link of a chain and is such a guard too, so that values with
//! division by a value take no part.

use forebay_packet::cancel;
use rustc_hash::FxHashMap;

use super::guards::rejecting_guard;
use crate::ir::{
    Arithmetic, BlockId, Edge, Function, Predicate, Relation, SetId, Terminator, Value, ValueId,
};

/// Constants of one value from which on a set is looked up in place of so many
/// comparisons. A look-up costs a back end a hash and a load, about as much as
/// three or four comparisons.
const MEMBERS: usize = 4;

/// Turns chains of `function`, which has no backward edges, into look-ups.
/// Blocks may be left without an edge to them. Says whether there were any.
pub(super) fn gather(function: &mut Function) -> bool {
    gather_chains(function, Guards::End)
}

/// As [`gather`]. A test may also move up, past length tests that reject the
/// packet where they fail, to an earlier test of the same value. That is no
/// simplification: where one of those length tests fails, the packet is now
/// judged by a test that was behind it. It is what libpcap's optimiser does
/// (`or_pullup` in `optimize.c`).
pub(super) fn gather_across_guards(function: &mut Function) -> bool {
    gather_chains(function, Guards::Passed)
}

/// What length tests in a chain are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guards {
    /// Its end.
    End,
    /// Parts of it, if they reject the packet where they fail.
    Passed,
}

fn gather_chains(function: &mut Function, guards: Guards) -> bool {
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
        let Some(chain) = Chain::from(function, BlockId(index as u32), &entered, &divides, guards)
        else {
            continue;
        };
        for block in &chain.blocks {
            taken[block.0 as usize] = true;
        }
        if chain.is_better(guards) {
            chain.replace(function);
            any = true;
        }
    }
    any
}

/// For each value, whether it is computed with a division by a value.
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

/// A test for equality: one link.
struct Link {
    value: ValueId,
    constants: Vec<u32>,
    /// Taken when the value is one of the constants.
    hit: Edge,
    miss: Edge,
}

impl Link {
    fn of(
        function: &mut Function,
        block: BlockId,
        divides: &[bool],
        guards: Guards,
    ) -> Option<Self> {
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
            // libpcap moves nothing to or past a test of bits.
            Predicate::Compare { relation: Relation::AnyBit, .. } if guards == Guards::Passed => {
                None
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

/// A part of a chain.
enum Part {
    /// The tests of a value, with the constants it is compared to.
    Tests(ValueId, Vec<u32>),
    /// A length test, and where it leads if it fails.
    Guard(Predicate, Edge),
}

struct Chain {
    blocks: Vec<BlockId>,
    /// Values in order of appearance, guards where they stood.
    parts: Vec<Part>,
    hit: Edge,
    /// Where the last link goes on.
    miss: Edge,
    /// Whether a test moves past a guard.
    moves: bool,
}

impl Chain {
    /// The chain that starts at `block`.
    fn from(
        function: &mut Function,
        block: BlockId,
        entered: &[u32],
        divides: &[bool],
        guards: Guards,
    ) -> Option<Self> {
        let first = Link::of(function, block, divides, guards)?;
        let mut places = FxHashMap::from_iter([(first.value, 0)]);
        let mut chain = Self {
            blocks: vec![block],
            parts: vec![Part::Tests(first.value, first.constants)],
            hit: first.hit,
            miss: first.miss,
            moves: false,
        };
        let mut last_guard = 0;
        loop {
            let next = chain.miss.target;
            let alone = entered[next.0 as usize] == 1;
            if !alone || !function.block(next).parameters.is_empty() {
                break;
            }
            if let Some(link) = Link::of(function, next, divides, guards) {
                if link.hit != chain.hit {
                    break;
                }
                let place = *places.entry(link.value).or_insert(chain.parts.len());
                chain.moves |= place < last_guard;
                match chain.parts.get_mut(place) {
                    Some(Part::Tests(_, constants)) => constants.extend(link.constants),
                    _ => chain.parts.push(Part::Tests(link.value, link.constants)),
                }
                chain.miss = link.miss;
            } else if guards == Guards::Passed
                && let Some(then) = rejecting_guard(function, function.block(next))
                && let Terminator::Test { predicate, otherwise, .. } = &function.block(next).end
            {
                last_guard = chain.parts.len();
                chain.parts.push(Part::Guard(*predicate, otherwise.clone()));
                chain.miss = then.clone();
            } else {
                break;
            }
            chain.blocks.push(next);
        }
        for part in &mut chain.parts {
            if let Part::Tests(_, constants) = part {
                constants.sort_unstable();
                constants.dedup();
            }
        }
        Some(chain)
    }

    /// Whether there is anything to gain in replacing it.
    fn is_better(&self, guards: Guards) -> bool {
        match guards {
            Guards::End => self.tests() < self.blocks.len(),
            Guards::Passed => self.moves && self.tests() <= self.blocks.len(),
        }
    }

    /// How many tests are left of it.
    fn tests(&self) -> usize {
        let tests = |part: &Part| match part {
            Part::Tests(_, constants) => tests(constants),
            Part::Guard(..) => 1,
        };
        self.parts.iter().map(tests).sum()
    }

    /// Writes what is left of the chain into its first blocks.
    fn replace(self, function: &mut Function) {
        let mut ends: Vec<(Predicate, Option<Edge>)> = Vec::new();
        for part in self.parts {
            match part {
                Part::Guard(predicate, otherwise) => ends.push((predicate, Some(otherwise))),
                Part::Tests(value, constants) if tests(&constants) < constants.len() => {
                    let set = SetId(function.sets.len() as u32);
                    function.sets.push(constants);
                    ends.push((Predicate::Member { value, set }, None));
                }
                Part::Tests(value, constants) => {
                    for constant in constants {
                        let right = function.constant(constant);
                        let relation = Relation::Equal;
                        ends.push((Predicate::Compare { relation, left: value, right }, None));
                    }
                }
            }
        }
        let last = ends.len() - 1;
        for (index, (predicate, rejects)) in ends.into_iter().enumerate() {
            let next =
                if index == last { self.miss.clone() } else { Edge::to(self.blocks[index + 1]) };
            let (then, otherwise) = match rejects {
                Some(rejects) => (next, rejects),
                None => (self.hit.clone(), next),
            };
            function.blocks[self.blocks[index].0 as usize].end =
                Terminator::Test { predicate, then, otherwise };
        }
    }
}

/// How many tests a value and its constants take.
fn tests(constants: &[u32]) -> usize {
    if constants.len() < MEMBERS { constants.len() } else { 1 }
}
