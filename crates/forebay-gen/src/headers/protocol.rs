//! IP protocol numbers (IANA "Assigned Internet Protocol Numbers").

/// ICMP for IPv4.
pub const ICMP: u8 = 1;
/// IPv4 in IP.
pub const IPV4: u8 = 4;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// IPv6 in IP.
pub const IPV6: u8 = 41;
/// IPv6 fragment header.
pub const FRAGMENT: u8 = 44;
/// Generic routing encapsulation.
pub const GRE: u8 = 47;
/// ICMP for IPv6.
pub const ICMPV6: u8 = 58;
