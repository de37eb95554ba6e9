//! Matching a batch of keys against a forest.
//!
//! The packets of a batch go through each step together (`steps.rs`): those that
//! a tree could still give a lower label take their root's child, all those not
//! yet at a block take another, all are held against their blocks. Within a
//! step no packet waits for another, so that the processor overlaps as many of
//! their loads as it has room for, which is the software pipeline of the paper's
//! section 4.2.2 turned by a right angle: there the rules of one packet overlap,
//! here the packets of one step. Which packets a step takes are bits of a word.
#![allow(unsafe_code, reason = "calls kernels whose instructions the machine was found to have")]

mod avx2;
mod avx512;
mod key;
pub(super) mod ranges;
mod scalar;
mod steps;

use super::labels::NO_LABEL;
use super::matcher::Matcher;
use forebay_codegen::code::Isa;
pub(super) use key::TreeKey;

/// Writes the least label that each key matches.
pub(super) fn least_labels<const Q: usize, K: TreeKey>(
    isa: Isa,
    matchers: &[Matcher<Q>],
    keys: &[K],
    labels: &mut [u32],
) {
    assert_eq!(keys.len(), labels.len(), "a place for each key");
    labels.fill(NO_LABEL);
    for matcher in matchers {
        classify(isa, matcher, keys, labels);
    }
}

/// Lowers each label to that of the first atom that its key matches, with the
/// instructions of `isa`.
fn classify<const Q: usize, K: TreeKey>(
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
        Isa::Avx2 => {
            // SAFETY: the choice of the level found that the machine has it.
            unsafe { avx2::classify(matcher, keys, labels) }
        }
        Isa::Avx512Bw | Isa::Avx512Vbmi => {
            // SAFETY: likewise.
            unsafe { avx512::classify(matcher, keys, labels) }
        }
    }
}
