//! Encodes instructions, and fills in labels and constants at the end.
//!
//! Jumps always have 32-bit distances and constants are always addressed
//! relative to the instruction pointer. So the size of an instruction is known
//! when it is appended, and one pass is enough.

use forebay_filter::cancel;
use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::pool::Pool;
use crate::mir::PoolId;

/// A position in the code, bound once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(u32);

/// An instruction that cannot be encoded: a bug in the back end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction '{instruction}' cannot be encoded: {reason}")]
pub struct EncodeError {
    /// The instruction's code.
    pub instruction: String,
    /// The encoder's message.
    pub reason: String,
}

/// The target of a 32-bit distance in the code.
#[derive(Clone, Copy, Debug)]
enum Target {
    Label(Label),
    Pool(PoolId, i32),
}

/// A distance to be filled in.
#[derive(Clone, Copy, Debug)]
struct Fixup {
    /// Position of its four bytes.
    at: usize,
    /// Start of the next instruction, which distances are relative to.
    next: usize,
    target: Target,
}

/// Finished code.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// Instructions, padding, constants.
    pub bytes: Vec<u8>,
    /// Where the constants start, a multiple of 64.
    pub constants_at: usize,
    /// Byte offsets and texts, ascending.
    pub notes: Vec<(usize, String)>,
    labels: Vec<Option<usize>>,
}

impl Assembled {
    /// The offset that `label` is bound to.
    #[must_use]
    pub fn offset(&self, label: Label) -> Option<usize> {
        self.labels.get(label.0 as usize).copied().flatten()
    }
}

/// Code under construction.
pub struct Assembler {
    encoder: Encoder,
    bytes: Vec<u8>,
    labels: Vec<Option<usize>>,
    fixups: Vec<Fixup>,
    notes: Vec<(usize, String)>,
    explains: bool,
    /// The constants; entries may be added at any time.
    pub pool: Pool,
}

impl Default for Assembler {
    fn default() -> Self {
        Self {
            encoder: Encoder::new(64),
            bytes: Vec::with_capacity(8192),
            labels: Vec::new(),
            fixups: Vec::new(),
            notes: Vec::new(),
            explains: true,
            pool: Pool::default(),
        }
    }
}

impl Assembler {
    /// Sets whether notes are kept.
    #[must_use]
    pub fn new(explains: bool) -> Self {
        Self { explains, ..Self::default() }
    }

    /// Whether notes are kept.
    #[must_use]
    pub fn explains(&self) -> bool {
        self.explains
    }

    /// Bytes emitted so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Notes the purpose of the code from here on.
    pub fn note(&mut self, text: impl Into<String>) {
        if self.explains {
            self.notes.push((self.bytes.len(), text.into()));
        }
    }

    /// A new label, to be bound later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds `label` here.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.bytes.len());
    }

    /// Appends an instruction without label or constant.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn push(&mut self, instruction: &Instruction) -> Result<(), EncodeError> {
        cancel::check();
        self.encoder
            .encode(instruction, self.bytes.len() as u64)
            .map_err(|error| refused(instruction.code(), &error))?;
        let encoded = self.encoder.take_buffer();
        self.bytes.extend_from_slice(&encoded);
        self.encoder.set_buffer(reuse(encoded));
        Ok(())
    }

    /// Appends a near jump, conditional or not, to `label`; `code` is a form
    /// with a 32-bit distance.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn jump(&mut self, code: Code, label: Label) -> Result<(), EncodeError> {
        let start = self.bytes.len();
        let instruction = Instruction::with_branch(code, start as u64 + 64)
            .map_err(|error| refused(code, &error))?;
        self.push(&instruction)?;
        let at = start + self.encoder.get_constant_offsets().immediate_offset();
        let next = self.bytes.len();
        self.fixups.push(Fixup { at, next, target: Target::Label(label) });
        Ok(())
    }

    /// Appends an instruction whose memory operand is [`Assembler::constant`];
    /// the address is `plus` bytes into constant `id`.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn push_with_constant(
        &mut self,
        instruction: &Instruction,
        id: PoolId,
        plus: i32,
    ) -> Result<(), EncodeError> {
        let start = self.bytes.len();
        self.push(instruction)?;
        let at = start + self.encoder.get_constant_offsets().displacement_offset();
        let next = self.bytes.len();
        self.fixups.push(Fixup { at, next, target: Target::Pool(id, plus) });
        Ok(())
    }

    /// The placeholder memory operand for instructions given to
    /// [`Assembler::push_with_constant`].
    #[must_use]
    pub fn constant(&self) -> MemoryOperand {
        MemoryOperand::with_base_displ(Register::RIP, self.bytes.len() as i64)
    }

    /// Pads with no-operations to the next multiple of `align` bytes, using as
    /// few as possible.
    ///
    /// # Errors
    /// If one cannot be encoded.
    pub fn align(&mut self, align: usize) -> Result<(), EncodeError> {
        while !self.bytes.len().is_multiple_of(align) {
            let left = self.bytes.len().next_multiple_of(align) - self.bytes.len();
            self.push(&no_operation(left))?;
        }
        Ok(())
    }

    /// Fills in all distances and appends the constants.
    ///
    /// # Errors
    /// If a label was never bound, or the code exceeds 2 GiB.
    pub fn finish(mut self) -> Result<Assembled, EncodeError> {
        let constants_at = self.bytes.len().next_multiple_of(64);
        for fixup in &self.fixups {
            let target = match fixup.target {
                Target::Label(label) => self.labels[label.0 as usize]
                    .map(|offset| offset as i64)
                    .ok_or_else(|| EncodeError {
                    instruction: format!("jump at byte {}", fixup.at),
                    reason: "its label is not bound".to_owned(),
                })?,
                Target::Pool(id, plus) => {
                    (constants_at + self.pool.start(id)) as i64 + i64::from(plus)
                }
            };
            let distance = i32::try_from(target - fixup.next as i64).map_err(|_| EncodeError {
                instruction: format!("distance at byte {}", fixup.at),
                reason: "the target is more than 2 GiB away".to_owned(),
            })?;
            self.bytes[fixup.at..fixup.at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        // Never executed: the last instruction returns or jumps.
        self.bytes.resize(constants_at, 0xcc);
        self.bytes.extend_from_slice(self.pool.bytes());
        Ok(Assembled { bytes: self.bytes, constants_at, notes: self.notes, labels: self.labels })
    }
}

/// A no-operation of at most `bytes` bytes.
fn no_operation(bytes: usize) -> Instruction {
    let memory = |displacement, size| {
        let base = Register::RAX;
        MemoryOperand::with_base_displ_size(base, displacement, size)
    };
    let operation = match bytes {
        0..3 => return Instruction::with(Code::Nopd),
        3..7 => Instruction::with1(Code::Nop_rm32, memory(0, 0)),
        7.. => Instruction::with1(Code::Nop_rm32, memory(0x100, 8)),
    };
    operation.unwrap_or_else(|_| Instruction::with(Code::Nopd))
}

/// The encoder's buffer, emptied for the next instruction.
fn reuse(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    buffer
}

/// A memory operand with an index.
pub(crate) fn indexed(
    base: Register,
    index: Register,
    scale: u32,
    displacement: i64,
) -> MemoryOperand {
    let size = u32::from(displacement != 0);
    MemoryOperand::new(base, index, scale, displacement, size, false, Register::None)
}

fn refused(code: Code, error: &IcedError) -> EncodeError {
    EncodeError { instruction: format!("{code:?}"), reason: error.to_string() }
}
