//! The lines of a table, scanned.

use crate::language::catalogue::{Direction, Options, Unsupported};
use crate::language::error::ParseError;
use crate::language::words::Words;
use crate::rule::{Action, Family};
use forebay_packet::cancel;
use std::collections::HashMap;

/// A table of a file, scanned and not yet understood.
pub struct Save<'a> {
    pub(super) family: Family,
    pub(super) unsupported: Unsupported,
    pub(super) interface: Option<(String, Direction)>,
    /// Rules with their lines, by chain.
    pub(super) chains: HashMap<&'a str, Vec<(usize, &'a str)>>,
    /// The chains that packets enter, and their policies.
    pub(super) lists: Vec<(&'a str, Action)>,
}

impl<'a> Save<'a> {
    /// Scans a file for the table that `options` name.
    ///
    /// # Errors
    /// Where the lines of that table are not a table.
    pub fn scan(text: &'a str, options: &Options) -> Result<Self, ParseError> {
        let mut save = Self {
            family: options.family.unwrap_or_else(|| family_of(text)),
            unsupported: options.unsupported,
            interface: options.interface.clone(),
            chains: HashMap::new(),
            lists: Vec::new(),
        };
        let wanted = options.table.as_deref().unwrap_or("filter");
        let mut table = None;
        let mut last_line = 1;
        for (index, line) in text.lines().enumerate() {
            cancel::check();
            last_line = index + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let error = |expected: &str| ParseError::at(last_line, line, expected);
            match table {
                None => {
                    let name = line.strip_prefix('*');
                    table = Some(name.ok_or_else(|| error("`*` and the name of a table"))?.trim());
                }
                Some(_) if line == "COMMIT" => table = None,
                Some(table) if table == wanted => save.line(last_line, line)?,
                Some(_) => {}
            }
        }
        match table {
            Some(table) if table == wanted => {
                Err(ParseError::end(last_line, "`COMMIT` before the end of the file"))
            }
            _ => Ok(save),
        }
    }

    /// `:CHAIN POLICY [packets:bytes]`, or a rule.
    fn line(&mut self, line: usize, text: &'a str) -> Result<(), ParseError> {
        let Some(chain) = text.strip_prefix(':') else { return self.rule(line, text) };
        let mut words = Words::new(line, chain, '#');
        let name = words.need("the name of a chain")?;
        // A second table of that name would replace the first one.
        if self.chains.insert(name, Vec::new()).is_some() {
            return Err(words.error(name, "each chain declared once, in one table of that name"));
        }
        const POLICY: &str = "`ACCEPT`, `DROP` or `-`";
        match words.need(POLICY)? {
            "ACCEPT" => self.lists.push((name, Action::Pass)),
            "DROP" => self.lists.push((name, Action::Reject)),
            "-" => {}
            policy => return Err(words.error(policy, POLICY)),
        }
        Ok(())
    }

    /// `[packets:bytes] -A CHAIN …`, of which the chain is read.
    fn rule(&mut self, line: usize, text: &'a str) -> Result<(), ParseError> {
        let rest = match text.strip_prefix('[').and_then(|counts| counts.split_once(']')) {
            Some((_, rest)) => rest.trim_start(),
            None => text,
        };
        let mut words = rest.splitn(3, char::is_whitespace);
        if words.next() != Some("-A") {
            return Err(ParseError::at(line, rest, "`-A` and a chain, `:` or `COMMIT`"));
        }
        let name = words.next().unwrap_or_default();
        let expected = "a chain that is declared before its first rule";
        let chain = self.chains.get_mut(name);
        let chain = chain.ok_or_else(|| ParseError::at(line, name, expected))?;
        chain.push((line, words.next().unwrap_or_default()));
        Ok(())
    }
}

/// ip6tables-save, also as ip6tables-nft-save or ip6tables-legacy-save, names itself in a
/// comment before the first table.
fn family_of(text: &str) -> Family {
    let is_before = |line: &&str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let mut before = text.lines().take_while(is_before);
    if before.any(|line| line.contains("ip6tables")) { Family::Ipv6 } else { Family::Ipv4 }
}
