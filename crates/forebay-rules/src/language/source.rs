//! Files of all languages as catalogues of lists: which lists are in a file, which of
//! them an interface applies, and one of them read.
//!
//! A file is scanned first and understood later: scanning finds where lists begin and
//! end and skips everything else; only a list that is asked for is read, so that
//! mistakes elsewhere do not matter.

use super::{NamedList, ParseError, cisco, classbench, iptables, nftables, yamaha};
use crate::rule::{Action, Family, Rule, RuleList};
use forebay_packet::cancel;
use std::fmt;

/// The most rules that a list may become.
pub const MAX_RULES: usize = 500_000;

/// The most address and port ranges that all rules of a list may have together.
pub const MAX_RANGES: usize = 2_000_000;

/// The most conjunctions that are formed for a list of chains.
pub const MAX_WORK: usize = 2_000_000;

/// Ranges that a step may be about: one about more counts as several.
const RANGES_OF_STEP: usize = 25;

/// The deepest that groups may be within groups, and chains within chains.
pub const MAX_NESTING: usize = 32;

/// The languages that lists are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// One of the others, recognised by the text.
    #[default]
    Auto,
    /// Filters of YAMAHA RT routers.
    Yamaha,
    /// Configurations of Cisco devices.
    Cisco,
    /// What `iptables-save` and `ip6tables-save` print.
    Iptables,
    /// What `nft -j list ruleset` prints.
    Nftables,
    /// Filter sets of ClassBench.
    Classbench,
}

impl Format {
    /// All by the names that users give them, each with what it is.
    pub const NAMES: [(&str, Self, &str); 6] = [
        ("auto", Self::Auto, "Told from the file"),
        ("yamaha", Self::Yamaha, "Filters of YAMAHA RT routers: our own language"),
        (
            "cisco",
            Self::Cisco,
            "Access lists in configurations of Cisco devices: IOS, IOS-XE, NX-OS, ASA",
        ),
        ("iptables", Self::Iptables, "What iptables-save or ip6tables-save prints"),
        ("nftables", Self::Nftables, "What `nft -j list ruleset` prints"),
        ("classbench", Self::Classbench, "Filter sets of ClassBench"),
    ];

    /// The format, recognised by the text where it is not given.
    ///
    /// The first line that only one language has decides. A text of blank lines and `#`
    /// comments alone is an empty list of ours.
    ///
    /// # Errors
    /// If no line is of any language, with the first that is no comment.
    pub fn resolve(self, text: &[u8]) -> Result<Self, ParseError> {
        if self != Self::Auto {
            return Ok(self);
        }
        let mut strange = None;
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            cancel::check();
            let line = String::from_utf8_lossy(&line[..line.len().min(LINE_START)]);
            if let Some(format) = Self::of_line(&line, strange.is_none()) {
                return Ok(format);
            }
            let line = line.trim();
            if strange.is_none() && !line.is_empty() && !line.starts_with('#') {
                strange = Some(ParseError::at(index + 1, line, EXPECTED));
            }
        }
        strange.map_or(Ok(Self::Yamaha), Err)
    }

    /// The language that `line` can only be of. JSON is the whole text, so that it is known by
    /// the first line.
    fn of_line(line: &str, is_first: bool) -> Option<Self> {
        let is_prefix = |word: &str| {
            let (address, length) = word.split_once('/').unwrap_or_default();
            address.parse::<std::net::Ipv4Addr>().is_ok() && length.parse::<u8>().is_ok()
        };
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        match words[..] {
            [first, ..] if is_first && first.starts_with('{') => Some(Self::Nftables),
            ["*filter" | "*nat" | "*mangle" | "*raw" | "*security"] => Some(Self::Iptables),
            [source, destination, ..]
                if source.strip_prefix('@').is_some_and(is_prefix) && is_prefix(destination) =>
            {
                Some(Self::Classbench)
            }
            ["ip" | "ipv6", "filter", ..]
            | ["ip" | "ipv6", _, "secure", "filter"]
            | ["numbers", "from", ..] => Some(Self::Yamaha),
            ["access-list", _, ..] | ["ip" | "ipv4" | "ipv6", "access-list", ..] => {
                Some(Self::Cisco)
            }
            _ => None,
        }
    }
}

/// The bytes of a line by which its language is recognised.
const LINE_START: usize = 512;

/// What a text must have for its language to be recognised.
const EXPECTED: &str = "rules of YAMAHA routers (`ip filter …`), a configuration with access \
    lists of a Cisco device (`access-list …`), what iptables-save prints (`*filter`) or \
    `nft -j list ruleset` (`{\"nftables\": …`), or rules of ClassBench (`@192.0.2.0/24 …`)";

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

/// The lists of a file of `format`.
///
/// # Errors
/// If the text is not of that format as a whole. Mistakes within a list are reported when it
/// is read.
pub fn open<'a>(
    format: Format,
    text: &'a str,
    options: &Options,
) -> Result<Box<dyn Catalogue + 'a>, ParseError> {
    Ok(match format {
        Format::Auto => return open(format.resolve(text.as_bytes())?, text, options),
        Format::Yamaha => Box::new(yamaha::parse(text)?),
        Format::Classbench => Box::new(Whole(classbench::parse(text)?)),
        Format::Cisco => Box::new(cisco::Config::scan(text, options.unsupported)?),
        Format::Iptables => Box::new(iptables::Save::scan(text, options)?),
        Format::Nftables => Box::new(nftables::Ruleset::scan(text, options)?),
    })
}

/// A file that is one list without a name.
struct Whole(RuleList);

impl Catalogue for Whole {
    fn lists(&self) -> Vec<Listed> {
        let (name, full_name) = (String::new(), String::new());
        vec![Listed { name, full_name, entries: self.0.rules.len() }]
    }

    fn read(&self, list: usize) -> Result<Imported, ParseError> {
        let rules = self.0.rules.iter().inspect(|_| cancel::check()).cloned().collect();
        Box::new(Self(RuleList { rules, ..self.0 })).into_list(list)
    }

    fn into_list(self: Box<Self>, _: usize) -> Result<Imported, ParseError> {
        // Rules are numbered by their line, from 0.
        let lines = self.0.rules.iter().map(|rule| rule.number as usize + 1).collect();
        let list = NamedList { name: String::new(), list: self.0 };
        Ok(Imported { list, lines, untested: Vec::new() })
    }
}

/// What a rule with a condition of unknown outcome becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// The condition is left out.
    Met,
    /// The rule is left out.
    Unmet,
    /// That depends on the rule's action.
    Either,
}

fn too_many_ranges(line: usize, found: &str) -> ParseError {
    let expected = format!("at most {MAX_RANGES} address and port ranges in a list");
    ParseError::at(line, found, expected)
}

/// The list that is being made of a file's rules: its budget, its numbers, and what was
/// not tested.
pub(crate) struct Making {
    unsupported: Unsupported,
    rules: Vec<Rule>,
    lines: Vec<usize>,
    untested: Vec<Untested>,
    ranges: usize,
    /// Ranges that are kept and have become no rules yet.
    kept: usize,
    work: usize,
    /// The greatest number so far, IPv4 and IPv6.
    last: [u32; 2],
}

impl Making {
    pub(crate) fn new(unsupported: Unsupported) -> Self {
        let (rules, lines, untested) = (Vec::new(), Vec::new(), Vec::new());
        Self { unsupported, rules, lines, untested, ranges: 0, kept: 0, work: 0, last: [0; 2] }
    }

    /// What becomes of a rule in `line` with `condition`, which packets do not answer.
    pub(crate) fn doubt(
        &mut self,
        line: usize,
        condition: &str,
        expected: &str,
    ) -> Result<Doubt, ParseError> {
        let doubt = match self.unsupported {
            Unsupported::Refuse => return Err(ParseError::at(line, condition, expected)),
            Unsupported::Met => Doubt::Met,
            Unsupported::Unmet => Doubt::Unmet,
            Unsupported::Pass | Unsupported::Reject => Doubt::Either,
        };
        self.untested.push(Untested { line, condition: condition.to_owned() });
        Ok(doubt)
    }

    /// The action of a rule whose target is not known, if there is one to take.
    pub(crate) fn unknown_target(
        &mut self,
        line: usize,
        target: &str,
        expected: &str,
    ) -> Result<Option<Action>, ParseError> {
        let action = match self.unsupported {
            // That a target is met does not show what it does.
            Unsupported::Refuse | Unsupported::Met => {
                return Err(ParseError::at(line, target, expected));
            }
            Unsupported::Unmet => None,
            Unsupported::Pass => Some(Action::Pass),
            Unsupported::Reject => Some(Action::Reject),
        };
        self.untested.push(Untested { line, condition: target.to_owned() });
        Ok(action)
    }

    /// Counts ranges that are kept of `line` until they become rules; all that are
    /// beyond one a field.
    pub(crate) fn keep(
        &mut self,
        line: usize,
        found: &str,
        ranges: usize,
    ) -> Result<(), ParseError> {
        self.kept += ranges;
        if self.kept > MAX_RANGES { Err(too_many_ranges(line, found)) } else { Ok(()) }
    }

    /// Counts a step of work that may add no rule, on so many ranges.
    pub(crate) fn work(
        &mut self,
        line: usize,
        found: &str,
        ranges: usize,
    ) -> Result<(), ParseError> {
        cancel::check();
        self.work += 1 + ranges / RANGES_OF_STEP;
        if self.work > MAX_WORK {
            let expected = format!("chains that take at most {MAX_WORK} steps to combine");
            return Err(ParseError::at(line, found, expected));
        }
        Ok(())
    }

    /// Adds a rule of `line`, numbered as it is or, where that is too low, by the next
    /// free number. One of doubtful outcome is added only if it decides as wanted.
    pub(crate) fn add(
        &mut self,
        line: usize,
        mut rule: Rule,
        doubtful: bool,
    ) -> Result<(), ParseError> {
        let wanted = match self.unsupported {
            Unsupported::Pass => Action::Pass,
            _ => Action::Reject,
        };
        if doubtful && rule.action != wanted {
            return Ok(());
        }
        cancel::check();
        self.ranges += rule.ranges();
        let shown = format!("rule {}", rule.number);
        if self.ranges > MAX_RANGES {
            return Err(too_many_ranges(line, &shown));
        }
        if self.rules.len() == MAX_RULES {
            return Err(ParseError::at(line, &shown, format!("at most {MAX_RULES} in a list")));
        }
        let last = &mut self.last[usize::from(rule.family == Family::Ipv6)];
        rule.number = rule.number.max(last.saturating_add(1));
        if rule.number > super::yamaha::MAX_NUMBER {
            let expected = "room for a number behind the last";
            return Err(ParseError::at(line, &rule.number.to_string(), expected));
        }
        *last = rule.number;
        self.rules.push(rule);
        self.lines.push(line);
        Ok(())
    }

    pub(crate) fn finish(self, name: String, default: Action) -> Imported {
        let Self { rules, lines, mut untested, .. } = self;
        untested.sort_by_key(|untested| untested.line);
        untested.dedup();
        let list = NamedList { name, list: RuleList { rules, default } };
        Imported { list, lines, untested }
    }
}
