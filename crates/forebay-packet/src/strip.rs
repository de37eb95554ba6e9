//! Headers that are taken off a packet on its way out, for sensors that do not know them:
//! VLAN tags (IEEE 802.1Q), MPLS labels (RFC 3032), VXLAN (RFC 7348), GRE (RFC 2784 and
//! 2890) and ERSPAN (draft-foschiano-erspan).
//!
//! The frame is walked from the outside. A tunnel that holds a frame ends with everything
//! around it; one that holds an IP packet leaves the Ethernet header of the outer one, with
//! the EtherType of the inner. Whatever is not asked for, is cut off or makes no sense ends
//! the walk, and so does a fragment, which has a part of a frame only: what was taken off
//! up to there is off.

use std::ops::Range;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const ERSPAN_1_2: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;

const UDP: u8 = 17;
const GRE: u8 = 47;

/// The port of VXLAN, and that which Linux takes unless told otherwise.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];

/// EtherTypes from here up are types; below they are lengths.
const FIRST_ETHER_TYPE: u16 = 0x0600;

/// Bytes of a frame's two addresses, and of its header.
const ADDRESSES: usize = 12;
const HEADER: usize = 14;

/// The most headers that are looked at.
const MAX_HEADERS: usize = 32;

/// Which headers are taken off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strip {
    /// All VLAN tags.
    pub vlan: bool,
    /// MPLS label stacks before an IP packet, or before a pseudowire's control word (RFC
    /// 4385) and a frame.
    pub mpls: bool,
    /// VXLAN, with the packet that carries it.
    pub vxlan: bool,
    /// GRE, with the IP header that carries it.
    pub gre: bool,
    /// ERSPAN of all types, with the packet that carries it.
    pub erspan: bool,
}

/// What is left of a frame: a piece of it, an EtherType, and the rest from a place on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stripped {
    /// The addresses, and tags that stay.
    pub(crate) head: Range<usize>,
    pub(crate) ether_type: [u8; 2],
    pub(crate) payload: Range<usize>,
}

impl Stripped {
    pub(crate) fn len(&self) -> usize {
        self.head.len() + 2 + self.payload.len()
    }
}

/// A walk over the headers of a frame.
struct Walk<'a> {
    strip: Strip,
    /// Up to where the packets around this one say that it goes.
    frame: &'a [u8],
    head: Range<usize>,
    ether_type: u16,
    at: usize,
    is_changed: bool,
}

impl Strip {
    /// Nothing is taken off.
    pub const NONE: Self =
        Self { vlan: false, mpls: false, vxlan: false, gre: false, erspan: false };

    /// Whether nothing is taken off.
    #[inline]
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// What is left of `frame`, if anything is taken off.
    pub(crate) fn of(self, frame: &[u8]) -> Option<Stripped> {
        let mut walk = Walk::of_frame(self, frame)?;
        for _ in 0..MAX_HEADERS {
            if walk.step().is_none() {
                break;
            }
        }
        // A frame around what is left may have been cut shorter than its headers.
        let end = walk.frame.len();
        walk.is_changed.then(|| Stripped {
            head: walk.head,
            ether_type: walk.ether_type.to_be_bytes(),
            payload: walk.at.min(end)..end,
        })
    }
}

impl<'a> Walk<'a> {
    fn of_frame(strip: Strip, frame: &'a [u8]) -> Option<Self> {
        let ether_type = u16_at(frame, ADDRESSES)?;
        Some(Self { strip, frame, head: 0..ADDRESSES, ether_type, at: HEADER, is_changed: false })
    }

    /// Takes the next header off, or steps over it; `None` when the walk is over.
    fn step(&mut self) -> Option<()> {
        match self.ether_type {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => self.tag(),
            MPLS | MPLS_MULTICAST if self.strip.mpls => self.labels(),
            IPV4 => self.ipv4(),
            IPV6 => self.ipv6(),
            _ => None,
        }
    }

    fn tag(&mut self) -> Option<()> {
        let inner = u16_at(self.frame, self.at + 2)?;
        self.at += 4;
        if self.strip.vlan {
            self.is_changed = true;
        } else if self.head.end + 6 == self.at {
            // Nothing between the head and this tag has been taken off.
            self.head.end += 4;
        } else {
            return None;
        }
        self.ether_type = inner;
        (inner >= FIRST_ETHER_TYPE).then_some(())
    }

    fn labels(&mut self) -> Option<()> {
        let mut at = self.at;
        for _ in 0..MAX_HEADERS {
            let is_last = self.frame.get(at + 2)? & 1 == 1;
            at += 4;
            if !is_last {
                continue;
            }
            return match self.frame.get(at)? >> 4 {
                4 => self.enter_packet(IPV4, at),
                6 => self.enter_packet(IPV6, at),
                0 => self.enter_frame(at + 4),
                _ => None,
            };
        }
        None
    }

    fn ipv4(&mut self) -> Option<()> {
        let at = self.at;
        let header = usize::from(self.frame.get(at)? & 0x0f) * 4;
        let total = usize::from(u16_at(self.frame, at + 2)?);
        let is_fragment = u16_at(self.frame, at + 6)? & 0x3fff != 0;
        let protocol = *self.frame.get(at + 9)?;
        if header < 20 || is_fragment {
            return None;
        }
        // Zero is left in by hosts that let the network card cut the segment.
        let end = if total == 0 { self.frame.len() } else { at + total.max(header) };
        self.transport(protocol, at + header, end)
    }

    fn ipv6(&mut self) -> Option<()> {
        let at = self.at;
        let payload = usize::from(u16_at(self.frame, at + 4)?);
        let protocol = *self.frame.get(at + 6)?;
        let end = if payload == 0 { self.frame.len() } else { at + 40 + payload };
        self.transport(protocol, at + 40, end)
    }

    /// What an IP packet holds, that goes from `at` to `end`.
    fn transport(&mut self, protocol: u8, at: usize, end: usize) -> Option<()> {
        let end = end.min(self.frame.len());
        match protocol {
            UDP if self.strip.vxlan => self.vxlan(at, end),
            GRE if self.strip.gre || self.strip.erspan => self.gre(at, end),
            _ => None,
        }
    }

    fn vxlan(&mut self, at: usize, end: usize) -> Option<()> {
        let port = u16_at(self.frame, at + 2)?;
        let is_valid = self.frame.get(at + 8)? & 0x08 != 0;
        if !VXLAN_PORTS.contains(&port) || !is_valid {
            return None;
        }
        let end = match usize::from(u16_at(self.frame, at + 4)?) {
            0 => end,
            len => end.min(at + len),
        };
        self.enter_frame_until(at + 16, end)
    }

    fn gre(&mut self, at: usize, end: usize) -> Option<()> {
        let flags = u16_at(self.frame, at)?;
        let protocol = u16_at(self.frame, at + 2)?;
        let has = |bit: u16| 4 * usize::from(flags & bit != 0);
        // Source routing was never put to use; version 1 is PPTP's.
        if flags & 0x4007 != 0 {
            return None;
        }
        let is_sequenced = has(0x1000) > 0;
        let after = at + 4 + has(0x8000) + has(0x2000) + has(0x1000);
        match protocol {
            ERSPAN_1_2 | ERSPAN_3 => {
                let header = match (protocol, is_sequenced) {
                    // Type I has no header of its own.
                    (ERSPAN_1_2, false) => 0,
                    (ERSPAN_1_2, true) => self.erspan_2(after)?,
                    _ => self.erspan_3(after)?,
                };
                if self.strip.erspan { self.enter_frame_until(after + header, end) } else { None }
            }
            _ if !self.strip.gre => None,
            TRANSPARENT_ETHERNET => self.enter_frame_until(after, end),
            IPV4 | IPV6 | MPLS | MPLS_MULTICAST if after < end => {
                self.frame = &self.frame[..end];
                self.enter_packet(protocol, after)
            }
            _ => None,
        }
    }

    /// The length of an ERSPAN header whose version says type II.
    fn erspan_2(&self, at: usize) -> Option<usize> {
        (self.frame.get(at)? >> 4 == 1).then_some(8)
    }

    /// The length of an ERSPAN header whose version says type III, before a frame.
    fn erspan_3(&self, at: usize) -> Option<usize> {
        let flags = u16_at(self.frame, at + 10)?;
        let is_frame = self.frame.get(at)? >> 4 == 2 && flags >> 10 & 0x1f == 0;
        is_frame.then_some(12 + 8 * usize::from(flags & 1))
    }

    /// What is left begins with a packet under the head that there is.
    fn enter_packet(&mut self, ether_type: u16, at: usize) -> Option<()> {
        (self.ether_type, self.at, self.is_changed) = (ether_type, at, true);
        Some(())
    }

    /// What is left is a frame.
    fn enter_frame(&mut self, at: usize) -> Option<()> {
        self.enter_frame_until(at, self.frame.len())
    }

    fn enter_frame_until(&mut self, at: usize, end: usize) -> Option<()> {
        let frame = self.frame.get(..end)?;
        self.ether_type = u16_at(frame, at + ADDRESSES)?;
        self.frame = frame;
        self.head = at..at + ADDRESSES;
        self.at = at + HEADER;
        self.is_changed = true;
        Some(())
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}
