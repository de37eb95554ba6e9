//! Values and predicates as C expressions.

use std::collections::BTreeMap;
use std::fmt::Write;

use forebay_filter::ir::{Arithmetic, Function, Predicate, Relation, Value, ValueId, Width};

/// Nesting depth of operators at which a value gets a name of its own.
const DEPTH: u32 = 12;

/// Number of `case` labels a line.
const CASES: usize = 6;

/// The values that the C form of a predicate reads.
pub(super) fn operands(function: &Function, predicate: Predicate) -> Vec<ValueId> {
    match predicate {
        _ if settled(function, predicate).is_some() => Vec::new(),
        Predicate::Captured { .. } if captured(function, predicate).is_some() => Vec::new(),
        Predicate::Captured { index, .. } => index.into_iter().collect(),
        Predicate::Compare { left, right, .. } => vec![left, right],
        Predicate::Member { value, .. } => vec![value],
    }
}

/// The values that a value reads.
pub(super) fn operands_of(value: Value) -> impl Iterator<Item = ValueId> {
    let (first, second) = match value {
        Value::Load { index, .. } => (index, None),
        Value::Binary { left, right, .. } => (Some(left), Some(right)),
        Value::Constant(_) | Value::WireLength | Value::Parameter { .. } => (None, None),
    };
    first.into_iter().chain(second)
}

/// Whether the C expression of `predicate` reads the captured length.
pub(super) fn reads_cap_len(function: &Function, predicate: Predicate) -> bool {
    matches!(predicate, Predicate::Captured { .. }) && settled(function, predicate).is_none()
}

/// The outcome of a predicate that is the same for every packet. C compilers
/// warn of such comparisons.
fn settled(function: &Function, predicate: Predicate) -> Option<bool> {
    match predicate {
        Predicate::Captured { .. } => match captured(function, predicate) {
            Some(0) => Some(true),
            Some(bytes) => (bytes > u64::from(u32::MAX)).then_some(false),
            None => None,
        },
        Predicate::Member { .. } => None,
        Predicate::Compare { relation, left, right } => {
            let constants = (function.as_constant(left), function.as_constant(right));
            match (relation, constants) {
                (_, (Some(left), Some(right))) => Some(relation.holds(left, right)),
                (Relation::Greater, (Some(0), _) | (_, Some(u32::MAX))) => Some(false),
                (Relation::GreaterOrEqual, (Some(u32::MAX), _) | (_, Some(0))) => Some(true),
                (Relation::AnyBit, (Some(0), _) | (_, Some(0))) => Some(false),
                (Relation::Equal | Relation::GreaterOrEqual, _) if left == right => Some(true),
                (Relation::Greater, _) if left == right => Some(false),
                _ => None,
            }
        }
    }
}

/// The bytes that must be captured, if their number is a constant.
fn captured(function: &Function, predicate: Predicate) -> Option<u64> {
    match predicate {
        Predicate::Captured { index: None, bytes } => Some(u64::from(bytes)),
        Predicate::Captured { index: Some(index), bytes } => {
            function.as_constant(index).map(|index| u64::from(index) + u64::from(bytes))
        }
        _ => None,
    }
}

/// A function that tests whether a set has a number.
pub(super) fn set_function(function: &Function, set: usize) -> String {
    let mut text =
        format!("\nstatic inline int in_set_{set}(uint32_t number)\n{{\n    switch (number) {{\n");
    for line in function.sets[set].chunks(CASES) {
        text.push_str("   ");
        line.iter().for_each(|&constant| {
            let _ = write!(text, " case {}:", number(constant));
        });
        text.push('\n');
    }
    text.push_str("        return 1;\n    default:\n        return 0;\n    }\n}\n");
    text
}

/// A constant; large ones are hexadecimal.
pub(super) fn number(constant: u32) -> String {
    if constant < 256 { format!("{constant}u") } else { format!("{constant:#x}u") }
}

/// The C name of a parameter.
pub(super) fn parameter(function: &Function, value: ValueId) -> String {
    match function.get(value) {
        Value::Parameter { block, position } => format!("b{}_{position}", block.0),
        _ => format!("v{}", value.0),
    }
}

/// The values that a block reads, as C expressions.
pub(super) struct Expressions {
    /// Definitions of values that are read more than once, in order.
    pub definitions: Vec<String>,
    /// Whether one of the values is a load.
    pub reads_packet: bool,
    /// Whether one of the values is the length on the wire.
    pub reads_wire_len: bool,
    texts: BTreeMap<ValueId, String>,
}

impl Expressions {
    pub(super) fn new(function: &Function, roots: &[ValueId]) -> Self {
        let mut readers: BTreeMap<ValueId, u32> = BTreeMap::new();
        let mut pending = roots.to_vec();
        while let Some(value) = pending.pop() {
            let count = readers.entry(value).or_default();
            *count += 1;
            if *count == 1 {
                pending.extend(operands_of(function.get(value)));
            }
        }
        let mut this = Self {
            definitions: Vec::new(),
            reads_packet: false,
            reads_wire_len: false,
            texts: BTreeMap::new(),
        };
        let mut depths: BTreeMap<ValueId, u32> = BTreeMap::new();
        // Operands have lower numbers than the values that read them.
        for (&value, &count) in &readers {
            let what = function.get(value);
            this.reads_packet |= matches!(what, Value::Load { .. });
            this.reads_wire_len |= matches!(what, Value::WireLength);
            let depth =
                operands_of(what).filter_map(|of| depths.get(&of)).max().map_or(0, |d| d + 1);
            let text = this.expression(function, value);
            let is_plain =
                matches!(what, Value::Constant(_) | Value::WireLength | Value::Parameter { .. });
            if (count > 1 || depth > DEPTH) && !is_plain {
                let name = format!("v{}", value.0);
                this.definitions.push(format!("const uint32_t {name} = {text};"));
                this.texts.insert(value, name);
                depths.insert(value, 0);
            } else {
                this.texts.insert(value, text);
                depths.insert(value, depth);
            }
        }
        this
    }

    /// The expression of a value that the block reads.
    pub(super) fn get(&self, value: ValueId) -> &str {
        self.texts.get(&value).map_or("0u", String::as_str)
    }

    /// The parameters of blocks among the values.
    pub(super) fn parameters(&self, function: &Function) -> Vec<ValueId> {
        let is_parameter =
            |value: &ValueId| matches!(function.get(*value), Value::Parameter { .. });
        self.texts.keys().copied().filter(is_parameter).collect()
    }

    fn expression(&self, function: &Function, value: ValueId) -> String {
        match function.get(value) {
            Value::Constant(constant) => number(constant),
            Value::WireLength => "wire".to_owned(),
            Value::Parameter { .. } => parameter(function, value),
            Value::Load { width, index, displacement } => {
                let place = match index {
                    None => format!("p + {displacement}"),
                    Some(index) => format!("p + ((size_t){} + {displacement}u)", self.get(index)),
                };
                match width {
                    Width::Byte => format!("byte({place})"),
                    Width::Half => format!("half({place})"),
                    Width::Word => format!("word({place})"),
                }
            }
            Value::Binary { op, left, right } => self.binary(function, op, left, right),
        }
    }

    fn binary(&self, function: &Function, op: Arithmetic, left: ValueId, right: ValueId) -> String {
        let (first, second) = (self.get(left), self.get(right));
        let constant = function.as_constant(right);
        let sign = match op {
            Arithmetic::Add => "+",
            Arithmetic::Sub => "-",
            Arithmetic::Mul => "*",
            Arithmetic::Div => "/",
            Arithmetic::Mod => "%",
            Arithmetic::And => "&",
            Arithmetic::Or => "|",
            Arithmetic::Xor => "^",
            Arithmetic::Lsh => "<<",
            Arithmetic::Rsh => ">>",
        };
        match (op, constant) {
            // Unreachable: the IR tests a divisor for 0 before it divides.
            (Arithmetic::Div | Arithmetic::Mod, Some(0)) => "0u".to_owned(),
            (Arithmetic::Lsh | Arithmetic::Rsh, Some(32..)) => "0u".to_owned(),
            (Arithmetic::Lsh | Arithmetic::Rsh, None) => {
                format!("({second} < 32 ? {first} {sign} {second} : 0u)")
            }
            _ => format!("({first} {sign} {second})"),
        }
    }

    /// The predicate as a condition.
    pub(super) fn condition(&self, function: &Function, predicate: Predicate) -> String {
        if let Some(holds) = settled(function, predicate) {
            return u32::from(holds).to_string();
        }
        if let Some(bytes) = captured(function, predicate) {
            return format!("cap >= {bytes}u");
        }
        match predicate {
            Predicate::Captured { index, bytes } => {
                let index = index.map_or("0u", |index| self.get(index));
                format!("cap >= (uint64_t){index} + {bytes}u")
            }
            Predicate::Compare { relation, left, right } => {
                let (left, right) = (self.get(left), self.get(right));
                match relation {
                    Relation::Equal => format!("{left} == {right}"),
                    Relation::Greater => format!("{left} > {right}"),
                    Relation::GreaterOrEqual => format!("{left} >= {right}"),
                    Relation::AnyBit => format!("({left} & {right}) != 0"),
                }
            }
            Predicate::Member { value, set } => format!("in_set_{}({})", set.0, self.get(value)),
        }
    }
}
