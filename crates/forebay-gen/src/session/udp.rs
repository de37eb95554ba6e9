//! UDP sessions of questions and answers (DNS, NTP) and of encrypted bursts in
//! the form of QUIC (RFC 9000).

use super::context::{Context, MICROSECOND, MILLISECOND};
use crate::headers::{Direction, UDP_HEADER};
use crate::path::Path;
use crate::payload::Writer;
use crate::payload::dns::Question;
use forebay_packet::random::{Random, fill_at};

/// DNS questions from one socket, each answered; if the number of packets is odd, the last
/// is not.
#[derive(Debug)]
pub struct Dns {
    question: Question,
    answer_next: bool,
}

impl Dns {
    /// A session with port 53.
    pub fn new(path: &mut Path, random: &mut Random) -> Self {
        path.ports[1] = 53;
        Self { question: Question::new(random.next()), answer_next: false }
    }

    /// Sends the next packet; returns the time to the one after it.
    pub fn step(&mut self, context: &mut Context<'_>) -> u64 {
        let question = self.question;
        self.answer_next = !self.answer_next;
        if self.answer_next {
            context.send_udp(Direction::ToServer, |room| question.write_query(room));
            context.about(context.round_trip)
        } else {
            context.send_udp(Direction::ToClient, |room| question.write_response(room));
            self.question = Question::new(context.random.next());
            context.pause()
        }
    }
}

/// Requests and replies of NTP version 4 (RFC 5905 section 7.3).
#[derive(Debug)]
pub struct Ntp {
    /// Transmit time of the request without a reply yet.
    asked: Option<u64>,
}

/// Seconds from the epoch of NTP, 1900, to that of Unix.
const NTP_EPOCH: u64 = 2_208_988_800;

/// Nanoseconds since 1970 as an NTP timestamp.
fn ntp_time(now: u64) -> u64 {
    let fraction = ((now % 1_000_000_000) << 32) / 1_000_000_000;
    (now / 1_000_000_000 + NTP_EPOCH) << 32 | fraction
}

impl Ntp {
    /// A session with port 123.
    pub fn new(path: &mut Path) -> Self {
        path.ports[1] = 123;
        Self { asked: None }
    }

    /// Sends the next packet; returns the time to the one after it.
    pub fn step(&mut self, context: &mut Context<'_>) -> u64 {
        let now = ntp_time(context.now);
        if let Some(asked) = self.asked.take() {
            let fields = [now - (1 << 36), asked, now - (1 << 20), now];
            context.send_udp(Direction::ToClient, |room| write_ntp(room, 0x24, 2, fields));
            context.pause()
        } else {
            self.asked = Some(now);
            context.send_udp(Direction::ToServer, |room| write_ntp(room, 0x23, 0, [0, 0, 0, now]));
            context.about(context.round_trip)
        }
    }
}

/// Writes version and mode, stratum and the four timestamps; returns the length.
fn write_ntp(room: &mut [u8], mode: u8, stratum: u8, times: [u64; 4]) -> usize {
    let mut writer = Writer::new(room);
    // Poll interval 2^6 s, precision 2^-23 s.
    writer.put(&[mode, stratum, 6, 0xe9]);
    let server = stratum > 0;
    writer.put32(if server { 0x0000_0120 } else { 0 });
    writer.put32(if server { 0x0000_0350 } else { 0 });
    writer.put32(if server { 0xc612_0001 } else { 0 });
    for time in times {
        writer.put(&time.to_be_bytes());
    }
    writer.len()
}

/// Datagrams in the form of QUIC version 1: Initial packets of 1200 bytes in each
/// direction, then short headers, bursts from the server and small answers.
#[derive(Debug)]
pub struct Quic {
    connection: [u64; 2],
    sent: u32,
    /// Datagrams left in this burst of the server.
    burst: u16,
    /// Bytes of the burst's last datagram.
    last: u16,
    largest: u16,
}

/// Datagrams with Initial packets have at least this length (RFC 9000 section 14.1), or as
/// much as fits a frame.
const INITIAL: u16 = 1200;

impl Quic {
    /// A session with port 443.
    pub fn new(path: &mut Path, longest: usize, random: &mut Random) -> Self {
        path.ports[1] = 443;
        let largest = (path.transport_limit(longest) - UDP_HEADER).min(1_452) as u16;
        Self { connection: [random.next(), random.next()], sent: 0, burst: 0, last: 0, largest }
    }

    /// Sends the next packet; returns the time to the one after it.
    pub fn step(&mut self, context: &mut Context<'_>) -> u64 {
        let number = self.sent;
        self.sent = self.sent.saturating_add(1);
        let initial = INITIAL.min(self.largest);
        match number {
            0 => {
                self.long_header(context, Direction::ToServer, initial);
                context.about(context.round_trip)
            }
            1 | 2 => {
                self.long_header(context, Direction::ToClient, initial);
                context.random.between(10 * MICROSECOND, MILLISECOND)
            }
            _ if self.burst == 0 => {
                let bytes = context.random.pareto(400, 1 << 22);
                let full = u64::from(self.largest);
                // A burst has at most this many datagrams before an answer.
                self.burst = bytes.div_ceil(full).min(12) as u16;
                self.last = (bytes % full).max(40) as u16;
                let len = context.random.between(31, 90) as u16;
                self.short_header(context, Direction::ToServer, len);
                if bytes > 12 * full { context.turnaround() } else { context.pause() }
            }
            _ => {
                self.burst -= 1;
                let len = if self.burst == 0 { self.last } else { self.largest };
                self.short_header(context, Direction::ToClient, len);
                if self.burst == 0 {
                    context.about(context.round_trip)
                } else {
                    context.random.between(8 * MICROSECOND, 30 * MICROSECOND)
                }
            }
        }
    }

    fn long_header(&self, context: &mut Context<'_>, direction: Direction, len: u16) {
        let key = context.random.next();
        let [to, from] =
            [self.connection[direction.index()], self.connection[1 - direction.index()]];
        context.send_udp(direction, |room| {
            let len = usize::from(len);
            fill_at(key, 0, &mut room[..len]);
            let mut writer = Writer::new(room);
            // Initial packet, version 1, packet number of four bytes.
            writer.put8(0xc3);
            writer.put32(1);
            writer.put8(8);
            writer.put(&to.to_be_bytes());
            writer.put8(8);
            writer.put(&from.to_be_bytes());
            // No token; the length as a two-byte variable-length integer.
            writer.put8(0);
            let rest = len.saturating_sub(writer.len() + 2) as u16;
            writer.put16(0x4000 | rest);
            len
        });
    }

    fn short_header(&self, context: &mut Context<'_>, direction: Direction, len: u16) {
        let key = context.random.next();
        let to = self.connection[direction.index()];
        context.send_udp(direction, |room| {
            let len = usize::from(len);
            fill_at(key, 0, &mut room[..len]);
            let mut writer = Writer::new(room);
            writer.put8(0x40 | key as u8 & 0x3f);
            writer.put(&to.to_be_bytes());
            len
        });
    }
}
