//! Rules as boxes of ranges, for lists that prefixes and cuts would multiply.
//!
//! A hierarchy of boxes: sixteen of them to a block, sixteen blocks under one
//! more, and so on, each with the box that covers what is below (the R-trees of
//! Guttman, SIGMOD 1984, built from above by what a search is expected to
//! cost). A packet goes down wherever the box admits it and a label is below
//! that could still decide. Memory is in proportion to the list, whatever its
//! rules; what a packet costs is not bounded but by the whole list, and is
//! therefore estimated with packets at the borders of rules when the list is
//! built ([`Ranges::work`]).

mod boxes;
mod split;

use super::kernel::ranges::{Numbers, Tally, visit};
use super::labels::NO_LABEL;
use crate::atom::Tests;
use crate::rule::{Family, Rule};
pub(in crate::tree) use boxes::{ALWAYS, Axis, Check};
use boxes::{Cuboid, FIELDS, Part};
use forebay_packet::cancel;
use forebay_packet::random::Random;

/// Boxes of a block.
pub(in crate::tree) const LANES: usize = 16;

/// In a reference: to a block of boxes, not of blocks.
pub(in crate::tree) const LEAF: u32 = 1 << 31;

/// A field of the boxes of a block.
pub(in crate::tree) type Column = [u32; LANES];

/// Sixteen boxes, of rules or of what is below.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(in crate::tree) struct Block {
    /// The least number: source, destination, and both ports in one word.
    pub low: [Column; 3],
    /// How far the greatest is from it.
    pub span: [Column; 3],
    /// The tests of which a packet must meet one.
    pub tests: Column,
    /// The least label, ascending.
    pub labels: Column,
    /// The reference to what is below; of a rule's box the number of its check.
    pub next: Column,
}

impl Block {
    /// A block that nothing matches: there is no test to meet.
    const EMPTY: Self = Self {
        low: [[0; LANES]; 3],
        span: [[0; LANES]; 3],
        tests: [0; LANES],
        labels: [NO_LABEL; LANES],
        next: [0; LANES],
    };

    fn put(&mut self, lane: usize, of: &Cuboid, next: u32) {
        let ports = |ends: [u32; FIELDS]| ends[2] | ends[3] << 16;
        let spans = std::array::from_fn(|field| of.high[field] - of.low[field]);
        for (columns, ends) in [(&mut self.low, of.low), (&mut self.span, spans)] {
            let words = [ends[0], ends[1], ports(ends)];
            columns.iter_mut().zip(words).for_each(|(column, word)| column[lane] = word);
        }
        self.tests[lane] = of.tests;
        self.labels[lane] = of.label;
        self.next[lane] = next;
    }
}

/// Rules of one family as boxes.
#[derive(Debug)]
pub(in crate::tree) struct Ranges {
    pub blocks: Vec<Block>,
    /// The least label and the reference of each tier, in the order of labels.
    pub roots: Vec<(u32, u32)>,
    /// What boxes say only roughly.
    pub checks: Vec<Check>,
    /// What numbers IPv6's addresses.
    pub axes: Option<[Axis; 2]>,
    pub tests: Tests,
    /// What a packet that is hard on the list costs.
    pub work: Work,
}

/// Steps of a search, on the average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::tree) struct Work {
    /// Blocks that a packet is held against.
    pub blocks: f64,
    /// Checks that it is put to.
    pub checks: f64,
    /// Bytes of all blocks.
    pub bytes: f64,
    /// Whether its addresses have to be numbered.
    pub numbers: bool,
}

/// Boxes that a list may be made into, for each of its rules; a short list may have more,
/// a long one less: so many come to half a gigabyte and some seconds.
const BOXES_EACH: usize = 32;
const FEWEST_BOXES: usize = 1 << 18;
const MOST_BOXES: usize = 3 << 20;

/// The most boxes of one rule.
const MOST_OF_RULE: usize = 256;

impl Ranges {
    /// The boxes of `rules`, in the order of their labels; none for no rules.
    pub fn new(rules: &[(u32, &Rule)], family: Family) -> Option<Self> {
        let axes = boxes::axes(family, rules.iter().map(|(_, rule)| *rule));
        let of = |&(label, rule): &(u32, &Rule)| Part::of(label, rule, axes.as_ref());
        // Parts are made twice rather than kept: their lists can be long.
        let sizes: Vec<usize> =
            rules.iter().flat_map(&of).map(|part| part.combinations()).collect();
        let room = (BOXES_EACH * rules.len()).clamp(FEWEST_BOXES, MOST_BOXES);
        let total = |most: usize| sizes.iter().map(|&size| size.min(most)).sum::<usize>();
        let mut most = MOST_OF_RULE;
        while most > 1 && total(most) > room {
            most /= 2;
        }
        let (mut tests, mut checks) = (Tests::default(), Vec::new());
        let mut boxes = Vec::with_capacity(total(most));
        for part in rules.iter().flat_map(of) {
            part.boxes(most, &mut tests, &mut checks, &mut boxes);
        }
        if boxes.is_empty() {
            return None;
        }
        let (blocks, roots) = split::hierarchy(&boxes);
        let work = Work::default();
        let mut ranges = Self { blocks, roots, checks, axes, tests, work };
        ranges.work = ranges.estimated(&boxes);
        Some(ranges)
    }

    /// What packets cost that lie in boxes, or in one box by some of their
    /// numbers and in others by the rest.
    fn estimated(&self, boxes: &[Cuboid]) -> Work {
        const SAMPLES: u64 = 2048;
        let mut random = Random::new(1);
        let mut tally = Tally::default();
        for sample in 0..SAMPLES {
            cancel::check();
            let of = |random: &mut Random| &boxes[random.below(boxes.len() as u64) as usize];
            let (one, other) = (*of(&mut random), *of(&mut random));
            // In the box; in another by one number; in others by every one.
            let from_other = match sample % 4 {
                0 => 0,
                1 | 2 => 1 << random.below(FIELDS as u64),
                _ => random.below(1 << FIELDS),
            };
            let number = |field: usize, random: &mut Random| {
                let of = if from_other >> field & 1 == 0 { &one } else { &other };
                match random.below(3) {
                    0 => of.low[field],
                    1 => of.high[field],
                    _ => {
                        let size = u64::from(of.high[field] - of.low[field]) + 1;
                        of.low[field] + random.below(size) as u32
                    }
                }
            };
            let numbers = std::array::from_fn(|field| number(field, &mut random));
            let packet = Numbers::of(numbers, one.tests | ALWAYS);
            visit(self, &[], &packet, NO_LABEL, &mut tally);
        }
        let mean = |count: u64| count as f64 / SAMPLES as f64;
        Work {
            blocks: mean(tally.blocks),
            checks: mean(tally.checks),
            bytes: size_of_val(&self.blocks[..]) as f64,
            numbers: self.axes.is_some(),
        }
    }

    /// Whether a rule of that label is among them.
    pub fn has(&self, label: u32) -> bool {
        // Only blocks of rules have those labels that their own boxes have; what
        // is above repeats one of them.
        self.blocks.iter().any(|block| block.labels.contains(&label))
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> usize {
        let axes = self.axes.iter().flatten().map(Axis::bytes).sum::<usize>();
        size_of_val(&self.blocks[..]) + size_of_val(&self.checks[..]) + axes + self.tests.bytes()
    }
}
