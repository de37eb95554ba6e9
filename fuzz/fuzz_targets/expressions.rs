//! Filter expressions, any text or generated from any bytes: the function assembled from an
//! expression's primitives is equivalent to libpcap's unoptimised program of the whole, on
//! packets truncated anywhere, also when lowered to a program again; and libpcap refuses
//! what is refused here.
#![no_main]

use std::net::Ipv6Addr;

use forebay_filter::ir::lower::lower;
use forebay_filter::ir::verify::verify;
use forebay_filter::libpcap::{CompileError, compile_as_written};
use forebay_filter::lists::{Lengths, compile_long};
use forebay_filter::{Program, compile};
use forebay_packet::LinkType;
use libfuzzer_sys::fuzz_target;

/// Ethernet twice, as most tests are for it; types with headers of variable length; and
/// some that do not support all tests.
const LINKS: [u32; 24] = [
    1, 1, 1, 1, 0, 6, 7, 9, 10, 50, 51, 101, 104, 105, 113, 117, 119, 123, 127, 163, 192, 228, 229,
    276,
];

/// The most bytes of text.
const TEXT: usize = 600;

fuzz_target!(|data: &[u8]| {
    let [link, form, wire_high, wire_low, length, rest @ ..] = data else { return };
    let link = LinkType(LINKS[usize::from(*link) % LINKS.len()]);
    let wire_len = u32::from(u16::from_be_bytes([*wire_high, *wire_low]));
    let (packet, rest) = rest.split_at(rest.len().min(usize::from(*length)));
    let expression = if form % 4 == 0 {
        match std::str::from_utf8(&rest[..rest.len().min(TEXT)]) {
            Ok(text) if asks_no_server(text) => text.to_owned(),
            _ => return,
        }
    } else {
        Maker { choices: rest, packet }.expression(0)
    };
    // libpcap's program overwrites the length of variable headers by arithmetic before the
    // first primitive that needs it.
    let varies = [105, 117, 119, 127, 163, 192].contains(&link.0);
    if !(varies && (expression.contains("len") || expression.contains('['))) {
        check(&expression, link, packet, wire_len);
    }
});

fn check(expression: &str, link: LinkType, packet: &[u8], wire_len: u32) {
    let as_written = compile_as_written(expression, link);
    match compile(expression, link) {
        Ok(_) => assert!(as_written.is_ok(), "{link} {expression}"),
        Err(error) if error.rejects_all() => assert!(as_written.is_ok(), "{link} {expression}"),
        Err(error) => {
            let _ = error.to_string();
            if let CompileError::Expression(error) = error
                && let Some(span) = error.span
            {
                assert!(expression.get(span).is_some(), "{link} {expression}");
            }
        }
    }
    let [function, plain] = [Lengths::Tested, Lengths::Reject]
        .map(|lengths| compile_long(expression, link, 1, lengths));
    let function = match function {
        Ok(Some(function)) => function,
        Ok(None) => return,
        // The expression accepts no packet, or libpcap refuses it.
        Err(error) if error.rejects_all() => {
            let program = as_written.expect("libpcap accepts it");
            let verdict = |length| program.run(&packet[..length], wire_len);
            assert!((0..=packet.len()).all(|length| verdict(length) == 0), "{link} {expression}");
            return;
        }
        Err(error) => {
            assert!(as_written.is_err(), "{link} {expression}: {error}");
            return;
        }
    };
    let program = as_written.unwrap_or_else(|error| panic!("{link} {expression}: {error}"));
    assert_eq!(verify(&function), Ok(()), "{link} {expression}\n{function}");
    let plain = match plain {
        Ok(plain) => Some(plain.expect("it was taken apart")),
        Err(error) => {
            assert!(error.rejects_all(), "{link} {expression}: {error}");
            None
        }
    };
    let lowered = plain.and_then(|plain| lower(&plain));
    for length in 0..=packet.len() {
        let packet = &packet[..length];
        let verdict = program.run(packet, wire_len);
        let verdicts =
            [function.run(packet, wire_len), run(lowered.as_ref(), packet, wire_len, verdict)];
        assert_eq!(verdicts, [verdict; 2], "{link} {expression}\n{packet:02x?}\n{function}");
    }
}

/// The verdict of a program; `otherwise` if there is none.
fn run(program: Option<&Program>, packet: &[u8], wire_len: u32, otherwise: u32) -> u32 {
    program.map_or(otherwise, |program| program.run(packet, wire_len))
}

/// Generates an expression from bytes.
struct Maker<'a> {
    choices: &'a [u8],
    packet: &'a [u8],
}

impl Maker<'_> {
    /// A number below `count`; 0 once there are no bytes left.
    fn choice(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.choices.split_first() else { return 0 };
        self.choices = rest;
        usize::from(*first) % count
    }

    fn one_of(&mut self, all: &[&'static str]) -> &'static str {
        all[self.choice(all.len())]
    }

    /// Bytes of the packet, or arbitrary ones.
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let at = self.choice(64);
        let found = self.packet.get(at..at + N).and_then(|bytes| bytes.try_into().ok());
        found.unwrap_or([at as u8; N])
    }

    fn expression(&mut self, depth: usize) -> String {
        let parts = 1 + self.choice(6);
        let mut text = String::new();
        for part in 0..parts {
            if part > 0 {
                text += self.one_of(&[" or ", " or ", " and ", " || ", " && "]);
            }
            text += self.one_of(&["", "", "", "not ", "!"]);
            if depth < 4 && self.choice(4) == 3 {
                text += &format!("({})", self.expression(depth + 1));
            } else {
                text += &self.primitive();
            }
        }
        text
    }

    fn primitive(&mut self) -> String {
        match self.choice(9) {
            0 | 1 => self.address(),
            2 => self.port(),
            3 => self.one_of(&PRIMITIVES).to_owned(),
            4 => self.arithmetic(),
            5 => self.list(),
            6 => {
                let moving = self.one_of(&["vlan", "mpls", "pppoes", "vlan"]);
                let number = u16::from_be_bytes(self.bytes()) & 0xfff;
                if self.choice(2) == 0 { moving.to_owned() } else { format!("{moving} {number}") }
            }
            7 => {
                let name = self.one_of(&["ether", "ether src", "ether dst", "wlan addr1", "wlan"]);
                let mac: [u8; 6] = self.bytes();
                format!("{name} host {}", mac.map(|byte| format!("{byte:02x}")).join(":"))
            }
            _ => {
                let name = self.one_of(&[
                    "ip proto",
                    "ip6 proto",
                    "ether proto",
                    "proto",
                    "less",
                    "greater",
                    "len >",
                ]);
                let [number] = self.bytes();
                format!("{name} {number}")
            }
        }
    }

    fn address(&mut self) -> String {
        let qualifiers = self.qualifiers();
        let v6 = self.choice(4) == 3;
        let bits = self.choice(if v6 { 129 } else { 33 });
        let kind = self.one_of(&["host", "net"]);
        if v6 {
            let address = u128::from_be_bytes(self.bytes());
            let net =
                Ipv6Addr::from(address & u128::MAX.checked_shl(128 - bits as u32).unwrap_or(0));
            return match kind {
                "host" => format!("{qualifiers} host {}", Ipv6Addr::from(address)),
                _ => format!("{qualifiers} net {net}/{bits}"),
            };
        }
        let [a, b, c, d]: [u8; 4] = self.bytes();
        let net =
            u32::from_be_bytes([a, b, c, d]) & u32::MAX.checked_shl(32 - bits as u32).unwrap_or(0);
        match kind {
            "host" => format!("{qualifiers} host {a}.{b}.{c}.{d}"),
            _ => format!("{qualifiers} net {}/{bits}", std::net::Ipv4Addr::from(net)),
        }
    }

    fn qualifiers(&mut self) -> String {
        let protocol = self.one_of(&["", "", "", "ip", "ip6", "arp", "rarp"]);
        let direction = self.one_of(&["", "", "src", "dst", "src or dst", "src and dst"]);
        format!("{protocol} {direction}")
    }

    fn port(&mut self) -> String {
        let protocol = self.one_of(&["", "", "tcp", "udp", "sctp"]);
        let direction = self.one_of(&["", "", "src", "dst", "src or dst", "src and dst"]);
        let [port, more] = [u16::from_be_bytes(self.bytes()), u16::from_be_bytes(self.bytes())];
        match self.choice(3) {
            2 => format!("{protocol} {direction} portrange {port}-{more}"),
            _ => format!("{protocol} {direction} port {port}"),
        }
    }

    fn arithmetic(&mut self) -> String {
        let protocol = self.one_of(&["ether", "ip", "ip6", "tcp", "udp", "icmp", "arp", "link"]);
        let [at, number, mask]: [u8; 3] = [0; 3].map(|_: u8| self.bytes::<1>()[0]);
        let size = self.one_of(&["", ":2", ":4"]);
        let left = match self.choice(4) {
            0 => format!("{protocol}[{}{size}]", at % 40),
            1 => format!("{protocol}[{}{size}] & {mask}", at % 40),
            2 => format!("(ip[0] & 0xf) * {mask}"),
            _ => {
                format!("{protocol}[{protocol}[{}] & {mask}] / {protocol}[{}]", at % 16, mask % 20)
            }
        };
        format!("{left} {} {number}", self.one_of(&["=", "!=", ">", "<", ">=", "<="]))
    }

    /// Values that differ in one constant, some of them in the packet.
    fn list(&mut self) -> String {
        let kind =
            self.one_of(&["host", "src host", "ip dst host", "port", "tcp dst port", "ip proto"]);
        let count = 4 + self.choice(8);
        let values: Vec<String> = (0..count)
            .map(|_| match kind.rsplit(' ').next() {
                Some("host") => std::net::Ipv4Addr::from(self.bytes::<4>()).to_string(),
                Some("port") => u16::from_be_bytes(self.bytes()).to_string(),
                _ => self.bytes::<1>()[0].to_string(),
            })
            .collect();
        match self.choice(3) {
            0 => format!("({kind} {})", values.join(" or ")),
            1 => format!("({kind} {})", values.join(&format!(" or {kind} "))),
            _ => format!("(not {kind} {})", values.join(&format!(" and not {kind} "))),
        }
    }
}

const PRIMITIVES: [&str; 33] = [
    "ip",
    "ip6",
    "arp",
    "rarp",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "igmp",
    "ah",
    "esp",
    "pim",
    "vrrp",
    "ip multicast",
    "ip6 multicast",
    "ether broadcast",
    "ether multicast",
    "pppoed",
    "llc",
    "stp",
    "ipx",
    "isis",
    "atalk",
    "tcp[tcpflags] & tcp-syn != 0",
    "icmp[icmptype] = icmp-echo",
    "ip6 protochain 17",
    "geneve",
    "type mgt subtype beacon",
    "lane",
    "inbound",
    "len > 60",
    "ip proto \\tcp",
];

/// Words that libpcap does not take as names.
const KEYWORDS: &str = "and or not host net mask port portrange proto protochain src dst gateway \
    link ether ppp slip fddi tr wlan ip ip6 arp rarp tcp udp sctp icmp icmp6 igmp igrp pim vrrp \
    carp radio ah esp atalk aarp decnet lat sca moprc mopdl iso esis es-is isis is-is l1 l2 iih \
    lsp snp csnp psnp clnp stp ipx netbeui type subtype direction dir address1 addr1 address2 \
    addr2 address3 addr3 address4 addr4 ra ta less greater byte broadcast multicast len length \
    inbound outbound ifindex vlan mpls pppoed pppoes geneve lane llc metac bcc oam oamf4 oamf4ec \
    oamf4sc sc ilmic vpi vci connectmsg metaconnect fisu lssu lsu msu hfisu hlssu hmsu sio opc \
    dpc sls hsio hopc hdpc hsls icmptype icmpcode icmp-echo icmp-echoreply icmp6type icmp6code \
    tcpflags tcp-syn tcp-ack tcp-fin tcp-rst tcp-push tcp-urg";

/// Whether `text` has no name that libpcap would resolve through a server.
fn asks_no_server(text: &str) -> bool {
    let is_between = |c: char| !c.is_ascii_alphanumeric() && !".:-_".contains(c);
    !text.contains('\\')
        && text.split(is_between).all(|word| {
            let is_octet = |text: &str| {
                matches!(text.len(), 1..=2) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            let is_mac = word.split(':').count() == 6 && word.split(':').all(is_octet);
            is_mac || word.parse::<Ipv6Addr>().is_ok() || word.split(':').all(is_no_name)
        })
}

fn is_no_name(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    word.is_empty()
        || KEYWORDS.split_ascii_whitespace().any(|keyword| keyword == word)
        || word.strip_prefix("0x").is_some_and(|digits| !digits.is_empty() && is_hex(digits))
        || word.split('.').count() <= 4 && word.split('.').all(is_number)
}
