//! How wide the vectors are that this crate's code works on: as wide as the machine has
//! them, unless the process limits itself to those.

use std::sync::atomic::{AtomicU8, Ordering};

/// Vectors that code may use, narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Vectors {
    /// None: a packet after another.
    Scalar,
    /// AVX2.
    Avx2,
    /// AVX-512 F and BW.
    Avx512,
    /// The same with VBMI and VBMI2: Ice Lake, Zen 4 and later.
    Avx512Vbmi,
}

static LIMIT: AtomicU8 = AtomicU8::new(Vectors::Avx512Vbmi as u8);

impl Vectors {
    /// All, narrowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::Avx512, Self::Avx512Vbmi];

    /// Has all code of this crate that chooses vectors from here on, in this process, choose
    /// no wider ones, to measure or to rule out a path. It comes to the same results by any.
    pub fn limit(self) {
        LIMIT.store(self as u8, Ordering::Relaxed);
    }

    /// Whether the machine has them.
    #[must_use]
    pub fn are_here(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Scalar => true,
            Self::Avx2 => std::is_x86_feature_detected!("avx2"),
            Self::Avx512 => {
                std::is_x86_feature_detected!("avx512f")
                    && std::is_x86_feature_detected!("avx512bw")
                    && std::is_x86_feature_detected!("popcnt")
            }
            Self::Avx512Vbmi => {
                Self::Avx512.are_here()
                    && std::is_x86_feature_detected!("avx512vbmi")
                    && std::is_x86_feature_detected!("avx512vbmi2")
            }
        };
        #[cfg(not(target_arch = "x86_64"))]
        return self == Self::Scalar;
    }

    /// Whether the machine has them and the process allows them.
    #[inline]
    #[must_use]
    pub fn are_wanted(self) -> bool {
        self as u8 <= LIMIT.load(Ordering::Relaxed) && self.are_here()
    }

    /// The widest that the machine has and the process allows.
    #[must_use]
    pub fn widest() -> Self {
        Self::ALL.into_iter().rfind(|vectors| vectors.are_wanted()).unwrap_or(Self::Scalar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimdLevel;

    #[test]
    fn a_limit_holds_until_it_is_another() {
        // Other tests come to the same results in the meantime: those of a path name it.
        for most in Vectors::ALL {
            most.limit();
            // All that the machine has, narrowest first, one for each.
            let expected = SimdLevel::all().into_iter().take(most as usize + 1).next_back();
            assert_eq!(Some(SimdLevel::fastest()), expected);
            let is_wanted = most >= Vectors::Avx512 && Vectors::Avx512.are_here();
            assert_eq!(Vectors::Avx512.are_wanted(), is_wanted);
            assert!(Vectors::Scalar.are_wanted());
        }
        assert_eq!(LIMIT.load(Ordering::Relaxed), Vectors::Avx512Vbmi as u8, "as it was");
    }
}
