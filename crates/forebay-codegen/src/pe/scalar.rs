//! One loop in general registers, for machines without vectors of 256 bits.
//!
//! A mask is a 64-bit number, 1 or 0 for the one packet of an iteration. It
//! never passes through the flags, so instructions of different iterations
//! interleave freely. The difference between a field and its constant is their
//! exclusive or; differences are combined by `or`. One less than that has its
//! top bit set only if there was no difference. Of two 32-bit numbers, the
//! 64-bit difference has its top bit set if the first is less.

use forebay_filter::ir::Function;
use iced_x86::Code;

use super::algebra::{Accepted, Literal, Logic, Mask, Masks, Test, evaluate_groups};
use super::atom::{Atom, Field};
use super::decision::{Decision, Node};
use super::loops::{Loops, Unsuited};
use super::packets::{entry, prefetches};
use crate::code::Options;
use crate::convention::Table;
use crate::machine::{Units, latency};
use crate::mir::{Address, Base, Index, LoopBody, Op, Operand, Reg, RegClass};

struct Builder {
    body: LoopBody,
    /// The packet's offset.
    offset: Reg,
    /// The conjunctions that [`Test::Signature`] refers to by number.
    conjunctions: Vec<Vec<Atom>>,
    note: u32,
    /// Whether the filter needs an operation that this loop does not support.
    unsuited: bool,
}

/// The loop for `decision`.
///
/// # Errors
/// If the filter has a set lookup, for which `list` is faster.
pub(super) fn select(
    function: &Function,
    decision: &Decision,
    options: &Options,
) -> Result<Loops, Unsuited> {
    // Immediates of 64-bit instructions are signed.
    decision.lengths_fit(i32::MAX as u32)?;
    let mut reach = 0;
    for atom in decision.atoms() {
        match atom {
            Atom::Equal(field, _) | Atom::AtLeast(field, _) => {
                reach = reach.max(field.offset as usize + 4);
            }
            Atom::Member(_, set) => {
                let count = function.sets[set.0 as usize].len();
                return Err(Unsuited::Predicate(format!("in a set of {count}")));
            }
            Atom::Captured(_) | Atom::WireAtLeast(_) | Atom::WireEqual(_) => {}
            Atom::Computed(..) | Atom::CapturedFrom(..) | Atom::ComputedMember(..) => {
                return Err(Unsuited::Predicate("arithmetic".to_owned()));
            }
        }
    }
    let mut builder = Builder::new(options, decision);
    let mut groups: Vec<Vec<Literal>> = Vec::new();
    for node in &decision.nodes {
        let group = builder.group(node);
        groups.push(group);
    }
    let outcome = evaluate_groups(decision, &groups, &mut builder);
    builder.verdict(outcome, decision.accept);
    builder.leaves(decision);
    if builder.unsuited {
        return Err(Unsuited::Predicate("one for vectors".to_owned()));
    }
    Ok(Loops {
        bodies: vec![builder.body],
        lanes: 1,
        reach,
        scratch: 0,
        leaves: !decision.leaves.is_empty(),
    })
}

impl Builder {
    fn new(options: &Options, decision: &Decision) -> Self {
        let mut body = LoopBody::new("predicated", 1);
        let note = body.note("where the packet starts");
        let offset = Reg(0);
        let conjunctions = Vec::new();
        let mut this = Self { body, offset, conjunctions, note, unsuited: false };
        this.offset = this.load(Table::Offset);
        let first = decision.atoms().filter_map(|atom| match atom {
            Atom::Equal(field, _) | Atom::AtLeast(field, _) => Some(field.offset),
            _ => None,
        });
        prefetches(&mut this.body, first.min(), options.prefetch);
        this
    }

    /// The tests of a node: one for all atoms that must hold, and one for each
    /// atom that must not.
    fn group(&mut self, node: &Node) -> Vec<Literal> {
        let of = |wanted: bool| {
            node.literals.iter().filter(move |(_, holds)| *holds == wanted).map(|l| l.0)
        };
        let held: Vec<Atom> = of(true).collect();
        let mut group = Vec::new();
        let parts = std::iter::once((held, true)).chain(of(false).map(|atom| (vec![atom], false)));
        for (atoms, holds) in parts.filter(|(atoms, _)| !atoms.is_empty()) {
            self.conjunctions.push(atoms);
            let plane = self.conjunctions.len() - 1;
            group.push((Test::Signature { plane, care: 0 }, holds));
        }
        group
    }

    fn push(&mut self, code: Code, dest: Option<Reg>, operands: Vec<Operand>, units: Units) {
        let loads = units == Units::LOAD || units == Units::STORE;
        self.body.push(Op {
            code,
            dest,
            tied: false,
            operands,
            mask: None,
            latency: if loads { 0 } else { latency::SIMPLE },
            units,
            note: self.note,
            ahead: false,
        });
    }

    /// The packet's entry in `table`.
    fn load(&mut self, table: Table) -> Reg {
        let dest = self.body.reg(RegClass::General);
        let operands = vec![Operand::Memory(entry(table, 0))];
        self.push(Code::Mov_r32_rm32, Some(dest), operands, Units::LOAD);
        dest
    }

    /// An instruction that overwrites its first operand.
    fn tied(&mut self, code: Code, a: Reg, b: Option<Operand>, units: Units) -> Reg {
        let dest = self.body.reg(RegClass::General);
        let operands = std::iter::once(Operand::Reg(a)).chain(b).collect();
        self.push(code, Some(dest), operands, units);
        if let Some(op) = self.body.ops.last_mut() {
            op.tied = true;
        }
        dest
    }

    fn alu(&mut self, code: Code, a: Reg, b: Operand) -> Reg {
        self.tied(code, a, Some(b), Units::ALU)
    }

    /// The field in the packet's byte order if `as_number` is false, else as a
    /// number; bits outside the mask are 0.
    fn field(&mut self, field: Field, as_number: bool) -> Reg {
        let address = Address {
            base: Base::Table(Table::Base),
            index: Index::Reg(self.offset, 1),
            displacement: field.offset as i32,
            broadcast: false,
        };
        let code = match field.bytes {
            1 => Code::Movzx_r32_rm8,
            2 => Code::Movzx_r32_rm16,
            _ => Code::Mov_r32_rm32,
        };
        let dest = self.body.reg(RegClass::General);
        self.push(code, Some(dest), vec![Operand::Memory(address)], Units::LOAD);
        let mut reg = dest;
        let mut mask = super::extract::swapped(field.mask, field.bytes);
        if as_number && field.bytes > 1 {
            reg = self.tied(Code::Bswap_r32, reg, None, Units::MULTIPLY);
            if field.bytes == 2 {
                let by = Some(Operand::Immediate(16));
                reg = self.tied(Code::Shr_rm32_imm8, reg, by, Units::SHIFT);
            }
            mask = field.mask;
        }
        if field.mask != u32::MAX >> (32 - 8 * field.bytes) {
            reg = self.alu(Code::And_rm32_imm32, reg, Operand::Immediate(mask as i32));
        }
        reg
    }

    /// The top bit of `reg`, as 0 or 1.
    fn top_bit(&mut self, reg: Reg) -> Reg {
        let by = Some(Operand::Immediate(63));
        self.tied(Code::Shr_rm64_imm8, reg, by, Units::SHIFT)
    }

    /// 1 if `reg` is less than `bytes`, else 0. `bytes` is at most 2³¹.
    fn less(&mut self, reg: Reg, bytes: u32) -> Reg {
        let constant = Operand::Immediate(bytes as i32);
        let difference = self.alu(Code::Sub_rm64_imm32, reg, constant);
        self.top_bit(difference)
    }

    /// A 32-bit number that is 0 if `atom` holds.
    fn difference(&mut self, atom: Atom) -> Reg {
        match atom {
            Atom::Equal(field, constant) => {
                let reg = self.field(field, false);
                match super::extract::swapped(constant, field.bytes) {
                    0 => reg,
                    raw => self.alu(Code::Xor_rm32_imm32, reg, Operand::Immediate(raw as i32)),
                }
            }
            Atom::AtLeast(field, constant) => {
                let reg = self.field(field, true);
                if constant <= i32::MAX as u32 {
                    return self.less(reg, constant);
                }
                // Immediates of 64-bit instructions are signed: compare the
                // complement instead.
                let missing = self.tied(Code::Not_rm32, reg, None, Units::ALU);
                let most = Operand::Immediate(!constant as i32);
                let beyond = self.alu(Code::Sub_rm64_imm32, missing, most);
                let enough = self.less(beyond, 1);
                self.alu(Code::Xor_rm32_imm32, enough, Operand::Immediate(1))
            }
            Atom::Captured(bytes) => {
                let reg = self.load(Table::CapLen);
                self.less(reg, bytes)
            }
            Atom::WireAtLeast(bytes) => {
                let reg = self.load(Table::WireLen);
                self.less(reg, bytes)
            }
            Atom::WireEqual(bytes) => {
                let reg = self.load(Table::WireLen);
                self.alu(Code::Xor_rm32_imm32, reg, Operand::Immediate(bytes as i32))
            }
            Atom::Member(..)
            | Atom::Computed(..)
            | Atom::CapturedFrom(..)
            | Atom::ComputedMember(..) => self.none(),
        }
    }

    /// Records that the filter is unsuited; the returned register is a
    /// placeholder.
    fn none(&mut self) -> Reg {
        self.unsuited = true;
        self.offset
    }

    /// 1 if all of `atoms` hold, else 0.
    fn all(&mut self, atoms: &[Atom]) -> Reg {
        let most = atoms.iter().filter_map(|atom| match atom {
            Atom::Captured(bytes) => Some(*bytes),
            _ => None,
        });
        let most = most.max();
        let mut gathered: Option<Reg> = None;
        let needed = |atom: &&Atom| !matches!(atom, Atom::Captured(n) if Some(*n) != most);
        for atom in atoms.iter().filter(needed) {
            let difference = self.difference(*atom);
            gathered = Some(match gathered {
                Some(others) => self.alu(Code::Or_rm32_r32, others, Operand::Reg(difference)),
                None => difference,
            });
        }
        // `atoms` is never empty.
        let gathered = gathered.unwrap_or_else(|| self.none());
        let less = self.alu(Code::Sub_rm64_imm32, gathered, Operand::Immediate(1));
        self.top_bit(less)
    }

    fn verdict(&mut self, outcome: Accepted, accept: u32) {
        self.note("verdict");
        let address = Address {
            base: Base::Table(Table::Verdict),
            index: Index::Packet(4),
            displacement: 0,
            broadcast: false,
        };
        let operand = match outcome {
            Accepted::Always(accepted) => {
                let verdict = if accepted { accept } else { 0 };
                let operands = vec![Operand::Memory(address), Operand::Immediate(verdict as i32)];
                self.push(Code::Mov_rm32_imm32, None, operands, Units::STORE);
                return;
            }
            // 1 or 0 minus one, or negated, has all bits set or none.
            Accepted::Packets(Mask { reg, inverted: true }) => {
                self.alu(Code::Sub_rm32_imm32, reg, Operand::Immediate(1))
            }
            Accepted::Packets(Mask { reg, inverted: false }) => {
                self.tied(Code::Neg_rm32, reg, None, Units::ALU)
            }
        };
        let kept = self.alu(Code::And_rm32_imm32, operand, Operand::Immediate(accept as i32));
        let operands = vec![Operand::Memory(address), Operand::Reg(kept)];
        self.push(Code::Mov_rm32_r32, None, operands, Units::STORE);
    }

    fn leaves(&mut self, decision: &Decision) {
        let mut all: Option<Reg> = None;
        for leave in &decision.leaves {
            self.note("left to list");
            let (atom, holds) = leave.literal;
            let mut wrong = self.all(&[atom]);
            if !holds {
                wrong = self.not(wrong);
            }
            if let Some(guard) = leave.guard {
                let guarded = self.all(&[guard]);
                wrong = self.and(wrong, guarded);
            }
            all = Some(match all {
                Some(others) => self.or(others, wrong),
                None => wrong,
            });
        }
        let Some(reg) = all else { return };
        let address = Address {
            base: Base::Table(Table::Slow),
            index: Index::Packet(1),
            displacement: 0,
            broadcast: false,
        };
        let operands = vec![Operand::Memory(address), Operand::Reg(reg)];
        self.push(Code::Mov_rm8_r8, None, operands, Units::STORE);
    }
}

impl Masks for Builder {
    type Logic = Self;

    fn logic(&mut self) -> &mut Self {
        self
    }

    fn test(&mut self, test: Test, holds: bool, under: Option<Reg>) -> Mask {
        let atoms = match test {
            Test::Signature { plane, .. } => self.conjunctions.get(plane).cloned(),
            _ => None,
        };
        let mask = self.all(&atoms.unwrap_or_default());
        self.among(mask, holds, under)
    }
}

impl Logic for Builder {
    const PREDICATED: bool = false;

    fn and(&mut self, a: Reg, b: Reg) -> Reg {
        self.alu(Code::And_rm32_r32, a, Operand::Reg(b))
    }

    fn and_not(&mut self, a: Reg, b: Reg) -> Reg {
        let a = self.not(a);
        self.and(a, b)
    }

    fn or(&mut self, a: Reg, b: Reg) -> Reg {
        self.alu(Code::Or_rm32_r32, a, Operand::Reg(b))
    }

    fn not(&mut self, a: Reg) -> Reg {
        self.alu(Code::Xor_rm32_imm32, a, Operand::Immediate(1))
    }

    fn note(&mut self, text: &str) -> u32 {
        self.note = self.body.note(text);
        self.note
    }
}
