//! The cost of computing a value, determined before code generation.
//!
//! A value is computed in the data register of its packet, with temporaries
//! that all packets share. Loads precede the test that guards them in the IR,
//! so they must stay within the bytes that the caller guarantees to be
//! readable: the index of a load must be bounded by its expression, as the
//! length of an IP header is by 60.

use forebay_filter::ir::{Arithmetic, Function, Value, ValueId, Width};

use crate::list::select::{Key, Meaning};

/// The most bytes of a packet that may be read beyond its captured length.
/// Packets closer to the end of memory go to `list` code.
const MAX_REACH: u64 = 1024;

/// The most instructions of a value; hand-written filters need fewer.
const MAX_INSTRUCTIONS: u32 = 64;

/// The method of computing a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Constant(u32),
    WireLength,
    Load { width: Width, index: Option<ValueId>, displacement: u32 },
    WithConstant { op: Arithmetic, left: ValueId, constant: u32 },
    Both { op: Arithmetic, left: ValueId, right: ValueId },
}

/// The cost of computing a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    /// Registers, including the result's.
    pub registers: usize,
    /// Cycles until the result is ready.
    pub latency: u32,
    /// Bytes of the packet, from its start, that are read.
    pub reach: u32,
    /// The first byte that is read at a constant offset.
    pub first_byte: Option<u32>,
    pub reads_wire_length: bool,
    instructions: u32,
    /// An upper bound of the result.
    pub most: u32,
}

/// The costs of a function's values.
pub(super) struct Costs<'f> {
    function: &'f Function,
    /// `None` for a value that a packet in flight cannot compute early.
    values: Vec<Option<Cost>>,
}

impl<'f> Costs<'f> {
    /// The costs of all values of `function`, for loads of `load_latency`
    /// cycles.
    pub(super) fn new(function: &'f Function, load_latency: u8) -> Self {
        let mut this = Self { function, values: Vec::with_capacity(function.values().len()) };
        for index in 0..function.values().len() {
            let cost = this.compute(ValueId(index as u32), u32::from(load_latency));
            this.values.push(cost.filter(|cost| cost.instructions <= MAX_INSTRUCTIONS));
        }
        this
    }

    /// The cost of `key`.
    pub(super) fn of(&self, key: Key) -> Option<Cost> {
        match key.meaning() {
            Meaning::Length => None,
            Meaning::Raw(value) => self.values[value.0 as usize],
            Meaning::Full(value) => {
                let cost = self.values[value.0 as usize]?;
                let swap = matches!(work(self.function, value), Some(Work::Load { .. }));
                Some(Cost { latency: cost.latency + u32::from(swap), ..cost })
            }
        }
    }

    fn compute(&self, value: ValueId, load_latency: u32) -> Option<Cost> {
        let known = |operand| self.of(Key::full(self.function, operand));
        let simple = Cost {
            registers: 1,
            latency: 1,
            reach: 0,
            first_byte: None,
            reads_wire_length: false,
            instructions: 1,
            most: u32::MAX,
        };
        Some(match work(self.function, value)? {
            Work::Constant(constant) => Cost { most: constant, ..simple },
            Work::WireLength => Cost { latency: load_latency, reads_wire_length: true, ..simple },
            Work::Load { width, index, displacement } => {
                let first_byte = Some(displacement);
                let none = Cost { latency: 0, instructions: 0, most: 0, first_byte, ..simple };
                let index = index.map_or(Some(none), known)?;
                let bytes = u64::from(width.bytes());
                let end = u64::from(index.most) + u64::from(displacement) + bytes;
                let end = u32::try_from(end).ok().filter(|&end| u64::from(end) <= MAX_REACH)?;
                // An addition of the packet's place before the load; a byte
                // swap after it, unless raw bytes are used.
                Cost {
                    latency: index.latency + u32::from(index.latency > 0) + load_latency,
                    reach: index.reach.max(end),
                    instructions: index.instructions + 3,
                    most: width.max(),
                    ..index
                }
            }
            Work::WithConstant { op, left, constant } => {
                let left = known(left)?;
                Cost {
                    latency: left.latency + 1,
                    instructions: left.instructions + 1,
                    most: most(op, left.most, constant),
                    ..left
                }
            }
            Work::Both { op, left, right } => {
                let (left, right) = (known(left)?, known(right)?);
                Cost {
                    registers: left.registers.max(1 + right.registers),
                    latency: left.latency.max(right.latency) + 1,
                    reach: left.reach.max(right.reach),
                    first_byte: left.first_byte.into_iter().chain(right.first_byte).min(),
                    reads_wire_length: left.reads_wire_length || right.reads_wire_length,
                    instructions: left.instructions + right.instructions + 1,
                    most: most(op, left.most, right.most),
                }
            }
        })
    }
}

/// How `value` is computed, if that is possible ahead of its test. Excluded are
/// values that depend on the path taken, and division and shifts by anything
/// but simple constants.
pub(super) fn work(function: &Function, value: ValueId) -> Option<Work> {
    match function.get(value) {
        Value::Constant(constant) => Some(Work::Constant(constant)),
        Value::WireLength => Some(Work::WireLength),
        Value::Load { width, index, displacement } => {
            Some(Work::Load { width, index, displacement })
        }
        Value::Parameter { .. } => None,
        Value::Binary { op, left, right } => {
            match (function.as_constant(left), function.as_constant(right)) {
                (_, Some(constant)) => {
                    let divides = matches!(op, Arithmetic::Div | Arithmetic::Mod);
                    let easy = !divides || constant.is_power_of_two();
                    easy.then_some(Work::WithConstant { op, left, constant })
                }
                (Some(constant), None) if commutes(op) => {
                    Some(Work::WithConstant { op, left: right, constant })
                }
                _ => match op {
                    Arithmetic::Div | Arithmetic::Mod | Arithmetic::Lsh | Arithmetic::Rsh => None,
                    _ => Some(Work::Both { op, left, right }),
                },
            }
        }
    }
}

/// Whether the register in which `key` is computed holds `other` on the way.
pub(super) fn passes_through(function: &Function, key: Key, other: Key) -> bool {
    let before = |key: Key| {
        let (Meaning::Full(value) | Meaning::Raw(value)) = key.meaning() else { return None };
        match work(function, value)? {
            Work::Load { .. } if key != Key::raw(value) => Some(Key::raw(value)),
            Work::Load { index, .. } => index.map(|index| Key::full(function, index)),
            Work::WithConstant { left, .. } | Work::Both { left, .. } => {
                Some(Key::full(function, left))
            }
            Work::Constant(_) | Work::WireLength => None,
        }
    };
    // Bounded by the longest value that is computed at all.
    let keys = std::iter::successors(before(key), |&key| before(key));
    keys.take(MAX_INSTRUCTIONS as usize).any(|key| key == other)
}

fn commutes(op: Arithmetic) -> bool {
    use Arithmetic::{Add, And, Mul, Or, Xor};
    matches!(op, Add | Mul | And | Or | Xor)
}

/// An upper bound of `op` on operands up to `left` and `right`.
fn most(op: Arithmetic, left: u32, right: u32) -> u32 {
    match op {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Mul => left.checked_mul(right),
        Arithmetic::And => Some(left.min(right)),
        // `work` admits these only with constants on the right.
        Arithmetic::Div => left.checked_div(right),
        Arithmetic::Mod => Some(left.min(right.saturating_sub(1))),
        Arithmetic::Rsh => Some(left.checked_shr(right).unwrap_or(0)),
        Arithmetic::Lsh => {
            let shifted = u64::from(left).checked_shl(right).filter(|_| right < 32);
            shifted.and_then(|shifted| u32::try_from(shifted).ok())
        }
        Arithmetic::Or | Arithmetic::Xor | Arithmetic::Sub => None,
    }
    .unwrap_or(u32::MAX)
}

/// A value in the notation of the reports.
pub(super) fn value_text(function: &Function, key: Key) -> String {
    match key.meaning() {
        Meaning::Length => "captured".to_owned(),
        Meaning::Full(value) | Meaning::Raw(value) => text_of(function, value),
    }
}

pub(super) fn text_of(function: &Function, value: ValueId) -> String {
    match function.get(value) {
        Value::Constant(constant) => constant.to_string(),
        Value::WireLength => "wire length".to_owned(),
        Value::Load { width, index, displacement } => {
            let name = match width {
                Width::Byte => "byte",
                Width::Half => "half",
                Width::Word => "word",
            };
            match index {
                None => format!("{name}[{displacement}]"),
                Some(ValueId(index)) => format!("{name}[v{index} + {displacement}]"),
            }
        }
        Value::Binary { .. } | Value::Parameter { .. } => format!("v{}", value.0),
    }
}
