//! The filters: the 13 of the paper, and 12 longer ones of the kind people write.

use std::net::Ipv4Addr;

use super::loops::Loops;

/// A filter of the suite.
#[derive(Clone, Debug)]
pub struct Case {
    /// The pcap expression, which is also the case's name in the record.
    pub expression: String,
    /// The name in tables.
    pub short: String,
    /// Whether it is one of the paper's.
    pub paper: bool,
    /// Instructions of libpcap's program, once the filter is measured.
    pub instructions: usize,
    /// The loops of `pe`, where it compiles the filter.
    pub loops: Option<Loops>,
    /// Tests in `list` code.
    pub tests: usize,
}

/// Table 1 of Yamashita and Tsuru, "Software Pipelining for Packet Filters" (HPCC
/// 2007), with the network and port of the traffic profile `paper`.
pub const PAPER: [&str; 13] = [
    "ip",
    "ip and tcp",
    "tcp",
    "ip and udp",
    "udp",
    "ip and dst net 192.168.1.0/24",
    "dst net 192.168.1.0/24",
    "ip and net 192.168.1.0/24",
    "net 192.168.1.0/24",
    "ip and dst port 3000",
    "dst port 3000",
    "ip and port 3000",
    "port 3000",
];

/// Filters from manuals, and from what operators and analysts type: name in tables, and
/// expression.
const LONGER: [(&str, &str); 11] = [
    // HTTP segments that carry data, from tcpdump's manual page.
    (
        "HTTP with data",
        "tcp port 80 and (((ip[2:2] - ((ip[0]&0xf)<<2)) - ((tcp[12]&0xf0)>>2)) != 0)",
    ),
    // Connections that begin or end, to and from outside; from the same page.
    (
        "SYN or FIN, not local",
        "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0 and not src and dst net 192.168.1.0/24",
    ),
    ("HTTP GET by its first bytes", "tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420"),
    ("VLAN or not", "(tcp port 80 or udp port 53) or (vlan and (tcp port 80 or udp port 53))"),
    (
        "from private, not to 10/8",
        "(src net 10.0.0.0/8 or src net 172.16.0.0/12 or src net 192.168.0.0/16) \
         and not dst net 10.0.0.0/8",
    ),
    (
        "one host's web, not another's",
        "host 10.0.0.1 and (port 80 or port 443 or port 8080) and not host 10.0.0.2",
    ),
    (
        "infrastructure ports",
        "port 53 or port 67 or port 68 or port 123 or port 161 or port 162 or port 514 or port 520",
    ),
    ("all but SSH, DNS, ICMP", "not (tcp port 22 or udp port 53 or icmp)"),
    ("port ranges", "tcp portrange 6000-6063 and not port 6010 or udp portrange 33434-33523"),
    ("long segments of a web server", "tcp src port 80 and ip[2:2] > 1400 and ip[6] & 0x40 != 0"),
    (
        "reserved networks",
        "net 0.0.0.0/8 or net 10.0.0.0/8 or net 100.64.0.0/10 or net 127.0.0.0/8 \
         or net 169.254.0.0/16 or net 172.16.0.0/12 or net 192.0.0.0/24 or net 192.0.2.0/24 \
         or net 192.88.99.0/24 or net 198.18.0.0/15 or net 198.51.100.0/24 \
         or net 203.0.113.0/24 or net 224.0.0.0/4 or net 240.0.0.0/4",
    ),
];

/// Hosts of the long list among the filters, and of the one that is only compiled.
pub const LISTED_HOSTS: [usize; 2] = [100, 3_000];

/// All filters, the paper's first.
pub fn all() -> Vec<Case> {
    let case = |short: &str, expression: String, paper| {
        let short = short.to_owned();
        Case { expression, short, paper, instructions: 0, loops: None, tests: 0 }
    };
    let paper = PAPER.into_iter().map(|text| case(text, text.to_owned(), true));
    let longer = LONGER.into_iter().map(|(short, text)| case(short, text.to_owned(), false));
    let list = case(&format!("{} hosts", LISTED_HOSTS[0]), host_list(LISTED_HOSTS[0]), false);
    paper.chain(longer).chain([list]).collect()
}

/// The filters of a quick run: short, middle and long ones.
pub fn few() -> Vec<Case> {
    const QUICK: [&str; 8] = [
        "ip",
        "ip and tcp",
        "udp",
        "dst net 192.168.1.0/24",
        "ip and port 3000",
        "port 3000",
        "VLAN or not",
        "100 hosts",
    ];
    all().into_iter().filter(|case| QUICK.contains(&case.short.as_str())).collect()
}

/// `host A or host B …` with this many hosts.
pub fn host_list(hosts: usize) -> String {
    let host = |number| format!("host {}", Ipv4Addr::from(listed_host(number)));
    (0..hosts as u32).map(host).collect::<Vec<_>>().join(" or ")
}

/// Host `number` of the lists: one of 10.0.0.0/12, in no order.
pub fn listed_host(number: u32) -> [u8; 4] {
    // Times an odd factor, the numbers below 2^20 stay different.
    (0x0a00_0000 | (number.wrapping_mul(0x9_e377) & 0xf_ffff)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use forebay_filter::compile;
    use forebay_filter::libpcap::MAX_EXPRESSION;
    use forebay_packet::LinkType;

    use super::*;

    #[test]
    fn there_are_25_filters_and_all_compile() {
        let cases = all();
        assert_eq!(cases.len(), 25);
        assert_eq!(cases.iter().filter(|case| case.paper).count(), 13);
        for case in &cases {
            assert!(compile(&case.expression, LinkType::ETHERNET).is_ok(), "{}", case.short);
        }
        assert_eq!(few().len(), 8);
    }

    #[test]
    fn listed_hosts_are_different_and_the_longest_list_is_allowed() {
        let list = host_list(LISTED_HOSTS[1]);
        assert_eq!(list.split(" or ").collect::<HashSet<_>>().len(), LISTED_HOSTS[1]);
        assert!(list.len() <= MAX_EXPRESSION, "{}", list.len());
    }
}
