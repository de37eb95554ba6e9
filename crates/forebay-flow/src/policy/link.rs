//! A link that sends the packets of a buffer one after another, by the times of packets that
//! arrive.

use std::fmt::Debug;

use super::csfq::CsfqQueue;
use super::drr::Drr;
use super::red::RedQueue;
use super::{
    Count, CsfqOptions, DrrOptions, Outcome, Packet, PolicyError, QueueSeries, Reason, RedOptions,
    Totals, Verdict, Waiting,
};

/// A policy with its properties.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// Random early detection.
    Red(RedOptions),
    /// Core-stateless fair queueing.
    Csfq(CsfqOptions),
    /// Deficit round robin.
    Drr(DrrOptions),
}

/// The properties of a link with a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkOptions {
    /// Bits a second. They count the bytes of packets only: no preamble, no gap.
    pub rate: u64,
    /// Bytes of the buffer. A packet that is being sent is not in it.
    pub buffer: u64,
    /// The policy.
    pub policy: Policy,
    /// Equal seeds give equal decisions.
    pub seed: u64,
}

/// What decides which packets are dropped, and which is sent next.
pub(super) trait Discipline: Debug + Send {
    /// A packet arrives. Packets are dropped, this or others, until all fit the buffer.
    fn arrive(
        &mut self,
        packet: &Packet,
        state: &mut u16,
        dropped: &mut dyn FnMut(Waiting, Reason),
    );

    /// Takes the packet that is sent next, from `now` on.
    fn next(&mut self, now: u64) -> Option<Waiting>;

    /// What is in the buffer.
    fn waiting(&self) -> Count;

    /// Bytes taken of the buffer.
    fn taken(&self) -> u64;

    /// The value of a flow's state.
    fn reading(&self, state: u16) -> u64;

    /// The most that a flow of weight 1 gets, in bits a second, where that is estimated.
    fn fair_share(&self) -> Option<f64> {
        None
    }
}

/// A packet that is being sent.
#[derive(Clone, Copy, Debug)]
struct Sending {
    packet: Waiting,
    end: u64,
}

/// A link behind a policy. It holds no states of flows.
#[derive(Debug)]
pub struct Bottleneck {
    rate: u64,
    discipline: Box<dyn Discipline>,
    sending: Option<Sending>,
    /// What was sent since the link was last idle and is not in whole nanoseconds yet, in parts
    /// of a nanosecond: `rate` of them are one.
    remainder: u64,
    now: u64,
    queue: QueueSeries,
    totals: Totals,
}

impl Bottleneck {
    /// An idle link.
    ///
    /// # Errors
    /// Options out of bounds.
    pub fn new(options: &LinkOptions) -> Result<Self, PolicyError> {
        let LinkOptions { rate, buffer, policy, .. } = *options;
        if !(1..=1_000_000_000_000).contains(&rate) {
            return Err(PolicyError::Rate(rate));
        }
        if !(64..=1 << 30).contains(&buffer) {
            return Err(PolicyError::Buffer(buffer));
        }
        let discipline: Box<dyn Discipline> = match policy {
            Policy::Red(red) => Box::new(RedQueue::new(red, options)?),
            Policy::Csfq(csfq) => Box::new(CsfqQueue::new(csfq, options)?),
            Policy::Drr(drr) => Box::new(Drr::new(drr, buffer)?),
        };
        Ok(Self {
            rate,
            discipline,
            sending: None,
            remainder: 0,
            now: 0,
            queue: QueueSeries::default(),
            totals: Totals::default(),
        })
    }

    /// A packet arrives, with its flow's state. `each` gets what becomes of it, or of earlier
    /// packets, as far as that is decided.
    pub fn packet(&mut self, packet: Packet, state: &mut u16, mut each: impl FnMut(Outcome)) {
        self.totals.late += u64::from(packet.at < self.now);
        self.totals.offered += Count::of(packet.len);
        self.advance(packet.at, &mut each);
        let packet = Packet { at: self.now, ..packet };
        let dropped = &mut self.totals.dropped;
        self.discipline.arrive(&packet, state, &mut |Waiting { flow, len, .. }, reason| {
            dropped[reason as usize] += Count::of(len);
            each(Outcome { flow, len, verdict: Verdict::Drop(reason) });
        });
        if self.sending.is_none() {
            self.remainder = 0;
            self.send(self.now);
        }
        self.queue.record(self.now, self.discipline.taken());
    }

    /// Time passes until `now`, unless it is later already.
    pub fn advance(&mut self, now: u64, mut each: impl FnMut(Outcome)) {
        self.now = self.now.max(now);
        while let Some(Sending { packet, end }) = self.sending.take_if(|one| one.end <= self.now) {
            let Waiting { flow, len, is_marked } = packet;
            let (sent, verdict) = match is_marked {
                true => (&mut self.totals.marked, Verdict::Mark),
                false => (&mut self.totals.delivered, Verdict::Pass),
            };
            *sent += Count::of(len);
            each(Outcome { flow, len, verdict });
            self.send(end);
            self.queue.record(end, self.discipline.taken());
        }
    }

    /// What became of all packets so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let sending = self.sending.map(|one| Count::of(one.packet.len)).unwrap_or_default();
        Totals { queued: self.discipline.waiting() + sending, ..self.totals }
    }

    /// The length of the queue over time.
    #[must_use]
    pub fn queue(&self) -> &QueueSeries {
        &self.queue
    }

    /// The value of a flow's state: a threshold in bytes (RED), a rate in bits a second (CSFQ),
    /// a quantum in bytes (DRR).
    #[must_use]
    pub fn reading(&self, state: u16) -> u64 {
        self.discipline.reading(state)
    }

    /// The most that a flow of weight 1 gets now, in bits a second, with CSFQ.
    #[must_use]
    pub fn fair_share(&self) -> Option<f64> {
        self.discipline.fair_share()
    }

    /// Starts to send the next packet at `now`.
    fn send(&mut self, now: u64) {
        self.sending = self.discipline.next(now).map(|packet| {
            let rate = u128::from(self.rate);
            let parts = u128::from(packet.len) * 8_000_000_000 + u128::from(self.remainder);
            self.remainder = (parts % rate) as u64;
            Sending { packet, end: now.saturating_add((parts / rate) as u64) }
        });
    }
}
