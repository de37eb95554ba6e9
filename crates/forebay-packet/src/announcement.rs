//! Data flows that control connections announce: FTP (RFC 959, RFC 2428) and SIP with
//! session descriptions (RFC 3261, RFC 8866).
//!
//! A control connection announces at which address and port its sender takes a further connection
//! or stream. This reads that out of one packet's payload; a message that is spread over
//! several packets is not put together. Payloads are hostile: at most [`BYTES`] of each are
//! read, once, and at most [`MOST`] announcements come of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::decode::{TCP, UDP};

/// Bytes of a payload that are read.
pub const BYTES: usize = 4096;

/// The most announcements of a payload.
pub const MOST: usize = 32;

/// A protocol whose control connections announce data flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlProtocol {
    /// The file transfer protocol: commands of the client, replies of the server.
    Ftp,
    /// The session initiation protocol, with the descriptions that it carries.
    Sip,
}

impl ControlProtocol {
    /// Whether its control connections use a transport protocol.
    #[must_use]
    pub fn is_over(self, transport: u8) -> bool {
        transport == TCP || self == Self::Sip && transport == UDP
    }
}

/// Where a data flow is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The address; none where it is that of the sender.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: u16,
    /// The data flow's IP protocol: TCP or UDP.
    pub transport: u8,
}

/// What the payload of a packet announces, in its order.
#[must_use]
pub fn announcements(protocol: ControlProtocol, payload: &[u8]) -> Vec<Announcement> {
    let payload = &payload[..payload.len().min(BYTES)];
    let lines = payload.split(|byte| *byte == b'\n').map(|line| line.trim_ascii());
    let mut found = match protocol {
        ControlProtocol::Ftp => lines.filter_map(ftp).take(MOST).collect(),
        ControlProtocol::Sip => session(lines),
    };
    found.retain(|one| one.port != 0);
    found
}

/// What a line of an FTP control connection announces.
fn ftp(line: &[u8]) -> Option<Announcement> {
    let (word, rest) = line.split_at_checked(4)?;
    let at = |(address, port)| Announcement { address, port, transport: TCP };
    match &word.to_ascii_uppercase()[..] {
        b"PORT" => numbers(rest.trim_ascii_start()).map(at),
        b"EPRT" => extended(rest.trim_ascii_start()).map(at),
        // The text of the reply is free (RFC 1123 section 4.1.2.6): the first digit counts.
        b"227 " => numbers(&rest[rest.iter().position(u8::is_ascii_digit)?..]).map(at),
        b"229 " => extended(&rest[rest.iter().position(|byte| *byte == b'(')? + 1..]).map(at),
        _ => None,
    }
}

/// An address and a port as `h1,h2,h3,h4,p1,p2`.
fn numbers(text: &[u8]) -> Option<(Option<IpAddr>, u16)> {
    let mut bytes = [0_u8; 6];
    let mut parts = text.splitn(6, |byte| *byte == b',');
    for (i, byte) in bytes.iter_mut().enumerate() {
        let part = parts.next()?;
        // Behind the last there may be a parenthesis, a full stop or more.
        let digits = if i == 5 { digits_of(part) } else { part };
        *byte = number(digits)?;
    }
    let [a, b, c, d, high, low] = bytes;
    Some((Some(Ipv4Addr::new(a, b, c, d).into()), u16::from_be_bytes([high, low])))
}

/// An address and a port as `|1|132.235.1.2|6275|`, with any delimiter; without protocol and
/// address, they are the sender's.
fn extended(text: &[u8]) -> Option<(Option<IpAddr>, u16)> {
    let (&delimiter, rest) = text.split_first()?;
    let mut parts = rest.splitn(4, |byte| *byte == delimiter);
    let (family, address, port) = (parts.next()?, parts.next()?, parts.next()?);
    // The delimiter also ends the port.
    parts.next()?;
    let address = match family {
        b"" if address.is_empty() => None,
        b"1" => Some(text_of(address)?.parse::<Ipv4Addr>().ok()?.into()),
        b"2" => Some(text_of(address)?.parse::<Ipv6Addr>().ok()?.into()),
        _ => return None,
    };
    Some((address, number(port)?))
}

/// A medium that a session description has begun to describe.
struct Medium {
    port: u16,
    pairs: u16,
    transport: u8,
    is_rtp: bool,
    address: Option<IpAddr>,
    /// Where the control stream goes, if not to the next port.
    control: Option<u16>,
}

/// What the lines of a session description announce.
fn session<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<Announcement> {
    let mut found = Vec::new();
    let mut of_session = None;
    let mut medium: Option<Medium> = None;
    for line in lines {
        match line.split_at_checked(2) {
            Some((b"m=", rest)) => {
                if let Some(done) = medium.take() {
                    done.announce(&mut found);
                }
                medium = Medium::of_line(rest, of_session);
            }
            Some((b"c=", rest)) => match &mut medium {
                Some(medium) => medium.address = connection(rest),
                None => of_session = connection(rest),
            },
            Some((b"a=", rest)) => {
                if let (Some(medium), Some(port)) = (&mut medium, rest.strip_prefix(b"rtcp:")) {
                    medium.control = number(digits_of(port));
                }
            }
            _ => {}
        }
    }
    if let Some(done) = medium {
        done.announce(&mut found);
    }
    found
}

impl Medium {
    /// `audio 49170/2 RTP/AVP 0`, with the address that holds for the session.
    fn of_line(line: &[u8], address: Option<IpAddr>) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let (ports, protocol) = (words.nth(1)?, words.next()?);
        let mut ports = ports.splitn(2, |byte| *byte == b'/');
        let port = number(ports.next()?)?;
        let pairs = ports.next().map_or(Some(1), number)?;
        let protocol = protocol.to_ascii_uppercase();
        // "TCP/TLS/RTP/SAVP" is RTP, too, but in one connection.
        let transport = if protocol.starts_with(b"TCP") { TCP } else { UDP };
        let is_rtp = transport == UDP && protocol.windows(4).any(|bytes| bytes == b"RTP/");
        Some(Self { port, pairs, transport, is_rtp, address, control: None })
    }

    fn announce(self, found: &mut Vec<Announcement>) {
        // Without an address the description is none.
        let Some(address) = self.address else { return };
        if self.port == 0 {
            return;
        }
        let step = if self.is_rtp { 2 } else { 1 };
        let mut add = |port: Option<u16>| {
            if let Some(port) = port
                && found.len() < MOST
            {
                let (address, transport) = (Some(address), self.transport);
                found.push(Announcement { address, port, transport });
            }
        };
        for pair in 0..self.pairs.min(MOST as u16) {
            let port = self.port.checked_add(pair * step);
            add(port);
            if self.is_rtp {
                let next = port.and_then(|port| port.checked_add(1));
                add(if pair == 0 { self.control.or(next) } else { next });
            }
        }
    }
}

/// `IN IP4 224.2.1.1/127`.
fn connection(line: &[u8]) -> Option<IpAddr> {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (network, family, address) = (words.next()?, words.next()?, words.next()?);
    let address = text_of(address.split(|byte| *byte == b'/').next()?)?;
    match (network, family) {
        (b"IN", b"IP4") => address.parse::<Ipv4Addr>().ok().map(IpAddr::from),
        (b"IN", b"IP6") => address.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        _ => None,
    }
}

/// The digits that a text begins with.
fn digits_of(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    &text[..end]
}

/// A number of digits only.
fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text_of(digits)?.parse().ok()
}

fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(protocol: ControlProtocol, text: &str) -> Vec<String> {
        let text_of = |one: Announcement| {
            let address = one.address.map_or("sender".to_owned(), |address| address.to_string());
            format!("{} {address} {}", one.transport, one.port)
        };
        announcements(protocol, text.as_bytes()).into_iter().map(text_of).collect()
    }

    #[test]
    fn commands_and_replies_of_ftp_announce_connections() {
        for (line, expected) in [
            ("PORT 132,235,1,2,24,131\r\n", "6 132.235.1.2 6275"),
            ("port 10,0,0,1,0,80", "6 10.0.0.1 80"),
            ("EPRT |1|132.235.1.2|6275|\r\n", "6 132.235.1.2 6275"),
            ("EPRT |2|1080::8:800:200C:417A|5282|\r\n", "6 1080::8:800:200c:417a 5282"),
            ("EPRT !1!10.0.0.1!6275!", "6 10.0.0.1 6275"),
            ("227 Entering Passive Mode (10,0,0,2,4,1).\r\n", "6 10.0.0.2 1025"),
            ("227 Entering Passive Mode 10,0,0,2,4,1", "6 10.0.0.2 1025"),
            ("229 Entering Extended Passive Mode (|||6446|)\r\n", "6 sender 6446"),
        ] {
            assert_eq!(of(ControlProtocol::Ftp, line), [expected], "{line}");
        }
        let two = "PORT 1,2,3,4,5,6\r\nNOOP\r\nPORT 1,2,3,4,5,7\r\n";
        assert_eq!(of(ControlProtocol::Ftp, two).len(), 2);
        for line in [
            "",
            "PORT",
            "PORT 1,2,3,4,5",
            "PORT 1,2,3,4,0,0",
            "PORT 256,2,3,4,5,6",
            "PORT 1,2,3,4,+5,6",
            "EPRT |3|10.0.0.1|1|",
            "EPRT |1|fe80::1|1|",
            "EPRT |1|10.0.0.1|70000|",
            "229 (|||6446",
            "227-1,2,3,4,5,6",
            "226 1,2,3,4,5,6",
        ] {
            assert!(of(ControlProtocol::Ftp, line).is_empty(), "{line}");
        }
    }

    #[test]
    fn session_descriptions_announce_streams() {
        let invite = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP a\r\nc: application/sdp\r\n\r\n\
                      v=0\r\no=a 1 1 IN IP4 10.0.0.9\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\n\
                      m=audio 49170 RTP/AVP 0 8\r\na=rtpmap:0 PCMU/8000\r\n\
                      m=video 51372/2 RTP/SAVPF 99\r\nc=IN IP6 2001:db8::1\r\n\
                      m=audio 0 RTP/AVP 0\r\n\
                      m=audio 6000 RTP/AVP 0\r\na=rtcp:53020 IN IP4 10.0.0.1\r\n\
                      m=message 2855 TCP/MSRP *\r\nm=image 4000 udptl t38\r\n";
        let expected = [
            "17 10.0.0.1 49170",
            "17 10.0.0.1 49171",
            "17 2001:db8::1 51372",
            "17 2001:db8::1 51373",
            "17 2001:db8::1 51374",
            "17 2001:db8::1 51375",
            "17 10.0.0.1 6000",
            "17 10.0.0.1 53020",
            "6 10.0.0.1 2855",
            "17 10.0.0.1 4000",
        ];
        assert_eq!(of(ControlProtocol::Sip, invite), expected);
        for text in [
            "m=audio 5000 RTP/AVP 0",
            "c=IN IP4 host.example\r\nm=audio 5000 RTP/AVP 0",
            "c=IN IP4 10.0.0.1\r\nm=audio",
            "c=IN IP4 10.0.0.1\r\nm=audio 5000",
            "c=IN IP4 10.0.0.1\r\nm=audio -1 RTP/AVP 0",
        ] {
            assert!(of(ControlProtocol::Sip, text).is_empty(), "{text}");
        }
        let edge = "c=IN IP4 224.2.1.1/127\r\nm=audio 65535/9 RTP/AVP 0";
        assert_eq!(of(ControlProtocol::Sip, edge), ["17 224.2.1.1 65535"]);
    }

    #[test]
    fn what_a_payload_announces_is_bounded() {
        let many = "PORT 1,2,3,4,5,6\n".repeat(1_000);
        assert_eq!(of(ControlProtocol::Ftp, &many).len(), MOST);
        let ports = "c=IN IP4 10.0.0.1\nm=audio 5000/60000 RTP/AVP 0\n";
        assert_eq!(of(ControlProtocol::Sip, ports).len(), MOST);
        let late = " ".repeat(BYTES) + "\nPORT 1,2,3,4,5,6\n";
        assert!(of(ControlProtocol::Ftp, &late).is_empty());
    }
}
