//! Sessions: the exchange between the two ends of a flow.
//!
//! A session is a small state machine that gets the number of packets left and emits
//! exactly one packet per step. Whatever the number, the packets must be a plausible
//! exchange: one packet is a probe or a lost question, two are a question and its answer,
//! and a TCP session reserves the packets for its close.

mod context;
mod datagram;
mod icmp;
mod tcp;
mod udp;

use std::net::IpAddr;

use crate::path::{AddressPlan, Path};
use forebay_packet::random::Random;

pub use context::Context;
use datagram::Datagrams;
use icmp::{Echo, Unreachable};
use tcp::Tcp;
use udp::{Dns, Ntp, Quic};

/// A flow's session.
#[derive(Debug)]
pub enum Session {
    /// TCP of any kind.
    Tcp(Box<Tcp>),
    /// Questions and answers.
    Dns(Dns),
    /// Time requests and replies.
    Ntp(Ntp),
    /// Encrypted datagrams in bursts.
    Quic(Box<Quic>),
    /// Datagrams larger than a frame.
    Datagrams(Datagrams),
    /// Pings.
    Echo(Echo),
    /// Probes answered by ICMP errors.
    Unreachable(Unreachable),
}

/// The kind of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    Dns,
    Ntp,
    Quic,
    Datagrams,
    Echo,
    Unreachable,
}

const KINDS: [Kind; 7] =
    [Kind::Tcp, Kind::Dns, Kind::Ntp, Kind::Quic, Kind::Datagrams, Kind::Echo, Kind::Unreachable];

impl Kind {
    /// A plausible kind for a flow of this many packets. The weights are in the order of
    /// [`KINDS`].
    fn choose(packets: u32, random: &mut Random) -> Self {
        let weights: [u64; 7] = match packets {
            1 => [40, 45, 10, 0, 0, 5, 0],
            2 => [14, 54, 8, 0, 4, 10, 10],
            3..=6 => [46, 28, 5, 4, 6, 7, 4],
            7..=24 => [76, 4, 1, 12, 5, 2, 0],
            25..=64 => [78, 0, 0, 15, 6, 1, 0],
            _ => [80, 0, 0, 15, 5, 0, 0],
        };
        KINDS[random.weighted(&weights)]
    }
}

/// The proportion of IPv6 flows: one in this many.
const IPV6: u64 = 5;

/// Creates path and session of flow number `flow` with `packets` packets, in frames of up
/// to `longest` bytes.
pub fn start(
    plan: &AddressPlan,
    flow: u64,
    packets: u32,
    longest: usize,
    random: &mut Random,
) -> (Path, Session) {
    let kind = Kind::choose(packets, random);
    let ipv6 = random.one_in(IPV6);
    let (client, client_port) = plan.client(flow, ipv6);
    let server: IpAddr = match kind {
        Kind::Echo => plan.ping_target(flow, ipv6),
        _ => plan.server(random, ipv6),
    };
    let mut path = Path::new([client, server], [client_port, 0], random);
    // Datagrams are not tunnelled: fragments inside tunnels are rare.
    path.decorate(kind != Kind::Datagrams, random);
    let session = match kind {
        Kind::Tcp => Session::Tcp(Box::new(Tcp::new(&mut path, packets, longest, random))),
        Kind::Dns => Session::Dns(Dns::new(&mut path, random)),
        Kind::Ntp => Session::Ntp(Ntp::new(&mut path)),
        Kind::Quic => Session::Quic(Box::new(Quic::new(&mut path, longest, random))),
        Kind::Datagrams => Session::Datagrams(Datagrams::new(&mut path, longest, random)),
        Kind::Echo => Session::Echo(Echo::new(random)),
        Kind::Unreachable => Session::Unreachable(Unreachable::new(&mut path, random)),
    };
    (path, session)
}

impl Session {
    /// Builds the flow's next packet; returns the time to the one after it, in
    /// nanoseconds.
    pub fn step(&mut self, context: &mut Context<'_>) -> u64 {
        match self {
            Self::Tcp(session) => session.step(context),
            Self::Dns(session) => session.step(context),
            Self::Ntp(session) => session.step(context),
            Self::Quic(session) => session.step(context),
            Self::Datagrams(session) => session.step(context),
            Self::Echo(session) => session.step(context),
            Self::Unreachable(session) => session.step(context),
        }
    }
}
