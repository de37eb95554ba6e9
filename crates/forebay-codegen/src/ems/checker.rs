//! Checks that patterns do what the filter specifies, independently of the
//! scheduler.
//!
//! The checker runs the graph of patterns on symbolic packets: the caller
//! chooses the outcome of each test. A register holds a symbol: the place of a
//! packet or the data of a packet. Each pattern must find the symbols that it
//! reads; each packet must pass exactly the tests, in order, that the filter's
//! blocks make with these outcomes, and must get their verdict, once. The
//! instructions generated for a step are not checked here, but by executing
//! them.

use std::collections::HashSet;

use forebay_filter::ir::{BlockId, Function, Terminator};

use super::comparison::{Content, Reading, Test, read};
use super::graph::{Load, NodeId, Target, Verdict};
use super::patterns::{End, Packet, PatternId, Step};
use super::plan::EmsPlan;

/// A violation found in the patterns.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A test precedes its predecessor, or its data is not loaded yet.
    #[error("test {node} at cycle {time} comes before cycle {least}, the earliest possible")]
    Early {
        /// The test.
        node: usize,
        /// Its time.
        time: u32,
        /// The earliest time allowed.
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
    /// Packets of different stages branch in one slot.
    #[error("slot {slot} has branches of two stages")]
    Reservation {
        /// The slot.
        slot: u32,
    },
    /// A step uses a packet that is not in the batch.
    #[error("pattern {pattern} concerns packet {packet}, which is not in the batch")]
    NoPacket {
        /// The pattern.
        pattern: usize,
        /// The packet's number.
        packet: isize,
    },
    /// A packet is left, and the pattern does not let it enter.
    #[error("pattern {pattern} starts no packet although packets are left")]
    LeftOut {
        /// The pattern.
        pattern: usize,
    },
    /// A register does not hold the value that a step reads.
    #[error("pattern {pattern} reads a wrong value in a register of packet {packet}")]
    Register {
        /// The pattern.
        pattern: usize,
        /// The packet's number.
        packet: usize,
    },
    /// A packet passed other tests than the filter's, or has another verdict.
    #[error("packet {packet}: the tests or the verdict differ from the filter's")]
    Path {
        /// The packet's number.
        packet: usize,
    },
    /// The code ran longer than its packets require.
    #[error("no end after {steps} patterns")]
    Endless {
        /// Patterns run.
        steps: usize,
    },
}

/// Whether the test of a block holds for a packet.
pub type TestOutcome<'a> = dyn Fn(usize, BlockId) -> bool + 'a;

/// Checks times and reservations of `plan`: each test comes after its
/// predecessors and when its data is loaded, the last test is made while the
/// packet is in flight, and a slot has branches of one stage only.
///
/// # Errors
/// The first violation.
pub fn check_schedule(plan: &EmsPlan<'_>) -> Result<(), Fault> {
    let (graph, schedule) = (&plan.graph, &plan.schedule);
    // By test: when a packet reaches it, and when its data is loaded.
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

/// Runs the patterns of `plan` for `packets` packets; `outcome` gives the
/// outcome of each block's test.
///
/// # Errors
/// The first violation.
pub fn check_run(
    plan: &EmsPlan<'_>,
    packets: usize,
    outcome: &TestOutcome<'_>,
) -> Result<(), Fault> {
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

/// The abstract machine that runs patterns.
struct Machine<'a> {
    plan: &'a EmsPlan<'a>,
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
    fn new(plan: &'a EmsPlan<'a>, packets: usize) -> Self {
        Self {
            plan,
            number: -1,
            places: vec![None; plan.schedule.stages],
            data: vec![None; plan.schedule.stages],
            paths: vec![Vec::new(); packets],
            verdicts: vec![None; packets],
        }
    }

    fn run(&mut self, outcome: &TestOutcome<'_>) -> Result<(), Fault> {
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

    fn step(
        &mut self,
        pattern: PatternId,
        step: Step,
        outcome: &TestOutcome<'_>,
    ) -> Result<(), Fault> {
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

    /// The outcome of the test of `node` for `packet`; records the test.
    fn test(
        &mut self,
        pattern: PatternId,
        packet: Packet,
        node: NodeId,
        outcome: &TestOutcome<'_>,
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

    /// The number of `packet`; an error if it is not in the batch.
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
