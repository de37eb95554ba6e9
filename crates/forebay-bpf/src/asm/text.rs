//! Code as text, in the notation of the kernel's verifier, so that its log can be compared
//! with a listing. Line numbers are slots, as in the log.

use std::fmt;

use super::{Alu, Code, Condition, Instruction, Label, Operand, Register, Size, Width};

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", *self as u8)
    }
}

/// A register with the width of an operation.
struct Sized(Width, Register);

impl fmt::Display for Sized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.0 == Width::W64 { 'r' } else { 'w' };
        write!(f, "{name}{}", self.1 as u8)
    }
}

/// An operand with the width of an operation.
struct SizedOperand(Width, Operand);

impl fmt::Display for SizedOperand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Operand::Register(register) => Sized(self.0, register).fmt(f),
            Operand::Immediate(value) => value.fmt(f),
        }
    }
}

impl Alu {
    fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+=",
            Self::Sub => "-=",
            Self::Mul => "*=",
            Self::Div => "/=",
            Self::Or => "|=",
            Self::And => "&=",
            Self::Lsh => "<<=",
            Self::Rsh => ">>=",
            Self::Mod => "%=",
            Self::Xor => "^=",
            Self::Mov => "=",
        }
    }
}

impl Condition {
    fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::AnyBit => "&",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        }
    }
}

/// Memory at an offset from a register.
struct Memory(Size, Register, i16);

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(size, base, offset) = self;
        write!(f, "*(u{} *)({base} {offset:+})", size.bytes() * 8)
    }
}

impl Code {
    fn label_name(&self, label: Label) -> &'static str {
        self.labels[label.0 as usize].name
    }

    fn write_instruction(
        &self,
        f: &mut fmt::Formatter<'_>,
        instruction: Instruction,
    ) -> fmt::Result {
        match instruction {
            Instruction::Alu { width, op, dst, src } => {
                write!(f, "{} {} {}", Sized(width, dst), op.symbol(), SizedOperand(width, src))
            }
            Instruction::Negate { width, dst } => {
                write!(f, "{0} = -{0}", Sized(width, dst))
            }
            Instruction::FromBigEndian { size, dst } => {
                write!(f, "{dst} = be{} {dst}", size.bytes() * 8)
            }
            Instruction::Load { size, dst, base, offset } => {
                write!(f, "{dst} = {}", Memory(size, base, offset))
            }
            Instruction::Store { size, base, offset, src } => {
                write!(f, "{} = {}", Memory(size, base, offset), SizedOperand(Width::W64, src))
            }
            Instruction::LoadMap { dst, .. } => write!(f, "{dst} = map"),
            Instruction::LoadMapValue { dst, offset, .. } => {
                write!(f, "{dst} = map value +{offset}")
            }
            Instruction::Jump { target } => write!(f, "goto {}", self.label_name(target)),
            Instruction::Branch { width, condition, dst, src, target } => {
                let (dst, src) = (Sized(width, dst), SizedOperand(width, src));
                let label = self.label_name(target);
                write!(f, "if {dst} {} {src} goto {label}", condition.symbol())
            }
            Instruction::Call { helper } => write!(f, "call {}", helper.name()),
            Instruction::Exit => f.write_str("exit"),
            Instruction::Compiled { slots, .. } => write!(f, "{slots} slots compiled from C"),
        }
    }
}

/// A listing with an instruction or a label on each line.
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut labels: Vec<_> =
            self.labels.iter().filter_map(|label| Some((label.at?, label.name))).collect();
        labels.sort_by_key(|&(at, _)| at);
        let mut labels = labels.into_iter().peekable();
        for (i, &instruction) in self.instructions.iter().enumerate() {
            while let Some((_, name)) = labels.next_if(|&(at, _)| at == i) {
                writeln!(f, "{name}:")?;
            }
            write!(f, "{:4}: ", self.starts[i])?;
            self.write_instruction(f, instruction)?;
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Assembler, Helper, Register::*};
    use super::*;

    #[test]
    fn listings_read_like_the_verifiers() {
        let mut asm = Assembler::new();
        let end = asm.label("end");
        asm.load_network(Size::Half, R2, R1, 12);
        asm.branch32(Condition::NotEqual, R2, 0x800, end);
        asm.emit(Instruction::LoadMapValue { dst: R3, fd: 9, offset: 40 });
        asm.emit(Instruction::Negate { width: Width::W32, dst: R3 });
        asm.alu(Alu::Lsh, R3, R2);
        asm.store(Size::Double, FP, -8, R3);
        asm.store(Size::Byte, FP, -9, 1);
        asm.call(Helper::GetSmpProcessorId);
        asm.bind(end);
        asm.exit_with(0);
        let expected = "   0: r2 = *(u16 *)(r1 +12)
   1: r2 = be16 r2
   2: if w2 != 2048 goto end
   3: r3 = map value +40
   5: w3 = -w3
   6: r3 <<= r2
   7: *(u64 *)(r10 -8) = r3
   8: *(u8 *)(r10 -9) = 1
   9: call bpf_get_smp_processor_id
end:
  10: r0 = 0
  11: exit
";
        assert_eq!(asm.finish().unwrap().to_string(), expected);
    }
}
