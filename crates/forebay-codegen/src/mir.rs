//! Machine code before register allocation and scheduling: the bodies of loops
//! over a batch.
//!
//! An [`Op`] is one x86-64 instruction on virtual registers, each of which is
//! written once. A [`LoopBody`] holds the instructions of one iteration in an
//! executable order, and the number of packets by which an iteration advances.
//! An iteration addresses memory only by its packet number, so iterations
//! depend on one another only through that number, and any two may overlap.

use iced_x86::{Code, Register};

use crate::convention::Table;
use crate::machine::Units;

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// The class of physical registers for a virtual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegClass {
    /// A general-purpose register.
    General,
    /// A vector register.
    Vector,
    /// An opmask register other than `k0`.
    Mask,
}

/// A constant of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub u32);

/// The index of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// Nothing.
    None,
    /// A register times a scale of 1, 2, 4 or 8.
    Reg(Reg, u8),
    /// The number of the iteration's first packet times 1, 2, 4 or 8.
    Packet(u8),
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A table of the calling convention.
    Table(Table),
    /// A constant of the pool; takes no index.
    Pool(PoolId),
    /// A constant of the pool whose address is in a register, for indexed
    /// tables.
    PoolIn(Reg),
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The base.
    pub base: Base,
    /// The index.
    pub index: Index,
    /// Bytes added.
    pub displacement: i32,
    /// Whether an element in memory is broadcast to all lanes.
    pub broadcast: bool,
}

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A virtual register.
    Reg(Reg),
    /// Memory.
    Memory(Address),
    /// An immediate.
    Immediate(i32),
}

/// An instruction. `operands` are in Intel's order without the destination; a
/// store's memory operand comes first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// The instruction and its encoding.
    pub code: Code,
    /// The register written, if any.
    pub dest: Option<Reg>,
    /// Whether the first operand must be in the destination register, as in the
    /// two-operand instructions of x86.
    pub tied: bool,
    /// The other operands.
    pub operands: Vec<Operand>,
    /// The opmask, if any. Masked-off lanes become 0, or keep the first operand
    /// if it is tied.
    pub mask: Option<Reg>,
    /// Cycles from issue until the result may be used.
    pub latency: u8,
    /// The resources it takes.
    pub units: Units,
    /// Its purpose as text: index into [`LoopBody::notes`].
    pub note: u32,
    /// Whether it accesses entries [`LoopBody::lookahead`] packets beyond its
    /// iteration, and may be omitted: a prefetch and the ops that only serve
    /// it. The rolled loop for the last packets omits these.
    pub ahead: bool,
}

impl Op {
    /// The registers that it reads, including those of address and mask.
    pub fn reads(&self) -> impl Iterator<Item = Reg> + '_ {
        self.operands
            .iter()
            .flat_map(|operand| match *operand {
                Operand::Reg(reg) => [Some(reg), None],
                Operand::Memory(address) => {
                    let base = match address.base {
                        Base::PoolIn(reg) => Some(reg),
                        Base::Table(_) | Base::Pool(_) => None,
                    };
                    let index = match address.index {
                        Index::Reg(reg, _) => Some(reg),
                        Index::None | Index::Packet(_) => None,
                    };
                    [base, index]
                }
                Operand::Immediate(_) => [None, None],
            })
            .flatten()
            .chain(self.mask)
    }
}

/// One iteration of a loop over the packets of a batch.
#[derive(Clone, Debug, Default)]
pub struct LoopBody {
    /// The name of the loop in listings.
    pub name: &'static str,
    /// Packets by which an iteration advances: a power of two.
    pub step: u32,
    /// The instructions, each after its operands.
    pub ops: Vec<Op>,
    /// The class of each virtual register.
    pub classes: Vec<RegClass>,
    /// Registers that are set before the loop and constant in it, with the pool
    /// entry from which they are loaded.
    pub invariants: Vec<Invariant>,
    /// Texts for [`Op::note`].
    pub notes: Vec<String>,
    /// The distance in packets of the [`Op::ahead`] instructions. Iterations
    /// with fewer packets left in the batch must run in the rolled loop,
    /// without these instructions: tables end with the batch's last packet.
    pub lookahead: u32,
}

/// A register that is set once, before the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// The register.
    pub reg: Reg,
    /// Its value.
    pub source: InvariantSource,
}

/// The value of an invariant register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvariantSource {
    /// A vector of the pool, loaded by the instruction.
    Vector(Code, PoolId),
    /// A number in an opmask register, moved there by the instruction.
    Mask(Code, u64),
    /// The address of a constant of the pool.
    Address(PoolId),
}

impl LoopBody {
    /// A loop without instructions.
    #[must_use]
    pub fn new(name: &'static str, step: u32) -> Self {
        Self { name, step, ..Self::default() }
    }

    /// A new virtual register.
    pub fn reg(&mut self, class: RegClass) -> Reg {
        self.classes.push(class);
        Reg(self.classes.len() as u32 - 1)
    }

    /// The class of a register of this loop.
    ///
    /// # Panics
    /// If the register is not one of this loop's.
    #[must_use]
    pub fn class(&self, reg: Reg) -> RegClass {
        self.classes[reg.0 as usize]
    }

    /// Adds an instruction.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Adds an instruction with a result, of the given units and latency, and
    /// returns the result's register.
    pub fn op(
        &mut self,
        code: Code,
        class: RegClass,
        operands: Vec<Operand>,
        (units, latency): (Units, u8),
        note: u32,
    ) -> Reg {
        let reg = self.reg(class);
        let (dest, tied, mask, ahead) = (Some(reg), false, None, false);
        self.push(Op { code, dest, tied, operands, mask, latency, units, note, ahead });
        reg
    }

    /// Adds a store of `reg`.
    pub fn store(&mut self, code: Code, address: Address, reg: Reg, units: Units, note: u32) {
        let operands = vec![Operand::Memory(address), Operand::Reg(reg)];
        let (dest, tied, mask, latency, ahead) = (None, false, None, 0, false);
        self.push(Op { code, dest, tied, operands, mask, latency, units, note, ahead });
    }

    /// Adds a note and returns its number.
    pub fn note(&mut self, text: impl Into<String>) -> u32 {
        self.notes.push(text.into());
        self.notes.len() as u32 - 1
    }
}

/// Registers available to loops, by class. The others hold tables, the packet
/// number and its bound.
pub const GENERAL: [Register; 5] =
    [Register::RAX, Register::RBX, Register::RBP, Register::R14, Register::R15];
