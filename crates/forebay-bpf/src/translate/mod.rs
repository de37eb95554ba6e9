//! Translates classic filters to BPF code, with libpcap's semantics.
//!
//! Each instruction becomes a few, in place: A, X and M\[\] are in registers and on the
//! stack, 32 bits each. Where the two machines differ the code implements the classic rule:
//! a load outside the packet and a division by X = 0 end the filter with 0 (BPF would
//! continue), a shift by 32 or more gives 0 (BPF masks the count), X + k does not wrap.
//! Comparisons are of 32 bits, unsigned; `LEN` is the length of the whole frame.
//!
//! Some filters cannot be translated: the BPF verifier would not accept the loop of a
//! backward jump (`ip protochain`), and frames have no ancillary data. Unreachable
//! instructions are omitted, as the verifier refuses programs that contain them.
//!
//! How bytes are read depends on the place of the program ([`Context`]). In both places a
//! filter sees the first 65,535 bytes of a frame; a load beyond counts as outside.

mod error;
mod load;
mod registers;

use forebay_filter::program::instruction::{
    ANCILLARY, Alu as ClassicAlu, Instruction, Operand as ClassicOperand, Operation, Test,
};
use forebay_filter::verify::MEMORY_CELLS;

use crate::asm::Register::{FP, R0, R1, R6};
use crate::asm::{Alu, Assembler, Condition, Instruction as Code, Label, Operand, Size, Width};
use crate::error::BpfError;
use crate::program::{Action, Kind, Program};
use load::Loads;
use registers::{A, LENGTH, X, memory, width};

pub use error::{Obstacle, TranslateError};
pub use load::{Context, KEEP_ALL};

/// Generates and loads a program that returns the filter's verdict: for a socket, or as a
/// classifier with the same code.
///
/// # Errors
/// If the filter cannot be translated, or the kernel refuses the program.
pub fn load_socket_filter(
    filter: &forebay_filter::Program,
    kind: Kind,
) -> Result<Program, BpfError> {
    let mut asm = Assembler::new();
    let verdict = asm.label("verdict");
    asm.mov(R6, R1);
    emit(&mut asm, filter, Context::Socket, verdict)?;
    asm.bind(verdict);
    asm.exit();
    Program::load("forebay_filter", kind, asm)
}

/// Generates and loads an XDP program that drops the frames that the filter rejects and
/// returns `keep` for the others.
///
/// # Errors
/// If the filter cannot be translated, or the kernel refuses the program.
pub fn load_xdp_filter(
    filter: &forebay_filter::Program,
    multi_buffer: bool,
    keep: Action,
) -> Result<Program, BpfError> {
    let mut asm = Assembler::new();
    let (verdict, dropped) = (asm.label("verdict"), asm.label("dropped"));
    asm.mov(R6, R1);
    emit(&mut asm, filter, Context::Xdp { multi_buffer }, verdict)?;
    asm.bind(verdict);
    asm.branch32(Condition::Equal, R0, 0, dropped);
    asm.exit_with(keep as i32);
    asm.bind(dropped);
    asm.exit_with(Action::Drop as i32);
    Program::load("forebay_filter", Kind::Xdp { multi_buffer }, asm)
}

/// Checks that a filter can be translated, for frames from a driver.
///
/// # Errors
/// The first instruction that cannot.
pub fn check(filter: &forebay_filter::Program) -> Result<(), TranslateError> {
    decode(filter.instructions()).map(drop)
}

/// Appends code that jumps to `verdict` with the filter's result in R0, whose upper half is
/// 0. In: R6 is the context, which is kept; clobbers all other registers.
///
/// # Errors
/// The first instruction that cannot be translated.
pub(crate) fn emit(
    asm: &mut Assembler,
    filter: &forebay_filter::Program,
    context: Context,
    verdict: Label,
) -> Result<(), TranslateError> {
    let operations = decode(filter.instructions())?;
    let reached = reached(&operations);
    let places = operations.iter().map(|_| asm.label("filter")).collect();
    let reject = asm.label("reject");
    let mut translation =
        Translation { loads: Loads::new(context, reject), asm, places, verdict, reject };
    translation.begin(&operations);
    for (index, &operation) in operations.iter().enumerate() {
        if reached[index] {
            translation.asm.bind(translation.places[index]);
            translation.operation(index, operation);
        }
    }
    translation.end();
    Ok(())
}

/// The operations, if BPF supports all of them.
fn decode(instructions: &[Instruction]) -> Result<Vec<Operation>, TranslateError> {
    let decode = |(index, &instruction): (usize, &Instruction)| {
        let refuse = |obstacle| TranslateError { index, instruction, obstacle };
        match instruction.decode().ok_or(refuse(Obstacle::Unknown))? {
            Operation::LoadAbsolute(_, ANCILLARY..) => Err(refuse(Obstacle::Ancillary)),
            Operation::Jump(distance) if distance.cast_signed() < 0 => {
                Err(refuse(Obstacle::BackwardJump))
            }
            operation => Ok(operation),
        }
    };
    instructions.iter().enumerate().map(decode).collect()
}

/// By operation: whether it is reachable. All jumps go forward.
fn reached(operations: &[Operation]) -> Vec<bool> {
    let mut reached = vec![false; operations.len()];
    reached[0] = true;
    for (index, &operation) in operations.iter().enumerate() {
        if !reached[index] {
            continue;
        }
        let next = index + 1;
        match operation {
            Operation::ReturnConstant(_) | Operation::ReturnA => {}
            Operation::Jump(distance) => reached[next + distance as usize] = true,
            Operation::Branch(_, _, jt, jf) => {
                reached[next + usize::from(jt)] = true;
                reached[next + usize::from(jf)] = true;
            }
            operation if load::always_fails(operation) => {}
            _ => reached[next] = true,
        }
    }
    reached
}

struct Translation<'a> {
    asm: &'a mut Assembler,
    loads: Loads,
    /// By operation: the label of its code.
    places: Vec<Label>,
    verdict: Label,
    /// Ends the filter with 0.
    reject: Label,
}

impl Translation<'_> {
    /// The initial state of the filter: zeros.
    fn begin(&mut self, operations: &[Operation]) {
        let wants_length = operations
            .iter()
            .any(|op| matches!(op, Operation::LoadLength | Operation::LoadXLength));
        self.loads.begin(self.asm, wants_length, self.verdict);
        self.asm.mov(A, 0);
        self.asm.mov(X, 0);
        let loaded = |cell: u32| {
            operations.iter().any(|op| {
                matches!(op, Operation::LoadMemory(k) | Operation::LoadXMemory(k) if *k == cell)
            })
        };
        for cell in (0..MEMORY_CELLS as u32).filter(|&cell| loaded(cell)) {
            self.asm.store(Size::Word, FP, memory(cell), 0);
        }
    }

    fn operation(&mut self, index: usize, operation: Operation) {
        let next = index + 1;
        match operation {
            Operation::LoadAbsolute(size, at) => self.loads.absolute(self.asm, A, width(size), at),
            Operation::LoadIndirect(size, at) => self.loads.indirect(self.asm, A, width(size), at),
            Operation::LoadXHeader(at) => {
                self.loads.absolute(self.asm, X, Size::Byte, at);
                if !load::always_fails(operation) {
                    self.asm.alu32(Alu::And, X, 0xf);
                    self.asm.alu32(Alu::Lsh, X, 2);
                }
            }
            Operation::LoadLength => self.asm.load(Size::Word, A, FP, LENGTH),
            Operation::LoadXLength => self.asm.load(Size::Word, X, FP, LENGTH),
            Operation::LoadImmediate(k) => self.asm.alu32(Alu::Mov, A, k.cast_signed()),
            Operation::LoadXImmediate(k) => self.asm.alu32(Alu::Mov, X, k.cast_signed()),
            Operation::LoadMemory(cell) => self.asm.load(Size::Word, A, FP, memory(cell)),
            Operation::LoadXMemory(cell) => self.asm.load(Size::Word, X, FP, memory(cell)),
            Operation::Store(cell) => self.asm.store(Size::Word, FP, memory(cell), A),
            Operation::StoreX(cell) => self.asm.store(Size::Word, FP, memory(cell), X),
            Operation::MoveAToX => self.asm.mov(X, A),
            Operation::MoveXToA => self.asm.mov(A, X),
            Operation::Negate => self.asm.emit(Code::Negate { width: Width::W32, dst: A }),
            Operation::Arithmetic(alu, operand) => self.arithmetic(alu, operand),
            Operation::Jump(distance) => self.asm.jump(self.places[next + distance as usize]),
            Operation::Branch(test, operand, jt, jf) => {
                let place = |skip: u8| self.places[next + usize::from(skip)];
                let (taken, other) = (place(jt), place(jf));
                self.branch(test, operand, (jt > 0).then_some(taken), (jf > 0).then_some(other));
            }
            Operation::ReturnConstant(k) => {
                self.asm.alu32(Alu::Mov, R0, k.cast_signed());
                self.asm.jump(self.verdict);
            }
            Operation::ReturnA => {
                self.asm.mov(R0, A);
                self.asm.jump(self.verdict);
            }
        }
    }

    fn arithmetic(&mut self, alu: ClassicAlu, operand: ClassicOperand) {
        let op = match alu {
            ClassicAlu::Add => Alu::Add,
            ClassicAlu::Sub => Alu::Sub,
            ClassicAlu::Mul => Alu::Mul,
            ClassicAlu::Div => Alu::Div,
            ClassicAlu::Mod => Alu::Mod,
            ClassicAlu::And => Alu::And,
            ClassicAlu::Or => Alu::Or,
            ClassicAlu::Xor => Alu::Xor,
            ClassicAlu::Lsh => Alu::Lsh,
            ClassicAlu::Rsh => Alu::Rsh,
        };
        match (op, operand) {
            (Alu::Lsh | Alu::Rsh, ClassicOperand::K(32..)) => self.asm.mov(A, 0),
            (Alu::Lsh | Alu::Rsh, ClassicOperand::X) => {
                let (shift, done) = (self.asm.label("shift"), self.asm.label("shifted"));
                self.asm.branch32(Condition::Less, X, 32, shift);
                self.asm.mov(A, 0);
                self.asm.jump(done);
                self.asm.bind(shift);
                self.asm.alu32(op, A, X);
                self.asm.bind(done);
            }
            (Alu::Div | Alu::Mod, ClassicOperand::X) => {
                self.asm.branch32(Condition::Equal, X, 0, self.reject);
                self.asm.alu32(op, A, X);
            }
            _ => self.asm.alu32(op, A, second(operand)),
        }
    }

    /// A conditional jump; a missing label is the next operation.
    fn branch(
        &mut self,
        test: Test,
        operand: ClassicOperand,
        taken: Option<Label>,
        other: Option<Label>,
    ) {
        let (condition, inverse) = match test {
            Test::Eq => (Condition::Equal, Some(Condition::NotEqual)),
            Test::Gt => (Condition::Greater, Some(Condition::LessOrEqual)),
            Test::Ge => (Condition::GreaterOrEqual, Some(Condition::Less)),
            Test::Set => (Condition::AnyBit, None),
        };
        match (taken, other, inverse) {
            (None, None, _) => {}
            (None, Some(other), Some(inverse)) => {
                self.asm.branch32(inverse, A, second(operand), other);
            }
            (None, Some(other), None) => {
                let next = self.asm.label("next");
                self.asm.branch32(condition, A, second(operand), next);
                self.asm.jump(other);
                self.asm.bind(next);
            }
            (Some(taken), other, _) => {
                self.asm.branch32(condition, A, second(operand), taken);
                if let Some(other) = other {
                    self.asm.jump(other);
                }
            }
        }
    }

    /// Shared ends of the filter.
    fn end(mut self) {
        self.loads.end(self.asm);
        if self.asm.is_used(self.reject) {
            self.asm.bind(self.reject);
            self.asm.mov(R0, 0);
            self.asm.jump(self.verdict);
        }
    }
}

/// The second operand of arithmetic and tests.
fn second(operand: ClassicOperand) -> Operand {
    match operand {
        ClassicOperand::K(k) => Operand::Immediate(k.cast_signed()),
        ClassicOperand::X => Operand::Register(X),
    }
}
