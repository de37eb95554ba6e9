//! Functions as text, and predicates on a line.
//!
//! Values come first, one a line, then sets, then blocks:
//!
//! ```text
//! v0 = half[12]
//! v1 = byte[14]
//! v2 = v1 & 0xf
//! v3 = v2 << 2
//! v4 = half[v3 + 16]
//! s0 = { 0x50, 0x1bb, 0x1f90, 0x20fb }
//! b0: if captured >= 14 then b1 else b5
//! b1: if v0 == 0x800 then b2 else b5
//! b2: if captured >= v3 + 18 then b3 else b5
//! b3: if v4 in s0 then b4 else b5
//! b4: return 262144
//! b5: return 0
//! ```
//!
//! Constants are written where they are used and have no name: the number in
//! `v3` counts only non-constant values. A block with parameters lists them,
//! `b7(v9):`, and edges into it pass as many, `jump b7(0x10)`. A test for
//! common bits of two values is `v0 & 0x40 != 0`.
//!
//! Parsed text may also have comments, from `#` to the end of the line. Printed
//! text parses as an equal function if constants come first among its values,
//! ascending, and none is unused, as [`mod@super::build`] and
//! [`super::simplify`] leave them.

mod parse;
mod token;

use std::fmt::{self, Write as _};

use super::{
    Arithmetic, BlockId, Edge, Function, Predicate, Relation, Terminator, Value, ValueId, Width,
};
pub use parse::parse;
pub use token::IrTextError;

/// Columns that a set is wrapped at.
const WIDTH: usize = 80;

/// Nesting depth of operations that the text of a predicate expands. Deeper
/// values are written by name.
const DEPTH: usize = 4;

impl Width {
    fn name(self) -> &'static str {
        match self {
            Self::Byte => "byte",
            Self::Half => "half",
            Self::Word => "word",
        }
    }
}

impl Arithmetic {
    fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "^",
            Self::Lsh => "<<",
            Self::Rsh => ">>",
        }
    }

    /// Whether an operand is a number rather than a bit pattern.
    fn is_decimal(self) -> bool {
        !matches!(self, Self::And | Self::Or | Self::Xor)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printer = Printer::new(self);
        for (index, &value) in self.values().iter().enumerate() {
            if !matches!(value, Value::Constant(_) | Value::Parameter { .. }) {
                let name = printer.name(ValueId(index as u32), false);
                writeln!(f, "{name} = {}", printer.definition(value))?;
            }
        }
        for (index, set) in self.sets.iter().enumerate() {
            f.write_str(&wrapped_set(index, set))?;
        }
        for (index, block) in self.blocks.iter().enumerate() {
            let parameters = printer.list(&block.parameters);
            writeln!(f, "b{index}{parameters}: {}", printer.end(&block.end))?;
        }
        Ok(())
    }
}

/// `s0 = { … }`, on as many lines as needed.
fn wrapped_set(index: usize, set: &[u32]) -> String {
    let mut text = format!("s{index} = {{");
    let indent = text.len();
    let mut column = indent;
    for (position, &constant) in set.iter().enumerate() {
        let comma = if position + 1 < set.len() { "," } else { "" };
        let item = format!(" {}{comma}", number(constant, false));
        if column + item.len() > WIDTH {
            let _ = write!(text, "\n{:indent$}", "");
            column = indent;
        }
        column += item.len();
        text += &item;
    }
    text + " }\n"
}

/// A constant: decimal if it is small or `decimal`.
fn number(constant: u32, decimal: bool) -> String {
    if decimal || constant < 10 { constant.to_string() } else { format!("{constant:#x}") }
}

struct Printer<'a> {
    function: &'a Function,
    /// By value: the number of non-constant values before it.
    ranks: Vec<u32>,
}

impl<'a> Printer<'a> {
    fn new(function: &'a Function) -> Self {
        let mut next = 0;
        let rank = |value: &Value| {
            let rank = next;
            next += u32::from(!matches!(value, Value::Constant(_)));
            rank
        };
        Self { function, ranks: function.values().iter().map(rank).collect() }
    }

    fn name(&self, id: ValueId, decimal: bool) -> String {
        match self.function.as_constant(id) {
            Some(constant) => number(constant, decimal),
            None => format!("v{}", self.ranks[id.0 as usize]),
        }
    }

    fn definition(&self, value: Value) -> String {
        match value {
            Value::Constant(constant) => number(constant, false),
            Value::WireLength => "length".to_owned(),
            Value::Parameter { block, position } => format!("parameter {position} of b{}", block.0),
            Value::Load { width, index, displacement } => {
                let index = index.map(|index| self.name(index, false));
                load(width, index, displacement)
            }
            Value::Binary { op, left, right } => {
                let decimal = op.is_decimal();
                let (left, right) = (self.name(left, decimal), self.name(right, decimal));
                format!("{left} {} {right}", op.symbol())
            }
        }
    }

    /// `(a, b)`; empty for no values.
    fn list(&self, values: &[ValueId]) -> String {
        if values.is_empty() {
            return String::new();
        }
        let names: Vec<_> = values.iter().map(|&value| self.name(value, false)).collect();
        format!("({})", names.join(", "))
    }

    fn edge(&self, edge: &Edge) -> String {
        let Edge { target: BlockId(target), arguments } = edge;
        format!("b{target}{}", self.list(arguments))
    }

    fn end(&self, end: &Terminator) -> String {
        match end {
            Terminator::Return(value) => format!("return {}", self.name(*value, true)),
            Terminator::Jump(edge) => format!("jump {}", self.edge(edge)),
            Terminator::Test { predicate, then, otherwise } => {
                let name = |value, decimal| self.name(value, decimal);
                let predicate = self::predicate(*predicate, name);
                format!("if {predicate} then {} else {}", self.edge(then), self.edge(otherwise))
            }
        }
    }

    /// `id` with its operands expanded, to a depth; in brackets if it is an
    /// operation.
    fn expression(&self, id: ValueId, decimal: bool, depth: usize) -> String {
        match self.function.get(id) {
            Value::Load { width, index, displacement } if depth > 0 => {
                let index = index.map(|index| self.expression(index, false, depth - 1));
                load(width, index, displacement)
            }
            Value::Binary { op, left, right } if depth > 0 => {
                let operand = |value| self.expression(value, op.is_decimal(), depth - 1);
                format!("({} {} {})", operand(left), op.symbol(), operand(right))
            }
            Value::WireLength => "length".to_owned(),
            _ => self.name(id, decimal),
        }
    }
}

fn load(width: Width, index: Option<String>, displacement: u32) -> String {
    let width = width.name();
    match (index, displacement) {
        (None, _) => format!("{width}[{displacement}]"),
        (Some(index), 0) => format!("{width}[{index}]"),
        (Some(index), _) => format!("{width}[{index} + {displacement}]"),
    }
}

/// A predicate whose values are formatted by `name`, in decimal or not.
fn predicate(predicate: Predicate, name: impl Fn(ValueId, bool) -> String) -> String {
    match predicate {
        Predicate::Captured { index: None, bytes } => format!("captured >= {bytes}"),
        Predicate::Captured { index: Some(index), bytes } => {
            format!("captured >= {} + {bytes}", name(index, false))
        }
        Predicate::Compare { relation, left, right } => {
            let (left, right) = (name(left, false), name(right, false));
            match relation {
                Relation::Equal => format!("{left} == {right}"),
                Relation::Greater => format!("{left} > {right}"),
                Relation::GreaterOrEqual => format!("{left} >= {right}"),
                Relation::AnyBit => format!("{left} & {right} != 0"),
            }
        }
        Predicate::Member { value, set } => format!("{} in s{}", name(value, false), set.0),
    }
}

impl Function {
    /// The text of a predicate of this function on one line, with its values
    /// expanded: `half[12] == 0x800`, `captured >= 34`. Deeply nested values
    /// are written by their names in the function's text.
    #[must_use]
    pub fn describe(&self, predicate: &Predicate) -> String {
        let printer = Printer::new(self);
        self::predicate(*predicate, |value, decimal| printer.expression(value, decimal, DEPTH))
    }

    /// The right-hand side of `value`'s line in the function's text.
    pub(super) fn definition(&self, value: ValueId) -> String {
        Printer::new(self).definition(self.get(value))
    }

    /// The name of `value` in the function's text, or its number if it is a
    /// constant.
    #[must_use]
    pub fn name(&self, value: ValueId) -> String {
        Printer::new(self).name(value, false)
    }
}
