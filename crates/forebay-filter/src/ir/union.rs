//! The disjunction of filters.
//!
//! The functions are put one behind another. Where one returns 0 the next is
//! entered; anything else is the result. What they have in common, the tests
//! they all begin with above all, [`simplify`] finds.

use super::simplify::simplify;
use super::{
    Block, BlockId, Edge, Function, Predicate, Relation, SetId, Terminator, Value, ValueId,
};

/// The function that returns what the first of `parts` returns that does not
/// return 0 for a packet; 0 if all of them do. Simplified.
///
/// Backward edges are counted over the parts together, so that a part with
/// loops may be ended earlier than it would be alone.
#[must_use]
pub fn union(parts: &[Function]) -> Function {
    let mut union = Function::new();
    for part in parts {
        append(&mut union, part);
    }
    let zero = union.constant(0);
    union.blocks.push(Block { parameters: Vec::new(), end: Terminator::Return(zero) });
    simplify(&mut union);
    union
}

/// Puts the blocks of `part` behind those of `union`. Where it returns 0 it
/// goes on to the block that follows.
fn append(union: &mut Function, part: &Function) {
    let place = Place::of(union, part);
    for block in &part.blocks {
        let parameters = place.values_of(&block.parameters);
        let mut returning = None;
        let end = match &block.end {
            Terminator::Return(value) => {
                let value = place.value(*value);
                match union.as_constant(value) {
                    Some(0) => Terminator::Jump(Edge::to(place.next_part)),
                    Some(_) => Terminator::Return(value),
                    None => {
                        returning = Some(value);
                        let predicate = Predicate::Compare {
                            relation: Relation::Equal,
                            left: value,
                            right: union.constant(0),
                        };
                        let here = BlockId(union.blocks.len() as u32);
                        Terminator::Test {
                            predicate,
                            then: Edge::to(place.next_part),
                            otherwise: Edge::to(BlockId(here.0 + 1)),
                        }
                    }
                }
            }
            Terminator::Jump(edge) => Terminator::Jump(place.edge(edge)),
            Terminator::Test { predicate, then, otherwise } => Terminator::Test {
                predicate: place.predicate(*predicate),
                then: place.edge(then),
                otherwise: place.edge(otherwise),
            },
        };
        union.blocks.push(Block { parameters, end });
        if let Some(value) = returning {
            union.blocks.push(Block { parameters: Vec::new(), end: Terminator::Return(value) });
        }
    }
}

/// Where the blocks, values and sets of a part come to stand.
struct Place {
    blocks: Vec<BlockId>,
    values: Vec<ValueId>,
    first_set: u32,
    /// The block behind those of the part.
    next_part: BlockId,
}

impl Place {
    /// The place behind all blocks of `union`, which is given the values and
    /// sets of `part`.
    fn of(union: &mut Function, part: &Function) -> Self {
        let mut next = union.blocks.len() as u32;
        let mut blocks = Vec::with_capacity(part.blocks.len());
        for block in &part.blocks {
            blocks.push(BlockId(next));
            // A result that is no constant takes a block to test and another
            // to return it.
            let two = match block.end {
                Terminator::Return(value) => part.as_constant(value).is_none(),
                _ => false,
            };
            next += 1 + u32::from(two);
        }
        let first_set = union.sets.len() as u32;
        union.sets.extend_from_slice(&part.sets);
        let mut place = Self { blocks, values: Vec::new(), first_set, next_part: BlockId(next) };
        for &value in part.values() {
            let moved = place.moved(value);
            place.values.push(union.value(moved));
        }
        place
    }

    fn moved(&self, value: Value) -> Value {
        match value {
            Value::Parameter { block, position } => {
                Value::Parameter { block: self.blocks[block.0 as usize], position }
            }
            other => other.with_operands(|operand| self.value(operand)),
        }
    }

    fn value(&self, id: ValueId) -> ValueId {
        self.values[id.0 as usize]
    }

    fn values_of(&self, ids: &[ValueId]) -> Vec<ValueId> {
        ids.iter().map(|&id| self.value(id)).collect()
    }

    fn edge(&self, edge: &Edge) -> Edge {
        let target = self.blocks[edge.target.0 as usize];
        Edge { target, arguments: self.values_of(&edge.arguments) }
    }

    fn predicate(&self, predicate: Predicate) -> Predicate {
        match predicate.with_operands(|operand| self.value(operand)) {
            Predicate::Member { value, set: SetId(set) } => {
                Predicate::Member { value, set: SetId(self.first_set + set) }
            }
            other => other,
        }
    }
}
