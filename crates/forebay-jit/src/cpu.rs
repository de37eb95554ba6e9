//! Detects the instruction-set level of this machine.
//!
//! A feature counts only if the processor has it (CPUID) and the operating
//! system saves its registers (XCR0); the standard library's detection checks
//! both. The levels are `forebay-codegen`'s, and each is a set of features that
//! its code may use:
//!
//! | level | features, besides those of the levels below |
//! |---|---|
//! | `scalar` | what every x86-64 processor has |
//! | `avx2` | AVX2, BMI1, BMI2, LZCNT, POPCNT, MOVBE |
//! | `avx512bw` | AVX-512 F, BW, DQ and VL |
//! | `avx512vbmi` | AVX-512 VBMI |
//!
//! Every processor with AVX2 has the other features of its row. A virtual
//! machine may expose any subset, and then gets the level below.

use std::arch::x86_64::__cpuid;
use std::env;
use std::ffi::OsString;

use forebay_codegen::code::{Isa, UnknownName};

/// The environment variable that forces a level.
pub const ISA_VARIABLE: &str = "FOREBAY_ISA";

/// A level that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// The processor lacks part of it.
    #[error(
        "instruction-set level {isa} is not to be had on this machine, which lacks {}; \
         the highest it has is {}",
        missing.join(", "),
        detect()
    )]
    Missing {
        /// The requested level.
        isa: Isa,
        /// The missing features.
        missing: Vec<&'static str>,
    },
    /// The environment variable names an unknown level.
    #[error("{ISA_VARIABLE}: {0}")]
    Variable(UnknownName),
}

/// A feature's name and whether it is usable here.
macro_rules! feature {
    ($name:tt) => {
        ($name, std::is_x86_feature_detected!($name))
    };
}

/// The features of `isa` beyond the level below.
fn features(isa: Isa) -> Vec<(&'static str, bool)> {
    match isa {
        Isa::Scalar => Vec::new(),
        Isa::Avx2 => vec![
            feature!("avx2"),
            feature!("bmi1"),
            feature!("bmi2"),
            feature!("lzcnt"),
            feature!("popcnt"),
            feature!("movbe"),
        ],
        Isa::Avx512Bw => vec![
            feature!("avx512f"),
            feature!("avx512bw"),
            feature!("avx512dq"),
            feature!("avx512vl"),
        ],
        Isa::Avx512Vbmi => vec![feature!("avx512vbmi")],
    }
}

/// The features of level `isa`, and of the levels below, that are not usable here.
#[must_use]
pub fn missing(isa: Isa) -> Vec<&'static str> {
    Isa::ALL
        .into_iter()
        .take_while(|&level| level <= isa)
        .flat_map(features)
        .filter_map(|(name, usable)| (!usable).then_some(name))
        .collect()
}

/// The highest level of this machine.
#[must_use]
pub fn detect() -> Isa {
    let mut highest = Isa::Scalar;
    for isa in Isa::ALL {
        if features(isa).iter().any(|&(_, usable)| !usable) {
            break;
        }
        highest = isa;
    }
    highest
}

/// Whether this processor executes 512-bit instructions in two halves, as Zen 4 does. AMD's processors tell
/// the width of their floating-point units, 128, 256 or 512 bits (AMD64 Architecture Programmer's Manual,
/// volume 3, CPUID function 8000_001A, EAX); all of Intel's that have AVX-512 execute them whole.
#[must_use]
pub fn executes_512_bits_in_halves() -> bool {
    const PERFORMANCE: u32 = 0x8000_001a;
    const FP256: u32 = 1 << 2;
    const FP512: u32 = 1 << 3;
    let known = __cpuid(0x8000_0000).eax >= PERFORMANCE;
    known && __cpuid(PERFORMANCE).eax & (FP256 | FP512) == FP256
}

/// Checks that this machine has level `isa`.
///
/// # Errors
/// The missing features.
pub fn require(isa: Isa) -> Result<(), CpuError> {
    match missing(isa) {
        missing if missing.is_empty() => Ok(()),
        missing => Err(CpuError::Missing { isa, missing }),
    }
}

/// The level to compile for: `forced` if given, else the one named by the
/// environment variable [`ISA_VARIABLE`] if it is set and not empty, else the
/// highest of the machine.
///
/// # Errors
/// If this machine lacks the level, or the variable names none.
pub fn choose(forced: Option<Isa>) -> Result<Isa, CpuError> {
    Ok(wanted(forced)?.unwrap_or_else(detect))
}

/// As [`choose`], but `None` if neither sets a level.
///
/// # Errors
/// As [`choose`].
pub fn wanted(forced: Option<Isa>) -> Result<Option<Isa>, CpuError> {
    select(forced, env::var_os(ISA_VARIABLE))
}

fn select(forced: Option<Isa>, variable: Option<OsString>) -> Result<Option<Isa>, CpuError> {
    let named = variable.filter(|name| !name.is_empty());
    let isa = match (forced, named) {
        (Some(isa), _) => isa,
        (None, Some(name)) => name.to_string_lossy().parse().map_err(CpuError::Variable)?,
        (None, None) => return Ok(None),
    };
    require(isa).map(|()| Some(isa))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_detected_and_those_below_lack_nothing() {
        let highest = detect();
        for isa in Isa::ALL {
            assert_eq!(missing(isa).is_empty(), isa <= highest, "{isa}");
            assert_eq!(require(isa).is_ok(), isa <= highest, "{isa}");
        }
    }

    #[test]
    fn the_processor_file_agrees() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags")).unwrap();
        let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
        for (name, usable) in Isa::ALL.into_iter().flat_map(features) {
            // Linux reports LZCNT under AMD's name for its instruction group.
            let name = if name == "lzcnt" { "abm" } else { name };
            assert_eq!(usable, has(name), "{name}");
        }
    }

    #[test]
    fn the_option_goes_before_the_variable_and_both_before_detection() {
        let variable = |name: &str| Some(OsString::from(name));
        assert_eq!(select(None, None), Ok(None));
        assert_eq!(select(None, variable("")), Ok(None));
        assert_eq!(select(None, variable("scalar")), Ok(Some(Isa::Scalar)));
        assert_eq!(select(Some(Isa::Scalar), variable("nonsense")), Ok(Some(Isa::Scalar)));
        assert_eq!(select(Some(detect()), variable("scalar")), Ok(Some(detect())));
        let error = select(None, variable("sse9")).unwrap_err().to_string();
        assert!(error.starts_with("FOREBAY_ISA: 'sse9' is no instruction-set level"), "{error}");
    }

    #[test]
    fn errors_name_what_is_missing() {
        let error = CpuError::Missing { isa: Isa::Avx512Vbmi, missing: vec!["avx512bw", "movbe"] };
        let text = error.to_string();
        assert!(text.contains("level avx512vbmi"), "{text}");
        assert!(text.contains("lacks avx512bw, movbe;"), "{text}");
    }
}
