//! Rows of rules against packets, with the instructions of a level.
#![allow(unsafe_code, reason = "calls vector code for a level that was checked")]

use forebay_codegen::code::Isa;
use forebay_jit::{JitError, cpu};

use super::rows::LaneContent;
use super::{rows_avx2, rows_avx512, rows_scalar};
use crate::atom::Tests;
use crate::linear::table::{Key, Rows};

/// Vector code of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowMatcher {
    isa: Isa,
}

impl RowMatcher {
    /// Code of level `isa`.
    ///
    /// # Errors
    /// A level that this machine lacks.
    pub fn new(isa: Isa) -> Result<Self, JitError> {
        cpu::require(isa)?;
        Ok(Self { isa })
    }

    /// The first rule that matches each key.
    pub fn classify<K: Key<N>, const N: usize>(
        self,
        lanes: LaneContent,
        rows: &Rows<N>,
        tests: &Tests,
        keys: &[K],
        rules: &mut [u32],
    ) {
        // SAFETY: `new` found the level here.
        unsafe {
            match self.isa {
                Isa::Scalar => rows_scalar::classify(lanes, rows, tests, keys, rules),
                Isa::Avx2 => rows_avx2::classify(lanes, rows, tests, keys, rules),
                Isa::Avx512Bw | Isa::Avx512Vbmi => {
                    rows_avx512::classify(lanes, rows, tests, keys, rules);
                }
            }
        }
    }
}
