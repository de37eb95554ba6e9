//! Machine code before registers and order: the bodies of loops over a batch.
//!
//! An [`Op`] is one x86-64 instruction on virtual registers, each of which is
//! written once. A [`LoopBody`] holds the instructions of one iteration in an
//! order that runs, and says how many packets an iteration advances. All that
//! an iteration takes from memory it finds by its packet number, so that
//! iterations depend on one another only through that number: any two may
//! overlap.

use iced_x86::{Code, Register};

use crate::convention::Table;
use crate::machine::Units;

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u32);

/// Which physical registers a virtual one may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegClass {
    /// A general-purpose register.
    General,
    /// A vector register.
    Vector,
    /// An opmask register other than `k0`.
    Mask,
}

/// Names a constant of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub u32);

/// What is added to an address besides its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Index {
    /// Nothing.
    None,
    /// A register times a scale of 1, 2, 4 or 8.
    Reg(Reg, u8),
    /// The number of the iteration's first packet times 1, 2, 4 or 8.
    Packet(u8),
}

/// Where an address counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A table of the calling convention.
    Table(Table),
    /// A constant of the pool; takes no index.
    Pool(PoolId),
    /// A constant of the pool whose address is in a register, for tables
    /// that are indexed.
    PoolIn(Reg),
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Where it counts from.
    pub base: Base,
    /// What is added.
    pub index: Index,
    /// Bytes added.
    pub displacement: i32,
    /// Whether an element of memory is broadcast to all lanes.
    pub broadcast: bool,
}

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A virtual register.
    Reg(Reg),
    /// Memory.
    Memory(Address),
    /// A number in the instruction.
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
    /// Whether the first operand must be the destination register too, as in
    /// the two-operand instructions of x86.
    pub tied: bool,
    /// The other operands.
    pub operands: Vec<Operand>,
    /// The opmask that guards it, if any: lanes not set give 0, or keep what
    /// was in the first operand if it is tied.
    pub mask: Option<Reg>,
    /// Cycles from its issue until its result may be used.
    pub latency: u8,
    /// What it occupies.
    pub units: Units,
    /// What it is there for, for people: index into [`LoopBody::notes`].
    pub note: u32,
    /// Whether it looks [`LoopBody::lookahead`] packets beyond its iteration,
    /// and may be left out: a prefetch and what only serves it. The rolled
    /// loop for the last packets leaves these out.
    pub ahead: bool,
}

impl Op {
    /// The registers it reads, the address's and the mask included.
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
    /// What the loop is called in listings.
    pub name: &'static str,
    /// Packets an iteration advances: a power of two.
    pub step: u32,
    /// The instructions, each after those it reads from.
    pub ops: Vec<Op>,
    /// The class of each virtual register.
    pub classes: Vec<RegClass>,
    /// Registers that are set before the loop and only read in it: constants,
    /// with the pool entry they are loaded from.
    pub invariants: Vec<Invariant>,
    /// Texts that [`Op::note`] names.
    pub notes: Vec<String>,
    /// How many packets beyond the iteration's own its [`Op::ahead`]
    /// instructions look. Iterations for which there are not as many packets
    /// left in the batch must run in the rolled loop, without them: tables end
    /// with the batch's last packet.
    pub lookahead: u32,
}

/// A register that is set once, before the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// The register.
    pub reg: Reg,
    /// What it holds.
    pub source: InvariantSource,
}

/// What an invariant register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvariantSource {
    /// A whole vector of the pool; the code is the instruction that loads it.
    Vector(Code, PoolId),
    /// A number in an opmask register, moved there by the code.
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
    /// When it is not one of this loop's.
    #[must_use]
    pub fn class(&self, reg: Reg) -> RegClass {
        self.classes[reg.0 as usize]
    }

    /// Adds an instruction.
    pub fn push(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Adds an instruction with a result, of the given units and latency, and
    /// gives the result's register.
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

    /// Adds a note, and gives its number.
    pub fn note(&mut self, text: impl Into<String>) -> u32 {
        self.notes.push(text.into());
        self.notes.len() as u32 - 1
    }
}

/// Registers that loops may use, by class. What is missing here holds tables,
/// the packet number and its bound.
pub const GENERAL: [Register; 5] =
    [Register::RAX, Register::RBX, Register::RBP, Register::R14, Register::R15];
