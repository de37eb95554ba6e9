//! ICMP (RFC 792) and ICMPv6 (RFC 4443): pings, and errors about probes.
//!
//! An error quotes a packet that was sent. Over IPv4 that is the header and at least eight
//! bytes; routers that follow RFC 1812 quote more, and over IPv6 as much as fits is quoted.
//! An error counts as a packet of the flow that it quotes.

use super::context::{Context, MICROSECOND};
use crate::headers::{Direction, InternetHeader, TcpFlags, TcpHeader, TcpOptions, protocol};
use crate::path::{Path, router};
use crate::payload::Writer;
use forebay_packet::random::{Random, fill_at};

fn icmp_of(ipv6: bool) -> u8 {
    if ipv6 { protocol::ICMPV6 } else { protocol::ICMP }
}

/// Echo requests and replies; if the number of packets is odd, the last request has no
/// reply.
#[derive(Debug)]
pub struct Echo {
    identifier: u16,
    sequence: u16,
    /// Time of the request without a reply yet.
    asked: Option<u64>,
}

/// Payload bytes of `ping`.
const PING_PAYLOAD: usize = 56;

impl Echo {
    /// A ping.
    pub fn new(random: &mut Random) -> Self {
        Self { identifier: random.next() as u16, sequence: 0, asked: None }
    }

    /// Sends the next packet; returns the time to the one after it.
    pub fn step(&mut self, context: &mut Context<'_>) -> u64 {
        let ipv6 = context.path.is_ipv6();
        let (direction, kind, time) = match self.asked.take() {
            Some(time) => (Direction::ToClient, if ipv6 { 129 } else { 0 }, time),
            None => {
                self.sequence = self.sequence.wrapping_add(1);
                self.asked = Some(context.now);
                (Direction::ToServer, if ipv6 { 128 } else { 8 }, context.now)
            }
        };
        let (identifier, sequence) = (self.identifier, self.sequence);
        context.send(direction, icmp_of(ipv6), |room| {
            let mut writer = Writer::new(room);
            writer.put(&[kind, 0, 0, 0]);
            writer.put16(identifier);
            writer.put16(sequence);
            // Seconds and microseconds, then ascending bytes, as ping sends them.
            writer.put(&(time / 1_000_000_000).to_le_bytes());
            writer.put(&(time % 1_000_000_000 / MICROSECOND).to_le_bytes());
            for byte in 16..PING_PAYLOAD as u8 {
                writer.put8(byte);
            }
            writer.len()
        });
        if direction == Direction::ToServer {
            context.about(context.round_trip)
        } else {
            context.pause()
        }
    }
}

/// The most bytes of a probe.
const PROBE: usize = 128;
/// Bytes quoted after the header, as required by RFC 792.
const LEAST_QUOTE: usize = 8;

/// Probes to a closed port, or to a host behind a filter, each answered by
/// "destination unreachable".
#[derive(Debug)]
pub struct Unreachable {
    /// The internet packet sent last.
    quote: [u8; PROBE],
    /// Its length; 0 if no error is due.
    quoted: u8,
    /// Whether the probes are SYN segments.
    tcp: bool,
    sequence: u32,
    /// Whether errors come from a filtering router.
    filtered: bool,
}

impl Unreachable {
    /// Probes of a random port.
    pub fn new(path: &mut Path, random: &mut Random) -> Self {
        let tcp = random.one_in(2);
        // The ports that traceroute probes, or those of well-known services.
        path.ports[1] =
            if tcp { random.between(1, 1023) } else { random.between(33_434, 33_534) } as u16;
        Self {
            quote: [0; PROBE],
            quoted: 0,
            tcp,
            sequence: random.next() as u32,
            filtered: tcp || random.one_in(3),
        }
    }

    /// Sends the next packet; returns the time to the one after it.
    pub fn step(&mut self, context: &mut Context<'_>) -> u64 {
        if self.quoted > 0 {
            self.error(context);
            self.quoted = 0;
            return context.pause();
        }
        if self.tcp {
            self.probe_tcp(context);
        } else {
            let key = context.random.next();
            let len = context.random.between(12, 60) as usize;
            context.send_udp(Direction::ToServer, |room| {
                fill_at(key, 0, &mut room[..len]);
                len
            });
        }
        let sent = context.frame.internet_packet();
        let len = sent.len().min(PROBE);
        self.quote[..len].copy_from_slice(&sent[..len]);
        self.quoted = len as u8;
        context.about(context.round_trip)
    }

    fn probe_tcp(&self, context: &mut Context<'_>) {
        let header = TcpHeader {
            ports: context.path.ports(Direction::ToServer),
            sequence: self.sequence,
            acknowledgement: 0,
            flags: TcpFlags::SYN,
            window: 1024,
            options: TcpOptions { mss: Some(1460), ..TcpOptions::default() },
        };
        context.send_tcp(Direction::ToServer, &header, 0, |_| {});
    }

    fn error(&self, context: &mut Context<'_>) {
        let ipv6 = context.path.is_ipv6();
        let direction = Direction::ToClient;
        let mut header: InternetHeader = context.path.header(direction, icmp_of(ipv6));
        if self.filtered {
            header.source = router(ipv6, context.random);
        }
        // Administratively prohibited, or port unreachable.
        let (kind, code) = match (ipv6, self.filtered) {
            (false, true) => (3, 13),
            (false, false) => (3, 3),
            (true, true) => (1, 1),
            (true, false) => (1, 4),
        };
        let whole = usize::from(self.quoted);
        let quoted = if ipv6 || context.random.one_in(2) { whole } else { 20 + LEAST_QUOTE };
        let encapsulation = &context.path.encapsulation;
        let mut writer = Writer::new(context.frame.room(encapsulation, direction, &header));
        writer.put(&[kind, code, 0, 0, 0, 0, 0, 0]);
        writer.put(&self.quote[..quoted]);
        let len = writer.len();
        context.frame.seal(encapsulation, direction, &header, len);
    }
}
