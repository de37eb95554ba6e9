//! The lists of a file: which there are, which of them an interface applies, and one of
//! them read.
//!
//! A file is scanned first and understood later: scanning finds where lists begin and
//! end and skips everything else; only a list that is asked for is read, so that
//! mistakes elsewhere do not matter.

use super::error::ParseError;
use crate::rule::{Family, RuleList};
use std::fmt;

/// What becomes of a rule with a condition that packets alone cannot answer, such as the
/// state of a connection or the time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unsupported {
    /// It is an error.
    #[default]
    Refuse,
    /// The condition counts as met by every packet.
    Met,
    /// The condition counts as met by no packet: the rule is left out.
    Unmet,
    /// Whatever decides in favour of passing: every packet passes that may pass.
    Pass,
    /// Whatever decides in favour of rejecting: no packet passes that may be rejected.
    Reject,
}

impl Unsupported {
    /// All by the names that users give them, each with what it does.
    pub const NAMES: [(&str, Self, &str); 5] = [
        ("refuse", Self::Refuse, "It is an error that names the rule"),
        ("met", Self::Met, "Every packet meets the condition: the rule is imported without it"),
        ("unmet", Self::Unmet, "No packet meets the condition: the rule is left out"),
        (
            "pass",
            Self::Pass,
            "Packets pass wherever they may: a rule that passes is taken as met, one that rejects \
             as unmet",
        ),
        (
            "reject",
            Self::Reject,
            "Packets are rejected wherever they may: a rule that rejects is taken as met, one \
             that passes as unmet",
        ),
    ];
}

/// Which way packets go through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the network into the device.
    In,
    /// Out of the device.
    Out,
}

impl Direction {
    /// Both by the names that users give them, each with what it is.
    pub const NAMES: [(&str, Self, &str); 2] =
        [("in", Self::In, "Into the device"), ("out", Self::Out, "Out of the device")];
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "in",
            Self::Out => "out",
        })
    }
}

/// How a file is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What becomes of conditions that are not supported.
    pub unsupported: Unsupported,
    /// The family of iptables-save's addresses; none if the text has it.
    pub family: Option<Family>,
    /// The table of iptables (`filter` if none), or of nftables (all if none).
    pub table: Option<String>,
    /// The interface through which packets come or go, so that conditions on it are
    /// decided. For Cisco's, [`Catalogue::applied`] lists them.
    pub interface: Option<(String, Direction)>,
}

/// A list of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name, which may be that of other lists.
    pub name: String,
    /// A name that no other list of the file has.
    pub full_name: String,
    /// How many entries it has, before they are read.
    pub entries: usize,
}

/// Where a list is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The interface.
    pub interface: String,
    /// Other names of the interface.
    pub aliases: Vec<String>,
    /// Which packets of it.
    pub direction: Direction,
    /// The family of the packets; none for both.
    pub family: Option<Family>,
    /// The name of the list, which the file need not have.
    pub name: String,
    /// Its place in [`Catalogue::lists`].
    pub list: Option<usize>,
}

/// A condition that was not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Untested {
    /// The line of the rule.
    pub line: usize,
    /// The condition.
    pub condition: String,
}

/// One of several lists of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedList {
    /// Its name in the file; empty if the file gives none.
    pub name: String,
    /// The rules.
    pub list: RuleList,
}

impl NamedList {
    /// Its name, if the file gives one.
    #[must_use]
    pub fn given_name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// A list that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The list.
    pub list: NamedList,
    /// For each rule the line it comes from.
    pub lines: Vec<usize>,
    /// The conditions that [`Unsupported`] decided.
    pub untested: Vec<Untested>,
}

/// The lists of a file.
pub trait Catalogue {
    /// All lists, in the order of the file.
    fn lists(&self) -> Vec<Listed>;

    /// Where lists are applied.
    fn applied(&self) -> Vec<Applied> {
        Vec::new()
    }

    /// Reads the list at a place in [`Catalogue::lists`].
    ///
    /// # Errors
    /// What in it cannot be carried over.
    fn read(&self, list: usize) -> Result<Imported, ParseError>;

    /// As [`Catalogue::read`], for a caller that needs no other list.
    ///
    /// # Errors
    /// As [`Catalogue::read`].
    fn into_list(self: Box<Self>, list: usize) -> Result<Imported, ParseError> {
        self.read(list)
    }
}
