//! Rule lists from files, as users name them: the language recognised by the file unless it is
//! given, one of the file's lists chosen, and read.
//!
//! The command, the broker and the C library load lists by this module only, so that all
//! take the same files and refuse them with the same words.

use super::catalogue::{Applied, Catalogue, Direction, Imported, Listed, Options, Unsupported};
use super::error::ParseError;
use super::format::{Format, open};
use super::making::MAX_RANGES;
use crate::choose::{Chosen, EngineError, EngineName};
use crate::rule::{Action, Family, Rule, RuleList};
use forebay_codegen::code::Isa;
use std::borrow::Cow;
use std::fmt;
use thiserror::Error;

/// The most lists that a message names.
const NAMED: usize = 40;

/// The most conditions that are reported one by one.
const TOLD: usize = 20;

/// Which list of a file, and how it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The file's language.
    pub format: Format,
    /// The list by its name in the file; none for the only one.
    pub list: Option<String>,
    /// The table of the chain, in iptables and nftables.
    pub table: Option<String>,
    /// Of Cisco and YAMAHA devices, the interface whose list is taken; with chains, the one
    /// that packets come or go by.
    pub interface: Option<String>,
    /// Which of the interface's packets.
    pub direction: Option<Direction>,
    /// What becomes of conditions that packets alone do not answer.
    pub unsupported: Unsupported,
    /// The file is of ip6tables, which its text need not say.
    pub ipv6: bool,
}

/// What users call the parts of a [`Selection`], for messages: options or keys.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// The language.
    pub format: &'static str,
    /// The list.
    pub list: &'static str,
    /// The table.
    pub table: &'static str,
    /// The interface.
    pub interface: &'static str,
    /// The direction.
    pub direction: &'static str,
    /// That addresses are IPv6.
    pub ipv6: &'static str,
}

/// Why a list cannot be loaded. Messages do not name the file; [`LoadError::in_file`] does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The file is not in its language, or has what cannot be carried over.
    #[error(transparent)]
    Text(#[from] ParseError),
    /// The file has no such list, or several.
    #[error("{0}")]
    Choice(String),
    /// No engine takes the list.
    #[error("{}{source}", line.map_or_else(String::new, |line| format!("line {line}: ")))]
    Engine {
        /// The line of the rule that is the reason, where one is.
        line: Option<usize>,
        /// The list's name, if the file gives one.
        list: Option<String>,
        /// What the list has, and what the engine takes.
        source: EngineError,
    },
}

/// A [`LoadError`] with the file's name and line as tools understand them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct FileError {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub error: Box<LoadError>,
}

impl LoadError {
    /// The error of the file of that name.
    #[must_use]
    pub fn in_file(self, file: impl Into<String>) -> FileError {
        FileError { file: file.into(), error: self.into() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match &*self.error {
            LoadError::Text(ParseError { line, found, expected }) => {
                write!(f, ":{line}: found {found}, expected {expected}")
            }
            LoadError::Choice(what) => write!(f, ": {what}"),
            LoadError::Engine { line, list, source } => {
                line.map_or(Ok(()), |line| write!(f, ":{line}"))?;
                list.as_ref().map_or(Ok(()), |list| write!(f, ": {list}"))?;
                write!(f, ": {source}")
            }
        }
    }
}

/// Loads the list that `selection` chooses from a file's bytes.
///
/// # Errors
/// [`LoadError`]
pub fn load(bytes: &[u8], selection: &Selection, names: &Names) -> Result<Imported, LoadError> {
    with_catalogue(bytes, selection, names, |catalogue, format| {
        selection.one_of(catalogue, format, names)
    })
}

/// Loads all lists of a file, or the one that `selection` chooses. All together may have as
/// many ranges as one.
///
/// # Errors
/// [`LoadError`]
pub fn load_all(
    bytes: &[u8],
    selection: &Selection,
    names: &Names,
) -> Result<Vec<Imported>, LoadError> {
    with_catalogue(bytes, selection, names, |catalogue, format| {
        let lists = catalogue.lists().len();
        let is_chosen = selection.list.is_some() || selection.takes_applied(format);
        if is_chosen || lists < 2 {
            return Ok(vec![selection.one_of(catalogue, format, names)?]);
        }
        let mut room = MAX_RANGES;
        let mut within = |imported: Imported| {
            let ranges = |rule: &Rule| 1 + rule.ranges();
            let taken = imported.list.list.rules.iter().map(ranges).sum();
            room = room.checked_sub(taken).ok_or_else(|| {
                let list = names.list;
                let message = format!(
                    "the lists have more than {MAX_RANGES} rules and ranges together: \
                     choose one with {list}"
                );
                LoadError::Choice(message)
            })?;
            Ok(imported)
        };
        let read = (0..lists).map(|list| catalogue.read(list).map_err(LoadError::Text));
        read.map(|imported| imported.and_then(&mut within)).collect()
    })
}

fn with_catalogue<T>(
    bytes: &[u8],
    selection: &Selection,
    names: &Names,
    read: impl FnOnce(Box<dyn Catalogue + '_>, Format) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let format = selection.format.resolve(bytes).map_err(|mut error| {
        error.expected = format!("{}; {} names the language", error.expected, names.format);
        error
    })?;
    selection.suits(format, names)?;
    let text = text(bytes, format)?;
    read(open(format, &text, &selection.options())?, format)
}

/// The file's text. Configurations of Cisco devices may have descriptions in any character
/// set, which do not matter: bytes that are not UTF-8 are taken as ISO 8859-1.
fn text(bytes: &[u8], format: Format) -> Result<Cow<'_, str>, ParseError> {
    match str::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(_) if format == Format::Cisco => Ok(bytes.iter().copied().map(char::from).collect()),
        Err(error) => {
            let (before, rest) = bytes.split_at(error.valid_up_to());
            let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
            let found = format!("byte {:#04x}", rest.first().copied().unwrap_or_default());
            Err(ParseError { line, found, expected: "text in UTF-8".to_owned() })
        }
    }
}

impl Selection {
    fn options(&self) -> Options {
        let way = self.direction.unwrap_or(Direction::In);
        Options {
            unsupported: self.unsupported,
            family: self.ipv6.then_some(Family::Ipv6),
            table: self.table.clone(),
            interface: self.interface.clone().map(|name| (name, way)),
        }
    }

    /// Whether the list is the one that the interface applies.
    fn takes_applied(&self, format: Format) -> bool {
        self.interface.is_some() && matches!(format, Format::Cisco | Format::Yamaha)
    }

    /// Refuses options that mean nothing for files of `format`.
    fn suits(&self, format: Format, names: &Names) -> Result<(), LoadError> {
        let Names { list, table, interface, direction, ipv6, .. } = names;
        let is_chains = matches!(format, Format::Iptables | Format::Nftables);
        let message = if self.ipv6 && format != Format::Iptables {
            format!("{ipv6} is for iptables: the other languages say so themselves")
        } else if self.table.is_some() && !is_chains {
            format!("{table} is for iptables and nftables: the other languages have no tables")
        } else if self.interface.is_some() && format == Format::Classbench {
            format!("{interface} is for the other languages: ClassBench has no interfaces")
        } else if self.takes_applied(format) && self.list.is_some() {
            format!("{interface} takes the list that it applies, and {list} another: give one")
        } else if self.direction.is_some() && self.interface.is_none() {
            format!("{direction} is of an interface's packets: expected {interface} with it")
        } else {
            return Ok(());
        };
        Err(LoadError::Choice(message))
    }

    fn one_of(
        &self,
        catalogue: Box<dyn Catalogue + '_>,
        format: Format,
        names: &Names,
    ) -> Result<Imported, LoadError> {
        match &self.interface {
            Some(interface) if self.takes_applied(format) => {
                let applied = self.applied(interface, catalogue.applied(), names)?;
                let of = |found: Applied| Some((catalogue.read(found.list?), found.family));
                joined(applied.into_iter().filter_map(of).collect())
            }
            _ => {
                let list = chosen(&catalogue.lists(), self.list.as_deref(), names)?;
                Ok(catalogue.into_list(list)?)
            }
        }
    }

    /// The lists that an interface applies to packets of one direction.
    fn applied(
        &self,
        interface: &str,
        applied: Vec<Applied>,
        names: &Names,
    ) -> Result<Vec<Applied>, LoadError> {
        let refused = |what: String| {
            Err(LoadError::Choice(format!("{} {interface} applies {what}", names.interface)))
        };
        let is = |name: &str| name.eq_ignore_ascii_case(interface);
        let of =
            |found: &Applied| is(&found.interface) || found.aliases.iter().any(|name| is(name));
        let (mut here, elsewhere): (Vec<_>, Vec<_>) = applied.into_iter().partition(of);
        if here.is_empty() {
            let mut others: Vec<_> = elsewhere.into_iter().map(|found| found.interface).collect();
            others.sort();
            others.dedup();
            others.truncate(NAMED);
            let others = if others.is_empty() { "none does".to_owned() } else { others.join(", ") };
            return refused(format!("no list of the file; these do: {others}"));
        }
        let way = match self.direction {
            Some(way) => way,
            None if here.iter().all(|found| found.direction == here[0].direction) => {
                here[0].direction
            }
            None => {
                let each = here.iter().map(|found| format!("{} {}", found.name, found.direction));
                let each = each.collect::<Vec<_>>().join(", ");
                return refused(format!("{each}: choose with {}", names.direction));
            }
        };
        here.retain(|found| found.direction == way);
        if here.is_empty() {
            return refused(format!("no list to packets that go {way}"));
        }
        for (index, found) in here.iter().enumerate() {
            if found.list.is_none() {
                return refused(format!("{}, which the file lacks", found.name));
            }
            let clashes =
                |other: &Applied| other.family == found.family && other.name != found.name;
            if here[..index].iter().any(clashes) {
                let choose = format!("choose with {}", names.list);
                return refused(format!("several lists to packets {way}: {choose}"));
            }
        }
        here.dedup_by(|left, right| left.list == right.list);
        Ok(here)
    }
}

/// The list of that name, or the only one.
fn chosen(lists: &[Listed], name: Option<&str>, names: &Names) -> Result<usize, LoadError> {
    let fits =
        |listed: &Listed| name.is_none_or(|name| listed.name == name || listed.full_name == name);
    let mut fitting = (0..lists.len()).filter(|&index| fits(&lists[index]));
    let (first, second) = (fitting.next(), fitting.next());
    let all = || told(&lists.iter().collect::<Vec<_>>());
    let option = names.list;
    Err(LoadError::Choice(match (first, second, name) {
        (Some(only), None, _) => return Ok(only),
        (Some(_), Some(_), None) => format!("several lists: choose with {option}: {}", all()),
        (Some(_), Some(_), Some(name)) => {
            let those: Vec<_> = lists.iter().filter(|listed| fits(listed)).collect();
            format!("{option} {name}: several lists of that name: {}", told(&those))
        }
        (None, _, Some(name)) => match lists {
            [] => format!("{option} {name}: no list of rules is in the file"),
            [only] if only.name.is_empty() => {
                format!("{option} {name}: the file names no list: all its rules are one")
            }
            _ => format!("{option} {name}: no such list: there are {}", all()),
        },
        (None, ..) => "no list of rules is in it".to_owned(),
    }))
}

/// The names of lists, with how long they are.
fn told(lists: &[&Listed]) -> String {
    let name = |listed: &&Listed| {
        let is_shared = lists.iter().filter(|other| other.name == listed.name).count() > 1;
        let name = if is_shared { &listed.full_name } else { &listed.name };
        let plural = if listed.entries == 1 { "" } else { "s" };
        format!("{name} ({} rule{plural})", listed.entries)
    };
    let mut names: Vec<_> = lists.iter().take(NAMED).map(name).collect();
    if lists.len() > NAMED {
        names.push(format!("and {} more", lists.len() - NAMED));
    }
    names.join(", ")
}

/// The lists of one interface as one. Packets of a family for which it applies none pass.
fn joined(
    read: Vec<(Result<Imported, ParseError>, Option<Family>)>,
) -> Result<Imported, LoadError> {
    let filtered: Vec<_> = read.iter().map(|(_, family)| *family).collect();
    let mut lists = read.into_iter().map(|(imported, _)| imported);
    let none = || LoadError::Choice("no list is applied".to_owned());
    let mut all = lists.next().ok_or_else(none)??;
    for imported in lists {
        let imported = imported?;
        all.list.list.rules.extend(imported.list.list.rules);
        all.lines.extend(imported.lines);
        all.untested.extend(imported.untested);
    }
    for family in [Family::Ipv4, Family::Ipv6] {
        if !filtered.iter().any(|of| of.is_none_or(|of| of == family)) {
            all.list.list.rules.push(Rule::any(10, family, Action::Pass));
            all.lines.push(0);
        }
    }
    let RuleList { rules, .. } = &mut all.list.list;
    // Stable: the order within a family stays.
    let mut numbered: Vec<_> = rules.drain(..).zip(all.lines.drain(..)).collect();
    numbered.sort_by_key(|(rule, _)| rule.family);
    (*rules, all.lines) = numbered.into_iter().unzip();
    Ok(all)
}

impl Imported {
    /// The line of the rule at `index`; none for a rule that comes from no line.
    #[must_use]
    pub fn line(&self, index: usize) -> Option<usize> {
        self.lines.get(index).copied().filter(|&line| line > 0)
    }

    /// Makes the list ready for matching.
    ///
    /// # Errors
    /// [`LoadError::Engine`]
    pub fn choose(&self, engine: EngineName, isa: Isa) -> Result<Chosen, LoadError> {
        let list = &self.list.list;
        engine.choose(list, isa).map_err(|source| {
            let is = |rule: &Rule| source.rule() == Some((rule.family, rule.number));
            let index = list.rules.iter().position(is);
            self.refusal(source, index)
        })
    }

    /// That no engine takes the list, for the rule at `index`.
    #[must_use]
    pub fn refusal(&self, source: EngineError, index: Option<usize>) -> LoadError {
        let line = index.and_then(|index| self.line(index));
        LoadError::Engine { line, list: self.list.given_name().map(str::to_owned), source }
    }

    /// The remarks on conditions that `unsupported` decided, a bounded number of
    /// messages that name `file`.
    #[must_use]
    pub fn warnings(&self, file: &str, unsupported: Unsupported) -> Vec<String> {
        let meaning = match unsupported {
            Unsupported::Refuse => return Vec::new(),
            Unsupported::Met => "not tested, taken as met by every packet",
            Unsupported::Unmet => "not tested, taken as met by no packet",
            Unsupported::Pass => "not tested, taken so that packets pass",
            Unsupported::Reject => "not tested, taken so that packets are rejected",
        };
        let told = self.untested.iter().take(TOLD);
        let each = told.map(|of| format!("{file}:{}: {}: {meaning}", of.line, of.condition));
        let more = self.untested.len().saturating_sub(TOLD);
        let rest = (more > 0).then(|| format!("{file}: {more} more conditions: {meaning}"));
        each.chain(rest).collect()
    }
}
