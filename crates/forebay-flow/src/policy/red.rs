//! Random early detection with a threshold for each flow.
//!
//! A flow's state is its lower threshold in units of 4 bytes, so that 16 bits express up to
//! 256 KiB, as in section 2.2 of the paper (see [`super`]). The upper threshold is as many times
//! the lower one for all flows. For an average queue *q* between a flow's thresholds *a* and *b*,
//! the probability is *p* = *m*(*q* − *a*)/(*b* − *a*); between *b* and 2*b* it rises from *m* to
//! 1 ("gentle", Floyd 2000); beyond it is 1. A packet is chosen with the probability *p*/(1 −
//! *np*), where *n* packets have passed since the last one that was chosen: so the gaps are
//! uniform on 1 to 1/*p* packets, not geometric. The probability does not depend on the length of
//! the packet (RFC 7141, section 2.3).
//!
//! A chosen packet is marked instead of dropped if its sender is capable of ECN and the average
//! is below the upper threshold.

use forebay_packet::random::Random;

use super::fifo::Fifo;
use super::link::Discipline;
use super::{Count, Ecn, LinkOptions, Packet, PolicyError, Reason, Verdict, Waiting, unit};

/// Bytes of a unit of the state.
const UNIT: u32 = 4;

/// The largest lower threshold, in bytes.
pub(super) const MOST_THRESHOLD: u32 = u16::MAX as u32 * UNIT;

/// The weight of a packet's sample in the average, w_q of Floyd and Jacobson.
const SAMPLE: f64 = 0.002;

/// The length of packets that could have arrived while the link was idle, in bytes.
const TYPICAL: f64 = 1000.0;

/// The properties of [`Red`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedOptions {
    /// The lower threshold of a flow of weight 1 in bytes; a flow of weight *w* has *w* times
    /// that, up to 262,140.
    pub min: u32,
    /// The upper threshold in bytes, likewise.
    pub max: u32,
    /// The probability at the upper threshold.
    pub probability: f64,
}

impl RedOptions {
    /// The usual values for a buffer of this many bytes: thresholds at an eighth and three
    /// eighths of it, a tenth of the packets at the upper one (Floyd, 1997).
    #[must_use]
    pub fn for_buffer(buffer: u64) -> Self {
        let min = (buffer / 8).clamp(UNIT.into(), MOST_THRESHOLD.into()) as u32;
        Self { min, max: 3 * min, probability: 0.1 }
    }
}

/// Random early detection: chooses packets to drop or mark by the average length of a queue.
#[derive(Debug)]
pub struct Red {
    options: RedOptions,
    /// Time to send a packet of [`TYPICAL`] length, in nanoseconds.
    typical_time: f64,
    /// The average queue in bytes.
    average: f64,
    /// Packets that passed since one was chosen, while the average was above the threshold.
    passed: u64,
    /// Since when the link has been idle.
    idle_since: Option<u64>,
}

impl Red {
    /// A queue that has been empty, before a link of this many bits a second.
    ///
    /// # Errors
    /// Options out of bounds.
    pub fn new(options: RedOptions, rate: u64) -> Result<Self, PolicyError> {
        let RedOptions { min, max, probability } = options;
        if !(UNIT..=MOST_THRESHOLD).contains(&min) || max <= min {
            return Err(PolicyError::Thresholds { min, max });
        }
        if !(probability > 0.0 && probability <= 1.0) {
            return Err(PolicyError::Probability);
        }
        let typical_time = TYPICAL * 8e9 / rate.max(1) as f64;
        Ok(Self { options, typical_time, average: 0.0, passed: 0, idle_since: None })
    }

    /// The average queue in bytes.
    #[must_use]
    pub fn average(&self) -> f64 {
        self.average
    }

    /// The probability for packets of a flow with this state, apart from their spacing.
    #[must_use]
    pub fn probability(&self, state: u16) -> f64 {
        let (min, max) = self.thresholds(state);
        let (average, at_max) = (self.average, self.options.probability);
        match average {
            _ if average < min => 0.0,
            _ if average < max => at_max * (average - min) / (max - min),
            _ => (at_max + (1.0 - at_max) * (average - max) / max).min(1.0),
        }
    }

    /// The link has nothing to send from `now` on.
    pub fn idle(&mut self, now: u64) {
        self.idle_since.get_or_insert(now);
    }

    /// A packet arrives while `queue` bytes wait.
    pub fn packet(
        &mut self,
        packet: &Packet,
        state: &mut u16,
        queue: u64,
        random: &mut Random,
    ) -> Verdict {
        if *state == 0 {
            let threshold = u64::from(self.options.min / UNIT) * u64::from(packet.weight.max(1));
            *state = threshold.min(u16::MAX.into()) as u16;
        }
        self.sample(packet.at, queue);
        if self.average < f64::from(self.options.min / UNIT * UNIT) {
            // No flow has a lower threshold.
            self.passed = 0;
            return Verdict::Pass;
        }
        let probability = self.probability(*state);
        if probability <= 0.0 {
            return Verdict::Pass;
        }
        let rest = 1.0 - self.passed as f64 * probability;
        if unit(random) * rest >= probability {
            self.passed += 1;
            return Verdict::Pass;
        }
        self.passed = 0;
        let may_mark = packet.ecn != Ecn::NotCapable && self.average < self.thresholds(*state).1;
        match may_mark {
            true => Verdict::Mark,
            false if probability < 1.0 => Verdict::Drop(Reason::Early),
            false => Verdict::Drop(Reason::Forced),
        }
    }

    /// The thresholds of a flow in bytes.
    fn thresholds(&self, state: u16) -> (f64, f64) {
        let min = f64::from(state) * f64::from(UNIT);
        (min, min * f64::from(self.options.max) / f64::from(self.options.min))
    }

    /// Takes a sample of the queue into the average. After a time in which the link was idle,
    /// the average is as if that many typical packets had found an empty queue.
    fn sample(&mut self, now: u64, queue: u64) {
        match self.idle_since.take() {
            Some(since) => {
                let packets = now.saturating_sub(since) as f64 / self.typical_time;
                self.average *= (packets * (-SAMPLE).ln_1p()).exp();
            }
            None => self.average += SAMPLE * (queue as f64 - self.average),
        }
    }
}

/// [`Red`] before a buffer.
#[derive(Debug)]
pub(super) struct RedQueue {
    red: Red,
    fifo: Fifo,
    random: Random,
}

impl RedQueue {
    pub(super) fn new(options: RedOptions, link: &LinkOptions) -> Result<Self, PolicyError> {
        let red = Red::new(options, link.rate)?;
        Ok(Self { red, fifo: Fifo::new(link.buffer), random: Random::new(link.seed) })
    }
}

impl Discipline for RedQueue {
    fn arrive(
        &mut self,
        packet: &Packet,
        state: &mut u16,
        dropped: &mut dyn FnMut(Waiting, Reason),
    ) {
        let mut waiting = Waiting::new(packet);
        match self.red.packet(packet, state, self.fifo.taken(), &mut self.random) {
            Verdict::Drop(reason) => return dropped(waiting, reason),
            Verdict::Mark => waiting.is_marked = true,
            Verdict::Pass => {}
        }
        if !self.fifo.push(waiting) {
            dropped(waiting, Reason::BufferFull);
        }
    }

    fn next(&mut self, now: u64) -> Option<Waiting> {
        let next = self.fifo.pop();
        if next.is_none() {
            self.red.idle(now);
        }
        next
    }

    fn waiting(&self) -> Count {
        self.fifo.waiting()
    }

    fn taken(&self) -> u64 {
        self.fifo.taken()
    }

    /// The lower threshold in bytes.
    fn reading(&self, state: u16) -> u64 {
        u64::from(state) * u64::from(UNIT)
    }
}
