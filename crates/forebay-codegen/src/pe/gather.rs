//! One loop with 16 packets in the lanes of a vector, for AVX-512.
//!
//! Where a filter looks at few bytes, a gather brings four of each of 16
//! packets into the lanes of a vector, and every predicate is a comparison of
//! lanes under the mask of what comes after it: the decision function is
//! evaluated at once, without signatures in between. Lanes of 32 bits also hold
//! whole values, so that this form takes filters with arithmetic, which
//! signatures do not.
//!
//! A gather clears its opmask and merges into its destination. Each gets an
//! opmask of its own, and a destination of zeros, which frees it from waiting
//! for what was in the register before.

use forebay_filter::ir::{Arithmetic, Function, Relation, Value, ValueId};
use iced_x86::Code;

use super::Unsuited;
use super::algebra::{Literal, Mask, Masks, Test, evaluate};
use super::atom::{Atom, Field, Reader};
use super::decision::{Decision, Node};
use super::extract::swapped;
use super::wide::{Wide, entry, loads};
use crate::code::Options;
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Op, Operand, Reg, RegClass};

/// Packets of a group.
pub(super) const LANES: u32 = 16;

/// The most columns: beyond, `list` is not slower.
const MAX_COLUMNS: usize = 12;

/// Kinds of comparison of `vpcmpud`.
const EQUAL: i32 = 0;
const LESS: i32 = 1;
const LESS_OR_EQUAL: i32 = 2;
const NOT_EQUAL: i32 = 4;
const NOT_LESS: i32 = 5;
const NOT_LESS_OR_EQUAL: i32 = 6;

/// Which bytes are gathered: four from each of these offsets.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    starts: Vec<u32>,
    /// Tests and operations on values, for the estimate of work.
    work: u32,
}

impl Columns {
    /// The columns of `decision`; nothing if it does not suit lanes.
    pub(super) fn choose(function: &Function, decision: &Decision) -> Option<Self> {
        let mut spans = Vec::new();
        let mut work = 0;
        let mut reader = Reader::new(function);
        for atom in decision.atoms() {
            work += 1;
            match atom {
                Atom::Equal(field, _) | Atom::AtLeast(field, _) => spans.push(span(field)),
                Atom::Computed(_, left, right) => {
                    for value in [left, right] {
                        work += values_of(function, value, &mut reader, &mut spans)?;
                    }
                }
                Atom::Member(..) => return None,
                Atom::Captured(_) | Atom::WireAtLeast(_) | Atom::WireEqual(_) => {}
            }
        }
        spans.sort_unstable();
        let mut starts: Vec<u32> = Vec::new();
        for (low, high) in spans {
            if starts.last().is_none_or(|start| high >= start + 4) {
                starts.push(low);
            }
        }
        (starts.len() <= MAX_COLUMNS).then_some(Self { starts, work })
    }

    /// Bytes of a packet that must be readable.
    pub(super) fn reach(&self) -> usize {
        self.starts.last().map_or(0, |start| *start as usize + 4)
    }

    /// An estimate of the work a packet, in 1/64 of a cycle: a gather was
    /// measured to take half a cycle a packet, and a test takes two
    /// instructions for 16 packets.
    pub(super) fn estimate(&self, options: &Options) -> u32 {
        let ahead = if options.prefetch > 0 { 64 / 3 } else { 0 };
        40 * self.starts.len() as u32 + self.work * 6 + ahead + 16
    }
}

/// The first and the last byte of a field that count.
fn span(field: Field) -> (u32, u32) {
    let last = field.offset + field.bytes - 1;
    let low = last - (31 - field.mask.leading_zeros().min(31)) / 8;
    (low, last - field.mask.trailing_zeros().min(31) / 8)
}

/// Adds the loads of a value, and gives the number of its operations.
fn values_of(
    function: &Function,
    value: ValueId,
    reader: &mut Reader,
    spans: &mut Vec<(u32, u32)>,
) -> Option<u32> {
    match function.get(value) {
        Value::Load { width, index, displacement } => {
            let offset = reader.offset(index, displacement)?;
            spans.push((offset, offset + width.bytes() - 1));
            Some(2)
        }
        Value::Binary { left, right, .. } => {
            let left = values_of(function, left, reader, spans)?;
            Some(1 + left + values_of(function, right, reader, spans)?)
        }
        _ => Some(0),
    }
}

struct Builder<'a> {
    wide: Wide<'a>,
    function: &'a Function,
    reader: Reader<'a>,
    offsets: Reg,
    /// Each column's start and its bytes as they lie in the packet.
    columns: Vec<(u32, Option<Reg>)>,
    values: Vec<(ValueId, Reg)>,
    captured: Option<Reg>,
    wire: Option<Reg>,
}

/// The loop of `decision`.
///
/// # Errors
/// A value that lanes do not compute.
pub(super) fn body(
    function: &Function,
    decision: &Decision,
    columns: &Columns,
    options: &Options,
    pool: &mut Pool,
) -> Result<LoopBody, Unsuited> {
    let mut wide = Wide::new("predicated", LANES, pool);
    wide.body.lookahead = u32::from(options.prefetch);
    wide.note("where the packets start");
    let offsets = wide.load(entry(Table::Offset, 0));
    let mut builder = Builder {
        wide,
        function,
        reader: Reader::new(function),
        offsets,
        columns: columns.starts.iter().map(|&start| (start, None)).collect(),
        values: Vec::new(),
        captured: None,
        wire: None,
    };
    if let (Some(&first), true) = (columns.starts.first(), options.prefetch > 0) {
        builder.prefetches(first, i32::from(options.prefetch));
    }
    let outcome = evaluate(decision, group, &mut builder);
    builder.wide.verdicts(outcome, decision.accept, LANES);
    builder.leaves(decision);
    Ok(builder.wide.body)
}

/// Each literal of a node is a test, but of captured lengths the greatest is
/// enough.
fn group(node: &Node) -> Vec<Literal> {
    let captured = node.literals.iter().filter_map(|literal| match literal {
        (Atom::Captured(bytes), true) => Some(*bytes),
        _ => None,
    });
    let most = captured.max();
    let needed = |literal: &&(Atom, bool)| match literal {
        (Atom::Captured(bytes), true) => Some(*bytes) == most,
        _ => true,
    };
    let mut group: Vec<Literal> = Vec::new();
    for (atom, holds) in node.literals.iter().filter(needed) {
        let literal = (Test::Lanes(*atom), *holds);
        if !group.contains(&literal) {
            group.push(literal);
        }
    }
    group
}

impl Builder<'_> {
    fn prefetches(&mut self, first: u32, distance: i32) {
        self.wide.note(&format!("prefetch, {distance} packets ahead"));
        for packet in 0..LANES as i32 {
            let later = self.wide.op(
                Code::Mov_r32_rm32,
                RegClass::General,
                vec![Operand::Memory(entry(Table::Offset, 4 * (packet + distance)))],
                (Units::LOAD, 0),
                None,
            );
            if let Some(op) = self.wide.body.ops.last_mut() {
                op.ahead = true;
            }
            let address = Address {
                base: Base::Table(Table::Base),
                index: Index::Reg(later, 1),
                displacement: first as i32,
                broadcast: false,
            };
            self.wide.body.push(Op {
                code: Code::Prefetcht0_m8,
                dest: None,
                tied: false,
                operands: vec![Operand::Memory(address)],
                mask: None,
                latency: 0,
                units: Units::LOAD,
                note: self.wide.note,
                ahead: true,
            });
        }
    }

    /// Four bytes from `start` of each packet.
    fn gather(&mut self, start: u32) -> Reg {
        let wide = &mut self.wide;
        let ones = ones(wide);
        let all = wide.op(
            Code::VEX_Kmovw_kr_km16,
            RegClass::Mask,
            vec![Operand::Reg(ones)],
            (Units::PORT_0, latency::SIMPLE),
            None,
        );
        let zeros = super::constants::repeated(wide.pool, &[0; 4], 64);
        let zeros = wide.constants.register(&mut wide.body, zeros);
        let from = wide.op(
            Code::EVEX_Vmovdqa32_zmm_k1z_zmmm512,
            RegClass::Vector,
            vec![Operand::Reg(zeros)],
            (Units::NONE, 0),
            None,
        );
        let address = Address {
            base: Base::Table(Table::Base),
            index: Index::Reg(self.offsets, 1),
            displacement: start as i32,
            broadcast: false,
        };
        let column = wide.op(
            Code::EVEX_Vpgatherdd_zmm_k1_vm32z,
            RegClass::Vector,
            vec![Operand::Reg(from), Operand::Memory(address)],
            (Units::GATHER_512, latency::GATHER),
            Some(all),
        );
        if let Some(op) = wide.body.ops.last_mut() {
            op.tied = true;
        }
        column
    }

    /// The column that has bytes `low` to `high`, and where it starts.
    fn column(&mut self, (low, high): (u32, u32)) -> (u32, Reg) {
        let has = |start: u32| low >= start && high < start + 4;
        let found = self.columns.iter().position(|(start, _)| has(*start));
        // `Columns` has all bytes of all atoms.
        let index = found.unwrap_or_default();
        let (start, known) = self.columns[index];
        let reg = known.unwrap_or_else(|| self.gather(start));
        self.columns[index].1 = Some(reg);
        (start, reg)
    }

    fn vector(&mut self, code: Code, units: Units, a: Reg, b: Operand) -> Reg {
        let cost = (loads(units, b), latency::SIMPLE);
        self.wide.op(code, RegClass::Vector, vec![Operand::Reg(a), b], cost, None)
    }

    fn and(&mut self, a: Reg, b: Operand) -> Reg {
        self.vector(Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, Units::LOGIC_512, a, b)
    }

    /// Lanes of `column`, which starts at byte `start`, as the number that
    /// `bytes` bytes from `offset` are.
    fn number(&mut self, column: Reg, start: u32, offset: u32, bytes: u32) -> Reg {
        let at = offset - start;
        // Lowest byte first; bytes past the number come out as 0.
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

    /// What `value` is for each packet.
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
                // Known to be of this form since the atom was read.
                let offset = self.reader.offset(index, displacement).unwrap_or_default();
                let (start, column) = self.column((offset, offset + width.bytes() - 1));
                self.number(column, start, offset, width.bytes())
            }
            Value::Binary { op, left, right } => self.binary(op, left, right),
            Value::Parameter { .. } => self.offsets,
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
            // Distances of 32 and more give 0 here too.
            Arithmetic::Lsh => (Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, Units::PORT_0),
            Arithmetic::Rsh => (Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, Units::PORT_0),
            // `Reader` has turned divisions away.
            Arithmetic::And | Arithmetic::Div | Arithmetic::Mod => {
                (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, Units::LOGIC_512)
            }
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

    /// Whether lanes have a bit of `bits`, or none.
    fn any_bit(&mut self, lanes: Reg, bits: Operand, any: bool, under: Option<Reg>) -> Reg {
        let code = if any {
            Code::EVEX_Vptestmd_kr_k1_zmm_zmmm512b32
        } else {
            Code::EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32
        };
        self.wide.compare(code, (lanes, bits), None, under)
    }

    /// Whether a field equals a constant, compared as it lies in the packet.
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
        let masked = if mask == u32::MAX { column } else { self.and(column, mask_lanes) };
        let constant = self.wide.number(constant);
        self.compare(masked, constant, if holds { EQUAL } else { NOT_EQUAL }, under)
    }

    fn at_least(&mut self, field: Field, constant: u32, holds: bool, under: Option<Reg>) -> Reg {
        let (low, high) = span(field);
        // Trailing bytes outside the mask are 0 in field and constant alike,
        // but the constant may have been rounded up within them.
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
            // `Columns` has turned these away.
            Atom::Member(..) => self.offsets,
        }
    }

    fn leaves(&mut self, decision: &Decision) {
        let mut all: Option<Reg> = None;
        for leave in &decision.leaves {
            self.wide.note("left to list");
            let under = leave.guard.map(|guard| self.atom(guard, true, None));
            let assumed = Atom::Equal(leave.assumption.field, leave.assumption.value);
            let wrong = self.atom(assumed, false, under);
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

/// An opmask register with all bits set.
fn ones(wide: &mut Wide) -> Reg {
    let known = wide.body.invariants.iter().find_map(|invariant| match invariant.source {
        crate::mir::InvariantSource::Mask(_, u64::MAX) => Some(invariant.reg),
        _ => None,
    });
    known.unwrap_or_else(|| {
        let reg = wide.body.reg(RegClass::Mask);
        let source = crate::mir::InvariantSource::Mask(Code::VEX_Kmovq_kr_r64, u64::MAX);
        wide.body.invariants.push(crate::mir::Invariant { reg, source });
        reg
    })
}

impl Masks for Builder<'_> {
    fn test(&mut self, test: Test, holds: bool, under: Option<Reg>) -> Mask {
        match test {
            Test::Lanes(atom) => Mask::plain(self.atom(atom, holds, under)),
            // `group` makes no other.
            _ => Mask::plain(self.offsets),
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
