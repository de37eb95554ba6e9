//! What a session works with: the packet to build, and the time.

use crate::headers::{Direction, Frame, TcpHeader, UDP_HEADER, protocol, write_tcp, write_udp};
use crate::path::Path;
use forebay_packet::random::Random;

/// One microsecond in nanoseconds.
pub(super) const MICROSECOND: u64 = 1_000;
/// One millisecond in nanoseconds.
pub(super) const MILLISECOND: u64 = 1_000_000;

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
    pub(super) fn send(
        &mut self,
        direction: Direction,
        protocol: u8,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let header = self.path.header(direction, protocol);
        let encapsulation = &self.path.encapsulation;
        let len = write(self.frame.room(encapsulation, direction, &header));
        self.frame.seal(encapsulation, direction, &header, len);
    }

    /// Sends a UDP datagram whose payload is written by `write`.
    pub(super) fn send_udp(
        &mut self,
        direction: Direction,
        write: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let ports = self.path.ports(direction);
        self.send(direction, protocol::UDP, |room| {
            let len = write(&mut room[UDP_HEADER..]);
            write_udp(room, ports, len);
            UDP_HEADER + len
        });
    }

    /// Sends a TCP segment whose payload of `len` bytes is written by `write`.
    pub(super) fn send_tcp(
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
    pub(super) fn about(&mut self, nanoseconds: u64) -> u64 {
        self.random.between(nanoseconds - nanoseconds / 4, nanoseconds + nanoseconds / 4)
    }

    /// The response time of a host.
    pub(super) fn turnaround(&mut self) -> u64 {
        self.random.between(5 * MICROSECOND, 80 * MICROSECOND)
    }

    /// The time until the next question: heavy-tailed.
    pub(super) fn pause(&mut self) -> u64 {
        let round_trips = self.random.pareto(1, 200);
        self.about(self.round_trip / 2 * round_trips)
    }
}
