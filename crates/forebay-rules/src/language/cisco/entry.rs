//! The entries of a list that was asked for.

use super::config::{Class, Config, Kind, RawList, Scope, System};
use super::fields::{Addresses, Mask, Service, messages, network, ports, protocol};
use super::objects::{Objects, union};
use super::options::{EXPECTED, Options};
use crate::key::ends_ipv6_chain;
use crate::language::catalogue::Imported;
use crate::language::conjunction::message;
use crate::language::error::ParseError;
use crate::language::making::{Doubt, MAX_RULES, Making};
use crate::language::words::{Words, address_kind, number};
use crate::rule::{
    Action, Family, FlagTest, MAX_NUMBER, PortTest, ProtocolTest, Rule, TCP, TransportTest,
};
use crate::sets::{ProtocolSet, RangeSet};
use forebay_packet::cancel;
use std::collections::BTreeMap;

/// Steps between the numbers of entries that come without.
const STEP: u32 = 10;

/// Lines within a list that decide nothing.
const ASIDE: [&str; 5] = ["remark", "description", "statistics", "counters", "!"];

/// Reads a list.
pub(super) fn read(config: &Config, raw: &RawList, making: Making) -> Result<Imported, ParseError> {
    if raw.kind == Kind::Other {
        let expected = "a list of packets: standard or extended, of IOS, NX-OS or ASA";
        return Err(ParseError::at(raw.line, raw.name, expected));
    }
    let entries = BTreeMap::new();
    let objects = Objects::new(config);
    let mut reader =
        Reader { system: config.system, raw, objects, making, entries, lines_of_asa: 0 };
    for &(line, text) in &raw.entries {
        cancel::check();
        reader.line(&mut Words::new(line, text, '!'))?;
    }
    reader.finish()
}

/// An entry as it is written; an entry of ASA is for packets of both families.
struct Entry {
    line: usize,
    action: Action,
    log: bool,
    services: Vec<Service>,
    source: Addresses,
    destination: Addresses,
    tcp_flags: Vec<FlagTest>,
    doubtful: bool,
}

struct Reader<'r, 'a> {
    system: System,
    raw: &'r RawList<'a>,
    objects: Objects<'r, 'a>,
    making: Making,
    /// The entries by sequence number; none where it decides nothing.
    entries: BTreeMap<u32, Option<Entry>>,
    lines_of_asa: u32,
}

impl Reader<'_, '_> {
    /// The family that the list's protocols are of.
    fn family(&self) -> Family {
        if self.raw.scope == Scope::Ipv6 { Family::Ipv6 } else { Family::Ipv4 }
    }

    fn is_asa(&self) -> bool {
        self.raw.scope == Scope::Asa
    }

    /// `[NUMBER] permit|deny …`, or what decides nothing.
    fn line(&mut self, words: &mut Words) -> Result<(), ParseError> {
        let mut given = words.peek().and_then(number::<u32>);
        if given.is_some() {
            words.take();
        } else if words.take_if("sequence") {
            given = Some(words.number("a sequence number")?);
        }
        if self.is_asa() {
            self.lines_of_asa = self.lines_of_asa.saturating_add(1);
            if words.take_if("line") {
                let next = self.lines_of_asa;
                let at = words.number::<u32>("the number of a line")?;
                if at != next {
                    let expected = format!("{next}, the next line, or no number");
                    return Err(words.error(&at.to_string(), expected));
                }
            }
            words.take_if(if self.raw.kind == Kind::Standard { "standard" } else { "extended" });
            given = Some(self.lines_of_asa.saturating_mul(STEP));
        }
        const EXPECTED: &str = "`permit`, `deny` or `remark`";
        let verb = words.need(EXPECTED)?;
        let action = match verb {
            "permit" => Action::Pass,
            "deny" => Action::Reject,
            _ if ASIDE.contains(&verb) => return Ok(()),
            "no" => return self.no(words),
            "evaluate" => return self.other(given, verb, Action::Pass, words),
            "fragments" => {
                let passes = words.peek() == Some("permit-all");
                let action = if passes { Action::Pass } else { Action::Reject };
                return self.other(given, verb, action, words);
            }
            "dynamic" => {
                words.need("the name of a dynamic list")?;
                if words.take_if("timeout") {
                    words.number::<u32>("minutes")?;
                }
                let passes = words.peek() == Some("permit");
                let action = if passes { Action::Pass } else { Action::Reject };
                return self.other(given, verb, action, words);
            }
            _ => return Err(words.error(verb, EXPECTED)),
        };
        let line = words.line();
        let (number, entry) = self.entry(action, words)?;
        self.insert(line, number.or(given), entry)
    }

    /// `no NUMBER`: the entry is gone.
    fn no(&mut self, words: &mut Words) -> Result<(), ParseError> {
        if words.take_if("sequence") || words.peek().is_some_and(|w| number::<u32>(w).is_some()) {
            let number = words.number::<u32>("a sequence number")?;
            self.entries.remove(&number);
            return Ok(());
        }
        let found = format!("no {}", words.rest());
        Err(words.error(found.trim_end(), "`no` and the number of an entry"))
    }

    /// An entry whose conditions are not known at all.
    fn other(
        &mut self,
        given: Option<u32>,
        verb: &str,
        action: Action,
        words: &mut Words,
    ) -> Result<(), ParseError> {
        let condition = format!("{verb} {}", words.rest());
        let line = words.line();
        let expected = "an entry that packets alone answer";
        let doubt = self.making.doubt(line, condition.trim_end(), expected)?;
        let any = Addresses::all(self.family());
        let entry = Entry {
            line,
            action,
            log: false,
            services: vec![Service::of(None)],
            source: any.clone(),
            destination: any,
            tcp_flags: Vec::new(),
            doubtful: doubt == Doubt::Either,
        };
        self.insert(line, given, Some(entry).filter(|_| doubt != Doubt::Unmet))
    }

    fn insert(
        &mut self,
        line: usize,
        given: Option<u32>,
        entry: Option<Entry>,
    ) -> Result<(), ParseError> {
        let number = match given {
            Some(number) => number,
            None => self.next_number(line)?,
        };
        if self.entries.contains_key(&number) || !(1..=MAX_NUMBER).contains(&number) {
            let expected = format!("a sequence number, 1 to {MAX_NUMBER}, that no entry has yet");
            return Err(ParseError::at(line, &number.to_string(), expected));
        }
        let shown = format!("rule {number}");
        if self.entries.len() == MAX_RULES {
            return Err(ParseError::at(line, &shown, format!("at most {MAX_RULES} in a list")));
        }
        self.making.keep(line, &shown, entry.as_ref().map_or(0, Entry::size))?;
        self.entries.insert(number, entry);
        Ok(())
    }

    fn next_number(&self, line: usize) -> Result<u32, ParseError> {
        let last = self.entries.last_key_value().map_or(0, |(&number, _)| number);
        let next = last.checked_add(STEP).filter(|next| *next <= MAX_NUMBER);
        next.ok_or_else(|| {
            ParseError::at(line, &last.to_string(), "room for a sequence number behind the last")
        })
    }

    /// An entry from its protocol on, with the number that its end may give; no entry
    /// where it is not in force.
    fn entry(
        &mut self,
        action: Action,
        words: &mut Words,
    ) -> Result<(Option<u32>, Option<Entry>), ParseError> {
        let line = words.line();
        let standard = self.raw.kind == Kind::Standard;
        let mut services = if standard { vec![Service::of(None)] } else { self.services(words)? };
        let mut source = self.addresses(words)?;
        let mut destination = Addresses::all(Family::Ipv4);
        if !standard {
            let ports = self.ports(&services, words)?;
            narrow(&mut services, ports, |service| &mut service.source);
            destination = self.addresses(words)?;
            let ports = self.ports(&services, words)?;
            narrow(&mut services, ports, |service| &mut service.destination);
            self.messages(&mut services, words)?;
        } else if self.is_asa() {
            std::mem::swap(&mut source, &mut destination);
        }
        let one = match &services[..] {
            [one] => one.clone(),
            _ => Service::default(),
        };
        let mut options = Options::read(&one, words)?;
        if options.inactive {
            return Ok((options.number, None));
        }
        let unknown = [&source, &destination].into_iter().filter_map(|a| a.unknown.clone());
        options.conditions.extend(unknown);
        let mut doubtful = false;
        for condition in &options.conditions {
            match self.making.doubt(line, condition, EXPECTED)? {
                Doubt::Met => {}
                Doubt::Unmet => return Ok((options.number, None)),
                Doubt::Either => doubtful = true,
            }
        }
        let Options { log, tcp_flags, .. } = options;
        let entry = Entry { line, action, log, services, source, destination, tcp_flags, doubtful };
        Ok((options.number, Some(entry)))
    }

    /// A protocol, or a group of services or protocols.
    fn services(&mut self, words: &mut Words) -> Result<Vec<Service>, ParseError> {
        const EXPECTED: &str = "a protocol's name or number (0 to 255), or a group of services";
        let word = words.need(EXPECTED)?;
        if matches!(word, "object-group" | "object") {
            let name = words.need("the name of a group")?;
            let is_service = self.objects.has(Class::Service, name);
            let class = if is_service { Class::Service } else { Class::Protocol };
            return Ok(self.objects.services(class, name, words)?.to_vec());
        }
        let family = self.family();
        let protocol = match (word, family) {
            ("ipv6", Family::Ipv4) => Some(Some(41)),
            ("ip", Family::Ipv6) => None,
            _ => protocol(family, word),
        };
        let protocol = protocol.ok_or_else(|| words.error(word, EXPECTED))?;
        if family == Family::Ipv6 && protocol.is_some_and(|number| !ends_ipv6_chain(number)) {
            let expected = "the protocol of the upper layer, not of an extension header";
            return Err(words.error(word, expected));
        }
        Ok(vec![Service::of(protocol)])
    }

    /// `any`, `host A`, `A MASK`, `A/LENGTH`, a group, an object, or an interface.
    fn addresses(&mut self, words: &mut Words) -> Result<Addresses, ParseError> {
        let family = self.family();
        let expected = match family {
            Family::Ipv4 => "`any`, `host` and an IPv4 address, or an address and its mask",
            Family::Ipv6 => "`any`, `host` and an IPv6 address, or a prefix",
        };
        let word = words.need(expected)?;
        match word {
            "any" if self.is_asa() && self.system != System::OldAsa => {
                return Ok(Addresses::both());
            }
            "any" => return Ok(Addresses::all(family)),
            "any4" => return Ok(Addresses::all(Family::Ipv4)),
            "any6" => return Ok(Addresses::all(Family::Ipv6)),
            "object-group" | "object" | "addrgroup" | "net-group" => {
                let name = words.need("the name of a group")?;
                return Ok(self.objects.network(name, words)?.as_ref().clone());
            }
            "interface" if self.is_asa() => return self.interface(words),
            "host" => {
                let word = words.need(address_kind(family))?;
                let found = self.objects.named(word);
                let found = found.filter(|(found, _)| *found == family || self.is_asa());
                let (family, address) =
                    found.ok_or_else(|| words.error(word, address_kind(family)))?;
                return Ok(Addresses::of(family, RangeSet::one(address)));
            }
            _ => {}
        }
        if self.is_asa() {
            let starts_entry = ["user", "user-group", "object-group-user", "security-group", "ifc"];
            if starts_entry.contains(&word) {
                return Err(words.error(word, expected));
            }
            return self.objects.one_network(word, Mask::Netmask, words);
        }
        let bare = self.raw.kind == Kind::Standard
            && words.peek().is_none_or(|next| !next.starts_with(|c: char| c.is_ascii_digit()));
        let found = match self.objects.named(word).filter(|_| bare) {
            Some((family, address)) => Some(Addresses::of(family, RangeSet::one(address))),
            None => network(word, Mask::Wildcard, words)?,
        };
        found
            .filter(|found| found.of_family(family).is_some())
            .ok_or_else(|| words.error(word, expected))
    }

    /// The address of an interface, by ASA's name of it.
    fn interface(&self, words: &mut Words) -> Result<Addresses, ParseError> {
        let alias = words.need("the name of an interface")?;
        let config = self.objects.config();
        let interface = config.interfaces.iter().find(|found| found.alias == Some(alias));
        let interface = interface
            .ok_or_else(|| words.error(alias, "the name of an interface that the file has"))?;
        let address = interface.address.and_then(|text| text.split_whitespace().next());
        Ok(match address.and_then(|word| self.objects.named(word)) {
            Some((family, address)) => Addresses::of(family, RangeSet::one(address)),
            None => Addresses::unknown(&format!("interface {alias}")),
        })
    }

    /// Ports, or a group of them; none for any.
    fn ports(
        &mut self,
        services: &[Service],
        words: &mut Words,
    ) -> Result<Option<Vec<Service>>, ParseError> {
        let [service] = services else { return Ok(None) };
        if !service.has_ports() {
            return Ok(None);
        }
        if words.peek() == Some("portgroup") {
            words.take();
            let name = words.need("the name of a group")?;
            return Ok(Some(self.objects.services(Class::Service, name, words)?.to_vec()));
        }
        if let (Some("object-group" | "object" | "port-group"), Some(name)) =
            (words.peek(), words.second())
            && self.objects.has(Class::Service, name)
        {
            words.take();
            words.take();
            return Ok(Some(self.objects.services(Class::Service, name, words)?.to_vec()));
        }
        let set = ports(self.system, words)?;
        Ok(set.map(|set| vec![Service { destination: Some(set), ..Service::default() }]))
    }

    /// Messages of ICMP, or a group of them.
    fn messages(
        &mut self,
        services: &mut Vec<Service>,
        words: &mut Words,
    ) -> Result<(), ParseError> {
        let [service] = &mut services[..] else { return Ok(()) };
        let families = [Family::Ipv4, Family::Ipv6];
        let own = |family: &Family| service.protocol == Some(family.icmp());
        let Some(family) = families.into_iter().find(own) else { return Ok(()) };
        if family != self.family() && !self.is_asa() {
            return Ok(());
        }
        if matches!(words.peek(), Some("object-group")) {
            words.take();
            let name = words.need("the name of a group")?;
            let found = self.objects.services(Class::IcmpType, name, words)?;
            let protocol = service.protocol;
            *services = found.iter().map(|found| Service { protocol, ..found.clone() }).collect();
            return Ok(());
        }
        service.icmp = messages(family, words)?;
        Ok(())
    }

    fn finish(mut self) -> Result<Imported, ParseError> {
        let families = match self.raw.scope {
            Scope::Ipv4 => &[Family::Ipv4][..],
            Scope::Ipv6 => &[Family::Ipv6],
            Scope::Asa => &[Family::Ipv4, Family::Ipv6],
        };
        let last = self.next_number(self.raw.line);
        for &family in families {
            for (&number, entry) in &self.entries {
                let Some(entry) = entry else { continue };
                for service in &entry.services {
                    if let Some(rule) = rule(number, family, entry, service) {
                        self.making.add(entry.line, rule, entry.doubtful)?;
                    }
                }
            }
        }
        if self.raw.scope == Scope::Ipv6 {
            // Neighbour solicitation and advertisement, RFC 4861 section 4; NX-OS passes
            // those of routers too.
            let kinds =
                if self.system == System::Nxos { &[133, 134, 135, 136][..] } else { &[135, 136] };
            let mut number = last?;
            for &kind in kinds {
                let mut test = TransportTest::of(ProtocolSet::one(Family::Ipv6.icmp()));
                test.icmp = Some(message(kind, None));
                let protocol = ProtocolTest::Only(test);
                let rule = Rule { protocol, ..Rule::any(number, Family::Ipv6, Action::Pass) };
                self.making.add(self.raw.line, rule, false)?;
                number = number.saturating_add(STEP);
            }
        }
        Ok(self.making.finish(self.raw.name.to_owned(), Action::Reject))
    }
}

/// Gives each service the ports of each in `given`, where they are given.
fn narrow(
    services: &mut Vec<Service>,
    given: Option<Vec<Service>>,
    field: impl Fn(&mut Service) -> &mut Option<RangeSet<u16>>,
) {
    let (Some(given), [service]) = (given, &mut services[..]) else { return };
    // A group may list ports of TCP and of UDP; those of the entry's protocol count.
    let fits = |other: &&Service| other.protocol.is_none() || other.protocol == service.protocol;
    let fitting: Vec<_> = given.iter().filter(fits).map(|of| of.destination.as_ref()).collect();
    if fitting.is_empty() {
        services.clear();
        return;
    }
    *field(service) = union(fitting.into_iter());
}

/// The rule of one service of an entry; none if no packet of the family matches.
fn rule(number: u32, family: Family, entry: &Entry, service: &Service) -> Option<Rule> {
    let mut rule = Rule::any(number, family, entry.action);
    rule.log = entry.log;
    rule.source = entry.source.of_family(family)?.clone();
    rule.destination = entry.destination.of_family(family)?.clone();
    let ports = |set: &Option<_>| set.clone().map_or(PortTest::Any, PortTest::In);
    rule.source_ports = ports(&service.source);
    rule.destination_ports = ports(&service.destination);
    let Some(protocol) = service.protocol else { return Some(rule) };
    // ICMP of one family is not sent in packets of the other.
    let other = match family {
        Family::Ipv4 => Family::Ipv6,
        Family::Ipv6 => Family::Ipv4,
    };
    if protocol == other.icmp() && entry.is_for_both() {
        return None;
    }
    let mut test = TransportTest::of(ProtocolSet::one(protocol));
    if protocol == family.icmp() {
        test.icmp.clone_from(&service.icmp);
    }
    if protocol == TCP {
        test.tcp_flags.clone_from(&entry.tcp_flags);
    }
    rule.protocol = ProtocolTest::Only(test);
    Some(rule)
}

impl Entry {
    /// Ranges of all its fields, beyond one each.
    fn size(&self) -> usize {
        let more = |ranges: usize| ranges.saturating_sub(1);
        let addresses = |of: &Addresses| {
            let sets = [&of.v4, &of.v6].into_iter().flatten();
            sets.map(|set| more(set.ranges().len())).sum::<usize>()
        };
        let ports = |set: &Option<RangeSet<u16>>| set.as_ref().map_or(0, |set| set.ranges().len());
        let services = self.services.iter();
        let services = services.map(|of| 1 + ports(&of.source) + ports(&of.destination));
        addresses(&self.source) + addresses(&self.destination) + more(services.sum())
    }

    fn is_for_both(&self) -> bool {
        [&self.source, &self.destination].iter().all(|side| side.v4.is_some() && side.v6.is_some())
    }
}
