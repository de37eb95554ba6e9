//! Selects the flow of the next frame.
//!
//! A constant number of flows is active. Each has a rank, and frames follow Zipf's law with
//! exponent 1: the flow of rank r is selected 1/r times as often as the first. If flows
//! have a mean life, each ends after a random time, and a new flow takes its rank.

use forebay_packet::MacAddress;

use super::frame::{Probe, ProbeFrame};
use crate::zipf::packets_by_rank;
use forebay_packet::random::Random;

/// The most active flows.
const MOST_FLOWS: u32 = 1 << 22;

/// Table entries for each flow, which limit the resolution of frequencies.
const DRAWS_A_FLOW: u64 = 8;

/// How long flows live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As long as the traffic.
    Persistent,
    /// So many nanoseconds on average, exponentially distributed.
    Mean(u64),
}

/// Options of probe traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeOptions {
    /// Bytes of a frame, without frame check sequence.
    pub len: usize,
    /// Active flows.
    pub flows: u32,
    /// How long each lives.
    pub life: Life,
    /// Whether the frames of flows follow Zipf's law.
    pub zipf: bool,
    /// The same seed gives the same flows.
    pub seed: u64,
    /// Distinguishes frames from those of another run with the same flows.
    pub run: u16,
    /// The destination station.
    pub destination: MacAddress,
    /// The source station.
    pub source: MacAddress,
}

/// Invalid options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} flows at once: expected 1 to {MOST_FLOWS}")]
pub struct ProbeError(u32);

struct Flow {
    number: u32,
    next: u64,
    /// Its end, in nanoseconds.
    ends: u64,
}

/// A stream of probes.
pub struct Probes {
    frame: ProbeFrame,
    flows: Vec<Flow>,
    /// Ranks, repeated by their frequency; empty if all are equal.
    draws: Vec<u32>,
    life: Life,
    run: u16,
    started: u64,
    random: Random,
}

impl Probes {
    /// Traffic with these options.
    ///
    /// # Errors
    /// [`ProbeError`]: no flows, or too many.
    pub fn new(options: &ProbeOptions) -> Result<Self, ProbeError> {
        if !(1..=MOST_FLOWS).contains(&options.flows) {
            return Err(ProbeError(options.flows));
        }
        let flows = u64::from(options.flows);
        let mut draws = Vec::new();
        if options.zipf {
            let counts = packets_by_rank(flows, flows * DRAWS_A_FLOW);
            let ranks = (0_u32..).zip(counts);
            draws = ranks.flat_map(|(rank, n)| std::iter::repeat_n(rank, n as usize)).collect();
        }
        let mut probes = Self {
            frame: ProbeFrame::new(options.len, options.destination, options.source),
            flows: Vec::with_capacity(options.flows as usize),
            draws,
            life: options.life,
            run: options.run,
            started: flows,
            random: Random::new(options.seed),
        };
        for number in 0..options.flows {
            let ends = probes.end(0);
            probes.flows.push(Flow { number, next: 0, ends });
        }
        Ok(probes)
    }

    /// Flows started so far.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.started
    }

    /// The next frame; `now` is the time since the first, in nanoseconds.
    pub fn next(&mut self, now: u64) -> (Probe, &[u8]) {
        let rank = match self.draws.len() {
            0 => self.random.below(self.flows.len() as u64) as usize,
            n => self.draws[self.random.below(n as u64) as usize] as usize,
        };
        if self.flows[rank].ends <= now {
            let ends = self.end(now);
            // Numbers repeat after 2^32 flows, long after these have ended.
            self.flows[rank] = Flow { number: self.started as u32, next: 0, ends };
            self.started += 1;
        }
        let flow = &mut self.flows[rank];
        let probe = Probe { flow: flow.number, sequence: flow.next, run: self.run };
        flow.next += 1;
        (probe, self.frame.with(probe))
    }

    /// The end of a flow that starts at `now`.
    fn end(&mut self, now: u64) -> u64 {
        match self.life {
            Life::Persistent => u64::MAX,
            Life::Mean(mean) => {
                // The inverse of the exponential distribution; a life of 0 is none.
                let uniform = (self.random.next() >> 11) as f64 / (1_u64 << 53) as f64;
                let life = -(1.0 - uniform).ln() * mean as f64;
                now.saturating_add((life as u64).max(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn options(flows: u32) -> ProbeOptions {
        ProbeOptions {
            len: 60,
            flows,
            life: Life::Persistent,
            zipf: false,
            seed: 1,
            run: 0,
            destination: MacAddress([2; 6]),
            source: MacAddress([4; 6]),
        }
    }

    #[test]
    fn the_frames_of_a_flow_are_numbered_one_by_one() {
        let mut probes = Probes::new(&options(50)).unwrap();
        let mut next = HashMap::new();
        for _ in 0..5_000 {
            let (probe, frame) = probes.next(0);
            assert_eq!(Probe::of_frame(frame), Some(probe));
            let expected = next.entry(probe.flow).or_insert(0);
            assert_eq!(probe.sequence, *expected);
            *expected += 1;
        }
        assert_eq!((next.len(), probes.started()), (50, 50));
    }

    #[test]
    fn flows_end_and_others_take_their_place() {
        let life = Life::Mean(1_000_000_000);
        let mut probes = Probes::new(&ProbeOptions { life, ..options(100) }).unwrap();
        // A frame each 100 us for 10 s: each of 100 ranks has about ten flows.
        for frame in 0..100_000 {
            probes.next(frame * 100_000);
        }
        let ended = probes.started() - 100;
        assert!((850..1_150).contains(&ended), "{ended}");
    }

    #[test]
    fn the_first_of_many_flows_has_its_share() {
        let mut probes = Probes::new(&ProbeOptions { zipf: true, ..options(1_000) }).unwrap();
        let first = (0..100_000).filter(|_| probes.next(0).0.flow == 0).count();
        // 1 divided by the harmonic number of 1,000 (7.49), and a little more: shares are
        // rounded down, and the first ranks get the rest.
        assert!((13_000..15_000).contains(&first), "{first}");
        assert_eq!(Probes::new(&options(0)).err(), Some(ProbeError(0)));
    }
}
