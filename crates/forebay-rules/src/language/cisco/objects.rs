//! What groups and objects stand for. A group is read when an entry names it, once.

use super::config::{Class, Config, ObjectGroup};
use super::fields::{
    Addresses, Mask, Service, compared_ports, host, messages, network, ports, protocol,
};
use crate::language::error::ParseError;
use crate::language::making::{MAX_NESTING, MAX_RANGES};
use crate::language::words::{Words, number};
use crate::rule::{Family, TCP, UDP};
use crate::sets::RangeSet;
use forebay_packet::cancel;
use std::collections::HashMap;
use std::rc::Rc;

/// The most services of a group.
const MAX_SERVICES: usize = 10_000;

/// Reads the groups of a configuration.
pub(super) struct Objects<'c, 'a> {
    config: &'c Config<'a>,
    networks: HashMap<&'a str, Rc<Addresses>>,
    services: HashMap<(Class, &'a str), Rc<[Service]>>,
    /// The groups that are being read, each a member of the one before.
    within: Vec<&'a str>,
    /// Ranges of all groups.
    ranges: usize,
}

impl<'c, 'a> Objects<'c, 'a> {
    pub fn new(config: &'c Config<'a>) -> Self {
        let (networks, services) = (HashMap::new(), HashMap::new());
        Self { config, networks, services, within: Vec::new(), ranges: 0 }
    }

    pub fn config(&self) -> &'c Config<'a> {
        self.config
    }

    pub fn has(&self, class: Class, name: &str) -> bool {
        self.config.group(class, name).is_some()
    }

    /// The group that `word`, of the line of `words`, names; one more is under way.
    fn enter(
        &mut self,
        class: Class,
        word: &str,
        words: &Words,
    ) -> Result<(&'a str, &'c ObjectGroup<'a>), ParseError> {
        let group = self.config.group(class, word);
        let (name, group) =
            group.ok_or_else(|| words.error(word, "a group or object that the file defines"))?;
        if self.within.contains(&name) {
            return Err(words.error(word, "a group that is not within itself"));
        }
        if self.within.len() == MAX_NESTING {
            return Err(words.error(word, format!("groups at most {MAX_NESTING} deep")));
        }
        self.within.push(name);
        Ok((name, group))
    }

    /// The addresses of a group or an object.
    pub fn network(&mut self, word: &str, words: &Words) -> Result<Rc<Addresses>, ParseError> {
        if let Some(known) = self.networks.get(word) {
            return Ok(known.clone());
        }
        let (name, group) = self.enter(Class::Network, word, words)?;
        let mask = if group.has_wildcards { Mask::Wildcard } else { Mask::Netmask };
        let mut all = Vec::new();
        for &(line, text) in &group.members {
            cancel::check();
            let mut member = member_words(line, text);
            let Some(first) = member.take() else { continue };
            match first {
                "description" | "remark" | "nat" | "exit" => continue,
                "network-object" | "subnet" => {
                    let word = member.need("an address")?;
                    all.push(self.one_network(word, mask, &mut member)?);
                }
                "group-object" | "object-group" => {
                    let word = member.need("the name of a group")?;
                    all.push(self.network(word, &member)?.as_ref().clone());
                }
                "fqdn" => all.push(Addresses::unknown(text)),
                _ => all.push(self.one_network(first, mask, &mut member)?),
            }
            if !matches!(first, "fqdn") {
                member.end()?;
            }
        }
        let union = Addresses::union(&all);
        self.ranges += union.ranges();
        if self.ranges > MAX_RANGES {
            return Err(words.error(word, format!("groups of at most {MAX_RANGES} ranges")));
        }
        self.within.pop();
        let union = Rc::new(union);
        self.networks.insert(name, union.clone());
        Ok(union)
    }

    /// `any`, `host A`, `range A B`, `object NAME`, `A/LENGTH`, `A MASK`, or a name.
    pub fn one_network(
        &mut self,
        word: &str,
        mask: Mask,
        words: &mut Words,
    ) -> Result<Addresses, ParseError> {
        const EXPECTED: &str = "an address, a network, `host`, `range`, `object` or `any`";
        let set = |family, range| RangeSet::from_ranges([range]).map(|s| Addresses::of(family, s));
        let one = |(family, address)| set(family, (address, address));
        let found = match word {
            "any" => Some(Addresses::both()),
            "any4" => Some(Addresses::all(Family::Ipv4)),
            "any6" => Some(Addresses::all(Family::Ipv6)),
            "object" => {
                let name = words.need("the name of an object")?;
                Some(self.network(name, words)?.as_ref().clone())
            }
            "host" => {
                let word = words.need("an address")?;
                let found = self.named(word).and_then(one);
                return found.ok_or_else(|| words.error(word, "an address"));
            }
            "range" => {
                let (first, last) = (words.need("an address")?, words.need("an address")?);
                let range = match (self.named(first), self.named(last)) {
                    (Some((family, a)), Some((other, b))) if family == other => set(family, (a, b)),
                    _ => None,
                };
                let expected = "two addresses in ascending order";
                return range.ok_or_else(|| words.error(last, expected));
            }
            _ => {
                let config = self.config;
                let word = config.names.get(word).copied().unwrap_or(word);
                // Without a mask it is one address, as ASA's objects have IPv6 ones.
                match words.peek() {
                    None if !word.contains('/') => host(word).and_then(one),
                    _ => network(word, mask, words)?,
                }
            }
        };
        found.ok_or_else(|| words.error(word, EXPECTED))
    }

    /// An address, perhaps by a name that the configuration gives it.
    pub fn named(&self, word: &str) -> Option<(Family, u128)> {
        host(self.config.names.get(word).copied().unwrap_or(word))
    }

    /// What a group of services, protocols, ports or messages contains. Ports are those
    /// of services without a protocol.
    pub fn services(
        &mut self,
        class: Class,
        word: &str,
        words: &Words,
    ) -> Result<Rc<[Service]>, ParseError> {
        let known = self.config.group(class, word).map(|(name, _)| (class, name));
        if let Some(known) = known.and_then(|key| self.services.get(&key)) {
            return Ok(known.clone());
        }
        let (name, group) = self.enter(class, word, words)?;
        let mut all: Vec<Service> = Vec::new();
        for &(line, text) in &group.members {
            cancel::check();
            let mut member = member_words(line, text);
            let Some(first) = member.peek() else { continue };
            match first {
                "description" | "remark" | "exit" => continue,
                "group-object" => {
                    member.take();
                    let word = member.need("the name of a group")?;
                    all.extend(self.services(class, word, &member)?.iter().cloned());
                }
                _ => self.member(class, group, &mut member, &mut all)?,
            }
            member.end()?;
            if all.len() > MAX_SERVICES {
                let expected = format!("a group of at most {MAX_SERVICES} services");
                return Err(words.error(word, expected));
            }
        }
        self.within.pop();
        let all: Rc<[Service]> = merged(all).into();
        let ranges = |set: &Option<RangeSet<u16>>| set.as_ref().map_or(0, |s| s.ranges().len());
        let cost = |service: &Service| 1 + ranges(&service.source) + ranges(&service.destination);
        self.ranges += all.iter().map(cost).sum::<usize>();
        if self.ranges > MAX_RANGES {
            return Err(words.error(word, format!("groups of at most {MAX_RANGES} ranges")));
        }
        self.services.insert((class, name), all.clone());
        Ok(all)
    }

    /// One member of a group, which is not a group.
    fn member(
        &mut self,
        class: Class,
        group: &ObjectGroup,
        member: &mut Words,
        all: &mut Vec<Service>,
    ) -> Result<(), ParseError> {
        let system = self.config.system;
        let first = member.peek().unwrap_or_default();
        match (class, first) {
            (_, "port-object") => {
                member.take();
                let set = ports(system, member)?;
                let set = set.ok_or_else(|| member.error(first, "`eq` or `range` and ports"))?;
                for protocol in protocols_of(group) {
                    let destination = Some(set.clone());
                    all.push(Service { destination, ..Service::of(protocol) });
                }
                Ok(())
            }
            (Class::IcmpType, _) => {
                member.take_if("icmp-object");
                let found = messages(Family::Ipv4, member)?;
                let word = member.peek().unwrap_or_default();
                let icmp = found.ok_or_else(|| member.error(word, "an ICMP message"))?;
                all.push(Service { icmp: Some(icmp), ..Service::of(Some(1)) });
                Ok(())
            }
            (Class::Protocol, _) => {
                member.take_if("protocol-object");
                let word = member.need("a protocol")?;
                let found = protocol(Family::Ipv4, word);
                let expected = "a protocol's name or number (0 to 255)";
                all.push(Service::of(found.ok_or_else(|| member.error(word, expected))?));
                Ok(())
            }
            _ if super::fields::OPERATORS.contains(&first) => {
                let destination = ports(system, member)?;
                all.push(Service { destination, ..Service::default() });
                Ok(())
            }
            _ => {
                if !member.take_if("service-object") {
                    member.take_if("service");
                }
                if member.take_if("object") {
                    let word = member.need("the name of an object")?;
                    all.extend(self.services(class, word, member)?.iter().cloned());
                    return Ok(());
                }
                self.service(member, all)
            }
        }
    }

    /// `PROTOCOL [[source] OP PORT …] [[destination] OP PORT …]`, or `icmp` and a message.
    fn service(&mut self, words: &mut Words, all: &mut Vec<Service>) -> Result<(), ParseError> {
        let word = words.need("a protocol")?;
        let expected = "a protocol's name or number (0 to 255), or `tcp-udp`";
        let protocols = match word {
            "tcp-udp" => vec![Some(TCP), Some(UDP)],
            _ => {
                let found = protocol(Family::Ipv4, word);
                vec![found.ok_or_else(|| words.error(word, expected))?]
            }
        };
        let mut service = Service::of(protocols[0]);
        if service.has_ports() {
            let system = self.config.system;
            if words.take_if("source") {
                service.source = ports(system, words)?;
            }
            words.take_if("destination");
            service.destination = match words.peek() {
                // Ports alone are those that `eq` lists.
                Some(word) if !super::fields::OPERATORS.contains(&word) => {
                    Some(compared_ports("eq", system, words)?)
                }
                _ => ports(system, words)?,
            };
        } else {
            let icmp = [Family::Ipv4, Family::Ipv6]
                .into_iter()
                .find(|family| service.protocol == Some(family.icmp()));
            if let Some(family) = icmp {
                service.icmp = messages(family, words)?;
            }
        }
        all.extend(protocols.into_iter().map(|protocol| Service { protocol, ..service.clone() }));
        Ok(())
    }
}

/// The protocols whose ports a group lists; none where the group does not say.
fn protocols_of(group: &ObjectGroup) -> Vec<Option<u8>> {
    match group.protocol {
        Some("tcp") => vec![Some(TCP)],
        Some("udp") => vec![Some(UDP)],
        Some(_) => vec![Some(TCP), Some(UDP)],
        None => vec![None],
    }
}

/// The words of a member, without its number.
fn member_words(line: usize, text: &str) -> Words<'_> {
    let mut words = Words::new(line, text, '!');
    if words.peek().is_some_and(|word| number::<u32>(word).is_some()) && words.left() > 1 {
        words.take();
    }
    words
}

/// Services that differ in their destination ports only, or in the type of message, as
/// one.
fn merged(services: Vec<Service>) -> Vec<Service> {
    let mut groups: Vec<Vec<Service>> = Vec::new();
    let mut places = HashMap::new();
    for service in services {
        let codes = service.icmp.as_ref().map(|icmp| icmp.codes.clone());
        let key = (service.protocol, service.source.clone(), codes);
        let at = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.push(service),
            None => groups.push(vec![service]),
        }
    }
    groups.into_iter().filter_map(one).collect()
}

/// Services of one protocol and source as one.
fn one(group: Vec<Service>) -> Option<Service> {
    let destination = union(group.iter().map(|service| service.destination.as_ref()));
    let types = group.iter().filter_map(|service| service.icmp.as_ref()).map(|icmp| &icmp.types);
    let types = RangeSet::from_ranges(types.flat_map(|set| set.ranges().iter().copied()));
    let mut first = group.into_iter().next()?;
    first.destination = destination;
    if let (Some(icmp), Some(types)) = (&mut first.icmp, types) {
        icmp.types = types;
    }
    Some(first)
}

/// The ports of all; none is any.
pub(super) fn union<'p>(
    all: impl Iterator<Item = Option<&'p RangeSet<u16>>>,
) -> Option<RangeSet<u16>> {
    let all: Option<Vec<&RangeSet<u16>>> = all.collect();
    RangeSet::from_ranges(all?.into_iter().flat_map(|set| set.ranges().iter().copied()))
}
