//! Whether patterns do what the filter says: a check apart from the scheduler.
//!
//! The graph of patterns is run on packets of which nothing is known but the
//! outcomes of their tests, which the caller makes up. Registers hold names:
//! which packet's place, which packet's data. Each pattern must find the names
//! it relies on; each packet must pass exactly the tests, in order, that the
//! filter's own blocks make it pass with these outcomes, and be given the
//! verdict these come to, once. What instructions a step becomes is not
//! checked here, but by running them.

use std::collections::HashSet;

use forebay_filter::ir::{BlockId, Function, Terminator};

use super::graph::{Load, NodeId, Target, Verdict};
use super::patterns::{End, Packet, PatternId, Step};
use super::plan::Plan;
use super::test::{Content, Reading, Test, read};

/// Something that patterns do wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A test is made before what leads to it, or before its data is there.
    #[error("test {node} at cycle {time} comes before cycle {least}, when it can be made")]
    Early {
        /// The test.
        node: usize,
        /// Its time.
        time: u32,
        /// The time from which on it could be made.
        least: u32,
    },
    /// A test is made after the packet has left the last stage.
    #[error("test {node} at cycle {time} comes after the last stage")]
    Late {
        /// The test.
        node: usize,
        /// Its time.
        time: u32,
    },
    /// Packets of different stages branch in the same slot.
    #[error("slot {slot} has branches of two stages")]
    Reservation {
        /// The slot.
        slot: u32,
    },
    /// A step concerns a packet that is not in the batch.
    #[error("pattern {pattern} concerns packet {packet}, which there is not")]
    NoPacket {
        /// The pattern.
        pattern: usize,
        /// The packet's number.
        packet: isize,
    },
    /// There is a packet left, and none enters.
    #[error("pattern {pattern} goes on as if there were no packet left")]
    LeftOut {
        /// The pattern.
        pattern: usize,
    },
    /// A register does not hold what a step reads from it.
    #[error("pattern {pattern} finds something else in the registers of packet {packet}")]
    Register {
        /// The pattern.
        pattern: usize,
        /// The packet's number.
        packet: usize,
    },
    /// A packet passed other tests than it should, or has another verdict.
    #[error("packet {packet} was tested or decided otherwise than the filter says")]
    Path {
        /// The packet's number.
        packet: usize,
    },
    /// The code went on for longer than its packets give it work.
    #[error("no end after {steps} patterns")]
    Endless {
        /// Patterns run.
        steps: usize,
    },
}

/// Whether the test of a block holds for a packet.
pub type Outcome<'a> = dyn Fn(usize, BlockId) -> bool + 'a;

/// Checks times and reservations of `plan`: that each test comes after those
/// that lead to it and when its data is there, that the last is made while the
/// packet is in flight, and that a slot branches for one stage only.
///
/// # Errors
/// The first fault found.
pub fn check_schedule(plan: &Plan<'_>) -> Result<(), Fault> {
    let (graph, schedule) = (&plan.graph, &plan.schedule);
    // For each test when a packet comes to it, and when its data is there.
    let mut come = vec![0; graph.nodes.len()];
    let mut ready = vec![0; graph.nodes.len()];
    if let (Target::Node(entry), Some(_)) = (graph.entry, graph.content(graph.entry)) {
        come[entry as usize] = schedule.first_load;
        ready[entry as usize] = schedule.first_load + schedule.latencies[entry as usize];
    }
    let mut branches = vec![(0, 0)];
    for (node, test) in graph.nodes.iter().enumerate() {
        let time = schedule.times[node];
        let least = if test.test.reads_data() { come[node].max(ready[node]) } else { come[node] };
        if time < least {
            return Err(Fault::Early { node, time, least });
        }
        if time >= schedule.ii * schedule.stages as u32 {
            return Err(Fault::Late { node, time });
        }
        if test.decides().is_none() {
            branches.push((time % schedule.ii, time / schedule.ii));
        }
        for target in [test.then, test.otherwise] {
            let Target::Node(next) = target else { continue };
            let next = next as usize;
            let kept = graph.nodes[next].content == test.content;
            let there = if kept { ready[node] } else { time + 1 + schedule.latencies[next] };
            come[next] = come[next].max(time + 1);
            ready[next] = ready[next].max(there);
        }
    }
    branches.sort_unstable();
    branches.dedup();
    match branches.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Fault::Reservation { slot: pair[0].0 }),
        None => Ok(()),
    }
}

/// Runs the patterns of `plan` for `packets` packets, of which `outcome` says
/// how the test of a block turns out.
///
/// # Errors
/// The first fault found.
pub fn check_run(plan: &Plan<'_>, packets: usize, outcome: &Outcome<'_>) -> Result<(), Fault> {
    let mut machine = Machine::new(plan, packets);
    machine.run(outcome)?;
    let blocks = plan.graph.nodes.iter().flat_map(|node| &node.blocks);
    let tested: HashSet<BlockId> = blocks.copied().collect();
    for packet in 0..packets {
        let (mut path, verdict) = walk(&plan.function, |block| outcome(packet, block));
        path.retain(|(block, _)| tested.contains(block));
        if machine.paths[packet] != path || machine.verdicts[packet] != verdict {
            return Err(Fault::Path { packet });
        }
    }
    Ok(())
}

/// The tests of a packet in the order of the filter's blocks, and its verdict.
fn walk(
    function: &Function,
    outcome: impl Fn(BlockId) -> bool,
) -> (Vec<(BlockId, bool)>, Option<Verdict>) {
    let mut path = Vec::new();
    let mut block = BlockId(0);
    loop {
        block = match &function.block(block).end {
            Terminator::Return(value) => {
                let constant = function.as_constant(*value).map(Verdict::Constant);
                return (path, Some(constant.unwrap_or(Verdict::Computed(*value))));
            }
            Terminator::Jump(edge) => edge.target,
            Terminator::Test { predicate, then, otherwise } => {
                let holds = match read(function, *predicate) {
                    Reading::Constant(holds) => holds,
                    Reading::Test(..) => outcome(block),
                };
                path.push((block, holds));
                if holds { then.target } else { otherwise.target }
            }
        };
    }
}

/// The machine that patterns run on.
struct Machine<'a> {
    plan: &'a Plan<'a>,
    /// The number of the packet that entered last.
    number: isize,
    /// By set: the packet whose place it holds, and the packet and content of
    /// its data register.
    places: Vec<Option<usize>>,
    data: Vec<Option<(usize, Content)>>,
    paths: Vec<Vec<(BlockId, bool)>>,
    verdicts: Vec<Option<Verdict>>,
}

impl<'a> Machine<'a> {
    fn new(plan: &'a Plan<'a>, packets: usize) -> Self {
        Self {
            plan,
            number: -1,
            places: vec![None; plan.schedule.stages],
            data: vec![None; plan.schedule.stages],
            paths: vec![Vec::new(); packets],
            verdicts: vec![None; packets],
        }
    }

    fn run(&mut self, outcome: &Outcome<'_>) -> Result<(), Fault> {
        let nodes = self.plan.graph.nodes.len();
        let most = (self.paths.len() + self.plan.schedule.stages + 1) * (nodes + 1);
        let mut at = 0;
        for _ in 0..=most {
            let pattern = &self.plan.patterns[at];
            for &step in &pattern.steps {
                self.step(at, step, outcome)?;
            }
            at = match pattern.end {
                End::Test { packet, node, then, otherwise } => {
                    if self.test(at, packet, node, outcome)? { then } else { otherwise }
                }
                End::Next { some, none } => {
                    self.number += 1;
                    let there_is_one =
                        usize::try_from(self.number).is_ok_and(|number| number < self.paths.len());
                    match (there_is_one, some, none) {
                        (true, Some(some), _) => some,
                        (true, None, _) => return Err(Fault::LeftOut { pattern: at }),
                        (false, _, Some(none)) => none,
                        (false, _, None) => return Ok(()),
                    }
                }
            };
        }
        Err(Fault::Endless { steps: most })
    }

    fn step(&mut self, pattern: PatternId, step: Step, outcome: &Outcome<'_>) -> Result<(), Fault> {
        match step {
            Step::Decide(packet, node) => {
                let number = self.packet(pattern, packet)?;
                let holds = self.test(pattern, packet, node, outcome)?;
                let Some((then, otherwise)) = self.plan.graph.node(node).decides() else {
                    return Err(Fault::Path { packet: number });
                };
                let verdict = Verdict::Constant(if holds { then } else { otherwise });
                self.data[packet.set] = None;
                if self.verdicts[number].replace(verdict).is_some() {
                    return Err(Fault::Path { packet: number });
                }
            }
            Step::Enter(packet) => {
                let number = self.packet(pattern, packet)?;
                self.places[packet.set] = Some(number);
            }
            Step::Load(packet, Load { content, from }) => {
                let number = self.packet(pattern, packet)?;
                self.expect_place(pattern, packet, number)?;
                let before = from.map(|key| (number, Content { key, mask: u32::MAX }));
                if before.is_some() && before != self.data[packet.set] {
                    return Err(Fault::Register { pattern, packet: number });
                }
                self.data[packet.set] = Some((number, content));
            }
            Step::Verdict(packet, verdict) => {
                let number = self.packet(pattern, packet)?;
                if let Verdict::Computed(_) = verdict {
                    self.expect_place(pattern, packet, number)?;
                    self.data[packet.set] = None;
                }
                if self.verdicts[number].replace(verdict).is_some() {
                    return Err(Fault::Path { packet: number });
                }
            }
        }
        Ok(())
    }

    /// How the test of `node` turns out for `packet`, which it is noted for.
    fn test(
        &mut self,
        pattern: PatternId,
        packet: Packet,
        node: NodeId,
        outcome: &Outcome<'_>,
    ) -> Result<bool, Fault> {
        let number = self.packet(pattern, packet)?;
        let node = self.plan.graph.node(node);
        if node.test.reads_data()
            && self.data[packet.set] != node.content.map(|data| (number, data))
        {
            return Err(Fault::Register { pattern, packet: number });
        }
        if matches!(node.test, Test::Pair { .. }) {
            self.expect_place(pattern, packet, number)?;
        }
        for &block in &node.blocks {
            let holds = outcome(number, block);
            self.paths[number].push((block, holds));
            if holds {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The number of `packet`, which must be one of the batch.
    fn packet(&self, pattern: PatternId, packet: Packet) -> Result<usize, Fault> {
        let number = self.number - packet.stage as isize;
        usize::try_from(number)
            .ok()
            .filter(|&number| number < self.paths.len())
            .ok_or(Fault::NoPacket { pattern, packet: number })
    }

    fn expect_place(&self, pattern: PatternId, packet: Packet, number: usize) -> Result<(), Fault> {
        if self.places[packet.set] == Some(number) {
            Ok(())
        } else {
            Err(Fault::Register { pattern, packet: number })
        }
    }
}
