//! Finds in a configuration what concerns access lists: their entries, groups, objects,
//! and where they are applied. Nothing here is an error: what is not understood belongs
//! to something else.

use super::config::{
    Application, Class, Config, Interface, Kind, ObjectGroup, Place, RawList, Scope, System,
};
use crate::language::catalogue::{Direction, Unsupported};
use crate::language::error::ParseError;
use crate::language::words::number;
use crate::rule::Family;
use forebay_packet::cancel;
use std::collections::HashMap;

/// What the lines below belong to.
#[derive(Clone, Copy)]
enum Block<'a> {
    Nothing,
    List(usize),
    Group((Class, &'a str)),
    Interface(usize),
}

/// First words of entries, also where they are not indented.
const ENTRY_WORDS: [&str; 6] = ["permit", "deny", "remark", "sequence", "evaluate", "no"];

/// First words of members of groups, likewise.
const MEMBER_WORDS: [&str; 10] = [
    "network-object",
    "port-object",
    "service-object",
    "protocol-object",
    "icmp-object",
    "group-object",
    "host",
    "range",
    "subnet",
    "description",
];

/// What may follow the name in ASA's lists.
const ASA_WORDS: [&str; 10] = [
    "permit",
    "deny",
    "remark",
    "extended",
    "standard",
    "line",
    "webtype",
    "ethertype",
    "advanced",
    "trust",
];

impl<'a> Config<'a> {
    /// Scans a configuration.
    ///
    /// # Errors
    /// None at present: mistakes are reported when a list is read.
    pub fn scan(text: &'a str, unsupported: Unsupported) -> Result<Self, ParseError> {
        let config = Config { unsupported, system: system(text), ..Config::default() };
        let mut scan = Scan::new(config);
        let mut lines = text.lines().enumerate();
        while let Some((index, line)) = lines.next() {
            cancel::check();
            scan.line(index + 1, line);
            if let Some(end) = banner(line).filter(|_| !scan.config.system.is_asa()) {
                skip_banner(&mut lines, end);
            }
        }
        Ok(scan.finish())
    }
}

/// The delimiter of a text that begins in this line and does not end in it.
fn banner(line: &str) -> Option<&str> {
    let text = line.strip_prefix("banner ")?.trim_start();
    let text = text.split_once(' ')?.1.trim_start();
    let mut characters = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let one = characters.nth(1)?;
    let length = if text.starts_with('^') { characters.next()? } else { one };
    let (end, rest) = text.split_at(length);
    let is_delimiter = end.chars().all(|c| !c.is_alphanumeric()) || end.starts_with('^');
    (is_delimiter && !rest.contains(end)).then_some(end)
}

/// Goes behind the line that has `end`, if there is one.
fn skip_banner<'a>(lines: &mut (impl Iterator<Item = (usize, &'a str)> + Clone), end: &str) {
    /// Lines of the longest such text.
    const LINES: usize = 1_000;
    let mut ahead = lines.clone();
    if ahead.by_ref().take(LINES).any(|(_, line)| line.contains(end)) {
        *lines = ahead;
    }
}

/// What the configuration is of, by lines that only one system writes.
fn system(text: &str) -> System {
    for line in text.lines() {
        cancel::check();
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let (second, third) = (words.next(), words.next());
        match (first, second, third) {
            ("ASA" | "PIX" | "FWSM" | "FTD" | "NGFW", Some("Version"), version) => {
                return asa_version(version.unwrap_or_default());
            }
            ("!Command:", ..) | ("feature" | "vdc", Some(_), _) | ("boot", Some("nxos"), _) => {
                return System::Nxos;
            }
            ("access-list", Some(_), Some("extended" | "advanced"))
            | ("access-group", Some(_), Some("in" | "out" | "global"))
            | ("nameif", Some(_), _) => return System::Asa,
            ("ip", Some("access-list"), Some(name))
                if !["extended", "standard"].contains(&name) && words.next().is_none() =>
            {
                return System::Nxos;
            }
            _ => {}
        }
    }
    System::Ios
}

/// FTD counts on from 6, with the lists of version 9.
fn asa_version(version: &str) -> System {
    let major: u32 = version.split(['.', '(']).next().and_then(number).unwrap_or(9);
    if major < 9 { System::OldAsa } else { System::Asa }
}

struct Scan<'a> {
    config: Config<'a>,
    block: Block<'a>,
    /// Where an interface is in the configuration's.
    interfaces: HashMap<String, usize>,
    /// What was applied, or with `false` taken back, in the order of the file.
    applied: Vec<(Application<'a>, bool)>,
}

impl<'a> Scan<'a> {
    fn new(config: Config<'a>) -> Self {
        let (interfaces, applied) = (HashMap::new(), Vec::new());
        Self { config, block: Block::Nothing, interfaces, applied }
    }

    /// The configuration, with what is applied in the end.
    fn finish(mut self) -> Config<'a> {
        let mut in_force: HashMap<_, (usize, Application)> = HashMap::new();
        for (at, (of, is_applied)) in self.applied.into_iter().enumerate() {
            let slot = of.slot();
            if is_applied {
                in_force.insert(slot, (at, of));
            } else if in_force.get(&slot).is_some_and(|(_, other)| *other == of) {
                in_force.remove(&slot);
            }
        }
        let mut in_force: Vec<_> = in_force.into_values().collect();
        in_force.sort_by_key(|(at, _)| *at);
        self.config.applications = in_force.into_iter().map(|(_, of)| of).collect();
        self.config
    }

    fn line(&mut self, number: usize, line: &'a str) {
        let text = line.trim();
        let indented = line.starts_with(char::is_whitespace);
        let mut rest = Rest(text);
        let Some(first) = rest.word().filter(|word| !word.starts_with('!')) else { return };
        match first {
            "exit" | "end" | "quit" => self.block = Block::Nothing,
            "access-list" => {
                self.block = Block::Nothing;
                self.one_line(number, rest);
            }
            "ip" | "ipv4" | "ipv6" => self.ip(number, first, rest, (indented, text)),
            "object-group" if !indented || matches!(self.block, Block::Nothing) => {
                self.block = self.group(rest).map_or(Block::Nothing, Block::Group);
            }
            "object" if !indented => {
                self.block = self.object(rest).map_or(Block::Nothing, Block::Group);
            }
            "interface" => self.block = Block::Interface(self.interface(rest)),
            "access-group" if !indented => self.apply(access_group(rest), true),
            "name" if !indented => {
                if let (Some(address), Some(name)) = (rest.word(), rest.word()) {
                    self.config.names.insert(name, address);
                }
            }
            "no" if !indented || matches!(self.block, Block::Nothing | Block::Interface(_)) => {
                self.no(number, rest, text, indented);
            }
            _ => self.member(number, first, text, indented),
        }
    }

    /// A line within a block, or one of something else.
    fn member(&mut self, number: usize, first: &'a str, text: &'a str, indented: bool) {
        let numbered = first.bytes().all(|byte| byte.is_ascii_digit());
        match self.block {
            Block::List(list) if indented || numbered || ENTRY_WORDS.contains(&first) => {
                self.config.lists[list].entries.push((number, text));
            }
            Block::Group((class, name))
                if indented || numbered || MEMBER_WORDS.contains(&first) =>
            {
                self.named_group(class, name).members.push((number, text));
            }
            Block::Interface(index) if first == "nameif" => {
                self.config.interfaces[index].alias = text.split_whitespace().nth(1);
            }
            Block::Interface(_) if indented => {}
            _ => self.block = Block::Nothing,
        }
    }

    /// `access-list NAME …`, an entry in one line.
    fn one_line(&mut self, line: usize, mut rest: Rest<'a>) {
        let Some(name) = rest.word() else { return };
        let next = rest.clone().word().unwrap_or_default();
        let number = number::<u32>(name);
        let is_asa = self.config.system.is_asa() && ASA_WORDS.contains(&next)
            || number.is_none() && ASA_WORDS.contains(&next);
        let (scope, kind) = match (is_asa, number) {
            (true, _) => {
                let kind = match next {
                    "webtype" | "ethertype" => Kind::Other,
                    "standard" => Kind::Standard,
                    _ => Kind::Extended,
                };
                (Scope::Asa, kind)
            }
            (false, Some(1..=99 | 1300..=1999)) => (Scope::Ipv4, Kind::Standard),
            (false, Some(100..=199 | 2000..=2699)) => (Scope::Ipv4, Kind::Extended),
            (false, Some(_)) if ["permit", "deny"].contains(&next) => (Scope::Ipv4, Kind::Other),
            (false, _) => return,
        };
        let list = self.open(line, name, scope, kind);
        let list = &mut self.config.lists[list];
        if is_asa && next != "remark" && list.kind == Kind::Extended {
            // A remark before the first entry does not say what the list is.
            list.kind = kind;
        }
        list.entries.push((line, rest.0));
    }

    /// The place of a list, which is begun if need be.
    fn open(&mut self, line: usize, name: &'a str, scope: Scope, kind: Kind) -> usize {
        let lists = &mut self.config.lists;
        *self.config.places.entry((name, scope)).or_insert_with(|| {
            lists.push(RawList { name, scope, kind, entries: Vec::new(), line });
            lists.len() - 1
        })
    }

    /// A line that starts with `ip`, `ipv4` or `ipv6`.
    fn ip(
        &mut self,
        line: usize,
        first: &'a str,
        mut rest: Rest<'a>,
        (indented, text): (bool, &'a str),
    ) {
        let scope = if first == "ipv6" { Scope::Ipv6 } else { Scope::Ipv4 };
        let second = rest.word().unwrap_or_default();
        if second == "access-list" {
            self.block = self.header(line, scope, rest).map_or(Block::Nothing, Block::List);
            return;
        }
        let Block::Interface(index) = self.block else {
            self.member(line, first, text, indented);
            return;
        };
        match second {
            "address" => self.config.interfaces[index].address = Some(rest.0),
            "access-group" | "traffic-filter" | "port" => {
                self.apply(application(index, scope, second, rest), true);
            }
            _ if indented => {}
            _ => self.block = Block::Nothing,
        }
    }

    /// The place of an interface, which may have been named before.
    fn interface(&mut self, rest: Rest<'a>) -> usize {
        // The mode is named only where a subinterface is made.
        let words = rest.0.split_whitespace();
        let words = words.filter(|word| !["point-to-point", "multipoint"].contains(word));
        let name = words.collect::<Vec<_>>().join(" ");
        let interfaces = &mut self.config.interfaces;
        *self.interfaces.entry(name.to_ascii_lowercase()).or_insert_with(|| {
            interfaces.push(Interface { name, ..Interface::default() });
            interfaces.len() - 1
        })
    }

    /// What follows `ip access-list`: the list that the lines below belong to.
    fn header(&mut self, line: usize, scope: Scope, mut rest: Rest<'a>) -> Option<usize> {
        let word = rest.word()?;
        let (kind, name) = match word {
            "standard" => (Kind::Standard, rest.word()?),
            "extended" => (Kind::Extended, rest.word()?),
            "role-based" => (Kind::Other, rest.word()?),
            "persistent" | "match-local-traffic" | "log-update" | "logging" => return None,
            name => (Kind::Extended, name),
        };
        match rest.clone().word().filter(|word| !word.starts_with('!')) {
            None => Some(self.open(line, name, scope, kind)),
            Some("permit" | "deny" | "remark" | "line") => {
                let list = self.open(line, name, scope, kind);
                self.config.lists[list].entries.push((line, rest.0));
                None
            }
            Some(_) => None,
        }
    }

    /// `no` and a list, or where one is applied: what was there is gone.
    fn no(&mut self, line: usize, mut rest: Rest<'a>, text: &'a str, indented: bool) {
        let first = rest.word().unwrap_or_default();
        let mut behind = rest.clone();
        let second = behind.word().unwrap_or_default();
        match (first, second, self.block) {
            ("access-list", ..) => {
                self.no_list(line, &[Scope::Ipv4, Scope::Asa], rest, text);
            }
            ("ip" | "ipv4", "access-list", _) => self.no_list(line, &[Scope::Ipv4], behind, text),
            ("ipv6", "access-list", _) => self.no_list(line, &[Scope::Ipv6], behind, text),
            ("access-group", ..) if !indented => self.apply(access_group(rest), false),
            ("ip" | "ipv4" | "ipv6", _, Block::Interface(index)) => {
                let scope = if first == "ipv6" { Scope::Ipv6 } else { Scope::Ipv4 };
                self.apply(application(index, scope, second, behind), false);
            }
            _ => self.no_member(line, first, rest, text),
        }
    }

    /// A list is applied from here on, or is not any more.
    fn apply(&mut self, application: Option<Application<'a>>, is_applied: bool) {
        self.applied.extend(application.map(|application| (application, is_applied)));
    }

    /// `no access-list …` from the name on.
    fn no_list(&mut self, line: usize, scopes: &[Scope], mut rest: Rest<'a>, text: &'a str) {
        self.block = Block::Nothing;
        let mut name = rest.word();
        if matches!(name, Some("extended" | "standard")) {
            name = rest.word();
        }
        let Some(name) = name else { return };
        let is_list = rest.word().is_none_or(|word| word.starts_with('!'));
        for &scope in scopes {
            if let Some(&list) = self.config.places.get(&(name, scope)) {
                let entries = &mut self.config.lists[list].entries;
                if is_list {
                    entries.clear();
                } else {
                    // One entry, by its text: refused when the list is read.
                    entries.push((line, text));
                }
            }
        }
    }

    /// `no` and a group or object, which is gone, or what the block has, which is
    /// refused when that is read.
    fn no_member(&mut self, line: usize, first: &str, rest: Rest<'a>, text: &'a str) {
        let gone = match first {
            "object-group" => self.group(rest),
            "object" => self.object(rest),
            _ => {
                let words: &[&str] = match self.block {
                    Block::List(_) => &ENTRY_WORDS,
                    Block::Group(_) => &MEMBER_WORDS,
                    _ => return,
                };
                if first.bytes().all(|byte| byte.is_ascii_digit()) || words.contains(&first) {
                    self.member(line, "no", text, true);
                }
                return;
            }
        };
        self.block = Block::Nothing;
        if let Some((class, name)) = gone {
            *self.named_group(class, name) = ObjectGroup::default();
        }
    }

    fn named_group(&mut self, class: Class, name: &'a str) -> &mut ObjectGroup<'a> {
        self.config.groups.entry(class).or_default().entry(name).or_default()
    }

    /// `object-group CLASS … NAME [PROTOCOL]`.
    fn group(&mut self, mut rest: Rest<'a>) -> Option<(Class, &'a str)> {
        let mut word = rest.word()?;
        if word == "group" {
            word = rest.word()?;
        }
        let (class, has_wildcards) = match word {
            "network" | "v4-network" | "v6-network" => (Class::Network, false),
            "service" | "v4-service" | "v6-service" | "port" => (Class::Service, false),
            "protocol" => (Class::Protocol, false),
            "icmp-type" => (Class::IcmpType, false),
            "ip" | "ipv6" => match rest.word()? {
                "address" => (Class::Network, true),
                "port" => (Class::Service, true),
                _ => return None,
            },
            _ => return None,
        };
        let mut name = rest.word()?;
        if matches!(name, "ipv4" | "ipv6")
            && let Some(behind) = rest.word()
        {
            name = behind;
        }
        let protocol = rest.word().filter(|word| matches!(*word, "tcp" | "udp" | "tcp-udp"));
        let group = self.named_group(class, name);
        *group =
            ObjectGroup { protocol, has_wildcards, members: std::mem::take(&mut group.members) };
        Some((class, name))
    }

    /// `object network|service NAME`.
    fn object(&mut self, mut rest: Rest<'a>) -> Option<(Class, &'a str)> {
        let class = match rest.word()? {
            "network" => Class::Network,
            "service" => Class::Service,
            _ => return None,
        };
        let name = rest.word()?;
        self.named_group(class, name);
        Some((class, name))
    }
}

/// `ip access-group NAME in|out`, or another command of an interface, from its second word.
fn application<'a>(
    index: usize,
    scope: Scope,
    second: &str,
    mut rest: Rest<'a>,
) -> Option<Application<'a>> {
    let is_port = second == "port";
    let command = if is_port { rest.word()? } else { second };
    let family = if scope == Scope::Ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    if !["access-group", "traffic-filter"].contains(&command) {
        return None;
    }
    let list = rest.word()?;
    let direction = match rest.word()? {
        "in" | "ingress" => Direction::In,
        "out" | "egress" => Direction::Out,
        _ => return None,
    };
    let (interface, family) = (Place::Index(index), Some(family));
    Some(Application { interface, direction, family, is_port, list })
}

/// `access-group NAME in|out interface INTERFACE`, or `global`; none for packets to the
/// device itself.
fn access_group(mut rest: Rest<'_>) -> Option<Application<'_>> {
    let (list, how) = (rest.word()?, rest.word()?);
    let direction = if how == "out" { Direction::Out } else { Direction::In };
    let interface = match (how, rest.word(), rest.word()) {
        ("in" | "out", Some("interface"), Some(alias)) => Place::Alias(alias),
        ("global", ..) => Place::Everywhere,
        _ => return None,
    };
    let is_for_device = rest.word() == Some("control-plane");
    let (family, is_port) = (None, false);
    (!is_for_device).then_some(Application { interface, direction, family, is_port, list })
}

/// The rest of a line.
#[derive(Clone)]
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn word(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}
