//! Bits that a mask selects, for machines without `pext` and `pdep`.

/// The bits of `word` that `mask` selects, moved together at the low end.
pub(super) fn extract(word: u64, mut mask: u64) -> u64 {
    let mut result = 0;
    let mut place = 0;
    while mask != 0 {
        result |= (word >> mask.trailing_zeros() & 1) << place;
        place += 1;
        mask &= mask - 1;
    }
    result
}

/// The low bits of `bits` at the places that `mask` selects.
pub(super) fn deposit(mut bits: u64, mut mask: u64) -> u64 {
    let mut word = 0;
    while mask != 0 {
        word |= (bits & 1) << mask.trailing_zeros();
        bits >>= 1;
        mask &= mask - 1;
    }
    word
}
