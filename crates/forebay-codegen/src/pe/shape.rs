//! Values that are fields of a packet, shifted and under a mask: operations with constants are folded into
//! them, and comparisons with a constant become atoms.

use forebay_filter::ir::{Arithmetic, Relation};

use super::atom::{Atom, Field, Literal};

/// The known form of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Number(u32),
    WireLength,
    /// The field times 2 to the power of `left`, or divided by that of −`left`.
    /// `left` is 0 for an empty mask, and else between −32 and 32.
    Field {
        field: Field,
        left: i32,
    },
}

/// `shape` after an operation with a constant, if the result has a shape.
pub(super) fn shifted(shape: Shape, op: Arithmetic, constant: u32) -> Option<Shape> {
    let Shape::Field { field, left } = shape else { return None };
    let distance = i32::try_from(constant).ok();
    match op {
        Arithmetic::And => {
            let mask = field.mask & move_bits(constant, -left);
            Some(placed(Field { mask, ..field }, left))
        }
        Arithmetic::Mul if constant.is_power_of_two() => {
            move_left(field, left, constant.trailing_zeros() as i32)
        }
        Arithmetic::Lsh => move_left(field, left, distance.filter(|&d| d < 32)?),
        Arithmetic::Div if constant.is_power_of_two() => {
            move_right(field, left, constant.trailing_zeros() as i32)
        }
        Arithmetic::Rsh => move_right(field, left, distance.filter(|&d| d < 32)?),
        _ => None,
    }
}

/// `number` shifted left, or right if `left` is negative.
fn move_bits(number: u32, left: i32) -> u32 {
    if left >= 0 {
        number.checked_shl(left.unsigned_abs()).unwrap_or(0)
    } else {
        number.checked_shr(left.unsigned_abs()).unwrap_or(0)
    }
}

/// A shifted field; one without relevant bits is 0, wherever it is.
fn placed(field: Field, left: i32) -> Shape {
    Shape::Field { field, left: if field.mask == 0 { 0 } else { left } }
}

/// A left shift that loses no bit.
fn move_left(field: Field, left: i32, by: i32) -> Option<Shape> {
    let left = left + by;
    let lossless = left < 0 || u64::from(field.mask) << left.min(32) <= u64::from(u32::MAX);
    lossless.then_some(placed(field, left))
}

/// A right shift; lost bits become irrelevant.
fn move_right(field: Field, left: i32, by: i32) -> Option<Shape> {
    let left = left - by;
    let kept = if left < 0 { move_bits(u32::MAX, -left) } else { u32::MAX };
    Some(placed(Field { mask: field.mask & kept, ..field }, left))
}

pub(super) fn compare(shape: Shape, relation: Relation, constant: u32) -> Option<Literal> {
    match shape {
        Shape::Number(number) => Some(Literal::Always(relation.holds(number, constant))),
        Shape::WireLength => match relation {
            Relation::Equal => Some(Literal::Is(Atom::WireEqual(constant))),
            Relation::GreaterOrEqual => Some(Literal::Is(Atom::WireAtLeast(constant))),
            Relation::Greater => Some(match constant.checked_add(1) {
                Some(least) => Literal::Is(Atom::WireAtLeast(least)),
                None => Literal::Always(false),
            }),
            Relation::AnyBit => None,
        },
        Shape::Field { field, left } => Some(match relation {
            Relation::Equal => equal(field, left, constant),
            Relation::AnyBit => {
                let mask = field.mask & move_bits(constant, -left);
                equal(Field { mask, ..field }, 0, 0).negated()
            }
            Relation::GreaterOrEqual => at_least(field, left, u64::from(constant)),
            Relation::Greater => at_least(field, left, u64::from(constant) + 1),
        }),
    }
}

fn equal(field: Field, left: i32, constant: u32) -> Literal {
    let unshifted = move_bits(constant, -left);
    if move_bits(unshifted, left) != constant || unshifted & !field.mask != 0 {
        return Literal::Always(false);
    }
    if field.mask == 0 {
        return Literal::Always(true);
    }
    Literal::Is(Atom::Equal(field, unshifted))
}

/// Whether the shifted field is at least `constant`, of up to 33 bits.
fn at_least(field: Field, left: i32, constant: u64) -> Literal {
    let unshifted = if left >= 0 {
        constant.div_ceil(1 << left)
    } else {
        constant << left.unsigned_abs().min(31)
    };
    match u32::try_from(unshifted) {
        Ok(0) => Literal::Always(true),
        Ok(least) if least <= field.mask => Literal::Is(Atom::AtLeast(field, least)),
        _ => Literal::Always(false),
    }
}
