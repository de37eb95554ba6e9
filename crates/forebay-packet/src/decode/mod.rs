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
mod decoded;
mod decoder;
mod ether_type;
mod lanes;
mod link;
mod network;
mod options;
mod outermost;
mod plain;
mod protocol;
mod radio;
mod strip;
mod transport;
mod tunnel;
mod undecoded;
mod walk;

pub use decoded::{Carried, DecodeOutcome, Decoded};
pub use decoder::Decoder;
pub use lanes::SimdLevel;
pub use options::{Affinity, DecodeOptions};
pub use outermost::{IpPacket, UpperLayer, ip_packet};
pub use plain::{Plain, PlainHead};
pub(crate) use protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
pub use protocol::{has_ports, is_extension};
pub use strip::Strip;
pub(crate) use strip::Stripped;
pub use undecoded::Undecoded;
pub use walk::MAX_LAYERS;
