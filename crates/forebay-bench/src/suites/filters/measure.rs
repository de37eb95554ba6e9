//! Rounds over packets in each set.
//!
//! Before each timed run, untimed, the engine runs over other packets for a while
//! ([`WARM_UP`]), the same batch each time and none of what is timed. The contents of the
//! caches are the same for all engines, whatever the engine before left there:
//!
//! * `hot`: the packets of each batch are copied into the receive buffer just before;
//! * `cache`, `batch-N`, `capture`: the loop of `touch` runs over all packets first, in
//!   `capture` twice, which leaves little of what else the engine before loaded;
//! * `memory`: the loop of `touch` runs over all packets before the round, and the round is
//!   cut into slices ([`crate::rounds`]), so that a slice's heads have left the second level
//!   of the cache long before the next engine comes to it.

use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use forebay_jit::Packets;
use forebay_packet::random::Random;
use forebay_packet::{BATCH, Region};

use super::engines::Contenders;
use super::packets::{Descriptors, Engine};
use super::sets::{CACHED, COPIED, HEADS, IN_MEMORY, NETWORK, Set, Slots};
use super::traffic::Traffic;
use crate::failure::Result;
use crate::peers::stopwatch::Stopwatch;
use crate::peers::touch::Touch;
use crate::rounds::{Role, Timing, Trial};

/// How long an engine runs over other packets before it is timed. Its code comes into the
/// cache, and 512-bit instructions get to full speed: where they have not been used for a
/// while the processor starts them slowly (`pe` then took twice as long in some rounds).
const WARM_UP: Duration = Duration::from_micros(100);

/// What all filters are measured with.
#[derive(Debug)]
pub struct Bench {
    pub traffic: Traffic,
    pub captured: Option<Traffic>,
    /// What packets are received from, and a receive buffer of one batch.
    network: Slots,
    buffer: Slots,
    /// A batch to warm up with.
    others: Slots,
    /// Slots whose heads fit into the second-level cache.
    heads: Slots,
    /// Slots for whole packets of the sets that want them.
    memory: Vec<(Set, Slots)>,
}

/// libpcap's verdicts for one filter, on the generated and on the captured packets.
#[derive(Debug)]
pub struct Expected {
    pub traffic: Vec<u32>,
    pub captured: Vec<u32>,
}

/// The packets of a round with the verdicts on them. In `hot` the packets are on the network.
struct Round {
    packets: Descriptors,
    expected: Vec<u32>,
}

impl Bench {
    /// Lays the packets out for `sets`.
    pub fn new(traffic: Traffic, captured: Option<Traffic>, sets: &[Set]) -> Result<Self> {
        let all = traffic.packets();
        let each: Vec<u32> = (0..IN_MEMORY).map(|i| (i % all.len()) as u32).collect();
        let mut memory = Vec::new();
        for &set in sets {
            if let Some(layout) = set.in_memory() {
                let mut slots = Slots::new(IN_MEMORY, layout)?;
                slots.fill(&all, &each);
                memory.push((set, slots));
            }
        }
        let mut others = Slots::new(BATCH, HEADS)?;
        others.fill(&all, &(0..BATCH as u32).collect::<Vec<_>>());
        Ok(Self {
            traffic,
            captured,
            network: Slots::new(COPIED, NETWORK)?,
            buffer: Slots::new(BATCH, HEADS)?,
            others,
            heads: Slots::new(CACHED, HEADS)?,
            memory,
        })
    }

    /// Whether there are packets for `set`, of those that they were laid out for.
    fn has(&self, set: Set) -> bool {
        set != Set::Capture || self.captured.is_some()
    }

    /// Measures every contender on `set`.
    pub fn measure(
        &mut self,
        timing: &mut Timing,
        (case, set): (&str, Set),
        contenders: &mut Contenders,
        expected: &Expected,
        rounds: usize,
    ) -> Result<Vec<Trial>> {
        let has = self.has(set);
        let mut trial = Trial::new(case, set, contenders, |_| has);
        let stopwatch = timing.stopwatch;
        for _ in 0..if has { rounds } else { 0 } {
            let number = timing.next_round();
            let round = self.round(number, set, expected);
            let count = round.expected.len();
            if set.in_memory().is_some() {
                Touch.run(&self.packets(set, &round, 0..count), 0, &mut []);
            }
            trial.round(
                number,
                contenders,
                (count, set.in_memory().is_some()),
                |engine, role, range| {
                    let packets = range.len() as f64;
                    let ticks = match set {
                        Set::Hot => self.copied(&stopwatch, (engine, role), &round)?,
                        _ => self.in_place(&stopwatch, set, (engine, role), &round, range)?,
                    };
                    Ok(stopwatch.nanos(ticks) / packets)
                },
            )?;
        }
        Ok(vec![trial])
    }

    /// The packets of a round, in a new order.
    fn round(&mut self, number: u64, set: Set, expected: &Expected) -> Round {
        let mut random = Random::new(number);
        let copied = match set {
            Set::Hot => Some((&mut self.network, COPIED)),
            Set::Memory | Set::Frames | Set::Capture => None,
            _ => Some((&mut self.heads, CACHED)),
        };
        let (order, packets) = if let Some((slots, count)) = copied {
            let traffic = self.traffic.packets();
            let chosen = random.draw(count, traffic.len());
            slots.fill(&traffic, &chosen);
            (chosen, slots.descriptors.clone())
        } else {
            let (_, all) = self.place(set);
            let order = random.draw(all.len(), all.len());
            let packets = all.pick(&order);
            (order, packets)
        };
        let verdicts = if set == Set::Capture { &expected.captured } else { &expected.traffic };
        let of = |&packet: &u32| verdicts[packet as usize % verdicts.len()];
        Round { packets, expected: order.iter().map(of).collect() }
    }

    /// Where packets lie in a set.
    fn place(&self, set: Set) -> (&Region, &Descriptors) {
        if let Some((_, slots)) = self.memory.iter().find(|(known, _)| *known == set) {
            return (&slots.memory, &slots.descriptors);
        }
        match (set, &self.captured) {
            (Set::Capture, Some(captured)) => (&captured.memory, &captured.descriptors),
            _ => (&self.heads.memory, &self.heads.descriptors),
        }
    }

    /// Packets of a round, where they lie in this set.
    fn packets<'a>(&'a self, set: Set, round: &'a Round, range: Range<usize>) -> Packets<'a> {
        round.packets.packets(self.place(set).0).slice(range)
    }

    /// Runs over packets that stay where they are. Returns ticks.
    fn in_place(
        &self,
        stopwatch: &Stopwatch,
        set: Set,
        (engine, role): (&mut dyn Engine, Role),
        round: &Round,
        range: Range<usize>,
    ) -> Result<u64> {
        let mut verdicts = vec![u32::MAX; range.len()];
        let packets = self.packets(set, round, range.clone());
        let passes = match set {
            Set::Hot | Set::Memory | Set::Frames => 0,
            Set::Capture => 2,
            _ => 1,
        };
        (0..passes).for_each(|_| Touch.run(&packets, 0, &mut []));
        warm_up(engine, &self.others.packets());
        engine.prepare(&packets);
        let batch = set.batch();
        let ticks = stopwatch.ticks(|| {
            for (number, verdicts) in verdicts.chunks_mut(batch).enumerate() {
                let first = number * batch;
                engine.run(&packets.slice(first..first + verdicts.len()), first, verdicts);
            }
        });
        check(role, &verdicts, &round.expected[range])?;
        Ok(ticks)
    }

    /// Copies each batch into the receive buffer and runs over it there. Returns ticks.
    fn copied(
        &mut self,
        stopwatch: &Stopwatch,
        (engine, role): (&mut dyn Engine, Role),
        round: &Round,
    ) -> Result<u64> {
        warm_up(engine, &self.others.packets());
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
            ticks += stopwatch.ticks(|| engine.run(&packets, 0, verdicts));
            check(role, verdicts, expected)?;
        }
        Ok(ticks)
    }
}

/// Compares verdicts with libpcap's.
fn check(role: Role, verdicts: &[u32], expected: &[u32]) -> Result<()> {
    if role == Role::Floor || verdicts == expected {
        return Ok(());
    }
    let pairs = verdicts.iter().zip(expected);
    let wrong = pairs.filter(|(verdict, expected)| verdict != expected).count();
    Err(format!("{wrong} of {} verdicts are not libpcap's", expected.len()).into())
}

/// Runs over these packets for a while.
fn warm_up(engine: &mut dyn Engine, packets: &Packets<'_>) {
    let mut verdicts = [0; BATCH];
    engine.prepare(packets);
    let started = Instant::now();
    while started.elapsed() < WARM_UP {
        engine.run(packets, 0, &mut verdicts[..packets.len()]);
    }
}
