//! Matching a batch of keys against a forest.
//!
//! The packets of a batch go through each step together: all take their root's
//! child, all those not yet at a block take another, all are held against their
//! blocks. Within a step no packet waits for another, so that the processor
//! overlaps as many of their loads as it has room for, which is the software
//! pipeline of the paper's section 4.2.2 turned by a right angle: there the
//! rules of one packet overlap, here the packets of one step. Steps have no
//! branches that depend on what a packet is; those that are not done are kept
//! in a list that each step shortens.
#![allow(unsafe_code, reason = "calls kernels whose instructions the machine was found to have")]

mod avx2;
mod avx512;
pub(super) mod ranges;
mod scalar;

use super::layout::Forest;
use super::ranges::Ranges;
use super::wildcards::{Chunk, WildcardIndex};
use crate::atom::Tests;
use crate::packed::{Key4, Key6};
use forebay_codegen::code::Isa;
use std::sync::Arc;

/// Packets that go through the steps together.
pub(super) const BATCH: usize = 64;

/// A key as the trees see it.
pub(super) trait TreeKey: Copy {
    /// The 64-bit words of both addresses.
    const ADDRESS_WORDS: usize;

    /// A 64-bit word of the key in memory order: addresses, then the rest.
    fn word(&self, at: usize) -> u64;

    /// The leading byte of each address.
    fn leading(&self) -> (u8, u8);

    /// Both addresses.
    fn addresses(&self) -> [u128; 2];

    /// Both ports, kind and flags.
    fn rest(&self) -> (u16, u16, u16, u16);
}

/// Two 32-bit words as they lie in memory on a little-endian machine.
fn pair(words: [u32; 2]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

fn join(first: u16, second: u16, kind: u16, flags: u16) -> u64 {
    u64::from(first) | u64::from(second) << 16 | u64::from(kind) << 32 | u64::from(flags) << 48
}

impl TreeKey for Key4 {
    const ADDRESS_WORDS: usize = 1;

    #[inline]
    fn word(&self, at: usize) -> u64 {
        match at {
            0 => pair([self.source, self.destination]),
            _ => join(self.first, self.second, self.kind, self.flags),
        }
    }

    #[inline]
    fn leading(&self) -> (u8, u8) {
        ((self.source >> 24) as u8, (self.destination >> 24) as u8)
    }

    #[inline]
    fn addresses(&self) -> [u128; 2] {
        [self.source.into(), self.destination.into()]
    }

    #[inline]
    fn rest(&self) -> (u16, u16, u16, u16) {
        (self.first, self.second, self.kind, self.flags)
    }
}

impl TreeKey for Key6 {
    const ADDRESS_WORDS: usize = 4;

    #[inline]
    fn word(&self, at: usize) -> u64 {
        let (source, destination) = (self.source, self.destination);
        match at {
            0 => pair([source[0], source[1]]),
            1 => pair([source[2], source[3]]),
            2 => pair([destination[0], destination[1]]),
            3 => pair([destination[2], destination[3]]),
            _ => join(self.first, self.second, self.kind, self.flags),
        }
    }

    #[inline]
    fn leading(&self) -> (u8, u8) {
        ((self.source[0] >> 24) as u8, (self.destination[0] >> 24) as u8)
    }

    #[inline]
    fn addresses(&self) -> [u128; 2] {
        [self.source, self.destination]
            .map(|words| words.into_iter().fold(0, |all, word| all << 32 | u128::from(word)))
    }

    #[inline]
    fn rest(&self) -> (u16, u16, u16, u16) {
        (self.first, self.second, self.kind, self.flags)
    }
}

/// What packets are matched against: trees, bit vectors, and the tests of both.
/// A copy shares them.
#[derive(Clone)]
pub(super) struct Matcher<const Q: usize> {
    /// The trees.
    pub forest: Arc<Forest<Q>>,
    /// For each class of atoms (see [`super::class`]), the tree it is in.
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

/// The level whose kernel is used where a machine has `isa`: the kernel for
/// AVX-512 requires CD and BITALG as well, which all whole processors with VBMI
/// have.
pub(super) fn supported(isa: Isa) -> Isa {
    let whole =
        std::is_x86_feature_detected!("avx512cd") && std::is_x86_feature_detected!("avx512bitalg");
    match isa {
        Isa::Avx512Vbmi if whole => isa,
        Isa::Avx512Vbmi | Isa::Avx512Bw => Isa::Avx2,
        Isa::Avx2 | Isa::Scalar => isa,
    }
}

/// Lowers each label to that of the first atom that its key matches, with the
/// instructions of `isa`, which is [`supported`].
pub(super) fn classify<const Q: usize, K: TreeKey>(
    isa: Isa,
    matcher: &Matcher<Q>,
    keys: &[K],
    labels: &mut [u32],
) {
    const { assert!(Q == K::ADDRESS_WORDS, "blocks are for keys of one family") };
    if let Some(ranges) = &matcher.ranges {
        ranges::classify(isa, ranges, &matcher.gone, keys, labels);
        return;
    }
    match isa {
        Isa::Scalar => scalar::classify(matcher, keys, labels),
        Isa::Avx2 | Isa::Avx512Bw => {
            // SAFETY: the choice of the level found that the machine has it.
            unsafe { avx2::classify(matcher, keys, labels) }
        }
        Isa::Avx512Vbmi => {
            // SAFETY: likewise.
            unsafe { avx512::classify(matcher, keys, labels) }
        }
    }
}

/// Both ports as blocks compare them: each beside its complement.
#[inline]
fn port_words(first: u16, second: u16) -> u64 {
    let spread = u64::from(first) | u64::from(second) << 32;
    spread | (spread ^ 0x0000_ffff_0000_ffff) << 16
}
