//! From captured bytes to a flow.
//!
//! [`Decoder::decode`] walks the headers of one packet, outermost first, and
//! answers three questions: whose packet is it ([`Decoded::key`]), with whom does
//! it travel ([`Decoded::affinity`]), and is it a fragment. The walk reads through
//! bounded accessors only, takes at most [`MAX_LAYERS`] headers, and never
//! fails: a header that is cut or nonsense ends it, and what was found before
//! stands. Which bytes belong to a datagram is what its IP header says, as far as
//! they were captured: link-layer padding is never taken for a header.
//!
//! The key is the innermost packet's, through at most
//! [`DecodeOptions::tunnel_depth`] tunnels. An ICMP error travels with the flow
//! whose packet it quotes (RFC 792, RFC 4443), other ICMP with all ICMP of its
//! address pair.

mod bytes;
mod lanes;
mod link;
mod network;
mod outermost;
mod plain;
mod radio;
mod strip;
mod transport;
mod tunnel;
mod undecoded;

use crate::flow::{AddressKind, Endpoint, FlowKey};
use crate::hash::{HashKey, siphash13};
use crate::link::LinkType;
use bytes::Bytes;
pub use lanes::SimdLevel;
pub use network::is_extension;
pub use outermost::{IpPacket, UpperLayer, ip_packet};
pub use plain::{Plain, PlainHead};
pub use strip::Strip;
pub(crate) use strip::Stripped;
pub use transport::has_ports;
pub use undecoded::Undecoded;

pub(crate) use transport::{ICMP, ICMPV6, SCTP, TCP, UDP};

/// The most headers of a packet that are looked at.
pub const MAX_LAYERS: usize = 64;

/// The most notes on fragments that a packet can have: fragments nest when
/// tunnels do, and deeper ones are not reported.
pub const MAX_FRAGMENT_NOTES: usize = 4;

/// Names a datagram whose fragments belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    /// Source address.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Digest of VLAN and tunnel identifiers, 0 where they are not in the key.
    pub scope: u64,
    /// Identification: 16 bits in IPv4, 32 in IPv6.
    pub id: u32,
    /// IP protocol of the datagram; 0 in IPv6, where RFC 8200 section 4.5
    /// leaves it out of what identifies a datagram.
    pub protocol: u8,
    /// Whether the addresses are IPv6.
    pub ipv6: bool,
}

/// What a fragment means for its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentRole {
    /// The first fragment: where this packet goes, the others go.
    First,
    /// A later fragment: it is of the first's flow and goes where that goes.
    Later,
    /// An ICMP error that quotes a later fragment: it goes where the first goes,
    /// but is a flow of its own.
    Quoted,
}

/// The part of a datagram that a fragment holds, as its IP header declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentSpan {
    /// Where it starts, in units of 8 bytes.
    pub start: u16,
    /// Where it ends, in units of 8 bytes, rounded up.
    pub end: u16,
    /// Nothing follows it.
    pub last: bool,
}

/// A fragment that a packet is or carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// What it means for its datagram.
    pub role: FragmentRole,
    /// The datagram.
    pub key: FragmentKey,
    /// The part.
    pub span: FragmentSpan,
}

/// What the classifier notes of a fragment in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentNote {
    /// Index of the packet in its batch.
    pub packet: u16,
    /// First or later.
    pub role: FragmentRole,
    /// The datagram.
    pub key: FragmentKey,
    /// The part of it.
    pub span: FragmentSpan,
}

/// Which packets belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Affinity {
    /// Those of one transport connection.
    #[default]
    FiveTuple,
    /// All between two addresses.
    IpPair,
    /// All from one address.
    Source,
    /// All to one address.
    Destination,
}

impl Affinity {
    /// What keeps a packet together with others whose flow has `key`; `reversed` says
    /// whether the packet goes from the key's high end to its low end.
    #[inline]
    pub(crate) fn of(self, key: FlowKey, reversed: bool) -> FlowKey {
        match self {
            Self::FiveTuple => key,
            Self::IpPair => key.address_pair(),
            Self::Source => key.source(reversed),
            Self::Destination => key.destination(reversed),
        }
    }
}

/// How packets are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// What [`Decoded::affinity`] distinguishes.
    pub affinity: Affinity,
    /// VLAN identifiers are part of a flow.
    pub vlan_in_key: bool,
    /// Tunnel identifiers (VNI, TEID, GRE key, ERSPAN and PPPoE session, MPLS
    /// label) are part of a flow.
    pub tunnel_in_key: bool,
    /// Tunnels to look into; 0 takes the outermost IP header.
    pub tunnel_depth: u8,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            affinity: Affinity::FiveTuple,
            vlan_in_key: false,
            tunnel_in_key: false,
            tunnel_depth: 4,
        }
    }
}

/// How much of a packet could be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Outcome {
    /// The link type is not one this crate decodes.
    #[default]
    UnknownLink,
    /// No IP and no ARP.
    NotIp,
    /// ARP for IPv4.
    Arp,
    /// IP, with all that its transport protocol has to say.
    Ip,
    /// IP, a later fragment: the transport header is in another packet.
    LaterFragment,
    /// IP, but the transport's ports lie beyond what was captured, or an
    /// extension header does.
    Cut,
}

/// What a packet's headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Decoded {
    /// The flow the packet is part of.
    pub key: FlowKey,
    /// Whether the packet goes from the key's high end to its low end.
    pub reversed: bool,
    /// What must be equal of two packets that may not be parted.
    pub affinity: FlowKey,
    /// How much was understood.
    pub outcome: Outcome,
    /// The control bits of the key's TCP header, where it was captured so far.
    pub tcp_flags: Option<u8>,
    /// What the walk ended at without having found ports or ARP.
    pub undecoded: Option<Undecoded>,
    /// Fragments that the packet is or carries, outermost first.
    pub fragments: [Option<Fragment>; MAX_FRAGMENT_NOTES],
}

/// Decodes packets after one set of options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    options: DecodeOptions,
}

/// A header to look at next, and where it starts.
#[derive(Clone, Copy)]
enum Header {
    Link(LinkType),
    /// With so many bytes of a switch's tag before the EtherType.
    Ethernet(usize),
    Llc,
    EtherType(u16),
    Mpls,
    Ppp,
    CiscoHdlc,
    Wireless {
        padded: bool,
    },
    Arp,
    Ip,
    Transport(Datagram),
    Undecoded(Undecoded),
}

/// The IP header that a transport header was found under.
#[derive(Clone, Copy)]
struct Datagram {
    kind: AddressKind,
    source: u128,
    destination: u128,
    protocol: u8,
}

/// The state of the walk.
struct Walk<'a> {
    options: DecodeOptions,
    bytes: Bytes<'a>,
    found: Decoded,
    scope: u64,
    tunnels_left: u8,
    /// Inside the packet that an ICMP error quotes: what is found there is the
    /// affinity, not the key.
    quoted: bool,
    /// What the transport header of the key carries.
    payload: Option<&'a [u8]>,
    /// An authentication header in IPv6 is passed, as rules do: for a flow it ends the walk.
    passes_authentication: bool,
}

/// Bytes of a packet that stand for it when nothing in it is understood.
const LEADING: usize = 64;

impl Decoder {
    /// A decoder after `options`.
    #[must_use]
    pub fn new(options: DecodeOptions) -> Self {
        Self { options }
    }

    /// What the headers of `packet`, captured on a link of type `link`, say.
    #[must_use]
    pub fn decode(&self, link: LinkType, packet: &[u8]) -> Decoded {
        self.decode_with_payload(link, packet).0
    }

    /// As [`Decoder::decode`], with what the packet carries behind the TCP or UDP header of
    /// its key, as far as that was captured.
    #[must_use]
    pub fn decode_with_payload<'a>(
        &self,
        link: LinkType,
        packet: &'a [u8],
    ) -> (Decoded, Option<&'a [u8]>) {
        let mut walk = Walk::new(self.options, Bytes::new(packet));
        let mut next = link::first(walk.bytes, link, 0);
        for _ in 0..MAX_LAYERS {
            let Some((header, at)) = next else { break };
            next = match header {
                Header::Arp => walk.arp(at),
                Header::Ip => walk.ip(at),
                Header::Transport(datagram) => walk.transport(datagram, at),
                Header::Undecoded(what) => walk.undecoded(what),
                header => walk.link_header(header, at),
            };
        }
        if walk.found.key == FlowKey::default() {
            walk.opaque();
        }
        (walk.found, walk.payload)
    }
}

impl<'a> Walk<'a> {
    #[inline]
    fn new(options: DecodeOptions, bytes: Bytes<'a>) -> Self {
        Self {
            options,
            bytes,
            // What a link type's decoder finds nothing in is still of a known type.
            found: Decoded { outcome: Outcome::NotIp, ..Decoded::default() },
            scope: 0,
            tunnels_left: options.tunnel_depth,
            quoted: false,
            payload: None,
            passes_authentication: false,
        }
    }

    /// The header behind one; nothing is noted of link headers.
    fn behind(&mut self, header: Header, at: usize) -> link::Next {
        match header {
            Header::Ip => self.ip(at),
            Header::Transport(datagram) => self.transport(datagram, at),
            header => link::next(self.bytes, header, at),
        }
    }

    /// Nothing has an address: the leading bytes stand for the packet.
    fn opaque(&mut self) {
        let leading = self.bytes.until(LEADING).from(0);
        let mut words = [0_u64; LEADING / 8 + 1];
        for (word, chunk) in words.iter_mut().zip(leading.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_le_bytes(bytes);
        }
        words[LEADING / 8] = leading.len() as u64;
        let digest = siphash13(&HashKey([0, 0]), &words);
        let key = FlowKey { low: u128::from(digest), scope: self.scope, ..FlowKey::default() };
        self.found.key = key;
        self.found.affinity = key;
    }

    /// Takes note of what ends the walk. Where a tunnel carries it, the tunnel's packet is
    /// decoded.
    fn undecoded(&mut self, what: Undecoded) -> Option<(Header, usize)> {
        if self.found.outcome == Outcome::NotIp {
            self.found.undecoded = Some(what);
            if let Undecoded::Link(_) = what {
                self.found.outcome = Outcome::UnknownLink;
            }
        }
        None
    }

    /// Notes a flow; the last one counts.
    fn found(&mut self, key: FlowKey, reversed: bool, affinity: FlowKey, outcome: Outcome) {
        let affinity = match self.options.affinity {
            Affinity::FiveTuple => affinity,
            Affinity::IpPair => affinity.address_pair(),
            Affinity::Source | Affinity::Destination => self.options.affinity.of(key, reversed),
        };
        self.found.affinity = FlowKey { scope: self.scope, ..affinity };
        if !self.quoted {
            self.found.key = FlowKey { scope: self.scope, ..key };
            self.found.reversed = reversed;
            self.found.outcome = outcome;
            self.found.tcp_flags = None;
            self.payload = None;
        }
    }

    /// As [`Walk::found`], for a flow whose key is its affinity.
    fn found_pair(
        &mut self,
        kind: AddressKind,
        protocol: u8,
        source: Endpoint,
        destination: Endpoint,
        outcome: Outcome,
    ) {
        let (key, reversed) = FlowKey::two_way(kind, protocol, source, destination);
        self.found(key, reversed, key, outcome);
    }

    /// Makes an identifier of a tag or tunnel part of the keys found from here.
    fn enter(&mut self, kind: u8, id: u32, in_key: bool) {
        if in_key {
            // An odd multiplier permutes the 64-bit values, so that different
            // stacks of a few identifiers stay different.
            let word = self.scope.rotate_left(29) ^ (u64::from(kind) << 32 | u64::from(id));
            self.scope = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
    }

    /// Whether a tunnel may be entered; counts it.
    fn enter_tunnel(&mut self, kind: u8, id: u32) -> bool {
        let Some(left) = self.tunnels_left.checked_sub(1) else { return false };
        self.tunnels_left = left;
        self.enter(kind, id, self.options.tunnel_in_key);
        true
    }

    fn note_fragment(&mut self, role: FragmentRole, key: FragmentKey, span: FragmentSpan) {
        let role = match (role, self.quoted) {
            (role, false) => role,
            (FragmentRole::Later, true) => FragmentRole::Quoted,
            // An error about a first fragment found its ports: nothing to join.
            (FragmentRole::First | FragmentRole::Quoted, true) => return,
        };
        // Where addresses decide, a fragment that hides no tunnel is enough.
        let plain = self.options.affinity != Affinity::FiveTuple
            && (self.tunnels_left == 0 || !tunnel::may_carry(key.protocol, key.ipv6));
        if plain {
            return;
        }
        if let Some(free) = self.found.fragments.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(Fragment { role, key, span });
        }
    }
}
