//! Rule 5 of the checker: symbolic execution of a loop.

use std::collections::HashMap;

use iced_x86::Register;

use super::violation::Violation;
use crate::mir::{Address, Base, Index, LoopBody, Operand, Reg};
use crate::regalloc::Allocation;
use crate::sched::ScheduledLoop;
use crate::sched::expand::Instance;

/// The symbolic content of a physical register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// A register of the source loop, as set before it.
    Invariant(Reg),
    /// A register of the source loop, in the iteration that starts with this
    /// packet.
    Of(Reg, u32),
}

/// Runs batches of many sizes.
pub(super) fn check_values(source: &LoopBody, scheduled: &ScheduledLoop) -> Result<(), Violation> {
    let step = source.step.max(1);
    let (stages, unroll) = scheduled.pipelined.as_ref().map_or((1, 1), |pipelined| {
        (pipelined.placed.schedule.stages(), pipelined.placed.allocation.unroll)
    });
    let most = 3 * stages + 2 * unroll + source.lookahead.div_ceil(step);
    for iterations in 0..=most {
        for ragged in [0, 1, step - 1] {
            let count = iterations * step + ragged;
            // Batches have at least one iteration.
            if ragged < step && (count == 0 || count >= step) {
                Run::new(source, scheduled, count).run()?;
            }
        }
    }
    Ok(())
}

/// A run over one batch.
struct Run<'a> {
    source: &'a LoopBody,
    scheduled: &'a ScheduledLoop,
    count: u32,
    /// The packet number.
    packet: u32,
    registers: HashMap<Register, Value>,
    /// How often each op ran for each iteration, keyed by op and first packet.
    times: HashMap<(usize, u32), u32>,
}

impl<'a> Run<'a> {
    fn new(source: &'a LoopBody, scheduled: &'a ScheduledLoop, count: u32) -> Self {
        let allocation = &scheduled.single.allocation;
        let registers = source.invariants.iter().map(|invariant| {
            (allocation.register(invariant.reg, 0), Value::Invariant(invariant.reg))
        });
        let registers = registers.collect();
        Self { source, scheduled, count, packet: 0, registers, times: HashMap::new() }
    }

    fn run(mut self) -> Result<(), Violation> {
        let step = self.source.step;
        let whole = self.count / step;
        if let Some(pipelined) = &self.scheduled.pipelined {
            let (code, allocation) = (&pipelined.expansion, &pipelined.placed.allocation);
            let may_look = self.count.saturating_sub(self.source.lookahead) / step;
            if may_look >= code.least {
                self.instances(&code.prologue, allocation)?;
                while self.packet / step + code.least <= may_look {
                    self.instances(&code.kernel, allocation)?;
                    self.packet += code.trip * step;
                }
                self.instances(&code.epilogue, allocation)?;
                self.packet += code.drained * step;
            }
        }
        let rolled = self.scheduled.rolled();
        let allocation = &self.scheduled.single.allocation;
        while self.packet < whole * step {
            self.instances(&rolled, allocation)?;
            self.packet += step;
        }
        if self.packet < self.count {
            self.packet = self.count - step;
            self.instances(&rolled, allocation)?;
        }
        self.check_times()
    }

    fn instances(
        &mut self,
        instances: &[Instance],
        allocation: &Allocation,
    ) -> Result<(), Violation> {
        instances.iter().try_for_each(|instance| self.instance(*instance, allocation))
    }

    fn instance(&mut self, instance: Instance, allocation: &Allocation) -> Result<(), Violation> {
        let number = instance.op as usize;
        let op = &self.scheduled.body.ops[number];
        let packet = self.packet + instance.iteration * self.source.step;
        let register = |reg: Reg| allocation.register(reg, instance.iteration);
        *self.times.entry((number, packet)).or_insert(0) += 1;
        if op.ahead && packet + self.source.step + self.source.lookahead > self.count {
            return Err(Violation::Beyond { count: self.count, op: number, packet });
        }
        let value = match self.scheduled.origin[number] {
            None => op.reads().next().and_then(|reg| self.registers.get(&register(reg)).copied()),
            Some(origin) => {
                let asked = &self.source.ops[origin as usize];
                for (&is, &should) in op.operands.iter().zip(&asked.operands) {
                    for (is, should) in registers_of(is).into_iter().zip(registers_of(should)) {
                        self.expect(number, packet, is.map(register), should)?;
                    }
                }
                self.expect(number, packet, op.mask.map(register), asked.mask)?;
                asked.dest.map(|dest| Value::Of(dest, packet))
            }
        };
        if let (true, Some(dest), Some(&Operand::Reg(first))) =
            (op.tied, op.dest, op.operands.first())
            && register(dest) != register(first)
        {
            return Err(Violation::Tied { op: number, packet });
        }
        if let Some(dest) = op.dest {
            match value {
                Some(value) => self.registers.insert(register(dest), value),
                None => self.registers.remove(&register(dest)),
            };
        }
        Ok(())
    }

    /// Checks that `register` holds the value of `reg` of the source loop in
    /// the iteration of `packet`.
    fn expect(
        &self,
        op: usize,
        packet: u32,
        register: Option<Register>,
        reg: Option<Reg>,
    ) -> Result<(), Violation> {
        let (Some(register), Some(reg)) = (register, reg) else { return Ok(()) };
        let found = self.registers.get(&register).copied();
        let invariant = self.source.invariants.iter().any(|invariant| invariant.reg == reg);
        let expected = if invariant { Value::Invariant(reg) } else { Value::Of(reg, packet) };
        if found == Some(expected) {
            return Ok(());
        }
        let found = match found {
            None => "nothing".to_owned(),
            Some(Value::Invariant(reg)) => format!("invariant {}", reg.0),
            Some(Value::Of(reg, packet)) => format!("register {} of packet {packet}", reg.0),
        };
        Err(Violation::Value { count: self.count, op, packet, register, found })
    }

    /// Each op must run once for each iteration; `ahead` ops run where they
    /// may, or not at all.
    fn check_times(&self) -> Result<(), Violation> {
        let step = self.source.step;
        let ragged = (!self.count.is_multiple_of(step)).then(|| self.count - step);
        let starts: Vec<u32> = (0..self.count / step).map(|i| i * step).chain(ragged).collect();
        for (number, op) in self.scheduled.body.ops.iter().enumerate() {
            for &packet in &starts {
                let times = self.times.get(&(number, packet)).copied().unwrap_or(0);
                if times > 1 || (times == 0 && !op.ahead) {
                    return Err(Violation::Times { count: self.count, op: number, packet, times });
                }
            }
        }
        // Ops that ran for a packet that starts no iteration.
        let stray = self.times.iter().filter(|((_, packet), _)| !starts.contains(packet)).min();
        match stray {
            Some((&(op, packet), &times)) => {
                Err(Violation::Times { count: self.count, op, packet, times })
            }
            None => Ok(()),
        }
    }
}

/// The registers of an operand.
fn registers_of(operand: Operand) -> [Option<Reg>; 2] {
    match operand {
        Operand::Reg(reg) => [Some(reg), None],
        Operand::Memory(Address { base, index, .. }) => {
            let base = match base {
                Base::PoolIn(reg) => Some(reg),
                Base::Table(_) | Base::Pool(_) => None,
            };
            let index = match index {
                Index::Reg(reg, _) => Some(reg),
                Index::None | Index::Packet(_) => None,
            };
            [base, index]
        }
        Operand::Immediate(_) => [None, None],
    }
}
