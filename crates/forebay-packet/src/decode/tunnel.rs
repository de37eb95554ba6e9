//! Tunnels: GRE (RFC 2784, 2890, 2637), ERSPAN (draft-foschiano-erspan), IP in IP (RFC
//! 2003), IPv6 in IPv4 (RFC 4213), VXLAN (RFC 7348), GENEVE (RFC 8926), GTP-U (3GPP
//! TS 29.281). A header that does not look like the tunnel its port promises leaves the
//! packet to its outer flow.

use super::ether_type::{IPV4, IPV6, MPLS, MPLS_MULTICAST, PPP, TRANSPARENT_ETHERNET};
use super::protocol::IP_IN_IP;
use super::walk::{Header, Next, Walk};

const VXLAN_PORT: u16 = 4789;
/// The port that Linux uses for VXLAN by default.
const VXLAN_LINUX_PORT: u16 = 8472;
pub(super) const GENEVE_PORT: u16 = 6081;
const GTP_U_PORT: u16 = 2152;

/// Kinds of identifiers; link.rs has those below 16.
const GRE_KEY: u8 = 16;
const ERSPAN_SESSION: u8 = 17;
const VXLAN_NETWORK: u8 = 18;
const GENEVE_NETWORK: u8 = 19;
const GTP_TUNNEL: u8 = 20;
const PLAIN: u8 = 21;

/// Length of a UDP header.
pub(super) const UDP_HEADER: usize = 8;

/// The most GTP-U extension headers that are followed.
const MAX_GTP_EXTENSIONS: usize = 16;

/// Ports to which a UDP datagram may hold a tunnel.
pub(super) const TUNNEL_PORTS: [u16; 4] = [VXLAN_PORT, VXLAN_LINUX_PORT, GENEVE_PORT, GTP_U_PORT];

/// Whether a UDP datagram to that port may hold a tunnel.
#[inline]
pub(super) fn is_tunnel_port(port: u16) -> bool {
    TUNNEL_PORTS.contains(&port)
}

impl Walk<'_> {
    pub(super) fn ip_in_ip(&mut self, protocol: u8, at: usize) -> Next {
        let version = if protocol == IP_IN_IP { 4 } else { 6 };
        (self.bytes.u8(at)? >> 4 == version && self.enter_tunnel(PLAIN, 0))
            .then_some((Header::Ip, at))
    }

    pub(super) fn gre(&mut self, at: usize) -> Next {
        let flags = self.bytes.u16(at)?;
        let protocol = self.bytes.u16(at + 2)?;
        let (checksum, routing) = (flags & 0x8000 != 0, flags & 0x4000 != 0);
        let (keyed, sequenced) = (flags & 0x2000 != 0, flags & 0x1000 != 0);
        let version = flags & 7;
        // Source routing was never put to use, and moves the headers behind it. Version 1 is
        // PPTP's: PPP with a key and a sequence number, or an acknowledgement without payload.
        let pptp = protocol == PPP && keyed && sequenced;
        if routing || version > 1 || (version == 1 && !pptp) {
            return None;
        }
        let mut after = at + 4 + 4 * usize::from(checksum);
        let mut key = 0;
        if keyed {
            // PPTP keeps the payload's length in the upper half.
            key = self.bytes.u32(after)? & if version == 1 { 0xffff } else { u32::MAX };
            after += 4;
        }
        after += 4 * usize::from(sequenced);
        if version == 1 {
            after += 4 * usize::from(flags & 0x80 != 0);
        }
        match protocol {
            0x88be if sequenced => self.erspan_2(after),
            // Type I has no header of its own.
            0x88be => self.enter_tunnel(GRE_KEY, key).then_some((Header::Ethernet(0), after)),
            0x22eb => self.erspan_3(after),
            _ => self.enter_tunnel(GRE_KEY, key).then_some((Header::EtherType(protocol), after)),
        }
    }

    fn erspan_2(&mut self, at: usize) -> Next {
        // The header's version 1 is type II.
        if self.bytes.u8(at)? >> 4 != 1 {
            return None;
        }
        let session = self.bytes.u16(at + 2)? & 0x3ff;
        self.enter_tunnel(ERSPAN_SESSION, u32::from(session))
            .then_some((Header::Ethernet(0), at + 8))
    }

    fn erspan_3(&mut self, at: usize) -> Next {
        // The header's version 2 is type III.
        if self.bytes.u8(at)? >> 4 != 2 {
            return None;
        }
        let session = self.bytes.u16(at + 2)? & 0x3ff;
        let flags = self.bytes.u16(at + 10)?;
        let payload = at + 12 + 8 * usize::from(flags & 1);
        let header = match flags >> 10 & 0x1f {
            0 => Header::Ethernet(0),
            2 => Header::Ip,
            _ => return None,
        };
        self.enter_tunnel(ERSPAN_SESSION, u32::from(session)).then_some((header, payload))
    }

    /// What a UDP datagram to that port may hold, its payload starting at `at`.
    pub(super) fn udp_tunnel(&mut self, port: u16, at: usize) -> Next {
        let tunnel = match port {
            VXLAN_PORT | VXLAN_LINUX_PORT => Self::vxlan,
            GENEVE_PORT => Self::geneve,
            GTP_U_PORT => Self::gtp_u,
            _ => return None,
        };
        self.note_tunnel();
        match usize::from(self.bytes.u16(at - 4)?) {
            // A jumbogram (RFC 2675), or left in for the network card.
            0 => {}
            1..UDP_HEADER => return None,
            len => self.bytes = self.bytes.until(at - UDP_HEADER + len),
        }
        tunnel(self, at)
    }

    fn vxlan(&mut self, at: usize) -> Next {
        let valid = self.bytes.u8(at)? & 0x08 != 0;
        let network = self.bytes.u32(at + 4)? >> 8;
        // The inner frame must at least have its addresses and EtherType.
        let frame = self.bytes.len() >= at + 8 + 14;
        (valid && frame && self.enter_tunnel(VXLAN_NETWORK, network))
            .then_some((Header::Ethernet(0), at + 8))
    }

    fn geneve(&mut self, at: usize) -> Next {
        let first = self.bytes.u8(at)?;
        // A control message, which others than its endpoints must not interpret.
        let control = self.bytes.u8(at + 1)? & 0x80 != 0;
        let protocol = self.bytes.u16(at + 2)?;
        let network = self.bytes.u32(at + 4)? >> 8;
        let payload = at + 8 + usize::from(first & 0x3f) * 4;
        let known =
            matches!(protocol, IPV4 | IPV6 | TRANSPARENT_ETHERNET | PPP | MPLS | MPLS_MULTICAST);
        (first >> 6 == 0 && !control && known && self.enter_tunnel(GENEVE_NETWORK, network))
            .then_some((Header::EtherType(protocol), payload))
    }

    fn gtp_u(&mut self, at: usize) -> Next {
        const G_PDU: u8 = 255;
        let flags = self.bytes.u8(at)?;
        let message = self.bytes.u8(at + 1)?;
        let tunnel = self.bytes.u32(at + 4)?;
        // Version 1 of GTP, not GTP'.
        if flags & 0xf0 != 0x30 || message != G_PDU {
            return None;
        }
        let mut payload = at + 8;
        if flags & 0x07 != 0 {
            let mut next = if flags & 0x04 != 0 { self.bytes.u8(at + 11)? } else { 0 };
            payload += 4;
            for _ in 0..MAX_GTP_EXTENSIONS {
                if next == 0 {
                    break;
                }
                let len = usize::from(self.bytes.u8(payload)?) * 4;
                if len == 0 {
                    return None;
                }
                payload += len;
                next = self.bytes.u8(payload - 1)?;
            }
        }
        let ip = matches!(self.bytes.u8(payload)? >> 4, 4 | 6);
        (ip && self.enter_tunnel(GTP_TUNNEL, tunnel)).then_some((Header::Ip, payload))
    }
}
