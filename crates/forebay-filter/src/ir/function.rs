//! A function: its values, its blocks, and what they are made of.

use rustc_hash::FxHashMap;

/// The number of a value in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// The number of a block in its function; block 0 is the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// The number of a set of constants in its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(pub u32);

/// The width of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// One byte.
    Byte,
    /// Two bytes, big-endian.
    Half,
    /// Four bytes, big-endian.
    Word,
}

impl Width {
    /// The number of bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }

    /// The greatest value of a load of this width.
    #[must_use]
    pub fn max(self) -> u32 {
        u32::MAX >> (32 - 8 * self.bytes())
    }
}

/// Arithmetic on 32-bit values, modulo 2³².
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Unsigned quotient; the divisor is not 0 where the value is used.
    Div,
    /// Unsigned remainder; likewise.
    Mod,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Shift towards the high bits; 0 for distances of 32 and more.
    Lsh,
    /// Shift towards the low bits, zeros coming in; 0 for distances of 32 and
    /// more.
    Rsh,
}

/// A pure expression of 32 bits. Its operands come before it in the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number.
    Constant(u32),
    /// The length on the wire.
    WireLength,
    /// The packet's bytes at `index` + `displacement`, a 33-bit sum;
    /// big-endian, zero-extended. Without `index`, at `displacement`.
    Load {
        /// The number of bytes.
        width: Width,
        /// A variable part of the offset.
        index: Option<ValueId>,
        /// Bytes from the packet's start, or from the index.
        displacement: u32,
    },
    /// `left` op `right`.
    Binary {
        /// The operation.
        op: Arithmetic,
        /// Left operand.
        left: ValueId,
        /// Right operand.
        right: ValueId,
    },
    /// Parameter number `position` of `block`: the argument of the edge taken
    /// into the block.
    Parameter {
        /// The block.
        block: BlockId,
        /// The position, from 0.
        position: u32,
    },
}

impl Value {
    /// The values it is computed from: none, one or two.
    pub fn operands(self) -> impl Iterator<Item = ValueId> {
        let (first, second) = match self {
            Self::Load { index, .. } => (index, None),
            Self::Binary { left, right, .. } => (Some(left), Some(right)),
            Self::Constant(_) | Self::WireLength | Self::Parameter { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The same expression with operands mapped by `new`.
    #[must_use]
    pub fn with_operands(self, mut new: impl FnMut(ValueId) -> ValueId) -> Self {
        match self {
            Self::Load { width, index, displacement } => {
                Self::Load { width, index: index.map(new), displacement }
            }
            Self::Binary { op, left, right } => {
                Self::Binary { op, left: new(left), right: new(right) }
            }
            Self::Constant(_) | Self::WireLength | Self::Parameter { .. } => self,
        }
    }
}

/// An unsigned comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Equal.
    Equal,
    /// Greater.
    Greater,
    /// Greater or equal.
    GreaterOrEqual,
    /// Some bit in common.
    AnyBit,
}

/// The test of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// At least `index` + `bytes` bytes of the packet were captured; the sum
    /// has 33 bits.
    Captured {
        /// A variable part, if there is one.
        index: Option<ValueId>,
        /// The constant part.
        bytes: u32,
    },
    /// `left` and `right` satisfy `relation`.
    Compare {
        /// The relation.
        relation: Relation,
        /// Left operand.
        left: ValueId,
        /// Right operand.
        right: ValueId,
    },
    /// `value` is one of the constants of `set`.
    Member {
        /// The value looked up.
        value: ValueId,
        /// The set.
        set: SetId,
    },
}

impl Predicate {
    /// Its operands: none, one or two.
    pub fn operands(self) -> impl Iterator<Item = ValueId> {
        let (first, second) = match self {
            Self::Captured { index, .. } => (index, None),
            Self::Compare { left, right, .. } => (Some(left), Some(right)),
            Self::Member { value, .. } => (Some(value), None),
        };
        first.into_iter().chain(second)
    }

    /// The same test with operands mapped by `new`.
    #[must_use]
    pub fn with_operands(self, mut new: impl FnMut(ValueId) -> ValueId) -> Self {
        match self {
            Self::Captured { index, bytes } => Self::Captured { index: index.map(new), bytes },
            Self::Compare { relation, left, right } => {
                Self::Compare { relation, left: new(left), right: new(right) }
            }
            Self::Member { value, set } => Self::Member { value: new(value), set },
        }
    }
}

/// A successor of a block, with the arguments for its parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// The successor.
    pub target: BlockId,
    /// The argument for each of its parameters.
    pub arguments: Vec<ValueId>,
}

impl Edge {
    /// An edge into a block without parameters.
    #[must_use]
    pub fn to(target: BlockId) -> Self {
        Self { target, arguments: Vec::new() }
    }
}

/// The end of a block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Terminator {
    /// Branches.
    Test {
        /// The test.
        predicate: Predicate,
        /// Taken when it holds.
        then: Edge,
        /// Taken when it does not.
        otherwise: Edge,
    },
    /// Continues.
    Jump(Edge),
    /// Ends the filter with the verdict: the bytes to keep.
    Return(ValueId),
}

impl Terminator {
    /// The edges out of the block: none, one, or `then` before `otherwise`.
    pub fn edges(&self) -> impl Iterator<Item = &Edge> {
        let (first, second) = match self {
            Self::Test { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Self::Jump(edge) => (Some(edge), None),
            Self::Return(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// The same edges, mutable.
    pub fn edges_mut(&mut self) -> impl Iterator<Item = &mut Edge> {
        let (first, second) = match self {
            Self::Test { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Self::Jump(edge) => (Some(edge), None),
            Self::Return(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// A block: parameters and a terminator. It has no body, as values belong to no
/// block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The block's parameters: each is a [`Value::Parameter`] of this block,
    /// in order of position.
    pub parameters: Vec<ValueId>,
    /// Its end.
    pub end: Terminator,
}

/// A filter. Blocks are in the order of the program that they came from; an
/// edge to the same or an earlier block is a *backward edge*. A run that takes
/// its captured length + 4,097th backward edge ends with 0 (see
/// [`crate::Program::run`] for the reason).
#[derive(Clone, Debug, Default)]
pub struct Function {
    values: Vec<Value>,
    numbers: FxHashMap<Value, ValueId>,
    /// The blocks; the first is the entry and has no parameters.
    pub blocks: Vec<Block>,
    /// Sets of constants, each ascending, without repetition, not empty.
    pub sets: Vec<Vec<u32>>,
}

impl PartialEq for Function {
    /// Functions are equal when values, blocks and sets are.
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values && self.blocks == other.blocks && self.sets == other.sets
    }
}

impl Eq for Function {}

impl Function {
    /// A function without blocks yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A function without blocks, with capacity for `values` values.
    pub(super) fn with_capacity(values: usize) -> Self {
        Self {
            values: Vec::with_capacity(values),
            numbers: FxHashMap::with_capacity_and_hasher(values, Default::default()),
            ..Self::default()
        }
    }

    /// The number of `value`, which is added unless it exists. Nothing is
    /// folded: see [`simplify`](super::simplify).
    pub fn value(&mut self, value: Value) -> ValueId {
        *self.numbers.entry(value).or_insert_with(|| {
            self.values.push(value);
            ValueId(self.values.len() as u32 - 1)
        })
    }

    /// The number of a constant.
    pub fn constant(&mut self, constant: u32) -> ValueId {
        self.value(Value::Constant(constant))
    }

    /// The value with this number.
    ///
    /// # Panics
    /// If it is not a value of this function.
    #[must_use]
    pub fn get(&self, id: ValueId) -> Value {
        self.values[id.0 as usize]
    }

    /// The constant with number `id`, if it is one.
    #[must_use]
    pub fn as_constant(&self, id: ValueId) -> Option<u32> {
        match self.get(id) {
            Value::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// All values, operands before what uses them.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The block with this number.
    ///
    /// # Panics
    /// If it is not a block of this function.
    #[must_use]
    pub fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id.0 as usize]
    }

    /// Whether there is a backward edge.
    #[must_use]
    pub fn has_backward_edges(&self) -> bool {
        self.blocks
            .iter()
            .enumerate()
            .any(|(index, block)| block.end.edges().any(|edge| edge.target.0 as usize <= index))
    }
}
