//! Predicates as short text, for names of blocks in listings and comments.
//!
//! The notation is that of the IR's text. Formatting takes time proportional to
//! the length of the predicate, not of the function.

use forebay_filter::ir::{Arithmetic, Function, Predicate, Relation, Value, ValueId, Width};

/// Nesting depth of operators that is shown; deeper ones are left out.
const DEPTH: u32 = 4;

/// The text of `predicate`, on one line: `half[12] == 0x800`.
#[must_use]
pub fn describe(function: &Function, predicate: Predicate) -> String {
    let value = |id| expression(function, id, false, DEPTH);
    match predicate {
        Predicate::Captured { index: None, bytes } => format!("captured >= {bytes}"),
        Predicate::Captured { index: Some(index), bytes } => {
            format!("captured >= {} + {bytes}", value(index))
        }
        Predicate::Compare { relation, left, right } => {
            let (left, right) = (value(left), value(right));
            match relation {
                Relation::Equal => format!("{left} == {right}"),
                Relation::Greater => format!("{left} > {right}"),
                Relation::GreaterOrEqual => format!("{left} >= {right}"),
                Relation::AnyBit => format!("{left} & {right} != 0"),
            }
        }
        Predicate::Member { value: of, set } => format!("{} in s{}", value(of), set.0),
    }
}

fn expression(function: &Function, id: ValueId, decimal: bool, depth: u32) -> String {
    match function.get(id) {
        Value::Constant(constant) if decimal || constant < 10 => constant.to_string(),
        Value::Constant(constant) => format!("{constant:#x}"),
        Value::WireLength => "length".to_owned(),
        Value::Parameter { block, position } => format!("b{}.{position}", block.0),
        Value::Load { .. } | Value::Binary { .. } if depth == 0 => "(...)".to_owned(),
        Value::Load { width, index, displacement } => {
            let width = match width {
                Width::Byte => "byte",
                Width::Half => "half",
                Width::Word => "word",
            };
            match index {
                None => format!("{width}[{displacement}]"),
                Some(index) => {
                    let index = expression(function, index, false, depth - 1);
                    format!("{width}[{index} + {displacement}]")
                }
            }
        }
        Value::Binary { op, left, right } => {
            let (sign, decimal) = match op {
                Arithmetic::Add => ("+", true),
                Arithmetic::Sub => ("-", true),
                Arithmetic::Mul => ("*", true),
                Arithmetic::Div => ("/", true),
                Arithmetic::Mod => ("%", true),
                Arithmetic::And => ("&", false),
                Arithmetic::Or => ("|", false),
                Arithmetic::Xor => ("^", false),
                Arithmetic::Lsh => ("<<", true),
                Arithmetic::Rsh => (">>", true),
            };
            let of = |id| expression(function, id, decimal, depth - 1);
            format!("({} {sign} {})", of(left), of(right))
        }
    }
}
