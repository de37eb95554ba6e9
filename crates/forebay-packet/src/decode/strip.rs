//! Headers that are taken off a packet on its way out, for sensors that do not know them:
//! VLAN tags (IEEE 802.1Q), MPLS labels (RFC 3032), VXLAN (RFC 7348), GRE (RFC 2784 and
//! 2890) and ERSPAN (draft-foschiano-erspan).
//!
//! The walk is the one for flows, from the outside. A tunnel that holds a frame ends with everything
//! around it; one that holds an IP packet leaves the Ethernet header of the outer one, with
//! the EtherType of the inner. Whatever is not asked for, is cut off or makes no sense ends
//! the walk, and so does a fragment, which has a part of a frame only: what was taken off
//! up to there is off.

use std::ops::Range;

use super::bytes::Bytes;
use super::ether_type::{IPV4, IPV6, MPLS, MPLS_MULTICAST, TRANSPARENT_ETHERNET, vlan_tag};
use super::link;
use super::options::DecodeOptions;
use super::protocol::{GRE, UDP};
use super::walk::{Header, MAX_LAYERS, Next, Walk};

/// Bytes of a frame's two addresses, and of its header.
const ADDRESSES: usize = 12;
const HEADER: usize = 14;

/// Which headers are taken off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strip {
    /// All VLAN tags.
    pub vlan: bool,
    /// MPLS label stacks before an IP packet or a frame, with a pseudowire's control word (RFC
    /// 4385) or without. The first four bits decide: 0 is taken for a control word, 4 and 6 for
    /// IP, also where they begin the destination address of a frame without a control word.
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
        let options = DecodeOptions { tunnel_depth: u8::MAX, ..DecodeOptions::default() };
        let mut walk = Walk::new(options, Bytes::new(frame));
        let mut left = Left { strip: self, is_changed: false, ..Left::of_frame(walk.bytes, 0)? };
        let (mut header, mut at) = (Header::Ethernet(0), 0);
        for _ in 0..MAX_LAYERS {
            let Some((next, next_at)) = behind(&mut walk, header, at) else { break };
            let is_fragment = walk.found.fragments[0].is_some();
            let step = [(header, at), (next, next_at)];
            if is_fragment || left.pass(walk.bytes, step).is_none() {
                break;
            }
            (header, at) = (next, next_at);
        }
        // A frame around what is left may have been cut shorter than its headers.
        let Left { head, ether_type, at, end, .. } = left;
        left.is_changed.then(|| Stripped {
            head,
            ether_type: ether_type.to_be_bytes(),
            payload: at.min(end)..end,
        })
    }
}

/// The header behind one; nothing is noted of link headers.
fn behind(walk: &mut Walk<'_>, header: Header, at: usize) -> Next {
    match header {
        Header::Ip => walk.ip(at),
        Header::Transport(_) => walk.transport(walk.datagram, at),
        header => link::next(walk.bytes, header, at),
    }
}

/// What is left so far.
struct Left {
    strip: Strip,
    head: Range<usize>,
    ether_type: u16,
    /// Where the payload starts, and up to where the packets around it say that it goes.
    at: usize,
    end: usize,
    is_changed: bool,
}

impl Left {
    /// A frame with nothing around it.
    fn of_frame(bytes: Bytes<'_>, at: usize) -> Option<Self> {
        Some(Self {
            strip: Strip::NONE,
            head: at..at + ADDRESSES,
            ether_type: bytes.u16(at + ADDRESSES)?,
            at: at + HEADER,
            end: bytes.len(),
            is_changed: true,
        })
    }

    /// Takes a header off, or passes it, to the next one; nothing where what is left starts
    /// with the header.
    fn pass(&mut self, bytes: Bytes<'_>, step: [(Header, usize); 2]) -> Option<()> {
        let Strip { vlan: _, mpls, vxlan, gre, erspan } = self.strip;
        let is_wanted = |wanted: bool| wanted.then_some(());
        let [(header, at), (next, next_at)] = step;
        match (header, next) {
            (Header::Ethernet(_), _) => Some(()),
            (Header::EtherType(IPV4 | IPV6), Header::Ip) => is_wanted(vxlan || gre || erspan),
            (Header::EtherType(vlan_tag!()), _) => self.tag(bytes.u16(at + 2)?),
            (Header::EtherType(MPLS | MPLS_MULTICAST) | Header::Mpls, Header::Mpls) => {
                is_wanted(mpls)
            }
            (Header::Mpls, Header::Ip) => {
                let ether_type = if bytes.u8(next_at)? >> 4 == 4 { IPV4 } else { IPV6 };
                self.enter_packet(bytes, ether_type, next_at)
            }
            (Header::Mpls, Header::Ethernet(_)) => self.enter_frame(bytes, next_at),
            (Header::Ip, Header::Transport(inner)) => match inner {
                UDP => is_wanted(vxlan),
                GRE => is_wanted(gre || erspan),
                _ => None,
            },
            (Header::Transport(outer), next) => match (outer, next) {
                // Of the tunnels over UDP, VXLAN alone has a frame directly behind its header, and
                // ERSPAN of those over GRE.
                (UDP, Header::Ethernet(_)) => self.enter_frame(bytes, next_at),
                (GRE, Header::Ethernet(_)) if erspan => self.enter_frame(bytes, next_at),
                (GRE, Header::EtherType(TRANSPARENT_ETHERNET)) if gre => {
                    self.enter_frame(bytes, next_at)
                }
                (GRE, Header::EtherType(ether_type @ (IPV4 | IPV6 | MPLS | MPLS_MULTICAST)))
                    if gre && next_at < bytes.len() =>
                {
                    self.enter_packet(bytes, ether_type, next_at)
                }
                _ => None,
            },
            // The frame that GRE announced.
            (Header::EtherType(TRANSPARENT_ETHERNET), Header::Ethernet(_)) => {
                is_wanted(self.head.start == next_at)
            }
            _ => None,
        }
    }

    /// Takes a tag off before that EtherType, or steps over it.
    fn tag(&mut self, ether_type: u16) -> Option<()> {
        if self.strip.vlan {
            self.is_changed = true;
        } else if self.head.end + 2 == self.at {
            // Nothing between the head and this tag has been taken off.
            self.head.end += 4;
        } else {
            return None;
        }
        self.at += 4;
        self.ether_type = ether_type;
        Some(())
    }

    /// What is left begins with a packet under the head that there is.
    fn enter_packet(&mut self, bytes: Bytes<'_>, ether_type: u16, at: usize) -> Option<()> {
        (self.ether_type, self.at, self.end) = (ether_type, at, bytes.len());
        self.is_changed = true;
        Some(())
    }

    /// What is left is a frame.
    fn enter_frame(&mut self, bytes: Bytes<'_>, at: usize) -> Option<()> {
        *self = Self { strip: self.strip, ..Self::of_frame(bytes, at)? };
        Some(())
    }
}
