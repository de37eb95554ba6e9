//! Names of protocols and ports.
//!
//! Numbers are IANA's. YAMAHA's names are those of the routers' command
//! reference ("IP packet filter", and "dynamic filters" for more of them),
//! Cisco's those of IOS; where they differ, each language has its own table.

use crate::rule::Family;

/// Protocol names that all languages know.
const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("ipinip", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("dccp", 33),
    ("ipv6", 41),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ahp", 51),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("icmp6", 58),
    ("eigrp", 88),
    ("ospf", 89),
    ("pim", 103),
    ("ipcomp", 108),
    ("pcp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("sctp", 132),
    ("udplite", 136),
];

/// The number of the protocol called `name`.
pub(crate) fn protocol(name: &str) -> Option<u8> {
    PROTOCOLS.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// The name printed for a protocol.
pub(crate) fn protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS.iter().find(|entry| entry.1 == number).map(|entry| entry.0)
}

/// Port names of YAMAHA RT routers, first and last port. There `ftp` is both
/// ports of the protocol.
const YAMAHA_PORTS: &[(&str, u16, u16)] = &[
    ("ftp", 20, 21),
    ("ftpdata", 20, 20),
    ("telnet", 23, 23),
    ("smtp", 25, 25),
    ("time", 37, 37),
    ("domain", 53, 53),
    ("dhcps", 67, 67),
    ("dhcpc", 68, 68),
    ("tftp", 69, 69),
    ("gopher", 70, 70),
    ("finger", 79, 79),
    ("www", 80, 80),
    ("pop3", 110, 110),
    ("sunrpc", 111, 111),
    ("ident", 113, 113),
    ("nntp", 119, 119),
    ("ntp", 123, 123),
    ("netbios_ns", 137, 137),
    ("netbios_dgm", 138, 138),
    ("netbios_ssn", 139, 139),
    ("imap", 143, 143),
    ("snmp", 161, 161),
    ("snmptrap", 162, 162),
    ("bgp", 179, 179),
    ("ldap", 389, 389),
    ("https", 443, 443),
    ("ike", 500, 500),
    ("rlogin", 513, 513),
    ("rsh", 514, 514),
    ("syslog", 514, 514),
    ("printer", 515, 515),
    ("talk", 517, 517),
    ("route", 520, 520),
    ("uucp", 540, 540),
    ("submission", 587, 587),
    ("imaps", 993, 993),
    ("pop3s", 995, 995),
];

/// The ports that YAMAHA routers call `name`.
pub(crate) fn yamaha_port(name: &str) -> Option<(u16, u16)> {
    YAMAHA_PORTS.iter().find(|entry| entry.0 == name).map(|entry| (entry.1, entry.2))
}

/// Port names of Cisco routers and of the services file that iptables reads.
const SERVICES: &[(&str, u16)] = &[
    ("echo", 7),
    ("discard", 9),
    ("daytime", 13),
    ("chargen", 19),
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("time", 37),
    ("nameserver", 42),
    ("whois", 43),
    ("tacacs", 49),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("gopher", 70),
    ("finger", 79),
    ("www", 80),
    ("http", 80),
    ("kerberos", 88),
    ("hostname", 101),
    ("pop2", 109),
    ("pop3", 110),
    ("sunrpc", 111),
    ("ident", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ss", 139),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("imap2", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("xdmcp", 177),
    ("bgp", 179),
    ("irc", 194),
    ("dnsix", 195),
    ("ldap", 389),
    ("mobile-ip", 434),
    ("https", 443),
    ("pim-auto-rp", 496),
    ("isakmp", 500),
    ("exec", 512),
    ("biff", 512),
    ("login", 513),
    ("who", 513),
    ("cmd", 514),
    ("syslog", 514),
    ("lpd", 515),
    ("talk", 517),
    ("rip", 520),
    ("ripv6", 521),
    ("uucp", 540),
    ("klogin", 543),
    ("kshell", 544),
    ("submission", 587),
    ("ldaps", 636),
    ("imaps", 993),
    ("pop3s", 995),
    ("drip", 3949),
    ("non500-isakmp", 4500),
];

/// The port that Cisco routers and services files call `name`.
pub(crate) fn service(name: &str) -> Option<u16> {
    SERVICES.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// TCP's control bits by name, lowest first: RFC 9293 section 3.1.
pub(crate) const TCP_FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];

/// The control bit called `name`, of the six that all languages name alike.
pub(crate) fn tcp_flag(name: &str) -> Option<u8> {
    TCP_FLAGS[..6].iter().position(|known| *known == name).map(|bit| 1 << bit)
}

/// Names of ICMP messages: type, and code where the name has one.
const MESSAGES_V4: &[(&str, u8, Option<u8>)] = &[
    ("echo-reply", 0, None),
    ("pong", 0, None),
    ("unreachable", 3, None),
    ("destination-unreachable", 3, None),
    ("net-unreachable", 3, Some(0)),
    ("network-unreachable", 3, Some(0)),
    ("host-unreachable", 3, Some(1)),
    ("protocol-unreachable", 3, Some(2)),
    ("port-unreachable", 3, Some(3)),
    ("packet-too-big", 3, Some(4)),
    ("fragmentation-needed", 3, Some(4)),
    ("source-route-failed", 3, Some(5)),
    ("network-unknown", 3, Some(6)),
    ("host-unknown", 3, Some(7)),
    ("host-isolated", 3, Some(8)),
    ("dod-net-prohibited", 3, Some(9)),
    ("network-prohibited", 3, Some(9)),
    ("dod-host-prohibited", 3, Some(10)),
    ("host-prohibited", 3, Some(10)),
    ("net-tos-unreachable", 3, Some(11)),
    ("TOS-network-unreachable", 3, Some(11)),
    ("host-tos-unreachable", 3, Some(12)),
    ("TOS-host-unreachable", 3, Some(12)),
    ("administratively-prohibited", 3, Some(13)),
    ("communication-prohibited", 3, Some(13)),
    ("host-precedence-unreachable", 3, Some(14)),
    ("host-precedence-violation", 3, Some(14)),
    ("precedence-unreachable", 3, Some(15)),
    ("precedence-cutoff", 3, Some(15)),
    ("source-quench", 4, None),
    ("redirect", 5, None),
    ("net-redirect", 5, Some(0)),
    ("network-redirect", 5, Some(0)),
    ("host-redirect", 5, Some(1)),
    ("net-tos-redirect", 5, Some(2)),
    ("TOS-network-redirect", 5, Some(2)),
    ("host-tos-redirect", 5, Some(3)),
    ("TOS-host-redirect", 5, Some(3)),
    ("alternate-address", 6, None),
    ("echo", 8, None),
    ("echo-request", 8, None),
    ("ping", 8, None),
    ("router-advertisement", 9, None),
    ("router-solicitation", 10, None),
    ("time-exceeded", 11, None),
    ("ttl-exceeded", 11, Some(0)),
    ("ttl-zero-during-transit", 11, Some(0)),
    ("reassembly-timeout", 11, Some(1)),
    ("ttl-zero-during-reassembly", 11, Some(1)),
    ("parameter-problem", 12, None),
    ("general-parameter-problem", 12, Some(0)),
    ("ip-header-bad", 12, Some(0)),
    ("option-missing", 12, Some(1)),
    ("required-option-missing", 12, Some(1)),
    ("no-room-for-option", 12, Some(2)),
    ("timestamp-request", 13, None),
    ("timestamp-reply", 14, None),
    ("information-request", 15, None),
    ("information-reply", 16, None),
    ("mask-request", 17, None),
    ("address-mask-request", 17, None),
    ("mask-reply", 18, None),
    ("address-mask-reply", 18, None),
    ("traceroute", 30, None),
    ("conversion-error", 31, None),
    ("mobile-redirect", 32, None),
];

/// As [`MESSAGES_V4`], for ICMPv6.
const MESSAGES_V6: &[(&str, u8, Option<u8>)] = &[
    ("unreachable", 1, None),
    ("destination-unreachable", 1, None),
    ("no-route", 1, Some(0)),
    ("no-admin", 1, Some(1)),
    ("beyond-scope", 1, Some(2)),
    ("address-unreachable", 1, Some(3)),
    ("port-unreachable", 1, Some(4)),
    ("packet-too-big", 2, None),
    ("time-exceeded", 3, None),
    ("hop-limit", 3, Some(0)),
    ("reassembly-timeout", 3, Some(1)),
    ("parameter-problem", 4, None),
    ("header", 4, Some(0)),
    ("next-header", 4, Some(1)),
    ("parameter-option", 4, Some(2)),
    ("echo-request", 128, None),
    ("echo-reply", 129, None),
    ("mld-query", 130, None),
    ("mld-report", 131, None),
    ("mld-reduction", 132, None),
    ("router-solicitation", 133, None),
    ("router-advertisement", 134, None),
    ("nd-ns", 135, None),
    ("neighbour-solicitation", 135, None),
    ("neighbor-solicitation", 135, None),
    ("nd-na", 136, None),
    ("neighbour-advertisement", 136, None),
    ("neighbor-advertisement", 136, None),
    ("redirect", 137, None),
    ("router-renumbering", 138, None),
];

/// The messages called `name` by Cisco routers or iptables: type and code.
pub(crate) fn icmp_message(family: Family, name: &str) -> Option<(u8, Option<u8>)> {
    let table = match family {
        Family::Ipv4 => MESSAGES_V4,
        Family::Ipv6 => MESSAGES_V6,
    };
    table.iter().find(|entry| entry.0 == name).map(|entry| (entry.1, entry.2))
}
