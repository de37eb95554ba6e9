//! What packets are matched against, and what kernels read.

use super::layout::Forest;
use super::ranges::Ranges;
use super::wildcards::{Chunk, WildcardIndex};
use crate::atom::Tests;
use std::sync::Arc;

/// What packets are matched against: trees, bit vectors, and the tests of both.
/// A copy shares them.
#[derive(Clone)]
pub(crate) struct Matcher<const Q: usize> {
    /// The trees.
    pub forest: Arc<Forest<Q>>,
    /// For each class of atoms (`build::class`), the tree it is in.
    pub trees: [Option<usize>; 4],
    /// Atoms that say little of addresses.
    pub wild: Option<Arc<WildcardIndex>>,
    /// The bits of those that have not been taken out.
    pub live: Vec<Chunk>,
    /// Rules that are matched by their ranges.
    pub ranges: Option<Arc<Ranges>>,
    /// The labels of those that have been taken out, ascending.
    pub gone: Arc<Vec<u32>>,
    /// The tests that the trees' atoms refer to.
    pub tests: Arc<Tests>,
}

impl<const Q: usize> Matcher<Q> {
    /// Rules by their ranges, and nothing else.
    pub fn of_ranges(ranges: Ranges) -> Self {
        Self {
            ranges: Some(Arc::new(ranges)),
            ..Self::of_forest(Forest::empty(), Tests::default())
        }
    }

    /// A forest without trees of any class, and the tests of its atoms.
    pub fn of_forest(forest: Forest<Q>, tests: Tests) -> Self {
        Self {
            forest: Arc::new(forest),
            trees: [None; 4],
            wild: None,
            live: Vec::new(),
            ranges: None,
            gone: Arc::default(),
            tests: Arc::new(tests),
        }
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> usize {
        self.forest.bytes()
            + self.tests.bytes()
            + self.wild.as_ref().map_or(0, |wild| wild.bytes())
            + size_of_val(&self.live[..])
            + self.ranges.as_ref().map_or(0, |ranges| ranges.bytes())
    }
}
