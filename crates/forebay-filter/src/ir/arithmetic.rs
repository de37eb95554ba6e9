//! Arithmetic and comparisons as defined by classic BPF.

use super::{Arithmetic, Relation};

impl Arithmetic {
    /// `left` op `right`; `None` for a division by 0.
    #[must_use]
    pub fn apply(self, left: u32, right: u32) -> Option<u32> {
        match self {
            Self::Add => Some(left.wrapping_add(right)),
            Self::Sub => Some(left.wrapping_sub(right)),
            Self::Mul => Some(left.wrapping_mul(right)),
            Self::Div => left.checked_div(right),
            Self::Mod => left.checked_rem(right),
            Self::And => Some(left & right),
            Self::Or => Some(left | right),
            Self::Xor => Some(left ^ right),
            Self::Lsh => Some(left.checked_shl(right).unwrap_or(0)),
            Self::Rsh => Some(left.checked_shr(right).unwrap_or(0)),
        }
    }
}

impl Relation {
    /// Whether `left` and `right` satisfy this relation.
    #[must_use]
    pub fn holds(self, left: u32, right: u32) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
            Self::AnyBit => left & right != 0,
        }
    }
}
