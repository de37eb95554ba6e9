//! Cisco's lists decide as their entries say: random entries, written in the syntax of
//! each system, against their meaning bit by bit.

use crate::support::lists_of;
use forebay_rules::Key;
use forebay_rules::language::{Format, Options};
use forebay_rules::rule::{Action, Family};
use proptest::prelude::*;

/// Some addresses: those that agree with `base` but for the bits of `free`.
#[derive(Clone, Copy, Debug)]
struct Net {
    base: u32,
    free: u32,
}

impl Net {
    fn has(self, address: u32) -> bool {
        (self.base ^ address) & !self.free == 0
    }

    fn is_prefix(self) -> bool {
        self.free.checked_add(1).is_none_or(u32::is_power_of_two)
    }

    fn ios(self) -> String {
        format!("{} {}", dotted(self.base), dotted(self.free))
    }

    fn nxos(self) -> String {
        match self.is_prefix() {
            true => format!("{}/{}", dotted(self.base), self.free.leading_zeros()),
            false => self.ios(),
        }
    }

    fn asa(self) -> String {
        format!("{} {}", dotted(self.base), dotted(!self.free))
    }
}

fn dotted(address: u32) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

#[derive(Clone, Debug)]
enum Side {
    Any,
    Host(u32),
    Net(Net),
    /// A group of networks.
    Group(Vec<Net>),
}

impl Side {
    fn has(&self, address: u32) -> bool {
        match self {
            Self::Any => true,
            Self::Host(host) => *host == address,
            Self::Net(net) => net.has(address),
            Self::Group(nets) => nets.iter().any(|net| net.has(address)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Ports {
    Any,
    Eq(u16),
    Neq(u16),
    Gt(u16),
    Lt(u16),
    Range(u16, u16),
}

impl Ports {
    fn has(self, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::Eq(p) => port == p,
            Self::Neq(p) => port != p,
            Self::Gt(p) => port > p,
            Self::Lt(p) => port < p,
            Self::Range(a, b) => (a..=b).contains(&port),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Any => String::new(),
            Self::Eq(p) => format!(" eq {p}"),
            Self::Neq(p) => format!(" neq {p}"),
            Self::Gt(p) => format!(" gt {p}"),
            Self::Lt(p) => format!(" lt {p}"),
            Self::Range(a, b) => format!(" range {a} {b}"),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    passes: bool,
    protocol: Option<u8>,
    sides: [Side; 2],
    ports: [Ports; 2],
    established: bool,
}

impl Entry {
    fn matches(&self, key: &Key) -> bool {
        let [source, destination] = &self.sides;
        let (from, to) = (key.source as u32, key.destination as u32);
        let named = |ports: Ports| !matches!(ports, Ports::Any);
        let ports = match key.ports {
            Some((a, b)) => self.ports[0].has(a) && self.ports[1].has(b),
            None => !self.ports.into_iter().any(named),
        };
        // ACK or RST.
        let flags = !self.established || key.tcp_flags.is_some_and(|flags| flags & 0x14 != 0);
        self.protocol.is_none_or(|number| key.protocol == Some(number))
            && source.has(from)
            && destination.has(to)
            && ports
            && flags
    }
}

/// How a system writes things.
#[derive(Clone, Copy, Debug, PartialEq)]
enum System {
    Ios,
    Nxos,
    Asa,
}

/// A configuration with the list `L` and things around it.
fn configuration(system: System, entries: &[Entry]) -> String {
    let mut groups = String::new();
    let mut list = String::new();
    let mut group = 0;
    for (index, entry) in entries.iter().enumerate() {
        let mut side = |side: &Side| match side {
            Side::Any if system == System::Asa => "any4".to_owned(),
            Side::Any => "any".to_owned(),
            Side::Host(host) => format!("host {}", dotted(*host)),
            Side::Net(net) => match system {
                System::Ios => net.ios(),
                System::Nxos => net.nxos(),
                System::Asa => net.asa(),
            },
            Side::Group(nets) => {
                group += 1;
                let (head, name) = match system {
                    System::Nxos => ("object-group ip address", "addrgroup"),
                    _ => ("object-group network", "object-group"),
                };
                groups += &format!("{head} G{group}\n");
                for (number, net) in nets.iter().enumerate() {
                    groups += &match system {
                        System::Ios => format!("  {}\n", net.asa()),
                        System::Nxos => format!("  {} {}\n", 10 * (number + 1), net.nxos()),
                        System::Asa => format!(" network-object {}\n", net.asa()),
                    };
                }
                format!("{name} G{group}")
            }
        };
        let [from, to] = [side(&entry.sides[0]), side(&entry.sides[1])];
        let action = if entry.passes { "permit" } else { "deny" };
        let protocol = match entry.protocol {
            None => "ip",
            Some(6) => "tcp",
            Some(17) => "udp",
            Some(_) => "gre",
        };
        let [first, second] = entry.ports.map(Ports::text);
        let established = if entry.established { " established" } else { "" };
        let text = format!("{action} {protocol} {from}{first} {to}{second}{established} log");
        list += &match system {
            System::Ios => format!(" {text}\n remark {index}\n"),
            System::Nxos => format!("  {} {text}\n", 10 * (index + 1)),
            System::Asa => format!("access-list L extended {text}\n"),
        };
    }
    let others = "router ospf 1\n network 0.0.0.0 255.255.255.255 area 0\n!\n";
    match system {
        System::Ios => {
            format!("hostname r\n{groups}!\nip access-list extended L\n{list}!\n{others}")
        }
        System::Nxos => format!("feature bgp\n{groups}ip access-list L\n{list}\n{others}"),
        System::Asa => format!("ASA Version 9.8(2)\n{groups}{list}{others}"),
    }
}

fn address() -> impl Strategy<Value = u32> {
    // Few bits differ, so that entries meet.
    (0..8_u32, 0..4_u32, 0..16_u32).prop_map(|(a, b, c)| 0x0a00_0000 | a << 20 | b << 9 | c)
}

fn net() -> impl Strategy<Value = Net> {
    let prefix = (0..=32_u32).prop_map(|bits| u32::MAX.checked_shr(bits).unwrap_or(0));
    let single = (0..8_u32, 0..4_u32, 0..16_u32).prop_map(|(a, b, c)| a << 20 | b << 9 | c);
    let low = (0..8_u32, 0..10_u32).prop_map(|(a, b)| a << 20 | ((1 << b) - 1));
    (address(), prop_oneof![prefix, single, low]).prop_map(|(base, free)| Net { base, free })
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![
        Just(Side::Any),
        address().prop_map(Side::Host),
        net().prop_map(Side::Net),
        prop::collection::vec(net(), 1..4).prop_map(Side::Group),
    ]
}

fn ports() -> impl Strategy<Value = Ports> {
    let port = || prop_oneof![0..6_u16, 65530..=u16::MAX];
    prop_oneof![
        Just(Ports::Any),
        port().prop_map(Ports::Eq),
        port().prop_map(Ports::Neq),
        (0..65535_u16).prop_map(Ports::Gt),
        (1..=u16::MAX).prop_map(Ports::Lt),
        (port(), port()).prop_map(|(a, b)| Ports::Range(a.min(b), a.max(b))),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let protocol = prop_oneof![Just(None), Just(Some(6)), Just(Some(17)), Just(Some(47))];
    (any::<bool>(), protocol, [side(), side()], [ports(), ports()], any::<bool>()).prop_map(
        |(passes, protocol, sides, ports, established)| {
            let has_ports = matches!(protocol, Some(6 | 17));
            let ports = if has_ports { ports } else { [Ports::Any; 2] };
            Entry {
                passes,
                protocol,
                sides,
                ports,
                established: established && protocol == Some(6),
            }
        },
    )
}

fn key() -> impl Strategy<Value = Key> {
    let port = || prop_oneof![0..7_u16, 65529..=u16::MAX];
    let protocol = prop_oneof![Just(6_u8), Just(17), Just(47)];
    (address(), address(), protocol, port(), port(), any::<u8>(), 0..8_u8).prop_map(
        |(source, destination, protocol, a, b, flags, whole)| {
            let has_ports = protocol != 47 && whole > 0;
            Key {
                family: Family::Ipv4,
                source: source.into(),
                destination: destination.into(),
                protocol: Some(protocol),
                ports: has_ports.then_some((a, b)),
                tcp_flags: (protocol == 6 && has_ports).then_some(flags),
                icmp: None,
            }
        },
    )
}

proptest! {
    #[test]
    fn cisco_lists_decide_as_their_entries_say(
        entries in prop::collection::vec(entry(), 1..8),
        keys in prop::collection::vec(key(), 64),
    ) {
        for system in [System::Ios, System::Nxos, System::Asa] {
            let text = configuration(system, &entries);
            let lists = lists_of(Format::Cisco, &text, &Options::default()).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            let found = lists.iter().find(|list| list.name == "L");
            let list = &found.unwrap_or_else(|| panic!("{text}")).list;
            for key in &keys {
                let first = entries.iter().find(|entry| entry.matches(key));
                let passes = first.is_some_and(|entry| entry.passes);
                let expected = if passes { Action::Pass } else { Action::Reject };
                prop_assert_eq!(list.decide(key).action, expected, "{}\n{}\n{}", key, text, list);
            }
        }
    }
}
