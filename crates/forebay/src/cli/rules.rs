//! The command line of `forebay rules`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use forebay_rules::choose::EngineName;

use super::ReadLimits;

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
    /// Exits with 1 if the file cannot be read as rules, or if a rule can never do what it says.
    Check(RulesCheckArgs),
    /// Find the first rule that matches each packet
    Match(RulesMatchArgs),
    /// Say which rule decides about a packet, and why the earlier ones do not
    Explain(RulesExplainArgs),
    /// Print a list of another language as ours
    Import(RulesImportArgs),
}

/// A rule list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The rules, as YAMAHA RT routers write them; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The list, as interface and direction: lan1:in. Needed where the file applies several
    #[arg(long, value_name = "NAME")]
    pub list: Option<String>,
}

/// `forebay rules check`.
#[derive(Debug, Args)]
pub struct RulesCheckArgs {
    /// The rules
    #[command(flatten)]
    pub list: ListArgs,
    /// Tell also what is usual and seldom wrong, as exceptions before a general rule
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
    /// What reading may take
    #[command(flatten)]
    pub limits: ReadLimits,
    /// What finds the rule
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = engine_names())]
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

/// `forebay rules import`.
#[derive(Debug, Args)]
pub struct RulesImportArgs {
    /// The language of the file
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    pub from: RuleLanguage,
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The list by its name in the file: an access list's, a chain's. Needed where there are several
    #[arg(long, visible_alias = "chain", value_name = "NAME")]
    pub list: Option<String>,
    /// The table of the chain: of iptables `filter` if not given, of nftables any
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// The list that this interface applies; with chains, the interface that packets come or go by
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// Which of the interface's packets: those that come in, or those that go out
    #[arg(long, value_enum, value_name = "WAY", requires = "interface")]
    pub direction: Option<Way>,
    /// What becomes of a rule with a condition that packets alone do not answer
    #[arg(long, value_enum, value_name = "MEANING", default_value = "refuse")]
    pub unsupported: UnsupportedCondition,
    /// The rules are for IPv6, as ip6tables-save prints them
    #[arg(long)]
    pub ipv6: bool,
}

/// Languages that rule lists are imported from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuleLanguage {
    /// Filter sets of ClassBench
    Classbench,
    /// Access lists in configurations of Cisco devices: IOS, IOS-XE, NX-OS, ASA
    Cisco,
    /// What iptables-save or ip6tables-save prints
    Iptables,
    /// What `nft -j list ruleset` prints
    Nftables,
}

/// Ways through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Into the device
    In,
    /// Out of the device
    Out,
}

/// What becomes of a rule with a condition that packets alone do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UnsupportedCondition {
    /// It is an error that names the rule
    Refuse,
    /// Every packet meets the condition: the rule is imported without it
    Met,
    /// No packet meets the condition: the rule is left out
    Unmet,
    /// Packets pass wherever they may: a rule that passes is taken as met, one that rejects as unmet
    Pass,
    /// Packets are rejected wherever they may: a rule that rejects is taken as met, one that passes as unmet
    Reject,
}

/// The names of the engines of rule lists.
fn engine_names() -> impl TypedValueParser<Value = EngineName> {
    PossibleValuesParser::new(EngineName::ALL.map(EngineName::name))
        .try_map(|name| name.parse::<EngineName>())
}
