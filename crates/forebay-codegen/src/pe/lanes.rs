//! One loop with 16 packets in the lanes of a vector, for AVX-512.
//!
//! For a filter that reads few bytes, [`columns`](super::columns) brings four
//! bytes of each of 16 packets into the lanes of a vector. Every predicate is
//! then a comparison of lanes under the mask of the nodes after it: the
//! decision function is evaluated at once, without signatures. Lanes of 32 bits
//! also hold whole values, so this form supports arithmetic, which signatures
//! do not.

use forebay_filter::ir::{Arithmetic, Function, Relation, SetId, Value, ValueId};
use iced_x86::Code;

use super::algebra::{Literal, Mask, Masks, Test, evaluate};
use super::atom::{Atom, Field, Reader};
use super::columns::{Columns, LANES, Loaded, span};
use super::decision::{Decision, Node};
use super::extract::swapped;
use super::loops::Unsuited;
use super::packets::{entry, prefetches};
use super::wide::{Wide, loads};
use crate::code::Options;
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{LoopBody, Operand, Reg, RegClass};

/// Kinds of comparison of `vpcmpud`.
const EQUAL: i32 = 0;
const LESS: i32 = 1;
const LESS_OR_EQUAL: i32 = 2;
const NOT_EQUAL: i32 = 4;
const NOT_LESS: i32 = 5;
const NOT_LESS_OR_EQUAL: i32 = 6;

struct Builder<'a> {
    wide: Wide<'a>,
    function: &'a Function,
    reader: Reader<'a>,
    loaded: Loaded,
    values: Vec<(ValueId, Reg)>,
    /// Masked columns, by their start and the mask.
    masked: Vec<((u32, u32), Reg)>,
    captured: Option<Reg>,
    wire: Option<Reg>,
    /// Whether the filter needs an operation that lanes do not support.
    unsuited: bool,
}

/// The loop for `decision`.
///
/// # Errors
/// If lanes do not support a value.
pub(super) fn body(
    function: &Function,
    decision: &Decision,
    columns: &Columns,
    options: &Options,
    pool: &mut Pool,
) -> Result<LoopBody, Unsuited> {
    let mut wide = Wide::new("predicated", LANES, columns.constants(), pool);
    prefetches(&mut wide.body, columns.first_byte(), options.prefetch);
    let loaded = Loaded::new(columns, &mut wide);
    let reader = Reader::new(function);
    let mut builder = Builder {
        wide,
        function,
        reader,
        loaded,
        values: Vec::new(),
        masked: Vec::new(),
        captured: None,
        wire: None,
        unsuited: false,
    };
    let outcome = evaluate(decision, |node| group(node, columns), &mut builder);
    builder.wide.verdicts(outcome, decision.accept, LANES);
    builder.leaves(decision);
    if builder.unsuited {
        return Err(Unsuited::Predicate("one that lanes of 32 bits do not compute".to_owned()));
    }
    Ok(builder.wide.body)
}

/// The tests of a node: one for each literal, except that only the greatest
/// captured length is tested, and fields of one column are compared at once.
fn group(node: &Node, columns: &Columns) -> Vec<Literal> {
    let mut group: Vec<Literal> = Vec::new();
    for &(atom, holds) in &node.literals {
        let atom = match atom {
            Atom::Equal(field, constant) if holds => columns.whole_word(field, constant),
            _ => atom,
        };
        let joins = group.iter().enumerate().find_map(|(index, (test, known))| match test {
            Test::Lanes(other) if *known && holds => Some((index, joined(*other, atom)?)),
            _ => None,
        });
        let literal = (Test::Lanes(atom), holds);
        match joins {
            Some((index, both)) => group[index].0 = Test::Lanes(both),
            None if group.contains(&literal) => {}
            None => group.push(literal),
        }
    }
    group
}

/// The atom that holds if both do, if there is one.
fn joined(a: Atom, b: Atom) -> Option<Atom> {
    match (a, b) {
        (Atom::Captured(a), Atom::Captured(b)) => Some(Atom::Captured(a.max(b))),
        (Atom::Equal(a, of_a), Atom::Equal(b, of_b)) => {
            let common = a.mask & b.mask;
            let alike = a.offset == b.offset && a.bytes == b.bytes;
            (alike && of_a & common == of_b & common)
                .then_some(Atom::Equal(Field { mask: a.mask | b.mask, ..a }, of_a | of_b))
        }
        _ => None,
    }
}

impl Builder<'_> {
    /// The column that contains bytes `low` to `high`, and its start.
    fn column(&mut self, span: (u32, u32)) -> (u32, Reg) {
        self.loaded.find(span).unwrap_or_else(|| (span.0, self.unsuited()))
    }

    /// Records that the filter is unsuited; the returned register is a
    /// placeholder.
    fn unsuited(&mut self) -> Reg {
        self.unsuited = true;
        self.captured()
    }

    fn vector(&mut self, code: Code, units: Units, a: Reg, b: Operand) -> Reg {
        let cost = (loads(units, b), latency::SIMPLE);
        self.wide.op(code, RegClass::Vector, vec![Operand::Reg(a), b], cost, None)
    }

    fn and(&mut self, a: Reg, b: Operand) -> Reg {
        self.vector(Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, Units::LOGIC_512, a, b)
    }

    /// Lanes of `column`, which starts at byte `start`, as the number in
    /// `bytes` bytes from `offset`.
    fn number(&mut self, column: Reg, start: u32, offset: u32, bytes: u32) -> Reg {
        let at = offset - start;
        // Lowest byte first; bytes beyond the number become 0.
        let pick = |i: u32| if i < bytes { (at + bytes - 1 - i) as u8 } else { 0x80 };
        let shuffle: Vec<u8> = (0..64_u32)
            .map(|i| match pick(i % 4) {
                0x80 => 0x80,
                byte => byte + (i % 16 / 4 * 4) as u8,
            })
            .collect();
        let id = self.wide.pool.add(&shuffle, 64);
        let shuffle = self.wide.constants.operand(&mut self.wide.body, id);
        self.vector(Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512, Units::PORT_5, column, shuffle)
    }

    /// The lanes of `value`.
    fn value(&mut self, value: ValueId) -> Reg {
        if let Some((_, reg)) = self.values.iter().find(|(known, _)| *known == value) {
            return *reg;
        }
        let reg = match self.function.get(value) {
            Value::Constant(number) => {
                let id = super::constants::repeated(self.wide.pool, &number.to_le_bytes(), 64);
                self.wide.constants.register(&mut self.wide.body, id)
            }
            Value::WireLength => self.wire(),
            Value::Load { width, index, displacement } => {
                // The atom was read with this form.
                let offset = self.reader.offset(index, displacement).unwrap_or_default();
                let (start, column) = self.column((offset, offset + width.bytes() - 1));
                self.number(column, start, offset, width.bytes())
            }
            Value::Binary { op, left, right } => self.binary(op, left, right),
            Value::Parameter { .. } => self.unsuited(),
        };
        self.values.push((value, reg));
        reg
    }

    fn binary(&mut self, op: Arithmetic, left: ValueId, right: ValueId) -> Reg {
        let left = self.value(left);
        let right = match self.function.as_constant(right) {
            Some(number) => self.wide.number(number),
            None => Operand::Reg(self.value(right)),
        };
        let (code, units) = match op {
            Arithmetic::Add => (Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, Units::LOGIC_512),
            Arithmetic::Sub => (Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, Units::LOGIC_512),
            Arithmetic::Mul => (Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, Units::PORT_0),
            Arithmetic::Or => (Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, Units::LOGIC_512),
            Arithmetic::Xor => (Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, Units::LOGIC_512),
            // Shift distances from 32 up give 0 here too.
            Arithmetic::Lsh => (Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, Units::PORT_0),
            Arithmetic::Rsh => (Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, Units::PORT_0),
            Arithmetic::And => (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, Units::LOGIC_512),
            Arithmetic::Div | Arithmetic::Mod => return self.unsuited(),
        };
        self.vector(code, units, left, right)
    }

    fn captured(&mut self) -> Reg {
        let reg = self.captured.unwrap_or_else(|| self.wide.load(entry(Table::CapLen, 0)));
        *self.captured.insert(reg)
    }

    fn wire(&mut self) -> Reg {
        let reg = self.wire.unwrap_or_else(|| self.wide.load(entry(Table::WireLen, 0)));
        *self.wire.insert(reg)
    }

    fn compare(&mut self, left: Reg, right: Operand, kind: i32, under: Option<Reg>) -> Reg {
        let code = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
        self.wide.compare(code, (left, right), Some(kind), under)
    }

    /// Tests lanes for any bit of `bits`, or for none.
    fn any_bit(&mut self, lanes: Reg, bits: Operand, any: bool, under: Option<Reg>) -> Reg {
        let code = if any {
            Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32
        } else {
            Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32
        };
        self.wide.compare(code, (lanes, bits), None, under)
    }

    /// Tests a field for equality with a constant, in the packet's byte order.
    fn equal(&mut self, field: Field, constant: u32, holds: bool, under: Option<Reg>) -> Reg {
        let (start, column) = self.column(span(field));
        let moved = |number: u32| {
            // The field may begin before the column, where its mask is 0.
            let raw = u64::from(swapped(number, field.bytes));
            let distance = i64::from(field.offset) - i64::from(start);
            if distance >= 0 { raw << (8 * distance) } else { raw >> (-8 * distance) }
        };
        let (mask, constant) = (moved(field.mask) as u32, moved(constant) as u32);
        let mask_lanes = self.wide.number(mask);
        if constant == 0 {
            return self.any_bit(column, mask_lanes, !holds, under);
        }
        let masked = match self.masked.iter().find(|(known, _)| *known == (start, mask)) {
            Some((_, masked)) => *masked,
            None if mask == u32::MAX => column,
            None => {
                let masked = self.and(column, mask_lanes);
                self.masked.push(((start, mask), masked));
                masked
            }
        };
        let constant = self.wide.number(constant);
        self.compare(masked, constant, if holds { EQUAL } else { NOT_EQUAL }, under)
    }

    /// Tests a field for membership in a set, or for none: it is no member if
    /// it differs from each constant.
    fn member(&mut self, field: Field, set: SetId, holds: bool, under: Option<Reg>) -> Reg {
        let constants = self.function.sets.get(set.0 as usize);
        let mut none = under;
        let possible = constants.into_iter().flatten().filter(|&&one| one & !field.mask == 0);
        for &constant in possible {
            none = Some(self.equal(field, constant, false, none));
        }
        match (none, under) {
            (None, _) => self.unsuited(),
            (Some(none), _) if !holds => none,
            (Some(none), Some(under)) => Masks::and_not(self, none, under),
            (Some(none), None) => Masks::not(self, none),
        }
    }

    fn at_least(&mut self, field: Field, constant: u32, holds: bool, under: Option<Reg>) -> Reg {
        let (low, high) = span(field);
        // Trailing bytes outside the mask are 0 in field and constant, but the
        // constant may have been rounded up within them.
        let (start, column) = self.column((low, high));
        let trailing = field.offset + field.bytes - 1 - high;
        let bytes = high - low + 1;
        let number = self.number(column, start, low, bytes);
        let mask = field.mask >> (8 * trailing);
        let masked = if mask == u32::MAX >> (32 - 8 * bytes) {
            number
        } else {
            let mask = self.wide.number(mask);
            self.and(number, mask)
        };
        let least = u64::from(constant).div_ceil(1 << (8 * trailing)) as u32;
        let constant = self.wide.number(least);
        self.compare(masked, constant, if holds { NOT_LESS } else { LESS }, under)
    }

    fn computed(
        &mut self,
        (relation, left, right): (Relation, ValueId, ValueId),
        holds: bool,
        under: Option<Reg>,
    ) -> Reg {
        let left = self.value(left);
        let right = match self.function.as_constant(right) {
            Some(number) => self.wide.number(number),
            None => Operand::Reg(self.value(right)),
        };
        let kind = match (relation, holds) {
            (Relation::AnyBit, _) => return self.any_bit(left, right, holds, under),
            (Relation::Equal, true) => EQUAL,
            (Relation::Equal, false) => NOT_EQUAL,
            (Relation::Greater, true) => NOT_LESS_OR_EQUAL,
            (Relation::Greater, false) => LESS_OR_EQUAL,
            (Relation::GreaterOrEqual, true) => NOT_LESS,
            (Relation::GreaterOrEqual, false) => LESS,
        };
        self.compare(left, right, kind, under)
    }

    fn atom(&mut self, atom: Atom, holds: bool, under: Option<Reg>) -> Reg {
        match atom {
            Atom::Equal(field, constant) => self.equal(field, constant, holds, under),
            Atom::AtLeast(field, constant) => self.at_least(field, constant, holds, under),
            Atom::Computed(relation, left, right) => {
                self.computed((relation, left, right), holds, under)
            }
            Atom::Captured(bytes) => {
                let (lengths, bytes) = (self.captured(), self.wide.number(bytes));
                self.compare(lengths, bytes, if holds { NOT_LESS } else { LESS }, under)
            }
            Atom::WireAtLeast(bytes) => {
                let (lengths, bytes) = (self.wire(), self.wide.number(bytes));
                self.compare(lengths, bytes, if holds { NOT_LESS } else { LESS }, under)
            }
            Atom::WireEqual(bytes) => {
                let (lengths, bytes) = (self.wire(), self.wide.number(bytes));
                self.compare(lengths, bytes, if holds { EQUAL } else { NOT_EQUAL }, under)
            }
            Atom::Member(field, set) => self.member(field, set, holds, under),
        }
    }

    fn leaves(&mut self, decision: &Decision) {
        let mut all: Option<Reg> = None;
        for leave in &decision.leaves {
            self.wide.note("left to list");
            let under = leave.guard.map(|guard| self.atom(guard, true, None));
            let (atom, holds) = leave.literal;
            let wrong = self.atom(atom, holds, under);
            all = Some(match all {
                Some(others) => Masks::or(self, others, wrong),
                None => wrong,
            });
        }
        if let Some(reg) = all {
            self.wide.leave(reg, LANES);
        }
    }
}

impl Masks for Builder<'_> {
    const CHAIN: usize = super::wide::CHAIN;

    fn comparisons(&self, test: Test) -> usize {
        match test {
            Test::Lanes(Atom::Member(_, set)) => {
                self.function.sets.get(set.0 as usize).map_or(1, |constants| constants.len())
            }
            _ => 1,
        }
    }

    fn test(&mut self, test: Test, holds: bool, under: Option<Reg>) -> Mask {
        match test {
            Test::Lanes(atom) => Mask::plain(self.atom(atom, holds, under)),
            _ => Mask::plain(self.unsuited()),
        }
    }

    fn and(&mut self, a: Reg, b: Reg) -> Reg {
        self.wide.logic(Code::VEX_Kandd_kr_kr_kr, a, b)
    }

    fn and_not(&mut self, a: Reg, b: Reg) -> Reg {
        self.wide.logic(Code::VEX_Kandnd_kr_kr_kr, a, b)
    }

    fn or(&mut self, a: Reg, b: Reg) -> Reg {
        self.wide.logic(Code::VEX_Kord_kr_kr_kr, a, b)
    }

    fn not(&mut self, a: Reg) -> Reg {
        self.wide.not(a)
    }

    fn note(&mut self, text: &str) {
        self.wide.note(text);
    }
}
