//! What `nft -j list ruleset` prints: tables, chains, sets and maps as JSON.
//!
//! The base chains of tables become lists, IPv4 rules before IPv6 rules where a table is
//! for both, their default the chain's policy. Jumps are followed
//! (`chains.rs`), verdict maps become rules, sets become lists of addresses
//! and ports. Only the chain that is asked for is read, and those it leads to, so that
//! everything else may hold anything.
//!
//! Read are addresses, with masks, `meta l4proto`, `ip protocol`, ports, TCP flags, ICMP
//! types and codes, `meta nfproto`, concatenations of these, named and anonymous sets
//! that packets do not change; `accept`, `drop`, `reject`, `jump`, `goto`, `return` and
//! `vmap`. Counters, logs, comments and marks decide nothing. Other conditions (`ct`,
//! `limit`, `fib`, interfaces unless the packets' interface is given …) are refused, or
//! decided by [`Unsupported`](super::Unsupported).

mod fields;
mod rule;
mod ruleset;
mod table;
mod value;

use super::catalogue::{Catalogue, Imported, Listed};
use super::chains::{Chains, Step, flatten};
use super::error::ParseError;
use super::making::Making;
use crate::rule::Family;
use ruleset::Base;
pub use ruleset::Ruleset;
use std::cell::RefCell;
use table::Table;

impl Catalogue for Ruleset<'_> {
    fn lists(&self) -> Vec<Listed> {
        let listed = |base: &Base| {
            let (family, table, name) = &base.place;
            Listed {
                name: name.to_string(),
                full_name: format!("{family} {table} {name}"),
                entries: self.chains.get(&base.place).map_or(0, Vec::len),
            }
        };
        self.lists.iter().map(listed).collect()
    }

    fn read(&self, list: usize) -> Result<Imported, ParseError> {
        let base = &self.lists[list];
        let (family, table, name) = &base.place;
        let families: &[Family] = match family.as_ref() {
            "ip" => &[Family::Ipv4],
            "ip6" => &[Family::Ipv6],
            "inet" | "bridge" | "netdev" => &[Family::Ipv4, Family::Ipv6],
            _ => {
                let expected = "a table of `ip`, `ip6`, `inet`, `bridge` or `netdev`";
                return Err(ParseError::at(1, family, expected));
            }
        };
        let mut making = Making::new(self.unsupported);
        for &of in families {
            let known = RefCell::default();
            let table = Table { ruleset: self, family, name: table, known };
            flatten(&table, name, of, base.policy, &mut making)?;
        }
        Ok(making.finish(name.to_string(), base.policy))
    }
}

impl Chains for Table<'_, '_> {
    fn steps(
        &self,
        name: &str,
        family: Family,
        making: &mut Making,
    ) -> Result<Option<Vec<Step>>, ParseError> {
        let place = self.place_of(name);
        let Some(rules) = self.ruleset.chains.get(&place) else { return Ok(None) };
        let mut steps = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let handle = rule.handle.map_or_else(String::new, |n| format!(" (handle {n})"));
            let name = format!("rule {} of {name}{handle}", index + 1);
            let line = self.ruleset.line_of(rule.expressions);
            rule::steps(self, (line, &name), rule.expressions, family, making, &mut steps)?;
        }
        Ok(Some(steps))
    }
}
