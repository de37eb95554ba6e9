//! The walk for a flow: from the outermost header of a packet to its ports.

use super::bytes::Bytes;
use super::decoded::{Carried, Decoded};
use super::link;
use super::options::DecodeOptions;
use super::walk::{Header, MAX_LAYERS, Walk};
use crate::flow::FlowKey;
use crate::link::LinkType;

/// Decodes packets after one set of options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Decoder {
    pub(super) options: DecodeOptions,
}

impl Decoder {
    /// A decoder after `options`.
    #[must_use]
    pub fn new(options: DecodeOptions) -> Self {
        Self { options }
    }

    /// Decoders that enter no tunnel, one, and so on, to this one: what they find are the packets
    /// around the tunnels of a packet, outermost first.
    pub fn by_depth(&self) -> impl Iterator<Item = Self> {
        let options = self.options;
        (0..=options.tunnel_depth)
            .map(move |tunnel_depth| Self { options: DecodeOptions { tunnel_depth, ..options } })
    }

    /// What the headers of `packet`, captured on a link of type `link`, say.
    #[must_use]
    pub fn decode(&self, link: LinkType, packet: &[u8]) -> Decoded {
        self.decode_with_carried(link, packet).0
    }

    /// As [`Decoder::decode`], with the payload behind the TCP or UDP header of the packet's key,
    /// as far as that was captured.
    #[must_use]
    pub fn decode_with_payload<'a>(
        &self,
        link: LinkType,
        packet: &'a [u8],
    ) -> (Decoded, Option<&'a [u8]>) {
        let (decoded, carried) = self.decode_with_carried(link, packet);
        (decoded, carried.map(|carried| carried.payload))
    }

    /// As [`Decoder::decode_with_payload`], with the numbers of a TCP header.
    #[must_use]
    pub fn decode_with_carried<'a>(
        &self,
        link: LinkType,
        packet: &'a [u8],
    ) -> (Decoded, Option<Carried<'a>>) {
        let mut walk = self.walk(link, packet);
        if walk.found.key == FlowKey::default() {
            walk.opaque();
        }
        (walk.found, walk.carried)
    }

    /// What the innermost IP packet carries, as far as that was captured: the bytes behind its
    /// TCP or UDP header; behind its IP headers, if it is a later fragment or of another
    /// protocol, or if the length of its TCP header is cut or too small. None for what is not IP.
    #[must_use]
    pub fn payload<'a>(&self, link: LinkType, packet: &'a [u8]) -> Option<&'a [u8]> {
        self.walk(link, packet).content()
    }

    fn walk<'a>(&self, link: LinkType, packet: &'a [u8]) -> Walk<'a> {
        let mut walk = Walk::new(self.options, Bytes::new(packet));
        let mut next = link::first(walk.bytes, link, 0);
        for _ in 0..MAX_LAYERS {
            let Some((header, at)) = next else { break };
            next = match header {
                Header::Arp => walk.arp(at),
                Header::Ip => walk.ip(at),
                Header::Transport(_) => walk.transport(walk.datagram, at),
                Header::Undecoded(what) => walk.undecoded(what),
                header => walk.link_header(header, at),
            };
        }
        if next.is_some() {
            walk.note_tunnel();
        }
        walk
    }
}
