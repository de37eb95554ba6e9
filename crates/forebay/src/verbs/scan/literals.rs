//! A file of literals.

use std::path::Path;

use forebay_io::text::{self, Source};
use forebay_scan::LiteralSet;

use super::tally::{Kind, Subjects};
use crate::failure::Failure;
use crate::input::file_name;

/// The literals of a file, and the line of each.
pub struct Literals {
    pub set: LiteralSet,
    /// By literal, from 1.
    pub lines: Vec<usize>,
}

impl Literals {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or a line is not a literal.
    pub fn read(path: &Path, nocase: bool) -> Result<Self, Failure> {
        let file = file_name(path);
        let text = match text::read(path, Source::Any, "a file of literals", text::MOST_LITERALS) {
            Ok(text) => text,
            Err(source) => return Err(Failure::Text { file, source }),
        };
        match LiteralSet::from_hex_lines(&text, nocase) {
            Ok(set) => Ok(Self { set, lines: lines(&text) }),
            Err(source) => Err(Failure::Literals { file, source }),
        }
    }
}

impl Subjects for Literals {
    fn kind(&self) -> Kind {
        let all = "literals";
        Kind { one: "literal", many: all, heading: "line", text: "literal", all }
    }

    fn len(&self) -> usize {
        self.lines.len()
    }

    fn number(&self, index: usize) -> usize {
        self.lines[index]
    }

    fn text(&self, index: usize) -> String {
        self.set.literals()[index].to_string()
    }
}

/// The lines that are literals, from 1.
fn lines(text: &str) -> Vec<usize> {
    let is_literal = |line: &str| !line.is_empty() && !line.starts_with('#');
    let numbered = (1..).zip(text.lines());
    numbered.filter(|(_, line)| is_literal(line.trim())).map(|(number, _)| number).collect()
}
