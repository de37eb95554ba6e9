//! Core-stateless fair queueing.
//!
//! The edge of a network estimates the rate of each flow and labels its packets with it. The core
//! knows no flows: it estimates the rate *α* that each flow may have so that the link is just
//! full, and drops a packet labelled *r* with the probability max(0, 1 − *α*/*r*). What passes of
//! a flow then has the rate min(*r*, *α*), which is its new label. [`Csfq::label`] is the edge,
//! [`Csfq::forward`] the core. A flow of weight *w* has a label of rate/*w*.
//!
//! # The state of a flow
//!
//! Exponential averaging takes a flow's rate and the time of its last packet. The paper of the
//! two bytes (see [`super`]) stores the rate alone, as a multiple of 1/65,536 of the link's, and
//! leaves open where the time is. Here 12 of the 16 bits are the rate and 4 the time:
//!
//! - The rate is on a logarithmic scale from 1/65,536 of the link's rate to 16 times that, in
//!   steps of 0.34%. It is rounded up or down at random, so that its expectation is exact and
//!   many small increments are not lost; the deviation of a steady flow is about 4%.
//! - The time is that of the last packet in units of a quarter of the averaging time *K*, modulo
//!   16. At a packet of *l* bits, with *x* = a quarter of the units that have begun since, the
//!   rate *r* becomes e^(−*x*)*r* + (1 − e^(−*x*))/*x* · *l*/*K*: exponential averaging as in
//!   equation (3) of Stoica et al., with times in whole units.
//! - A flow that is silent for more than 4 *K* may be taken for one that was silent for less. It
//!   then starts from up to its old rate and not from 0, and is right after *K*.

use forebay_packet::random::Random;

use super::fifo::Fifo;
use super::link::Discipline;
use super::{Count, LinkOptions, Packet, PolicyError, Reason, Waiting, unit};

/// Units of time in the averaging time.
const UNITS: f64 = 4.0;
/// Units of time that a state tells apart.
const TIMES: u64 = 16;
const RATE_BITS: u32 = 12;
/// The largest code of a rate; 0 is no rate.
const MOST_CODE: u16 = (1 << RATE_BITS) - 1;
/// Rates of the smallest and the largest code, as powers of two of the link's rate.
const LEAST_POWER: f64 = -16.0;
const MOST_POWER: f64 = 4.0;
/// The most that α falls between two updates because the buffer overflows, and by each packet
/// (Stoica et al., section 3.3).
const LEAST_OF_UPDATE: f64 = 0.75;
const OVERFLOW: f64 = 0.99;

/// The properties of [`Csfq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsfqOptions {
    /// The averaging time *K* of flows' rates in nanoseconds; the fair share is estimated over
    /// twice that.
    pub window: u64,
}

impl Default for CsfqOptions {
    /// 100 ms, as Stoica et al.
    fn default() -> Self {
        Self { window: 100_000_000 }
    }
}

/// A rate by exponential averaging.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    bits_per_second: f64,
    at: u64,
}

impl Rate {
    /// Adds `bits` at `now`; `window` is the averaging time in nanoseconds.
    fn add(&mut self, now: u64, bits: f64, window: f64) {
        let gap = now.saturating_sub(self.at) as f64 / window;
        self.bits_per_second = averaged(self.bits_per_second, gap, bits, window);
        self.at = now;
    }
}

/// A rate in bits a second with `bits` more, `gap` times the averaging time after the last ones;
/// `window` is the averaging time in nanoseconds.
fn averaged(rate: f64, gap: f64, bits: f64, window: f64) -> f64 {
    // (1 - e^-x) / x, which is 1 for packets at the same time.
    let part = if gap > 0.0 { -(-gap).exp_m1() / gap } else { 1.0 };
    rate * (-gap).exp() + part * bits * 1e9 / window
}

/// Core-stateless fair queueing: labels packets with the rates of their flows, and drops them in
/// proportion to the excess over the fair share.
#[derive(Debug)]
pub struct Csfq {
    /// The link's rate in bits a second.
    capacity: f64,
    window: u64,
    /// The estimated fair share α in bits a second.
    fair_share: f64,
    /// Below this it does not fall until it is estimated again.
    least: f64,
    arrived: Rate,
    accepted: Rate,
    is_congested: bool,
    /// The begin of the present estimation.
    since: Option<u64>,
    /// The largest label in it, while the link is not congested.
    largest: f64,
}

impl Csfq {
    /// A link of this many bits a second.
    ///
    /// # Errors
    /// Options out of bounds.
    pub fn new(options: CsfqOptions, rate: u64) -> Result<Self, PolicyError> {
        let CsfqOptions { window } = options;
        if !(1_000_000..=10_000_000_000).contains(&window) {
            return Err(PolicyError::Window(window));
        }
        let capacity = rate.max(1) as f64;
        Ok(Self {
            capacity,
            window,
            fair_share: capacity,
            least: capacity * LEAST_OF_UPDATE,
            arrived: Rate::default(),
            accepted: Rate::default(),
            is_congested: false,
            since: None,
            largest: 0.0,
        })
    }

    /// The estimated fair share of a flow of weight 1 in bits a second.
    #[must_use]
    pub fn fair_share(&self) -> f64 {
        self.fair_share
    }

    /// The rate in a state, in bits a second, of a flow of weight 1.
    #[must_use]
    pub fn rate(&self, state: u16) -> f64 {
        self.decoded(state & MOST_CODE)
    }

    /// The edge: counts a packet in its flow's state and returns its label in bits a second.
    pub fn label(&self, packet: &Packet, state: &mut u16, random: &mut Random) -> f64 {
        let unit_len = self.window / UNITS as u64;
        let time = packet.at / unit_len % TIMES;
        let passed = time.wrapping_sub(u64::from(*state >> RATE_BITS)) % TIMES;
        let bits = f64::from(packet.len) * 8.0 / f64::from(packet.weight.max(1));
        let rate = averaged(self.rate(*state), passed as f64 / UNITS, bits, self.window as f64);
        let code = self.encoded(rate, random);
        *state = (time as u16) << RATE_BITS | code;
        // In a unit, the rate of a steady flow rises from `begin` times its true value, as it
        // decays only at the end.
        let decay = (-1.0 / UNITS).exp();
        let begin = decay / UNITS / (1.0 - decay);
        self.decoded(code) / (begin + (packet.at % unit_len) as f64 / unit_len as f64 / UNITS)
    }

    /// The core: the new label of a packet of `len` bytes that arrives at `now`, or none if it is
    /// dropped. While the link is not congested, no packet is.
    pub fn forward(&mut self, now: u64, label: f64, len: u32, random: &mut Random) -> Option<f64> {
        let (bits, window) = (f64::from(len) * 8.0, 2.0 * self.window as f64);
        self.arrived.add(now, bits, window);
        let passes = !self.is_congested || unit(random) * label < self.fair_share;
        if passes {
            self.accepted.add(now, bits, window);
        }
        self.estimate(now, label);
        passes.then(|| label.min(self.fair_share))
    }

    /// A packet that was forwarded found the buffer full.
    pub fn overflow(&mut self) {
        self.fair_share = (self.fair_share * OVERFLOW).max(self.least);
    }

    /// Updates the fair share (Stoica et al., figure 3).
    fn estimate(&mut self, now: u64, label: f64) {
        let since = *self.since.get_or_insert(now);
        let is_over = now.saturating_sub(since) >= 2 * self.window;
        let (was_congested, is_congested) =
            (self.is_congested, self.arrived.bits_per_second >= self.capacity);
        self.is_congested = is_congested;
        match (was_congested, is_congested) {
            (false, true) => self.since = Some(now),
            (true, true) if is_over => {
                let accepted = self.accepted.bits_per_second.max(1.0);
                self.set_fair_share(self.fair_share * self.capacity / accepted);
                self.since = Some(now);
            }
            (true, true) => {}
            (true, false) => (self.since, self.largest) = (Some(now), label),
            (false, false) => {
                self.largest = self.largest.max(label);
                if is_over {
                    self.set_fair_share(self.largest);
                    (self.since, self.largest) = (Some(now), 0.0);
                }
            }
        }
    }

    fn set_fair_share(&mut self, rate: f64) {
        // Less than a code can express is no rate.
        self.fair_share = rate.clamp(self.capacity * LEAST_POWER.exp2(), self.capacity);
        self.least = self.fair_share * LEAST_OF_UPDATE;
    }

    /// The rate of a code.
    fn decoded(&self, code: u16) -> f64 {
        if code == 0 {
            return 0.0;
        }
        let step = (MOST_POWER - LEAST_POWER) / f64::from(MOST_CODE - 1);
        self.capacity * (LEAST_POWER + step * f64::from(code - 1)).exp2()
    }

    /// One of the two codes around a rate, at random, so that the expected rate is exact.
    fn encoded(&self, rate: f64, random: &mut Random) -> u16 {
        let step = (MOST_POWER - LEAST_POWER) / f64::from(MOST_CODE - 1);
        let place = ((rate / self.capacity).log2() - LEAST_POWER) / step + 1.0;
        // A rate of 0 is at minus infinity; the conversion saturates.
        let code = (place as u16).min(MOST_CODE - 1);
        let (low, high) = (self.decoded(code), self.decoded(code + 1));
        code + u16::from(unit(random) * (high - low) < rate - low)
    }
}

/// [`Csfq`], edge and core, before a buffer.
#[derive(Debug)]
pub(super) struct CsfqQueue {
    csfq: Csfq,
    fifo: Fifo,
    random: Random,
}

impl CsfqQueue {
    pub(super) fn new(options: CsfqOptions, link: &LinkOptions) -> Result<Self, PolicyError> {
        let csfq = Csfq::new(options, link.rate)?;
        Ok(Self { csfq, fifo: Fifo::new(link.buffer), random: Random::new(link.seed) })
    }
}

impl Discipline for CsfqQueue {
    fn arrive(
        &mut self,
        packet: &Packet,
        state: &mut u16,
        dropped: &mut dyn FnMut(Waiting, Reason),
    ) {
        let waiting = Waiting::new(packet);
        let label = match packet.label {
            Some(label) => label,
            None => self.csfq.label(packet, state, &mut self.random),
        };
        if self.csfq.forward(packet.at, label, packet.len, &mut self.random).is_none() {
            dropped(waiting, Reason::FairShare);
        } else if !self.fifo.push(waiting) {
            self.csfq.overflow();
            dropped(waiting, Reason::BufferFull);
        }
    }

    fn next(&mut self, _: u64) -> Option<Waiting> {
        self.fifo.pop()
    }

    fn waiting(&self) -> Count {
        self.fifo.waiting()
    }

    fn taken(&self) -> u64 {
        self.fifo.taken()
    }

    /// The rate in bits a second.
    fn reading(&self, state: u16) -> u64 {
        self.csfq.rate(state) as u64
    }

    fn fair_share(&self) -> Option<f64> {
        Some(self.csfq.fair_share())
    }
}
