//! [`Function`] → classic BPF.
//!
//! For functions that were not built from one program. Each block becomes the
//! loads and the arithmetic of its predicate and a jump; values left in A and X
//! are reused where all paths agree. A length test becomes a load of its last
//! byte, which ends the program if it fails; it is omitted if the next block
//! loads those bytes. A set becomes a binary search. A jump too far for its
//! eight bits goes through an unconditional jump.

use std::collections::BTreeMap;

use forebay_packet::cancel;

use super::{
    Arithmetic, BlockId, Edge, Function, Predicate, Relation, Terminator, Value, ValueId, Width,
};
use crate::program::Program;
use crate::program::instruction::Instruction;
use crate::verify::{MEMORY_CELLS, Profile};

/// The most members of a set that are compared one after another.
const IN_TURN: usize = 4;

/// The program with the same result as `function`; `None` if the function has
/// loops or parameters, has more intermediate results than there are memory
/// cells, has a length test that does not reject the packet if it fails, or
/// makes too long a program.
#[must_use]
pub fn lower(function: &Function) -> Option<Program> {
    let has_parameters = function.blocks.iter().any(|block| !block.parameters.is_empty());
    if has_parameters || function.has_backward_edges() {
        return None;
    }
    let mut lowering = Lowering {
        function,
        entries: vec![Entry::Unseen; function.blocks.len()],
        now: Registers::default(),
        code: Vec::new(),
        starts: vec![0; function.blocks.len()],
        labels: Vec::new(),
    };
    for index in 0..function.blocks.len() {
        cancel::check();
        lowering.block(index)?;
    }
    let instructions = lowering.assembled()?;
    Program::verify(&instructions, Profile::Libpcap).ok()
}

/// The content of the registers.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Registers {
    a: Option<ValueId>,
    x: Option<ValueId>,
}

#[derive(Clone, Copy)]
enum Entry {
    Unseen,
    Seen(Registers),
}

/// The target of a jump.
#[derive(Clone, Copy)]
enum Target {
    Block(BlockId),
    /// A position inside the code of a block.
    Label(usize),
}

/// An instruction whose jumps have no distances yet.
#[derive(Clone, Copy)]
enum Code {
    Plain(Instruction),
    Branch { code: u16, k: u32, then: Target, otherwise: Target },
    Goto(Target),
}

struct Lowering<'a> {
    function: &'a Function,
    /// The registers at the start of each block.
    entries: Vec<Entry>,
    now: Registers,
    code: Vec<Code>,
    /// The start of each block in the code.
    starts: Vec<usize>,
    /// The position of each label in the code.
    labels: Vec<usize>,
}

impl Lowering<'_> {
    fn block(&mut self, index: usize) -> Option<()> {
        self.starts[index] = self.code.len();
        self.now = match self.entries[index] {
            Entry::Seen(registers) => registers,
            Entry::Unseen => Registers::default(),
        };
        let function = self.function;
        match &function.blocks[index].end {
            Terminator::Return(value) => match function.as_constant(*value) {
                Some(constant) => self.plain(0x06, constant),
                None => {
                    self.load_a(*value, 0)?;
                    self.plain(0x16, 0);
                }
            },
            Terminator::Jump(edge) => {
                self.code.push(Code::Goto(Target::Block(edge.target)));
                self.leave(edge);
            }
            Terminator::Test { predicate, then, otherwise } => {
                self.test(*predicate, then, otherwise)?;
                self.leave(then);
                self.leave(otherwise);
            }
        }
        Some(())
    }

    /// Records the registers on an edge.
    fn leave(&mut self, edge: &Edge) {
        let entry = &mut self.entries[edge.target.0 as usize];
        *entry = Entry::Seen(match *entry {
            Entry::Unseen => self.now,
            Entry::Seen(known) => Registers {
                a: known.a.filter(|_| known.a == self.now.a),
                x: known.x.filter(|_| known.x == self.now.x),
            },
        });
    }

    fn plain(&mut self, code: u16, k: u32) {
        self.code.push(Code::Plain(Instruction { code, jt: 0, jf: 0, k }));
    }

    fn test(&mut self, predicate: Predicate, then: &Edge, otherwise: &Edge) -> Option<()> {
        let targets = (Target::Block(then.target), Target::Block(otherwise.target));
        match predicate {
            Predicate::Captured { index, bytes } => {
                let rejects = match self.function.block(otherwise.target).end {
                    Terminator::Return(value) => self.function.as_constant(value) == Some(0),
                    _ => false,
                };
                if !rejects {
                    return None;
                }
                if !self.loads(then.target, index, bytes) {
                    self.load(Width::Byte, index, bytes.checked_sub(1)?, 0)?;
                    self.now.a = None;
                }
                self.code.push(Code::Goto(targets.0));
            }
            Predicate::Compare { relation, left, right } => {
                let code = match relation {
                    Relation::Equal => 0x15,
                    Relation::Greater => 0x25,
                    Relation::GreaterOrEqual => 0x35,
                    Relation::AnyBit => 0x45,
                };
                let (then, otherwise) = targets;
                if let Some(k) = self.function.as_constant(right) {
                    self.load_a(left, 0)?;
                    self.code.push(Code::Branch { code, k, then, otherwise });
                } else {
                    self.both(left, right, 0)?;
                    let code = code | 0x08;
                    self.code.push(Code::Branch { code, k: 0, then, otherwise });
                }
            }
            Predicate::Member { value, set } => {
                self.load_a(value, 0)?;
                let set = &self.function.sets[set.0 as usize];
                self.search(set, targets.0, targets.1);
            }
        }
        Some(())
    }

    /// Whether a block loads, for its test, the bytes that a `captured` test
    /// with these operands guards.
    fn loads(&self, block: BlockId, index: Option<ValueId>, bytes: u32) -> bool {
        let Terminator::Test { predicate, .. } = &self.function.block(block).end else {
            return false;
        };
        let left = match *predicate {
            Predicate::Compare { left, .. } => left,
            Predicate::Member { value, .. } => value,
            Predicate::Captured { .. } => return false,
        };
        let mut value = left;
        loop {
            match self.function.get(value) {
                Value::Binary { left, .. } => value = left,
                Value::Load { width, index: found, displacement } => {
                    return found == index
                        && displacement.checked_add(width.bytes()) == Some(bytes)
                        && self.now.a != Some(left);
                }
                _ => return false,
            }
        }
    }

    /// Continues at `found` if A is in `set`, else at `missing`.
    fn search(&mut self, set: &[u32], found: Target, missing: Target) {
        if let Some((&k, rest)) = set.split_first().filter(|_| set.len() <= IN_TURN) {
            let next = self.labels.len();
            self.labels.push(0);
            let otherwise = if rest.is_empty() { missing } else { Target::Label(next) };
            self.code.push(Code::Branch { code: 0x15, k, then: found, otherwise });
            self.labels[next] = self.code.len();
            if !rest.is_empty() {
                self.search(rest, found, missing);
            }
            return;
        }
        let (low, high) = set.split_at(set.len() / 2);
        let (Some(&k), Some(_)) = (high.first(), low.first()) else {
            self.code.push(Code::Goto(missing));
            return;
        };
        let (first, second) = (self.labels.len(), self.labels.len() + 1);
        self.labels.extend([0, 0]);
        let (then, otherwise) = (Target::Label(second), Target::Label(first));
        self.code.push(Code::Branch { code: 0x35, k, then, otherwise });
        self.labels[first] = self.code.len();
        self.search(low, found, missing);
        self.labels[second] = self.code.len();
        self.search(high, found, missing);
    }

    /// Loads `left` into A and `right`, which is no constant, into X.
    fn both(&mut self, left: ValueId, right: ValueId, cell: u32) -> Option<()> {
        if self.now.x == Some(right) && self.now.a == Some(left) {
            return Some(());
        }
        self.load_a(right, cell)?;
        self.plain(0x02, cell);
        self.load_a(left, cell + 1)?;
        self.plain(0x61, cell);
        self.now.x = Some(right);
        Some(())
    }

    /// Loads a value into A. Memory cells from `cell` on are free.
    fn load_a(&mut self, id: ValueId, cell: u32) -> Option<()> {
        if self.now.a == Some(id) {
            return Some(());
        }
        if cell as usize >= MEMORY_CELLS {
            return None;
        }
        match self.function.get(id) {
            Value::Constant(k) => self.plain(0x00, k),
            Value::WireLength => self.plain(0x80, 0),
            Value::Parameter { .. } => return None,
            Value::Load { width, index, displacement } => {
                self.load(width, index, displacement, cell)?;
            }
            Value::Binary { op, left, right } => {
                let code = arithmetic(op);
                match self.function.as_constant(right) {
                    // Shifts by 32 and more were folded.
                    Some(k) => {
                        // The recursion is bounded by the number of cells.
                        self.load_a(left, cell + 1)?;
                        self.plain(code, k);
                    }
                    None => {
                        self.both(left, right, cell)?;
                        self.plain(code | 0x08, 0);
                    }
                }
            }
        }
        self.now.a = Some(id);
        Some(())
    }

    fn load(&mut self, width: Width, index: Option<ValueId>, at: u32, cell: u32) -> Option<()> {
        let code = match width {
            Width::Byte => 0x30,
            Width::Half => 0x28,
            Width::Word => 0x20,
        };
        let Some(index) = index else {
            self.plain(code, at);
            return Some(());
        };
        if self.now.x != Some(index) {
            match self.header_length(index) {
                Some(at) => self.plain(0xb1, at),
                None => {
                    self.load_a(index, cell + 1)?;
                    self.plain(0x07, 0);
                }
            }
            self.now.x = Some(index);
        }
        // Indirect loads have mode 0x40 in place of 0x20.
        self.plain(code + 0x20, at);
        Some(())
    }

    /// The offset of the byte, if `id` is 4 times its low nibble.
    fn header_length(&self, id: ValueId) -> Option<u32> {
        let parts = |id, expected| match self.function.get(id) {
            Value::Binary { op, left, right } if op == expected => {
                Some((left, self.function.as_constant(right)?))
            }
            _ => None,
        };
        let (nibble, 2) = parts(id, Arithmetic::Lsh)? else { return None };
        let (byte, 0xf) = parts(nibble, Arithmetic::And)? else { return None };
        match self.function.get(byte) {
            Value::Load { width: Width::Byte, index: None, displacement } => Some(displacement),
            _ => None,
        }
    }

    /// The instructions, with distances.
    fn assembled(&self) -> Option<Vec<Instruction>> {
        let place = |target: Target| match target {
            Target::Block(block) => self.starts[block.0 as usize],
            Target::Label(label) => self.labels[label],
        };
        // The branches that need an unconditional jump, and for which edges.
        let mut far: BTreeMap<usize, (bool, bool)> = BTreeMap::new();
        loop {
            let mut starts = Vec::with_capacity(self.code.len() + 1);
            let mut next = 0_usize;
            for (index, code) in self.code.iter().enumerate() {
                starts.push(next);
                next += match code {
                    Code::Plain(_) => 1,
                    Code::Goto(target) => usize::from(place(*target) != index + 1),
                    Code::Branch { .. } => {
                        let (then, otherwise) = far.get(&index).copied().unwrap_or_default();
                        1 + usize::from(then) + usize::from(otherwise)
                    }
                };
            }
            starts.push(next);
            let mut instructions = Vec::with_capacity(next);
            let mut longer = false;
            for (index, code) in self.code.iter().enumerate() {
                let here = starts[index];
                let distance = |target, from: usize| starts[place(target)].checked_sub(from + 1);
                match *code {
                    Code::Plain(instruction) => instructions.push(instruction),
                    Code::Goto(target) if place(target) == index + 1 => {}
                    Code::Goto(target) => instructions.push(jump(distance(target, here)?)?),
                    Code::Branch { code, k, then, otherwise } => {
                        let (far_then, far_otherwise) =
                            far.get(&index).copied().unwrap_or_default();
                        let near = |target: Target| Some(u8::try_from(distance(target, here)?));
                        let jt = if far_then { Ok(0) } else { near(then)? };
                        let jf =
                            if far_otherwise { Ok(u8::from(far_then)) } else { near(otherwise)? };
                        let (Ok(jt), Ok(jf)) = (jt, jf) else {
                            far.insert(
                                index,
                                (far_then || jt.is_err(), far_otherwise || jf.is_err()),
                            );
                            longer = true;
                            continue;
                        };
                        instructions.push(Instruction { code, jt, jf, k });
                        if far_then {
                            instructions.push(jump(distance(then, here + 1)?)?);
                        }
                        if far_otherwise {
                            let from = here + 1 + usize::from(far_then);
                            instructions.push(jump(distance(otherwise, from)?)?);
                        }
                    }
                }
            }
            if !longer {
                return Some(instructions);
            }
        }
    }
}

fn jump(distance: usize) -> Option<Instruction> {
    Some(Instruction { code: 0x05, jt: 0, jf: 0, k: u32::try_from(distance).ok()? })
}

fn arithmetic(op: Arithmetic) -> u16 {
    match op {
        Arithmetic::Add => 0x04,
        Arithmetic::Sub => 0x14,
        Arithmetic::Mul => 0x24,
        Arithmetic::Div => 0x34,
        Arithmetic::Or => 0x44,
        Arithmetic::And => 0x54,
        Arithmetic::Lsh => 0x64,
        Arithmetic::Rsh => 0x74,
        Arithmetic::Mod => 0x94,
        Arithmetic::Xor => 0xa4,
    }
}
