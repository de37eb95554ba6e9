//! Edges with arguments, and backward edges.
//!
//! The first parameters of a block are passed in fixed registers, the others in
//! slots of the frame. A block also copies its register parameters to slots,
//! for blocks that do not inherit its registers; copies that are never read are
//! removed at the end.

use forebay_filter::ir::{BlockId, ValueId};
use iced_x86::{Code, MemoryOperand};

use super::allocate::Contents;
use super::generate::Generator;
use super::registers::{Gpr, VALUES};
use super::select::Key;

/// The number of parameters passed in registers.
const IN_REGISTERS: usize = 3;

/// The source of a move.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Register(Gpr),
    Constant(u32),
}

impl Generator<'_> {
    /// The registers in which parameters are passed.
    fn parameter_registers(&self) -> impl Iterator<Item = Gpr> + use<'_> {
        VALUES.into_iter().filter(|&gpr| !self.registers.is_reserved(gpr)).take(IN_REGISTERS)
    }

    /// The content of the registers at the start of `block`.
    pub(super) fn arrivals(&self, block: BlockId) -> Contents {
        let mut contents = Contents::default();
        let parameters = &self.function.block(block).parameters;
        for (&parameter, gpr) in parameters.iter().zip(self.parameter_registers()) {
            if let Some(at) = VALUES.iter().position(|&place| place == gpr) {
                contents[at] = Some(Key::full(self.function, parameter));
            }
        }
        contents
    }

    /// Copies the register parameters of `block` to slots.
    pub(super) fn keep_arrivals(&mut self, block: BlockId) {
        let function = self.function;
        let registers: Vec<Gpr> = self.parameter_registers().collect();
        for (&parameter, gpr) in function.block(block).parameters.iter().zip(registers) {
            let slot = self.parameter(parameter);
            self.output.copy_to_slot(slot, gpr.r32());
        }
    }

    /// The slot of a parameter.
    pub(super) fn parameter(&mut self, value: ValueId) -> MemoryOperand {
        let slot = &mut self.parameters[value.0 as usize];
        *slot.get_or_insert_with(|| self.output.slot(4))
    }

    /// Passes `arguments` to the parameters of `target`.
    pub(super) fn pass(&mut self, target: BlockId, arguments: &[ValueId]) {
        let (first, rest) = arguments.split_at(arguments.len().min(IN_REGISTERS));
        let copies = self.pass_in_slots(target, rest);
        let keys: Vec<Key> = first
            .iter()
            .filter(|&&argument| self.function.as_constant(argument).is_none())
            .map(|&argument| Key::full(self.function, argument))
            .collect();
        self.compute(&keys);
        let mut held = Vec::new();
        for &key in &keys {
            held.push(self.registers.read(key, &held, &mut self.output));
        }
        for (from, to) in copies {
            let gpr = self.registers.take(&held, &mut self.output);
            self.output.rm(Code::Mov_r32_rm32, gpr.r32(), from);
            self.output.mr(Code::Mov_rm32_r32, to, gpr.r32());
        }
        keys.iter().for_each(|&key| self.registers.consumed(key));
        let mut held = held.into_iter();
        let sources = first.iter().map(|&argument| match self.function.as_constant(argument) {
            Some(constant) => Source::Constant(constant),
            None => held.next().map_or(Source::Constant(0), Source::Register),
        });
        let moves: Vec<(Gpr, Source)> = self.parameter_registers().zip(sources).collect();
        self.move_all(moves);
    }

    /// Stores the arguments beyond the registers into the slots of their
    /// parameters, or returns the staging slots to be copied last.
    fn pass_in_slots(
        &mut self,
        target: BlockId,
        arguments: &[ValueId],
    ) -> Vec<(MemoryOperand, MemoryOperand)> {
        let function = self.function;
        let parameters = function.block(target).parameters.iter().skip(IN_REGISTERS);
        // In a loop an argument may be a parameter that is overwritten here.
        let staged = self.counter.is_some();
        while staged && self.staging.len() < arguments.len() {
            self.staging.push(self.output.slot(4));
        }
        let mut copies = Vec::new();
        for (position, (&parameter, &argument)) in parameters.zip(arguments).enumerate() {
            let slot = self.parameter(parameter);
            let to = if staged { self.staging[position] } else { slot };
            if staged {
                copies.push((to, slot));
            }
            if let Some(constant) = function.as_constant(argument) {
                self.output.mi(Code::Mov_rm32_imm32, to, constant as i32);
                continue;
            }
            let key = Key::full(function, argument);
            self.compute(&[key]);
            let gpr = self.registers.read(key, &[], &mut self.output);
            self.output.mr(Code::Mov_rm32_r32, to, gpr.r32());
            self.registers.consumed(key);
        }
        copies
    }

    /// Performs all `moves` as a parallel move.
    fn move_all(&mut self, mut moves: Vec<(Gpr, Source)>) {
        moves.retain(|&(to, from)| from != Source::Register(to));
        while !moves.is_empty() {
            let is_free = |&(to, _): &(Gpr, Source)| {
                !moves.iter().any(|&(_, from)| from == Source::Register(to))
            };
            if let Some(at) = moves.iter().position(is_free) {
                let (to, from) = moves.swap_remove(at);
                self.output.writes(to);
                match from {
                    Source::Register(from) => {
                        self.output.rr(Code::Mov_r32_rm32, to.r32(), from.r32());
                    }
                    Source::Constant(constant) => {
                        self.output.ri(Code::Mov_r32_imm32, to.r32(), constant);
                    }
                }
                continue;
            }
            // Only cycles are left: exchanging two registers completes one
            // move.
            let Some((to, Source::Register(from))) = moves.pop() else { return };
            self.output.rr(Code::Xchg_rm64_r64, to.r64(), from.r64());
            for (_, source) in &mut moves {
                if *source == Source::Register(to) {
                    *source = Source::Register(from);
                }
            }
            moves.retain(|&(to, from)| from != Source::Register(to));
        }
    }

    /// Ends the packet with verdict 0 if its limit of backward edges is
    /// reached.
    pub(super) fn count_backward_edge(&mut self) {
        let Some(counter) = self.counter else { return };
        let goes_on = self.assembler.label();
        self.output.mi(Code::Sub_rm64_imm8, counter, 1);
        self.output.jump(Code::Jne_rel32_64, goes_on);
        self.give_constant(0);
        self.output.bind(goes_on);
    }
}
