//! Which instructions are used.

use forebay_packet::Vectors;

/// The instructions by which flows are found, fastest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Those of every machine.
    Scalar,
    /// AVX2, AES, and the instructions on single bits (BMI1 and BMI2).
    Avx2,
    /// AVX-512 and AES; with VAES where the machine has it.
    Avx512,
}

impl Level {
    /// All that this machine has, fastest last.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let all = [Self::Scalar, Self::Avx2, Self::Avx512];
        all.into_iter().filter(|level| level.is_here()).collect()
    }

    /// The fastest of this machine.
    #[must_use]
    pub fn fastest() -> Self {
        Self::all().pop().unwrap_or(Self::Scalar)
    }

    /// Whether this machine has the instructions.
    #[must_use]
    pub fn is_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Scalar => true,
            Self::Avx2 => {
                Vectors::Avx2.are_here()
                    && is_x86_feature_detected!("aes")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
            }
            Self::Avx512 => {
                Self::Avx2.is_here()
                    && Vectors::Avx512.are_here()
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
        };
        #[cfg(not(target_arch = "x86_64"))]
        return self == Self::Scalar && Vectors::Scalar.are_here();
    }
}
