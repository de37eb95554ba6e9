//! Instructions that look up a value in a set of constants.
//!
//! | set | test |
//! |---|---|
//! | of one or two numbers | a comparison each, outcomes combined |
//! | of bytes | a table of 256 flags |
//! | of three numbers | a comparison each |
//! | larger, with vectors | one bucket of a hash table, compared at once |
//! | larger, without | one bucket of a hash table, slot by slot |
//!
//! Except for the last, none has a branch that depends on the constant found.

use forebay_filter::ir::{SetId, Value, Width};
use iced_x86::{Code, MemoryOperand, Register};

use super::generate::Generator;
use super::registers::Gpr;
use super::select::{Condition, FEW, Few, Field, Key, Meaning, reverse};
use crate::code::Isa;
use crate::tables::SetTable;

/// The most bytes that are compared one after another.
const FEW_BYTES: usize = 2;

/// The most slots of a bucket that are compared without a loop.
const UNROLLED: usize = 4;

/// How often the bucket size is doubled before one bucket takes all constants.
const WIDER: u32 = 4;

/// The set size from which a table with small buckets grows too large.
const MANY: usize = 256;

impl Generator<'_> {
    /// Sets the flags for membership of `key`, restricted to the bits of
    /// `mask`, in `set`, and returns the condition for it. With `reversed`, the
    /// key is a raw load of that width.
    pub(crate) fn member(
        &mut self,
        key: Key,
        mask: u32,
        set: SetId,
        reversed: Option<Width>,
    ) -> Condition {
        let constants = constants(&self.function.sets[set.0 as usize], reversed);
        let gpr = self.key_to_compare(key, mask);
        let is_byte = reversed == Some(Width::Byte);
        if reversed == Some(Width::Word)
            && mask == u32::MAX
            && let Some(condition) = self.whole_set_from_memory(key, &constants)
        {
            return condition;
        }
        let few = if is_byte { FEW_BYTES } else { FEW };
        let condition = if constants.len() <= few {
            self.equals_one(gpr, &Few::of(&constants))
        } else if is_byte {
            self.flagged_byte(gpr, &constants)
        } else {
            self.in_table(gpr, &constants)
        };
        self.registers.consumed(key);
        condition
    }

    /// Sets the flags for whether `key` is one of `few`; returns the condition
    /// for it.
    pub(crate) fn one_of_few(&mut self, key: Key, few: &Few) -> Condition {
        let gpr = self.key_to_compare(key, u32::MAX);
        let condition = if self.is_byte(key) && few.constants().len() > FEW_BYTES {
            self.flagged_byte(gpr, few.constants())
        } else {
            self.equals_one(gpr, few)
        };
        self.registers.consumed(key);
        condition
    }

    fn is_byte(&self, key: Key) -> bool {
        let Meaning::Raw(load) = key.meaning() else { return false };
        matches!(self.function.get(load), Value::Load { width: Width::Byte, .. })
    }

    fn equals_one(&mut self, gpr: Gpr, few: &Few) -> Condition {
        let constants = few.constants();
        if let [constant] = constants {
            self.compare(gpr, *constant);
            return Condition::Equal;
        }
        let any = self.registers.take(&[gpr], &mut self.output);
        let one = self.registers.take(&[gpr, any], &mut self.output);
        if constants.is_empty() {
            self.output.rr(Code::Xor_r32_rm32, any.r32(), any.r32());
        }
        for (position, &constant) in constants.iter().enumerate() {
            let equal = if position == 0 { any } else { one };
            self.compare(gpr, constant);
            self.output.r(Code::Sete_rm8, equal.r8());
            if position > 0 {
                self.output.rr(Code::Or_r8_rm8, any.r8(), one.r8());
            }
        }
        Condition::NotEqual
    }

    fn compare(&mut self, gpr: Gpr, constant: u32) {
        self.immediate(Code::Cmp_rm32_imm8, Code::Cmp_rm32_imm32, gpr, constant);
    }

    fn flagged_byte(&mut self, gpr: Gpr, constants: &[u32]) -> Condition {
        let mut flags = [0_u8; 256];
        constants.iter().for_each(|&constant| flags[(constant & 0xff) as usize] = 1);
        let table = self.assembler.pool.add(&flags, 64);
        let base = self.registers.take(&[gpr], &mut self.output);
        self.output.address_of(base.r64(), table);
        let flag = MemoryOperand::with_base_index(base.r64(), gpr.r64());
        self.output.mi(Code::Cmp_rm8_imm8, flag, 0);
        Condition::NotEqual
    }

    /// Looks up a field in a table of one bucket, directly from memory.
    fn whole_set_from_memory(&mut self, key: Key, constants: &[u32]) -> Option<Condition> {
        let Meaning::Raw(load) = key.meaning() else { return None };
        let is_one_bucket =
            constants.len() > FEW && constants.len() <= self.widest_bucket(constants.len());
        let field = Field { load, plus: 0, width: Width::Word, immediate: 0 };
        if self.isa < Isa::Avx2 || !is_one_bucket || !self.stays_in_memory(key, u32::MAX, field) {
            return None;
        }
        let table = SetTable::build(constants, constants.len().next_power_of_two())?;
        let memory = self.operand(load, 0);
        let vector = self.vector(table.bucket);
        self.output.rm(vector.broadcast_memory, vector.register, memory);
        let id = self.assembler.pool.add(&table.bytes(), 4 * table.bucket);
        self.output.rrc(vector.compare, vector.result, vector.register, id);
        Some(self.any_equal(&vector))
    }

    /// The widest bucket for a set of that many constants. Where slots are
    /// compared one by one, small buckets are faster but leave more of the
    /// table free, which matters once it exceeds the L1 cache.
    fn widest_bucket(&self, constants: usize) -> usize {
        match self.isa {
            Isa::Scalar if constants > MANY => 2 * UNROLLED,
            Isa::Scalar => UNROLLED,
            Isa::Avx2 => 8,
            Isa::Avx512Bw | Isa::Avx512Vbmi => 16,
        }
    }

    fn in_table(&mut self, gpr: Gpr, constants: &[u32]) -> Condition {
        let bucket = self.widest_bucket(constants.len()).min(constants.len().next_power_of_two());
        match SetTable::build(constants, bucket) {
            Some(table) if self.isa == Isa::Scalar => return self.slot_after_slot(gpr, &table),
            Some(table) => return self.at_once(gpr, &table),
            None => {}
        }
        let wider = (1..WIDER).map(|shift| bucket << shift);
        let table = wider
            .take_while(|&bucket| bucket < constants.len())
            .find_map(|bucket| SetTable::build(constants, bucket))
            .unwrap_or_else(|| one_bucket(constants));
        self.slot_after_slot(gpr, &table)
    }

    /// The bucket of `gpr` as a memory operand.
    fn bucket(&mut self, gpr: Gpr, table: &SetTable) -> (MemoryOperand, [Gpr; 2]) {
        let bytes = 4 * table.bucket;
        let id = self.assembler.pool.add(&table.bytes(), bytes.next_power_of_two().min(64));
        let base = self.registers.take(&[gpr], &mut self.output);
        self.output.address_of(base.r64(), id);
        if table.buckets() == 1 {
            return (MemoryOperand::with_base(base.r64()), [base, base]);
        }
        let hash = self.registers.take(&[gpr, base], &mut self.output);
        self.output.rri(Code::Imul_r32_rm32_imm32, hash.r32(), gpr.r32(), table.multiplier);
        self.output.ri(Code::Shr_rm32_imm8, hash.r32(), table.shift);
        self.output.ri(Code::Shl_rm64_imm8, hash.r64(), bytes.trailing_zeros());
        (MemoryOperand::with_base_index(base.r64(), hash.r64()), [base, hash])
    }

    fn slot_after_slot(&mut self, gpr: Gpr, table: &SetTable) -> Condition {
        let (bucket, [base, hash]) = self.bucket(gpr, table);
        let found = self.assembler.label();
        if table.bucket <= UNROLLED {
            for slot in 0..table.bucket {
                let memory =
                    MemoryOperand { displacement: 4 * slot as i64, displ_size: 1, ..bucket };
                self.output.rm(Code::Cmp_r32_rm32, gpr.r32(), memory);
                if slot + 1 < table.bucket {
                    self.output.jump(Code::Je_rel32_64, found);
                }
            }
        } else {
            let again = self.assembler.label();
            if hash != base {
                self.output.rr(Code::Add_r64_rm64, base.r64(), hash.r64());
            }
            let left = self.registers.take(&[gpr, base], &mut self.output);
            self.output.ri(Code::Mov_r32_imm32, left.r32(), table.bucket as u32);
            self.output.bind(again);
            self.output.rm(Code::Cmp_r32_rm32, gpr.r32(), MemoryOperand::with_base(base.r64()));
            self.output.jump(Code::Je_rel32_64, found);
            self.output.ri(Code::Add_rm64_imm8, base.r64(), 4);
            self.output.ri(Code::Sub_rm32_imm8, left.r32(), 1);
            self.output.jump(Code::Jne_rel32_64, again);
            // Not found: a register that is 0 differs from 1.
            self.output.ri(Code::Cmp_rm32_imm8, left.r32(), 1);
        }
        self.output.bind(found);
        Condition::Equal
    }

    fn at_once(&mut self, gpr: Gpr, table: &SetTable) -> Condition {
        let vector = self.vector(table.bucket);
        if let Some(broadcast) = vector.broadcast_general {
            self.output.rr(broadcast, vector.register, gpr.r32());
        } else {
            self.output.rr(Code::VEX_Vmovd_xmm_rm32, Register::XMM0, gpr.r32());
            self.output.rr(vector.broadcast_memory, vector.register, Register::XMM0);
        }
        if table.buckets() == 1 {
            let id = self.assembler.pool.add(&table.bytes(), 4 * table.bucket);
            self.output.rrc(vector.compare, vector.result, vector.register, id);
        } else {
            let (bucket, _) = self.bucket(gpr, table);
            self.output.rrm(vector.compare, vector.result, vector.register, bucket);
        }
        self.any_equal(&vector)
    }

    /// Sets the flags for whether any comparison matched.
    fn any_equal(&mut self, vector: &Vector) -> Condition {
        self.output.rr(vector.test, vector.result, vector.result);
        Condition::NotEqual
    }

    /// The vector instructions that compare `bucket` slots at once. AVX-512
    /// code uses registers from 16 up, which need no `vzeroupper`.
    fn vector(&mut self, bucket: usize) -> Vector {
        if self.isa >= Isa::Avx512Bw {
            return Vector::avx512(bucket);
        }
        self.output.dirty_vectors |= bucket > 4;
        Vector::avx2(bucket)
    }
}

/// A vector register of some width and its instructions.
struct Vector {
    register: Register,
    /// Broadcasts from memory, or from the low element of a register.
    broadcast_memory: Code,
    broadcast_general: Option<Code>,
    compare: Code,
    /// The register for the result of a comparison.
    result: Register,
    test: Code,
}

impl Vector {
    fn avx2(bucket: usize) -> Self {
        if bucket <= 4 {
            return Self {
                register: Register::XMM0,
                broadcast_memory: Code::VEX_Vpbroadcastd_xmm_xmmm32,
                broadcast_general: None,
                compare: Code::VEX_Vpcmpeqd_xmm_xmm_xmmm128,
                result: Register::XMM0,
                test: Code::VEX_Vptest_xmm_xmmm128,
            };
        }
        Self {
            register: Register::YMM0,
            broadcast_memory: Code::VEX_Vpbroadcastd_ymm_xmmm32,
            broadcast_general: None,
            compare: Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
            result: Register::YMM0,
            test: Code::VEX_Vptest_ymm_ymmm256,
        }
    }

    fn avx512(bucket: usize) -> Self {
        let (register, broadcast_memory, broadcast_general, compare) = match bucket {
            0..=4 => (
                Register::XMM16,
                Code::EVEX_Vpbroadcastd_xmm_k1z_xmmm32,
                Code::EVEX_Vpbroadcastd_xmm_k1z_r32,
                Code::EVEX_Vpcmpeqd_kr_k1_xmm_xmmm128b32,
            ),
            5..=8 => (
                Register::YMM16,
                Code::EVEX_Vpbroadcastd_ymm_k1z_xmmm32,
                Code::EVEX_Vpbroadcastd_ymm_k1z_r32,
                Code::EVEX_Vpcmpeqd_kr_k1_ymm_ymmm256b32,
            ),
            _ => (
                Register::ZMM16,
                Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32,
                Code::EVEX_Vpbroadcastd_zmm_k1z_r32,
                Code::EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32,
            ),
        };
        Self {
            register,
            broadcast_memory,
            broadcast_general: Some(broadcast_general),
            compare,
            result: Register::K1,
            test: Code::VEX_Kortestw_kr_kr,
        }
    }
}

/// A table of one bucket, searched from its first slot to its last.
fn one_bucket(constants: &[u32]) -> SetTable {
    SetTable { multiplier: 1, shift: 32, bucket: constants.len(), slots: constants.to_vec() }
}

/// The constants that a load can equal, in the byte order of the load.
pub(crate) fn constants(set: &[u32], reversed: Option<Width>) -> Vec<u32> {
    match reversed {
        None => set.to_vec(),
        Some(width) => {
            let possible = set.iter().filter(|&&constant| constant <= width.max());
            possible.map(|&constant| reverse(width, constant)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bucket_has_all_constants_and_asks_for_no_hash() {
        let constants: Vec<u32> = (0..37).map(|number| number << 20).collect();
        let table = one_bucket(&constants);
        assert_eq!((table.buckets(), table.bucket), (1, 37));
        assert!(constants.iter().all(|&constant| table.contains(constant)));
        assert!(!table.contains(1));
    }
}
