//! Files of rules as logical lines: continuations joined, positions kept.
//!
//! A line whose last character is a backslash goes on in the next line, as in Suricata. Lines that
//! start with `#`, and empty lines, are skipped. Positions are lines and columns, both from 1; a
//! column counts bytes, for a rule need not be UTF-8.

use std::fmt;

/// The most bytes of a rule, continuations joined.
pub const MAX_RULE_LEN: usize = 1 << 16;

/// Why a rule was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RuleError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in bytes.
    pub column: usize,
    /// What was expected there, and what was found.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

/// An error at an offset of a rule's joined text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub at: usize,
    pub message: String,
}

impl Fault {
    pub fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// An error that names what was found at its place.
    pub fn expected(at: usize, what: &str, found: &[u8]) -> Self {
        let mut text = String::from_utf8_lossy(&found[..found.len().min(40)]).into_owned();
        if found.len() > 40 {
            text.push('…');
        }
        if text.is_empty() {
            return Self::new(at, format!("expected {what}, found the end"));
        }
        Self::new(at, format!("expected {what}, found {text:?}"))
    }
}

/// A rule's text, and where its parts stand in the file.
#[derive(Clone, Debug, Default)]
pub struct LogicalLine {
    /// The text, continuations joined.
    pub text: Vec<u8>,
    /// Offset in `text`, line and column at which each physical line starts.
    starts: Vec<(usize, usize, usize)>,
}

impl LogicalLine {
    /// The line and column of an offset of the text.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let part = self.starts.partition_point(|&(offset, ..)| offset <= at).saturating_sub(1);
        let &(offset, line, column) = self.starts.get(part).unwrap_or(&(0, 1, 1));
        (line, column + at.saturating_sub(offset))
    }
}

/// The logical lines of a file that are not comments.
pub fn logical_lines(text: &[u8]) -> impl Iterator<Item = LogicalLine> + '_ {
    let mut lines = text.split(|&byte| byte == b'\n').enumerate();
    std::iter::from_fn(move || {
        let mut logical = LogicalLine::default();
        for (index, line) in lines.by_ref() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let trimmed = line.trim_ascii_start();
            let column = line.len() - trimmed.len() + 1;
            if logical.starts.is_empty() && (trimmed.is_empty() || trimmed[0] == b'#') {
                continue;
            }
            logical.starts.push((logical.text.len(), index + 1, column));
            let Some(part) = trimmed.strip_suffix(b"\\") else {
                logical.text.extend_from_slice(trimmed.trim_ascii_end());
                return Some(logical);
            };
            logical.text.extend_from_slice(part);
        }
        (!logical.starts.is_empty()).then_some(logical)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuations_are_joined_and_positions_kept() {
        let text = b"# alert\n\n  alert a \\\r\n   b\\\nc\nnext";
        let lines: Vec<_> = logical_lines(text).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].text, b"alert a bc");
        assert_eq!(lines[0].position(0), (3, 3));
        assert_eq!(lines[0].position(8), (4, 4));
        assert_eq!(lines[0].position(9), (5, 1));
        assert_eq!(lines[1].position(2), (6, 3));
    }

    #[test]
    fn a_last_line_may_end_in_a_backslash() {
        let lines: Vec<_> = logical_lines(b"alert \\").collect();
        assert_eq!(lines[0].text, b"alert ");
    }
}
