//! Selects the comparison for each predicate.
//!
//! Packet fields are big-endian and the machine is little-endian. Where only
//! equality or bits matter, the constant is byte-swapped at compile time and
//! the field is compared as it lies in memory, often by an instruction with a
//! memory operand.

use forebay_filter::ir::{Arithmetic, Function, Predicate, Relation, SetId, Value, ValueId, Width};
use iced_x86::Code;

/// A value that a register can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(pub u32);

/// The meaning of a [`Key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The captured length.
    Length,
    /// A value.
    Full(ValueId),
    /// The bytes of a load as a little-endian number.
    Raw(ValueId),
}

impl Key {
    /// The captured length.
    pub(crate) const LENGTH: Self = Self(0);

    /// The key of a value. For a load of one byte, raw bytes and value are the
    /// same.
    pub(crate) fn full(function: &Function, value: ValueId) -> Self {
        match function.get(value) {
            Value::Load { width: Width::Byte, .. } => Self::raw(value),
            _ => Self(2 + 2 * value.0),
        }
    }

    /// The key of the raw bytes of the load `value`.
    pub(crate) fn raw(value: ValueId) -> Self {
        Self(3 + 2 * value.0)
    }

    /// The number of keys of a function.
    pub(crate) fn count(function: &Function) -> usize {
        2 + 2 * function.values().len()
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn meaning(self) -> Meaning {
        match self.0 {
            0 | 1 => Meaning::Length,
            key if key.is_multiple_of(2) => Meaning::Full(ValueId(key / 2 - 1)),
            key => Meaning::Raw(ValueId(key / 2 - 1)),
        }
    }
}

/// A condition of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Equal,
    NotEqual,
    Above,
    AboveOrEqual,
    Below,
    BelowOrEqual,
}

impl Condition {
    /// The opposite condition.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Equal => Self::NotEqual,
            Self::NotEqual => Self::Equal,
            Self::Above => Self::BelowOrEqual,
            Self::AboveOrEqual => Self::Below,
            Self::Below => Self::AboveOrEqual,
            Self::BelowOrEqual => Self::Above,
        }
    }

    /// The jump that is taken under it.
    pub(crate) fn jump(self) -> Code {
        match self {
            Self::Equal => Code::Je_rel32_64,
            Self::NotEqual => Code::Jne_rel32_64,
            Self::Above => Code::Ja_rel32_64,
            Self::AboveOrEqual => Code::Jae_rel32_64,
            Self::Below => Code::Jb_rel32_64,
            Self::BelowOrEqual => Code::Jbe_rel32_64,
        }
    }

    /// The move that is made under it.
    pub(crate) fn conditional_move(self) -> Code {
        match self {
            Self::Equal => Code::Cmove_r32_rm32,
            Self::NotEqual => Code::Cmovne_r32_rm32,
            Self::Above => Code::Cmova_r32_rm32,
            Self::AboveOrEqual => Code::Cmovae_r32_rm32,
            Self::Below => Code::Cmovb_r32_rm32,
            Self::BelowOrEqual => Code::Cmovbe_r32_rm32,
        }
    }
}

/// The instruction that sets the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// `cmp`: by the difference.
    Compare,
    /// `test`: by common bits.
    Test,
}

/// Packet bytes that a comparison can read from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// The load that contains them.
    pub load: ValueId,
    /// Their offset in the load.
    pub plus: u32,
    pub width: Width,
    /// The number to compare them with.
    pub immediate: u32,
}

/// The most constants that are compared one after another.
pub(crate) const FEW: usize = 3;

/// A few constants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Few {
    constants: [u32; FEW],
    count: usize,
}

impl Few {
    pub(crate) fn one(constant: u32) -> Self {
        Self { constants: [constant; FEW], count: 1 }
    }

    /// The first [`FEW`] of `constants`.
    pub(crate) fn of(constants: &[u32]) -> Self {
        let mut few = Self { constants: [0; FEW], count: 0 };
        for (place, &constant) in few.constants.iter_mut().zip(constants) {
            *place = constant;
            few.count += 1;
        }
        few
    }

    pub(crate) fn constants(&self) -> &[u32] {
        &self.constants[..self.count]
    }

    /// Adds the constants of `other` if there is room for them.
    pub(crate) fn add(&mut self, other: &Self) -> bool {
        let sum = self.count + other.count;
        if sum > FEW {
            return false;
        }
        self.constants[self.count..sum].copy_from_slice(other.constants());
        self.count = sum;
        true
    }
}

/// A predicate as a comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Test {
    /// A constant outcome.
    Constant(bool),
    /// The captured length is at least that many bytes.
    Captured { bytes: u32 },
    /// The captured length is at least `index` + `bytes`.
    CapturedAt { index: Key, bytes: u32 },
    /// Compares `key`, restricted to the bits of `mask`, minus `minus`, with a
    /// number.
    Immediate {
        key: Key,
        mask: u32,
        minus: u32,
        action: Action,
        immediate: u32,
        condition: Condition,
        /// The same comparison with a memory operand.
        field: Option<Field>,
    },
    /// Two values.
    Pair { left: Key, right: Key, action: Action, condition: Condition },
    /// `key` is one of a few numbers.
    Few { key: Key, few: Few },
    /// `key`, restricted to the bits of `mask`, is in a set, whose constants
    /// have the byte order of the load if `reversed`.
    Member { key: Key, mask: u32, set: SetId, reversed: Option<Width> },
}

impl Test {
    /// The keys that it reads, if all are in registers.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key> {
        let keys = match *self {
            Self::Constant(_) => [None, None],
            Self::Captured { .. } => [Some(Key::LENGTH), None],
            Self::CapturedAt { index, .. } => [Some(Key::LENGTH), Some(index)],
            Self::Immediate { key, .. } | Self::Few { key, .. } | Self::Member { key, .. } => {
                [Some(key), None]
            }
            Self::Pair { left, right, .. } => [Some(left), Some(right)],
        };
        keys.into_iter().flatten()
    }
}

/// `number`, of the width of a load, byte-swapped.
pub(crate) fn reverse(width: Width, number: u32) -> u32 {
    number.swap_bytes() >> (32 - 8 * width.bytes())
}

/// Selects the comparison for `predicate`.
pub(crate) fn select(function: &Function, predicate: Predicate) -> Test {
    match predicate {
        Predicate::Captured { index: None, bytes: 0 } => Test::Constant(true),
        Predicate::Captured { index: None, bytes } => Test::Captured { bytes },
        Predicate::Captured { index: Some(index), bytes } => match function.as_constant(index) {
            Some(index) => match index.checked_add(bytes) {
                Some(0) => Test::Constant(true),
                Some(bytes) => Test::Captured { bytes },
                None => Test::Constant(false),
            },
            None => Test::CapturedAt { index: Key::full(function, index), bytes },
        },
        Predicate::Compare { relation, left, right } => {
            match (function.as_constant(left), function.as_constant(right)) {
                (Some(left), Some(right)) => Test::Constant(relation.holds(left, right)),
                (None, Some(right)) => with_constant(function, relation, left, right),
                (Some(left), None) => mirrored(function, relation, left, right),
                (None, None) => pair(function, relation, left, right),
            }
        }
        Predicate::Member { value, set } => member(function, value, set),
    }
}

/// The width of the load, if `value` is one.
fn as_load(function: &Function, value: ValueId) -> Option<Width> {
    match function.get(value) {
        Value::Load { width, .. } => Some(width),
        _ => None,
    }
}

/// The load, its width and the mask, if `value` is a masked load.
fn as_masked_load(function: &Function, value: ValueId) -> Option<(ValueId, Width, u32)> {
    if let Some(width) = as_load(function, value) {
        return Some((value, width, width.max()));
    }
    let Value::Binary { op: Arithmetic::And, left, right } = function.get(value) else {
        return None;
    };
    let (load, mask) = match (function.as_constant(left), function.as_constant(right)) {
        (None, Some(mask)) => (left, mask),
        (Some(mask), None) => (right, mask),
        _ => return None,
    };
    as_load(function, load).map(|width| (load, width, mask & width.max()))
}

/// A relation of a value to a constant.
fn with_constant(function: &Function, relation: Relation, left: ValueId, right: u32) -> Test {
    let load = as_masked_load(function, left);
    match (relation, load) {
        (Relation::Equal, Some((load, width, mask))) => equal(load, width, mask, right),
        (Relation::AnyBit, Some((load, width, mask))) => {
            bits(load, width, mask & right, Condition::NotEqual)
        }
        (Relation::Greater | Relation::GreaterOrEqual, Some((load, Width::Byte, 0xff)))
            if right <= 0xff =>
        {
            let field = Field { load, plus: 0, width: Width::Byte, immediate: right };
            ordered(Key::raw(load), relation, right, Some(field))
        }
        (Relation::Equal, None) => Test::Immediate {
            key: Key::full(function, left),
            mask: u32::MAX,
            minus: 0,
            action: Action::Compare,
            immediate: right,
            condition: Condition::Equal,
            field: None,
        },
        (Relation::AnyBit, None) => Test::Immediate {
            key: Key::full(function, left),
            mask: u32::MAX,
            minus: 0,
            action: Action::Test,
            immediate: right,
            condition: Condition::NotEqual,
            field: None,
        },
        (Relation::Greater | Relation::GreaterOrEqual, _) => {
            ordered(Key::full(function, left), relation, right, None)
        }
    }
}

fn ordered(key: Key, relation: Relation, immediate: u32, field: Option<Field>) -> Test {
    let condition = match relation {
        Relation::Greater => Condition::Above,
        _ => Condition::AboveOrEqual,
    };
    let (mask, minus, action) = (u32::MAX, 0, Action::Compare);
    Test::Immediate { key, mask, minus, action, immediate, condition, field }
}

/// Compares the bits of `mask` in a load with `right`.
fn equal(load: ValueId, width: Width, mask: u32, right: u32) -> Test {
    if right & !mask != 0 {
        return Test::Constant(false);
    }
    if right == 0 && mask != width.max() {
        return bits(load, width, mask, Condition::Equal);
    }
    let field = whole_bytes(width, mask).map(|(plus, part)| Field {
        load,
        plus,
        width: part,
        immediate: reverse(width, right) >> (8 * plus),
    });
    let mask = if mask == width.max() { u32::MAX } else { reverse(width, mask) };
    Test::Immediate {
        key: Key::raw(load),
        mask,
        minus: 0,
        action: Action::Compare,
        immediate: reverse(width, right),
        condition: Condition::Equal,
        field: field.map(|field| Field { immediate: field.immediate & field.width.max(), ..field }),
    }
}

/// Tests the bits of `mask` in a load: all are 0 for [`Condition::Equal`], one
/// is 1 for [`Condition::NotEqual`].
fn bits(load: ValueId, width: Width, mask: u32, condition: Condition) -> Test {
    if mask == 0 {
        return Test::Constant(condition == Condition::Equal);
    }
    let immediate = reverse(width, mask);
    let lowest = immediate.trailing_zeros() / 8;
    let in_one_byte = immediate >> (8 * lowest) <= 0xff;
    let field = if in_one_byte {
        let immediate = immediate >> (8 * lowest);
        Field { load, plus: lowest, width: Width::Byte, immediate }
    } else {
        Field { load, plus: 0, width, immediate }
    };
    Test::Immediate {
        key: Key::raw(load),
        mask: u32::MAX,
        minus: 0,
        action: Action::Test,
        immediate,
        condition,
        field: Some(field),
    }
}

/// The bytes that `mask` covers, if these are one, two or four adjacent whole
/// bytes: the first of them and their number.
fn whole_bytes(width: Width, mask: u32) -> Option<(u32, Width)> {
    let mask = reverse(width, mask);
    let first = mask.trailing_zeros() / 8;
    let part = [Width::Byte, Width::Half, Width::Word];
    let inside = |part: &Width| first + part.bytes() <= width.bytes();
    part.into_iter()
        .filter(inside)
        .find(|part| mask == part.max() << (8 * first))
        .map(|part| (first, part))
}

/// A relation of a constant to a value.
fn mirrored(function: &Function, relation: Relation, left: u32, right: ValueId) -> Test {
    let condition = match relation {
        Relation::Equal | Relation::AnyBit => {
            return with_constant(function, relation, right, left);
        }
        Relation::Greater => Condition::Below,
        Relation::GreaterOrEqual => Condition::BelowOrEqual,
    };
    let is_byte = as_load(function, right) == Some(Width::Byte) && left <= 0xff;
    let field =
        is_byte.then_some(Field { load: right, plus: 0, width: Width::Byte, immediate: left });
    Test::Immediate {
        key: Key::full(function, right),
        mask: u32::MAX,
        minus: 0,
        action: Action::Compare,
        immediate: left,
        condition,
        field,
    }
}

/// A relation of two values.
fn pair(function: &Function, relation: Relation, left: ValueId, right: ValueId) -> Test {
    let (action, condition) = match relation {
        Relation::Equal => (Action::Compare, Condition::Equal),
        Relation::Greater => (Action::Compare, Condition::Above),
        Relation::GreaterOrEqual => (Action::Compare, Condition::AboveOrEqual),
        Relation::AnyBit => (Action::Test, Condition::NotEqual),
    };
    let unordered = matches!(relation, Relation::Equal | Relation::AnyBit);
    let widths = (as_load(function, left), as_load(function, right));
    let (left, right) = match widths {
        (Some(one), Some(other)) if unordered && one == other => (Key::raw(left), Key::raw(right)),
        _ => (Key::full(function, left), Key::full(function, right)),
    };
    Test::Pair { left, right, action, condition }
}

/// Membership in a set.
fn member(function: &Function, value: ValueId, set: SetId) -> Test {
    if let Some(constant) = function.as_constant(value) {
        return Test::Constant(function.sets[set.0 as usize].binary_search(&constant).is_ok());
    }
    match as_masked_load(function, value) {
        Some((load, width, mask)) => Test::Member {
            key: Key::raw(load),
            mask: if mask == width.max() { u32::MAX } else { reverse(width, mask) },
            set,
            reversed: Some(width),
        },
        None => {
            Test::Member { key: Key::full(function, value), mask: u32::MAX, set, reversed: None }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_load_end_with_it() {
        use Width::{Byte, Half, Word};
        assert_eq!(whole_bytes(Word, 0xffff_0000), Some((0, Half)));
        assert_eq!(whole_bytes(Word, 0x00ff_0000), Some((1, Byte)));
        assert_eq!(whole_bytes(Word, 0x0000_ffff), Some((2, Half)));
        assert_eq!(whole_bytes(Word, u32::MAX), Some((0, Word)));
        assert_eq!(whole_bytes(Word, 0x00ff_ffff), None, "three bytes are no part");
        assert_eq!(whole_bytes(Half, 0x00ff), Some((1, Byte)));
        assert_eq!(whole_bytes(Word, 0x00ff_ff00), Some((1, Half)));
    }
}
