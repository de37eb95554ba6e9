//! Expressions put together from their primitives, and libpcap's program of the
//! whole that its optimiser did not see: the same verdict on every packet, cut
//! anywhere.

use forebay_filter::Program;
use forebay_filter::ir::Function;
use forebay_filter::ir::lower::lower;
use forebay_filter::ir::text::parse;
use forebay_filter::ir::verify::verify;
use forebay_filter::libpcap::compile_as_written;
use forebay_filter::lists::{Lengths, MAX_LIBPCAP_TERMS, compile_function, compile_long};
use forebay_packet::LinkType;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::{Captured, at_least, captures, data, ethernet_packets};

/// Values that some of [`packets`] have.
const HOSTS: [&str; 6] = ["10.0.0.1", "10.0.0.2", "10.0.1.3", "10.1.0.4", "10.9.9.9", "0.0.0.0"];
const HOSTS_6: [&str; 3] = ["2001:db8::1", "2001:db8::2", "fe80::3"];
const NETS: [&str; 6] =
    ["10.0.0.0/24", "10.0.0.0/16", "10.1.0.0/16", "10.0.1.0/24", "11.0.0.0/8", "0.0.0.0/0"];
const PORTS: [&str; 6] = ["53", "80", "443", "1000", "2", "0"];
const RANGES: [&str; 3] = ["50-60", "80-443", "1-2"];

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(values).prop_map(str::to_owned)
}

fn address() -> impl Strategy<Value = String> {
    let protocol = select(&["", "", "", "ip ", "arp "][..]);
    let direction = select(&["", "", "src ", "dst ", "src or dst ", "src and dst "][..]);
    let value = prop_oneof![
        4 => select(&HOSTS[..]).prop_map(|host| format!("host {host}")),
        2 => select(&NETS[..]).prop_map(|net| format!("net {net}")),
    ];
    (protocol, direction, value)
        .prop_map(|(protocol, direction, value)| format!("{protocol}{direction}{value}"))
}

fn address_6() -> impl Strategy<Value = String> {
    let direction = select(&["", "src ", "dst "][..]);
    let value = prop_oneof![
        select(&HOSTS_6[..]).prop_map(|host| format!("host {host}")),
        Just("net 2001:db8::/32".to_owned()),
    ];
    (direction, value).prop_map(|(direction, value)| format!("{direction}{value}"))
}

fn port() -> impl Strategy<Value = String> {
    let protocol = select(&["", "", "tcp ", "udp "][..]);
    let direction = select(&["", "", "src ", "dst "][..]);
    (protocol, direction, select(&PORTS[..]))
        .prop_map(|(protocol, direction, port)| format!("{protocol}{direction}port {port}"))
}

fn other() -> impl Strategy<Value = String> {
    let primitive = one_of(&[
        "ip",
        "tcp",
        "udp",
        "icmp",
        "arp",
        "ip6",
        "icmp6",
        "ip proto 17",
        "ether proto 0x806",
        "tcp[13] & 2 != 0",
        "(ip[0] & 0xf) > 5",
        "ip[6:2] & 0x1fff = 0",
        "ether host 02:00:00:00:00:01",
        "ip multicast",
        "broadcast",
        "ether[0] & 1 = 1",
        "ip src 10.0.0.1",
        "dst 10.0.0.2",
    ]);
    let range = select(&RANGES[..]).prop_map(|range| format!("portrange {range}"));
    prop_oneof![3 => primitive, 1 => range]
}

/// Several values behind the qualifiers of the first.
fn sticky() -> impl Strategy<Value = String> {
    let hosts = vec(one_of(&HOSTS), 2..6).prop_map(|hosts| format!("host {}", hosts.join(" or ")));
    let inside =
        vec(one_of(&PORTS), 2..5).prop_map(|ports| format!("tcp port ({})", ports.join(" or ")));
    prop_oneof![hosts, inside]
}

fn primitive() -> impl Strategy<Value = String> {
    prop_oneof![4 => address(), 1 => address_6(), 3 => port(), 2 => other(), 1 => sticky()]
}

/// Lists of one kind, of several, and of anything.
fn list() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![
        vec(address(), 2..12),
        vec(port(), 2..12),
        vec(prop_oneof![address(), port()], 2..14),
        vec(prop_oneof![address(), address_6()], 2..10),
        vec(primitive(), 2..10),
        (address(), vec(one_of(&HOSTS), 1..8))
            .prop_map(|(first, rest)| [vec![first], rest].concat()),
    ]
}

pub fn expression() -> impl Strategy<Value = String> {
    let joined = |(list, op): (Vec<String>, &str)| list.join(op);
    let leaf = (list(), select(&[" or ", " or ", " or ", " and "][..])).prop_map(joined);
    let nots = list().prop_map(|list| format!("not {}", list.join(" and not ")));
    let leaf = prop_oneof![4 => leaf, 1 => nots];
    let tree = leaf.prop_recursive(3, 40, 4, move |inner| {
        let several = vec((inner.clone(), any::<bool>()), 2..4).prop_map(|parts| {
            let part =
                |(part, not): (String, bool)| format!("{}({part})", if not { "not " } else { "" });
            parts.into_iter().map(part).collect::<Vec<_>>()
        });
        (several, select(&[" or ", " and "][..])).prop_map(joined)
    });
    let moved = select(&["", "", "", "", "vlan and ", "vlan 5 and ", "not vlan or "][..]);
    (moved, tree).prop_map(
        |(moved, tree)| {
            if moved.is_empty() { tree } else { format!("{moved}({tree})") }
        },
    )
}

/// Ethernet packets with the values in them, of IPv4, IPv6 and ARP, some in a
/// VLAN or behind a label.
fn packets() -> Vec<Captured> {
    let mut payloads: Vec<(u16, Vec<u8>)> = Vec::new();
    let number = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let number_6 = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let port = |text: &str| text.parse::<u16>().unwrap().to_be_bytes();
    for (index, source) in HOSTS.iter().enumerate() {
        for (shift, destination) in HOSTS.iter().enumerate() {
            let ports = [port(PORTS[index]), port(PORTS[(index + shift) % 6])].concat();
            let ends = [number(source), number(destination)].concat();
            for (protocol, first, fragment) in
                [(6, 0x45, 0), (17, 0x46, 0), (1, 0x45, 0), (17, 0x45, 9), (132, 0x40, 0)]
            {
                let mut ip = vec![first, 0, 0, 40, 0, 0, 0, fragment, 64, protocol, 0, 0];
                ip.extend(&ends);
                ip.extend(vec![1; usize::from(first & 0xf).saturating_sub(5) * 4]);
                ip.extend(&ports);
                ip.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2]);
                payloads.push((0x800, ip));
            }
            let mut arp = vec![0, 1, 8, 0, 6, 4, 0, 1, 0, 0, 0, 0, 0, 0];
            arp.extend(&ends[..4]);
            arp.extend([0; 6]);
            arp.extend(&ends[4..]);
            payloads.push((0x806, arp));
            let ends = [number_6(HOSTS_6[index % 3]), number_6(HOSTS_6[shift % 3])].concat();
            let mut ip = vec![0x60, 0, 0, 0, 0, 8, if shift > 2 { 6 } else { 17 }, 64];
            ip.extend(ends);
            ip.extend(ports);
            payloads.push((0x86dd, ip));
        }
    }
    let frame = |(index, (kind, payload)): (usize, (u16, Vec<u8>))| {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        match index % 5 {
            3 => bytes.extend([0x81, 0, 0, 5]),
            4 if kind == 0x800 => bytes.extend([0x88, 0x47, 0, 0, 1, 64]),
            _ => {}
        }
        if index % 5 != 4 || kind != 0x800 {
            bytes.extend(kind.to_be_bytes());
        }
        bytes.extend(payload);
        Captured { wire_len: bytes.len() as u32 + 4, bytes }
    };
    payloads.into_iter().enumerate().map(frame).collect()
}

/// What becomes of an expression.
struct Programs {
    /// Put together from its primitives: as a function, and as a program again.
    joined: Function,
    lowered: Program,
    libpcap: Program,
}

impl Programs {
    /// Of an expression of more than `most` primitives.
    fn of(expression: &str, link: LinkType, most: usize) -> Self {
        let [joined, plain] = [Lengths::Tested, Lengths::Reject].map(|lengths| {
            let function = match compile_long(expression, link, most, lengths) {
                Err(error) if error.rejects_all() => parse("b0: return 0").unwrap(),
                function => {
                    function.unwrap().unwrap_or_else(|| panic!("{expression}: not understood"))
                }
            };
            assert_eq!(verify(&function), Ok(()), "{expression}");
            function
        });
        let libpcap = compile_as_written(expression, link).unwrap();
        // Lengths that vary may become parameters, for which libpcap's program is taken.
        let lowered = lower(&plain).unwrap_or_else(|| {
            assert!(plain.blocks.iter().any(|block| !block.parameters.is_empty()), "{expression}");
            libpcap.clone()
        });
        Self { joined, lowered, libpcap }
    }

    /// What is wrong with the verdict on a packet.
    #[must_use]
    fn fault(&self, bytes: &[u8], wire_len: u32) -> Option<String> {
        let verdict = self.joined.run(bytes, wire_len);
        let others = [self.lowered.run(bytes, wire_len), self.libpcap.run(bytes, wire_len)];
        (others != [verdict; 2]).then(|| format!("{verdict}, not {others:?}, on {bytes:02x?}"))
    }

    /// What is wrong with the verdict on a packet, cut somewhere.
    #[must_use]
    fn fault_cut(&self, Captured { bytes, wire_len }: &Captured) -> Option<String> {
        (0..=bytes.len()).find_map(|length| self.fault(&bytes[..length], *wire_len))
    }
}

/// Lists, and lists of two kinds.
fn lists() -> impl Strategy<Value = String> {
    let of = |list: Vec<String>, op: &str| list.join(op);
    let all = (list(), select(&["", "not ", "tcp and ", "ip6 or ", "not udp and "][..]))
        .prop_map(move |(list, before)| format!("{before}({})", of(list, " or ")));
    let nots = list().prop_map(move |list| format!("not {}", of(list, " and not ")));
    let both = (vec(address(), 1..8), vec(port(), 1..8), 0..4_usize).prop_map(
        move |(addresses, ports, form)| {
            let (addresses, ports) = (of(addresses, " or "), of(ports, " or "));
            match form {
                0 => format!("({addresses}) and ({ports})"),
                1 => format!("not ({addresses}) and ({ports})"),
                2 => format!("({addresses}) and not ({ports})"),
                _ => format!("({ports}) and not ({addresses})"),
            }
        },
    );
    let moved = select(&["", "", "", "vlan and ", "vlan 5 and "][..]);
    (moved, prop_oneof![3 => all, 1 => nots, 2 => both])
        .prop_map(|(moved, list)| if moved.is_empty() { list } else { format!("{moved}({list})") })
}

/// More primitives than libpcap optimises.
fn long() -> impl Strategy<Value = String> {
    let more = (4..9_usize, select(&[" or ", " or ", " and ", " or not "][..]));
    (vec(prop_oneof![expression(), lists()], 1..4), more).prop_map(|(mut parts, (step, op))| {
        for number in 0..=MAX_LIBPCAP_TERMS / step {
            let part = (0..step).map(|n| match (step + number) % 4 {
                0 => format!("not (src port {} and net 10.{number}.{n}.0/24)", number + n),
                1 => format!("dst port {} or not host 10.0.{n}.{number}", 50 + n + number),
                _ => format!("host 10.{}.{n}.{}", number % 2, number % 5),
            });
            parts.push(part.collect::<Vec<_>>().join(op));
        }
        parts.iter().map(|part| format!("({part})")).collect::<Vec<_>>().join(" or ")
    })
}

/// Link types, and what stands before IP in their packets. Of some its length
/// varies, and libpcap computes it before all else.
fn links() -> Vec<(LinkType, Vec<u8>)> {
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let wireless = [[8, 2, 0, 0].as_slice(), &[2; 20], &snap].concat();
    let of_service = [[0x88, 2, 0, 0].as_slice(), &[2; 22], &snap].concat();
    let radiotap = [[0, 0, 9, 0, 0, 0, 0, 0, 0].as_slice(), &wireless].concat();
    let ppi = |kind: u8| [[0, 0, 8, 0, kind, 0, 0, 0].as_slice(), &wireless].concat();
    let mut pflog = vec![0; 64];
    pflog[0] = 61;
    pflog[1] = 2;
    vec![
        (LinkType::RAW, Vec::new()),
        (LinkType(0), vec![2, 0, 0, 0]),
        (LinkType(9), vec![0xff, 3, 0, 0x21]),
        (LinkType(113), [[0; 14].as_slice(), &[8, 0]].concat()),
        (LinkType(105), wireless.clone()),
        (LinkType(105), of_service),
        (LinkType(127), radiotap),
        (LinkType(192), ppi(105)),
        (LinkType(192), ppi(1)),
        (LinkType(117), pflog),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_expression_is_libpcaps_on_packets_cut_anywhere(
        expression in prop_oneof![expression(), lists()],
    ) {
        let programs = Programs::of(&expression, LinkType::ETHERNET, 1);
        for packet in packets() {
            prop_assert_eq!(programs.fault_cut(&packet), None);
        }
    }

    #[test]
    fn for_other_link_types_too(list in list(), op in select(&[" or ", " and "][..]), not: bool) {
        // Where libpcap computes the length of headers that vary, arithmetic written before the
        // first primitive that needs it overwrites it (libpcap 1.10): its program is wrong then.
        let computes = list.iter().any(|primitive| primitive.contains("ether["));
        let list = list.join(op);
        let expression = if not { format!("not ({list}) or len = 7") } else { list };
        let varies = |link: &LinkType| [105, 117, 127, 192].contains(&link.0);
        for (link, before) in links().into_iter().filter(|(link, _)| !(computes && varies(link))) {
            if compile_as_written(&expression, link).is_err() {
                prop_assert!(compile_long(&expression, link, 1, Lengths::Tested).is_err());
                continue;
            }
            let programs = Programs::of(&expression, link, 1);
            let of_ip = |packet: &&Captured| packet.bytes[12..14] == [8, 0];
            for packet in packets().iter().filter(of_ip).step_by(5) {
                let bytes = [&before, &packet.bytes[14..]].concat();
                let packet = Captured { wire_len: bytes.len() as u32, bytes };
                prop_assert_eq!(programs.fault_cut(&packet), None, "link type {}", link);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 12,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// libpcap is asked itself, not our way around it.
    #[test]
    fn long_expressions_are_libpcaps_on_packets_cut_anywhere(expression in long()) {
        let programs = Programs::of(&expression, LinkType::ETHERNET, MAX_LIBPCAP_TERMS);
        for packet in packets().iter().step_by(3) {
            prop_assert_eq!(programs.fault_cut(packet), None);
        }
    }
}

/// What stands behind what a packet ends too early for is not looked at, whatever
/// it would say; what cannot end early any more is looked up in a set.
#[test]
fn a_packet_that_ends_too_early_is_judged_by_what_stands_before() {
    let link = LinkType::ETHERNET;
    let hosts: Vec<_> = (1..=80).map(|n| format!("host 10.0.0.{n}")).collect();
    let [hosts, not] = [hosts.join(" or "), format!("not ({})", hosts.join(" or "))];
    let verdict = |expression: &str, source: u8, length: usize| {
        let programs = Programs::of(expression, link, MAX_LIBPCAP_TERMS);
        let mut packet = [[2; 12].as_slice(), &[8, 0, 0x45, 0, 0, 40]].concat();
        packet.extend([0; 8]);
        packet.extend([10, 0, 0, source, 10, 9, 9, 9]);
        assert_eq!(programs.fault(&packet[..length], 60), None, "{expression}");
        programs.joined.run(&packet[..length], 60) > 0
    };
    for (length, first, second) in [(34, true, true), (33, true, false), (29, false, false)] {
        assert_eq!(verdict(&hosts, 1, length), first);
        assert_eq!(verdict(&hosts, 2, length), second);
        // Neither this nor that: the packet is rejected.
        assert!(!verdict(&not, 2, length));
    }
    // The first primitive decides before anything is loaded.
    assert!(verdict(&format!("len > 5 or {hosts}"), 2, 0));
    assert!(!verdict(&format!("{hosts} or len > 5"), 2, 29));
}

/// PPI has packets of all link types. libpcap's programs reject those that are not
/// 802.11 before anything else.
#[test]
fn what_libpcap_begins_with_is_not_negated() {
    let expression = format!("not ({})", vec!["host 10.0.0.1"; 70].join(" or "));
    let ppi = links().into_iter().rfind(|(link, _)| *link == LinkType(192)).unwrap();
    let programs = Programs::of(&expression, ppi.0, MAX_LIBPCAP_TERMS);
    let packet = [ppi.1.as_slice(), &[0x45; 60]].concat();
    assert_eq!(programs.fault(&packet, 90), None);
    assert_eq!(programs.joined.run(&packet, 90), 0);
}

/// A number for the addresses and ports of a packet.
fn ends(packet: &[u8]) -> Option<([String; 2], [u16; 2])> {
    let ip = packet.get(14..38)?;
    let address = |at: usize| format!("{}.{}.{}.{}", ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
    let port = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let is_ip = packet[12..14] == [8, 0] && ip[0] == 0x45;
    is_ip.then(|| ([address(12), address(16)], [port(20), port(22)]))
}

/// Expressions with the values of some packets, of every form that lists come in.
fn expressions_of(packets: &[Captured]) -> Vec<String> {
    let step = (packets.len() / 5).max(1);
    let ends: Vec<_> =
        packets.iter().step_by(step).filter_map(|packet| ends(&packet.bytes)).take(5).collect();
    let addresses: Vec<&String> = ends.iter().flat_map(|(addresses, _)| addresses).collect();
    let ports: Vec<&u16> = ends.iter().flat_map(|(_, ports)| ports).collect();
    let list = |shape: &str| {
        addresses.iter().map(|one| format!("{shape} {one}")).collect::<Vec<_>>().join(" or ")
    };
    let of_ports = |shape: &str| {
        ports.iter().map(|one| format!("{shape} {one}")).collect::<Vec<_>>().join(" or ")
    };
    let net = |one: &&String| format!("src net {}.0/24", one.rsplit_once('.').unwrap().0);
    let nets = addresses.iter().map(net).collect::<Vec<_>>().join(" or ");
    let pairs: Vec<String> = addresses
        .iter()
        .zip(&ports)
        .map(|(address, port)| format!("(host {address} and port {port})"))
        .collect();
    let mixed: Vec<String> = addresses
        .iter()
        .zip(&ports)
        .map(|(address, port)| format!("dst host {address} or tcp src port {port}"))
        .collect();
    if ends.len() < 2 {
        return Vec::new();
    }
    vec![
        format!("not ({})", list("host")),
        format!("udp and ({}) and not ({})", list("src host"), of_ports("dst port")),
        format!("vlan or ({})", list("host")),
        nets,
        pairs.join(" or "),
        mixed.join(" or "),
        format!("tcp and not ({})", of_ports("port")),
    ]
}

/// Some of the packets whole, a few of them cut anywhere within their headers.
#[test]
fn expressions_of_captures_are_libpcaps_on_them() {
    const HEADERS: usize = 100;
    let data = data();
    let (mut compared, mut accepted) = (0, 0);
    for path in captures(&data) {
        let packets = ethernet_packets(&path);
        let step = (packets.len() / 400).max(1);
        for expression in expressions_of(&packets) {
            let programs = Programs::of(&expression, LinkType::ETHERNET, 1);
            let fault = |bytes: &[u8], wire_len| {
                let fault = programs.fault(bytes, wire_len);
                assert_eq!(fault, None, "{expression} on {}", path.display());
            };
            for (number, packet) in packets.iter().step_by(step).enumerate() {
                fault(&packet.bytes, packet.wire_len);
                for length in 0..if number % 100 == 0 { HEADERS.min(packet.bytes.len()) } else { 0 }
                {
                    fault(&packet.bytes[..length], packet.wire_len);
                }
                accepted += usize::from(programs.libpcap.run(&packet.bytes, packet.wire_len) > 0);
                compared += 1;
            }
        }
    }
    assert!(
        compared > at_least(20_000, 1_000) && accepted > compared / 10,
        "{accepted} of {compared} accepted"
    );
}

/// libpcap alone would take hours.
#[test]
fn thousands_of_primitives_in_any_form_are_put_together() {
    let values = |shape: &str| {
        (0..2000_u32)
            .map(|n| {
                let address = format!("10.{}.{}.{}", n % 3, n >> 8, n & 0xff);
                shape
                    .replace("{address}", &address)
                    .replace("{n}", &n.to_string())
                    .replace("{more}", &(n + 3).to_string())
                    .replace("{hex}", &format!("{n:x}"))
            })
            .collect::<Vec<_>>()
    };
    for (shape, op, before) in [
        ("host {address}", " or ", "not "),
        ("host {address}", " or ", "tcp and port 80 and not "),
        ("not dst net {address}/32", " and ", "udp or "),
        ("portrange {n}-{more}", " or ", ""),
        ("host 2001:db8::{hex}", " or ", "vlan and "),
        ("src host {address} or dst port {n} or len = 9{n}", " or ", ""),
        ("(host {address} and tcp port {n})", " or ", "not "),
        ("host {address} or port {n}", " and ", ""),
    ] {
        let expression = format!("{before}({})", values(shape).join(op));
        let function = compile_function(&expression, LinkType::ETHERNET).unwrap();
        assert_eq!(verify(&function), Ok(()), "{shape}");
        let program = lower(&function);
        for packet in packets() {
            let verdict = function.run(&packet.bytes, packet.wire_len);
            if let Some(program) = &program {
                assert_eq!(program.run(&packet.bytes, packet.wire_len), verdict, "{shape}");
            }
        }
        // Nothing that is decided already is tested again and again.
        assert!(function.blocks.len() < 100_000, "{shape}: {}", function.blocks.len());
    }
}
