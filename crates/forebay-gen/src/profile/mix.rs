//! Realistic traffic: flows by Zipf's law, each a session of its own.
//!
//! Every flow is planned as a start and a number of packets (16 bytes, sorted by start). A
//! flow becomes a state machine at its start and ends with its last packet. Active flows
//! are in a heap by the time of their next packet, so packets are generated in time order
//! at O(log active flows) each, with O(flows) memory.
//!
//! The gaps of a session are those of its round-trip time, stretched by the flow's `scale`
//! to its planned duration: flows with many packets must last for most of the capture,
//! whatever its length. Starts are uniform over the rest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::source::{EPOCH, Source};
use crate::config::Config;
use crate::headers::Frame;
use crate::path::{AddressPlan, Path};
use crate::session::{Context, Session, start};
use crate::zipf::packets_by_rank;
use forebay_packet::random::Random;

/// Shortest and longest round-trip time in nanoseconds; heavy-tailed between.
const ROUND_TRIP: (u64, u64) = (2_000_000, 200_000_000);
/// Approximate packets that a session sends in a round-trip time.
const PACKETS_PER_ROUND_TRIP: u64 = 8;
/// A scale of one.
const UNIT: u64 = 1 << 16;
/// Flows of at least this many packets follow their plan.
const STEERED: u32 = 16;
/// The greatest stretch of a flow's gaps.
const LARGEST_SCALE: u64 = 64 * UNIT;

/// The plan of a flow that has not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Planned {
    /// Nanoseconds from the begin of the capture.
    at: u64,
    number: u32,
    packets: u32,
}

/// An active flow.
#[derive(Debug)]
struct Flow {
    session: Session,
    path: Path,
    random: Random,
    left: u32,
    packets: u32,
    begin: u64,
    span: u64,
    scale: u64,
    round_trip: u64,
}

/// The packet source of the `mix` profile.
#[derive(Debug)]
pub struct Mix {
    seed: u64,
    longest: usize,
    duration: u64,
    plan: AddressPlan,
    planned: Vec<Planned>,
    next_planned: usize,
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    due: BinaryHeap<Reverse<(u64, u32)>>,
}

/// A flow's round-trip time and planned duration: the first numbers of its random stream.
fn pace(random: &mut Random, packets: u32, duration: u64) -> (u64, u64, u64) {
    let round_trip = random.pareto(ROUND_TRIP.0 >> 8, ROUND_TRIP.1 >> 8) << 8;
    let natural = round_trip * 2 + round_trip / PACKETS_PER_ROUND_TRIP * u64::from(packets);
    (round_trip, natural, natural.min(duration - duration / 10))
}

impl Mix {
    /// Plans the flows of a valid configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let (seed, duration) = (config.seed, config.duration());
        let mut random = Random::of_part(seed, u64::MAX);
        let mut counts = packets_by_rank(config.flows, config.packets);
        random.shuffle(&mut counts);
        let mut planned: Vec<Planned> = (0..)
            .zip(counts)
            .map(|(number, packets)| {
                let mut of_flow = Random::of_part(seed, u64::from(number));
                let (_, _, span) = pace(&mut of_flow, packets, duration);
                Planned { at: random.below(duration - span + 1), number, packets }
            })
            .collect();
        planned.sort_unstable();
        Self {
            seed,
            longest: usize::from(config.size_or_default()),
            duration,
            plan: AddressPlan::new(config.flows, seed),
            planned,
            next_planned: 0,
            flows: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
        }
    }

    /// Starts the flows planned before the next packet.
    fn start_due(&mut self) {
        while let Some(&planned) = self.planned.get(self.next_planned) {
            if self.due.peek().is_some_and(|Reverse((at, _))| *at < planned.at) {
                break;
            }
            self.next_planned += 1;
            let flow = self.flow(planned);
            let slot = match self.free.pop() {
                Some(slot) => {
                    self.flows[slot as usize] = Some(flow);
                    slot
                }
                None => {
                    self.flows.push(Some(flow));
                    self.flows.len() as u32 - 1
                }
            };
            self.due.push(Reverse((planned.at, slot)));
        }
    }

    fn flow(&self, planned: Planned) -> Flow {
        let number = u64::from(planned.number);
        let mut random = Random::of_part(self.seed, number);
        let (round_trip, natural, span) = pace(&mut random, planned.packets, self.duration);
        let (path, session) = start(&self.plan, number, planned.packets, self.longest, &mut random);
        Flow {
            session,
            path,
            random,
            left: planned.packets,
            packets: planned.packets,
            begin: planned.at,
            span,
            // Below 2^46 * 2^16 for any natural span that is cut short.
            scale: (u128::from(span) * u128::from(UNIT) / u128::from(natural)) as u64,
            round_trip,
        }
    }
}

impl Flow {
    /// Builds the next packet; returns the time of the one after it.
    fn step(&mut self, now: u64, frame: &mut Frame) -> u64 {
        let gap = self.session.step(&mut Context {
            frame,
            path: &mut self.path,
            random: &mut self.random,
            now: EPOCH + now,
            left: self.left,
            round_trip: self.round_trip,
        });
        self.left -= 1;
        if self.packets >= STEERED && gap > self.round_trip / 2 {
            self.steer(now);
        }
        now + ((u128::from(gap) * u128::from(self.scale)) >> 16) as u64
    }

    /// Stretches or shrinks the gaps by an eighth towards the plan.
    fn steer(&mut self, now: u64) {
        let sent = u128::from(self.packets - self.left);
        let on_plan = (u128::from(self.span) * sent / u128::from(self.packets)) as u64;
        self.scale = if now - self.begin > on_plan {
            self.scale - self.scale / 8
        } else {
            (self.scale + self.scale / 8 + 1).min(LARGEST_SCALE)
        };
    }
}

impl Source for Mix {
    fn next(&mut self, frame: &mut Frame) -> Option<u64> {
        self.start_due();
        let mut top = self.due.peek_mut()?;
        let Reverse((now, slot)) = *top;
        let entry = self.flows.get_mut(slot as usize)?;
        let flow = entry.as_mut()?;
        let next = flow.step(now, frame);
        if flow.left == 0 {
            *entry = None;
            self.free.push(slot);
            PeekMut::pop(top);
        } else {
            // Gaps that reach past the end approach it instead.
            let half_way = now + self.duration.saturating_sub(now) / 2;
            *top = Reverse((next.min(half_way), slot));
        }
        Some(EPOCH + now)
    }
}
