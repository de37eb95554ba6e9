//! Verified classic BPF programs.
//!
//! A [`Program`] is only created by the verifier, so in every program all codes
//! are valid, jumps land inside, memory cells exist, no constant divides by
//! zero, and the last instruction returns. It is immutable and cheap to clone;
//! workers share one.

pub mod instruction;
pub mod text;

use std::fmt::Write as _;
use std::sync::Arc;

use forebay_packet::Batch;

use crate::interp::Code;
use crate::verify::{Profile, VerifyError, verify};
use instruction::Instruction;
use text::TextError;

/// A verified program.
#[derive(Clone, Debug)]
pub struct Program {
    instructions: Arc<[Instruction]>,
    code: Arc<Code>,
    profile: Profile,
}

/// Text that is not a verified program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// The text cannot be parsed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The text can be parsed, but the program violates a rule.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

impl Program {
    /// Verifies instructions under `profile` and makes a program of them.
    ///
    /// # Errors
    /// The first rule that is violated, and by which instruction.
    pub fn verify(instructions: &[Instruction], profile: Profile) -> Result<Self, VerifyError> {
        verify(instructions, profile)?;
        let code = Arc::new(Code::new(instructions));
        Ok(Self { instructions: instructions.into(), code, profile })
    }

    /// The program that accepts no packet.
    #[must_use]
    pub fn of_nothing() -> Self {
        let instructions = [Instruction { code: 0x06, jt: 0, jf: 0, k: 0 }];
        let code = Arc::new(Code::new(&instructions));
        Self { instructions: instructions.into(), code, profile: Profile::Kernel }
    }

    /// Parses a program from `tcpdump -ddd` text and verifies it under
    /// `profile`.
    ///
    /// # Errors
    /// The line that cannot be parsed, or the instruction that violates a rule.
    pub fn from_text(text: &str, profile: Profile) -> Result<Self, ProgramError> {
        Ok(Self::verify(&text::parse(text)?, profile)?)
    }

    /// The instructions.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// The rules by which the program was verified.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The program as `tcpdump -ddd` prints it.
    #[must_use]
    pub fn ddd(&self) -> String {
        text::print(&self.instructions)
    }

    /// The program as `tcpdump -d` prints it, an instruction a line.
    #[must_use]
    pub fn listing(&self) -> String {
        let mut listing = String::new();
        for (index, instruction) in self.instructions.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(listing, "{}", instruction.listing(index));
        }
        listing
    }

    /// The program's verdict on a packet with captured bytes `packet` and
    /// length `wire_len` on the wire: the number of bytes to keep, 0 to drop
    /// it.
    #[must_use]
    pub fn run(&self, packet: &[u8], wire_len: u32) -> u32 {
        self.code.run(packet, wire_len).unwrap_or(0)
    }

    /// Runs the program over the live packets of `batch` and writes the
    /// verdicts to `batch.verdict`, 0 for packets that were dropped. Drops
    /// none.
    pub fn run_batch(&self, batch: &mut Batch) {
        let mut verdict = std::mem::take(&mut batch.verdict);
        verdict.clear();
        verdict.resize(batch.len(), 0);
        for i in batch.live().iter() {
            verdict[i] = self.run(batch.packet(i), batch.wire_len(i));
        }
        batch.verdict = verdict;
    }
}

impl PartialEq for Program {
    /// Programs are equal when their instructions are.
    fn eq(&self, other: &Self) -> bool {
        self.instructions == other.instructions
    }
}

impl Eq for Program {}
