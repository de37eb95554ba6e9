//! Flows that begin at random, last for a random time and have Zipf sizes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_balance::moves::TcpSignal;
use forebay_packet::{HashKey, random, siphash13};

pub const SECOND: u64 = 1_000_000_000;

/// Random numbers of several distributions.
pub struct Random(random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Above 0, at most 1.
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.unit() * n as f64) as u64 % n
    }

    /// Exponential, with that mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

/// Keys with this bit fall into one bucket.
pub const AIMED: u64 = 1 << 59;

/// The hash of a key, as the broker would compute it.
pub fn hash_of(key: u64) -> u64 {
    let hash = siphash13(&HashKey([7, 11]), &[key]);
    if key & AIMED == 0 { hash } else { 0xabcd << 48 | hash >> 16 }
}

pub fn bucket_of_key(key: u64) -> u16 {
    forebay_balance::bucket_of(hash_of(key))
}

/// What flows are like.
#[derive(Clone, Copy)]
pub struct Profile {
    /// Flows that begin each second.
    pub flows: f64,
    /// Seconds that a flow lasts on the average; infinite: for ever.
    pub life: f64,
    /// The most packets of a flow of average life.
    pub largest: u64,
    /// Whether flows end as TCP connections do.
    pub ends: bool,
}

/// A packet to come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packet {
    pub time: u64,
    pub key: u64,
    /// Packets of the flow after this.
    left: u64,
    /// Mean nanoseconds between its packets.
    gap: u64,
    pub bytes: u32,
    /// When its flow began.
    pub begun: u64,
    pub is_first: bool,
}

impl Packet {
    /// The same packet of a flow of its own.
    pub fn with_key(self, key: u64) -> Self {
        Self { key, ..self }
    }

    /// What the packet says of its connection: the last two packets are the FINs.
    pub fn signal(&self, profile: &Profile) -> TcpSignal {
        match self.left {
            _ if !profile.ends => TcpSignal::Nothing,
            _ if self.is_first => TcpSignal::BareSyn,
            1 => TcpSignal::LowFin,
            0 => TcpSignal::HighFin,
            _ => TcpSignal::Nothing,
        }
    }
}

/// The packets of all flows, in the order of time.
pub struct Traffic {
    pub profile: Profile,
    random: Random,
    coming: BinaryHeap<Reverse<Packet>>,
    next_flow: u64,
    keys: u64,
}

impl Traffic {
    pub fn new(profile: Profile, seed: u64) -> Self {
        let mut traffic = Self {
            profile,
            random: Random::new(seed),
            coming: BinaryHeap::new(),
            next_flow: 0,
            keys: seed << 40,
        };
        if profile.life.is_infinite() {
            for _ in 0..profile.flows as u64 {
                traffic.begin(0);
            }
            traffic.next_flow = u64::MAX;
        }
        traffic
    }

    /// Traffic of which all keys fall into one bucket.
    pub fn aimed(profile: Profile, seed: u64) -> Self {
        let mut traffic = Self::new(profile, seed);
        traffic.keys |= AIMED;
        traffic
    }

    /// No flow begins any more.
    pub fn stop(&mut self) {
        self.next_flow = u64::MAX;
    }

    fn begin(&mut self, time: u64) {
        self.keys += 1;
        // Zipf with exponent 1.5, by inversion of the continuous law, cut at the largest.
        let size = (self.random.unit().powi(-2) as u64).clamp(1, self.profile.largest);
        let lasts = self.profile.life.is_infinite();
        let life = if lasts { 1.0 } else { self.random.exponential(self.profile.life) };
        let gap = ((life * SECOND as f64) as u64 / size).max(1_000);
        let left = if lasts { u64::MAX } else { size };
        let bytes = 60 + self.random.below(1_400) as u32;
        let packet = Packet { time, key: self.keys, left, gap, bytes, begun: time, is_first: true };
        self.coming.push(Reverse(packet));
    }

    /// The next packet, if it comes before `end`.
    pub fn next_before(&mut self, end: u64) -> Option<Packet> {
        while self.next_flow < end
            && self.coming.peek().is_none_or(|Reverse(packet)| packet.time >= self.next_flow)
        {
            self.begin(self.next_flow);
            let pause = self.random.exponential(1.0 / self.profile.flows);
            self.next_flow += (pause * SECOND as f64) as u64;
        }
        let next = self.coming.peek().is_some_and(|Reverse(packet)| packet.time < end);
        let Reverse(packet) = if next { self.coming.pop()? } else { return None };
        if packet.left > 0 {
            let gap = self.random.exponential(packet.gap as f64) as u64;
            let later = Packet {
                time: packet.time + gap,
                left: packet.left - 1,
                is_first: false,
                ..packet
            };
            self.coming.push(Reverse(later));
        }
        Some(packet)
    }
}
