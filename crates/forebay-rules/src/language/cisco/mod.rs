//! Access lists in configurations of Cisco devices: IOS and IOS-XE, NX-OS, and ASA, with
//! what others write alike.
//!
//! Read are numbered lists (`access-list 1–199|1300–2699 …`), named ones (`ip access-list
//! [standard|extended] NAME`, `ipv6 access-list NAME`, with entries in the lines below)
//! and those of ASA (`access-list NAME extended|standard …`); the groups and objects that their
//! entries name; and where they are applied. Everything else in a configuration is
//! skipped (`scan.rs`); what belongs to a list is read when that list is asked for
//! (`entry.rs`).
//!
//! Entries without a sequence number get the last one plus 10, as on the routers,
//! starting from 10. ASA numbers lines, remarks too: its line 3 is rule 30. An entry that
//! names services of several protocols becomes several rules, which have the numbers
//! behind its own. An IPv6 list ends as the devices end it, with the neighbour discovery
//! messages that pass unless a rule rejects them.
//!
//! A standard list of IOS is of sources, one of ASA is of destinations: it selects
//! routes to redistribute, or networks behind a tunnel.
//!
//! Masks need not be contiguous: one that tests single bits becomes the ranges that it
//! admits, at most `MAX_MASK_RANGES`. `established` is ACK or RST; the bare flags
//! (`syn`, `ack` …) of older releases are alternatives. What packets alone do not answer
//! (`time-range`, `fragments`, `dscp`, `ttl` …) is refused, or decided by
//! [`Unsupported`](super::Unsupported). A fragment other than the first matches no entry that names ports,
//! flags or messages, where a router lets it match one that permits.

mod config;
mod entry;
mod fields;
mod objects;
mod options;
mod scan;

use super::catalogue::{Applied, Catalogue, Imported, Listed};
use super::error::ParseError;
use super::making::Making;
pub use config::Config;
use config::Interface;
use config::{Place, RawList, Scope};

impl Catalogue for Config<'_> {
    fn lists(&self) -> Vec<Listed> {
        let listed = |list: &RawList| {
            let command = match list.scope {
                Scope::Ipv4 => "ip ",
                Scope::Ipv6 => "ipv6 ",
                Scope::Asa => "",
            };
            let is_entry = |(_, text): &&(usize, &str)| {
                !text.split_whitespace().take(2).any(|word| word == "remark")
            };
            Listed {
                name: list.name.to_owned(),
                full_name: format!("{command}{}", list.name),
                entries: list.entries.iter().filter(is_entry).count(),
            }
        };
        self.lists.iter().map(listed).collect()
    }

    fn applied(&self) -> Vec<Applied> {
        let mut applied = Vec::new();
        for application in &self.applications {
            let mut add = |interface: &str, aliases: Vec<String>| {
                applied.push(Applied {
                    interface: interface.to_owned(),
                    aliases,
                    direction: application.direction,
                    family: application.family,
                    name: application.list.to_owned(),
                    list: self.list_of(application.list, application.family),
                });
            };
            match application.interface {
                Place::Index(index) => {
                    let interface = &self.interfaces[index];
                    let alias = interface.alias.map(str::to_owned);
                    add(&interface.name, alias.into_iter().collect());
                }
                Place::Alias(alias) => {
                    let named = |interface: &&Interface| interface.alias == Some(alias);
                    let interface = self.interfaces.iter().find(named);
                    add(alias, interface.map(|found| found.name.clone()).into_iter().collect());
                }
                Place::Everywhere => add("global", Vec::new()),
            }
        }
        applied
    }

    fn read(&self, list: usize) -> Result<Imported, ParseError> {
        let raw = &self.lists[list];
        entry::read(self, raw, Making::new(self.unsupported))
    }
}
