//! Vector code by intrinsics: what is the same for every rule list.
//!
//! | module | does |
//! |---|---|
//! | [`bytes`] | keys as bytes |
//! | [`planes`] | keys into bit planes, and planes of numbers into numbers |
//! | [`row_matcher`] | rows of rules against packets |

pub(super) mod bytes;
pub(super) mod key_blocks;
pub(super) mod planes;
mod planes_avx2;
mod planes_avx512;
pub(super) mod row_matcher;
pub(super) mod rows;
mod rows_avx2;
mod rows_avx512;
mod rows_scalar;
