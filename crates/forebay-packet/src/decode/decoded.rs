//! What the walk over a packet's headers finds.

use super::undecoded::Undecoded;
use crate::flow::FlowKey;
use crate::fragment::Fragment;

/// The most notes on fragments that a packet can have: fragments nest when
/// tunnels do, and deeper ones are not reported.
pub const MAX_FRAGMENT_NOTES: usize = 4;

/// How much of a packet could be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DecodeOutcome {
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

/// What is behind the TCP or UDP header of a packet's key, as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried<'a> {
    /// The bytes up to the end of the datagram.
    pub payload: &'a [u8],
    /// The sequence and the acknowledgment number of the TCP header.
    pub tcp_numbers: Option<(u32, u32)>,
    /// The header is inside a tunnel.
    pub is_in_tunnel: bool,
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
    pub outcome: DecodeOutcome,
    /// The control bits of the key's TCP header, where it was captured so far.
    pub tcp_flags: Option<u8>,
    /// What the walk ended at without having found ports or ARP.
    pub undecoded: Option<Undecoded>,
    /// There is a tunnel in which no address was found: it is deeper than the options allow, or
    /// what it carries, or one of its own headers, is not decoded. The key is that of what is around it.
    pub hides: bool,
    /// Fragments that the packet is or carries, outermost first.
    pub fragments: [Option<Fragment>; MAX_FRAGMENT_NOTES],
}
