//! Numbers of IP protocols (IANA), and which headers they announce.

pub(super) const IPV6_HOP_BY_HOP: u8 = 0;
pub(crate) const ICMP: u8 = 1;
pub(super) const IP_IN_IP: u8 = 4;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const DCCP: u8 = 33;
pub(super) const IPV6_IN_IP: u8 = 41;
pub(super) const IPV6_ROUTING: u8 = 43;
pub(super) const IPV6_FRAGMENT: u8 = 44;
pub(super) const GRE: u8 = 47;
/// Authentication header (RFC 4302). What it covers is in the clear behind it, but an
/// observer may as well not look: all such packets go by their address pair.
pub(super) const AUTHENTICATION: u8 = 51;
pub(crate) const ICMPV6: u8 = 58;
pub(super) const IPV6_NO_NEXT_HEADER: u8 = 59;
pub(super) const IPV6_DESTINATION: u8 = 60;
/// IP payload compression (RFC 3173).
pub(super) const COMPRESSION: u8 = 108;
pub(crate) const SCTP: u8 = 132;
pub(super) const MOBILITY: u8 = 135;
const UDP_LITE: u8 = 136;
pub(super) const HOST_IDENTITY: u8 = 139;
pub(super) const SHIM6: u8 = 140;

/// Whether a protocol's header begins with a source and a destination port.
#[must_use]
pub fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// Whether another header follows an IPv6 header of that number.
#[must_use]
pub fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        IPV6_HOP_BY_HOP
            | IPV6_ROUTING
            | IPV6_FRAGMENT
            | AUTHENTICATION
            | IPV6_DESTINATION
            | MOBILITY
            | HOST_IDENTITY
            | SHIM6
    )
}

/// Whether a datagram of this protocol can hold another. An IPv6 fragment key
/// does not tell its protocol.
pub(super) fn may_hold_tunnel(protocol: u8, ipv6: bool) -> bool {
    ipv6 || matches!(protocol, UDP | GRE | IP_IN_IP | IPV6_IN_IP)
}
