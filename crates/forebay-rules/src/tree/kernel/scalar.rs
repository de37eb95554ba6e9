//! The kernel in plain words, for every machine; what the others are tested
//! against.

use super::key::{BATCH, TreeKey, port_words};
use crate::tree::bits::extract;
use crate::tree::block::{Block, LANES};
use crate::tree::labels::NO_LABEL;
use crate::tree::layout::{BLOCK, NUMBER};
use crate::tree::matcher::Matcher;
use crate::tree::wildcards::{CHUNK_LABELS, Chunk, WildcardIndex};

/// Lowers each label to that of the first atom that its key matches.
pub(super) fn classify<const Q: usize, K: TreeKey>(
    matcher: &Matcher<Q>,
    keys: &[K],
    labels: &mut [u32],
) {
    for (keys, labels) in keys.chunks(BATCH).zip(labels.chunks_mut(BATCH)) {
        for (key, label) in keys.iter().zip(labels) {
            for (tree, root) in matcher.forest.roots.iter().enumerate() {
                if *label > root.least {
                    *label = (*label).min(walk(matcher, matcher.forest.root(tree), key));
                }
            }
            if let Some(wild) = &matcher.wild {
                *label = (*label).min(first_of(wild, &matcher.live, key));
            }
        }
    }
}

/// The least label of a tree's atoms that match.
fn walk<const Q: usize, K: TreeKey>(matcher: &Matcher<Q>, root: u32, key: &K) -> u32 {
    let forest = &matcher.forest;
    let mut at = root;
    while at & BLOCK == 0 {
        let node = &forest.nodes[at as usize];
        let child = extract(key.word(node.word as usize), node.mask);
        at = forest.slots[node.base as usize + child as usize];
    }
    let (first, second, kind, flags) = key.rest();
    let failed = matcher.tests.failed(kind, flags);
    let ports = port_words(first, second);
    at &= NUMBER;
    loop {
        let block = forest.blocks.get(at);
        let lane = (0..LANES).find(|&lane| matches(block, lane, key, ports, failed));
        match lane {
            Some(lane) => return block.labels[lane],
            None if block.next == 0 => return NO_LABEL,
            None => at = block.next,
        }
    }
}

fn matches<const Q: usize, K: TreeKey>(
    block: &Block<Q>,
    lane: usize,
    key: &K,
    ports: u64,
    failed: u32,
) -> bool {
    let addresses = (0..Q).all(|word| {
        let [low, high] = block.addresses[word][lane];
        let shifts = block.shifts[word][lane];
        let differ = key.word(word) ^ (u64::from(low) | u64::from(high) << 32);
        let counts = |half: u32, shift: u8| half.checked_shr(shift.into()).unwrap_or(0);
        counts(differ as u32, shifts[0]) == 0 && counts((differ >> 32) as u32, shifts[1]) == 0
    });
    let bounds = block.ports[lane].into_iter().enumerate();
    addresses
        && failed >> block.tests[lane] & 1 == 0
        && bounds.fold(true, |met, (at, bound)| met & ((ports >> (16 * at)) as u16 >= bound))
}

/// The label of the first live bit that is set in all vectors of a packet.
pub(super) fn first_of<K: TreeKey>(wild: &WildcardIndex, live: &[Chunk], key: &K) -> u32 {
    let (first, second, kind, flags) = key.rest();
    let classes = wild.classes(key.leading(), (first, second), kind, flags);
    for (chunk, live) in live.iter().enumerate() {
        let vectors = classes.map(|class| &wild.vectors[class as usize + chunk].0);
        for word in 0..vectors[0].len() {
            let common = vectors.iter().fold(live.0[word], |all, vector| all & vector[word]);
            if common != 0 {
                let bit = word * 64 + common.trailing_zeros() as usize;
                return wild.labels[chunk * CHUNK_LABELS + bit];
            }
        }
    }
    NO_LABEL
}
