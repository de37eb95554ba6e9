//! Cisco access lists and iptables-save: each form as it reads in our syntax,
//! and what is refused.

use crate::support::lists_of;
use forebay_rules::language::{Direction, Format, Imported, Options, Unsupported, open};
use forebay_rules::language::{NamedList, ParseError};
use forebay_rules::rule::{Action, Family};

/// The rules of one list in our syntax, without the command.
fn printed(list: &NamedList) -> Vec<String> {
    let strip = |text: String| text.split_once("filter ").unwrap().1.to_owned();
    list.list.rules.iter().map(|rule| strip(rule.to_string())).collect()
}

fn cisco_lists(text: &str) -> Result<Vec<NamedList>, ParseError> {
    lists_of(Format::Cisco, text, &Options::default())
}

fn iptables_lists(text: &str, family: Family) -> Result<Vec<NamedList>, ParseError> {
    lists_of(Format::Iptables, text, &Options { family: Some(family), ..Options::default() })
}

fn cisco_rule(text: &str) -> Result<String, ParseError> {
    let lists = cisco_lists(&format!("! a comment\naccess-list 101 {text}\n"))?;
    Ok(printed(&lists[0]).join(";"))
}

#[test]
fn cisco_entries_read_as_ours() {
    let cases = [
        ("permit ip any any", "10 pass * * * * *"),
        ("deny ip 10.1.2.3 0.0.255.255 host 1.2.3.4 log", "10 reject 10.1.0.0/16 1.2.3.4 * * *"),
        ("permit tcp any any established", "10 pass * * tcpflag!=0x0000/0x0014 * *"),
        ("permit tcp any eq ftp any gt 1023", "10 pass * * tcp 21 1024-65535"),
        ("permit udp any lt 1024 any eq 53 123", "10 pass * * udp 0-1023 53,123"),
        ("permit tcp any neq 25 any range 80 90", "10 pass * * tcp 0-24,26-65535 80-90"),
        ("permit icmp any any echo", "10 pass * * icmp 8 *"),
        ("permit icmp any any host-unreachable", "10 pass * * icmp 3 1"),
        ("permit icmp any any dod-net-prohibited", "10 pass * * icmp 3 9"),
        ("permit udp any any eq mobile-ip", "10 pass * * udp * 434"),
        ("permit icmp any any 3 4 log", "10 pass-log * * icmp 3 4"),
        ("deny tcp any any syn fin", "10 reject-nolog * * tcpsyn,tcpfin * *"),
        ("permit tcp any any match-all +syn -ack", "10 pass * * tcpflag=0x0002/0x0012 * *"),
        ("permit tcp any any match-any +rst -ack", "10 pass * * tcprst,tcpflag=0x0000/0x0010 * *"),
        ("permit ospf any host 224.0.0.5", "10 pass * 224.0.0.5 ospf * *"),
        ("remark nothing at all", ""),
    ];
    for (text, ours) in cases {
        assert_eq!(cisco_rule(text).unwrap_or_else(|e| panic!("{text}: {e}")), ours, "{text}");
    }
}

#[test]
fn cisco_lists_have_names_and_sequence_numbers() {
    let text = "access-list 100 permit tcp any any eq www\n\
                !\n\
                ip access-list extended EDGE\n \
                20 permit udp any any\n \
                5 deny ip host 10.0.0.1 any\n \
                permit gre any any\n\
                exit\n\
                access-list 100 deny ip any any\n\
                ipv6 access-list SIX\n \
                sequence 7 permit tcp 2001:db8::/32 any eq 22\n \
                permit icmp any host ::1 echo-request\n";
    let lists = cisco_lists(text).unwrap();
    let names: Vec<_> = lists.iter().map(|list| list.name.as_str()).collect();
    assert_eq!(names, ["100", "EDGE", "SIX"]);
    assert_eq!(printed(&lists[0]), ["10 pass * * tcp * 80", "20 reject-nolog * * * * *"]);
    let edge = ["5 reject-nolog 10.0.0.1 * * * *", "20 pass * * udp * *", "30 pass * * gre * *"];
    assert_eq!(printed(&lists[1]), edge);
    let six = [
        "7 pass 2001:db8::/32 * tcp * 22",
        "17 pass * ::1 icmp6 128 *",
        "27 pass * * icmp6 135 *",
        "37 pass * * icmp6 136 *",
    ];
    assert_eq!(printed(&lists[2]), six);
}

#[test]
fn cisco_refusals_name_the_line_and_what_was_expected() {
    let cases = [
        ("permit", "found the end of the line, expected a protocol's name"),
        ("allow ip any any", "found \"allow\", expected `permit`, `deny` or `remark`"),
        ("permit ip any", "found the end of the line, expected `any`, `host`"),
        ("permit ip 10.0.0.0 170.170.170.170 any", "expected a mask that admits at most 4096"),
        ("permit ip any any fragments", "found \"fragments\", expected the end of the line"),
        ("permit tcp any any eq", "found the end of the line, expected a port"),
        ("permit tcp any any eq nosuch", "found \"nosuch\", expected a port"),
        ("permit tcp any any gt 65535", "found \"gt\", expected a test that some port meets"),
        ("permit udp any any established", "found \"established\", expected the end"),
        ("permit ip any eq 5 any", "found \"eq\", expected `any`"),
        ("permit tcp any any match-all syn", "found \"syn\", expected `+` or `-`"),
        ("permit icmp any any nosuch", "found \"nosuch\", expected the end of the line"),
    ];
    for (text, message) in cases {
        let error = cisco_rule(text).expect_err(text).to_string();
        assert!(error.starts_with("line 2: ") && error.contains(message), "{text}: {error}");
    }
    for (text, line) in [
        ("ip access-list standard A\n permit tcp any any", 2),
        ("access-list 700 permit 0123.4567.89ab", 1),
        ("ip access-list extended A\n 10 permit ip any any\n 10 deny ip any any", 3),
        // On these routers the entry takes packets with that header; our rule would not.
        ("ipv6 access-list A\n permit ahp any any", 2),
        ("ipv6 access-list A\n permit 60 any any", 2),
        ("ip access-list extended A\n 2147483648 permit ip any any", 2),
        ("ip access-list extended A\n 2147483640 permit ip any any\n permit ip any any", 3),
    ] {
        assert_eq!(cisco_lists(text).unwrap_err().line, line, "{text}");
    }
}

#[test]
fn long_cisco_lists_read_in_any_order_of_their_numbers() {
    const ENTRIES: u32 = 100_000;
    let mut text = "ip access-list extended BACKWARDS\n".to_owned();
    for number in (1..=ENTRIES).rev() {
        text += &format!("{number} permit ip any any\n");
    }
    for list in 1..=ENTRIES {
        text += &format!("ip access-list extended ONE-OF-MANY-{list}\npermit ip any any\n");
    }
    let lists = cisco_lists(&text).unwrap();
    assert_eq!(lists.len(), 1 + ENTRIES as usize);
    let numbers: Vec<_> = lists[0].list.rules.iter().map(|rule| rule.number).collect();
    assert!(numbers.into_iter().eq(1..=ENTRIES));
}

fn iptables_rule(family: Family, text: &str) -> Result<String, ParseError> {
    let file = format!("*filter\n:INPUT ACCEPT [0:0]\n-A INPUT {text}\nCOMMIT\n");
    Ok(printed(&iptables_lists(&file, family)?[0]).join(";"))
}

#[test]
fn iptables_rules_read_as_ours() {
    let cases = [
        ("-j ACCEPT", "1 pass * * * * *"),
        ("-s 10.0.0.0/8 -d 1.2.3.4/32 -j DROP", "1 reject-nolog 10.0.0.0/8 1.2.3.4 * * *"),
        (
            "! -s 128.0.0.0/255.0.0.0 -j ACCEPT",
            "1 pass 0.0.0.0/1,129.0.0.0-255.255.255.255 * * * *",
        ),
        ("-p tcp -m tcp --sport 1024:65535 --dport 22 -j ACCEPT", "1 pass * * tcp 1024-65535 22"),
        ("-p udp -m udp ! --dport 53 -j ACCEPT", "1 pass * * udp * 0-52,54-65535"),
        (
            "-p tcp -m multiport --dports 80,443,8000:8080 -j ACCEPT",
            "1 pass * * tcp * 80,443,8000-8080",
        ),
        (
            "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j ACCEPT",
            "1 pass * * tcpflag=0x0002/0x0017 * *",
        ),
        ("-p tcp ! --syn -j ACCEPT", "1 pass * * tcpflag!=0x0002/0x0017 * *"),
        ("-p icmp -m icmp --icmp-type 3/4 -j ACCEPT", "1 pass * * icmp 3 4"),
        // A match that asks for anything still asks for a message, or for ports.
        ("-p icmp -m icmp --icmp-type any -j ACCEPT", "1 pass * * icmp 0-255 *"),
        ("-p icmp -m icmp --icmp-type 255/3 -j ACCEPT", "1 pass * * icmp 0-255 *"),
        ("-p tcp -m tcp -j ACCEPT", "1 pass * * tcp 0-65535 *"),
        ("-p udp -j ACCEPT", "1 pass * * udp * *"),
        ("-p tcp -m tcp --syn -j ACCEPT", "1 pass * * tcpflag=0x0002/0x0017 * *"),
        (
            "-p icmp -m icmp ! --icmp-type echo-request -j DROP",
            "1 reject-nolog * * icmp 0-7,9-255 *",
        ),
        (
            "-m iprange --src-range 1.2.3.4-1.2.3.9 -j REJECT --reject-with icmp-port-unreachable",
            "1 reject-nolog 1.2.3.4-1.2.3.9 * * * *",
        ),
        ("-m comment --comment \"a \\\" -j b\" -p 47 -j ACCEPT", "1 pass * * gre * *"),
    ];
    for (text, ours) in cases {
        let read = iptables_rule(Family::Ipv4, text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(read, ours, "{text}");
    }
    for (text, ours) in [
        (
            "-s 2001:db8::/32 -p ipv6-icmp -m icmp6 --icmpv6-type 135 -j ACCEPT",
            "1 pass 2001:db8::/32 * icmp6 135 *",
        ),
        ("-p ipv6-icmp ! --icmpv6-type 255 -j ACCEPT", "1 pass * * icmp6 0-254 *"),
    ] {
        assert_eq!(iptables_rule(Family::Ipv6, text).unwrap(), ours, "{text}");
    }
}

#[test]
fn iptables_chains_keep_their_policies() {
    let text = "# Generated by iptables-save\n*nat\n:PREROUTING ACCEPT [1:2]\nCOMMIT\n\
                *filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\n:EMPTY - [0:0]\n\
                [3:4] -A INPUT -p tcp -j ACCEPT\n-A FORWARD -p udp -j DROP\n\
                -A INPUT -p udp -j ACCEPT\nCOMMIT\n";
    let lists = iptables_lists(text, Family::Ipv4).unwrap();
    let shape: Vec<_> =
        lists.iter().map(|l| (l.name.as_str(), l.list.rules.len(), l.list.default)).collect();
    assert_eq!(shape, [("INPUT", 2, Action::Reject), ("FORWARD", 1, Action::Pass)]);
}

#[test]
fn iptables_refusals_name_the_line_and_what_was_expected() {
    let cases = [
        ("-m state --state NEW -j ACCEPT", "found \"-m state --state NEW\", expected a condition"),
        ("-i lo -j ACCEPT", "found \"-i lo\", expected a condition on addresses"),
        ("-f -j ACCEPT", "found \"-f\", expected a condition"),
        ("-j NFQUEUE --queue-num 1", "found \"-j NFQUEUE --queue-num 1\", expected a target"),
        ("-j ELSEWHERE", "found \"-j ELSEWHERE\", expected a target that decides"),
        ("-g ELSEWHERE", "found \"ELSEWHERE\", expected a target that decides, or a chain"),
        ("-p tcp -p udp -j DROP", "found \"-p\", expected one option for each field"),
        ("-p tcp --dport 9:8 -j DROP", "found \"9:8\", expected ports"),
        ("! -s 0.0.0.0/0 -j DROP", "expected less than everything after `!`"),
        ("-p all --syn -j DROP", "expected `-p tcp`, as TCP flags are asked for"),
        ("! -j DROP", "found \"-j\", expected an option that `!` may stand before"),
        ("-m comment --comment \"open -j DROP", "expected a closing quotation mark"),
        ("-p tcp --tcp-flags SYN NIL -j DROP", "found \"NIL\", expected TCP flags"),
        ("-p icmp ! --icmp-type 3/1 -j DROP", "expected a type without a code"),
        ("-p icmp ! --icmp-type any -j DROP", "found \"any\", expected less than all messages"),
        ("-p icmp ! --icmp-type 255 -j DROP", "found \"255\", expected less than all messages"),
        ("-m tcp --dport 80 -j DROP", "expected `-p` with a protocol that has ports"),
        ("! -p tcp --dport 80 -j DROP", "expected `-p` with a protocol that has ports"),
        ("-p icmp -m udp -j DROP", "expected `-p` with a protocol that has ports"),
    ];
    for (text, message) in cases {
        let error = iptables_rule(Family::Ipv4, text).expect_err(text).to_string();
        assert!(error.starts_with("line 3: ") && error.contains(message), "{text}: {error}");
    }
    for (text, line) in [
        ("-A INPUT -j DROP", 1),
        ("*filter\n:INPUT DROP\n-A OTHER -j DROP\nCOMMIT", 3),
        ("*filter\n:INPUT DROP\n", 2),
        ("*filter\n:INPUT MAYBE\nCOMMIT", 2),
        ("*filter\n:INPUT DROP\n:INPUT ACCEPT\nCOMMIT", 3),
        ("*filter\n:INPUT DROP\n-I INPUT -j DROP\nCOMMIT", 3),
        // As when the outputs of two hosts, or of iptables and ip6tables, are joined.
        ("*filter\n:INPUT DROP\nCOMMIT\n*filter\n:INPUT DROP\n-A INPUT -j ACCEPT\nCOMMIT", 5),
    ] {
        assert_eq!(iptables_lists(text, Family::Ipv4).unwrap_err().line, line, "{text}");
    }
}

/// One list of a file of `format`, or the error of reading it.
fn read(format: Format, text: &str, name: &str, options: &Options) -> Result<Imported, ParseError> {
    let catalogue = open(format, text, options)?;
    let lists = catalogue.lists();
    let at = lists.iter().position(|list| list.name == name || list.full_name == name);
    catalogue.read(at.unwrap_or_else(|| panic!("{name} is not in {lists:?}")))
}

fn ours(format: Format, text: &str, name: &str) -> Vec<String> {
    let read = read(format, text, name, &Options::default());
    printed(&read.unwrap_or_else(|error| panic!("{name}: {error}")).list)
}

const IOS: &str = "\
version 15.2
hostname edge
banner motd ^C
access-list 7 permit what stands in a banner
^C
object-group network SERVERS
 description two and more
 host 192.0.2.1
 192.0.2.64 255.255.255.192
 range 198.51.100.3 198.51.100.4
 group-object MORE
object-group network MORE
 203.0.113.0 /24
object-group service WEB
 tcp eq www
 tcp eq 443
 udp source range 5 9 eq 53
 icmp echo
class-map match-any C
 match access-group name OUTSIDE
interface GigabitEthernet0/0
 description to the outside, Stra\u{df}e
 ip address 192.0.2.254 255.255.255.0
 ip access-group OUTSIDE in
 ip access-group 10 out
 ipv6 traffic-filter SIX in
interface Vlan7
 ip access-group MISSING in
ip access-list logging interval 10
ip access-list standard MGMT
 permit 10.0.0.0 0.0.1.255
 permit host 10.9.0.1
 permit 10.9.0.2 log
 deny any
access-list 10 permit 10.1.1.1
access-list 10 deny   any log
ip access-list extended OUTSIDE
 remark what comes in
 10 permit object-group WEB any object-group SERVERS
 20 permit tcp any 10.0.1.0 0.0.2.255 established
 30 permit tcp any any reflect BACK timeout 30
 no 30
ip access-list extended BROKEN
 permit nothing at all
ipv6 access-list SIX
 permit tcp any host 2001:db8::1 eq 22 sequence 40
ip prefix-list P seq 5 permit 0.0.0.0/0
ip access-list extended DOUBTS
 permit tcp any any time-range NIGHT
 deny udp any any fragments
 permit icmp any any dscp ef log
 evaluate BACK
route-map R permit 10
 match ip address OUTSIDE
end
";

#[test]
fn whole_configurations_of_ios_are_read() {
    let catalogue = open(Format::Cisco, IOS, &Options::default()).unwrap();
    let lists: Vec<_> = catalogue.lists().into_iter().map(|l| (l.name, l.entries)).collect();
    let expected =
        [("MGMT", 4), ("10", 2), ("OUTSIDE", 4), ("BROKEN", 1), ("SIX", 1), ("DOUBTS", 4)];
    assert_eq!(lists, expected.map(|(name, entries)| (name.to_owned(), entries)));
    let servers = "192.0.2.1,192.0.2.64/26,198.51.100.3-198.51.100.4,203.0.113.0/24";
    let outside = [
        format!("10 pass * {servers} tcp * 80,443"),
        format!("11 pass * {servers} udp 5-9 53"),
        format!("12 pass * {servers} icmp 8 *"),
        "20 pass * 10.0.1.0/24,10.0.3.0/24 tcpflag!=0x0000/0x0014 * *".to_owned(),
    ];
    assert_eq!(ours(Format::Cisco, IOS, "OUTSIDE"), outside);
    let management = [
        "10 pass 10.0.0.0/23 * * * *",
        "20 pass 10.9.0.1 * * * *",
        "30 pass-log 10.9.0.2 * * * *",
        "40 reject-nolog * * * * *",
    ];
    assert_eq!(ours(Format::Cisco, IOS, "MGMT"), management);
    let numbered = ["10 pass 10.1.1.1 * * * *", "20 reject * * * * *"];
    assert_eq!(ours(Format::Cisco, IOS, "10"), numbered);
    let six =
        ["40 pass * 2001:db8::1 tcp * 22", "50 pass * * icmp6 135 *", "60 pass * * icmp6 136 *"];
    assert_eq!(ours(Format::Cisco, IOS, "SIX"), six);
    let broken = read(Format::Cisco, IOS, "BROKEN", &Options::default()).unwrap_err();
    assert_eq!(
        broken.line,
        1 + IOS.lines().position(|line| line.contains("nothing at all")).unwrap()
    );
    let applied: Vec<_> = catalogue
        .applied()
        .into_iter()
        .map(|found| (found.interface, found.direction.to_string(), found.name, found.list))
        .collect();
    let gigabit = |way: &str, name: &str, list| {
        ("GigabitEthernet0/0".to_owned(), way.to_owned(), name.to_owned(), Some(list))
    };
    let missing = ("Vlan7".to_owned(), "in".to_owned(), "MISSING".to_owned(), None);
    let expected =
        [gigabit("in", "OUTSIDE", 2), gigabit("out", "10", 1), gigabit("in", "SIX", 4), missing];
    assert_eq!(applied, expected);
}

#[test]
fn conditions_that_packets_do_not_answer_become_what_was_asked_for() {
    let of = |unsupported| {
        let options = Options { unsupported, ..Options::default() };
        read(Format::Cisco, IOS, "DOUBTS", &options)
    };
    let error = of(Unsupported::Refuse).unwrap_err().to_string();
    assert!(error.contains("found \"time-range NIGHT\", expected the end of the line"), "{error}");
    let all = [
        "10 pass * * tcp * *",
        "20 reject-nolog * * udp * *",
        "30 pass-log * * icmp * *",
        "40 pass * * * * *",
    ];
    let ways = [
        (Unsupported::Met, &[0, 1, 2, 3][..]),
        (Unsupported::Unmet, &[]),
        (Unsupported::Pass, &[0, 2, 3]),
        (Unsupported::Reject, &[1]),
    ];
    for (way, kept) in ways {
        let read = of(way).unwrap();
        let kept: Vec<_> = kept.iter().map(|&at| all[at]).collect();
        assert_eq!(printed(&read.list), kept, "{way:?}");
        let conditions: Vec<_> = read.untested.iter().map(|u| u.condition.as_str()).collect();
        assert_eq!(conditions, ["time-range NIGHT", "fragments", "dscp ef", "evaluate BACK"]);
    }
}

#[test]
fn whole_configurations_of_asa_are_read() {
    let text = "\
: Saved
ASA Version 9.12(4)
names
name 192.0.2.7 mail
interface GigabitEthernet0/0
 nameif outside
 security-level 0
 ip address 192.0.2.1 255.255.255.0
object network IN
 subnet 10.0.0.0 255.0.0.0
object network IN
 nat (inside,outside) dynamic interface
object network SIX
 subnet 2001:db8::/32
object service ALT
 service tcp source gt 1023 destination eq 8080
object-group network BOTH
 network-object object IN
 network-object object SIX
 network-object host 172.16.0.1
object-group service PORTS tcp-udp
 port-object eq domain
 port-object range 7 9
object-group service MIX
 service-object object ALT
 service-object tcp destination eq https
 service-object icmp6 echo-reply
 group-object MORE
object-group service MORE
 service-object udp eq sip
object-group protocol TCPUDP
 protocol-object tcp
 protocol-object udp
object-group icmp-type PINGS
 icmp-object echo
 icmp-object echo-reply
access-list A remark the first
access-list A extended permit tcp object IN host mail object-group PORTS log notifications interval 300
access-list A extended permit object-group MIX object-group BOTH any
access-list A extended deny object-group TCPUDP interface outside any4 inactive
access-list A extended deny object-group TCPUDP interface outside any4
access-list A extended permit icmp any any object-group PINGS
access-list A extended deny ip any any log disable
access-list split standard permit 10.0.0.0 255.0.0.0
access-list E ethertype permit any
access-group A in interface outside
";
    let listed = ours(Format::Cisco, text, "A");
    let expected = [
        "20 pass-log 10.0.0.0/8 192.0.2.7 tcp * 7-9,53",
        "30 pass 10.0.0.0/8,172.16.0.1 * tcp 1024-65535 8080",
        "31 pass 10.0.0.0/8,172.16.0.1 * tcp * 443",
        "32 pass 10.0.0.0/8,172.16.0.1 * udp * 5060",
        "50 reject-nolog 192.0.2.1 * tcp * *",
        "51 reject-nolog 192.0.2.1 * udp * *",
        "60 pass * * icmp 0,8 *",
        "70 reject-nolog * * * * *",
        "30 pass 2001:db8::/32 * tcp 1024-65535 8080",
        "31 pass 2001:db8::/32 * tcp * 443",
        "32 pass 2001:db8::/32 * icmp6 129 *",
        "33 pass 2001:db8::/32 * udp * 5060",
        "70 reject-nolog * * * * *",
    ];
    assert_eq!(listed, expected);
    // Standard lists are of destinations: of routes, or of networks behind a tunnel.
    assert_eq!(ours(Format::Cisco, text, "split"), ["10 pass * 10.0.0.0/8 * * *"]);
    let error = read(Format::Cisco, text, "E", &Options::default()).unwrap_err();
    assert_eq!(error.found, "\"E\"");
    let catalogue = open(Format::Cisco, text, &Options::default()).unwrap();
    let applied = &catalogue.applied()[0];
    assert_eq!((applied.interface.as_str(), applied.list), ("outside", Some(0)));
    assert_eq!(applied.aliases, ["GigabitEthernet0/0"]);
}

#[test]
fn entries_of_asa_are_at_the_line_that_they_name() {
    let entry =
        |line: &str, action: &str| format!("access-list A {line}extended {action} ip any any\n");
    let text = entry("line 1 ", "permit") + &entry("", "deny") + &entry("line 3 ", "permit");
    let listed = ours(Format::Cisco, &text, "A");
    assert_eq!(listed[..2], ["10 pass * * * * *", "20 reject-nolog * * * * *"]);
    for (line, found) in [("line 1 ", "1"), ("line 4 ", "4")] {
        let text = entry("", "deny") + &entry("", "deny") + &entry(line, "permit");
        let error = read(Format::Cisco, &text, "A", &Options::default()).unwrap_err();
        let expected =
            format!("line 3: found \"{found}\", expected 3, the next line, or no number");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn what_a_configuration_takes_away_is_gone_or_refused() {
    let asa =
        "access-list A extended permit tcp any any\naccess-list A extended deny udp any any\n";
    let ios = "ip access-list extended A\n 10 permit tcp any any\n 20 deny udp any any\n";
    let group = "object-group network G\n host 10.0.0.1\n host 10.0.0.2\n";
    let user = "ip access-list extended A\n permit ip object-group G any\n";
    let shown = |text: &str| match read(Format::Cisco, text, "A", &Options::default()) {
        Ok(read) => printed(&read.list).join(";"),
        Err(error) => error.to_string(),
    };
    let left = "20 reject-nolog * * udp * *";
    let cases = [
        (format!("{ios} no 10\n"), left),
        (format!("{ios}no 10\n"), left),
        (format!("{ios}no sequence 10\n"), left),
        (format!("{ios}no ip access-list extended A\n"), ""),
        (format!("{asa}no access-list A\n"), ""),
        (format!("{ios} no permit tcp any any\n"), "line 4: found \"no permit tcp any any\""),
        (format!("{ios}no permit tcp any any\n"), "line 4: found \"no permit tcp any any\""),
        (
            format!("{ios}no ip access-list extended A permit tcp any any\n"),
            "line 4: found \"no ip access-list extended A permit tcp any any\"",
        ),
        (
            format!("{asa}no access-list A extended permit tcp any any\n"),
            "line 3: found \"no access-list A extended permit tcp any any\"",
        ),
        (format!("{group} no host 10.0.0.1\n{user}"), "line 4: found \"no\""),
        (format!("{group}no host 10.0.0.1\n{user}"), "line 4: found \"no\""),
        (
            format!(
                "{group}no object-group network G\nobject-group network G\n host 10.0.0.3\n{user}"
            ),
            "10 pass 10.0.0.3 * * * *",
        ),
        // What is no list's business.
        (format!("{ios}no ip http server\nno shutdown\n"), "10 pass * * tcp * *;20"),
    ];
    for (text, expected) in cases {
        let shown = shown(&text);
        assert!(shown.starts_with(expected), "{text}{shown}");
        assert!(!expected.is_empty() || shown.is_empty(), "{text}{shown}");
    }
}

#[test]
fn whole_configurations_of_nxos_are_read() {
    let text = "\
!Command: show running-config
feature bgp
object-group ip address N
  10 10.0.0.0/8
  20 host 1.2.3.4
  30 192.0.2.0 0.0.0.255
object-group ip port T
  10 eq 80
  20 range 90 95
  30 gt 65000
ip access-list X
  statistics per-entry
  10 permit tcp addrgroup N portgroup T 10.0.0.0/8 eq 22
  20 deny udp any any
  30 permit ip 10.0.0.0/8 any
ipv6 access-list Y
  10 deny ipv6 any any
interface Ethernet1/1
  ip access-group X in
";
    let x = [
        "10 pass 1.2.3.4,10.0.0.0/8,192.0.2.0/24 10.0.0.0/8 tcp 80,90-95,65001-65535 22",
        "20 reject-nolog * * udp * *",
        "30 pass 10.0.0.0/8 * * * *",
    ];
    assert_eq!(ours(Format::Cisco, text, "X"), x);
    let y = ours(Format::Cisco, text, "Y");
    assert_eq!(y[0], "10 reject-nolog * * * * *");
    assert_eq!(y.len(), 5);
}

#[test]
fn groups_have_budgets_and_no_circles() {
    let refused = |text: &str, list: &str, what: &str| {
        let error = read(Format::Cisco, text, list, &Options::default()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    let circle = "object-group network A\n group-object B\nobject-group network B\n group-object A\n\
                  ip access-list extended L\n permit ip object-group A any\n";
    refused(circle, "L", "line 4: found \"A\", expected a group that is not within itself");
    let mut deep = String::new();
    for n in 0..40 {
        deep += &format!("object-group network G{n}\n group-object G{}\n", n + 1);
    }
    deep += "ip access-list extended L\n permit ip object-group G0 any\n";
    refused(&deep, "L", "groups at most 32 deep");
    // Each group is twice the one before, and the same addresses.
    let mut doubled = "object-group network G0\n host 10.0.0.1\n".to_owned();
    for n in 1..30 {
        let before = n - 1;
        doubled += &format!(
            "object-group network G{n}\n group-object G{before}\n group-object G{before}\n"
        );
    }
    doubled += "ip access-list extended L\n permit ip object-group G29 any\n";
    assert_eq!(ours(Format::Cisco, &doubled, "L"), ["10 pass 10.0.0.1 * * * *"]);
    // 500 rules of 4,096 ranges are more than 2,000,000.
    let mut wide = "ip access-list extended L\n".to_owned();
    for _ in 0..500 {
        wide += " permit ip 10.0.0.0 0.15.255.0 any\n";
    }
    refused(&wide, "L", "found \"rule 4890\", expected at most 2000000 address and port ranges");
    let undefined = "ip access-list extended L\n permit ip object-group NONE any\n";
    refused(undefined, "L", "line 2: found \"NONE\", expected a group or object that the file");
}

#[test]
fn jumps_of_iptables_are_followed() {
    let text = "\
*nat
:PREROUTING ACCEPT [0:0]
-A PREROUTING -m nosuch -j NOSUCH
COMMIT
*filter
:INPUT DROP [0:0]
:FORWARD ACCEPT [0:0]
:web - [0:0]
:log - [0:0]
:unused - [0:0]
-A INPUT -m limit --limit 3/min -j LOG --log-prefix \"a b \"
-A INPUT -p tcp -m tcp --dport 80 -j web
-A INPUT -p udp -g log
-A INPUT -s 10.0.0.0/8 -j ACCEPT
-A FORWARD -i eth0 -j DROP
-A FORWARD -i eth+ -o lo -j DROP
-A web -s 192.0.2.0/24 -j RETURN
-A web -p tcp -m tcp --tcp-flags SYN SYN -j log
-A web -j ACCEPT
-A log -d 192.0.2.9/32 -j REJECT
-A log -j LOG
-A unused -m nosuch --at all -j DROP
COMMIT
";
    let input = [
        "2 reject-nolog 0.0.0.0-192.0.1.255,192.0.3.0-255.255.255.255 192.0.2.9 tcpsyn * 80",
        "3 pass 0.0.0.0-192.0.1.255,192.0.3.0-255.255.255.255 * tcp * 80",
        "4 reject-nolog * 192.0.2.9 udp * *",
        "5 reject-nolog * * udp * *",
        "6 pass 10.0.0.0/8 * * * *",
    ];
    assert_eq!(ours(Format::Iptables, text, "INPUT"), input);
    let interface = |name: &str, unsupported| {
        let interface = Some((name.to_owned(), Direction::In));
        let options = Options { interface, unsupported, ..Options::default() };
        read(Format::Iptables, text, "FORWARD", &options)
    };
    let error = interface("eth0", Unsupported::Refuse).unwrap_err();
    assert!(error.to_string().starts_with("line 16: found \"-o lo\", expected"), "{error}");
    let eth0 = interface("eth0", Unsupported::Unmet).unwrap();
    assert_eq!(printed(&eth0.list), ["1 reject-nolog * * * * *"]);
    assert_eq!(printed(&interface("wlan0", Unsupported::Refuse).unwrap().list), [""; 0]);
}

#[test]
fn chains_have_budgets_and_no_circles() {
    let refused = |rules: &str, what: &str| {
        let text = format!("*filter\n:INPUT DROP\n{rules}COMMIT\n");
        let error = read(Format::Iptables, &text, "INPUT", &Options::default()).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    };
    let circle = ":a -\n:b -\n-A INPUT -j a\n-A a -g b\n-A b -p tcp -j a\n";
    refused(circle, "found \"a\", expected a chain that does not lead back to itself");
    let mut deep = String::new();
    for n in 0..40 {
        deep += &format!(":c{n} -\n");
    }
    deep += "-A INPUT -j c0\n";
    for n in 0..39 {
        deep += &format!("-A c{n} -j c{}\n-A c{n} -p tcp -j ACCEPT\n", n + 1);
    }
    refused(&deep, "expected chains at most 32 deep");
    // Each chain goes through the next one three times.
    let mut many = String::new();
    for n in 0..20 {
        many += &format!(":c{n} -\n");
    }
    many += "-A INPUT -j c0\n";
    for n in 0..19 {
        for port in 1..4 {
            many += &format!("-A c{n} -p tcp -m tcp --dport {port}00:60000 -j c{}\n", n + 1);
        }
    }
    many += "-A c19 -s 1.2.3.4/32 -j ACCEPT\n";
    refused(&many, "expected at most 500000 in a list");
    // The rules behind each jump are repeated for packets that return.
    let mut returns = String::new();
    for n in 1..=300 {
        returns += &format!(
            ":c{n} -\n-A c{n} -p tcp -m tcp --dport {n}:65000 -j RETURN\n\
             -A c{n} -s 1.1.1.{}/32 -j DROP\n-A INPUT -j c{n}\n",
            n % 256
        );
    }
    refused(&returns, "expected chains of which at most 200 are in force at once");
}

#[test]
fn what_nft_prints_is_read() {
    let rule = |expr: &str| {
        format!(
            r#"{{"rule":{{"family":"inet","table":"t","chain":"in","handle":7,"expr":[{expr}]}}}}"#
        )
    };
    let file = |rules: &[String]| {
        let chain = r#"{"metainfo":{"version":"1.0.6"}},{"table":{"family":"inet","name":"t"}},
            {"set":{"family":"inet","name":"s","table":"t","type":"ipv4_addr","elem":[{"elem":{"val":"10.0.0.1","comment":"c"}},{"range":["10.0.0.3","10.0.0.5"]}]}},
            {"set":{"family":"inet","name":"d","table":"t","type":"ipv4_addr","flags":["timeout"]}},
            {"chain":{"family":"inet","table":"t","name":"in","type":"filter","hook":"input","prio":0,"policy":"drop"}},
            {"chain":{"family":"inet","table":"t","name":"c","handle":3}}"#;
        format!("{{\"nftables\":[{chain},\n{}]}}\n", rules.join(",\n"))
    };
    let payload = |protocol: &str, field: &str, op: &str, right: &str| {
        format!(
            r#"{{"match":{{"op":"{op}","left":{{"payload":{{"protocol":"{protocol}","field":"{field}"}}}},"right":{right}}}}}"#
        )
    };
    let accept = r#"{"accept":null}"#;
    let cases = [
        (payload("ip", "saddr", "==", "\"@s\""), "pass 10.0.0.1,10.0.0.3-10.0.0.5 * * * *"),
        (
            payload("tcp", "dport", "!=", "{\"set\":[22,{\"range\":[80,90]}]}"),
            "pass * * tcp * 0-21,23-79,91-65535",
        ),
        (payload("tcp", "flags", "in", "[\"syn\",\"ack\"]"), "pass * * tcpflag!=0x0000/0x0012 * *"),
        (payload("icmp", "type", "==", "\"echo-request\""), "pass * * icmp 8 *"),
        (
            payload("ip", "daddr", "==", "{\"prefix\":{\"addr\":\"10.0.0.0\",\"len\":9}}"),
            "pass * 10.0.0.0/9 * * *",
        ),
        (payload("ip", "ttl", "<", "5"), "expected a condition on addresses"),
        (payload("ip", "saddr", "==", "\"@d\""), "expected a condition on addresses"),
        (payload("ip", "saddr", "==", "\"@none\""), "expected a set that the table has"),
        (payload("ip", "saddr", "==", "\"300.0.0.1\""), "expected a value of the field"),
        (
            r#"{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":"established"}}"#
                .to_owned(),
            "rule 1 of in (handle 7)",
        ),
    ];
    for (condition, expected) in cases {
        let text = file(&[rule(&format!("{condition},{{\"counter\":{{}}}},{accept}"))]);
        match read(Format::Nftables, &text, "inet t in", &Options::default()) {
            Ok(read) => {
                let v4 = |rule: &&String| !rule.contains("icmp6");
                let printed = printed(&read.list);
                let first = printed.iter().find(v4).unwrap();
                assert_eq!(*first, format!("1 {expected}"), "{condition}");
            }
            Err(error) => {
                assert_eq!(error.line, 6, "{error}");
                assert!(error.to_string().contains(expected), "{condition}: {error}");
            }
        }
    }
    // A rule that decides nothing may ask for anything.
    let limit = r#"{"limit":{"rate":3,"per":"minute"}},{"log":null}"#;
    let queue = r#"{"queue":{"num":1}}"#;
    let text = file(&[rule(limit), rule(queue)]);
    let error = read(Format::Nftables, &text, "in", &Options::default()).unwrap_err();
    assert_eq!(error.line, 7);
    assert!(error.to_string().contains("expected a verdict"), "{error}");
    let cut = open(Format::Nftables, &text[..text.len() - 5], &Options::default());
    let error = cut.err().unwrap();
    assert!(error.to_string().contains("expected what `nft -j list ruleset` prints"), "{error}");
}
