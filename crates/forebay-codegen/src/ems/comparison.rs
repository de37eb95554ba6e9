//! The comparison of each test.
//!
//! Back end `list` selects the comparison of a predicate and the form of the
//! packet's bytes. Here it is split in two: the load, which is scheduled
//! earlier, and the comparison.

use forebay_filter::ir::{Function, Predicate};

use crate::list::member::constants;
use crate::list::select::{self, Action, Condition, Key, select};

/// The content of a data register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Content {
    pub key: Key,
    /// Bits that are kept.
    pub mask: u32,
}

/// A comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// At least that many bytes were captured.
    Captured { bytes: u32 },
    /// At least as many bytes as the content plus `bytes` were captured.
    CapturedAt { bytes: u32 },
    /// The content compared with a number.
    Number { action: Action, immediate: u32, condition: Condition },
    /// The content compared with another value.
    Pair { right: Key, action: Action, condition: Condition },
    /// The content is one of two or more numbers.
    Member { constants: Vec<u32> },
}

/// The result of reading a predicate.
pub(super) enum Reading {
    /// It always holds, or never.
    Constant(bool),
    /// The comparison, and its content if it has one.
    Test(Test, Option<Content>),
}

/// Reads `predicate`.
pub(super) fn read(function: &Function, predicate: Predicate) -> Reading {
    let whole = |key| Some(Content { key, mask: u32::MAX });
    match select(function, predicate) {
        select::Test::Constant(holds) => Reading::Constant(holds),
        select::Test::Captured { bytes } => Reading::Test(Test::Captured { bytes }, None),
        select::Test::CapturedAt { index, bytes } => {
            Reading::Test(Test::CapturedAt { bytes }, whole(index))
        }
        select::Test::Immediate { key, mask, action, immediate, condition, .. } => {
            let test = Test::Number { action, immediate, condition };
            Reading::Test(test, Some(Content { key, mask }))
        }
        select::Test::Pair { left, right, action, condition } => {
            Reading::Test(Test::Pair { right, action, condition }, whole(left))
        }
        select::Test::Few { key, few } => member(few.constants().to_vec(), whole(key)),
        select::Test::Member { key, mask, set, reversed } => {
            let constants = constants(&function.sets[set.0 as usize], reversed);
            member(constants, Some(Content { key, mask }))
        }
    }
}

/// A test for membership in `constants`, of any number.
fn member(constants: Vec<u32>, content: Option<Content>) -> Reading {
    match constants[..] {
        [] => Reading::Constant(false),
        [immediate] => Reading::Test(Test::equal(immediate), content),
        _ => Reading::Test(Test::Member { constants }, content),
    }
}

impl Test {
    fn equal(immediate: u32) -> Self {
        let (action, condition) = (Action::Compare, Condition::Equal);
        Self::Number { action, immediate, condition }
    }

    /// Whether the data register is read.
    pub(super) fn reads_data(&self) -> bool {
        !matches!(self, Self::Captured { .. })
    }

    /// The test for this or `other`, if both compare the same content with
    /// numbers, at most `most` together.
    pub(super) fn either(&self, other: &Self, most: usize) -> Option<Self> {
        let mut constants = self.numbers()?;
        constants.extend(other.numbers()?);
        constants.sort_unstable();
        constants.dedup();
        match constants[..] {
            [immediate] => Some(Self::equal(immediate)),
            _ => (constants.len() <= most).then_some(Self::Member { constants }),
        }
    }

    /// The numbers for which it holds, if it is a test for equality.
    fn numbers(&self) -> Option<Vec<u32>> {
        match self {
            Self::Number { action: Action::Compare, immediate, condition: Condition::Equal } => {
                Some(vec![*immediate])
            }
            Self::Member { constants } => Some(constants.clone()),
            _ => None,
        }
    }
}
