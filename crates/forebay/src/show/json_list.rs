//! A JSON object with a list as one member, whose elements are written as they arrive: a
//! list of packets is as long as the capture, and must not be kept in memory.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::Results;

/// Indentation of each line of an element.
const INDENT: &[u8] = b"\n    ";

/// An object that begins with its list.
pub struct JsonList<W> {
    out: Results<W>,
    /// The text before the first element.
    opening: String,
    begun: bool,
    /// The buffer for an element.
    element: Vec<u8>,
}

impl<W: Write> JsonList<W> {
    /// An object written to `out`, with a list called `name`. Nothing is written yet.
    #[must_use]
    pub fn new(out: Results<W>, name: &'static str) -> Self {
        let opening = format!("{{\n  \"{name}\": [");
        Self { out, opening, begun: false, element: Vec::new() }
    }

    /// Whether a part of it was written, so that it must be finished.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Adds an element.
    ///
    /// # Errors
    /// Of the output.
    pub fn push(&mut self, element: &impl Serialize) -> io::Result<()> {
        self.element.clear();
        serde_json::to_writer_pretty(&mut self.element, element)?;
        let before = if self.begun { "," } else { self.opening.as_str() };
        self.begun = true;
        self.out.push(|buffer| {
            buffer.extend_from_slice(before.as_bytes());
            // A line feed within a string is escaped.
            for line in self.element.split(|&byte| byte == b'\n') {
                buffer.extend_from_slice(INDENT);
                buffer.extend_from_slice(line);
            }
            Ok(())
        })
    }

    /// Writes the elements so far.
    ///
    /// # Errors
    /// Of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Elements accepted by the output.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.out.taken()
    }

    /// Ends the list and adds the other members of the object, at least one.
    ///
    /// # Errors
    /// Of the output.
    pub fn finish(mut self, others: &Value) -> io::Result<()> {
        let list = if self.begun { "\n  ]".to_owned() } else { self.opening + "]" };
        let others = serde_json::to_string_pretty(others)?;
        self.out.end_with(&format!("{list},{}\n", others.trim_start_matches('{')))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_that_grows_reads_like_one_that_is_kept() {
        for elements in [vec![], vec![json!(1)], vec![json!({"a": [1, 2], "b": "x\ny"}), json!(2)]]
        {
            let mut bytes = Vec::new();
            let mut list = JsonList::new(Results::new(&mut bytes), "first");
            for element in &elements {
                list.push(element).expect("memory takes it");
            }
            assert_eq!(list.has_begun(), !elements.is_empty());
            list.finish(&json!({"zero": 0, "last": {"a": 1}})).expect("memory takes it");
            let kept = json!({"first": elements, "zero": 0, "last": {"a": 1}});
            let read: Value = serde_json::from_slice(&bytes).expect("it is JSON");
            assert_eq!(read, kept);
            let text = serde_json::to_string_pretty(&kept).expect("it is JSON") + "\n";
            assert_eq!(String::from_utf8_lossy(&bytes), text, "the same, as `first` comes first");
        }
    }
}
