//! A configuration as far as its access lists depend on it.

use crate::language::catalogue::{Direction, Unsupported};
use crate::rule::Family;
use std::collections::HashMap;

/// A configuration's access lists, scanned and not yet parsed.
#[derive(Default)]
pub struct Config<'a> {
    pub(super) unsupported: Unsupported,
    pub(super) system: System,
    pub(super) lists: Vec<RawList<'a>>,
    /// Where a list is in `lists`.
    pub(super) places: HashMap<(&'a str, Scope), usize>,
    pub(super) groups: HashMap<Class, HashMap<&'a str, ObjectGroup<'a>>>,
    /// ASA's names of addresses.
    pub(super) names: HashMap<&'a str, &'a str>,
    pub(super) interfaces: Vec<Interface<'a>>,
    pub(super) applications: Vec<Application<'a>>,
}

/// The operating system, as far as lists depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum System {
    #[default]
    Ios,
    Nxos,
    /// Where `any` is an IPv4 address only, before version 9.
    OldAsa,
    Asa,
}

impl System {
    pub(super) fn is_asa(self) -> bool {
        matches!(self, Self::OldAsa | Self::Asa)
    }
}

/// The packets that a list is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    Ipv4,
    Ipv6,
    /// Both, with masks of networks in place of wildcards.
    Asa,
}

/// What a list's entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Extended,
    /// Source addresses only.
    Standard,
    /// Not for packets, or for others than IP's.
    Other,
}

/// A list whose entries are not read yet.
pub(super) struct RawList<'a> {
    pub name: &'a str,
    pub scope: Scope,
    pub kind: Kind,
    /// Entries with their lines, from `permit` or what precedes it on.
    pub entries: Vec<(usize, &'a str)>,
    pub line: usize,
}

/// What a group or an object is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Network,
    Service,
    Protocol,
    IcmpType,
}

/// An object or a group of them.
#[derive(Default)]
pub(super) struct ObjectGroup<'a> {
    /// The protocols whose ports the group lists.
    pub protocol: Option<&'a str>,
    /// Whether masks are wildcards.
    pub has_wildcards: bool,
    pub members: Vec<(usize, &'a str)>,
}

#[derive(Default)]
pub(super) struct Interface<'a> {
    pub name: String,
    /// ASA's name.
    pub alias: Option<&'a str>,
    pub address: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Application<'a> {
    /// The interface's place, or ASA's name of it; none for all of ASA's.
    pub interface: Place<'a>,
    pub direction: Direction,
    pub family: Option<Family>,
    /// Whether it is applied to a port of a switch (`ip port access-group`).
    pub is_port: bool,
    pub list: &'a str,
}

impl<'a> Application<'a> {
    /// What another list takes the place of, where it is applied later: a device has one list
    /// an interface, direction and family. For ASA the families are not distinguished.
    pub(super) fn slot(&self) -> Self {
        Self { list: if self.family.is_some() { "" } else { self.list }, ..*self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place<'a> {
    Index(usize),
    Alias(&'a str),
    Everywhere,
}

impl<'a> Config<'a> {
    /// A group or object, with its name.
    pub(super) fn group(&self, class: Class, name: &str) -> Option<(&'a str, &ObjectGroup<'a>)> {
        self.groups.get(&class)?.get_key_value(name).map(|(name, group)| (*name, group))
    }

    pub(super) fn list_of(&self, name: &str, family: Option<Family>) -> Option<usize> {
        let scopes: &[Scope] = match family {
            Some(Family::Ipv4) => &[Scope::Ipv4, Scope::Asa],
            Some(Family::Ipv6) => &[Scope::Ipv6, Scope::Asa],
            None => &[Scope::Asa, Scope::Ipv4],
        };
        scopes.iter().find_map(|&scope| self.places.get(&(name, scope)).copied())
    }
}
