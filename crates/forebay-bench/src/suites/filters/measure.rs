//! Rounds: in each, every engine filters the same packets in the same order, an order
//! that no engine has seen before.
//!
//! The order of the engines is drawn anew, too: none comes after the same one each time.
//! Before each timed run, untimed, the engine runs over other packets for a while
//! ([`WARM_UP`]), the same batch each time and no stretch of what is timed. What is in
//! the caches is the same for all, whatever the engine before left there:
//!
//! * `hot`: the packets of each batch are copied into the receive buffer just before;
//! * `cache`, `batch-N`, `capture`: the loop of `touch` runs over all packets first, in
//!   `capture` twice, which leaves little of what else the engine before loaded;
//! * `memory`: the loop of `touch` runs over all packets before the round, and the round
//!   goes in slices. Engines take turns after each, in the circle of [`super::turns`],
//!   so that a slice's heads have left the second level of the cache long before the
//!   next engine comes to it. That engines take turns within milliseconds also keeps
//!   their pairs together, where the memory is shared with other machines and its speed
//!   is not steady. A round's time is the median of its slices'.

use std::mem;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use forebay_packet::BATCH;

use super::engines::Contender;
use super::packets::{Descriptors, Engine, Packets};
use super::sets::{CACHED, COPIED, Set, Slots};
use super::traffic::Traffic;
use super::turns::{Turn, slices, turns};
use crate::BenchError;
use crate::clock::Clock;
use crate::peers::stopwatch::Stopwatch;
use crate::peers::touch::Touch;
use crate::stats::Sample;
use forebay_packet::random::Random;

/// How long an engine runs over other packets before it is timed. Its code comes into
/// the cache, and the processor sees what instructions it uses: where 512-bit ones have
/// not been used for a while it starts them at a lower speed (`pe` then took twice as
/// long in some rounds, and nothing else did).
const WARM_UP: Duration = Duration::from_micros(100);

/// What all filters are measured with.
#[derive(Debug)]
pub struct Bench {
    stopwatch: Stopwatch,
    traffic: Traffic,
    captured: Option<Traffic>,
    /// What packets are received from, and a receive buffer of one batch.
    network: Slots,
    buffer: Slots,
    /// A batch to warm up with.
    others: Slots,
    /// Slots whose heads fit into the second-level cache.
    heads: Slots,
    /// Slots for whole packets, if they are wanted.
    memory: Option<Slots>,
    /// Room for the verdicts of a run.
    verdicts: Vec<u32>,
    /// Rounds so far: no two have the same order.
    rounds: u64,
}

/// libpcap's verdicts for one filter.
#[derive(Debug)]
pub struct Expected {
    /// On the generated packets.
    pub traffic: Vec<u32>,
    /// On the captured ones.
    pub captured: Vec<u32>,
}

/// What the engines are given in a round.
struct Round {
    /// Those that stay where they are; in `hot` they are on the network.
    packets: Descriptors,
    expected: Vec<u32>,
}

/// Nanoseconds a packet in each round, of each contender; nothing for one that has no
/// part.
pub type Times = Vec<Option<Vec<f64>>>;

/// What was measured of a filter on one set.
#[derive(Clone, Debug)]
pub struct OnSet {
    /// The set.
    pub set: Set,
    /// The times.
    pub times: Times,
    /// The clock meanwhile.
    pub clock: Clock,
}

impl Bench {
    /// Lays the packets out; those of the set `memory` only if `in_memory` is not 0.
    pub fn new(
        traffic: Traffic,
        captured: Option<Traffic>,
        in_memory: usize,
    ) -> Result<Self, BenchError> {
        let memory = match in_memory {
            0 => None,
            count => {
                let mut slots = Slots::of_packets(count)?;
                let all = traffic.packets();
                let each: Vec<u32> = (0..count).map(|i| (i % all.len()) as u32).collect();
                slots.fill(&all, &each);
                Some(slots)
            }
        };
        let mut others = Slots::of_heads(BATCH)?;
        let first: Vec<u32> = (0..BATCH as u32).collect();
        others.fill(&traffic.packets(), &first);
        Ok(Self {
            stopwatch: Stopwatch::calibrate(),
            traffic,
            captured,
            network: Slots::network(COPIED)?,
            buffer: Slots::of_heads(BATCH)?,
            others,
            heads: Slots::of_heads(CACHED)?,
            memory,
            verdicts: Vec::new(),
            rounds: 0,
        })
    }

    /// The generated packets.
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The captured packets, if they are there.
    pub fn captured(&self) -> Option<&Traffic> {
        self.captured.as_ref()
    }

    /// What is subtracted from each time, in nanoseconds.
    pub fn reading_cost(&self) -> f64 {
        self.stopwatch.cost()
    }

    /// Whether there are packets for `set`.
    pub fn has(&self, set: Set) -> bool {
        match set {
            Set::Capture => self.captured.is_some(),
            Set::Memory => self.memory.is_some(),
            _ => true,
        }
    }

    /// Measures every contender on `set`, with so many windows of the clock meanwhile.
    pub fn measure(
        &mut self,
        set: Set,
        contenders: &mut [Contender],
        expected: &Expected,
        rounds: usize,
        windows: usize,
    ) -> Result<OnSet, BenchError> {
        let mut times: Times =
            contenders.iter().map(|one| one.engine.is_some().then(Vec::new)).collect();
        let mut clock = Clock::default();
        for number in 0..rounds {
            let round = self.round(set, expected);
            let present: Vec<usize> =
                (0..contenders.len()).filter(|&index| times[index].is_some()).collect();
            let order = Random::new(!self.rounds).draw(present.len(), present.len());
            let slices = if set == Set::Memory { slices(present.len()) } else { 1 };
            if set == Set::Memory {
                Touch.run(&self.packets(set, &round, 0..round.packets.len()), &mut []);
            }
            let mut nanos = vec![Vec::with_capacity(slices); contenders.len()];
            for Turn { place, slice } in turns(present.len(), slices) {
                let index = present[order[place] as usize];
                let contender = &mut contenders[index];
                if times[index].is_none() {
                    continue;
                }
                match self.run(set, contender, &round, slice, slices) {
                    Ok(passed) => nanos[index].push(passed),
                    Err(complaint) => {
                        contender.is_wrong(&format!("{set}: {complaint}"))?;
                        times[index] = None;
                    }
                }
            }
            for (times, nanos) in times.iter_mut().zip(nanos) {
                let Some(times) = times else { continue };
                times.push(Sample::new(nanos).median());
            }
            clock.sample(windows * (number + 1) / rounds - windows * number / rounds);
        }
        Ok(OnSet { set, times, clock })
    }

    /// Runs over one slice of a round. Returns nanoseconds a packet.
    fn run(
        &mut self,
        set: Set,
        contender: &mut Contender,
        round: &Round,
        slice: usize,
        slices: usize,
    ) -> Result<f64, String> {
        let packets = round.expected.len();
        let range = slice * packets / slices..(slice + 1) * packets / slices;
        let packets = range.len() as f64;
        let ticks = match set {
            Set::Hot => self.copied(contender, round)?,
            _ => self.in_place(set, contender, round, range)?,
        };
        Ok(self.stopwatch.nanos(ticks) / packets)
    }

    /// The packets of a round, in a new order.
    fn round(&mut self, set: Set, expected: &Expected) -> Round {
        self.rounds += 1;
        let mut random = Random::new(self.rounds);
        let all = self.traffic.descriptors.len();
        let verdicts_of = |chosen: &[u32], verdicts: &[u32]| {
            chosen.iter().map(|&i| verdicts[i as usize % verdicts.len()]).collect()
        };
        match set {
            Set::Hot => {
                let chosen = random.draw(COPIED, all);
                self.network.fill(&self.traffic.packets(), &chosen);
                let expected = verdicts_of(&chosen, &expected.traffic);
                Round { packets: Descriptors::default(), expected }
            }
            Set::Cache | Set::Batch(_) => {
                let chosen = random.draw(CACHED, all);
                self.heads.fill(&self.traffic.packets(), &chosen);
                Round {
                    packets: self.heads.descriptors().clone(),
                    expected: verdicts_of(&chosen, &expected.traffic),
                }
            }
            Set::Memory | Set::Capture => {
                let (of_set, verdicts) = match (set, &self.memory, &self.captured) {
                    (Set::Memory, Some(slots), _) => (slots.descriptors(), &expected.traffic),
                    (_, _, Some(captured)) => (&captured.descriptors, &expected.captured),
                    _ => (&Descriptors::default(), &expected.traffic),
                };
                let order = random.draw(of_set.len(), of_set.len());
                Round { packets: of_set.pick(&order), expected: verdicts_of(&order, verdicts) }
            }
        }
    }

    /// Those of a round's packets, where they lie in this set.
    fn packets<'a>(&'a self, set: Set, round: &'a Round, range: Range<usize>) -> Packets<'a> {
        let memory = match (set, &self.memory, &self.captured) {
            (Set::Memory, Some(slots), _) => slots.memory(),
            (Set::Capture, _, Some(captured)) => &captured.memory,
            _ => self.heads.memory(),
        };
        Packets::new(memory, &round.packets).slice(range)
    }

    /// Runs over packets that stay where they are. Returns ticks.
    fn in_place(
        &mut self,
        set: Set,
        contender: &mut Contender,
        round: &Round,
        range: Range<usize>,
    ) -> Result<u64, String> {
        let Some(engine) = &mut contender.engine else { return Err("is not there".to_owned()) };
        let mut verdicts = mem::take(&mut self.verdicts);
        verdicts.clear();
        verdicts.resize(range.len(), u32::MAX);
        let packets = self.packets(set, round, range.clone());
        for _ in 0..passes_before(set) {
            Touch.run(&packets, &mut []);
        }
        warm_up(engine.as_mut(), &self.others.packets());
        engine.prepare(&packets);
        let batch = set.batch();
        let ticks = self.stopwatch.ticks(|| {
            for (number, verdicts) in verdicts.chunks_mut(batch).enumerate() {
                let start = number * batch;
                engine.run(&packets.slice(start..start + verdicts.len()), verdicts);
            }
        });
        let checked = contender.role.check(&verdicts, &round.expected[range]);
        self.verdicts = verdicts;
        checked.map(|()| ticks)
    }

    /// Copies each batch into the receive buffer and runs over it there. Returns ticks.
    fn copied(&mut self, contender: &mut Contender, round: &Round) -> Result<u64, String> {
        let Some(engine) = &mut contender.engine else { return Err("is not there".to_owned()) };
        warm_up(engine.as_mut(), &self.others.packets());
        let mut ticks = 0;
        let mut verdicts = [u32::MAX; BATCH];
        for (number, expected) in round.expected.chunks(BATCH).enumerate() {
            let first = number * BATCH;
            self.buffer.receive(&self.network, first..first + expected.len());
            let packets = self.buffer.packets();
            engine.prepare(&packets);
            let verdicts = &mut verdicts[..expected.len()];
            // The copy ends when its stores have left the store buffer, not before.
            fence(Ordering::SeqCst);
            ticks += self.stopwatch.ticks(|| engine.run(&packets, verdicts));
            contender.role.check(verdicts, expected)?;
        }
        Ok(ticks)
    }
}

/// How often the loop of `touch` runs over a turn's packets before the engine does.
fn passes_before(set: Set) -> usize {
    match set {
        Set::Hot | Set::Memory => 0,
        Set::Cache | Set::Batch(_) => 1,
        Set::Capture => 2,
    }
}

/// Runs over these packets for a while.
fn warm_up(engine: &mut dyn Engine, packets: &Packets<'_>) {
    let mut verdicts = [0; BATCH];
    engine.prepare(packets);
    let started = Instant::now();
    loop {
        engine.run(packets, &mut verdicts[..packets.len()]);
        if started.elapsed() >= WARM_UP {
            return;
        }
    }
}
