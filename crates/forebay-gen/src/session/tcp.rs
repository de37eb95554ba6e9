//! TCP sessions (RFC 9293): handshake, transactions, losses, close.
//!
//! The capture is that of a tap between the ends. At most one segment of the present
//! message is missing at its receiver (a [`Hole`]): either it was lost after the tap, so
//! that it appears twice, or it was lost or overtaken before the tap, so that it appears
//! late. While it is missing, the receiver answers every segment with a duplicate
//! acknowledgement and one SACK block (RFC 2018). Acknowledgement numbers follow from that:
//! the hole's start while there is one, otherwise everything sent so far.
//!
//! Invariants: a session sends exactly the packets it is given. Packets for the close are
//! reserved, and the last packet before them fills a hole that is still open, so every
//! session ends with nothing missing.

use super::context::{Context, MICROSECOND, MILLISECOND};
use crate::headers::{Direction, TcpFlags, TcpHeader, TcpOptions};
use crate::path::Path;
use crate::payload::Message;
use forebay_packet::random::Random;

/// The course of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// SYNs without an answer.
    Filtered,
    /// SYN, answered by a reset.
    Refused,
    /// SYN, SYN-ACK, reset: a half-open scan.
    HalfOpen,
    /// A whole session.
    Whole,
}

/// The end of a complete session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Close {
    /// FIN, FIN, ACK.
    ThreeWay,
    /// FIN, ACK, FIN, ACK.
    FourWay,
    /// One reset.
    Reset,
    /// No end within the capture.
    Open,
}

impl Close {
    fn packets(self) -> u32 {
        match self {
            Self::ThreeWay => 3,
            Self::FourWay => 4,
            Self::Reset => 1,
            Self::Open => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Application {
    Http,
    Tls,
    Shell,
}

/// A segment missing at its receiver.
#[derive(Clone, Copy, Debug)]
struct Hole {
    /// Its offset in the message.
    offset: u32,
    len: u32,
    /// Further segments to send before it.
    wait: u8,
}

/// The state of one end.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// Next sequence number to send.
    next: u32,
    /// Offset of its time stamps, in milliseconds.
    clock: u32,
    /// Its latest time stamp.
    stamp: u32,
    window: u16,
    mss: u16,
}

const HANDSHAKE: u32 = 3;
/// Smallest and largest body of a response in bytes.
const RESPONSE: (u64, u64) = (1_000, 1 << 24);
const WINDOW_SHIFT: u8 = 7;
const INITIAL_BURST: u16 = 10;
const LARGEST_BURST: u16 = 64;
/// Of the segments with others after them, one in this many is lost or overtaken: about one
/// percent of all segments with data.
const LOSS: u64 = 45;
/// Duplicate acknowledgements before a retransmission (RFC 5681 section 3.2).
const DUPLICATES: u8 = 3;
/// Nanoseconds a byte at 1 Gbit/s.
const BYTE_TIME: u64 = 8;

/// A TCP session.
#[derive(Debug)]
pub struct Tcp {
    style: Style,
    close: Close,
    closer: Direction,
    application: Application,
    timestamps: bool,
    sides: [Side; 2],
    /// Packets sent of the handshake, then of the close.
    steps: u8,
    closing: bool,
    /// Payload bytes of a full segment.
    segment: u32,
    message: Message,
    sender: Direction,
    /// Sequence number of the message's first byte.
    start: u32,
    /// Bytes of the message sent or skipped.
    offset: u32,
    hole: Option<Hole>,
    exchange: u32,
    unacknowledged: u8,
    acknowledge: bool,
    burst: u16,
    burst_limit: u16,
}

impl Tcp {
    /// A session of `packets` packets.
    pub fn new(path: &mut Path, packets: u32, longest: usize, random: &mut Random) -> Self {
        let application = if packets < 400 && random.one_in(8) {
            Application::Shell
        } else if random.below(5) < 3 {
            Application::Tls
        } else {
            Application::Http
        };
        path.ports[1] = match application {
            Application::Http if random.one_in(4) => 8080,
            Application::Http => 80,
            Application::Tls => 443,
            Application::Shell => 22,
        };
        let timestamps = !random.one_in(8);
        let header = if timestamps { 32 } else { 20 };
        let segment = path.transport_limit(longest) as u32 - header;
        let (style, close) = choose_course(packets, random);
        Self {
            style,
            close,
            closer: direction_of(random.one_in(3)),
            application,
            timestamps,
            sides: [Side::new(segment, timestamps, random), Side::new(segment, timestamps, random)],
            steps: 0,
            closing: false,
            segment,
            message: Message::EMPTY,
            sender: Direction::ToClient,
            start: 0,
            offset: 0,
            hole: None,
            exchange: 0,
            unacknowledged: 0,
            acknowledge: false,
            burst: 0,
            burst_limit: INITIAL_BURST,
        }
    }

    /// Sends the next packet; returns the time to the one after it.
    pub fn step(&mut self, context: &mut Context<'_>) -> u64 {
        if !self.closing && u32::from(self.steps) < HANDSHAKE {
            return self.handshake(context);
        }
        let data = context.left.saturating_sub(self.close.packets());
        if !self.closing && data > 0 {
            return self.transfer(context, data);
        }
        if !self.closing {
            self.closing = true;
            self.steps = 0;
        }
        self.finish(context)
    }

    fn handshake(&mut self, context: &mut Context<'_>) -> u64 {
        let step = self.steps;
        self.steps += 1;
        match (step, self.style) {
            (_, Style::Filtered) => {
                self.synchronise(context, Direction::ToServer);
                // The next attempt starts from the same sequence number.
                self.sides[0].next = self.sides[0].next.wrapping_sub(1);
                context.about((context.round_trip * 4) << step)
            }
            (0, _) => {
                self.synchronise(context, Direction::ToServer);
                context.about(context.round_trip)
            }
            (1, Style::Refused) => {
                self.control(context, Direction::ToClient, TcpFlags::RESET_ACK);
                context.pause()
            }
            (1, _) => {
                self.synchronise(context, Direction::ToClient);
                context.turnaround()
            }
            (_, Style::HalfOpen) => {
                self.control(context, Direction::ToServer, TcpFlags::RESET);
                context.pause()
            }
            _ => {
                self.control(context, Direction::ToServer, TcpFlags::ACK);
                context.turnaround()
            }
        }
    }

    /// Sends SYN or SYN-ACK.
    fn synchronise(&mut self, context: &mut Context<'_>, direction: Direction) {
        let from = direction.index();
        let scan = matches!(self.style, Style::HalfOpen);
        let mut options = TcpOptions { mss: Some(self.sides[from].mss), ..TcpOptions::default() };
        if !scan {
            options.sack_permitted = true;
            options.window_scale = Some(WINDOW_SHIFT);
            options.timestamps = self.stamp(direction, context.now);
        }
        let (flags, acknowledgement) = match direction {
            Direction::ToServer => (TcpFlags::SYN, 0),
            Direction::ToClient => (TcpFlags::SYN_ACK, self.sides[0].next),
        };
        let header = TcpHeader {
            ports: context.path.ports(direction),
            sequence: self.sides[from].next,
            acknowledgement,
            flags,
            window: if scan { 1024 } else { 64_240 },
            options,
        };
        context.send_tcp(direction, &header, 0, |_| {});
        self.sides[from].next = self.sides[from].next.wrapping_add(1);
    }

    /// The time stamp option of the next segment, if the session uses it.
    fn stamp(&mut self, direction: Direction, now: u64) -> Option<[u32; 2]> {
        let from = direction.index();
        let echo = self.sides[1 - from].stamp;
        let side = &mut self.sides[from];
        side.stamp = side.clock.wrapping_add((now / MILLISECOND) as u32);
        self.timestamps.then_some([side.stamp, echo])
    }

    /// The bytes received without a gap by the sender of this direction.
    fn received(&self, direction: Direction) -> u32 {
        match self.hole {
            Some(hole) if self.sender != direction => self.start.wrapping_add(hole.offset),
            _ => self.sides[1 - direction.index()].next,
        }
    }

    /// Sends a segment without payload.
    fn control(&mut self, context: &mut Context<'_>, direction: Direction, flags: TcpFlags) {
        let resets = flags.0 & TcpFlags::RESET.0 != 0;
        let mut options = TcpOptions::default();
        if !resets {
            options.timestamps = self.stamp(direction, context.now);
            options.sack = self.block(direction);
        }
        let acknowledges = flags.0 & TcpFlags::ACK.0 != 0;
        // A refusal comes from an end without its own sequence numbers.
        let sequence = match (self.style, direction) {
            (Style::Refused, Direction::ToClient) => 0,
            _ => self.sides[direction.index()].next,
        };
        let header = TcpHeader {
            ports: context.path.ports(direction),
            sequence,
            acknowledgement: if acknowledges { self.received(direction) } else { 0 },
            flags,
            window: if resets { 0 } else { self.sides[direction.index()].window },
            options,
        };
        context.send_tcp(direction, &header, 0, |_| {});
    }

    /// The SACK block after a hole, if the receiver has one.
    fn block(&self, direction: Direction) -> Option<[u32; 2]> {
        let hole = self.hole.filter(|_| self.sender != direction)?;
        let left = self.start.wrapping_add(hole.offset + hole.len);
        let right = self.sides[self.sender.index()].next;
        (left != right).then_some([left, right])
    }

    /// Sends one packet between handshake and close, `left` of which remain.
    fn transfer(&mut self, context: &mut Context<'_>, left: u32) -> u64 {
        let complete = self.offset == self.message.len();
        match self.hole {
            Some(hole) if left == 1 => return self.fill(context, hole),
            _ if self.acknowledge => return self.acknowledge(context, complete),
            Some(hole) if hole.wait == 0 || complete => return self.fill(context, hole),
            _ => {}
        }
        if complete {
            self.next_message(context, left);
        }
        let mut len = self.segment.min(self.message.len() - self.offset);
        let follows = self.message.len() - self.offset - len;
        let mut lost = false;
        if self.hole.is_none() && follows > 0 && left > 8 && context.random.one_in(LOSS) {
            let mut hole = Hole { offset: self.offset, len, wait: DUPLICATES };
            lost = context.random.one_in(2);
            if !lost {
                hole.wait = context.random.between(1, 3) as u8;
                self.offset += len;
                len = self.segment.min(follows);
            }
            self.hole = Some(hole);
        }
        self.segment(context, self.offset, len);
        self.offset += len;
        self.sides[self.sender.index()].next = self.start.wrapping_add(self.offset);
        if let Some(hole) = self.hole.as_mut().filter(|_| !lost) {
            hole.wait = hole.wait.saturating_sub(1);
        }
        if !lost {
            self.owe(context);
        }
        self.gap_after_segment(context, len)
    }

    /// Adds a segment to be acknowledged by the receiver.
    fn owe(&mut self, context: &mut Context<'_>) {
        self.unacknowledged += 1;
        let complete = self.offset == self.message.len();
        // A server usually responds at once, and its response acknowledges.
        let answered = self.sender == Direction::ToServer && !context.random.one_in(4);
        self.acknowledge =
            self.unacknowledged >= 2 || self.hole.is_some() || (complete && !answered);
    }

    fn acknowledge(&mut self, context: &mut Context<'_>, complete: bool) -> u64 {
        self.control(context, self.sender.reverse(), TcpFlags::ACK);
        self.acknowledge = false;
        self.unacknowledged = 0;
        if complete && self.hole.is_none() {
            return context.pause();
        }
        context.turnaround()
    }

    /// Sends the missing segment, late or again.
    fn fill(&mut self, context: &mut Context<'_>, hole: Hole) -> u64 {
        self.hole = None;
        self.segment(context, hole.offset, hole.len);
        self.unacknowledged = 1;
        self.acknowledge = true;
        context.turnaround()
    }

    /// Sends `len` bytes of the message.
    fn segment(&mut self, context: &mut Context<'_>, offset: u32, len: u32) {
        let direction = self.sender;
        let ends_message = offset + len == self.message.len();
        let options =
            TcpOptions { timestamps: self.stamp(direction, context.now), ..TcpOptions::default() };
        let header = TcpHeader {
            ports: context.path.ports(direction),
            sequence: self.start.wrapping_add(offset),
            acknowledgement: self.received(direction),
            flags: if ends_message { TcpFlags::PUSH_ACK } else { TcpFlags::ACK },
            window: self.sides[direction.index()].window,
            options,
        };
        let message = &self.message;
        context.send_tcp(direction, &header, len as usize, |room| message.write(offset, room));
    }

    fn gap_after_segment(&mut self, context: &mut Context<'_>, len: u32) -> u64 {
        if self.offset == self.message.len() {
            return match self.acknowledge {
                true => context.turnaround(),
                false => context.about(context.round_trip),
            };
        }
        self.burst += 1;
        if self.burst >= self.burst_limit {
            self.burst = 0;
            self.burst_limit = (self.burst_limit * 2).min(LARGEST_BURST);
            return context.about(context.round_trip);
        }
        u64::from(len) * BYTE_TIME + context.random.below(4 * MICROSECOND)
    }

    /// Starts the next message of the application, small enough that `left`
    /// packets are likely to suffice for it and its acknowledgements.
    fn next_message(&mut self, context: &mut Context<'_>, left: u32) {
        let exchange = self.exchange;
        self.exchange += 1;
        let seed = context.random.next();
        let left = u64::from(left);
        let segments = (left * 2 / 3).saturating_sub(left / 32).max(1);
        let room = segments * u64::from(self.segment);
        let size = |random: &mut Random, low: u64, high: u64| {
            random.pareto(low, high).min(room.saturating_sub(400).max(100)) as u32
        };
        let random = &mut *context.random;
        let (server, message) = match (self.application, exchange) {
            (Application::Http, k) if k % 2 == 0 => {
                let body = if random.one_in(12) { size(random, 200, 1 << 20) } else { 0 };
                (false, Message::http_request(seed, body))
            }
            (Application::Http, _) => {
                (true, Message::http_response(seed, size(random, RESPONSE.0, RESPONSE.1)))
            }
            (Application::Tls, 0) => (false, Message::client_hello(seed)),
            (Application::Tls, 1) => {
                (true, Message::server_flight(seed, random.between(1_800, 4_800) as u16))
            }
            (Application::Tls, 2) => (false, Message::client_finished(seed)),
            (Application::Tls, k) if k % 2 == 1 => {
                let low = if random.one_in(12) { 2_000 } else { 80 };
                (false, Message::records(seed, size(random, low, low * 20)))
            }
            (Application::Tls, _) => {
                (true, Message::records(seed, size(random, RESPONSE.0, RESPONSE.1)))
            }
            (Application::Shell, k) => {
                let server = k % 2 == 1;
                let longest = if server { 4_000 } else { 100 };
                (server, Message::opaque(seed, size(random, 36, longest)))
            }
        };
        let sender = direction_of(server);
        if sender != self.sender {
            // The answer acknowledges the question.
            self.unacknowledged = 0;
        }
        self.sender = sender;
        self.message = message;
        self.start = self.sides[sender.index()].next;
        self.offset = 0;
    }

    /// Sends one packet of the close.
    fn finish(&mut self, context: &mut Context<'_>) -> u64 {
        let step = self.steps;
        self.steps = self.steps.saturating_add(1);
        let (first, second) = (self.closer, self.closer.reverse());
        let (direction, flags) = match (self.close, step) {
            (Close::Reset, _) => (first, TcpFlags::RESET_ACK),
            (_, 0) => (first, TcpFlags::FIN_ACK),
            (Close::ThreeWay, 1) | (Close::FourWay, 2) => (second, TcpFlags::FIN_ACK),
            (Close::FourWay, 1) => (second, TcpFlags::ACK),
            _ => (first, TcpFlags::ACK),
        };
        self.control(context, direction, flags);
        if flags == TcpFlags::FIN_ACK {
            let side = &mut self.sides[direction.index()];
            side.next = side.next.wrapping_add(1);
        }
        if direction == first { context.about(context.round_trip) } else { context.turnaround() }
    }
}

impl Side {
    fn new(segment: u32, timestamps: bool, random: &mut Random) -> Self {
        // The option announces what fits without options (RFC 6691).
        let mss = segment + if timestamps { 12 } else { 0 };
        Self {
            next: random.next() as u32,
            clock: random.next() as u32,
            stamp: 0,
            window: random.between(250, 2_000) as u16,
            mss: mss as u16,
        }
    }
}

fn direction_of(from_server: bool) -> Direction {
    if from_server { Direction::ToClient } else { Direction::ToServer }
}

/// A beginning and an end for which `packets` packets suffice.
fn choose_course(packets: u32, random: &mut Random) -> (Style, Close) {
    match packets {
        1 => (Style::Filtered, Close::Open),
        2 if random.one_in(4) => (Style::Filtered, Close::Open),
        2 => (Style::Refused, Close::Open),
        3 if random.one_in(3) => (Style::Filtered, Close::Open),
        3 => (Style::HalfOpen, Close::Open),
        4..=6 => (Style::Whole, Close::Reset),
        _ => {
            let closes = [Close::ThreeWay, Close::FourWay, Close::Reset, Close::Open];
            (Style::Whole, closes[random.weighted(&[70, 15, 10, 5])])
        }
    }
}
