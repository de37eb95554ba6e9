//! The command line of `forebay rules`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use forebay_rules::choose::EngineName;
use forebay_rules::language::load::{Names, Selection};
use forebay_rules::language::{Direction, Format, Unsupported};

use super::capture::ReadLimits;
use super::headings::STUDY;

/// `forebay rules`.
#[derive(Debug, Args)]
pub struct RulesArgs {
    /// What to do with the list
    #[command(subcommand)]
    pub verb: RulesVerb,
}

/// The verbs of `forebay rules`.
#[derive(Debug, Subcommand)]
pub enum RulesVerb {
    /// Find rules that never decide, or contradict others
    ///
    /// Exits with 1 if the file cannot be read as rules, or if a rule can never apply.
    Check(RulesCheckArgs),
    /// Find the first rule that matches each packet
    Match(RulesMatchArgs),
    /// Show which rule decides about a packet, and why earlier ones do not match
    Explain(RulesExplainArgs),
    /// Print a list of any language in our language
    Import(ListArgs),
}

/// A rule list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The rules; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The list of the file
    #[command(flatten)]
    pub choice: ListChoice,
}

/// The selection of a list of a file of rules, and how it is parsed.
#[derive(Debug, Default, Args)]
pub struct ListChoice {
    /// The language of the rules
    #[arg(long, value_name = "LANGUAGE", default_value = "auto", value_parser = named(Format::NAMES))]
    pub from: Format,
    /// The list by its name in the rules' file: an access list's, a chain's, interface and
    /// direction as in lan1:in. Needed if the file has several
    #[arg(long, visible_alias = "chain", value_name = "NAME")]
    pub list: Option<String>,
    /// The table of the chain: by default `filter` for iptables, any for nftables
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// The list that this interface applies; with chains, the interface of the packets
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// The direction of the interface's packets: received or sent
    #[arg(
        long, value_name = "WAY", requires = "interface", value_parser = named(Direction::NAMES)
    )]
    pub direction: Option<Direction>,
    /// How to treat a rule with a condition that packets alone do not determine
    #[arg(
        long, value_name = "MEANING", default_value = "refuse",
        value_parser = named(Unsupported::NAMES)
    )]
    pub unsupported: Unsupported,
    /// The rules are for IPv6, as printed by ip6tables-save
    #[arg(long)]
    pub ipv6: bool,
}

impl ListChoice {
    /// The names of these options.
    pub const NAMES: Names = Names {
        format: "--from",
        list: "--list",
        table: "--table",
        interface: "--interface",
        direction: "--direction",
        ipv6: "--ipv6",
    };

    /// The selection by these options.
    #[must_use]
    pub fn selection(&self) -> Selection {
        Selection {
            format: self.from,
            list: self.list.clone(),
            table: self.table.clone(),
            interface: self.interface.clone(),
            direction: self.direction,
            unsupported: self.unsupported,
            ipv6: self.ipv6,
        }
    }
}

/// `forebay rules check`.
#[derive(Debug, Args)]
pub struct RulesCheckArgs {
    /// The rules
    #[command(flatten)]
    pub list: ListArgs,
    /// Also report what is common and seldom wrong, such as exceptions before a general
    /// rule
    #[arg(long)]
    pub notes: bool,
}

/// `forebay rules match`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("packets").required(true))]
pub struct RulesMatchArgs {
    /// The rules
    #[command(flatten)]
    pub list: ListArgs,
    /// The packets of a capture; `-` is standard input
    #[arg(short, long, value_name = "PCAP", group = "packets")]
    pub read: Option<PathBuf>,
    /// The headers of a ClassBench trace
    #[arg(long, value_name = "TRACE", group = "packets")]
    pub trace: Option<PathBuf>,
    /// Limits of reading
    #[command(flatten)]
    pub limits: ReadLimits,
    /// The engine that matches
    #[arg(long, help_heading = STUDY, value_name = "NAME", default_value = "auto")]
    #[arg(value_parser = engine_names())]
    pub engine: EngineName,
    /// Print for each packet the number of the rule, `-` for the default, one a line
    #[arg(long)]
    pub verdicts: bool,
}

/// `forebay rules explain`.
#[derive(Debug, Args)]
pub struct RulesExplainArgs {
    /// The rules
    #[command(flatten)]
    pub list: ListArgs,
    /// The packet: 'tcp 10.0.0.1:1234 > 10.0.0.2:80 ack'
    #[arg(long, value_name = "PACKET")]
    pub packet: String,
}

/// A parser of names of values, each with its help.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [(&'static str, T, &'static str); N],
) -> impl TypedValueParser<Value = T> {
    let names = all.map(|(name, _, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).try_map(move |given| {
        let found = all.iter().find(|(name, ..)| *name == given);
        found.map(|&(_, value, _)| value).ok_or("no such name")
    })
}

/// The names of the engines of rule lists.
fn engine_names() -> impl TypedValueParser<Value = EngineName> {
    PossibleValuesParser::new(EngineName::ALL.map(EngineName::name))
        .try_map(|name| name.parse::<EngineName>())
}
