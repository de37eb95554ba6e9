//! Physical registers for scheduled loops.
//!
//! Iterations of a pipelined loop overlap, so a value may still be live when
//! the same op of the next iteration defines another. Modulo variable expansion
//! (Lam, "Software pipelining", 1988) unrolls the kernel: a virtual register
//! has a name for each of `unroll` iterations, and the values of iteration `i`
//! are those named `i mod unroll`. Lifetimes then are arcs of a circle, the
//! unrolled kernel, to be coloured with registers ([`arcs`]).
//!
//! Lifetimes are measured in instructions, not cycles: processors rename
//! registers, so a value lives from the instruction that defines it to the last
//! that reads it, which may already overwrite it. Places are counted in
//! instructions: op `o` of iteration `i` has place `order.place(o) + i · n`, n
//! being the ops of an iteration.
//!
//! A tied op (see [`crate::sched`]) writes its result to the register of its
//! first operand. The two, and all values tied to them in turn, share one
//! lifetime.
//!
//! Nothing is spilled. If registers do not suffice, the caller requests a
//! schedule that needs fewer.

pub mod arcs;

use forebay_filter::cancel;
use iced_x86::Register;

use crate::code::Isa;
use crate::convention::Table;
use crate::mir::{Base, GENERAL, LoopBody, Operand, Reg, RegClass};
use crate::sched::LinearOrder;
use crate::sched::ties::overwritten;
use crate::sched::values::Values;

/// The register for the address of the argument table.
pub const ARGUMENTS: Register = Register::RDI;

/// The register for the packet number.
pub const PACKET: Register = Register::R12;

/// The register for the bound of the packet number.
pub const BOUND: Register = Register::R13;

/// The register for `table`'s address in a loop that uses it.
#[must_use]
pub fn table_register(table: Table) -> Register {
    match table {
        Table::Base => Register::RSI,
        Table::Offset => Register::RDX,
        Table::CapLen => Register::RCX,
        Table::WireLen => Register::R8,
        Table::Verdict => Register::R9,
        Table::Slow => Register::R10,
        Table::Scratch => Register::R11,
    }
}

/// The tables that `body` addresses.
#[must_use]
pub fn tables_used(body: &LoopBody) -> Vec<Table> {
    let mut used = [false; Table::ALL.len()];
    for operand in body.ops.iter().flat_map(|op| &op.operands) {
        if let Operand::Memory(address) = operand
            && let Base::Table(table) = address.base
        {
            used[table as usize] = true;
        }
    }
    Table::ALL.into_iter().filter(|&table| used[table as usize]).collect()
}

/// Too few registers for a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("loop '{name}' needs more than the {available} available {class} registers")]
pub struct RegisterPressure {
    /// The loop.
    pub name: &'static str,
    /// The class that is short.
    pub class: &'static str,
    /// Registers of that class, including those of invariants.
    pub available: usize,
}

/// Registers of each class, in the order they are used.
#[derive(Clone, Debug)]
pub struct RegisterFile {
    by_class: [Vec<Register>; 3],
}

impl RegisterFile {
    /// The registers that `body` may use on a machine of level `isa`.
    #[must_use]
    pub fn of_loop(body: &LoopBody, isa: Isa) -> Self {
        let used = tables_used(body);
        let unused = Table::ALL.into_iter().filter(|table| !used.contains(table));
        // First those that need no saving.
        let (saved, free): (Vec<_>, Vec<_>) = GENERAL
            .into_iter()
            .chain(unused.map(table_register))
            .partition(|register| crate::convention::CALLEE_SAVED.contains(register));
        let general = free.into_iter().chain(saved).collect();
        let vectors = match isa {
            Isa::Scalar | Isa::Avx2 => 16,
            Isa::Avx512Bw | Isa::Avx512Vbmi => 32,
        };
        let vector = (0..vectors).map(|number| Register::ZMM0 + number).collect();
        let masks = if isa < Isa::Avx512Bw { 0 } else { 7 };
        let mask = (0..masks).map(|number| Register::K1 + number).collect();
        Self { by_class: [general, vector, mask] }
    }

    /// The registers of `class`.
    #[must_use]
    pub fn class(&self, class: RegClass) -> &[Register] {
        &self.by_class[class as usize]
    }
}

/// The physical register of each virtual one, in each iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Iterations after which names repeat.
    pub unroll: u32,
    /// By virtual register, then by iteration modulo `unroll`.
    pub registers: Vec<Register>,
    /// The most registers alive at a time, invariants included, by class in
    /// the order of [`RegClass`].
    pub max_live: [u32; 3],
}

impl Allocation {
    /// The register of `reg` in iteration `iteration`; [`Register::None`] if no
    /// op and no invariant sets it.
    #[must_use]
    pub fn register(&self, reg: Reg, iteration: u32) -> Register {
        self.registers[(reg.0 * self.unroll + iteration % self.unroll) as usize]
    }
}

/// Limits of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most names for a register.
    pub unroll: u32,
    /// The most ops in an unrolled kernel.
    pub kernel: u32,
}

/// The span of places of one physical register in one iteration.
#[derive(Clone, Copy, Debug)]
struct Lifetime {
    class: RegClass,
    start: u32,
    /// The place of the last reader; beyond `start`.
    end: u32,
}

/// Assigns physical registers to each register of `body`, with its ops in
/// `order`.
///
/// # Errors
/// If a class has too few registers, or there are too many names.
pub fn allocate(
    body: &LoopBody,
    values: &Values,
    order: &LinearOrder,
    file: &RegisterFile,
    limits: Limits,
) -> Result<Allocation, RegisterPressure> {
    let allocator = Allocator::new(body, values, order, file);
    let fewest = allocator.fewest_names();
    let mut shortage = None;
    // More names than necessary give more ways to share registers.
    for unroll in [fewest, 2 * fewest] {
        if unroll > limits.unroll || unroll.saturating_mul(allocator.period) > limits.kernel {
            break;
        }
        match allocator.with_names(unroll) {
            Ok(allocation) => return Ok(allocation),
            Err(class) => shortage = Some(class),
        }
    }
    let class = shortage.unwrap_or_else(|| allocator.longest_lived());
    let available = file.class(class).len();
    Err(RegisterPressure { name: body.name, class: class_name(class), available })
}

/// The input of an allocation.
struct Allocator<'a> {
    body: &'a LoopBody,
    file: &'a RegisterFile,
    /// Ops of an iteration.
    period: u32,
    lifetimes: Vec<Lifetime>,
    /// By virtual register.
    lifetime_of: Vec<Option<u32>>,
}

impl<'a> Allocator<'a> {
    fn new(
        body: &'a LoopBody,
        values: &Values,
        order: &LinearOrder,
        file: &'a RegisterFile,
    ) -> Self {
        let (lifetime_of, lifetimes) = lifetimes(body, values, order);
        Self { body, file, period: body.ops.len().max(1) as u32, lifetimes, lifetime_of }
    }

    fn fewest_names(&self) -> u32 {
        let names = self.lifetimes.iter().map(|life| (life.end - life.start).div_ceil(self.period));
        names.max().unwrap_or(1).next_power_of_two()
    }

    fn longest_lived(&self) -> RegClass {
        let longest = self.lifetimes.iter().max_by_key(|life| life.end - life.start);
        longest.map_or(RegClass::General, |life| life.class)
    }

    /// An allocation with `unroll` names, or the class that is short.
    fn with_names(&self, unroll: u32) -> Result<Allocation, RegClass> {
        let names = unroll as usize;
        let mut registers = vec![Register::None; self.body.classes.len() * names];
        let mut max_live = [0; 3];
        for class in [RegClass::General, RegClass::Vector, RegClass::Mask] {
            let fixed =
                fix_invariants(self.body, class, self.file, names, &mut registers).ok_or(class)?;
            let free = &self.file.class(class)[fixed..];
            let mut first_arc = vec![None; self.lifetimes.len()];
            let mut spans = Vec::with_capacity(self.lifetimes.len());
            for (number, life) in self.lifetimes.iter().enumerate() {
                if life.class == class {
                    first_arc[number] = Some(spans.len() * names);
                    spans.push((life.start, life.end));
                }
            }
            let alive = arcs::max_live(&spans, self.period);
            max_live[class as usize] = fixed as u32 + alive;
            if alive as usize > free.len() {
                return Err(class);
            }
            let colours = arcs::colour(&spans, self.period, unroll, free.len()).ok_or(class)?;
            for (reg, life) in self.lifetime_of.iter().enumerate() {
                let Some(first) = life.and_then(|life| first_arc[life as usize]) else { continue };
                for name in 0..names {
                    registers[reg * names + name] = free[usize::from(colours[first + name])];
                }
            }
        }
        Ok(Allocation { unroll, registers, max_live })
    }
}

/// Assigns the first registers of the file to the invariants of `class`, in all
/// names. Returns their number; `None` if they are too many.
fn fix_invariants(
    body: &LoopBody,
    class: RegClass,
    file: &RegisterFile,
    names: usize,
    registers: &mut [Register],
) -> Option<usize> {
    let mut free = file.class(class).iter();
    let mut fixed = 0;
    for invariant in &body.invariants {
        if body.class(invariant.reg) == class {
            let register = *free.next()?;
            let reg = invariant.reg.0 as usize;
            registers[reg * names..(reg + 1) * names].fill(register);
            fixed += 1;
        }
    }
    Some(fixed)
}

/// The lifetimes of all registers that ops define, and the lifetime of each
/// register.
fn lifetimes(
    body: &LoopBody,
    values: &Values,
    order: &LinearOrder,
) -> (Vec<Option<u32>>, Vec<Lifetime>) {
    let mut lifetime_of: Vec<Option<u32>> = vec![None; body.classes.len()];
    let mut lifetimes: Vec<Lifetime> = Vec::with_capacity(body.ops.len());
    for (number, op) in body.ops.iter().enumerate() {
        cancel::check();
        let Some(dest) = op.dest else { continue };
        let place = order.place(number);
        let source = overwritten(op).and_then(|source| lifetime_of[source.0 as usize]);
        let life = source.unwrap_or_else(|| {
            let class = body.class(dest);
            lifetimes.push(Lifetime { class, start: place, end: place });
            lifetimes.len() as u32 - 1
        });
        let last = values.readers(dest).iter().map(|&reader| order.place(reader as usize)).max();
        let end = &mut lifetimes[life as usize].end;
        // An unused result still takes a register.
        *end = (*end).max(last.unwrap_or(place + 1));
        lifetime_of[dest.0 as usize] = Some(life);
    }
    (lifetime_of, lifetimes)
}

/// The name of a class in messages.
#[must_use]
pub fn class_name(class: RegClass) -> &'static str {
    match class {
        RegClass::General => "general",
        RegClass::Vector => "vector",
        RegClass::Mask => "opmask",
    }
}
