//! Generates the instructions of the patterns.
//!
//! The packet number counts up to 0 and tables are addressed from their ends,
//! so one addition advances the number and sets the flags for the end of the
//! batch. The entries of a packet in stage *k* are *k* places before those of
//! the newest packet.

use forebay_filter::cancel;
use forebay_filter::ir::Function;
use iced_x86::{Code, MemoryOperand, Register};

use super::comparison::Test;
use super::error::EmsError;
use super::graph::{Load, NodeId, Verdict};
use super::lookup::Lookup;
use super::patterns::{End, Packet, Pattern, PatternId, Step};
use super::plan::EmsPlan;
use super::registers::{BASE, CAP_LEN, NUMBER, OFFSET, OTHERS, VERDICT, WIRE_LEN};
use crate::code::Options;
use crate::convention::argument;
use crate::emit::assembler::{Assembler, Label, indexed};
use crate::list::output::Output;
use crate::list::prefetch::Places;
use crate::list::registers::Gpr;
use crate::list::select::{Action, Condition, Key};

/// The two registers of a packet in flight.
#[derive(Clone, Copy)]
struct Set {
    /// Offset of the packet in packet memory.
    place: Gpr,
    data: Gpr,
}

/// Generates the code of a plan.
pub(super) struct Generator<'a> {
    pub function: &'a Function,
    plan: &'a EmsPlan<'a>,
    pub output: Output,
    assembler: &'a mut Assembler,
    sets: Vec<Set>,
    /// Temporaries: they hold no value between steps.
    temporary: Vec<Gpr>,
    /// By node: the method of its set lookup, if it has one.
    lookups: Vec<Option<Lookup>>,
    labels: Vec<Label>,
    end: Label,
    prefetch: u32,
}

/// Appends the code of `plan` to `assembler`, with the names of its patterns as
/// notes.
///
/// # Errors
/// If a set has no hash table, or an instruction cannot be encoded.
pub(super) fn generate(
    plan: &EmsPlan<'_>,
    names: &[String],
    options: &Options,
    assembler: &mut Assembler,
) -> Result<Label, EmsError> {
    let function: &Function = &plan.function;
    let mut others: Vec<Gpr> = OTHERS.to_vec();
    if !plan.reads_wire_length {
        others.insert(3, WIRE_LEN);
    }
    let (temporary, sets) = others.split_at(plan.temporaries.min(others.len()));
    let sets = sets.chunks_exact(2).map(|pair| Set { place: pair[0], data: pair[1] });
    let sets: Vec<Set> = sets.take(plan.schedule.stages).collect();
    let lookups = plan.graph.nodes.iter().map(|node| match &node.test {
        Test::Member { constants } => Lookup::new(constants, &mut assembler.pool).map(Some),
        _ => Ok(None),
    });
    let lookups = lookups.collect::<Result<_, _>>()?;
    let labels = plan.patterns.iter().map(|_| assembler.label()).collect();
    let mut output = Output::default();
    for set in &sets {
        output.writes(set.place);
        output.writes(set.data);
    }
    temporary.iter().for_each(|&gpr| output.writes(gpr));
    let mut generator = Generator {
        function,
        plan,
        output,
        sets,
        temporary: temporary.to_vec(),
        lookups,
        labels,
        end: assembler.label(),
        prefetch: if plan.reach > 0 { u32::from(options.prefetch) } else { 0 },
        assembler,
    };
    generator.enter();
    for (id, pattern) in plan.patterns.iter().enumerate() {
        if let Some(name) = names.get(id) {
            generator.output.note(name.clone());
        }
        generator.pattern(id, pattern);
    }
    generator.output.bind(generator.end);
    generator.output.leave();
    Ok(generator.output.write(generator.assembler)?)
}

impl Generator<'_> {
    /// Points to the ends of the tables and prefetches the first packets.
    fn enter(&mut self) {
        let argument = |offset| MemoryOperand::with_base_displ(BASE.r64(), offset);
        let load = Code::Mov_r64_rm64;
        self.output.rm(load, NUMBER.r64(), argument(argument::COUNT));
        let tables = [
            (OFFSET, argument::OFFSET),
            (VERDICT, argument::VERDICT),
            (CAP_LEN, argument::CAP_LEN),
            (WIRE_LEN, argument::WIRE_LEN),
        ];
        for (table, offset) in tables {
            if table != WIRE_LEN || self.plan.reads_wire_length {
                self.output.rm(load, table.r64(), argument(offset));
                let end = MemoryOperand::with_base_index_scale(table.r64(), NUMBER.r64(), 4);
                self.output.rm(Code::Lea_r64_m, table.r64(), end);
            }
        }
        self.output.rm(load, BASE.r64(), argument(argument::BASE));
        self.output.r(Code::Neg_rm64, NUMBER.r64());
        if self.prefetch > 0 {
            self.prefetch_first();
        }
        self.output.ri(Code::Sub_rm64_imm8, NUMBER.r64(), 1);
    }

    /// Prefetches the packets that no entering packet prefetches.
    fn prefetch_first(&mut self) {
        let Some(&Set { place, data }) = self.sets.first() else { return };
        let places = Places { base: BASE, offsets: OFFSET, number: NUMBER };
        let (again, byte) = (self.assembler.label(), i64::from(self.plan.first_byte));
        let registers = [data, self.temporary[0], place];
        places.prefetch_first(self.prefetch, byte, registers, again, &mut self.output);
    }

    fn pattern(&mut self, id: PatternId, pattern: &Pattern) {
        cancel::check();
        self.output.bind(self.labels[id]);
        for &step in &pattern.steps {
            match step {
                Step::Enter(packet) => self.enter_packet(packet),
                Step::Load(packet, load) => self.load(packet, load),
                Step::Verdict(packet, verdict) => self.give(packet, verdict),
                Step::Decide(packet, node) => self.decide(packet, node),
            }
        }
        match pattern.end {
            End::Test { packet, node, then, otherwise } => {
                let condition = self.test(packet, node);
                if then == id + 1 {
                    self.branch(condition.negated(), otherwise);
                } else {
                    self.branch(condition, then);
                    self.go(id, otherwise);
                }
            }
            End::Next { some: None, none: None } => {
                self.output.jump(Code::Jmp_rel32_64, self.end);
            }
            End::Next { some, none } => {
                self.output.ri(Code::Add_rm64_imm8, NUMBER.r64(), 1);
                match (some, none) {
                    (Some(some), none) => {
                        let none = none.map_or(self.end, |none| self.labels[none]);
                        self.output.jump(Code::Jge_rel32_64, none);
                        self.go(id, some);
                    }
                    (None, none) => self.go(id, none.unwrap_or(id)),
                }
            }
        }
    }

    /// Jumps from pattern `id` to `target`, unless `target` follows.
    fn go(&mut self, id: PatternId, target: PatternId) {
        if target != id + 1 {
            self.output.jump(Code::Jmp_rel32_64, self.labels[target]);
        }
    }

    fn branch(&mut self, condition: Condition, target: PatternId) {
        self.output.jump(condition.jump(), self.labels[target]);
    }

    fn enter_packet(&mut self, packet: Packet) {
        if self.plan.reach == 0 {
            return;
        }
        let place = self.sets[packet.set].place;
        self.output.rm(Code::Mov_r32_rm32, place.r32(), element(OFFSET, packet.stage));
        if self.prefetch > 0 {
            let there_is_none = self.assembler.label();
            let last = self.prefetch.wrapping_neg();
            self.number(Code::Cmp_rm64_imm8, Code::Cmp_rm64_imm32, NUMBER.r64(), last);
            self.output.jump(Code::Jge_rel32_64, there_is_none);
            let later = self.temporary[0];
            let ahead = 4 * i64::from(self.prefetch);
            let offset = indexed(OFFSET.r64(), NUMBER.r64(), 4, ahead);
            self.output.rm(Code::Mov_r32_rm32, later.r32(), offset);
            let line = self.packet_bytes(later, self.plan.first_byte);
            self.output.m(Code::Prefetcht0_m8, line);
            self.output.bind(there_is_none);
        }
    }

    fn load(&mut self, packet: Packet, Load { content, from }: Load) {
        let data = self.sets[packet.set].data;
        self.evaluate(content.key, from, packet, data, 0);
        if content.mask != u32::MAX {
            self.number(Code::And_rm32_imm8, Code::And_rm32_imm32, data.r32(), content.mask);
        }
    }

    fn give(&mut self, packet: Packet, verdict: Verdict) {
        let place = element(VERDICT, packet.stage);
        match verdict {
            Verdict::Constant(number) => {
                self.output.mi(Code::Mov_rm32_imm32, place, number as i32);
            }
            Verdict::Computed(value) => {
                let data = self.sets[packet.set].data;
                self.evaluate(Key::full(self.function, value), None, packet, data, 0);
                self.output.mr(Code::Mov_rm32_r32, place, data.r32());
            }
        }
    }

    /// Stores one of two verdicts without a branch.
    fn decide(&mut self, packet: Packet, node: NodeId) {
        let Some((holds, fails)) = self.plan.graph.node(node).decides() else { return };
        let condition = self.test(packet, node);
        // The tested data is dead, and moves keep the flags.
        let (verdict, other) = (self.sets[packet.set].data, self.temporary[0]);
        self.output.ri(Code::Mov_r32_imm32, verdict.r32(), fails);
        self.output.ri(Code::Mov_r32_imm32, other.r32(), holds);
        self.output.rr(condition.conditional_move(), verdict.r32(), other.r32());
        self.output.mr(Code::Mov_rm32_r32, element(VERDICT, packet.stage), verdict.r32());
    }

    /// Sets the flags by the test of `node`; returns the condition under which
    /// it holds.
    fn test(&mut self, packet: Packet, node: NodeId) -> Condition {
        let data = self.sets[packet.set].data;
        match self.plan.graph.node(node).test {
            Test::Captured { bytes } => {
                let code = shorter(bytes, Code::Cmp_rm32_imm8, Code::Cmp_rm32_imm32);
                self.output.mi(code, element(CAP_LEN, packet.stage), bytes as i32);
                Condition::AboveOrEqual
            }
            Test::CapturedAt { bytes } => {
                let end = self.temporary[0];
                let sum = MemoryOperand::with_base_displ(data.r64(), i64::from(bytes));
                self.output.rm(Code::Lea_r32_m, end.r32(), sum);
                self.output.rm(Code::Cmp_r32_rm32, end.r32(), element(CAP_LEN, packet.stage));
                Condition::BelowOrEqual
            }
            Test::Number { action, immediate, condition } => {
                match action {
                    Action::Compare if immediate == 0 => {
                        self.output.rr(Code::Test_rm32_r32, data.r32(), data.r32());
                    }
                    Action::Compare => {
                        let (short, long) = (Code::Cmp_rm32_imm8, Code::Cmp_rm32_imm32);
                        self.number(short, long, data.r32(), immediate);
                    }
                    Action::Test if immediate <= 0xff => {
                        self.output.ri(Code::Test_rm8_imm8, data.r8(), immediate);
                    }
                    Action::Test => {
                        self.output.ri(Code::Test_rm32_imm32, data.r32(), immediate);
                    }
                }
                condition
            }
            Test::Pair { right, action, condition } => {
                let other = self.temporary[0];
                self.evaluate(right, None, packet, other, 1);
                let code = match action {
                    Action::Compare => Code::Cmp_r32_rm32,
                    Action::Test => Code::Test_rm32_r32,
                };
                self.output.rr(code, data.r32(), other.r32());
                condition
            }
            Test::Member { .. } => {
                if let Some(lookup) = &self.lookups[node as usize] {
                    let temporary = [self.temporary[0], self.temporary[1]];
                    lookup.emit(data, temporary, &mut self.output);
                }
                Condition::NotEqual
            }
        }
    }

    /// The place register of `packet`.
    pub(super) fn place(&self, packet: Packet) -> Gpr {
        self.sets[packet.set].place
    }

    /// Shared register number `index`.
    pub(super) fn temporary(&self, index: usize) -> Gpr {
        self.temporary[index]
    }

    /// An operand for bytes of the packet at `place`, or for the place plus a
    /// number.
    pub(super) fn packet_bytes(&self, place: Gpr, displacement: u32) -> MemoryOperand {
        indexed(BASE.r64(), place.r64(), 1, i64::from(displacement))
    }

    /// The length on the wire of `packet`.
    pub(super) fn wire_length(&self, packet: Packet) -> MemoryOperand {
        element(WIRE_LEN, packet.stage)
    }

    /// An instruction with an immediate that may fit one byte.
    pub(super) fn number(&mut self, short: Code, long: Code, register: Register, number: u32) {
        self.output.ri(shorter(number, short, long), register, number);
    }
}

/// The table entry of the packet in `stage`.
fn element(table: Gpr, stage: usize) -> MemoryOperand {
    indexed(table.r64(), NUMBER.r64(), 4, -4 * stage as i64)
}

/// The code with a sign-extended 8-bit immediate if `number` fits it.
fn shorter(number: u32, short: Code, long: Code) -> Code {
    if i8::try_from(number as i32).is_ok() { short } else { long }
}
