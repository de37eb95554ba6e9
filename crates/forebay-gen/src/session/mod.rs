//! Sessions: the exchange between the two ends of a flow.
//!
//! A session is a small state machine that gets the number of packets left and emits
//! exactly one packet per step. Whatever the number, the packets must be a plausible
//! exchange: one packet is a probe or a lost question, two are a question and its answer,
//! and a TCP session reserves the packets for its close.

mod datagram;
mod icmp;
mod tcp;
mod udp;

use std::net::IpAddr;

use crate::headers::{Direction, Frame, TcpHeader, UDP_HEADER, protocol, write_tcp, write_udp};
use crate::path::{Path, Plan};
use forebay_packet::random::Random;

use datagram::Datagrams;
use icmp::{Echo, Unreachable};
use tcp::Tcp;
use udp::{Dns, Ntp, Quic};

/// One microsecond in nanoseconds.
const MICROSECOND: u64 = 1_000;
/// One millisecond in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// The input of a session's step.
#[derive(Debug)]
pub struct Context<'a> {
    /// The buffer for the packet.
    pub frame: &'a mut Frame,
    /// Its path.
    pub path: &'a mut Path,
    /// The flow's own random numbers.
    pub random: &'a mut Random,
    /// Time in nanoseconds since the epoch.
    pub now: u64,
    /// Packets the flow may still send, this one included; at least 1.
    pub left: u32,
    /// Round-trip time in nanoseconds.
    pub round_trip: u64,
}

impl Context<'_> {
    /// Sends a packet whose transport header and payload are written by `write`, which
    /// returns their length.
    fn send(&mut self, direction: Direction, protocol: u8, write: impl FnOnce(&mut [u8]) -> usize) {
        let header = self.path.header(direction, protocol);
        let encapsulation = &self.path.encapsulation;
        let len = write(self.frame.room(encapsulation, direction, &header));
        self.frame.seal(encapsulation, direction, &header, len);
    }

    /// Sends a UDP datagram whose payload is written by `write`.
    fn send_udp(&mut self, direction: Direction, write: impl FnOnce(&mut [u8]) -> usize) {
        let ports = self.path.ports(direction);
        self.send(direction, protocol::UDP, |room| {
            let len = write(&mut room[UDP_HEADER..]);
            write_udp(room, ports, len);
            UDP_HEADER + len
        });
    }

    /// Sends a TCP segment whose payload of `len` bytes is written by `write`.
    fn send_tcp(
        &mut self,
        direction: Direction,
        header: &TcpHeader,
        len: usize,
        write: impl FnOnce(&mut [u8]),
    ) {
        self.send(direction, protocol::TCP, |room| {
            let at = write_tcp(room, header);
            write(&mut room[at..at + len]);
            at + len
        });
    }

    /// A random time around `nanoseconds`, up to a quarter off.
    fn about(&mut self, nanoseconds: u64) -> u64 {
        self.random.between(nanoseconds - nanoseconds / 4, nanoseconds + nanoseconds / 4)
    }

    /// The response time of a host.
    fn turnaround(&mut self) -> u64 {
        self.random.between(5 * MICROSECOND, 80 * MICROSECOND)
    }

    /// The time until the next question: heavy-tailed.
    fn pause(&mut self) -> u64 {
        let round_trips = self.random.pareto(1, 200);
        self.about(self.round_trip / 2 * round_trips)
    }
}

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
    plan: &Plan,
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
