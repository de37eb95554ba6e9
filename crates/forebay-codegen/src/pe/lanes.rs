//! One loop with packets in the 32-bit lanes of a vector: 16 with AVX-512, 8 with AVX2.
//!
//! For a filter that reads few bytes, [`columns`](super::columns) brings four
//! bytes of each of the packets into the lanes of a vector. Every predicate is
//! then a comparison of lanes under the mask of the nodes after it (AVX2: and an
//! `and`): the decision function is evaluated at once, without signatures. Lanes of 32 bits
//! also hold whole values, so this form supports arithmetic, which signatures
//! do not.

use forebay_filter::ir::{Arithmetic, Function, Relation, SetId, Value, ValueId};

use super::algebra::{Literal, Mask, Masks, Test, evaluate_groups, left};
use super::atom::{Atom, Field, Reader};
use super::columns::{Columns, Loaded, span};
use super::decision::Decision;
use super::extract::swapped;
use super::gather::gather;
use super::groups::{Half, both_halves, group, half_of, recurring};
use super::loops::Unsuited;
use super::narrow::Narrow;
use super::packets::{entry, prefetches};
use super::sharing::Region;
use super::vectors::{LaneComparison, Vectors};
use super::wide::Wide;
use crate::code::Options;
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::mir::{LoopBody, Operand, Reg};
use rustc_hash::{FxHashMap, FxHashSet};

struct Builder<'a, V> {
    vectors: V,
    function: &'a Function,
    columns: &'a Columns,
    reader: Reader<'a>,
    loaded: Loaded,
    values: Vec<(ValueId, Reg)>,
    /// Masked columns, by their start and the mask.
    masked: Vec<((u32, u32), Reg)>,
    /// Numbers that are compared for order, by their first byte and the mask.
    numbers: Vec<((u32, u32), Reg)>,
    /// Tests that are made once for all packets, by atom: the packets for which it holds, once known.
    once: FxHashMap<Atom, Option<Mask>>,
    /// What [`Builder::lengths`] made for regions.
    lengths: Vec<(u32, Reg)>,
    /// Halves of columns that are compared together.
    both_halves: FxHashSet<Half>,
    /// Columns of which both halves were looked for in a set, by their start and the set.
    halves: Vec<((u32, SetId), Reg)>,
    captured: Option<Reg>,
    wire: Option<Reg>,
    /// Whether the filter needs an operation that lanes do not support.
    unsuited: bool,
}

/// The loop for `decision`, which keeps `constants` of its constants in registers.
///
/// # Errors
/// If lanes do not support a value.
pub(super) fn body(
    function: &Function,
    decision: &Decision,
    columns: &Columns,
    constants: usize,
    options: &Options,
    pool: &mut Pool,
) -> Result<LoopBody, Unsuited> {
    if columns.wide {
        let wide = Wide::new("predicated", Wide::LANES, constants, pool);
        body_of(wide, function, decision, columns, options)
    } else {
        let narrow = Narrow::new("predicated", Narrow::LANES, constants, pool);
        body_of(narrow, function, decision, columns, options)
    }
}

fn body_of<V: Vectors>(
    mut vectors: V,
    function: &Function,
    decision: &Decision,
    columns: &Columns,
    options: &Options,
) -> Result<LoopBody, Unsuited> {
    prefetches(vectors.body(), columns.first_byte(), options.prefetch);
    let loaded = Loaded::new(columns, &mut vectors);
    let reader = Reader::new(function);
    let groups: Vec<Vec<Literal>> =
        decision.nodes.iter().map(|node| group(node, columns)).collect();
    let both_halves = both_halves(decision, columns);
    let mut builder = Builder {
        vectors,
        function,
        columns,
        reader,
        loaded,
        values: Vec::new(),
        masked: Vec::new(),
        numbers: Vec::new(),
        once: recurring(&groups, columns, &both_halves),
        lengths: Vec::new(),
        both_halves,
        halves: Vec::new(),
        captured: None,
        wire: None,
        unsuited: false,
    };
    let outcome = evaluate_groups(decision, &groups, &mut builder);
    builder.vectors.verdicts(outcome, decision.accept);
    if let Some(left) = left(decision, |atom| vec![Test::Lanes(atom)], &mut builder) {
        builder.vectors.leave(left);
    }
    if builder.unsuited {
        return Err(Unsuited::Predicate("one that lanes of 32 bits do not compute".to_owned()));
    }
    Ok(builder.vectors.finish())
}

impl<V: Vectors> Builder<'_, V> {
    /// The column that contains bytes `low` to `high`, and its start.
    fn column(&mut self, span: (u32, u32)) -> (u32, Reg) {
        let Some(start) = self.columns.word(span) else { return (span.0, self.unsuited()) };
        if let Some(column) = self.loaded.find(start) {
            return (start, column);
        }
        let columns = self.columns;
        let Some(region) = columns.region(start) else { return (start, self.unsuited()) };
        let sources = region.sources(span).map(|source| self.column(source).1);
        let column = self.choice(region, sources);
        self.loaded.add(start, column);
        (start, column)
    }

    /// The lanes of the first vector where the guard of `region` holds, and the others of the second.
    fn choice(&mut self, region: &Region, [then, otherwise]: [Reg; 2]) -> Reg {
        let guard = self.guard(region);
        self.vectors.choice(guard, then, otherwise)
    }

    /// The mask of the packets for which the guard of `region` holds.
    fn guard(&mut self, region: &Region) -> Reg {
        let guard = self.test(Test::Lanes(self.columns.guard(region)), true, None);
        if guard.inverted { self.vectors.not(guard.reg) } else { guard.reg }
    }

    /// Captured lengths, and one less than they must be at least; `bytes` may be in a region.
    fn lengths(&mut self, bytes: u32) -> (Reg, Operand) {
        let captured = self.captured();
        let columns = self.columns;
        let Some(region) = columns.region(bytes) else {
            return (captured, self.vectors.number(bytes - 1));
        };
        let [then, otherwise] = region.sources((bytes, bytes)).map(|(bytes, _)| bytes);
        // Vectors without opmasks have few registers, but compare signed numbers: what some packets must
        // have beyond others is taken from their lengths, once for all tests of a region.
        let key = if V::PREDICATED { bytes } else { bytes - then };
        let known = self.lengths.iter().find(|(known, _)| *known == key);
        let reg = known.map(|(_, reg)| *reg).unwrap_or_else(|| {
            let reg = if V::PREDICATED {
                let below =
                    [then, otherwise].map(|least| self.vectors.number_in_register(least - 1));
                self.choice(region, below)
            } else {
                let longer = Mask { reg: self.guard(region), inverted: then < otherwise };
                let more = self.vectors.number(then.abs_diff(otherwise));
                let more = self.vectors.only(longer, more);
                // Every level subtracts.
                let shorter =
                    self.vectors.arithmetic(Arithmetic::Sub, captured, Operand::Reg(more));
                shorter.unwrap_or(captured)
            };
            self.lengths.push((key, reg));
            reg
        });
        if V::PREDICATED {
            return (captured, Operand::Reg(reg));
        }
        (reg, self.vectors.number(then.min(otherwise) - 1))
    }

    /// Records that the filter is unsuited; the returned register is a
    /// placeholder.
    fn unsuited(&mut self) -> Reg {
        self.unsuited = true;
        self.captured()
    }

    fn masked(&mut self, lanes: Reg, mask: u32) -> Reg {
        let mask = self.vectors.number(mask);
        // Every level has `and`.
        self.vectors.arithmetic(Arithmetic::And, lanes, mask).unwrap_or(lanes)
    }

    /// Lanes of `column`, which starts at byte `start`, as the number in
    /// `bytes` bytes from `offset`.
    fn number(&mut self, column: Reg, start: u32, offset: u32, bytes: u32) -> Reg {
        let at = offset - start;
        let shuffle = std::array::from_fn(|i| {
            // Lowest byte first; bytes beyond the number become 0.
            let (lane, byte) = (i as u32 / 4 * 4, i as u32 % 4);
            if byte < bytes { (lane + at + bytes - 1 - byte) as u8 } else { 0x80 }
        });
        self.vectors.bytes(column, shuffle)
    }

    /// The lanes of `value`.
    fn value(&mut self, value: ValueId) -> Reg {
        if let Some((_, reg)) = self.values.iter().find(|(known, _)| *known == value) {
            return *reg;
        }
        let reg = match self.function.get(value) {
            Value::Constant(number) => self.vectors.number_in_register(number),
            Value::WireLength => self.wire(),
            Value::Load { width, index, displacement } => {
                if let Some(offset) = self.reader.offset(index, displacement) {
                    let (start, column) = self.column((offset, offset + width.bytes() - 1));
                    self.number(column, start, offset, width.bytes())
                } else if let Some((index, _)) = self.reader.computed_load(index, displacement) {
                    let index = self.value(index);
                    let bytes = gather(&mut self.vectors, index, displacement);
                    self.number(bytes, 0, 0, width.bytes())
                } else {
                    self.unsuited()
                }
            }
            Value::Binary { op, left, right } => {
                let (left, right) = (self.value(left), self.operand(right));
                let made = self.vectors.arithmetic(op, left, right);
                made.unwrap_or_else(|| self.unsuited())
            }
            Value::Parameter { .. } => self.unsuited(),
        };
        self.values.push((value, reg));
        reg
    }

    fn operand(&mut self, value: ValueId) -> Operand {
        match self.function.as_constant(value) {
            Some(number) => self.vectors.number(number),
            None => Operand::Reg(self.value(value)),
        }
    }

    fn captured(&mut self) -> Reg {
        let reg = self.captured.unwrap_or_else(|| self.vectors.load_small(entry(Table::CapLen, 0)));
        *self.captured.insert(reg)
    }

    fn wire(&mut self) -> Reg {
        let reg = self.wire.unwrap_or_else(|| self.vectors.load(entry(Table::WireLen, 0)));
        *self.wire.insert(reg)
    }

    /// Compares lanes with a number.
    fn compare(
        &mut self,
        comparison: LaneComparison,
        (left, right): (Reg, u32),
        holds: bool,
        under: Option<Reg>,
    ) -> Mask {
        let right = self.vectors.number(right);
        self.vectors.compare(comparison, (left, right), holds, under)
    }

    /// Tests a field for equality with a constant, in the packet's byte order.
    fn equal(&mut self, field: Field, constant: u32, holds: bool, under: Option<Reg>) -> Mask {
        let (start, column) = self.column(span(field));
        let moved = |number: u32| {
            // The field may begin before the column, where its mask is 0.
            let raw = u64::from(swapped(number, field.bytes));
            let distance = i64::from(field.offset) - i64::from(start);
            if distance >= 0 { raw << (8 * distance) } else { raw >> (-8 * distance) }
        };
        let (mask, constant) = (moved(field.mask) as u32, moved(constant) as u32);
        // Vectors with opmasks test bits in one instruction, without the masked column.
        if constant == 0 && V::PREDICATED {
            let mask = self.vectors.number(mask);
            return self.vectors.any_bit(column, mask, !holds, under);
        }
        // The low bits are moved up: that needs no constant, and the number is then the same as for a field
        // that ends with its column.
        let is_low = !V::PREDICATED && mask & mask.wrapping_add(1) == 0;
        let up = if is_low { mask.leading_zeros() } else { 0 };
        let masked = match self.masked.iter().find(|(known, _)| *known == (start, mask)) {
            Some((_, masked)) => *masked,
            None if mask == u32::MAX => column,
            None => {
                let masked = if is_low {
                    self.vectors.shifted_up(column, up)
                } else {
                    self.masked(column, mask)
                };
                self.masked.push(((start, mask), masked));
                masked
            }
        };
        self.compare(LaneComparison::Equal, (masked, constant << up), holds, under)
    }

    /// Tests a field for membership in a set, or for none.
    fn member(&mut self, field: Field, set: SetId, holds: bool, under: Option<Reg>) -> Mask {
        let function = self.function;
        let constants = function.sets.get(set.0 as usize);
        let mut possible =
            constants.into_iter().flatten().copied().filter(|&one| one & !field.mask == 0);
        let Some(first) = possible.next() else { return Mask::plain(self.unsuited()) };
        let half = half_of(self.columns, Atom::Member(field, set));
        if half.is_some_and(|half| self.both_halves.contains(&half)) {
            return self.half(field, set, holds, under);
        }
        self.any_of(first, possible, (holds, under), |this, constant, holds, under| {
            this.equal(field, constant, holds, under).reg
        })
    }

    /// Tests a computed value for membership in a set, or for none.
    fn computed_member(
        &mut self,
        value: ValueId,
        set: SetId,
        holds: bool,
        under: Option<Reg>,
    ) -> Mask {
        let function = self.function;
        let mut constants = function.sets.get(set.0 as usize).into_iter().flatten().copied();
        let Some(first) = constants.next() else { return Mask::plain(self.unsuited()) };
        let value = self.value(value);
        self.any_of(first, constants, (holds, under), |this, constant, holds, under| {
            this.compare(LaneComparison::Equal, (value, constant), holds, under).reg
        })
    }

    /// The lanes that equal `first` or another constant, or those that equal none.
    fn any_of(
        &mut self,
        first: u32,
        others: impl Iterator<Item = u32>,
        (holds, under): (bool, Option<Reg>),
        mut equal: impl FnMut(&mut Self, u32, bool, Option<Reg>) -> Reg,
    ) -> Mask {
        if !V::PREDICATED {
            let mut any = equal(self, first, true, None);
            for constant in others {
                let found = equal(self, constant, true, None);
                any = self.vectors.or(any, found);
            }
            return self.vectors.among(any, holds, under);
        }
        // It is no member if it differs from each constant.
        let mut none = equal(self, first, false, under);
        for constant in others {
            none = equal(self, constant, false, Some(none));
        }
        Mask::plain(match under {
            _ if !holds => none,
            Some(under) => self.vectors.and_not(none, under),
            None => self.vectors.not(none),
        })
    }

    /// Tests half of a column for membership in a set; both halves are compared at once.
    fn half(&mut self, field: Field, set: SetId, holds: bool, under: Option<Reg>) -> Mask {
        let (start, column) = self.column(span(field));
        let known = self.halves.iter().find(|(known, _)| *known == (start, set));
        let found = known.map(|(_, found)| *found).unwrap_or_else(|| {
            let constants = self.function.sets.get(set.0 as usize).into_iter().flatten();
            let constants: Vec<u16> =
                constants.filter_map(|&one| Some(u16::try_from(one).ok()?.swap_bytes())).collect();
            let found = self.vectors.halves(column, &constants);
            self.halves.push(((start, set), found));
            found
        });
        self.vectors.half(found, field.offset > start, holds, under)
    }

    fn at_least(&mut self, field: Field, constant: u32, holds: bool, under: Option<Reg>) -> Mask {
        let (low, high) = span(field);
        // Trailing bytes outside the mask are 0 in field and constant, but the
        // constant may have been rounded up within them.
        let (start, column) = self.column((low, high));
        let trailing = field.offset + field.bytes - 1 - high;
        let bytes = high - low + 1;
        let mask = field.mask >> (8 * trailing);
        let known = self.numbers.iter().find(|(known, _)| *known == (low, mask));
        let masked = known.map(|(_, masked)| *masked).unwrap_or_else(|| {
            let number = self.number(column, start, low, bytes);
            let whole = u32::MAX >> (32 - 8 * bytes);
            let masked = if mask == whole { number } else { self.masked(number, mask) };
            self.numbers.push(((low, mask), masked));
            masked
        });
        let least = u64::from(constant).div_ceil(1 << (8 * trailing)) as u32;
        if mask <= i32::MAX as u32 && (1..=i32::MAX as u32).contains(&least) {
            let below = self.vectors.number(least - 1);
            return self.vectors.small_above((masked, below), holds, under);
        }
        self.compare(LaneComparison::AtLeast, (masked, least), holds, under)
    }

    fn computed(
        &mut self,
        (relation, left, right): (Relation, ValueId, ValueId),
        holds: bool,
        under: Option<Reg>,
    ) -> Mask {
        let (left, right) = (self.value(left), self.operand(right));
        let (comparison, holds) = match relation {
            Relation::AnyBit => return self.vectors.any_bit(left, right, holds, under),
            Relation::Equal => (LaneComparison::Equal, holds),
            Relation::Greater => (LaneComparison::AtMost, !holds),
            Relation::GreaterOrEqual => (LaneComparison::AtLeast, holds),
        };
        self.vectors.compare(comparison, (left, right), holds, under)
    }

    fn atom(&mut self, atom: Atom, holds: bool, under: Option<Reg>) -> Mask {
        match atom {
            Atom::Equal(field, constant) => self.equal(field, constant, holds, under),
            Atom::AtLeast(field, constant) => self.at_least(field, constant, holds, under),
            Atom::Computed(relation, left, right) => {
                self.computed((relation, left, right), holds, under)
            }
            Atom::CapturedFrom(offset, bytes) => {
                let captured = self.captured();
                let (offset, below) = (self.value(offset), self.vectors.number(bytes - 1));
                // Every level adds.
                let sum = self.vectors.arithmetic(Arithmetic::Add, offset, below);
                let below = sum.unwrap_or(offset);
                self.vectors.small_above((captured, Operand::Reg(below)), holds, under)
            }
            Atom::ComputedMember(value, set) => self.computed_member(value, set, holds, under),
            Atom::Captured(bytes) if (1..=i32::MAX as u32).contains(&bytes) => {
                let lengths = self.lengths(bytes);
                self.vectors.small_above(lengths, holds, under)
            }
            Atom::Captured(bytes) => {
                let lengths = self.vectors.load(entry(Table::CapLen, 0));
                self.compare(LaneComparison::AtLeast, (lengths, bytes), holds, under)
            }
            Atom::WireAtLeast(bytes) => {
                let lengths = self.wire();
                self.compare(LaneComparison::AtLeast, (lengths, bytes), holds, under)
            }
            Atom::WireEqual(bytes) => {
                let lengths = self.wire();
                self.compare(LaneComparison::Equal, (lengths, bytes), holds, under)
            }
            Atom::Member(field, set) => self.member(field, set, holds, under),
        }
    }
}

impl<V: Vectors> Masks for Builder<'_, V> {
    type Logic = V;

    fn logic(&mut self) -> &mut V {
        &mut self.vectors
    }

    fn comparisons(&self, test: Test) -> usize {
        match test {
            Test::Lanes(Atom::Member(_, set) | Atom::ComputedMember(_, set)) => {
                self.function.sets.get(set.0 as usize).map_or(1, |constants| constants.len())
            }
            _ => 1,
        }
    }

    fn test(&mut self, test: Test, holds: bool, under: Option<Reg>) -> Mask {
        let Test::Lanes(atom) = test else { return Mask::plain(self.unsuited()) };
        let mask = match self.once.get(&atom) {
            None => return self.atom(atom, holds, under),
            Some(Some(mask)) => *mask,
            Some(None) => {
                let mask = self.atom(atom, true, None);
                self.once.insert(atom, Some(mask));
                mask
            }
        };
        self.vectors.among(mask.reg, holds != mask.inverted, under)
    }
}
