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
//! [`Unsupported`]. A fragment other than the first matches no entry that names ports,
//! flags or messages, where a router lets it match one that permits.

mod entry;
mod fields;
mod objects;
mod options;
mod scan;

use super::source::{Applied, Catalogue, Imported, Listed, Making, Unsupported};
use super::{NamedList, ParseError};
use crate::rule::Family;
use std::collections::HashMap;

/// Reads all access lists of a file, in the order of their first lines.
///
/// # Errors
/// The first entry with a test that cannot be carried over.
pub fn parse(text: &str) -> Result<Vec<NamedList>, ParseError> {
    let config = Config::scan(text, Unsupported::Refuse)?;
    (0..config.lists.len()).map(|list| Ok(config.read(list)?.list)).collect()
}

/// A configuration's access lists, scanned and not yet parsed.
#[derive(Default)]
pub struct Config<'a> {
    unsupported: Unsupported,
    system: System,
    lists: Vec<RawList<'a>>,
    /// Where a list is in `lists`.
    places: HashMap<(&'a str, Scope), usize>,
    groups: HashMap<Class, HashMap<&'a str, Group<'a>>>,
    /// ASA's names of addresses.
    names: HashMap<&'a str, &'a str>,
    interfaces: Vec<Interface<'a>>,
    applications: Vec<Application<'a>>,
}

/// The operating system, as far as lists depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum System {
    #[default]
    Ios,
    Nxos,
    /// Where `any` is an IPv4 address only, before version 9.
    OldAsa,
    Asa,
}

impl System {
    fn is_asa(self) -> bool {
        matches!(self, Self::OldAsa | Self::Asa)
    }
}

/// The packets that a list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Scope {
    Ipv4,
    Ipv6,
    /// Both, with masks of networks in place of wildcards.
    Asa,
}

/// What a list's entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Extended,
    /// Source addresses only.
    Standard,
    /// Not for packets, or for others than IP's.
    Other,
}

/// A list whose entries are not read yet.
struct RawList<'a> {
    name: &'a str,
    scope: Scope,
    kind: Kind,
    /// Entries with their lines, from `permit` or what precedes it on.
    entries: Vec<(usize, &'a str)>,
    line: usize,
}

/// What a group or an object is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Class {
    Network,
    Service,
    Protocol,
    IcmpType,
}

/// An object or a group of them.
#[derive(Default)]
struct Group<'a> {
    /// The protocols whose ports the group lists.
    protocol: Option<&'a str>,
    /// Whether masks are wildcards.
    has_wildcards: bool,
    members: Vec<(usize, &'a str)>,
}

#[derive(Default)]
struct Interface<'a> {
    name: String,
    /// ASA's name.
    alias: Option<&'a str>,
    address: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Application<'a> {
    /// The interface's place, or ASA's name of it; none for all of ASA's.
    interface: Place<'a>,
    direction: super::source::Direction,
    family: Option<Family>,
    /// Whether it is applied to a port of a switch (`ip port access-group`).
    is_port: bool,
    list: &'a str,
}

impl<'a> Application<'a> {
    /// What another list takes the place of, where it is applied later: a device has one list
    /// an interface, direction and family. For ASA the families are not distinguished.
    fn slot(&self) -> Self {
        Self { list: if self.family.is_some() { "" } else { self.list }, ..*self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place<'a> {
    Index(usize),
    Alias(&'a str),
    Everywhere,
}

impl<'a> Config<'a> {
    /// A group or object, with its name.
    fn group(&self, class: Class, name: &str) -> Option<(&'a str, &Group<'a>)> {
        self.groups.get(&class)?.get_key_value(name).map(|(name, group)| (*name, group))
    }

    fn list_of(&self, name: &str, family: Option<Family>) -> Option<usize> {
        let scopes: &[Scope] = match family {
            Some(Family::Ipv4) => &[Scope::Ipv4, Scope::Asa],
            Some(Family::Ipv6) => &[Scope::Ipv6, Scope::Asa],
            None => &[Scope::Asa, Scope::Ipv4],
        };
        scopes.iter().find_map(|&scope| self.places.get(&(name, scope)).copied())
    }
}

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
