//! What `iptables-save` and `ip6tables-save` print, as far as it holds no state.
//!
//! The chains of a table that packets enter become lists whose default is the chain's
//! policy, their rules numbered from 1 as `iptables -L --line-numbers` does. Jumps to
//! other chains are followed (`chains.rs`): the rules of these take the
//! numbers behind the jump's own. Only the chain that is asked for is read, and those it
//! leads to; other tables may hold anything.
//!
//! Read are addresses (`-s`, `-d`, `iprange`), protocols, ports (`tcp`, `udp`, `sctp`,
//! `dccp`, `udplite`, `multiport`), `--tcp-flags`, `--syn`, ICMP types and comments, each
//! with `!` where iptables has it, and the targets ACCEPT, DROP, REJECT, RETURN and
//! chains. Targets that only log, mark or count leave a packet to the next rule, and so
//! do rules without a target. Other conditions (connection states, limits, interfaces
//! unless the packets' interface is given) are refused, or decided by
//! [`Unsupported`](super::Unsupported). A match of ports or messages fails on
//! fragments other than the first, even if it accepts any: so does the rule that it
//! becomes.

mod options;
mod save;
mod values;

use super::catalogue::{Catalogue, Imported, Listed};
use super::chains::{Chains, Step, flatten};
use super::error::ParseError;
use super::making::Making;
use crate::rule::{Action, Family};
pub use save::Save;

impl Catalogue for Save<'_> {
    fn lists(&self) -> Vec<Listed> {
        let listed = |(name, _): &(&str, Action)| Listed {
            name: (*name).to_owned(),
            full_name: (*name).to_owned(),
            entries: self.chains.get(name).map_or(0, Vec::len),
        };
        self.lists.iter().map(listed).collect()
    }

    fn read(&self, list: usize) -> Result<Imported, ParseError> {
        let (name, policy) = self.lists[list];
        let mut making = Making::new(self.unsupported);
        flatten(self, name, self.family, policy, &mut making)?;
        Ok(making.finish(name.to_owned(), policy))
    }
}

impl Chains for Save<'_> {
    fn steps(
        &self,
        name: &str,
        family: Family,
        making: &mut Making,
    ) -> Result<Option<Vec<Step>>, ParseError> {
        let Some(lines) = self.chains.get(name) else { return Ok(None) };
        let mut steps = Vec::new();
        for (index, &(line, text)) in lines.iter().enumerate() {
            let name = format!("rule {} of {name}", index + 1);
            let step = options::step(self, line, name, text, family, making)?;
            steps.push(step);
        }
        Ok(Some(steps))
    }
}
