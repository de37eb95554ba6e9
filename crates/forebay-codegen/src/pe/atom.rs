//! The predicates that a lane can evaluate.
//!
//! A lane holds up to four bytes of the packet at a fixed offset, under a mask,
//! and compares them with a constant. Shifts and masks of the IR are folded
//! into that form: `(half[20] & 0x1fff) != 0`, `byte[0] >> 4 == 4` and
//! `(byte[14] & 15) << 2 >= 24` are all one masked comparison.
//!
//! An index that depends on the packet is *assumed* to have its usual value:
//! four times a nibble of a byte is taken for the length of an IP header, 20.
//! The user of an atom with assumptions must exclude the packets for which one
//! of them is wrong.
//!
//! An index of other kinds is computed for each packet, if it cannot be great: `word[v9 + 14]`, where
//! `v9` is the sum of the lengths of two headers.
//!
//! Values share operands, so one of a hundred instructions can be reached along
//! 2^100 paths. Code that reads values as trees, here and in the loops made
//! from atoms, relies on limits: no value of an atom has more than
//! [`MAX_OPERATIONS`] nodes as a tree, no field of an atom ends beyond [`MAX_END`], and no load at a computed
//! offset beyond [`MAX_COMPUTED_END`], so that packet offsets are small numbers everywhere.

use std::cell::OnceCell;

use forebay_filter::ir::{
    Arithmetic, Function, Predicate, Relation, SetId, Value, ValueId, Width, greatest_values,
};

use super::shape::{Shape, compare, shifted};

/// The greatest end of a field: far beyond any header, and small enough that a
/// caller can make as many bytes readable.
pub const MAX_END: u32 = 1 << 16;

/// The greatest end of a load at a computed offset: that of headers of IP and TCP, of up to 60 bytes each,
/// and of some bytes behind them.
pub const MAX_COMPUTED_END: u32 = 512;

/// The most nodes of a value as a tree; hand-written filters need fewer.
pub const MAX_OPERATIONS: u8 = 64;

/// Bytes of the packet under a mask, as a big-endian number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Field {
    /// Offset from the packet's start.
    pub offset: u32,
    /// Number of bytes: 1, 2 or 4.
    pub bytes: u32,
    /// The relevant bits, none beyond the field's bytes.
    pub mask: u32,
}

/// A predicate that a lane can evaluate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atom {
    /// The field equals the constant, which has no bit outside the mask.
    Equal(Field, u32),
    /// The field is at least the constant.
    AtLeast(Field, u32),
    /// The captured length is at least this, which is not 0.
    Captured(u32),
    /// The captured length is at least a computed offset and so many bytes more.
    CapturedFrom(ValueId, u32),
    /// The length on the wire is at least this.
    WireAtLeast(u32),
    /// The length on the wire is this.
    WireEqual(u32),
    /// The field is in the set.
    Member(Field, SetId),
    /// A comparison of computed values: for lanes that hold whole values, not
    /// for signatures. Likewise [`Atom::CapturedFrom`] and [`Atom::ComputedMember`].
    Computed(Relation, ValueId, ValueId),
    /// The computed value is in the set.
    ComputedMember(ValueId, SetId),
}

/// An atom, its negation, or a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// The atom holds.
    Is(Atom),
    /// The atom does not hold.
    Not(Atom),
    /// A constant outcome.
    Always(bool),
}

impl Literal {
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Is(atom) => Self::Not(atom),
            Self::Not(atom) => Self::Is(atom),
            Self::Always(holds) => Self::Always(!holds),
        }
    }
}

/// An assumption about the packet: this field has this value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Assumption {
    /// The field.
    pub field: Field,
    /// The assumed value.
    pub value: u32,
}

/// The header length in words of an IP header without options.
const USUAL_HEADER_WORDS: u32 = 5;

/// Converts a function's predicates to literals, and collects assumptions.
#[derive(Debug)]
pub struct Reader<'a> {
    function: &'a Function,
    /// By value: its number of nodes as a tree.
    operations: Vec<u8>,
    /// By value: the greatest number that it may be, once asked for.
    greatest: OnceCell<Vec<u32>>,
    /// The assumptions made so far.
    pub assumptions: Vec<Assumption>,
    /// The assumptions of the last predicate, a bit each.
    relied_on: u32,
    /// Whether there was an assumption without a bit left for it.
    too_many: bool,
}

impl<'a> Reader<'a> {
    /// A reader of `function`.
    #[must_use]
    pub fn new(function: &'a Function) -> Self {
        let operations = operations(function);
        let greatest = OnceCell::new();
        Self {
            function,
            operations,
            greatest,
            assumptions: Vec::new(),
            relied_on: 0,
            too_many: false,
        }
    }

    /// The literal for `predicate`, and its assumptions as bits; `None` if no
    /// lane can evaluate it.
    pub fn literal(&mut self, predicate: &Predicate) -> Option<(Literal, u32)> {
        self.relied_on = 0;
        if !predicate.operands().all(|value| self.is_small(value)) {
            return None;
        }
        let literal = match *predicate {
            Predicate::Captured { index, bytes } => {
                let known = match index {
                    Some(index) => self.assumed(index),
                    None => Some(0),
                };
                match known {
                    Some(index) => match index.checked_add(bytes)? {
                        0 => Literal::Always(true),
                        bytes => Literal::Is(Atom::Captured(bytes)),
                    },
                    None => {
                        let offset = index?;
                        self.computed_end(offset, bytes).filter(|_| bytes > 0)?;
                        Literal::Is(Atom::CapturedFrom(offset, bytes))
                    }
                }
            }
            Predicate::Compare { relation, left, right } => {
                match self.of_shape(relation, left, right) {
                    Some(literal) => literal,
                    None => {
                        self.relied_on = 0;
                        self.computable(left).then_some(())?;
                        self.computable(right).then_some(())?;
                        Literal::Is(Atom::Computed(relation, left, right))
                    }
                }
            }
            Predicate::Member { value, set } => match self.shape(value) {
                Some(Shape::Field { field, left: 0 }) => self.member(field, set),
                Some(_) => return None,
                None => {
                    self.relied_on = 0;
                    self.computable(value).then_some(())?;
                    Literal::Is(Atom::ComputedMember(value, set))
                }
            },
        };
        (!self.too_many).then_some((literal, self.relied_on))
    }

    /// Whether `value` may be read as a tree.
    fn is_small(&self, value: ValueId) -> bool {
        let operations = self.operations.get(value.0 as usize);
        operations.is_some_and(|&operations| operations <= MAX_OPERATIONS)
    }

    /// A set may have constants that the field cannot equal, with bits outside
    /// its mask. The comparison must leave them out.
    fn member(&self, field: Field, set: SetId) -> Literal {
        let constants = self.function.sets.get(set.0 as usize);
        let mut possible =
            constants.into_iter().flatten().filter(|&&constant| constant & !field.mask == 0);
        match possible.next() {
            None => Literal::Always(false),
            Some(0) if field.mask == 0 => Literal::Always(true),
            Some(_) => Literal::Is(Atom::Member(field, set)),
        }
    }

    fn of_shape(&mut self, relation: Relation, left: ValueId, right: ValueId) -> Option<Literal> {
        let constant = self.function.as_constant(right)?;
        compare(self.shape(left)?, relation, constant)
    }

    /// Whether lanes of 32 bits can compute `value`; records its assumptions.
    fn computable(&mut self, value: ValueId) -> bool {
        match self.function.get(value) {
            Value::Constant(_) | Value::WireLength => true,
            Value::Load { width, index, displacement } => {
                self.field(width, index, displacement).is_some()
                    || self.computed_load(index, displacement).is_some()
            }
            Value::Binary { op: Arithmetic::Div | Arithmetic::Mod, .. } => false,
            Value::Binary { left, right, .. } => self.computable(left) && self.computable(right),
            Value::Parameter { .. } => false,
        }
    }

    /// The offset of a load, under the assumptions made so far.
    pub(super) fn offset(&mut self, index: Option<ValueId>, displacement: u32) -> Option<u32> {
        let index = match index {
            Some(index) => self.assumed(index)?,
            None => 0,
        };
        index.checked_add(displacement).filter(|&offset| offset < MAX_END)
    }

    /// The value that a load's offset is computed from, and the greatest end of four bytes there.
    pub(super) fn computed_load(
        &mut self,
        index: Option<ValueId>,
        displacement: u32,
    ) -> Option<(ValueId, u32)> {
        let index = index?;
        Some((index, self.computed_end(index, displacement.checked_add(Width::Word.bytes())?)?))
    }

    /// The greatest number that is `bytes` more than a computed offset, if lanes can compute it and it is
    /// small whatever the packet has.
    fn computed_end(&mut self, offset: ValueId, bytes: u32) -> Option<u32> {
        let greatest = self.greatest.get_or_init(|| greatest_values(self.function));
        let end = greatest.get(offset.0 as usize)?.checked_add(bytes)?;
        (end <= MAX_COMPUTED_END && self.computable(offset)).then_some(end)
    }

    /// The bytes of a load, under the assumptions made so far.
    fn field(&mut self, width: Width, index: Option<ValueId>, displacement: u32) -> Option<Field> {
        let offset = self.offset(index, displacement)?;
        let field = Field { offset, bytes: width.bytes(), mask: width.max() };
        (offset + field.bytes <= MAX_END).then_some(field)
    }

    fn shape(&mut self, value: ValueId) -> Option<Shape> {
        match self.function.get(value) {
            Value::Constant(number) => Some(Shape::Number(number)),
            Value::WireLength => Some(Shape::WireLength),
            Value::Load { width, index, displacement } => {
                let field = self.field(width, index, displacement)?;
                Some(Shape::Field { field, left: 0 })
            }
            Value::Binary { op, left, right } => {
                let constant = self.function.as_constant(right)?;
                shifted(self.shape(left)?, op, constant)
            }
            Value::Parameter { .. } => None,
        }
    }

    /// The value of an index, constant or assumed.
    fn assumed(&mut self, value: ValueId) -> Option<u32> {
        if let Some(number) = self.function.as_constant(value) {
            return Some(number);
        }
        let before = (self.relied_on, self.assumptions.len());
        let assumed = match self.function.get(value) {
            Value::Binary { op: Arithmetic::Add, left, right } => self.assumed_sum(left, right),
            _ => match self.shape(value) {
                Some(Shape::Field { field, left: 2 }) if field.bytes == 1 && field.mask == 0x0f => {
                    self.assume(Assumption { field, value: USUAL_HEADER_WORDS });
                    Some(USUAL_HEADER_WORDS << 2)
                }
                _ => None,
            },
        };
        if assumed.is_none() {
            // What was assumed for parts of it is not relied on.
            self.relied_on = before.0;
            self.assumptions.truncate(before.1);
        }
        assumed
    }

    fn assumed_sum(&mut self, left: ValueId, right: ValueId) -> Option<u32> {
        self.assumed(left)?.checked_add(self.assumed(right)?)
    }

    fn assume(&mut self, assumption: Assumption) {
        let known = self.assumptions.iter().position(|known| *known == assumption);
        match known.unwrap_or(self.assumptions.len()) {
            index if index as u32 >= u32::BITS => self.too_many = true,
            index => {
                self.relied_on |= 1 << index;
                if known.is_none() {
                    self.assumptions.push(assumption);
                }
            }
        }
    }
}

/// By value: its number of nodes as a tree, at most one beyond the limit.
pub(super) fn operations(function: &Function) -> Vec<u8> {
    let mut operations: Vec<u8> = Vec::with_capacity(function.values().len());
    for value in function.values() {
        // Operands come before the values that use them.
        let below = value
            .operands()
            .map(|ValueId(operand)| operations.get(operand as usize).copied().unwrap_or(u8::MAX));
        let nodes = below.fold(1u8, u8::saturating_add);
        operations.push(nodes.min(MAX_OPERATIONS + 1));
    }
    operations
}

/// The width of the load of a field.
#[must_use]
pub fn width(field: Field) -> Width {
    match field.bytes {
        1 => Width::Byte,
        2 => Width::Half,
        _ => Width::Word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(function: &mut Function, width: Width, displacement: u32) -> ValueId {
        function.value(Value::Load { width, index: None, displacement })
    }

    fn equals(function: &mut Function, left: ValueId, number: u32) -> Predicate {
        let right = function.constant(number);
        Predicate::Compare { relation: Relation::Equal, left, right }
    }

    #[test]
    fn a_value_that_is_a_large_tree_is_no_atom() {
        let mut function = Function::new();
        let mut value = load(&mut function, Width::Byte, 0);
        for doublings in 1..=2000 {
            value =
                function.value(Value::Binary { op: Arithmetic::Add, left: value, right: value });
            let predicate = equals(&mut function, value, 5);
            // 2^(n+1) - 1 nodes: 63 after five.
            if doublings == 5 {
                assert!(Reader::new(&function).literal(&predicate).is_some());
            } else if doublings == 6 || doublings == 2000 {
                assert_eq!(Reader::new(&function).literal(&predicate), None);
            }
        }
        assert_eq!(operations(&function).into_iter().max(), Some(MAX_OPERATIONS + 1));
    }

    #[test]
    fn a_field_that_ends_far_from_the_start_is_no_atom() {
        let mut function = Function::new();
        for (width, offset, fits) in [
            (Width::Word, MAX_END - 4, true),
            (Width::Word, MAX_END - 3, false),
            (Width::Byte, MAX_END - 1, true),
            (Width::Byte, MAX_END, false),
            (Width::Byte, 1 << 31, false),
            (Width::Word, u32::MAX, false),
        ] {
            let field = load(&mut function, width, offset);
            let predicate = equals(&mut function, field, 1);
            let literal = Reader::new(&function).literal(&predicate);
            assert_eq!(literal.is_some(), fits, "{width:?} at {offset}");
            // The same applies to an operand of an operation.
            let other = load(&mut function, Width::Byte, 0);
            let op = Arithmetic::Sub;
            let sum = function.value(Value::Binary { op, left: field, right: other });
            let predicate = equals(&mut function, sum, 1);
            let literal = Reader::new(&function).literal(&predicate);
            assert_eq!(literal.is_some(), fits, "{width:?} at {offset}, computed with");
        }
    }

    #[test]
    fn what_has_no_bit_left_is_zero_however_far_it_is_shifted() {
        let mut function = Function::new();
        let byte = load(&mut function, Width::Byte, 0);
        let mask = function.constant(0x100);
        let mut value =
            function.value(Value::Binary { op: Arithmetic::And, left: byte, right: mask });
        let by = function.constant(31);
        for _ in 0..20 {
            value = function.value(Value::Binary { op: Arithmetic::Lsh, left: value, right: by });
        }
        for relation in [Relation::GreaterOrEqual, Relation::Equal] {
            let mut holds = |number| {
                let right = function.constant(number);
                let predicate = Predicate::Compare { relation, left: value, right };
                Reader::new(&function).literal(&predicate)
            };
            assert_eq!(holds(0), Some((Literal::Always(true), 0)));
            assert_eq!(holds(1), Some((Literal::Always(false), 0)));
        }
    }
}
