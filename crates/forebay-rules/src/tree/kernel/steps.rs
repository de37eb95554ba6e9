//! The steps of a batch with vectors, for each level of instructions.
//!
//! What a [`Matcher`] refers to is looked up without a check: [`Forest`] and [`WildcardIndex`] have
//! held all their references against what there is when they were made, and a forest each
//! that a change stores.
//!
//! [`Forest`]: crate::tree::layout::Forest
#![allow(unsafe_code, reason = "look-ups that were checked to be in range when a list was built")]

use super::key::{BATCH, TreeKey, port_words};
use crate::atom::Tests;
use crate::tree::block::{Block, LANES};
use crate::tree::labels::NO_LABEL;
use crate::tree::layout::{BLOCK, CHAIN, NUMBER};
use crate::tree::matcher::Matcher;
use crate::tree::wildcards::{CHUNK_LABELS, Chunk, FIELDS, WildcardIndex};

/// The instructions of a level.
pub(super) trait Level {
    /// The bits of `word` that `mask` has, together at the low end.
    ///
    /// # Safety
    /// The machine has the level. Likewise below.
    unsafe fn extract(word: u64, mask: u64) -> u64;

    /// A bit for each number with its highest bit clear.
    ///
    /// # Safety
    /// See above.
    unsafe fn clear_highest(numbers: &[u32; BATCH]) -> u64;

    /// The lanes of `block` that the packet matches, which has these ports, by [`port_words`], and
    /// fails these tests.
    ///
    /// # Safety
    /// See above.
    unsafe fn compare<const Q: usize, K: TreeKey>(
        block: &Block<Q>,
        key: &K,
        ports: u64,
        failed: u32,
    ) -> u32;

    /// The first bit that is set in all chunks; if none is, one of [`CHUNK_LABELS`] behind them.
    ///
    /// # Safety
    /// See above.
    unsafe fn first_common(chunks: [&Chunk; FIELDS + 1]) -> usize;
}

/// The packets of a batch.
struct Batch {
    /// Both ports as blocks compare them.
    ports: [u64; BATCH],
    /// The tests that the packet fails.
    failed: [u32; BATCH],
    /// The node or block that comes next.
    at: [u32; BATCH],
}

/// Lowers each label to that of the first atom that its key matches. It is compiled into a function
/// with the instructions of the level.
///
/// # Safety
/// The machine has the level.
#[inline(always)]
pub(super) unsafe fn classify<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    labels: &mut [u32],
) {
    let mut batch = Batch { ports: [0; BATCH], failed: [0; BATCH], at: [BLOCK; BATCH] };
    for (keys, labels) in keys.chunks(BATCH).zip(labels.chunks_mut(BATCH)) {
        // SAFETY: as this function's own; there are at most `BATCH` keys, and as many labels.
        unsafe {
            prepare(&matcher.tests, keys, &mut batch);
            for tree in 0..matcher.forest.roots.len() {
                descend::<L, Q, K>(matcher, matcher.forest.root(tree), keys, &mut batch);
                let left = compare_all::<L, Q, K>(matcher, keys, &batch, labels);
                chains::<L, Q, K>(matcher, keys, &batch, labels, left);
            }
            if let Some(wild) = &matcher.wild {
                for (keys, labels) in keys.chunks(WILD).zip(labels.chunks_mut(WILD)) {
                    join::<L, K>(wild, &matcher.live, keys, labels);
                }
            }
        }
    }
}

/// What is the same for a packet in all trees.
#[inline(always)]
fn prepare<K: TreeKey>(tests: &Tests, keys: &[K], batch: &mut Batch) {
    for ((key, ports), failed) in keys.iter().zip(&mut batch.ports).zip(&mut batch.failed) {
        let (first, second, kind, flags) = key.rest();
        *ports = port_words(first, second);
        *failed = tests.failed(kind, flags);
    }
}

/// The child of `node` that `key` belongs to.
///
/// # Safety
/// As [`classify`]; `node` is a node of `matcher`.
#[inline(always)]
unsafe fn child<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    node: u32,
    key: &K,
) -> u32 {
    // SAFETY: nodes are referred to only where they are; a node's word is one
    // of the key's, which is a whole number of 64-bit words without padding
    // between fields; and its children are as many as its mask has subsets.
    unsafe {
        let node = matcher.forest.nodes.get_unchecked(node as usize);
        let word = *(&raw const *key).cast::<u64>().add(node.word as usize);
        let child = node.base as usize + L::extract(word, node.mask) as usize;
        *matcher.forest.slots.get_unchecked(child)
    }
}

/// Takes every packet from `root` to its block.
///
/// # Safety
/// As [`classify`]; `root` is one of the roots, `keys` at most `BATCH`.
#[inline(always)]
unsafe fn descend<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    root: u32,
    keys: &[K],
    batch: &mut Batch,
) {
    if root & BLOCK != 0 {
        batch.at.fill(root);
        return;
    }
    for (key, at) in keys.iter().zip(&mut batch.at) {
        // SAFETY: the root is a node.
        *at = unsafe { child::<L, Q, K>(matcher, root, key) };
    }
    const { assert!(BLOCK == 1 << 31) };
    // Packets that are not done are kept as bits, not as a list in memory: its
    // stores, to places known late, would hold up the loads of the next step.
    // SAFETY: as this function's own.
    let mut left = unsafe { L::clear_highest(&batch.at) } & (u64::MAX >> (BATCH - keys.len()));
    while left != 0 {
        let mut now = left;
        while now != 0 {
            let i = now.trailing_zeros() as usize;
            now &= now - 1;
            // SAFETY: the packets that are left are numbers of `keys`, and what
            // comes next for them is a node.
            unsafe {
                let at = batch.at.get_unchecked_mut(i);
                *at = child::<L, Q, K>(matcher, *at, keys.get_unchecked(i));
            }
        }
        // SAFETY: as this function's own.
        left &= unsafe { L::clear_highest(&batch.at) };
    }
}

/// Holds every packet against the block it has come to, and lowers its label by what is found.
/// Returns those that have found nothing in a list that goes on.
///
/// # Safety
/// As [`classify`]; every packet has come to a block, and `keys` and `labels` are as many, at most
/// `BATCH`.
#[inline(always)]
unsafe fn compare_all<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    batch: &Batch,
    labels: &mut [u32],
) -> u64 {
    let mut left = 0;
    for (i, (key, label)) in keys.iter().zip(labels).enumerate() {
        // SAFETY: `i` is below the length of a batch; blocks are referred to
        // only where they are.
        unsafe {
            let at = *batch.at.get_unchecked(i);
            let block = matcher.forest.blocks.get_unchecked(at & NUMBER);
            let (ports, failed) = (*batch.ports.get_unchecked(i), *batch.failed.get_unchecked(i));
            let hits = L::compare(block, key, ports, failed);
            *label = (*label).min(label_of(block, hits));
            left |= u64::from(hits == 0 && at & CHAIN != 0) << i;
        }
    }
    left
}

/// The label of the first of these lanes, without a branch; [`NO_LABEL`] if there are none.
#[inline(always)]
fn label_of<const Q: usize>(block: &Block<Q>, hits: u32) -> u32 {
    let label = block.labels[hits.trailing_zeros() as usize % LANES];
    label | u32::from(hits == 0).wrapping_neg()
}

const _: () = assert!(NO_LABEL == u32::MAX);

/// Follows the lists of the packets in `left`, which match nothing in the first
/// blocks of theirs.
///
/// # Safety
/// As [`classify`]; the packets are numbers of `keys`, and at blocks.
#[inline(always)]
unsafe fn chains<L: Level, const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    batch: &Batch,
    labels: &mut [u32],
    mut left: u64,
) {
    while left != 0 {
        let i = left.trailing_zeros() as usize;
        left &= left - 1;
        // SAFETY: as this function's own; blocks are referred to only where
        // they are.
        unsafe {
            let block = |at: u32| matcher.forest.blocks.get_unchecked(at & NUMBER);
            let (ports, failed) = (*batch.ports.get_unchecked(i), *batch.failed.get_unchecked(i));
            let mut next = block(*batch.at.get_unchecked(i)).next;
            while next != 0 {
                let block = block(next);
                let hits = L::compare(block, keys.get_unchecked(i), ports, failed);
                if hits != 0 {
                    let label = labels.get_unchecked_mut(i);
                    *label = (*label).min(label_of(block, hits));
                    break;
                }
                next = block.next;
            }
        }
    }
}

/// Packets whose vectors are found together.
const WILD: usize = 16;

/// Lowers each label to that of the first live bit set in all vectors of a packet.
///
/// # Safety
/// As [`classify`]; `keys` and `labels` are as many, at most [`WILD`].
#[inline(always)]
unsafe fn join<L: Level, K: TreeKey>(
    wild: &WildcardIndex,
    live: &[Chunk],
    keys: &[K],
    labels: &mut [u32],
) {
    let mut classes = [[0; FIELDS]; WILD];
    for (key, classes) in keys.iter().zip(&mut classes) {
        let (first, second, kind, flags) = key.rest();
        *classes = wild.classes(key.leading(), (first, second), kind, flags);
    }
    for (chunk, live) in live.iter().enumerate().take(wild.width) {
        for (classes, label) in classes.iter().zip(&mut *labels) {
            // SAFETY: a class is where a vector of `width` chunks begins; each chunk has labels for
            // all that a search returns.
            unsafe {
                let vector = |class: u32| wild.vectors.get_unchecked(class as usize + chunk);
                let [a, b, c, d, e, f] = classes.map(vector);
                let bit = L::first_common([live, a, b, c, d, e, f]);
                *label = (*label).min(*wild.labels.get_unchecked(chunk * CHUNK_LABELS + bit));
            }
        }
    }
}
