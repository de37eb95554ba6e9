//! Vector instructions of networks, by width.

use iced_x86::Code;

use crate::code::Isa;
use crate::machine::Units;

use super::network::Arity;

/// The vectors that hold the bits of a group of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 512 packets, AVX-512.
    Zmm,
    /// 256 packets, AVX-512.
    Ymm,
    /// 256 packets, AVX2.
    YmmAvx2,
}

impl Width {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Zmm, Self::Ymm, Self::YmmAvx2];

    /// The instruction-set level that it needs.
    #[must_use]
    pub fn isa(self) -> Isa {
        match self {
            Self::Zmm | Self::Ymm => Isa::Avx512Bw,
            Self::YmmAvx2 => Isa::Avx2,
        }
    }

    /// The most inputs of a node that one instruction computes.
    #[must_use]
    pub fn arity(self) -> Arity {
        match self {
            Self::Zmm | Self::Ymm => Arity::Three,
            Self::YmmAvx2 => Arity::Two,
        }
    }

    /// Bytes of a vector.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Zmm => 64,
            Self::Ymm | Self::YmmAvx2 => 32,
        }
    }

    /// Packets of a group, a bit each.
    #[must_use]
    pub fn packets(self) -> usize {
        8 * self.bytes()
    }

    /// The number of vector registers.
    pub(super) fn registers(self) -> usize {
        match self {
            Self::Zmm | Self::Ymm => 32,
            Self::YmmAvx2 => 16,
        }
    }

    pub(super) fn load(self) -> Code {
        match self {
            Self::Zmm => Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512,
            Self::Ymm => Code::EVEX_Vmovdqu64_ymm_k1z_ymmm256,
            Self::YmmAvx2 => Code::VEX_Vmovdqu_ymm_ymmm256,
        }
    }

    pub(super) fn store(self) -> Code {
        match self {
            Self::Zmm => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
            Self::Ymm => Code::EVEX_Vmovdqu64_ymmm256_k1z_ymm,
            Self::YmmAvx2 => Code::VEX_Vmovdqu_ymmm256_ymm,
        }
    }

    pub(super) fn store_units(self) -> Units {
        if self == Self::Zmm { Units::STORE_512 } else { Units::STORE }
    }

    pub(super) fn logic_units(self) -> Units {
        if self == Self::Zmm { Units::LOGIC_512 } else { Units::LOGIC }
    }

    /// `vpternlog`: any function of three vectors; AVX-512 only.
    pub(super) fn ternary(self) -> Code {
        match self {
            Self::Zmm => Code::EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8,
            Self::Ymm | Self::YmmAvx2 => Code::EVEX_Vpternlogd_ymm_k1z_ymm_ymmm256b32_imm8,
        }
    }

    pub(super) fn binary(self, function: Binary) -> Code {
        match (self, function) {
            (Self::Zmm, Binary::And) => Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32,
            (Self::Zmm, Binary::AndNot) => Code::EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32,
            (Self::Zmm, Binary::Or) => Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32,
            (Self::Zmm, Binary::Xor) => Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32,
            (Self::Ymm, Binary::And) => Code::EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32,
            (Self::Ymm, Binary::AndNot) => Code::EVEX_Vpandnd_ymm_k1z_ymm_ymmm256b32,
            (Self::Ymm, Binary::Or) => Code::EVEX_Vpord_ymm_k1z_ymm_ymmm256b32,
            (Self::Ymm, Binary::Xor) => Code::EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32,
            (Self::YmmAvx2, Binary::And) => Code::VEX_Vpand_ymm_ymm_ymmm256,
            (Self::YmmAvx2, Binary::AndNot) => Code::VEX_Vpandn_ymm_ymm_ymmm256,
            (Self::YmmAvx2, Binary::Or) => Code::VEX_Vpor_ymm_ymm_ymmm256,
            (Self::YmmAvx2, Binary::Xor) => Code::VEX_Vpxor_ymm_ymm_ymmm256,
        }
    }
}

/// Functions of two vectors that are 0 where both are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    /// `a & b`.
    And,
    /// `!a & b`.
    AndNot,
    /// `a | b`.
    Or,
    /// `a ^ b`.
    Xor,
}

impl Binary {
    /// The operation for a node's table over its two inputs, and whether to
    /// swap the inputs.
    pub(super) fn of_table(table: u8) -> (Self, bool) {
        // Rows for 01, 10 and 11.
        match (table >> 2 & 1, table >> 4 & 1, table >> 6 & 1) {
            (0, 0, _) => (Self::And, false),
            (1, 0, _) => (Self::AndNot, false),
            (0, _, _) => (Self::AndNot, true),
            (1, _, 0) => (Self::Xor, false),
            (_, _, _) => (Self::Or, false),
        }
    }
}
