//! The walk over the headers of a packet: where it is, and what it has found so far. The
//! files of the layers have the steps.

use super::bytes::Bytes;
use super::decoded::{Carried, DecodeOutcome, Decoded};
use super::options::{Affinity, DecodeOptions};
use super::protocol::may_hold_tunnel;
use super::undecoded::Undecoded;
use crate::flow::{AddressKind, Endpoint, FlowKey};
use crate::fragment::{Fragment, FragmentKey, FragmentRole, FragmentSpan};
use crate::hash::{HashKey, siphash13};
use crate::link::LinkType;

/// The most headers of a packet that are looked at.
pub const MAX_LAYERS: usize = 64;

/// A header to look at next, and where it starts.
#[derive(Clone, Copy)]
pub(super) enum Header {
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
    /// Of this protocol, under the IP header that the walk has in `datagram`.
    Transport(u8),
    Undecoded(Undecoded),
}

/// An IP header; its protocol is that of the transport header, once that is found.
#[derive(Clone, Copy, Default)]
pub(super) struct Datagram {
    pub(super) kind: AddressKind,
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) protocol: u8,
}

/// The state of the walk.
pub(super) struct Walk<'a> {
    pub(super) options: DecodeOptions,
    pub(super) bytes: Bytes<'a>,
    pub(super) found: Decoded,
    pub(super) scope: u64,
    /// The last IP header.
    pub(super) datagram: Datagram,
    tunnels_left: u8,
    /// Inside the packet that an ICMP error quotes: what is found there is the
    /// affinity, not the key.
    pub(super) quoted: bool,
    /// What the transport header of the key carries.
    pub(super) carried: Option<Carried<'a>>,
    /// What the innermost IP packet carries.
    content: Option<&'a [u8]>,
    /// An authentication header in IPv6 is passed, as rules do: for a flow it ends the walk.
    pub(super) passes_authentication: bool,
}

/// The next header and where it starts; none where the walk ends.
pub(super) type Next = Option<(Header, usize)>;

/// Bytes of a packet that stand for it when nothing in it is understood.
const LEADING: usize = 64;

impl<'a> Walk<'a> {
    #[inline]
    pub(super) fn new(options: DecodeOptions, bytes: Bytes<'a>) -> Self {
        Self {
            options,
            bytes,
            // What a link type's decoder finds nothing in is still of a known type.
            found: Decoded { outcome: DecodeOutcome::NotIp, ..Decoded::default() },
            scope: 0,
            datagram: Datagram::default(),
            tunnels_left: options.tunnel_depth,
            quoted: false,
            carried: None,
            content: None,
            passes_authentication: false,
        }
    }

    /// Nothing has an address: the leading bytes stand for the packet.
    pub(super) fn opaque(&mut self) {
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

    /// Notes that the content of the innermost IP packet so far begins at that place.
    pub(super) fn note_content(&mut self, at: usize) {
        if !self.quoted {
            self.content = Some(self.bytes.from(at));
        }
    }

    /// What the innermost IP packet carries behind its TCP or UDP header, or its IP headers.
    pub(super) fn content(&self) -> Option<&'a [u8]> {
        self.content
    }

    /// Takes note of what ends the walk. Where a tunnel carries it, the tunnel's packet is
    /// decoded.
    pub(super) fn undecoded(&mut self, what: Undecoded) -> Next {
        if self.found.outcome == DecodeOutcome::NotIp {
            self.found.undecoded = Some(what);
            if let Undecoded::Link(_) = what {
                self.found.outcome = DecodeOutcome::UnknownLink;
            }
        }
        None
    }

    /// Notes a flow; the last one counts.
    pub(super) fn found(
        &mut self,
        key: FlowKey,
        reversed: bool,
        affinity: FlowKey,
        outcome: DecodeOutcome,
    ) {
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
            self.found.hides = false;
            self.carried = None;
        }
    }

    /// As [`Walk::found`], for a flow whose key is its affinity.
    pub(super) fn found_pair(
        &mut self,
        kind: AddressKind,
        protocol: u8,
        source: Endpoint,
        destination: Endpoint,
        outcome: DecodeOutcome,
    ) {
        let (key, reversed) = FlowKey::two_way(kind, protocol, source, destination);
        self.found(key, reversed, key, outcome);
    }

    /// Makes an identifier of a tag or tunnel part of the keys found from here.
    pub(super) fn enter(&mut self, kind: u8, id: u32, in_key: bool) {
        if in_key {
            // An odd multiplier permutes the 64-bit values, so that different
            // stacks of a few identifiers stay different.
            let word = self.scope.rotate_left(29) ^ (u64::from(kind) << 32 | u64::from(id));
            self.scope = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        }
    }

    /// Notes that a tunnel begins, in which nothing is found so far.
    pub(super) fn note_tunnel(&mut self) {
        self.found.hides |= !self.quoted;
    }

    /// Whether the walk is inside a tunnel.
    pub(super) fn is_in_tunnel(&self) -> bool {
        self.tunnels_left < self.options.tunnel_depth
    }

    /// Whether a tunnel may be entered; counts it.
    pub(super) fn enter_tunnel(&mut self, kind: u8, id: u32) -> bool {
        let Some(left) = self.tunnels_left.checked_sub(1) else { return false };
        self.tunnels_left = left;
        self.enter(kind, id, self.options.tunnel_in_key);
        true
    }

    pub(super) fn note_fragment(
        &mut self,
        role: FragmentRole,
        key: FragmentKey,
        span: FragmentSpan,
    ) {
        let role = match (role, self.quoted) {
            (role, false) => role,
            (FragmentRole::Later, true) => FragmentRole::Quoted,
            // An error about a first fragment found its ports: nothing to join.
            (FragmentRole::First | FragmentRole::Quoted, true) => return,
        };
        // Where addresses decide, a fragment that hides no tunnel is enough.
        let plain = self.options.affinity != Affinity::FiveTuple
            && (self.tunnels_left == 0 || !may_hold_tunnel(key.protocol, key.ipv6));
        if plain {
            return;
        }
        if let Some(free) = self.found.fragments.iter_mut().find(|slot| slot.is_none()) {
            *free = Some(Fragment { role, key, span });
        }
    }
}
