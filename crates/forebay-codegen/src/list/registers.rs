//! General-purpose registers, and their use in the code of this back end.
//!
//! Per-packet state is in caller-saved registers. The rest of those registers
//! are allocated first, so that most filters save none.

use iced_x86::Register;

/// A general-purpose register by its number in the encoding, regardless of the
/// width used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gpr(pub u8);

impl Gpr {
    pub(crate) const RAX: Self = Self(0);
    pub(crate) const RCX: Self = Self(1);
    pub(crate) const RDX: Self = Self(2);
    pub(crate) const RBX: Self = Self(3);
    pub(crate) const RBP: Self = Self(5);
    const RSI: Self = Self(6);
    const RDI: Self = Self(7);

    /// The low byte.
    pub(crate) fn r8(self) -> Register {
        const NAMES: [Register; 16] = [
            Register::AL,
            Register::CL,
            Register::DL,
            Register::BL,
            Register::SPL,
            Register::BPL,
            Register::SIL,
            Register::DIL,
            Register::R8L,
            Register::R9L,
            Register::R10L,
            Register::R11L,
            Register::R12L,
            Register::R13L,
            Register::R14L,
            Register::R15L,
        ];
        NAMES[usize::from(self.0 & 15)]
    }

    /// The low 16 bits.
    pub(crate) fn r16(self) -> Register {
        const NAMES: [Register; 16] = [
            Register::AX,
            Register::CX,
            Register::DX,
            Register::BX,
            Register::SP,
            Register::BP,
            Register::SI,
            Register::DI,
            Register::R8W,
            Register::R9W,
            Register::R10W,
            Register::R11W,
            Register::R12W,
            Register::R13W,
            Register::R14W,
            Register::R15W,
        ];
        NAMES[usize::from(self.0 & 15)]
    }

    /// The low 32 bits.
    pub(crate) fn r32(self) -> Register {
        const NAMES: [Register; 16] = [
            Register::EAX,
            Register::ECX,
            Register::EDX,
            Register::EBX,
            Register::ESP,
            Register::EBP,
            Register::ESI,
            Register::EDI,
            Register::R8D,
            Register::R9D,
            Register::R10D,
            Register::R11D,
            Register::R12D,
            Register::R13D,
            Register::R14D,
            Register::R15D,
        ];
        NAMES[usize::from(self.0 & 15)]
    }

    /// All 64 bits.
    pub(crate) fn r64(self) -> Register {
        const NAMES: [Register; 16] = [
            Register::RAX,
            Register::RCX,
            Register::RDX,
            Register::RBX,
            Register::RSP,
            Register::RBP,
            Register::RSI,
            Register::RDI,
            Register::R8,
            Register::R9,
            Register::R10,
            Register::R11,
            Register::R12,
            Register::R13,
            Register::R14,
            Register::R15,
        ];
        NAMES[usize::from(self.0 & 15)]
    }
}

/// Arguments, where a call has them: see [`crate::convention`].
pub(crate) mod entry {
    use super::Gpr;

    pub(crate) const OFFSET: Gpr = Gpr::RSI;
    pub(crate) const COUNT: Gpr = Gpr::RDX;
    pub(crate) const WIRE_LEN: Gpr = Gpr::RCX;
}

/// The base of the packets: an argument.
pub(crate) const BASE: Gpr = Gpr::RDI;
/// The packet.
pub(crate) const PACKET: Gpr = Gpr::RSI;
/// The end of the table of captured lengths; its start is an argument.
pub(crate) const CAP_LEN: Gpr = Gpr(8);
/// The end of the table of verdicts; its start is an argument.
pub(crate) const VERDICT: Gpr = Gpr(9);
/// The end of the table of offsets.
pub(crate) const OFFSET: Gpr = Gpr(10);
/// The packet's number less their count: it is negative, and 0 after the last one.
pub(crate) const NUMBER: Gpr = Gpr(11);

/// Registers for values, in order of allocation: callee-saved ones come last.
pub(crate) const VALUES: [Gpr; 9] =
    [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RBX, Gpr::RBP, Gpr(14), Gpr(15), Gpr(12), Gpr(13)];

/// Whether a function must preserve `register`.
pub(crate) fn is_callee_saved(register: Gpr) -> bool {
    matches!(register.0, 3 | 5 | 12..=15)
}
