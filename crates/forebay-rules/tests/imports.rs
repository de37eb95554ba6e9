//! Cisco access lists and iptables-save: each form as it reads in our syntax,
//! and what is refused.

use forebay_rules::language::{NamedList, ParseError, cisco, iptables};
use forebay_rules::rule::{Action, Family};

/// The rules of one list in our syntax, without the command.
fn printed(list: &NamedList) -> Vec<String> {
    let strip = |text: String| text.split_once("filter ").unwrap().1.to_owned();
    list.list.rules.iter().map(|rule| strip(rule.to_string())).collect()
}

fn cisco_rule(text: &str) -> Result<String, ParseError> {
    let lists = cisco::parse(&format!("! a comment\naccess-list 101 {text}\n"))?;
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
    let lists = cisco::parse(text).unwrap();
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
        ("permit ip 10.0.0.0 0.0.255.0 any", "expected a wildcard mask whose ones are its last"),
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
        ("access-list 10 permit any", 1),
        ("\ninterface Gi0/0", 2),
        ("ip access-list standard A", 1),
        ("ip access-list extended A\n 10 permit ip any any\n 10 deny ip any any", 3),
        // On these routers the entry takes packets with that header; our rule would not.
        ("ipv6 access-list A\n permit ahp any any", 2),
        ("ipv6 access-list A\n permit 60 any any", 2),
        ("ip access-list extended A\n 2147483648 permit ip any any", 2),
        ("ip access-list extended A\n 2147483640 permit ip any any\n permit ip any any", 3),
    ] {
        assert_eq!(cisco::parse(text).unwrap_err().line, line, "{text}");
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
    let lists = cisco::parse(&text).unwrap();
    assert_eq!(lists.len(), 1 + ENTRIES as usize);
    let numbers: Vec<_> = lists[0].list.rules.iter().map(|rule| rule.number).collect();
    assert!(numbers.into_iter().eq(1..=ENTRIES));
}

fn iptables_rule(family: Family, text: &str) -> Result<String, ParseError> {
    let file = format!("*filter\n:INPUT ACCEPT [0:0]\n-A INPUT {text}\nCOMMIT\n");
    Ok(printed(&iptables::parse(&file, family)?[0]).join(";"))
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
    let lists = iptables::parse(text, Family::Ipv4).unwrap();
    let shape: Vec<_> =
        lists.iter().map(|l| (l.name.as_str(), l.list.rules.len(), l.list.default)).collect();
    assert_eq!(shape, [("INPUT", 2, Action::Reject), ("FORWARD", 1, Action::Pass)]);
}

#[test]
fn iptables_refusals_name_the_line_and_what_was_expected() {
    let cases = [
        ("-m state --state NEW -j ACCEPT", "found \"state\", expected a match without state"),
        ("-i lo -j ACCEPT", "found \"-i\", expected an option that asks about addresses"),
        ("-f -j ACCEPT", "found \"-f\", expected an option"),
        ("-j LOG", "found \"LOG\", expected a target that decides"),
        ("-p tcp", "found the end of the line, expected `-j`"),
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
        ("*nat\n-A PREROUTING -j ACCEPT\nCOMMIT", 2),
        ("*filter\n:INPUT DROP\n-A OTHER -j DROP\nCOMMIT", 3),
        ("*filter\n:INPUT DROP\n", 2),
        ("*filter\n:INPUT MAYBE\nCOMMIT", 2),
        ("*filter\n:INPUT DROP\n:INPUT ACCEPT\nCOMMIT", 3),
        ("*mangle\n:INPUT DROP [0:0]\nCOMMIT\n*filter\n:INPUT ACCEPT\nCOMMIT", 2),
        // As when the outputs of two hosts, or of iptables and ip6tables, are joined.
        ("*filter\n:INPUT DROP\nCOMMIT\n*filter\n:INPUT DROP\n-A INPUT -j ACCEPT\nCOMMIT", 5),
    ] {
        assert_eq!(iptables::parse(text, Family::Ipv4).unwrap_err().line, line, "{text}");
    }
}
