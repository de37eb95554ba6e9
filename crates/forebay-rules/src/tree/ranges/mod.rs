//! Rules as boxes of ranges, for lists that prefixes and cuts would multiply.
//!
//! A hierarchy of boxes: sixteen of them to a block, sixteen blocks under one
//! more, and so on, each with the box that covers what is below (the R-trees of
//! Guttman, SIGMOD 1984, built from above by what a search is expected to
//! cost). A packet goes down wherever the box admits it and a label is below
//! that could still decide. Memory is in proportion to the list, whatever its
//! rules; what a packet costs is not bounded but by the whole list, and is
//! therefore estimated with packets at the borders of rules when the list is
//! built ([`Work`](super::rate::Work)).

mod block;
mod boxes;
mod split;

use crate::atom::Tests;
use crate::rule::{Family, Rule};
pub(crate) use block::{Block, Column, LANES, LEAF};
use boxes::Part;
pub(crate) use boxes::{ALWAYS, Axis, Check, Cuboid, FIELDS};

/// Rules of one family as boxes.
#[derive(Debug)]
pub(crate) struct Ranges {
    pub blocks: Vec<Block>,
    /// The least label and the reference of each tier, in the order of labels.
    pub roots: Vec<(u32, u32)>,
    /// What boxes say only roughly.
    pub checks: Vec<Check>,
    /// What numbers IPv6's addresses.
    pub axes: Option<[Axis; 2]>,
    pub tests: Tests,
}

/// Boxes that a list may be made into, for each of its rules; a short list may have more,
/// a long one less: so many come to half a gigabyte and some seconds.
const BOXES_EACH: usize = 32;
const FEWEST_BOXES: usize = 1 << 18;
const MOST_BOXES: usize = 3 << 20;

/// The most boxes of one rule.
const MOST_OF_RULE: usize = 256;

impl Ranges {
    /// The boxes of `rules`, in the order of their labels, and the hierarchy of them; none for
    /// no rules.
    pub fn new(rules: &[(u32, &Rule)], family: Family) -> Option<(Self, Vec<Cuboid>)> {
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
        Some((Self { blocks, roots, checks, axes, tests }, boxes))
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
