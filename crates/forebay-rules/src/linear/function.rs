//! A rule list as a function of the filter compiler, over the key as a packet.
//!
//! The packed key is the packet, so that the back ends made for filters compile
//! rule lists as they are: a field is a load, and what is returned is the index
//! of the first rule that matches plus one, 0 for none. Of each conjunction the
//! most selective tests come first. Numbers are in the machine's byte order in
//! a key, while loads are big-endian: comparisons for equality have their
//! constants swapped, and ranges are tested on the swapped value.

use forebay_filter::ir::simplify::simplify;
use forebay_filter::ir::{
    Arithmetic, Block, BlockId, Edge, Function, Predicate, Relation, SetId, Terminator, Value,
    ValueId, Width,
};
use forebay_packet::cancel;

use crate::atom::{Atom, Prefix, Test};
use crate::packed::{
    FLAG_VALUES, HAS_ICMP, HAS_PORTS, KINDS, NO_FLAGS, NOT_TCP, UNREACHABLE, words,
};
use crate::rule::{Family, RuleList, TCP};

use super::error::LinearError;

/// The most conjunctions of a function.
const MAX_CONJUNCTIONS: usize = 1 << 14;

/// Bytes of a key that the function reads.
pub(super) fn key_bytes(family: Family) -> usize {
    match family {
        Family::Ipv4 => 16,
        Family::Ipv6 => 40,
    }
}

/// The function of the rules of `list` that are for `family`, for an engine of
/// the name `engine`.
///
/// # Errors
/// Rules that are unions of too many conjunctions.
pub(super) fn function(
    list: &RuleList,
    family: Family,
    engine: &'static str,
) -> Result<Function, LinearError> {
    let mut builder = Builder::new(family);
    let mut size = 0;
    'rules: for (index, rule) in (0_u32..).zip(&list.rules) {
        cancel::check();
        if rule.family != family {
            continue;
        }
        let atoms = Atom::of_rule(rule)?;
        size += atoms.len();
        if size > MAX_CONJUNCTIONS {
            let what = "conjunctions";
            return Err(LinearError::TooLarge { engine, what, size, most: MAX_CONJUNCTIONS });
        }
        for atom in atoms {
            let all = builder.conjunction(&atom, index + 1);
            if all {
                break 'rules;
            }
        }
    }
    Ok(builder.finish())
}

/// A test of a conjunction, and how many of the bits of a key it decides.
struct Selective {
    bits: u32,
    predicate: Predicate,
    holds: bool,
}

struct Builder {
    function: Function,
    family: Family,
    /// Whether what was added last matches all packets.
    closed: bool,
}

impl Builder {
    /// A function that has tested that the key is there.
    fn new(family: Family) -> Self {
        let mut function = Function::new();
        let zero = function.constant(0);
        let bytes = key_bytes(family) as u32;
        let predicate = Predicate::Captured { index: None, bytes };
        let [then, otherwise] = [2, 1].map(|block| Edge::to(BlockId(block)));
        let end = Terminator::Test { predicate, then, otherwise };
        function.blocks.push(Block { parameters: Vec::new(), end });
        let end = Terminator::Return(zero);
        function.blocks.push(Block { parameters: Vec::new(), end });
        Self { function, family, closed: false }
    }

    /// Tests a conjunction; where it does not hold, the next block follows. Says
    /// whether it always holds.
    fn conjunction(&mut self, atom: &Atom, result: u32) -> bool {
        let Some(mut tests) = self.tests(atom) else { return false };
        tests.sort_by_key(|test| std::cmp::Reverse(test.bits));
        let first = self.function.blocks.len() as u32;
        let next = Edge::to(BlockId(first + tests.len() as u32 + 1));
        let all = tests.is_empty();
        for (block, test) in (first + 1..).zip(tests) {
            let (on, off) = (Edge::to(BlockId(block)), next.clone());
            let (then, otherwise) = if test.holds { (on, off) } else { (off, on) };
            self.push(Terminator::Test { predicate: test.predicate, then, otherwise });
        }
        let result = self.function.constant(result);
        self.push(Terminator::Return(result));
        self.closed = all;
        all
    }

    fn push(&mut self, end: Terminator) {
        self.function.blocks.push(Block { parameters: Vec::new(), end });
    }

    fn finish(mut self) -> Function {
        if !self.closed {
            let zero = self.function.constant(0);
            self.push(Terminator::Return(zero));
        }
        simplify(&mut self.function);
        self.function
    }

    /// The tests of a conjunction; none if it can never hold.
    fn tests(&mut self, atom: &Atom) -> Option<Vec<Selective>> {
        let (words, bytes) = match self.family {
            Family::Ipv4 => (1, 4),
            Family::Ipv6 => (4, 16),
        };
        let mut tests = Vec::new();
        self.prefix(atom.source, 0, words, &mut tests);
        self.prefix(atom.destination, bytes, words, &mut tests);
        self.range(atom.first, 2 * bytes, &mut tests);
        self.range(atom.second, 2 * bytes + 2, &mut tests);
        self.kind_and_flags(&atom.test, 2 * bytes + 4, &mut tests)?;
        Some(tests)
    }

    fn load(&mut self, width: Width, displacement: u32) -> ValueId {
        self.function.value(Value::Load { width, index: None, displacement })
    }

    fn binary(&mut self, op: Arithmetic, left: ValueId, right: u32) -> ValueId {
        let right = self.function.constant(right);
        self.function.value(Value::Binary { op, left, right })
    }

    fn compare(&mut self, relation: Relation, left: ValueId, right: u32) -> Predicate {
        let right = self.function.constant(right);
        Predicate::Compare { relation, left, right }
    }

    fn prefix(&mut self, prefix: Prefix, at: u32, count: usize, tests: &mut Vec<Selective>) {
        let mask = self.family.prefix(self.family.greatest(), prefix.length).0;
        let masks = words(mask);
        let values = words(prefix.address & mask);
        for (word, place) in (4 - count..4).zip((at..).step_by(4)) {
            let (mask, value) = (masks[word], values[word]);
            if mask == 0 {
                continue;
            }
            let mut loaded = self.load(Width::Word, place);
            if mask != u32::MAX {
                loaded = self.binary(Arithmetic::And, loaded, mask.swap_bytes());
            }
            let predicate = self.compare(Relation::Equal, loaded, value.swap_bytes());
            tests.push(Selective { bits: mask.count_ones(), predicate, holds: true });
        }
    }

    fn range(&mut self, (first, last): (u16, u16), at: u32, tests: &mut Vec<Selective>) {
        if first == last {
            let loaded = self.load(Width::Half, at);
            let predicate = self.compare(Relation::Equal, loaded, first.swap_bytes().into());
            tests.push(Selective { bits: 16, predicate, holds: true });
            return;
        }
        let numbers = u32::from(last - first) + 1;
        let bits = 16 - numbers.ilog2();
        if first > 0 {
            let number = self.number(at);
            let predicate = self.compare(Relation::GreaterOrEqual, number, first.into());
            tests.push(Selective { bits, predicate, holds: true });
        }
        if last < u16::MAX {
            let number = self.number(at);
            let predicate = self.compare(Relation::Greater, number, last.into());
            tests.push(Selective { bits, predicate, holds: false });
        }
    }

    /// The number of two bytes, the first being the less significant.
    fn number(&mut self, at: u32) -> ValueId {
        let low = self.load(Width::Byte, at);
        let high = self.load(Width::Byte, at + 1);
        let left = self.binary(Arithmetic::Lsh, high, 8);
        self.function.value(Value::Binary { op: Arithmetic::Or, left, right: low })
    }

    /// Tests of the fields `kind` at `at` and `flags` behind it; none if no key
    /// meets them.
    fn kind_and_flags(&mut self, test: &Test, at: u32, tests: &mut Vec<Selective>) -> Option<()> {
        let kinds: Vec<(u16, bool)> = kinds().map(|kind| (kind, test.admits_kind(kind))).collect();
        let tcp = |kind: u16| kind & 0xff == u16::from(TCP) && kind & UNREACHABLE == 0;
        let only_tcp = kinds.iter().all(|&(kind, admitted)| !admitted || tcp(kind));
        self.member(&kinds, at, tests)?;
        let values = if only_tcp { NO_FLAGS } else { NOT_TCP };
        let flags: Vec<(u16, bool)> =
            (0..=values).map(|flags| (flags, test.admits_flags(flags))).collect();
        self.member(&flags, at + 2, tests)
    }

    /// A test whether the field at `at`, which is one of `values`, is one of
    /// those that are admitted; none if none is.
    fn member(
        &mut self,
        values: &[(u16, bool)],
        at: u32,
        tests: &mut Vec<Selective>,
    ) -> Option<()> {
        let of = |wanted: bool| {
            values.iter().filter(move |(_, admitted)| *admitted == wanted).map(|(value, _)| *value)
        };
        of(true).next()?;
        if of(false).next().is_none() {
            return Some(());
        }
        let loaded = self.load(Width::Half, at);
        for holds in [true, false] {
            if let Some((mask, value)) = cube(of(holds), of(!holds)) {
                let masked = self.binary(Arithmetic::And, loaded, mask.swap_bytes().into());
                let predicate = self.compare(Relation::Equal, masked, value.swap_bytes().into());
                tests.push(Selective { bits: 2, predicate, holds });
                return Some(());
            }
        }
        let mut set: Vec<u32> = of(true).map(|value| value.swap_bytes().into()).collect();
        set.sort_unstable();
        let id = self.function.sets.iter().position(|known| *known == set).unwrap_or_else(|| {
            self.function.sets.push(set);
            self.function.sets.len() - 1
        });
        let predicate = Predicate::Member { value: loaded, set: SetId(id as u32) };
        tests.push(Selective { bits: 1, predicate, holds: true });
        Some(())
    }
}

/// The values of `kind` that keys have.
fn kinds() -> impl Iterator<Item = u16> {
    const { assert!(KINDS == 2048 && FLAG_VALUES == 258) };
    [0, HAS_PORTS, HAS_ICMP]
        .into_iter()
        .flat_map(|present| (0..=UNREACHABLE).map(move |protocol| protocol | present))
}

/// Bits and their value that all of `inside` have and none of `outside` has.
fn cube(
    inside: impl Iterator<Item = u16> + Clone,
    mut outside: impl Iterator<Item = u16>,
) -> Option<(u16, u16)> {
    let all = inside.clone().fold(u16::MAX, |all, value| all & value);
    let any = inside.fold(0, |any, value| any | value);
    let mask = all | !any;
    outside.all(|value| value & mask != all).then_some((mask, all))
}
