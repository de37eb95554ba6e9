//! From a network to the instructions of one group of packets.
//!
//! Nodes become instructions in the order of their creation; nodes that no
//! output needs are left out. Registers are evicted by Belady's rule: the value
//! whose next use is farthest ahead goes. Uses are known, as the code has no
//! branches, and the rule needs the fewest loads (Belady, "A study of
//! replacement algorithms for a virtual-storage computer", 1966). Inputs are in
//! memory anyway; an evicted node is stored in a slot of scratch memory, unless
//! it was stored before. An operand in memory that is not used again soon
//! becomes a memory operand of the instruction.
//!
//! Slots are written and read within an iteration, a dependence that the
//! scheduler does not track: a body with slots must keep its order.

use forebay_filter::cancel;
use iced_x86::Code;

use super::network::{Network, Node, Signal};
use super::vectors::{Binary, Width};
use crate::convention::Table;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Op, Operand, Reg, RegClass};

/// The step of `count` for a group, and the addressing of its inputs and
/// results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The vectors.
    pub(super) width: Width,
    /// Steps of `count` a group: a power of two.
    pub(super) step: u32,
    /// Registers available for values.
    pub(super) registers: usize,
}

/// Bytes from the inputs of a group to those of the next, divided by the step.
pub(super) const INPUT_SCALE: u8 = 8;

/// Bytes from the results of a group to those of the next, divided by the step.
pub(super) const RESULT_SCALE: u8 = 1;

/// A group's instructions.
pub(super) struct Lowered {
    pub(super) body: LoopBody,
    /// Scratch memory, in vectors.
    pub(super) slots: u32,
}

/// No further use.
const NEVER: u32 = u32::MAX;

/// Where a value is stored besides its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Home {
    Nowhere,
    Input(u32),
    Slot(u32),
}

/// The instructions for `outputs`. Output `n` is stored as result `n` if it is
/// no constant, complemented if it is inverted.
pub(super) fn lower(network: &Network, outputs: &[Signal], frame: Frame) -> Lowered {
    let mut lowering = Lowering::new(network, outputs, frame);
    lowering.inputs_as_outputs(outputs);
    let first = network.inputs() + 1;
    for (number, node) in (first..).zip(network.nodes()) {
        cancel::check();
        if !lowering.uses[number as usize].is_empty() {
            lowering.node(number, node, outputs);
        }
    }
    Lowered { body: lowering.body, slots: lowering.slots }
}

struct Lowering {
    frame: Frame,
    body: LoopBody,
    note: u32,
    /// By value: the nodes that read it, the next one last; an output is read
    /// by number [`NEVER`].
    uses: Vec<Vec<u32>>,
    homes: Vec<Home>,
    /// By value: its register, if it has one.
    registers: Vec<Option<Reg>>,
    /// The values in registers.
    resident: Vec<u32>,
    slots: u32,
    free_slots: Vec<u32>,
}

impl Lowering {
    fn new(network: &Network, outputs: &[Signal], frame: Frame) -> Self {
        let inputs = network.inputs();
        let values = 1 + inputs as usize + network.nodes().len();
        let mut uses: Vec<Vec<u32>> = vec![Vec::new(); values];
        for output in outputs {
            uses[output.number() as usize].push(NEVER);
        }
        let numbered = (inputs + 1..).zip(network.nodes()).collect::<Vec<_>>();
        for (number, node) in numbered.into_iter().rev() {
            if !uses[number as usize].is_empty() {
                for &input in node.inputs() {
                    uses[input as usize].push(number);
                }
            }
        }
        let home = |value: usize| match value as u32 {
            value if (1..=inputs).contains(&value) => Home::Input(value - 1),
            _ => Home::Nowhere,
        };
        let mut body = LoopBody::new("predicates", frame.step);
        let note = body.note("predicates of a group of packets");
        Self {
            frame,
            body,
            note,
            uses,
            homes: (0..values).map(home).collect(),
            registers: vec![None; values],
            resident: Vec::new(),
            slots: 0,
            free_slots: Vec::new(),
        }
    }

    /// Copies outputs that are inputs.
    fn inputs_as_outputs(&mut self, outputs: &[Signal]) {
        for (result, output) in (0..).zip(outputs) {
            if let Home::Input(_) = self.homes[output.number() as usize] {
                let reg = self.load(output.number());
                self.store_result(result, reg);
            }
        }
    }

    fn node(&mut self, number: u32, node: &Node, outputs: &[Signal]) {
        for &input in node.inputs() {
            self.uses[input as usize].pop();
        }
        let reg = match *node.inputs() {
            [a, b] => self.binary([a, b], node.table()),
            [a, b, c] => self.ternary([a, b, c], node.table()),
            // Every node has two or three inputs.
            _ => return,
        };
        for (result, _) in (0..).zip(outputs).filter(|(_, output)| output.number() == number) {
            self.store_result(result, reg);
        }
        self.uses[number as usize].retain(|&reader| reader != NEVER);
        if !self.uses[number as usize].is_empty() {
            self.make_room(&[]);
            self.enter(number, reg);
        }
    }

    fn binary(&mut self, inputs: [u32; 2], table: u8) -> Reg {
        let (function, swapped) = Binary::of_table(table);
        let mut order = inputs;
        if swapped {
            order.reverse();
        }
        // The second operand may be memory; for a commutative function it is
        // the one in memory.
        let in_memory = self.left_in_memory(&order);
        if function != Binary::AndNot && in_memory == Some(order[0]) {
            order.reverse();
        }
        let in_memory = in_memory.filter(|&value| value == order[1]);
        let operands = self.operands(&order, in_memory);
        let code = self.frame.width.binary(function);
        let reg = self.logic(code, operands, in_memory.is_some(), false);
        self.leave_if_dead(&inputs);
        reg
    }

    /// `vpternlog` overwrites its first operand, so prefer a dead value for it.
    fn ternary(&mut self, inputs: [u32; 3], table: u8) -> Reg {
        let in_memory = self.left_in_memory(&inputs);
        let is_dead = |value: u32| self.uses[value as usize].is_empty();
        let rank = |value: u32| match in_memory {
            Some(memory) if memory == value => 2,
            _ => i32::from(!is_dead(value)),
        };
        let mut order = [0, 1, 2];
        order.sort_by_key(|&place| rank(inputs[place]));
        let mut number = 0;
        for row in 0..8_usize {
            let values = [row >> 2 & 1, row >> 1 & 1, row & 1];
            let from = values.iter().zip(&order).map(|(value, place)| value << (2 - place));
            number |= i32::from(table >> from.sum::<usize>() & 1) << row;
        }
        let mut operands = self.operands(&order.map(|place| inputs[place]), in_memory);
        operands.push(Operand::Immediate(number));
        let code = self.frame.width.ternary();
        let reg = self.logic(code, operands, in_memory.is_some(), true);
        self.leave_if_dead(&inputs);
        reg
    }

    fn logic(&mut self, code: Code, operands: Vec<Operand>, loads: bool, tied: bool) -> Reg {
        let units = self.frame.width.logic_units();
        let units = if loads { units.with_load() } else { units };
        let dest = self.body.reg(RegClass::Vector);
        self.body.push(Op {
            code,
            dest: Some(dest),
            tied,
            operands,
            mask: None,
            latency: latency::SIMPLE,
            units,
            note: self.note,
            ahead: false,
        });
        dest
    }

    /// The operand among `values` to be read from memory: of those without a
    /// register the one with its next use farthest ahead, if all registers hold
    /// values with nearer uses.
    fn left_in_memory(&self, values: &[u32]) -> Option<u32> {
        let absent = values.iter().filter(|&&value| self.registers[value as usize].is_none());
        let farthest = absent.max_by_key(|&&value| self.next_use(value)).copied()?;
        let next = self.next_use(farthest);
        let full = self.resident.len() >= self.frame.registers;
        let nearer = |&value: &u32| self.next_use(value) <= next;
        (next == NEVER || full && self.resident.iter().all(nearer)).then_some(farthest)
    }

    /// The operands in this order, all in registers except `in_memory`.
    fn operands(&mut self, values: &[u32], in_memory: Option<u32>) -> Vec<Operand> {
        let mut operands = Vec::with_capacity(4);
        for &value in values {
            if in_memory == Some(value) {
                operands.push(Operand::Memory(self.address(value)));
                continue;
            }
            let reg = match self.registers[value as usize] {
                Some(reg) => reg,
                None => {
                    self.make_room(values);
                    let reg = self.load(value);
                    self.enter(value, reg);
                    reg
                }
            };
            operands.push(Operand::Reg(reg));
        }
        operands
    }

    fn next_use(&self, value: u32) -> u32 {
        self.uses[value as usize].last().copied().unwrap_or(NEVER)
    }

    fn enter(&mut self, value: u32, reg: Reg) {
        self.registers[value as usize] = Some(reg);
        self.resident.push(value);
    }

    /// Evicts values, none of `pinned`, until a register is free.
    fn make_room(&mut self, pinned: &[u32]) {
        while self.resident.len() >= self.frame.registers {
            let free = |&place: &usize| !pinned.contains(&self.resident[place]);
            let places = (0..self.resident.len()).filter(free);
            let Some(place) = places.max_by_key(|&place| self.next_use(self.resident[place]))
            else {
                return;
            };
            let value = self.resident.swap_remove(place);
            let reg = self.registers[value as usize].take();
            if let (Some(reg), Home::Nowhere) = (reg, self.homes[value as usize]) {
                let slot = self.free_slots.pop().unwrap_or_else(|| {
                    self.slots += 1;
                    self.slots - 1
                });
                self.homes[value as usize] = Home::Slot(slot);
                let address = self.address(value);
                self.store(address, reg);
            }
        }
    }

    /// Frees the registers and slots of those of `values` that have no further
    /// use.
    fn leave_if_dead(&mut self, values: &[u32]) {
        for &value in values {
            if !self.uses[value as usize].is_empty() {
                continue;
            }
            if self.registers[value as usize].take().is_some() {
                self.resident.retain(|&other| other != value);
            }
            if let Home::Slot(slot) = self.homes[value as usize] {
                self.free_slots.push(slot);
                self.homes[value as usize] = Home::Nowhere;
            }
        }
    }

    /// The address of `value` in memory; 0, and never used, for a value without
    /// one.
    fn address(&self, value: u32) -> Address {
        let bytes = self.frame.width.bytes() as i32;
        let (table, index, place) = match self.homes[value as usize] {
            Home::Input(input) => (Table::Base, Index::Packet(INPUT_SCALE), input),
            Home::Slot(slot) => (Table::Scratch, Index::None, slot),
            Home::Nowhere => (Table::Scratch, Index::None, 0),
        };
        let displacement = place as i32 * bytes;
        Address { base: Base::Table(table), index, displacement, broadcast: false }
    }

    fn load(&mut self, value: u32) -> Reg {
        let memory = vec![Operand::Memory(self.address(value))];
        let code = self.frame.width.load();
        self.body.op(code, RegClass::Vector, memory, (Units::LOAD, 0), self.note)
    }

    fn store_result(&mut self, result: u32, reg: Reg) {
        let displacement = result as i32 * self.frame.width.bytes() as i32;
        let index = Index::Packet(RESULT_SCALE);
        let base = Base::Table(Table::Verdict);
        self.store(Address { base, index, displacement, broadcast: false }, reg);
    }

    fn store(&mut self, address: Address, reg: Reg) {
        let units = self.frame.width.store_units();
        self.body.store(self.frame.width.store(), address, reg, units, self.note);
    }
}
