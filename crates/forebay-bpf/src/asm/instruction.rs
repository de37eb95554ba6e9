//! One BPF instruction, and its encoding in 8 bytes (16 for a 64-bit constant).
//!
//! The encoding is that of the BPF instruction set, version 1 (RFC 9669): a byte for class
//! and operation, a byte for both registers, a 16-bit offset and a 32-bit constant. Two
//! features of later versions are used: 32-bit comparisons (`jmp32`) where requested, and
//! 32-bit jump distances where 16 bits do not suffice.

/// A register. R0 holds results, R1 to R5 arguments, which a call clobbers; R6 to R9
/// survive calls; [`Register::FP`] points past the end of the 512-byte stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    FP,
}

/// The width of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Half,
    /// 4 bytes.
    Word,
    /// 8 bytes.
    Double,
}

/// The register width of an operation. A 32-bit operation clears the upper half of its
/// result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// The lower 32 bits.
    W32,
    /// All 64 bits.
    W64,
}

/// The second operand of arithmetic and comparisons. A constant is sign-extended for 64-bit
/// operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// A constant.
    Immediate(i32),
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Self::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(value: i32) -> Self {
        Self::Immediate(value)
    }
}

/// Arithmetic. The kernel defines a division by a register that is 0 as 0, and such a
/// remainder as the dividend; shifts by a register use its low bits only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
}

/// A comparison, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Condition {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    /// Some bit in common.
    AnyBit = 0x40,
    NotEqual = 0x50,
    Less = 0xa0,
    LessOrEqual = 0xb0,
}

/// Kernel functions, by their numbers in `<linux/bpf.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[allow(missing_docs, reason = "the kernel's own names; bpf-helpers(7) describes them")]
pub enum Helper {
    GetSmpProcessorId = 8,
    SkbLoadBytes = 26,
    RedirectMap = 51,
    XdpGetBuffLen = 188,
    XdpLoadBytes = 189,
}

impl Helper {
    /// The function's name in the kernel.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::GetSmpProcessorId => "bpf_get_smp_processor_id",
            Self::SkbLoadBytes => "bpf_skb_load_bytes",
            Self::RedirectMap => "bpf_redirect_map",
            Self::XdpGetBuffLen => "bpf_xdp_get_buff_len",
            Self::XdpLoadBytes => "bpf_xdp_load_bytes",
        }
    }
}

/// A jump target; created by [`Assembler::label`](super::Assembler::label).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub(super) u32);

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "fields are what the variant's own line says")]
pub enum Instruction {
    /// `dst = dst op src`.
    Alu { width: Width, op: Alu, dst: Register, src: Operand },
    /// `dst = -dst`.
    Negate { width: Width, dst: Register },
    /// The low `size` bytes of `dst` from network byte order, zero-extended.
    FromBigEndian { size: Size, dst: Register },
    /// `dst = *(base + offset)`, zero-extended.
    Load { size: Size, dst: Register, base: Register, offset: i16 },
    /// `*(base + offset) = src`, its low bytes.
    Store { size: Size, base: Register, offset: i16, src: Operand },
    /// `dst` = the map with this file descriptor.
    LoadMap { dst: Register, fd: i32 },
    /// `dst` = address of this byte in the only element of an array map.
    LoadMapValue { dst: Register, fd: i32, offset: u32 },
    /// Jumps to `target`.
    Jump { target: Label },
    /// Jumps to `target` if the comparison of `dst` with `src` holds.
    Branch { width: Width, condition: Condition, dst: Register, src: Operand, target: Label },
    /// `R0 = helper(R1, R2, R3, R4, R5)`.
    Call { helper: Helper },
    /// Ends the program with R0.
    Exit,
    /// Code that the assembler was given, of so many slots.
    Compiled { first: usize, slots: usize },
}

/// Classes of instructions.
const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const ALU: u8 = 0x04;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
const ALU64: u8 = 0x07;

/// Ordinary memory access.
const MEM: u8 = 0x60;
/// The second operand is a register.
const SOURCE_REGISTER: u8 = 0x08;
/// `dst = constant of 64 bits`, over two slots.
const LOAD_IMMEDIATE: u8 = 0x18;
/// The kind of constant in a 64-bit load (`BPF_PSEUDO_MAP_*`).
const PSEUDO_MAP_FD: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;

/// An instruction's fields as stored.
#[derive(Clone, Copy)]
struct Slot {
    code: u8,
    dst: u8,
    src: u8,
    offset: i16,
    immediate: i32,
}

impl Slot {
    const fn new(code: u8) -> Self {
        Self { code, dst: 0, src: 0, offset: 0, immediate: 0 }
    }

    /// The slot with its second operand, and the bit of the code that selects its kind.
    fn operand(self, operand: Operand) -> Self {
        match operand {
            Operand::Register(register) => {
                Self { code: self.code | SOURCE_REGISTER, src: register as u8, ..self }
            }
            Operand::Immediate(immediate) => Self { immediate, ..self },
        }
    }

    /// `struct bpf_insn` of a little-endian host.
    fn bytes(self) -> [u8; 8] {
        let registers = self.src << 4 | self.dst;
        let [o0, o1] = self.offset.to_le_bytes();
        let [i0, i1, i2, i3] = self.immediate.to_le_bytes();
        [self.code, registers, o0, o1, i0, i1, i2, i3]
    }
}

impl Size {
    /// Bytes moved.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
            Self::Double => 8,
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Word => 0x00,
            Self::Half => 0x08,
            Self::Byte => 0x10,
            Self::Double => 0x18,
        }
    }
}

impl Instruction {
    /// Its length in slots of 8 bytes, without a longer jump.
    pub(super) fn slots(self) -> usize {
        match self {
            Self::LoadMap { .. } | Self::LoadMapValue { .. } => 2,
            Self::Compiled { slots, .. } => slots,
            _ => 1,
        }
    }

    /// Appends the encoding of an instruction whose end is `distance` slots before its jump
    /// target. The distance of a conditional jump fits 16 bits; otherwise the assembler has
    /// inserted a longer jump.
    pub(super) fn encode(self, distance: i32, out: &mut Vec<[u8; 8]>) {
        let slot = match self {
            Self::Alu { width, op, dst, src } => {
                let class = if width == Width::W64 { ALU64 } else { ALU };
                Slot { dst: dst as u8, ..Slot::new(class | op as u8) }.operand(src)
            }
            Self::Negate { width, dst } => {
                let class = if width == Width::W64 { ALU64 } else { ALU };
                Slot { dst: dst as u8, ..Slot::new(class | 0x80) }
            }
            Self::FromBigEndian { size, dst } => {
                let immediate = size.bytes() as i32 * 8;
                Slot { dst: dst as u8, immediate, ..Slot::new(ALU | 0xd0 | SOURCE_REGISTER) }
            }
            Self::Load { size, dst, base, offset } => {
                let code = LDX | MEM | size.code();
                Slot { dst: dst as u8, src: base as u8, offset, ..Slot::new(code) }
            }
            Self::Store { size, base, offset, src } => {
                let (class, src, immediate) = match src {
                    Operand::Register(register) => (STX, register as u8, 0),
                    Operand::Immediate(immediate) => (ST, 0, immediate),
                };
                let code = class | MEM | size.code();
                Slot { dst: base as u8, src, offset, immediate, ..Slot::new(code) }
            }
            Self::LoadMap { dst, fd } => {
                return wide(dst, PSEUDO_MAP_FD, u64::from(fd.cast_unsigned()), out);
            }
            Self::LoadMapValue { dst, fd, offset } => {
                let value = u64::from(fd.cast_unsigned()) | u64::from(offset) << 32;
                return wide(dst, PSEUDO_MAP_VALUE, value, out);
            }
            Self::Jump { .. } => match i16::try_from(distance) {
                Ok(offset) => Slot { offset, ..Slot::new(JMP) },
                Err(_) => Slot { immediate: distance, ..Slot::new(JMP32) },
            },
            Self::Branch { width, condition, dst, src, .. } => {
                let class = if width == Width::W64 { JMP } else { JMP32 };
                let code = class | condition as u8;
                Slot { dst: dst as u8, offset: distance as i16, ..Slot::new(code) }.operand(src)
            }
            Self::Call { helper } => Slot { immediate: helper as i32, ..Slot::new(JMP | 0x80) },
            Self::Exit => Slot::new(JMP | 0x90),
            // The assembler has its bytes.
            Self::Compiled { .. } => return,
        };
        out.push(slot.bytes());
    }
}

fn wide(dst: Register, pseudo: u8, value: u64, out: &mut Vec<[u8; 8]>) {
    let half = |code, half: u32| Slot { immediate: half.cast_signed(), ..Slot::new(code) };
    let low = Slot { dst: dst as u8, src: pseudo, ..half(LOAD_IMMEDIATE, value as u32) };
    out.push(low.bytes());
    out.push(half(0, (value >> 32) as u32).bytes());
}
