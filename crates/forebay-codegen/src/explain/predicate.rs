//! Predicates as short text, to name blocks in listings and comments.
//!
//! The notation is that of the intermediate representation's text. One
//! predicate takes the time of its own length, however long the function is.

use forebay_filter::ir::{Arithmetic, Function, Predicate, Relation, Value, ValueId, Width};

/// Operators inside one another that are shown; what is deeper is left out.
const DEPTH: u32 = 4;

/// What `predicate` tests, on one line: `half[12] == 0x800`.
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
