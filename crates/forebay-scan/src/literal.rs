//! Literals to search for.

use std::fmt;

/// The most literals of a set.
pub const MAX_LITERALS: usize = 1 << 20;

/// The most bytes of a literal.
pub const MAX_LITERAL_LEN: usize = 4096;

/// A byte string to search for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Literal {
    /// The bytes, at least one.
    pub bytes: Box<[u8]>,
    /// Whether ASCII letters match in both cases.
    pub nocase: bool,
}

/// Literals in order. The index of a literal is its identifier in [`Match`](crate::Match).
///
/// Equal literals are allowed; each is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiteralSet {
    literals: Vec<Literal>,
}

/// Why a literal was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LiteralError {
    /// It has no bytes.
    #[error("a literal has at least one byte; this one is empty")]
    Empty,
    /// It has more than [`MAX_LITERAL_LEN`] bytes.
    #[error("a literal has at most {MAX_LITERAL_LEN} bytes; this one has {0}")]
    TooLong(usize),
    /// The set has [`MAX_LITERALS`] literals.
    #[error("a set has at most {MAX_LITERALS} literals")]
    TooMany,
    /// A line of a file is not an even number of hexadecimal digits.
    #[error("line {line}: expected pairs of hexadecimal digits, found {found:?}")]
    NotHex {
        /// The line, from 1.
        line: usize,
        /// The first character that is not a digit, or the single last digit.
        found: char,
    },
    /// A line of a file is a literal that cannot be added.
    #[error("line {line}: {error}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// Why not.
        error: Box<LiteralError>,
    },
}

impl LiteralSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a literal and returns its index.
    ///
    /// # Errors
    /// The literal is empty or too long, or the set is full.
    pub fn push(&mut self, bytes: &[u8], nocase: bool) -> Result<u32, LiteralError> {
        if bytes.is_empty() {
            return Err(LiteralError::Empty);
        }
        if bytes.len() > MAX_LITERAL_LEN {
            return Err(LiteralError::TooLong(bytes.len()));
        }
        if self.literals.len() == MAX_LITERALS {
            return Err(LiteralError::TooMany);
        }
        self.literals.push(Literal { bytes: bytes.into(), nocase });
        Ok(self.literals.len() as u32 - 1)
    }

    /// Reads a literals file: a literal a line, as hexadecimal digits. Empty lines and lines that
    /// start with `#` are skipped.
    ///
    /// # Errors
    /// The first line that is not a literal.
    pub fn from_hex_lines(text: &str, nocase: bool) -> Result<Self, LiteralError> {
        let mut set = Self::new();
        for (number, line) in text.lines().enumerate() {
            let digits = line.trim();
            if digits.is_empty() || digits.starts_with('#') {
                continue;
            }
            let line = number + 1;
            let bytes = from_hex(digits).map_err(|found| LiteralError::NotHex { line, found })?;
            set.push(&bytes, nocase)
                .map_err(|error| LiteralError::Line { line, error: Box::new(error) })?;
        }
        Ok(set)
    }

    /// The number of literals.
    #[must_use]
    pub fn len(&self) -> usize {
        self.literals.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.literals.is_empty()
    }

    /// The literals, by index.
    #[must_use]
    pub fn literals(&self) -> &[Literal] {
        &self.literals
    }
}

fn from_hex(digits: &str) -> Result<Vec<u8>, char> {
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut high = None;
    let mut last = '\0';
    for digit in digits.chars() {
        let value = digit.to_digit(16).ok_or(digit)? as u8;
        last = digit;
        match high.take() {
            None => high = Some(value),
            Some(high) => bytes.push(high << 4 | value),
        }
    }
    if high.is_some() { Err(last) } else { Ok(bytes) }
}

impl fmt::Display for Literal {
    /// Printable ASCII as it is, other bytes between bars in hexadecimal, as rules write them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut in_hex = false;
        for &byte in &self.bytes {
            let plain = (byte.is_ascii_graphic() || byte == b' ') && !b"|\"\\;:".contains(&byte);
            if plain == in_hex {
                f.write_str("|")?;
            } else if in_hex {
                f.write_str(" ")?;
            }
            in_hex = !plain;
            if plain {
                write!(f, "{}", byte as char)?;
            } else {
                write!(f, "{byte:02X}")?;
            }
        }
        if in_hex { f.write_str("|") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_lines_name_the_bad_line() {
        let set = LiteralSet::from_hex_lines("# one\n\n4745 54\n", false);
        assert_eq!(set, Err(LiteralError::NotHex { line: 3, found: ' ' }));
        let set = LiteralSet::from_hex_lines("474554\n0\n", false);
        assert_eq!(set, Err(LiteralError::NotHex { line: 2, found: '0' }));
        let set = LiteralSet::from_hex_lines("474554\n00ff\n", true).unwrap();
        assert_eq!(*set.literals()[1].bytes, [0, 0xff]);
        assert!(set.literals()[0].nocase);
    }

    #[test]
    fn literals_print_as_rules_write_them() {
        let mut set = LiteralSet::new();
        set.push(b"a|\x00\x01b", false).unwrap();
        assert_eq!(set.literals()[0].to_string(), "a|7C 00 01|b");
    }
}
