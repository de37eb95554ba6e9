//! The grammar of YAMAHA RT filters: what each form matches, how it prints, and
//! what is refused.

use forebay_rules::key::Key;
use forebay_rules::language::yamaha;
use forebay_rules::rule::{
    Action, Family, FlagTest, IcmpTest, PortTest, ProtocolTest, Rule, RuleList, TransportTest,
};
use forebay_rules::sets::{ProtocolSet, RangeSet};
use forebay_rules::{Cause, Field, Mismatch};
use proptest::prelude::*;

/// The one rule of a file.
fn rule(line: &str) -> Rule {
    let list = yamaha::parse(line).unwrap_or_else(|error| panic!("{line}: {error}")).ascending();
    assert_eq!(list.rules.len(), 1, "{line}");
    list.rules[0].clone()
}

fn tcp(source: &str, destination: &str, ports: (u16, u16), flags: u8) -> Key {
    let address = |text: &str| u32::from(text.parse::<std::net::Ipv4Addr>().unwrap()).into();
    Key {
        family: Family::Ipv4,
        source: address(source),
        destination: address(destination),
        protocol: Some(6),
        ports: Some(ports),
        tcp_flags: Some(flags),
        icmp: None,
    }
}

fn of_protocol(protocol: u8) -> Key {
    let key = tcp("10.0.0.1", "10.0.0.2", (0, 0), 0);
    Key { protocol: Some(protocol), ports: None, tcp_flags: None, ..key }
}

fn udp(ports: (u16, u16)) -> Key {
    Key { ports: Some(ports), ..of_protocol(17) }
}

fn icmp(kind: u8, code: u8) -> Key {
    Key { icmp: Some((kind, code)), ..of_protocol(1) }
}

#[test]
fn the_papers_example_decides_as_it_says() {
    let text = "ip filter 1 reject 192.0.2.0/24 * * * *\n\
                ip filter 2 pass * 198.51.100.0/24 established * *\n\
                ip filter 3 pass 203.0.113.8/29 198.51.100.1 tcp * smtp\n\
                ip filter 4 pass 203.0.113.0/24 198.51.100.2 tcp * 5000-6000\n\
                ip filter 5 pass * * udp * domain\n\
                ip filter 6 pass 203.0.113.8/29 198.51.100.1 tcp * pop3\n";
    let list = yamaha::parse(text).unwrap().only_list().unwrap();
    let first = |key: &Key| {
        let decision = list.decide(key);
        (decision.rule.map(|index| list.rules[index].number), decision.action)
    };
    let (pass, reject) = (Action::Pass, Action::Reject);
    let server = "198.51.100.1";
    assert_eq!(first(&tcp("192.0.2.9", server, (1, 25), 0x10)), (Some(1), reject));
    assert_eq!(first(&tcp("203.0.113.9", server, (1, 25), 0x10)), (Some(2), pass));
    assert_eq!(first(&tcp("203.0.113.9", server, (1, 25), 0x02)), (Some(3), pass));
    assert_eq!(first(&tcp("203.0.113.9", "198.51.100.2", (1, 6000), 0x02)), (Some(4), pass));
    assert_eq!(first(&tcp("203.0.113.9", "198.51.100.2", (1, 6001), 0x02)), (None, reject));
    assert_eq!(first(&udp((9, 53))), (Some(5), pass));
    assert_eq!(first(&tcp("203.0.113.9", server, (1, 110), 0x02)), (Some(6), pass));
    // `established` asks for ACK: RST alone is not enough on these routers.
    assert_eq!(first(&tcp("203.0.113.9", server, (1, 9), 0x04)), (None, reject));
}

#[test]
fn an_explanation_names_the_first_field_that_failed() {
    let text = "ip filter 1 pass 192.0.2.0/24 * * * *\n\
                ip filter 2 pass * 192.0.2.1 * * *\n\
                ip filter 3 pass * * udp * *\n\
                ip filter 4 pass * * tcpsyn * *\n\
                ip filter 5 pass * * tcp 1 *\n\
                ip filter 6 pass * * tcp * 1\n\
                ipv6 filter 7 pass *\n";
    let list = yamaha::parse(text).unwrap().ascending();
    let key = tcp("10.0.0.1", "10.0.0.2", (1000, 80), 0x10);
    let (decision, mismatches) = list.explain(&key);
    assert_eq!(decision.rule, None);
    let fields: Vec<_> = mismatches.iter().map(|mismatch| mismatch.field).collect();
    use Field::{Destination, DestinationPort, Protocol, Source, SourcePort, TcpFlags};
    let expected =
        [Source, Destination, Protocol, TcpFlags, SourcePort, DestinationPort, Field::Family];
    assert_eq!(fields, expected);
    let fragment = Key { ports: None, tcp_flags: None, ..key };
    let absent = |field| Err(Mismatch { field, cause: Cause::Absent });
    assert_eq!(list.rules[3].check(&fragment), absent(TcpFlags));
    assert_eq!(list.rules[4].check(&fragment), absent(SourcePort));
    assert!(rule("ip filter 1 pass * * tcp").matches(&fragment));
    let unreachable = Key { protocol: None, ..fragment };
    assert_eq!(list.rules[2].check(&unreachable), absent(Protocol));
    assert!(rule("ip filter 1 pass *").matches(&unreachable));
}

#[test]
fn every_form_prints_as_its_plain_equal() {
    let cases = [
        ("pass *", "pass * * * * *"),
        ("reject-nolog * *", "reject-nolog * * * * *"),
        ("pass-nolog *", "pass * * * * *"),
        ("restrict * * *", "pass * * * * *"),
        ("restrict-log * * *", "pass-log * * * * *"),
        ("restrict-nolog * * * *", "pass * * * * *"),
        ("reject-log * # why", "reject * * * * *"),
        ("pass 10.1.2.3/8 *", "pass 10.0.0.0/8 * * * *"),
        ("pass 10.0.0.0/255.0.0.0 *", "pass 10.0.0.0/8 * * * *"),
        ("pass 10.0.0.0/0xff000000 *", "pass 10.0.0.0/8 * * * *"),
        ("pass 192.168.*.* 1.2.3.4-1.2.3.9", "pass 192.168.0.0/16 1.2.3.4-1.2.3.9 * * *"),
        ("pass -1.2.3.4 255.255.255.254-", "pass 0.0.0.0-1.2.3.4 255.255.255.254/31 * * *"),
        ("pass 1.1.1.1,2.0.0.0/8,1.1.1.0 *", "pass 1.1.1.0/31,2.0.0.0/8 * * * *"),
        ("pass * * 17,tcp,89", "pass * * tcp,udp,ospf * *"),
        ("pass * * established * 80", "pass * * established * 80"),
        ("pass * * tcpfin,tcprst,tcpsyn", "pass * * tcpfin,tcprst,tcpsyn * *"),
        ("pass * * tcpflag!=0x0000/0x7", "pass * * tcpflag!=0x0000/0x0007 * *"),
        ("pass * * tcpflag=0x0012/0x12", "pass * * tcpflag=0x0012/0x0012 * *"),
        ("pass * * tcp,established", "pass * * tcp * *"),
        ("pass * * icmp 8", "pass * * icmp 8 *"),
        ("pass * * icmp 3 0-1,4", "pass * * icmp 3 0-1,4"),
        ("pass * * udp,icmp * 53", "pass * * icmp,udp * 53"),
        ("pass * * icmp-error,udp", "pass * * icmp-error,udp * *"),
        ("pass * * icmp-info", "pass * * icmp 0,8-10,13-18,30,33-36 *"),
        ("pass * * icmp-error 8 0", "pass * * icmp 3-5,11-12,31-32 *"),
        ("pass * * icmp=8+0/0,udp 5", "pass * * icmp=0+8/0,udp 5 *"),
        ("pass * * icmp=3-5+11-12+31-32 * 5", "pass * * icmp=3-5+11-12+31-32/* * 5"),
        ("pass * * tcp ftp www,8080-", "pass * * tcp 20-21 80,8080-65535"),
        ("pass * * udp -1023,domain 0-65535", "pass * * udp 0-1023 0-65535"),
        ("pass * * udp,tcp netbios_ns-netbios_ssn", "pass * * tcp,udp 137-139 *"),
        ("pass * * * * 53", "pass * * * * 53"),
    ];
    for (text, plain) in cases {
        for number in [1, 2_147_483_647] {
            let read = rule(&format!("  ip  filter {number}\t{text}"));
            assert_eq!(read.to_string(), format!("ip filter {number} {plain}"), "{text}");
            assert_eq!(rule(&read.to_string()), read, "{text}");
        }
    }
    let v6 = rule("ipv6 filter 1 pass 2001:db8::/32,fe80::1 ::1-::9 icmp 135");
    assert_eq!(v6.to_string(), "ipv6 filter 1 pass 2001:db8::/32,fe80::1 ::1-::9 icmp6 135 *");
    for (text, plain) in [
        ("icmp-nd", "icmp6 133-136 *"),
        ("icmp4,icmp-nd", "1,icmp=133-136/* * *"),
        ("icmp-error", "icmp6 0-127 *"),
    ] {
        let read = rule(&format!("ipv6 filter 1 pass * * {text}"));
        assert_eq!(read.to_string(), format!("ipv6 filter 1 pass * * {plain}"), "{text}");
        assert_eq!(rule(&read.to_string()), read, "{text}");
    }
}

#[test]
fn any_octet_can_be_open() {
    let open = rule("ip filter 1 pass 10.*.7.* *");
    for (source, matches) in
        [("10.0.7.0", true), ("10.255.7.255", true), ("10.9.8.0", false), ("11.9.7.0", false)]
    {
        assert_eq!(open.matches(&tcp(source, "1.2.3.4", (1, 2), 0)), matches, "{source}");
    }
    assert_eq!(open.source.ranges().len(), 256);
    assert_eq!(rule(&open.to_string()), open);
    let first = rule("ip filter 1 pass *.0.0.1");
    assert!(first.matches(&tcp("9.0.0.1", "1.2.3.4", (1, 2), 0)));
    assert!(!first.matches(&tcp("9.0.0.2", "1.2.3.4", (1, 2), 0)));
}

#[test]
fn a_list_prints_as_a_file_that_decides_the_same() {
    let packets = [udp((1, 53)), icmp(8, 0), of_protocol(47)];
    let six: Key = "udp [::1]:1 > [::2]:53".parse().unwrap();
    for (text, lines) in [
        ("", 0),
        ("ip filter 7 pass * * udp\nip filter 3 reject * * udp\nipv6 filter 1 pass *\n", 3),
        ("ip filter 3 pass * * udp\nip filter 7 reject *\nip a secure filter in 7 3\n", 3),
        ("numbers from 0\nip filter 0 pass * * udp * 53\nip filter 2147483647 pass * * icmp\n", 3),
    ] {
        let list = yamaha::parse(text).unwrap().only_list().unwrap();
        let printed = list.to_string();
        assert_eq!(printed.lines().count(), lines, "{printed}");
        let again = yamaha::parse(&printed).unwrap().only_list().unwrap();
        assert_eq!(again, list, "{printed}");
        // A default that passes, which the syntax does not have, becomes rules.
        let passing = RuleList { default: Action::Pass, ..list };
        let closed = yamaha::parse(&passing.to_string()).unwrap().only_list().unwrap();
        assert_eq!(closed.rules.len(), passing.rules.len() + 2);
        for key in packets.iter().chain([&six]) {
            assert_eq!(closed.decide(key).action, passing.decide(key).action, "{printed}{key}");
        }
    }
}

#[test]
fn protocols_flags_and_messages_match_what_they_name() {
    let matches =
        |text: &str, key: &Key| rule(&format!("ip filter 1 pass * * {text}")).matches(key);
    let flags = |flags| tcp("10.0.0.1", "10.0.0.2", (1, 2), flags);
    let cases: [(&str, &[Key], &[Key]); 10] = [
        ("established", &[flags(0x10), flags(0x12)], &[flags(0x02), flags(0x04), udp((1, 2))]),
        ("tcpfin", &[flags(0x01), flags(0x11)], &[flags(0x10)]),
        ("tcpsyn", &[flags(0x02), flags(0x12)], &[flags(0x10)]),
        ("tcprst", &[flags(0x04)], &[flags(0x10)]),
        ("tcpflag=0x0002/0x0012", &[flags(0x02), flags(0x42)], &[flags(0x12), flags(0)]),
        ("tcpflag!=0x0002/0x0012", &[flags(0x12), flags(0)], &[flags(0x02)]),
        ("udp,established", &[udp((1, 2)), flags(0x10)], &[flags(0x02), icmp(8, 0)]),
        ("icmp 3 1-2", &[icmp(3, 1)], &[icmp(3, 3), icmp(8, 1), of_protocol(1), udp((3, 1))]),
        ("icmp-error", &[icmp(3, 9), icmp(11, 0)], &[icmp(8, 0), flags(0)]),
        ("icmp,udp * 53", &[udp((9, 53))], &[icmp(0, 53), udp((53, 9))]),
    ];
    for (text, hits, misses) in cases {
        assert!(hits.iter().all(|key| matches(text, key)), "{text}");
        assert!(misses.iter().all(|key| !matches(text, key)), "{text}");
    }
    assert!(matches("icmp-info", &icmp(8, 0)) && !matches("icmp-info", &icmp(3, 0)));
    assert!(matches("* * 53", &udp((9, 53))) && !matches("* * 53", &of_protocol(47)));
}

#[test]
fn secure_filter_lines_give_the_order() {
    let text = "ip lan1 secure filter in 20 10\n\
                # filters may follow their use\n\
                ip filter 10 pass * * tcp\n\
                ip filter 20 reject * * tcp * 25\n\
                ip filter 30 pass *\n\
                ip pp secure filter out 30\n\
                ipv6 filter 10 pass * * icmp6\n\
                ipv6 lan1 secure filter in 10\n";
    let document = yamaha::parse(text).unwrap();
    let numbers = |name: &str| -> Vec<_> {
        document.list(name).unwrap().rules.iter().map(|r| (r.family, r.number)).collect()
    };
    use Family::{Ipv4, Ipv6};
    assert_eq!(numbers("lan1:in"), [(Ipv4, 20), (Ipv4, 10), (Ipv6, 10)]);
    assert_eq!(numbers("pp:out"), [(Ipv4, 30)]);
    assert_eq!(document.names().collect::<Vec<_>>(), ["lan1:in", "pp:out"]);
    assert_eq!(document.list("lan1:out"), None);
    assert_eq!(document.line_of(Ipv4, 20), Some(4));
    assert_eq!(document.line_of(Ipv6, 20), None);
    assert_eq!(document.only_list(), None);
    let ascending = yamaha::parse("ip filter 9 pass *\nip filter 3 reject *\n").unwrap();
    let numbers: Vec<_> = ascending.only_list().unwrap().rules.iter().map(|r| r.number).collect();
    assert_eq!(numbers, [3, 9]);
    assert_eq!(yamaha::parse("").unwrap().only_list().unwrap().decide(&udp((1, 2))).rule, None);
}

#[test]
fn what_is_refused_names_its_line_and_what_was_expected() {
    let cases = [
        ("nat descriptor 1", "found \"nat\", expected `ip` or `ipv6`"),
        ("ip filter dynamic 1 * * ftp", "found \"dynamic\", expected a static filter"),
        ("ip lan1 secure filter in 7 dynamic 1", "found \"dynamic\", expected static filters"),
        ("ip lan1 secure filter in", "found the end of the line, expected the number"),
        ("ip lan1 secure filter both 7", "found \"both\", expected `in` or `out`"),
        ("ip lan1 secure filter in 8", "found \"8\", expected the number of a filter that"),
        ("ip lan1 address 10.0.0.1/8", "found \"address\", expected `secure`"),
        ("ip filter 0 pass *", "found \"0\", expected a filter number, 1 to 2147483647"),
        ("ip filter 2147483648 pass *", "found \"2147483648\", expected a filter number"),
        ("ip filter +1 pass *", "found \"+1\", expected a filter number"),
        ("ip filter 7 pass *", "found \"7\", expected a number that no filter has yet"),
        ("ip filter 1", "found the end of the line, expected `pass`"),
        ("ip filter 1 pass-it *", "found \"pass-it\", expected `pass`"),
        ("ip filter 1 pass", "found the end of the line, expected a source address"),
        ("ip filter 1 pass 10.0.0.256", "found \"10.0.0.256\", expected `*`, an IPv4 address"),
        ("ip filter 1 pass 10.0.0.0/33", "found \"10.0.0.0/33\", expected"),
        ("ip filter 1 pass 10.0.0.0/255.0.255.0", "found \"10.0.0.0/255.0.255.0\", expected"),
        ("ip filter 1 pass 10.*.*.1", "found \"10.*.*.1\", expected"),
        ("ip filter 1 pass 10.*.1", "found \"10.*.1\", expected"),
        ("ip filter 1 pass 10.0.0.1*", "found \"10.0.0.1*\", expected"),
        ("ip filter 1 pass 2**.0.0.*", "found \"2**.0.0.*\", expected"),
        ("ip filter 1 pass www.example.org", "found \"www.example.org\", expected"),
        ("ip filter 1 pass * * icmp-nd", "found \"icmp-nd\", expected `*`, a protocol's name"),
        ("ip filter 1 pass * * icmp-error x", "found \"x\", expected `*`, a port"),
        ("ip lan1 secure filter in 7 7", "found \"7\", expected each filter once"),
        ("numbers from 1", "found \"1\", expected `0`"),
        ("numbers", "found the end of the line, expected `from`"),
        ("ip filter 1 pass 10.0.0.2-10.0.0.1", "a range in ascending order"),
        ("ip filter 1 pass 10.0.0.1,,10.0.0.2", "found \"\", expected `*`, an IPv4"),
        ("ip filter 1 pass ::1", "found \"::1\", expected `*`, an IPv4 address"),
        ("ipv6 filter 1 pass 10.0.0.1", "expected `*`, an IPv6 address"),
        ("ip filter 1 pass * * tpc", "found \"tpc\", expected `*`, a protocol's name"),
        ("ip filter 1 pass * * 256", "found \"256\", expected `*`, a protocol's name"),
        ("ip filter 1 pass * * tcpflag=2/2", "found \"2/2\", expected 0xVALUE/0xMASK"),
        ("ip filter 1 pass * * tcpflag=0x100/0x100", "each of TCP's 8 control bits"),
        ("ip filter 1 pass * * tcp 9-8", "found \"9-8\", expected `*`, a port"),
        ("ip filter 1 pass * * tcp 65536", "found \"65536\", expected `*`, a port"),
        ("ip filter 1 pass * * tcp - *", "found \"-\", expected `*`, a port"),
        ("ip filter 1 pass * * icmp 256", "found \"256\", expected `*`, an ICMP type"),
        ("ip filter 1 pass * * icmp 3 x", "found \"x\", expected `*`, an ICMP code"),
        ("ip filter 1 pass * * tcp * * *", "found \"*\", expected the end of the line"),
    ];
    for (line, message) in cases {
        let text = format!("# one\nip filter 7 pass *\n{line}\n");
        let error = yamaha::parse(&text).map(|_| ()).expect_err(line).to_string();
        assert!(error.starts_with("line 3: ") && error.contains(message), "{line}: {error}");
    }
}

fn addresses(family: Family) -> impl Strategy<Value = RangeSet<u128>> {
    let greatest = family.greatest();
    let range = (any::<u128>(), any::<u128>()).prop_map(move |(a, b)| {
        let (a, b) = (a & greatest, b & greatest);
        (a.min(b), a.max(b))
    });
    let prefix = (any::<u128>(), 0..=family.bits())
        .prop_map(move |(address, length)| family.prefix(address & greatest, length));
    prop::collection::vec(prop_oneof![range, prefix], 1..4)
        .prop_map(|ranges| RangeSet::from_ranges(ranges).unwrap())
}

fn ports() -> impl Strategy<Value = PortTest> {
    let set = prop::collection::vec(any::<(u16, u16)>(), 1..4).prop_map(|ranges| {
        let ordered = ranges.into_iter().map(|(a, b)| (a.min(b), a.max(b)));
        PortTest::In(RangeSet::from_ranges(ordered).unwrap())
    });
    prop_oneof![Just(PortTest::Any), set]
}

fn bytes() -> impl Strategy<Value = RangeSet<u8>> {
    let set = prop::collection::vec(any::<(u8, u8)>(), 1..3).prop_map(|ranges| {
        RangeSet::from_ranges(ranges.into_iter().map(|(a, b)| (a.min(b), a.max(b)))).unwrap()
    });
    prop_oneof![Just(RangeSet::full()), set]
}

fn flag_test() -> impl Strategy<Value = FlagTest> {
    any::<(bool, u8, u8)>().prop_map(|(equal, mask, value)| {
        if equal { FlagTest::Equal { mask, value } } else { FlagTest::NotEqual { mask, value } }
    })
}

fn protocol(family: Family) -> impl Strategy<Value = ProtocolTest> {
    let one = prop_oneof![Just(1_u8), Just(6), Just(17), Just(58), any::<u8>()];
    let icmp = prop::option::of((bytes(), bytes()))
        .prop_map(|test| test.map(|(types, codes)| IcmpTest { types, codes }));
    let parts = (prop::collection::vec(one, 1..4), prop::collection::vec(flag_test(), 0..3), icmp);
    let only = parts.prop_map(move |(protocols, mut flags, icmp)| {
        let protocols: ProtocolSet = protocols.into_iter().collect();
        flags.dedup();
        ProtocolTest::Only(TransportTest {
            protocols,
            tcp_flags: if protocols.contains(6) { flags } else { Vec::new() },
            icmp: icmp.filter(|_| protocols.contains(family.icmp())),
        })
    });
    prop_oneof![1 => Just(ProtocolTest::Any), 4 => only]
}

fn any_rule() -> impl Strategy<Value = Rule> {
    prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)].prop_flat_map(|family| {
        let head = (1..=forebay_rules::rule::MAX_NUMBER, any::<bool>(), any::<bool>());
        let body = (addresses(family), addresses(family), protocol(family), ports(), ports());
        (head, body).prop_map(move |((number, pass, log), body)| {
            let (source, destination, protocol, source_ports, destination_ports) = body;
            let action = if pass { Action::Pass } else { Action::Reject };
            Rule {
                number,
                family,
                action,
                log,
                source,
                destination,
                protocol,
                source_ports,
                destination_ports,
            }
        })
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_it_was(rule_in in any_rule()) {
        prop_assert_eq!(rule(&rule_in.to_string()), rule_in);
    }

    #[test]
    fn the_oracle_agrees_with_the_rules_fields_on_headers_beside_their_bounds(
        rule_in in any_rule(), picks in any::<[(usize, u8); 4]>(), flags in any::<u8>(),
    ) {
        let beside = |value: u128, step: u8| match step % 3 {
            0 => value,
            1 => value.wrapping_add(1),
            _ => value.wrapping_sub(1),
        };
        let address = |set: &RangeSet<u128>, (pick, step): (usize, u8)| {
            let (first, last) = set.ranges()[pick % set.ranges().len()];
            beside(if step & 128 == 0 { first } else { last }, step) & rule_in.family.greatest()
        };
        let port = |test: &PortTest, (pick, step): (usize, u8)| match test {
            PortTest::Any => pick as u16,
            PortTest::In(set) => {
                let (first, last) = set.ranges()[pick % set.ranges().len()];
                beside(u128::from(if step & 128 == 0 { first } else { last }), step) as u16
            }
        };
        let key = Key {
            family: rule_in.family,
            source: address(&rule_in.source, picks[0]),
            destination: address(&rule_in.destination, picks[1]),
            protocol: Some(6),
            ports: Some((port(&rule_in.source_ports, picks[2]), port(&rule_in.destination_ports, picks[3]))),
            tcp_flags: Some(flags),
            icmp: None,
        };
        let within = |set: &RangeSet<u128>, value| set.ranges().iter().any(|r| (r.0..=r.1).contains(&value));
        let port_within = |test: &PortTest, value| match test {
            PortTest::Any => true,
            PortTest::In(set) => set.ranges().iter().any(|r| (r.0..=r.1).contains(&value)),
        };
        let (source_port, destination_port) = key.ports.unwrap();
        let protocol = match &rule_in.protocol {
            ProtocolTest::Any => true,
            ProtocolTest::Only(test) => {
                let admits = |test: &FlagTest| match *test {
                    FlagTest::Equal { mask, value } => flags & mask == value,
                    FlagTest::NotEqual { mask, value } => flags & mask != value,
                };
                test.protocols.iter().any(|protocol| protocol == 6)
                    && (test.tcp_flags.is_empty() || test.tcp_flags.iter().any(admits))
            }
        };
        let expected = within(&rule_in.source, key.source)
            && within(&rule_in.destination, key.destination)
            && protocol
            && port_within(&rule_in.source_ports, source_port)
            && port_within(&rule_in.destination_ports, destination_port);
        prop_assert_eq!(rule_in.matches(&key), expected);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "(ip|ipv6) filter [0-9]{1,3} (pass|x) [-0-9./*,: a-z#=!]{0,40}") {
        if let Err(error) = yamaha::parse(&text) {
            prop_assert_eq!(error.line, 1);
        }
    }
}

#[test]
fn open_octets_that_multiply_are_refused_where_they_become_too_many() {
    let line = |number: usize| {
        let (high, low) = (number / 256, number % 256);
        format!("ip filter {number} pass *.1.{high}.{low} *.2.{high}.{low}\n")
    };
    // 512 ranges each.
    let most: String = (1..=1024).map(line).collect();
    let document = forebay_rules::language::yamaha::parse(&most).unwrap();
    assert_eq!(document.ascending().rules.len(), 1024);
    let error = forebay_rules::language::yamaha::parse(&(most + &line(1025))).unwrap_err();
    assert_eq!(error.line, 1025);
    assert!(error.expected.contains("filter 1025"), "{error}");
    // At the end of an address they are a prefix, and cost nothing.
    let prefixes: String = (1..4000)
        .map(|number| format!("ip filter {number} pass 10.{}.*.*\n", number % 256))
        .collect();
    assert!(forebay_rules::language::yamaha::parse(&prefixes).is_ok());
}
