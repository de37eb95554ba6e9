//! Functions as lines of text, for tests that make them up.

use std::fmt::Write as _;

use forebay_filter::ir::Function;
use forebay_filter::ir::text::parse;

/// The values and blocks of a function, in the order of their numbers. Blocks may go to `accept` and `reject`,
/// and look for values in `s0`.
#[derive(Default)]
pub struct Lines {
    values: Vec<String>,
    pub blocks: Vec<String>,
}

impl Lines {
    /// The number of a value.
    pub fn value(&mut self, value: String) -> usize {
        let known = self.values.iter().position(|other| *other == value);
        known.unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        })
    }

    /// The function, with `set` as `s0` if that is used.
    pub fn function(&self, set: &[u32]) -> Function {
        let (accept, reject) = (self.blocks.len(), self.blocks.len() + 1);
        let mut all = String::new();
        for (number, value) in self.values.iter().enumerate() {
            let _ = writeln!(all, "v{number} = {value}");
        }
        if self.blocks.iter().any(|block| block.contains("in s0")) {
            let listed: Vec<String> = set.iter().map(|one| format!("{one:#x}")).collect();
            let _ = writeln!(all, "s0 = {{ {} }}", listed.join(", "));
        }
        for (number, block) in self.blocks.iter().enumerate() {
            let block = block.replace("accept", &format!("b{accept}"));
            let _ = writeln!(all, "b{number}: {}", block.replace("reject", &format!("b{reject}")));
        }
        let _ = writeln!(all, "b{accept}: return 96\nb{reject}: return 0");
        parse(&all).unwrap_or_else(|error| panic!("{error}\n{all}"))
    }
}
