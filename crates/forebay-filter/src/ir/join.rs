//! Joins functions into one, each continuing where another returns.
//!
//! Parts are appended one after another. A return in a part becomes an edge to
//! the [`Label`] for its result, which is placed later. `simplify` merges what
//! parts have in common, above all the tests that they all begin with.

use super::{Block, BlockId, Edge, Function, Predicate, SetId, Terminator, Value, ValueId};

/// Block numbers from here on are placeholders for labels.
const LABELS: u32 = 1 << 31;

/// A target of edges in a function under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(u32);

/// A function under construction.
#[derive(Default)]
pub(crate) struct Joiner {
    function: Function,
    /// The block of each label.
    labels: Vec<Option<BlockId>>,
}

impl Joiner {
    /// Creates a label, to be placed later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Places `label` before the part appended next.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.next());
    }

    fn next(&self) -> BlockId {
        BlockId(self.function.blocks.len() as u32)
    }

    fn push(&mut self, parameters: Vec<ValueId>, end: Terminator) {
        self.function.blocks.push(Block { parameters, end });
    }

    /// Appends a block that returns `result`.
    pub fn ret(&mut self, result: u32) {
        let value = self.function.constant(result);
        self.push(Vec::new(), Terminator::Return(value));
    }

    /// Appends a block that goes to `enough` if at least `bytes` bytes were
    /// captured, else to the part appended next.
    pub fn captured(&mut self, bytes: u32, enough: Label) {
        let predicate = Predicate::Captured { index: None, bytes };
        let otherwise = Edge::to(BlockId(self.next().0 + 1));
        self.push(Vec::new(), Terminator::Test { predicate, then: to(enough), otherwise });
    }

    /// Appends `part`. A return continues at the label that `after` gives for
    /// its result. `None` if `after` gives none or the result is not constant;
    /// the function under construction is unusable then.
    pub fn append(&mut self, part: &Function, after: impl Fn(u32) -> Option<Label>) -> Option<()> {
        let place = Place::of(self, part);
        for block in &part.blocks {
            let parameters = place.values_of(&block.parameters);
            let end = match &block.end {
                Terminator::Return(value) => {
                    Terminator::Jump(to(after(part.as_constant(*value)?)?))
                }
                Terminator::Jump(edge) => Terminator::Jump(place.edge(edge)),
                Terminator::Test { predicate, then, otherwise } => Terminator::Test {
                    predicate: place.predicate(*predicate),
                    then: place.edge(then),
                    otherwise: place.edge(otherwise),
                },
            };
            self.push(parameters, end);
        }
        Some(())
    }

    /// The joined function, unless a label was never placed.
    pub fn finish(mut self) -> Option<Function> {
        for edge in self.function.blocks.iter_mut().flat_map(|block| block.end.edges_mut()) {
            if let Some(label) = edge.target.0.checked_sub(LABELS) {
                edge.target = self.labels[label as usize]?;
            }
        }
        Some(self.function)
    }
}

fn to(label: Label) -> Edge {
    Edge::to(BlockId(LABELS + label.0))
}

/// Maps blocks, values and sets of a part to their new numbers.
struct Place {
    first_block: u32,
    values: Vec<ValueId>,
    first_set: u32,
}

impl Place {
    /// A mapping to the end of the blocks so far. Adds the values and sets of
    /// `part` to the joined function.
    fn of(joiner: &mut Joiner, part: &Function) -> Self {
        let first_block = joiner.next().0;
        let joined = &mut joiner.function;
        let first_set = joined.sets.len() as u32;
        joined.sets.extend_from_slice(&part.sets);
        let mut place = Self { first_block, values: Vec::new(), first_set };
        for &value in part.values() {
            let moved = place.moved(value);
            place.values.push(joined.value(moved));
        }
        place
    }

    fn moved(&self, value: Value) -> Value {
        match value {
            Value::Parameter { block, position } => {
                Value::Parameter { block: self.block(block), position }
            }
            other => other.with_operands(|operand| self.value(operand)),
        }
    }

    fn block(&self, id: BlockId) -> BlockId {
        BlockId(self.first_block + id.0)
    }

    fn value(&self, id: ValueId) -> ValueId {
        self.values[id.0 as usize]
    }

    fn values_of(&self, ids: &[ValueId]) -> Vec<ValueId> {
        ids.iter().map(|&id| self.value(id)).collect()
    }

    fn edge(&self, edge: &Edge) -> Edge {
        Edge { target: self.block(edge.target), arguments: self.values_of(&edge.arguments) }
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
