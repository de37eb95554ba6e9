//! Instructions that look up a value in a set of constants.
//!
//! Up to three constants are compared one after another and the outcomes
//! combined. For more, the code compares one bucket of a hash table at once,
//! with SSE2 instructions, which every x86-64 processor has.

use iced_x86::{Code, MemoryOperand, Register};

use super::error::EmsError;
use crate::emit::pool::Pool;
use crate::list::output::Output;
use crate::list::registers::Gpr;
use crate::mir::PoolId;
use crate::tables::SetTable;

/// The most constants that are compared one after another.
const FEW: usize = 3;

/// Slots a bucket: a vector of 128 bits.
const BUCKET: usize = 4;

/// Bytes a bucket.
const BYTES: u32 = 16;

/// The method of a set lookup.
pub(super) enum Lookup {
    /// Its constants.
    Few(Vec<u32>),
    /// Its hash table.
    Table {
        table: PoolId,
        /// The factor of the product and the shift distance; `None` for a table
        /// of one bucket.
        hash: Option<(u32, u32)>,
    },
}

impl Lookup {
    /// Chooses the lookup for `constants`.
    ///
    /// # Errors
    /// [`EmsError::Set`] if no hash function spreads them.
    pub(super) fn new(constants: &[u32], pool: &mut Pool) -> Result<Self, EmsError> {
        if constants.len() <= FEW {
            return Ok(Self::Few(constants.to_vec()));
        }
        let table = SetTable::build(constants, BUCKET).ok_or(EmsError::Set(constants.len()))?;
        let hash = (table.buckets() > 1).then_some((table.multiplier, table.shift));
        Ok(Self::Table { table: pool.add(&table.bytes(), BYTES as usize), hash })
    }

    /// Sets the flags to "not equal" if `data` is in the set.
    pub(super) fn emit(&self, data: Gpr, temporary: [Gpr; 2], output: &mut Output) {
        match self {
            Self::Few(constants) => compare_few(constants, data, temporary, output),
            Self::Table { table, hash } => {
                compare_bucket(*table, *hash, data, temporary, output);
            }
        }
    }
}

fn compare_few(constants: &[u32], data: Gpr, [any, one]: [Gpr; 2], output: &mut Output) {
    for (position, &constant) in constants.iter().enumerate() {
        let equal = if position == 0 { any } else { one };
        output.ri(Code::Cmp_rm32_imm32, data.r32(), constant);
        output.r(Code::Sete_rm8, equal.r8());
        if position > 0 {
            // The last OR sets the flags.
            output.rr(Code::Or_r8_rm8, any.r8(), one.r8());
        }
    }
}

fn compare_bucket(
    table: PoolId,
    hash: Option<(u32, u32)>,
    data: Gpr,
    [first, second]: [Gpr; 2],
    output: &mut Output,
) {
    let vector = Register::XMM0;
    output.rr(Code::Movd_xmm_rm32, vector, data.r32());
    output.rri(Code::Pshufd_xmm_xmmm128_imm8, vector, vector, 0);
    output.address_of(second.r64(), table);
    let bucket = match hash {
        None => MemoryOperand::with_base(second.r64()),
        Some((multiplier, shift)) => {
            output.rri(Code::Imul_r32_rm32_imm32, first.r32(), data.r32(), multiplier);
            output.ri(Code::Shr_rm32_imm8, first.r32(), shift);
            output.ri(Code::Shl_rm64_imm8, first.r64(), BYTES.trailing_zeros());
            MemoryOperand::with_base_index(second.r64(), first.r64())
        }
    };
    output.rm(Code::Pcmpeqd_xmm_xmmm128, vector, bucket);
    output.rr(Code::Pmovmskb_r32_xmm, first.r32(), vector);
    output.rr(Code::Test_rm32_r32, first.r32(), first.r32());
}
