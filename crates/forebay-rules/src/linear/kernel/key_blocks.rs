//! Keys as blocks of 16 bytes, of which bit planes are made, and planes as bits of numbers.
#![allow(unsafe_code, reason = "states where keys have no padding")]

use crate::packed::{Key4, Key6};

/// A part of a key: 16 bytes, and the first plane of each of its four fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Bytes from the key's start.
    pub(super) offset: usize,
    /// The plane of the least significant bit; none if the field is not asked
    /// for.
    pub(super) fields: [Option<usize>; 4],
}

/// A packed key.
///
/// # Safety
/// The blocks lie within the key and hold none of its padding.
pub(crate) unsafe trait Key: Copy + Default {
    /// Its blocks, with all their fields.
    const BLOCKS: &'static [Block];
}

const fn block(offset: usize, first: usize) -> Block {
    Block { offset, fields: [Some(first), Some(first + 32), Some(first + 64), Some(first + 96)] }
}

// SAFETY: the key is 16 bytes of numbers.
unsafe impl Key for Key4 {
    const BLOCKS: &'static [Block] = &[block(0, 0)];
}

// SAFETY: the key is 40 bytes of numbers and 8 bytes of padding.
unsafe impl Key for Key6 {
    const BLOCKS: &'static [Block] = &[
        block(0, 0),
        block(16, 128),
        Block { offset: 24, fields: [None, None, Some(256), Some(288)] },
    ];
}

/// The blocks of a key with those fields of which a plane is `wanted`.
pub(crate) fn blocks<K: Key>(wanted: impl Fn(usize) -> bool) -> Vec<Block> {
    let any = |&first: &usize| (first..first + 32).any(&wanted);
    let keep =
        |block: &Block| Block { fields: block.fields.map(|first| first.filter(any)), ..*block };
    let blocks = K::BLOCKS.iter().map(keep);
    blocks.filter(|block| block.fields != [None; 4]).collect()
}

/// A plane of numbers that come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bit {
    /// The same for all packets.
    Constant(bool),
    /// Plane number so many of the results, or its complement.
    Plane {
        /// Which.
        plane: usize,
        /// Whether its complement.
        inverted: bool,
    },
}
