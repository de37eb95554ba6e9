//! Transport headers: ports, and ICMP messages.

use super::bytes::Bytes;
use super::decoded::{Carried, DecodeOutcome};
use super::protocol::{
    AUTHENTICATION, COMPRESSION, GRE, ICMP, ICMPV6, IP_IN_IP, IPV6_IN_IP, TCP, UDP, has_ports,
};
use super::tunnel::{GENEVE_PORT, UDP_HEADER};
use super::undecoded::Undecoded;
use super::walk::{Datagram, Header, Next, Walk};
use crate::flow::{AddressKind, FlowKey};

/// The ports that a header begins with, if they were captured.
pub(super) fn ports(bytes: Bytes<'_>, at: usize) -> Option<(u16, u16)> {
    Some((bytes.u16(at)?, bytes.u16(at + 2)?))
}

/// The control bits of a TCP header, if they were captured.
pub(super) fn control_bits(bytes: Bytes<'_>, at: usize) -> Option<u8> {
    bytes.u8(at + 13)
}

/// Type and code of an ICMP message, if they were captured.
pub(super) fn icmp(bytes: Bytes<'_>, at: usize) -> Option<(u8, u8)> {
    Some((bytes.u8(at)?, bytes.u8(at + 1)?))
}

impl Walk<'_> {
    pub(super) fn transport(&mut self, datagram: Datagram, at: usize) -> Next {
        self.note_content(at);
        match datagram.protocol {
            UDP => {
                let (source, destination) = self.ports(datagram, at)?;
                // Sensors take what comes from there for GENEVE too.
                if source == GENEVE_PORT {
                    self.note_tunnel();
                }
                self.udp_tunnel(destination, at + UDP_HEADER)
            }
            protocol if has_ports(protocol) => self.ports(datagram, at).and(None),
            ICMP if datagram.kind == AddressKind::Ipv4 => self.icmp(datagram, at),
            ICMPV6 if datagram.kind == AddressKind::Ipv6 => self.icmp(datagram, at),
            GRE => {
                self.addresses(datagram, DecodeOutcome::Ip);
                self.note_tunnel();
                self.gre(at)
            }
            IP_IN_IP | IPV6_IN_IP => {
                self.addresses(datagram, DecodeOutcome::Ip);
                self.note_tunnel();
                self.ip_in_ip(datagram.protocol, at)
            }
            AUTHENTICATION | COMPRESSION => {
                self.addresses(datagram, DecodeOutcome::Ip);
                if !self.quoted {
                    self.found.undecoded = Some(Undecoded::Protocol(datagram.protocol));
                }
                None
            }
            _ => {
                self.addresses(datagram, DecodeOutcome::Ip);
                None
            }
        }
    }

    /// Notes the five-tuple; the ports, unless they are cut off.
    fn ports(&mut self, datagram: Datagram, at: usize) -> Option<(u16, u16)> {
        let Some((from, to)) = ports(self.bytes, at) else {
            self.cut(datagram);
            return None;
        };
        let Datagram { kind, protocol, source, destination } = datagram;
        let (key, reversed) = FlowKey::two_way(kind, protocol, (source, from), (destination, to));
        let key = FlowKey { has_ports: true, ..key };
        self.found(key, reversed, key, DecodeOutcome::Ip);
        if !self.quoted {
            self.found.tcp_flags = control_bits(self.bytes, at).filter(|_| protocol == TCP);
            if let Some(start) = self.payload_start(protocol, at) {
                let numbers = || Some((self.bytes.u32(at + 4)?, self.bytes.u32(at + 8)?));
                self.carried = Some(Carried {
                    payload: self.bytes.from(start),
                    tcp_numbers: numbers().filter(|_| protocol == TCP),
                    is_in_tunnel: self.is_in_tunnel(),
                });
                self.note_content(start);
            }
        }
        Some((from, to))
    }

    /// The end of the TCP or UDP header at that place.
    fn payload_start(&self, protocol: u8, at: usize) -> Option<usize> {
        let header = match protocol {
            TCP => usize::from(self.bytes.u8(at + 12)? >> 4) * 4,
            UDP => UDP_HEADER,
            _ => return None,
        };
        (header >= UDP_HEADER).then_some(at + header)
    }

    fn icmp(&mut self, datagram: Datagram, at: usize) -> Next {
        let Some((kind, code)) = icmp(self.bytes, at) else {
            self.cut(datagram);
            return None;
        };
        let v6 = datagram.protocol == ICMPV6;
        let source = (datagram.source, u16::from(kind));
        let (key, reversed) = match counterpart(v6, kind) {
            Some(answer) => {
                let destination = (datagram.destination, u16::from(answer));
                FlowKey::two_way(datagram.kind, datagram.protocol, source, destination)
            }
            None => {
                let destination = (datagram.destination, u16::from(code));
                let protocol = datagram.protocol;
                (FlowKey::one_way(datagram.kind, protocol, source, destination), false)
            }
        };
        let key = FlowKey { has_ports: true, ..key };
        self.found(key, reversed, key.without_ports(), DecodeOutcome::Ip);
        if self.quoted || !is_error(v6, kind) {
            return None;
        }
        self.quoted = true;
        Some((Header::Ip, at + 8))
    }
}

/// Whether a message quotes the packet it is about: destination unreachable, source
/// quench, redirect, time exceeded, parameter problem (RFC 792); every ICMPv6 type below
/// 128, known or not (RFC 4443 section 2.1). ICMPv6's redirect (RFC 4861) quotes in an
/// option, which is not looked for.
fn is_error(v6: bool, kind: u8) -> bool {
    if v6 { kind < 128 } else { matches!(kind, 3 | 4 | 5 | 11 | 12) }
}

/// The type that answers a type or is answered by it, as Community ID version 1
/// pairs them.
fn counterpart(v6: bool, kind: u8) -> Option<u8> {
    const V4: &[(u8, u8)] = &[(8, 0), (13, 14), (15, 16), (10, 9), (17, 18)];
    const V6: &[(u8, u8)] =
        &[(128, 129), (133, 134), (135, 136), (130, 131), (139, 140), (144, 145)];
    let pairs = if v6 { V6 } else { V4 };
    pairs.iter().find_map(|&(asks, answers)| match kind {
        _ if kind == asks => Some(answers),
        _ if kind == answers => Some(asks),
        _ => None,
    })
}
