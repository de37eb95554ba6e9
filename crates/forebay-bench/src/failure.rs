//! Failures of a suite, and wrong answers.

use std::fmt::Display;

/// Why a benchmark could not be run, or is not valid, as the program ends with it.
#[derive(Clone, Debug)]
pub struct Failure(pub String);

pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Names what was being done before an error.
pub trait During<T> {
    fn during(self, doing: impl Display) -> Result<T>;
}

impl<T, E: Display> During<T> for Result<T, E> {
    fn during(self, doing: impl Display) -> Result<T> {
        self.map_err(|error| Failure(format!("{doing}: {error}")))
    }
}

/// Fails with a wrong answer unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!("wrong answer: {}", format_args!($($what)+)).into());
        }
    };
}
pub(crate) use ensure;
