//! Policies for packets of many flows at a link that is too slow for all of them.
//!
//! [`SharedLink`] is a link of a given rate behind a buffer, with one of three policies:
//!
//! - [`Red`], random early detection with a threshold for each flow: Floyd and Jacobson, "Random
//!   Early Detection Gateways for Congestion Avoidance", IEEE/ACM ToN 1(4), 1993;
//! - [`Csfq`], core-stateless fair queueing: Stoica, Shenker and Zhang, SIGCOMM 1998;
//! - deficit round robin (DRR): Shreedhar and Varghese, SIGCOMM 1995.
//!
//! A flow has two bytes of state, as in section 2.2 of Ata, Murata and Miyahara, "Study on
//! Efficient Cache Structures Providing Policy-Based Services in IP Routers" (2000): a threshold
//! in units of 4 bytes for RED, a rate for CSFQ, a quantum in bytes for DRR. State 0 is a flow
//! without packets so far. The policies themselves do not find flows and read no clock: each
//! packet comes with its time, the number of its flow, and the flow's state.

mod csfq;
mod drr;
mod fifo;
mod link;
mod queue_series;
mod red;
mod shares;

pub use csfq::{Csfq, CsfqOptions};
pub use drr::DrrOptions;
pub use link::{Bottleneck, LinkOptions, Policy};
pub use queue_series::QueueSeries;
pub use red::{Red, RedOptions};
pub use shares::{Fairness, FlowShare, SharedLink};

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use forebay_packet::random::Random;

/// The least room that a packet takes in a buffer: an Ethernet header. It bounds the number of
/// packets in a buffer.
const LEAST_ROOM: u32 = 14;

/// Why a policy cannot be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// A link without a rate, or a faster one than times in nanoseconds allow.
    #[error("a rate of {0} bit/s: expected 1 bit/s to 1 Tbit/s")]
    Rate(u64),
    /// A buffer that holds no packet, or too many.
    #[error("a buffer of {0} bytes: expected 64 bytes to 1 GiB")]
    Buffer(u64),
    /// Thresholds out of bounds.
    #[error(
        "thresholds of {min} and {max} bytes: expected a lower one of 4 to {} bytes, and an upper \
         one above it",
        red::MOST_THRESHOLD
    )]
    Thresholds {
        /// The lower one.
        min: u32,
        /// The upper one.
        max: u32,
    },
    /// A probability out of bounds.
    #[error("the probability at the upper threshold: expected above 0, and at most 1")]
    Probability,
    /// An averaging time out of bounds.
    #[error("an averaging time of {0} ns: expected 1 ms to 10 s")]
    Window(u64),
    /// A quantum that takes too many rounds for a packet.
    #[error("a quantum of {0} bytes: expected 256 to 65535 bytes")]
    Quantum(u16),
}

/// The congestion signal in a packet's IP header (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ecn {
    /// The sender does not react to marks.
    #[default]
    NotCapable,
    /// The sender reacts to marks.
    Capable,
    /// The packet was marked on its way.
    Experienced,
}

impl Ecn {
    /// The signal in a type of service (IPv4) or traffic class (IPv6).
    #[must_use]
    pub fn of_class(class: u8) -> Self {
        match class & 3 {
            0 => Self::NotCapable,
            3 => Self::Experienced,
            _ => Self::Capable,
        }
    }
}

/// A packet that arrives at a link.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When, in nanoseconds since any time.
    pub at: u64,
    /// The number of its flow.
    pub flow: u32,
    /// Its length in bytes.
    pub len: u32,
    /// Its congestion signal.
    pub ecn: Ecn,
    /// The weight of its class, at least 1: the share of its flow relative to others.
    pub weight: u16,
    /// Its label in bits a second, if it has one: CSFQ decides by it, and does not estimate the
    /// rate of its flow.
    pub label: Option<f64>,
}

/// A policy's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The packet passes.
    Pass,
    /// The packet passes with a congestion mark.
    Mark,
    /// The packet is dropped.
    Drop(Reason),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// RED: by chance, as the average queue is above the flow's threshold.
    Early,
    /// RED: as the average queue is above twice the flow's upper threshold.
    Forced,
    /// CSFQ: by chance, as the flow's rate is above the fair share.
    FairShare,
    /// The buffer is full.
    BufferFull,
    /// DRR: the packet is longer than a deficit can be.
    TooLong,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] =
        [Self::Early, Self::Forced, Self::FairShare, Self::BufferFull, Self::TooLong];

    /// The name in ledgers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Early => "early",
            Self::Forced => "forced",
            Self::FairShare => "fair_share",
            Self::BufferFull => "buffer_full",
            Self::TooLong => "too_long",
        }
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The number of its flow.
    pub flow: u32,
    /// Its length in bytes.
    pub len: u32,
    /// Sent, sent with a mark, or dropped.
    pub verdict: Verdict,
}

/// A number of packets, and their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Count {
    /// One packet of this length.
    #[must_use]
    pub fn of(len: u32) -> Self {
        Self { packets: 1, bytes: u64::from(len) }
    }

    fn remove(&mut self, len: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(len);
    }
}

impl Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), Add::add)
    }
}

/// What became of all packets of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Arrived.
    pub offered: Count,
    /// Sent without a mark.
    pub delivered: Count,
    /// Sent with a mark.
    pub marked: Count,
    /// Dropped, in the order of [`Reason::ALL`].
    pub dropped: [Count; Reason::ALL.len()],
    /// In the buffer, or being sent.
    pub queued: Count,
    /// Of those offered: packets with a time before that of an earlier packet. They count as
    /// arrived together with it.
    pub late: u64,
}

impl Totals {
    /// Whether each packet that arrived is accounted for.
    #[must_use]
    pub fn closes(&self) -> bool {
        let dropped = self.dropped.iter().copied().sum();
        self.offered == self.delivered + self.marked + dropped + self.queued
    }

    /// Sent, with or without a mark.
    #[must_use]
    pub fn sent(&self) -> Count {
        self.delivered + self.marked
    }
}

/// A packet in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    flow: u32,
    len: u32,
    is_marked: bool,
}

impl Waiting {
    fn new(packet: &Packet) -> Self {
        Self { flow: packet.flow, len: packet.len, is_marked: false }
    }

    /// Bytes that the packet takes in a buffer.
    fn room(&self) -> u64 {
        u64::from(self.len.max(LEAST_ROOM))
    }
}

/// A random number in [0, 1).
fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}
