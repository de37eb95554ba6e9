//! The options of a rule.

use super::save::Save;
use super::values::{
    address_range, addresses, flag_test, flags, messages, ports, protocols, split_quoted,
};
use crate::key::has_ports;
use crate::language::catalogue::Direction;
use crate::language::chains::{Step, Target};
use crate::language::error::ParseError;
use crate::language::making::{Doubt, Making};
use crate::language::words::Words;
use crate::rule::{
    Action, Family, FlagTest, IcmpTest, PortTest, ProtocolTest, Rule, TCP, TransportTest, flag,
};
use crate::sets::{ProtocolSet, RangeSet};

/// Matches whose options are read.
const MATCHES: [&str; 11] = [
    "tcp",
    "udp",
    "sctp",
    "dccp",
    "udplite",
    "icmp",
    "icmp6",
    "icmpv6",
    "multiport",
    "iprange",
    "comment",
];

/// Those that read ports, even where no option names one.
const PORT_MATCHES: [&str; 5] = ["tcp", "udp", "sctp", "dccp", "udplite"];

/// Options of these matches that ask for what a rule cannot, with the words behind each.
const UNTESTED: [(&str, usize); 8] = [
    ("-f", 0),
    ("--fragment", 0),
    ("--tcp-option", 1),
    ("--chunk-types", 2),
    ("--dccp-types", 1),
    ("--dccp-option", 1),
    ("-i", 1),
    ("-o", 1),
];

/// Targets after which the next rule is tried.
const ASIDE: [&str; 26] = [
    "AUDIT",
    "CHECKSUM",
    "CLASSIFY",
    "CONNMARK",
    "CONNSECMARK",
    "CT",
    "DSCP",
    "ECN",
    "HL",
    "HMARK",
    "IDLETIMER",
    "LED",
    "LOG",
    "MARK",
    "NFLOG",
    "NOTRACK",
    "RATEEST",
    "SECMARK",
    "SET",
    "TCPMSS",
    "TCPOPTSTRIP",
    "TEE",
    "TOS",
    "TRACE",
    "TTL",
    "ULOG",
];

/// How a condition is refused.
const EXPECTED: &str =
    "a condition on addresses, protocol, ports, TCP flags or ICMP type, which packets answer";

/// Reads a rule from its first option on.
pub(super) fn step(
    save: &Save,
    line: usize,
    name: String,
    text: &str,
    family: Family,
    making: &mut Making,
) -> Result<Step, ParseError> {
    let mut words = Words::from_words(line, split_quoted(line, text)?);
    let mut draft = Draft::new(save, family);
    while words.peek().is_some() {
        draft.option(&mut words, making)?;
    }
    draft.finish(line, name, &words, making)
}

/// The conditions of a rule's options so far.
struct Draft<'s, 'a> {
    save: &'s Save<'a>,
    family: Family,
    /// Of each field the tests that all must hold.
    sources: Vec<RangeSet<u128>>,
    destinations: Vec<RangeSet<u128>>,
    /// None within for `all`.
    protocol: Option<Option<ProtocolSet>>,
    source_ports: Vec<RangeSet<u16>>,
    destination_ports: Vec<RangeSet<u16>>,
    /// Of which one port must be.
    either_port: Option<RangeSet<u16>>,
    tcp_flags: Option<FlagTest>,
    icmp: Option<IcmpTest>,
    /// A match that reads ports was named: it fails on fragments other than the first.
    has_port_match: bool,
    /// None within for a target after which the next rule is tried.
    target: Option<Option<Target>>,
    /// Some condition holds for no packet.
    never: bool,
    /// Conditions that packets alone do not answer.
    conditions: Vec<String>,
}

impl<'s, 'a> Draft<'s, 'a> {
    fn new(save: &'s Save<'a>, family: Family) -> Self {
        Self {
            save,
            family,
            sources: Vec::new(),
            destinations: Vec::new(),
            protocol: None,
            source_ports: Vec::new(),
            destination_ports: Vec::new(),
            either_port: None,
            tcp_flags: None,
            icmp: None,
            has_port_match: false,
            target: None,
            never: false,
            conditions: Vec::new(),
        }
    }

    /// One option with its arguments.
    fn option(&mut self, words: &mut Words, making: &mut Making) -> Result<(), ParseError> {
        let negated = words.take_if("!");
        let option = words.need("an option")?;
        let family = self.family;
        match option {
            "-s" | "--source" => self.sources.push(addresses(family, negated, words)?),
            "-d" | "--destination" => self.destinations.push(addresses(family, negated, words)?),
            "--src-range" => self.sources.push(address_range(family, negated, words)?),
            "--dst-range" => self.destinations.push(address_range(family, negated, words)?),
            "-p" | "--protocol" => {
                let set = protocols(family, negated, words)?;
                once(&mut self.protocol, set, option, words)?;
            }
            "--sport" | "--source-port" | "--sports" | "--source-ports" => {
                self.source_ports.push(ports(negated, words)?);
            }
            "--dport" | "--destination-port" | "--dports" | "--destination-ports" => {
                self.destination_ports.push(ports(negated, words)?);
            }
            "--ports" if negated => {
                // Neither port is one of them.
                let set = ports(true, words)?;
                self.source_ports.push(set.clone());
                self.destination_ports.push(set);
            }
            "--ports" => once(&mut self.either_port, ports(false, words)?, option, words)?,
            "--tcp-flags" => {
                let (mask, value) = (flags(words)?, flags(words)?);
                once(&mut self.tcp_flags, flag_test(negated, mask, value), option, words)?;
            }
            "--syn" => {
                let mask = flag::FIN | flag::SYN | flag::RST | flag::ACK;
                once(&mut self.tcp_flags, flag_test(negated, mask, flag::SYN), option, words)?;
            }
            "--icmp-type" | "--icmpv6-type" => {
                let test = messages(family, negated, words)?;
                once(&mut self.icmp, test, option, words)?;
            }
            "-i" | "--in-interface" => self.interface(Direction::In, negated, words)?,
            "-o" | "--out-interface" => self.interface(Direction::Out, negated, words)?,
            _ if UNTESTED.iter().any(|entry| entry.0 == option) => {
                let behind = UNTESTED.iter().find(|entry| entry.0 == option).map_or(0, |e| e.1);
                let mut condition = option.to_owned();
                for _ in 0..behind {
                    condition = format!("{condition} {}", words.need("a value")?);
                }
                self.doubt(negated, &condition);
            }
            _ if negated => return Err(words.error(option, "an option that `!` may stand before")),
            "-m" | "--match" => self.named_match(words)?,
            "--comment" => {
                words.need("a comment")?;
            }
            "--reject-with" if self.target.is_some() => {
                words.need("how to reject")?;
            }
            "-j" | "--jump" => self.jump(option, words, making)?,
            "-g" | "--goto" => {
                let name = words.need("the name of a chain")?;
                let target = Some(Target::Goto(name.to_owned()));
                once(&mut self.target, target, option, words)?;
            }
            _ => return Err(words.error(option, EXPECTED)),
        }
        Ok(())
    }

    /// `-m NAME`, with all that belongs to it where it is not one that is read.
    fn named_match(&mut self, words: &mut Words) -> Result<(), ParseError> {
        let name = words.need("the name of a match")?;
        if MATCHES.contains(&name) {
            self.has_port_match |= PORT_MATCHES.contains(&name);
            return Ok(());
        }
        let mut condition = format!("-m {name}");
        while let Some(word) = words.peek() {
            if ["-m", "--match", "-j", "--jump", "-g", "--goto"].contains(&word) {
                break;
            }
            condition = format!("{condition} {word}");
            words.take();
        }
        self.doubt(false, &condition);
        Ok(())
    }

    fn doubt(&mut self, negated: bool, condition: &str) {
        let not = if negated { "! " } else { "" };
        self.conditions.push(format!("{not}{condition}"));
    }

    /// `-i NAME` or `-o NAME`, where a `+` at the end matches anything.
    fn interface(
        &mut self,
        direction: Direction,
        negated: bool,
        words: &mut Words,
    ) -> Result<(), ParseError> {
        let name = words.need("the name of an interface")?;
        match &self.save.interface {
            Some((known, way)) if *way == direction => {
                let is_it = match name.strip_suffix('+') {
                    Some(start) => known.starts_with(start),
                    None => known == name,
                };
                self.never |= is_it == negated;
            }
            _ => {
                let option = if direction == Direction::In { "-i" } else { "-o" };
                self.doubt(negated, &format!("{option} {name}"));
            }
        }
        Ok(())
    }

    fn jump(
        &mut self,
        option: &str,
        words: &mut Words,
        making: &mut Making,
    ) -> Result<(), ParseError> {
        const TARGET: &str = "a target that decides: ACCEPT, DROP, REJECT, RETURN or a chain";
        let name = words.need(TARGET)?;
        let target = match name {
            "ACCEPT" => Some(Target::Verdict(Action::Pass)),
            "DROP" | "REJECT" => Some(Target::Verdict(Action::Reject)),
            "RETURN" => Some(Target::Return),
            _ if self.save.chains.contains_key(name) => Some(Target::Jump(name.to_owned())),
            _ => {
                let condition = format!("-j {name} {}", words.rest());
                if ASIDE.contains(&name) {
                    None
                } else {
                    let action =
                        making.unknown_target(words.line(), condition.trim_end(), TARGET)?;
                    action.map(Target::Verdict)
                }
            }
        };
        once(&mut self.target, target, option, words)
    }

    fn finish(
        self,
        line: usize,
        name: String,
        words: &Words,
        making: &mut Making,
    ) -> Result<Step, ParseError> {
        making.work(line, &name, 0)?;
        let target = self.target.clone().flatten();
        let (never, conditions) = (self.never, self.conditions.clone());
        let mut alternatives = self.rules(words)?;
        let mut doubtful = false;
        if target.is_none() || never || alternatives.is_empty() {
            alternatives.clear();
        } else {
            for condition in conditions {
                match making.doubt(line, &condition, EXPECTED)? {
                    Doubt::Met => {}
                    Doubt::Unmet => alternatives.clear(),
                    Doubt::Either => doubtful = true,
                }
            }
        }
        let target = target.unwrap_or(Target::Return);
        Step { line, name, alternatives, doubtful, target }.kept(making)
    }

    /// The rules of which one matches.
    fn rules(self, words: &Words) -> Result<Vec<Rule>, ParseError> {
        let protocols = self.protocol.flatten();
        let alone = protocols.and_then(only_one);
        let refuse = |expected: &str| Err(ParseError::end(words.line(), expected));
        if self.tcp_flags.is_some() && alone != Some(TCP) {
            return refuse("`-p tcp`, as TCP flags are asked for");
        }
        if self.icmp.is_some() && alone != Some(self.family.icmp()) {
            return refuse("`-p` with ICMP, as its type is asked for");
        }
        let asks_ports = !self.source_ports.is_empty()
            || !self.destination_ports.is_empty()
            || self.either_port.is_some();
        if (asks_ports || self.has_port_match) && !alone.is_some_and(has_ports) {
            return refuse("`-p` with a protocol that has ports, as these are asked for");
        }
        let mut rule = Rule::any(0, self.family, Action::Reject);
        if let Some(protocols) = protocols {
            let tcp_flags = self.tcp_flags.into_iter().collect();
            rule.protocol =
                ProtocolTest::Only(TransportTest { protocols, tcp_flags, icmp: self.icmp });
        }
        // The match fails on a packet without ports, whatever it tests of them.
        let has_other_test = asks_ports || self.tcp_flags.is_some();
        if self.has_port_match && !has_other_test {
            rule.source_ports = PortTest::In(RangeSet::full());
        }
        let mut both = Some(rule);
        let any = || Rule::any(0, self.family, Action::Reject);
        let source = self.sources.into_iter().map(|source| Rule { source, ..any() });
        let destination =
            self.destinations.into_iter().map(|destination| Rule { destination, ..any() });
        let from = self.source_ports.into_iter().map(PortTest::In);
        let from = from.map(|source_ports| Rule { source_ports, ..any() });
        let to = self.destination_ports.into_iter().map(PortTest::In);
        let to = to.map(|destination_ports| Rule { destination_ports, ..any() });
        for test in source.chain(destination).chain(from).chain(to) {
            both = both.and_then(|both| both.and(&test));
        }
        let Some(both) = both else { return Ok(Vec::new()) };
        let Some(either) = self.either_port.map(PortTest::In) else { return Ok(vec![both]) };
        let tests = [
            Rule { source_ports: either.clone(), ..any() },
            Rule { destination_ports: either, ..any() },
        ];
        Ok(tests.iter().filter_map(|test| both.and(test)).collect())
    }
}

/// The protocol of a set of one.
fn only_one(protocols: ProtocolSet) -> Option<u8> {
    let first = protocols.iter().next()?;
    (protocols == ProtocolSet::one(first)).then_some(first)
}
/// Sets a field that only one option may set: two would both have to hold.
fn once<T>(field: &mut Option<T>, value: T, option: &str, words: &Words) -> Result<(), ParseError> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(words.error(option, "one option for each field of a packet")),
    }
}
