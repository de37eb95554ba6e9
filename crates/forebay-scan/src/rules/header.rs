//! The header of a rule: action, protocol, addresses, ports, direction.

use std::net::IpAddr;

use super::addresses::{self, Addresses, Element, Ports, Variables};
use super::source::Fault;

/// Actions of Suricata and Snort.
const ACTIONS: [&str; 16] = [
    "alert",
    "block",
    "config",
    "drop",
    "dynamic",
    "activate",
    "file_id",
    "log",
    "pass",
    "react",
    "reject",
    "rejectboth",
    "rejectdst",
    "rejectsrc",
    "rewrite",
    "sdrop",
];

/// Extension headers of IPv6, with the authentication header, behind which sensors see others (RFC
/// 8200; RFC 6275, RFC 7401, RFC 5533 for the last three).
const IPV6_EXTENSIONS: [u8; 8] = [0, 43, 44, 51, 60, 135, 139, 140];

/// What carries the packets that a rule inspects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Every packet, also what is not IP.
    Any,
    /// TCP or UDP.
    TcpOrUdp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP and ICMPv6.
    Icmp,
    /// An IP protocol by its number.
    Number(u8),
}

/// Whether a protocol is an extension header of IPv6: what is behind it is not known, if that is all
/// that a packet has.
pub(super) fn is_extension(protocol: u8) -> bool {
    IPV6_EXTENSIONS.contains(&protocol)
}

impl Transport {
    /// Whether a packet of an IP protocol may meet it.
    #[must_use]
    pub fn admits(self, protocol: u8) -> bool {
        match self {
            _ if is_extension(protocol) => true,
            Self::Any => true,
            Self::TcpOrUdp => matches!(protocol, 6 | 17),
            Self::Tcp => protocol == 6,
            Self::Udp => protocol == 17,
            Self::Icmp => matches!(protocol, 1 | 58),
            Self::Number(number) => protocol == number,
        }
    }
}

/// Other application protocols of Suricata than those that have a buffer here.
const APPLICATIONS: [&str; 29] = [
    "bittorrent-dht",
    "dhcp",
    "dnp3",
    "enip",
    "ike",
    "ikev2",
    "irc",
    "jabber",
    "krb5",
    "ldap",
    "llmnr",
    "mdns",
    "modbus",
    "mqtt",
    "msn",
    "nfs",
    "ntp",
    "pgsql",
    "quic",
    "rdp",
    "rfb",
    "sdp",
    "sip",
    "snmp",
    "template",
    "tftp",
    "vnc",
    "websocket",
    "whois",
];

/// Application protocols that flows are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Application {
    /// HTTP/1 and HTTP/2.
    Http,
    /// TLS.
    Tls,
    /// SMB.
    Smb,
    /// DNS.
    Dns,
    /// SMTP.
    Smtp,
    /// FTP's control connections.
    Ftp,
    /// Another one.
    Other,
}

/// The protocol of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The name, as it is written.
    pub name: String,
    /// What carries it.
    pub transport: Transport,
    /// The application protocol, if it is one.
    pub application: Option<Application>,
}

impl Protocol {
    /// A protocol by its name. Of an unknown name it is not known what carries it.
    fn parse(name: &str) -> Self {
        use Application as App;
        use Transport::{Any, Icmp, Number, Tcp, TcpOrUdp, Udp};
        let lower = name.to_ascii_lowercase();
        let (transport, application) = match lower.as_str() {
            "ip" | "ip4" | "ip6" | "ipv4" | "ipv6" | "pkthdr" | "any" | "ether" | "arp" => {
                (Any, None)
            }
            "tcp" | "tcp-pkt" | "tcp-stream" => (Tcp, None),
            "udp" => (Udp, None),
            "icmp" | "icmpv4" | "icmpv6" => (Icmp, None),
            "igmp" => (Number(2), None),
            "sctp" => (Number(132), None),
            "http" | "http1" | "http2" => (Tcp, Some(App::Http)),
            "tls" | "ssl" => (Tcp, Some(App::Tls)),
            "smb" | "dcerpc" => (TcpOrUdp, Some(App::Smb)),
            "dns" | "doh2" => (TcpOrUdp, Some(App::Dns)),
            "smtp" => (Tcp, Some(App::Smtp)),
            "ftp" => (Tcp, Some(App::Ftp)),
            "ftp-data" | "ssh" | "imap" | "pop3" | "telnet" => (Tcp, Some(App::Other)),
            name if APPLICATIONS.contains(&name) => (TcpOrUdp, Some(App::Other)),
            _ => (Any, None),
        };
        Self { name: name.to_owned(), transport, application }
    }
}

/// The header of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The action.
    pub action: String,
    /// The protocol.
    pub protocol: Protocol,
    /// Source addresses.
    pub source: Addresses,
    /// Source ports.
    pub source_ports: Ports,
    /// Destination addresses.
    pub destination: Addresses,
    /// Destination ports.
    pub destination_ports: Ports,
    /// Whether the direction is `<>`, or `=>` of Suricata 8, which both inspect both ways.
    pub both_ways: bool,
}

/// An address and a port; port 0 for protocols without ports, and where it is not known: a later
/// fragment has none.
pub type Endpoint = (IpAddr, u16);

impl Header {
    /// Whether a packet may meet the header.
    #[must_use]
    pub fn admits(&self, protocol: u8, source: Endpoint, destination: Endpoint) -> bool {
        self.protocol.transport.admits(protocol)
            && (self.admits_ends(protocol, source, destination)
                || self.both_ways && self.admits_ends(protocol, destination, source))
    }

    /// Whether a packet of a flow, of either direction, may meet the header.
    #[must_use]
    pub fn admits_flow(&self, protocol: u8, a: Endpoint, b: Endpoint) -> bool {
        self.protocol.transport.admits(protocol)
            && (self.admits_ends(protocol, a, b) || self.admits_ends(protocol, b, a))
    }

    fn admits_ends(&self, protocol: u8, source: Endpoint, destination: Endpoint) -> bool {
        let has_ports = matches!(protocol, 6 | 17 | 132);
        let may_be = |ports: &Ports, port: u16| port == 0 || ports.may_contain(&port);
        self.source.may_contain(&source.0)
            && self.destination.may_contain(&destination.0)
            && (!has_ports
                || may_be(&self.source_ports, source.1)
                    && may_be(&self.destination_ports, destination.1))
    }
}

/// Splits a header at spaces outside of brackets: each part with its offset.
fn parts(header: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut open, mut start) = (0usize, None);
    for (index, c) in header.char_indices().chain([(header.len(), ' ')]) {
        match c {
            '[' => open += 1,
            ']' => open = open.saturating_sub(1),
            _ => {}
        }
        if c.is_ascii_whitespace() && (open == 0 || index == header.len()) {
            if let Some(start) = start.take() {
                parts.push((start, &header[start..index]));
            }
        } else if start.is_none() {
            start = Some(index);
        }
    }
    parts
}

/// Parses what stands before the options.
pub fn parse(header: &str, variables: &Variables) -> Result<Header, Fault> {
    let parts = parts(header);
    let end = (header.len(), "");
    let part = |index: usize| parts.get(index).copied().unwrap_or(end);
    let (at, action) = part(0);
    if !ACTIONS.contains(&action) {
        return Err(Fault::expected(at, "an action (alert, drop, pass …)", action.as_bytes()));
    }
    let (at, protocol) = part(1);
    let named = protocol.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if protocol.is_empty() || !named {
        return Err(Fault::expected(at, "a protocol", protocol.as_bytes()));
    }
    let protocol = Protocol::parse(protocol);
    let action = action.to_owned();
    // Snort 3 leaves addresses and ports out for services.
    if parts.len() == 2 {
        return Ok(Header {
            action,
            protocol,
            source: Element::Any,
            source_ports: Element::Any,
            destination: Element::Any,
            destination_ports: Element::Any,
            both_ways: true,
        });
    }
    let (at, arrow) = part(4);
    let both_ways = match arrow {
        "->" => false,
        "<>" | "=>" => true,
        _ => return Err(Fault::expected(at, "a direction (`->` or `<>`)", arrow.as_bytes())),
    };
    if let Some(&(at, extra)) = parts.get(7) {
        return Err(Fault::expected(at, "the options in parentheses", extra.as_bytes()));
    }
    let ports = |index| addresses::parse(part(index).1, part(index).0, variables);
    let hosts = |index| addresses::parse(part(index).1, part(index).0, variables);
    Ok(Header {
        action,
        protocol,
        source: hosts(2)?,
        source_ports: ports(3)?,
        destination: hosts(5)?,
        destination_ports: ports(6)?,
        both_ways,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<Header, Fault> {
        parse(text, &Variables::new())
    }

    #[test]
    fn direction_decides_which_end_is_the_source() {
        let one = header("alert tcp 10.0.0.1 any -> any [80, 8080] ").unwrap();
        let (a, b) = (("10.0.0.1".parse().unwrap(), 5), ("10.0.0.2".parse().unwrap(), 80));
        assert!(one.admits(6, a, b));
        assert!(!one.admits(6, b, a));
        assert!(!one.admits(17, a, b));
        assert!(one.admits_flow(6, b, a));
        let both = header("alert tcp 10.0.0.1 any <> any [80, 8080]").unwrap();
        assert!(both.admits(6, b, a));
        let any = header("alert http").unwrap();
        assert!(any.admits(6, b, a));
        assert_eq!(any.protocol.application, Some(Application::Http));
    }

    #[test]
    fn errors_name_their_place() {
        let error = header("allert tcp any any -> any any").unwrap_err();
        assert_eq!((error.at, error.message.contains("an action")), (0, true));
        assert_eq!(header("alert tcp any any any any").unwrap_err().at, 18);
        assert_eq!(header("alert tcp any any -> any 99999").unwrap_err().at, 25);
        assert_eq!(header("alert t(p any any -> any any").unwrap_err().at, 6);
        assert_eq!(header("alert tcp any any -> any any any").unwrap_err().at, 29);
        assert_eq!(header("alert tcp any any -> any").unwrap_err().at, 24);
    }
}
