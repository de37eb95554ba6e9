//! The extraction loop: from headers to signatures. Instructions after the
//! loads are those of AVX-512; `extract_avx2` has the AVX2 ones.
//!
//! For each vector the loop loads the packets' offsets and headers. For each
//! plane it shuffles every predicate's bytes into a lane of their own, masks
//! lanes where predicates use part of a byte, compares into an opmask register,
//! and stores the result. `vpermb` takes bytes from anywhere in the vector and
//! zeroes what its opmask leaves out; `vpshufb`, for machines without VBMI,
//! stays within 16 bytes and zeroes by the index.

use std::ops::Range;

use forebay_filter::ir::Function;
use iced_x86::Code;

use super::constants::{Constants, filled, lanes, shuffle, whole_bytes};
use super::layout::{Comparison, Layout, Lookup, Plane, pieces};
use super::loops::Unsuited;
use super::packets::{header, offsets, prefetches};
use super::wide::loads;
use crate::code::Options;
use crate::convention::Table;
use crate::emit::pool::Pool;
use crate::machine::{Units, latency};
use crate::mir::{
    Address, Base, Index, Invariant, InvariantSource, LoopBody, Operand, PoolId, Reg, RegClass,
};
use crate::tables::SetTable;

/// Builds a body; shared by the AVX-512 and the AVX2 loop.
pub(super) struct Builder<'a> {
    pub(super) body: LoopBody,
    pub(super) constants: Constants,
    pub(super) layout: &'a Layout,
    /// The offset of each packet of the iteration.
    pub(super) offsets: Vec<Reg>,
    /// Sources in registers, by number and first packet.
    loaded: Vec<((usize, usize), Reg)>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(layout: &'a Layout, load: Code, options: &Options) -> Self {
        let body = LoopBody::new("extraction", layout.packets);
        let mut this = Self {
            body,
            constants: Constants::new(load, if layout.vector == 64 { 16 } else { 5 }),
            layout,
            offsets: Vec::new(),
            loaded: Vec::new(),
        };
        let note = this.body.note("where the packet starts");
        this.offsets = offsets(&mut this.body, 0, layout.packets as i32, note);
        prefetches(&mut this.body, layout.first_byte(), options.prefetch);
        this
    }

    /// The address of the signature of `plane`, `packet` packets on.
    pub(super) fn signature(&self, plane: usize, packet: usize) -> Address {
        let bytes = self.layout.bits as usize / 8;
        Address {
            base: Base::Table(Table::Scratch),
            index: Index::Packet(bytes as u8),
            displacement: (plane * self.layout.plane_bytes() + packet * bytes) as i32,
            broadcast: false,
        }
    }

    /// The bucket of a set for a packet's field: the field's raw bytes, and the
    /// bucket's address. Tables hold raw bytes too, so nothing is byte-swapped.
    pub(super) fn bucket(
        &mut self,
        lookup: &Lookup,
        (table, start): &(SetTable, i32),
        tables: PoolId,
        offset: Reg,
        note: u32,
    ) -> (Reg, Address) {
        let field = lookup.field;
        let load = match field.bytes {
            1 => Code::Movzx_r32_rm8,
            2 => Code::Movzx_r32_rm16,
            _ => Code::Mov_r32_rm32,
        };
        let at = Operand::Memory(header(offset, field.offset));
        let mut raw = self.body.op(load, RegClass::General, vec![at], (Units::LOAD, 0), note);
        let mask = swapped(field.mask, field.bytes);
        if field.mask != u32::MAX >> (32 - 8 * field.bytes) {
            let operands = vec![Operand::Reg(raw), Operand::Immediate(mask as i32)];
            raw = self.tied(Code::And_rm32_imm32, operands, Units::ALU, note);
        }
        if table.buckets() == 1 {
            return (raw, Address { displacement: *start, ..super::constants::in_pool(tables) });
        }
        let product = self.body.op(
            Code::Imul_r32_rm32_imm32,
            RegClass::General,
            vec![Operand::Reg(raw), Operand::Immediate(table.multiplier as i32)],
            (Units::MULTIPLY, latency::CROSSING),
            note,
        );
        let shift = vec![Operand::Reg(product), Operand::Immediate(table.shift as i32)];
        let bucket = self.tied(Code::Shr_rm32_imm8, shift, Units::SHIFT, note);
        let scale = (table.bucket * 4).trailing_zeros() as i32;
        let shift = vec![Operand::Reg(bucket), Operand::Immediate(scale)];
        let bucket = self.tied(Code::Shl_rm32_imm8, shift, Units::SHIFT, note);
        let address = Address {
            base: Base::PoolIn(self.address_of(tables)),
            index: Index::Reg(bucket, 1),
            displacement: *start,
            broadcast: false,
        };
        (raw, address)
    }

    /// A register with the address of a constant.
    fn address_of(&mut self, id: PoolId) -> Reg {
        let source = InvariantSource::Address(id);
        let known = self.body.invariants.iter().find(|known| known.source == source);
        known.map(|known| known.reg).unwrap_or_else(|| {
            let reg = self.body.reg(RegClass::General);
            self.body.invariants.push(Invariant { reg, source });
            reg
        })
    }

    /// Appends an instruction whose first operand is its destination.
    pub(super) fn tied(
        &mut self,
        code: Code,
        operands: Vec<Operand>,
        units: Units,
        note: u32,
    ) -> Reg {
        let dest = self.body.op(code, RegClass::General, operands, (units, latency::SIMPLE), note);
        if let Some(op) = self.body.ops.last_mut() {
            op.tied = true;
        }
        dest
    }
}

/// A number of `bytes` bytes, byte-swapped.
pub(super) fn swapped(number: u32, bytes: u32) -> u32 {
    number.swap_bytes() >> (32 - 8 * bytes)
}

/// The sets of a layout's lookups as raw packet bytes, in buckets of `bucket`:
/// one constant for all, which takes one register, and the offset of each set
/// in it.
///
/// # Errors
/// If no table was found for a set.
pub(super) fn raw_tables(
    function: &Function,
    layout: &Layout,
    bucket: usize,
    pool: &mut Pool,
) -> Result<(PoolId, Vec<(SetTable, i32)>), Unsuited> {
    let mut bytes = Vec::new();
    let mut tables = Vec::new();
    for lookup in &layout.lookups {
        let set = &function.sets[lookup.set.0 as usize];
        let possible = set.iter().filter(|&&constant| constant & !lookup.field.mask == 0);
        let raw: Vec<u32> =
            possible.map(|&constant| swapped(constant, lookup.field.bytes)).collect();
        let table = SetTable::build(&raw, bucket).ok_or(Unsuited::Set(raw.len()))?;
        let start = i32::try_from(bytes.len()).map_err(|_| Unsuited::Set(raw.len()))?;
        bytes.extend_from_slice(&table.bytes());
        tables.push((table, start));
    }
    Ok((pool.add(&bytes, 64), tables))
}

/// The extraction loop.
///
/// # Errors
/// If no table was found for a set.
pub(super) fn body(
    function: &Function,
    layout: &Layout,
    options: &Options,
    pool: &mut Pool,
) -> Result<LoopBody, Unsuited> {
    let wide = layout.vector == 64;
    let whole =
        if wide { Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512 } else { Code::VEX_Vmovdqu_ymm_ymmm256 };
    let mut builder = Builder::new(layout, whole, options);
    let first = if layout.merges() { 1 } else { layout.packets as usize };
    for (index, plane) in layout.planes.iter().enumerate() {
        let source = builder.source(plane.source, 0..first);
        if wide {
            builder.plane(index, plane, source, pool);
        } else {
            builder.plane_ymm(index, plane, source, pool);
        }
    }
    // One comparison of a whole vector searches a bucket.
    let (id, tables) = raw_tables(function, layout, layout.vector as usize / 4, pool)?;
    for (index, (lookup, table)) in layout.lookups.iter().zip(&tables).enumerate() {
        let plane = layout.planes.len() + index;
        if wide {
            builder.lookup(plane, lookup, table, id);
        } else {
            builder.lookup_ymm(plane, lookup, table, id);
        }
    }
    let Builder { mut body, constants, .. } = builder;
    constants.settle(&mut body);
    Ok(body)
}

impl Builder<'_> {
    /// A source of these packets, loaded when it is first needed.
    fn source(&mut self, source: usize, packets: Range<usize>) -> Operand {
        let known = self.loaded.iter().find(|(known, _)| *known == (source, packets.start));
        if let Some((_, reg)) = known {
            return Operand::Reg(*reg);
        }
        let uses = self.layout.planes.iter().filter(|plane| plane.source == source).count();
        let fold = self.layout.any_byte && (uses == 1 || self.layout.merges());
        let loaded = self.load(source, packets.clone(), fold);
        if let Operand::Reg(reg) = loaded {
            self.loaded.push(((source, packets.start), reg));
        }
        loaded
    }

    /// Loads a source; as a memory operand of its only user, if that is
    /// possible and `fold` allows it.
    fn load(&mut self, source: usize, packets: Range<usize>, fold: bool) -> Operand {
        let chunks = self.layout.sources[source].chunks.clone();
        let wide = self.layout.vector == 64;
        let share = (self.layout.vector / self.layout.packets / 16) as usize;
        let note = self.body.note(format!("header bytes from {}", listed(&chunks)));
        let mut vector: Option<Reg> = None;
        for packet in packets.clone() {
            for (chunk, count) in pieces(&chunks) {
                let memory = Operand::Memory(header(self.offsets[packet], chunks[chunk]));
                let position = (packet - packets.start) * share + chunk;
                let Some(rest) = vector else {
                    if fold && count == 4 {
                        return memory;
                    }
                    let code = match (wide, count) {
                        (true, 4) => Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512,
                        (true, 2) => Code::EVEX_Vmovdqu64_ymm_k1z_ymmm256,
                        (true, _) => Code::EVEX_Vmovdqu64_xmm_k1z_xmmm128,
                        (false, 2) => Code::VEX_Vmovdqu_ymm_ymmm256,
                        (false, _) => Code::VEX_Vmovdqu_xmm_xmmm128,
                    };
                    let cost = (Units::LOAD, 0);
                    vector = Some(self.body.op(code, RegClass::Vector, vec![memory], cost, note));
                    continue;
                };
                let (code, number, units) = match (wide, count) {
                    (true, 2) => (
                        Code::EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8,
                        position / 2,
                        Units::LOGIC_512,
                    ),
                    (true, _) => (
                        Code::EVEX_Vinserti32x4_zmm_k1z_zmm_xmmm128_imm8,
                        position,
                        Units::LOGIC_512,
                    ),
                    (false, _) => {
                        (Code::VEX_Vinserti128_ymm_ymm_xmmm128_imm8, position, Units::LOGIC)
                    }
                };
                let operands = vec![Operand::Reg(rest), memory, Operand::Immediate(number as i32)];
                let cost = (units.with_load(), latency::SIMPLE);
                vector = Some(self.body.op(code, RegClass::Vector, operands, cost, note));
            }
        }
        // A source has at least one chunk, and a vector at least one packet.
        vector.map_or(Operand::Immediate(0), Operand::Reg)
    }

    fn plane(&mut self, index: usize, plane: &Plane, source: Operand, pool: &mut Pool) {
        let layout = self.layout;
        let note = self.body.note(format!("plane {index}: {} lanes", plane.elements.len()));
        let wide_load = matches!(source, Operand::Memory(_));
        let units = if wide_load { Units::PORT_5.with_load() } else { Units::PORT_5 };
        let indices = shuffle(layout, plane, pool);
        let exact = whole_bytes(plane);
        let mut vector = if layout.any_byte {
            let by = Operand::Reg(self.constants.register(&mut self.body, indices));
            let filled = if exact { filled(layout, plane) } else { u64::MAX };
            let permuted = self.permute(vec![by, source], filled, units, note);
            if layout.merges() {
                self.merge(permuted, by, plane.source, filled, note)
            } else {
                permuted
            }
        } else {
            let by = self.constants.operand(indices);
            let code = Code::EVEX_Vpshufb_zmm_k1z_zmm_zmmm512;
            let cost = (loads(units, by), latency::SIMPLE);
            self.body.op(code, RegClass::Vector, vec![source, by], cost, note)
        };
        if !exact {
            let mask = lanes(layout, plane, pool, |element| element.mask);
            let mask = self.constants.operand(mask);
            let code = Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32;
            let operands = vec![Operand::Reg(vector), mask];
            let cost = (loads(Units::LOGIC_512, mask), latency::SIMPLE);
            vector = self.body.op(code, RegClass::Vector, operands, cost, note);
        }
        let constant = lanes(layout, plane, pool, |element| element.constant);
        let constant = self.constants.operand(constant);
        let (code, kind) = comparison(plane);
        let operands = vec![Operand::Reg(vector), constant, Operand::Immediate(kind)];
        let cost = (loads(Units::PORT_5, constant), latency::CROSSING);
        let differs = self.body.op(code, RegClass::Mask, operands, cost, note);
        let store = match layout.packets {
            1 => Code::VEX_Kmovw_m16_kr,
            2 => Code::VEX_Kmovd_m32_kr,
            _ => Code::VEX_Kmovq_m64_kr,
        };
        let address = self.signature(index, 0);
        self.body.store(store, address, differs, Units::STORE, note);
    }

    /// A register with these bits, shared by all users.
    fn opmask(&mut self, bits: u64) -> Reg {
        let source = InvariantSource::Mask(Code::VEX_Kmovq_kr_r64, bits);
        let known = self.body.invariants.iter().find(|known| known.source == source);
        known.map(|known| known.reg).unwrap_or_else(|| {
            let reg = self.body.reg(RegClass::Mask);
            self.body.invariants.push(Invariant { reg, source });
            reg
        })
    }

    /// Permutes bytes of a vector; zeroes those not in `filled`.
    fn permute(&mut self, operands: Vec<Operand>, filled: u64, units: Units, note: u32) -> Reg {
        let code = Code::EVEX_Vpermb_zmm_k1z_zmm_zmmm512;
        let cost = (units, latency::CROSSING);
        let permuted = self.body.op(code, RegClass::Vector, operands, cost, note);
        if filled != u64::MAX {
            let mask = self.opmask(filled);
            if let Some(op) = self.body.ops.last_mut() {
                op.mask = Some(mask);
            }
        }
        permuted
    }

    /// Fills the shares of the packets after the first from their own vectors.
    fn merge(&mut self, first: Reg, by: Operand, source: usize, filled: u64, note: u32) -> Reg {
        let layout = self.layout;
        let share = 64 / layout.packets;
        let mut merged = first;
        for packet in 1..layout.packets {
            let own = (u64::MAX >> (64 - share)) << (packet * share);
            let from = self.source(source, packet as usize..packet as usize + 1);
            let units = loads(Units::PORT_5, from);
            let operands = vec![Operand::Reg(merged), by, from];
            merged = self.permute(operands, filled & own, units, note);
            if let Some(op) = self.body.ops.last_mut() {
                op.tied = true;
            }
        }
        merged
    }

    /// A lookup for each packet: its signature has a bit set if the field is in
    /// the set.
    fn lookup(&mut self, plane: usize, lookup: &Lookup, table: &(SetTable, i32), id: PoolId) {
        let note = self.body.note(format!("byte {} in set {}", lookup.field.offset, lookup.set.0));
        for packet in 0..self.layout.packets as usize {
            let (raw, bucket) = self.bucket(lookup, table, id, self.offsets[packet], note);
            let spread = self.body.op(
                Code::EVEX_Vpbroadcastd_zmm_k1z_r32,
                RegClass::Vector,
                vec![Operand::Reg(raw)],
                (Units::PORT_5, latency::CROSSING),
                note,
            );
            let operands =
                vec![Operand::Reg(spread), Operand::Memory(bucket), Operand::Immediate(0)];
            let found = self.body.op(
                Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
                RegClass::Mask,
                operands,
                (Units::PORT_5.with_load(), latency::CROSSING),
                note,
            );
            let address = self.signature(plane, packet);
            self.body.store(Code::VEX_Kmovw_m16_kr, address, found, Units::STORE, note);
        }
    }
}

/// The instruction that sets a bit where a lane does not match, and its
/// comparison operator: "not equal", or unsigned "less than".
fn comparison(plane: &Plane) -> (Code, i32) {
    const NOT_EQUAL: i32 = 4;
    const LESS: i32 = 1;
    let kind = match plane.comparison {
        Comparison::Equal => NOT_EQUAL,
        Comparison::AtLeast => LESS,
    };
    let code = match plane.lane_bytes {
        1 => Code::EVEX_Vpcmpub_kr_k1_zmm_zmmm512_imm8,
        2 => Code::EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8,
        _ => Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8,
    };
    (code, kind)
}

/// Offsets as text.
pub(super) fn listed(chunks: &[u32]) -> String {
    chunks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
