//! One classic BPF instruction: its stored form, its meaning, its text.
//!
//! The stored form is the kernel's `struct sock_filter` and libpcap's `struct
//! bpf_insn`: a 16-bit code, two 8-bit jump offsets and a 32-bit constant
//! (McCanne and Jacobson, "The BSD Packet Filter", 1993, section 3). Most of
//! the 65,536 codes are invalid. [`Instruction::decode`] is the only decoder;
//! the verifier, the printer and the interpreter all work on the [`Operation`]
//! it returns.

use std::fmt;

/// An instruction as stored; its fields are not validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Class, size, mode and operation, as laid out in `<linux/bpf_common.h>`.
    pub code: u16,
    /// Instructions to skip if the test holds.
    pub jt: u8,
    /// Instructions to skip if the test does not hold.
    pub jf: u8,
    /// The constant: an offset, an operand, a cell number or a jump distance.
    pub k: u32,
}

/// The width of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// One byte.
    Byte,
    /// Two bytes, big-endian.
    Half,
    /// Four bytes, big-endian.
    Word,
}

/// The right-hand operand of arithmetic and of tests; the left one is A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The instruction's constant.
    K(u32),
    /// The index register.
    X,
}

/// Arithmetic on A, modulo 2³².
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alu {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Unsigned quotient.
    Div,
    /// Unsigned remainder.
    Mod,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Shift towards the high bits.
    Lsh,
    /// Shift towards the low bits, zeros coming in.
    Rsh,
}

/// An unsigned test of A against an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Equal.
    Eq,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Some bit in common.
    Set,
}

/// The operation of a valid instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A = the packet's bytes at `offset`.
    LoadAbsolute(Size, u32),
    /// A = the packet's bytes at X + `offset`.
    LoadIndirect(Size, u32),
    /// A = length on the wire.
    LoadLength,
    /// A = constant.
    LoadImmediate(u32),
    /// A = M\[cell\].
    LoadMemory(u32),
    /// X = length on the wire.
    LoadXLength,
    /// X = constant.
    LoadXImmediate(u32),
    /// X = M\[cell\].
    LoadXMemory(u32),
    /// X = 4 × the low nibble of the packet's byte at `offset`; A stays.
    LoadXHeader(u32),
    /// M\[cell\] = A.
    Store(u32),
    /// M\[cell\] = X.
    StoreX(u32),
    /// A = A op operand.
    Arithmetic(Alu, Operand),
    /// A = −A.
    Negate,
    /// Skip this many instructions; libpcap reads the number as signed.
    Jump(u32),
    /// Skip `jt` or `jf` instructions.
    Branch(Test, Operand, u8, u8),
    /// End with the constant.
    ReturnConstant(u32),
    /// End with A.
    ReturnA,
    /// X = A.
    MoveAToX,
    /// A = X.
    MoveXToA,
}

/// From this offset on an absolute load reads the Linux kernel's data about the
/// packet instead of the packet's bytes (`SKF_AD_OFF`).
pub const ANCILLARY: u32 = 0xffff_f000;

/// The kernel's names of ancillary data, in steps of a word from [`ANCILLARY`]
/// on.
const ANCILLARY_NAMES: [&str; 16] = [
    "proto",
    "type",
    "ifidx",
    "nla",
    "nlan",
    "mark",
    "queue",
    "hatype",
    "rxhash",
    "cpu",
    "xor_x",
    "vlan_tci",
    "vlanp",
    "poff",
    "random",
    "vlan_tpid",
];

/// The name of the ancillary datum at `offset`, if the kernel has one.
#[must_use]
pub fn ancillary_name(offset: u32) -> Option<&'static str> {
    let distance = offset.checked_sub(ANCILLARY)?;
    if distance % 4 != 0 {
        return None;
    }
    ANCILLARY_NAMES.get(distance as usize / 4).copied()
}

impl Instruction {
    /// The instruction's operation; `None` if its code is invalid.
    #[must_use]
    pub fn decode(self) -> Option<Operation> {
        let k = self.k;
        Some(match self.code {
            0x00 => Operation::LoadImmediate(k),
            0x20 => Operation::LoadAbsolute(Size::Word, k),
            0x28 => Operation::LoadAbsolute(Size::Half, k),
            0x30 => Operation::LoadAbsolute(Size::Byte, k),
            0x40 => Operation::LoadIndirect(Size::Word, k),
            0x48 => Operation::LoadIndirect(Size::Half, k),
            0x50 => Operation::LoadIndirect(Size::Byte, k),
            0x60 => Operation::LoadMemory(k),
            0x80 => Operation::LoadLength,
            0x01 => Operation::LoadXImmediate(k),
            0x61 => Operation::LoadXMemory(k),
            0x81 => Operation::LoadXLength,
            0xb1 => Operation::LoadXHeader(k),
            0x02 => Operation::Store(k),
            0x03 => Operation::StoreX(k),
            0x84 => Operation::Negate,
            0x05 => Operation::Jump(k),
            0x06 => Operation::ReturnConstant(k),
            0x16 => Operation::ReturnA,
            0x07 => Operation::MoveAToX,
            0x87 => Operation::MoveXToA,
            _ => return self.decode_with_operand(),
        })
    }

    /// Arithmetic and tests: class 4 or 5, operand in bit 3, operation above.
    fn decode_with_operand(self) -> Option<Operation> {
        let operand = if self.code & 0x08 == 0 { Operand::K(self.k) } else { Operand::X };
        let arithmetic = |alu| Operation::Arithmetic(alu, operand);
        let branch = |test| Operation::Branch(test, operand, self.jt, self.jf);
        Some(match self.code & !0x08 {
            0x04 => arithmetic(Alu::Add),
            0x14 => arithmetic(Alu::Sub),
            0x24 => arithmetic(Alu::Mul),
            0x34 => arithmetic(Alu::Div),
            0x44 => arithmetic(Alu::Or),
            0x54 => arithmetic(Alu::And),
            0x64 => arithmetic(Alu::Lsh),
            0x74 => arithmetic(Alu::Rsh),
            0x94 => arithmetic(Alu::Mod),
            0xa4 => arithmetic(Alu::Xor),
            0x15 => branch(Test::Eq),
            0x25 => branch(Test::Gt),
            0x35 => branch(Test::Ge),
            0x45 => branch(Test::Set),
            _ => return None,
        })
    }

    /// The instruction as `tcpdump -d` lists it at `index` of its program; jump
    /// targets are absolute. libpcap 1.10 pads the mnemonic to eight columns
    /// even if nothing follows, and prints offsets as signed.
    #[must_use]
    pub fn listing(self, index: usize) -> String {
        let (mnemonic, operand) = self.mnemonic_and_operand(index);
        match self.targets(index) {
            Some((jt, jf)) => {
                format!("({index:03}) {mnemonic:<8} {operand:<16} jt {jt}\tjf {jf}")
            }
            None => format!("({index:03}) {mnemonic:<8} {operand}"),
        }
    }

    /// The instruction as in [`Instruction::listing`], for running text.
    #[must_use]
    pub fn assembly(self, index: usize) -> String {
        let (mnemonic, operand) = self.mnemonic_and_operand(index);
        let text = match self.targets(index) {
            Some((jt, jf)) => format!("{mnemonic} {operand} jt {jt} jf {jf}"),
            None => format!("{mnemonic} {operand}"),
        };
        text.trim_end().to_owned()
    }

    /// The targets of a conditional jump at `index`. Only the class decides
    /// whether it is one (5, and not the unconditional jump).
    fn targets(self, index: usize) -> Option<(usize, usize)> {
        let conditional = self.code & 0x07 == 0x05 && self.code & 0xf0 != 0;
        let next = index + 1;
        conditional.then(|| (next + usize::from(self.jt), next + usize::from(self.jf)))
    }

    fn mnemonic_and_operand(self, index: usize) -> (&'static str, String) {
        let Some(operation) = self.decode() else {
            return ("unimp", format!("{:#x}", self.code));
        };
        let signed = |k: u32| k.cast_signed();
        let cell = |k| format!("M[{}]", signed(k));
        match operation {
            Operation::LoadAbsolute(size, k) => (load(size), absolute(k)),
            Operation::LoadIndirect(size, k) => (load(size), format!("[x + {}]", signed(k))),
            Operation::LoadLength => ("ld", "#pktlen".to_owned()),
            Operation::LoadImmediate(k) => ("ld", format!("#{k:#x}")),
            Operation::LoadMemory(k) => ("ld", cell(k)),
            Operation::LoadXLength => ("ldx", "#pktlen".to_owned()),
            Operation::LoadXImmediate(k) => ("ldx", format!("#{k:#x}")),
            Operation::LoadXMemory(k) => ("ldx", cell(k)),
            Operation::LoadXHeader(k) => ("ldxb", format!("4*([{}]&0xf)", signed(k))),
            Operation::Store(k) => ("st", cell(k)),
            Operation::StoreX(k) => ("stx", cell(k)),
            Operation::Arithmetic(alu, operand) => (alu.mnemonic(), alu.operand(operand)),
            Operation::Negate => ("neg", String::new()),
            Operation::Jump(k) => ("ja", (index as i64 + 1 + i64::from(signed(k))).to_string()),
            Operation::Branch(test, Operand::K(k), ..) => (test.mnemonic(), format!("#{k:#x}")),
            Operation::Branch(test, Operand::X, ..) => (test.mnemonic(), "x".to_owned()),
            Operation::ReturnConstant(k) => ("ret", format!("#{}", signed(k))),
            Operation::ReturnA => ("ret", String::new()),
            Operation::MoveAToX => ("tax", String::new()),
            Operation::MoveXToA => ("txa", String::new()),
        }
    }
}

/// `code jt jf k` in decimal, a line of `tcpdump -ddd`.
impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.code, self.jt, self.jf, self.k)
    }
}

impl Alu {
    fn mnemonic(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Mod => "mod",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Lsh => "lsh",
            Self::Rsh => "rsh",
        }
    }

    fn operand(self, operand: Operand) -> String {
        match (self, operand) {
            (_, Operand::X) => "x".to_owned(),
            (Self::And | Self::Or | Self::Xor, Operand::K(k)) => format!("#{k:#x}"),
            (_, Operand::K(k)) => format!("#{}", k.cast_signed()),
        }
    }
}

impl Test {
    fn mnemonic(self) -> &'static str {
        match self {
            Self::Eq => "jeq",
            Self::Gt => "jgt",
            Self::Ge => "jge",
            Self::Set => "jset",
        }
    }
}

fn load(size: Size) -> &'static str {
    match size {
        Size::Byte => "ldb",
        Size::Half => "ldh",
        Size::Word => "ld",
    }
}

fn absolute(k: u32) -> String {
    match ancillary_name(k) {
        Some(name) => format!("[{name}]"),
        None => format!("[{}]", k.cast_signed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_code_is_decoded_once() {
        let known = (0..=u16::MAX)
            .filter(|&code| Instruction { code, jt: 0, jf: 0, k: 1 }.decode().is_some())
            .count();
        assert_eq!(known, 21 + 2 * 14);
    }

    #[test]
    fn listing_pads_and_signs_as_libpcap_does() {
        let at = |index, code, k| Instruction { code, jt: 3, jf: 0, k }.listing(index);
        assert_eq!(at(0, 0x28, 12), "(000) ldh      [12]");
        assert_eq!(at(1, 0x15, 0x800), "(001) jeq      #0x800           jt 5\tjf 2");
        assert_eq!(at(7, 0x07, 0), "(007) tax      ");
        assert_eq!(at(9, 0x05, 0u32.wrapping_sub(5)), "(009) ja       5");
        assert_eq!(at(10, 0x30, ANCILLARY + 48), "(010) ldb      [vlanp]");
        assert_eq!(at(11, 0x14, u32::MAX), "(011) sub      #-1");
        assert_eq!(at(12, 0xff, 0), "(012) unimp    0xff");
        assert_eq!(at(13, 0x55, 0), "(013) unimp    0x55             jt 17\tjf 14");
        assert_eq!(at(1000, 0x06, 262_144), "(1000) ret      #262144");
    }
}
