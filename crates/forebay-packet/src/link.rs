//! Link types (the LINKTYPE_ values of capture files) and interfaces.

use std::fmt;

use crate::clock::Clock;

/// A LINKTYPE_ value as capture files store it
/// (<https://www.tcpdump.org/linktypes.html>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback, protocol family in the capturing host's byte order.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// PPP, with or without the address and control bytes of HDLC.
    pub const PPP: Self = Self(9);
    /// PPP in HDLC-like framing, or Cisco's HDLC.
    pub const PPP_HDLC: Self = Self(50);
    /// PPPoE from its session header on.
    pub const PPP_ETHER: Self = Self(51);
    /// Raw IP; the version nibble decides which.
    pub const RAW: Self = Self(101);
    /// Cisco's HDLC.
    pub const C_HDLC: Self = Self(104);
    /// IEEE 802.11.
    pub const IEEE802_11: Self = Self(105);
    /// Frame relay.
    pub const FRELAY: Self = Self(107);
    /// OpenBSD loopback, protocol family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// IEEE 802.11 behind a radiotap header.
    pub const IEEE802_11_RADIO: Self = Self(127);
    /// IEEE 802.11 behind an AVS header.
    pub const IEEE802_11_AVS: Self = Self(163);
    /// Per-packet information, before a packet of another type.
    pub const PPI: Self = Self(192);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// A message of Linux's packet log.
    pub const NFLOG: Self = Self(239);
    /// Ethernet with the tag of a Marvell switch in it, of 4 bytes.
    pub const DSA_TAG_DSA: Self = Self(284);
    /// The same of 8 bytes.
    pub const DSA_TAG_EDSA: Self = Self(285);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// The names that are known, as libpcap spells them without `DLT_`.
    const NAMES: &[(Self, &str)] = &[
        (Self::NULL, "NULL"),
        (Self::ETHERNET, "EN10MB"),
        (Self::RAW, "RAW"),
        (Self::LOOP, "LOOP"),
        (Self::LINUX_SLL, "LINUX_SLL"),
        (Self::IPV4, "IPV4"),
        (Self::IPV6, "IPV6"),
        (Self::LINUX_SLL2, "LINUX_SLL2"),
        (Self(6), "IEEE802"),
        (Self::PPP, "PPP"),
        (Self::PPP_HDLC, "PPP_SERIAL"),
        (Self::PPP_ETHER, "PPP_ETHER"),
        (Self::C_HDLC, "C_HDLC"),
        (Self::IEEE802_11, "IEEE802_11"),
        (Self::FRELAY, "FRELAY"),
        (Self::IEEE802_11_RADIO, "IEEE802_11_RADIO"),
        (Self::IEEE802_11_AVS, "IEEE802_11_RADIO_AVS"),
        (Self::PPI, "PPI"),
        (Self::NFLOG, "NFLOG"),
        (Self::DSA_TAG_DSA, "DSA_TAG_DSA"),
        (Self::DSA_TAG_EDSA, "DSA_TAG_EDSA"),
    ];

    /// The name, or nothing for a type this program does not know by name.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(link, _)| *link == self).map(|(_, name)| *name)
    }

    /// The type of that name (any case) or decimal number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let named = Self::NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        match named {
            Some((link, _)) => Some(*link),
            None => text.parse().ok().map(Self),
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "LINKTYPE {}", self.0),
        }
    }
}

/// Where packets were captured: one per pcap file, several in a pcapng file,
/// one per live port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// How the packets begin.
    pub link: LinkType,
    /// The bits of a pcap file's link field above the link type:
    /// the length of the frame check sequence that packets end with, and bits
    /// that are reserved. As they were read; 0 elsewhere.
    pub link_flags: u32,
    /// The most bytes of a packet that were kept; 0 means no limit is known.
    pub snap_len: u32,
    /// How the time stamps count.
    pub clock: Clock,
    /// pcapng's `if_name`.
    pub name: Option<String>,
    /// pcapng's `if_description`.
    pub description: Option<String>,
}

impl Default for Interface {
    fn default() -> Self {
        Self {
            link: LinkType::ETHERNET,
            link_flags: 0,
            snap_len: 262_144,
            clock: Clock::MICROS,
            name: None,
            description: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for (link, name) in LinkType::NAMES {
            assert_eq!(LinkType::parse(name), Some(*link));
            assert_eq!(link.to_string(), *name);
        }
        assert_eq!(LinkType::parse("en10mb"), Some(LinkType::ETHERNET));
        assert_eq!(LinkType::parse("77"), Some(LinkType(77)));
        assert_eq!(LinkType::parse("ethernot"), None);
        assert_eq!(LinkType(77).to_string(), "LINKTYPE 77");
    }
}
