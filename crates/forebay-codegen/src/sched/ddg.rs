//! The data-dependence graph of a loop, and its lower bound of the II.
//!
//! Nodes are the ops of one iteration. An edge from `a` to `b` of latency `l`
//! and distance `d` means that `b` of iteration `i + d` may start `l` cycles
//! after `a` of iteration `i`. In a schedule that starts an iteration every II
//! cycles, with `t` the times within an iteration:
//!
//! > t(b) ≥ t(a) + l − II · d
//!
//! So around a circuit the sum of latencies must not exceed II times the sum of
//! distances. RecMII is the least II for which this holds for every circuit
//! (Rau, "Iterative modulo scheduling", 1996, section 2.2).
//!
//! A loop over packets has one recurrence, the packet number, which is a node
//! of its own after the ops. Ops use it by displacement, not by dependence.

use forebay_filter::cancel;
use iced_x86::Mnemonic;

use super::ties::overwritten;
use super::values::Values;
use crate::mir::{LoopBody, Op, Operand};

/// The latencies that a schedule assumes. Out-of-order processors wait for the
/// actual result, whatever a schedule assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Cycles of a load.
    pub load: u8,
    /// The most cycles of an op's own latency, after its load if any.
    pub work: u8,
}

impl Latencies {
    /// The ops' own latencies, and `load` cycles for a load.
    #[must_use]
    pub fn of_loads(load: u8) -> Self {
        Self { load, work: u8::MAX }
    }

    /// Shorter latencies to try, one after another, if registers do not
    /// suffice: they shorten the lifetime of registers.
    pub(super) fn shorter(self) -> [Self; 2] {
        [
            Self { load: self.load.min(1), work: self.work.min(2) },
            Self { load: 0, work: self.work.min(1) },
        ]
    }
}

/// A dependence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The node that must come first.
    pub from: u32,
    /// The node that depends on it.
    pub to: u32,
    /// Cycles from the start of `from` to the earliest start of `to`.
    pub latency: u32,
    /// Iterations between the two.
    pub distance: u32,
}

impl Edge {
    /// The least delay from `from` to `to` in the schedule of an iteration, in
    /// cycles.
    #[must_use]
    pub fn delay(&self, ii: u32) -> i64 {
        i64::from(self.latency) - i64::from(ii) * i64::from(self.distance)
    }
}

/// A dependence graph.
#[derive(Clone, Debug)]
pub struct Ddg {
    nodes: usize,
    /// All edges, by `from`.
    edges: Vec<Edge>,
    /// Where the edges of each node start in `edges`, and the end.
    out_starts: Vec<u32>,
    /// The edges by `to`.
    incoming: Vec<Edge>,
    in_starts: Vec<u32>,
}

impl Ddg {
    /// A graph of `nodes` nodes. Edges of distance 0 must lead from lower to
    /// higher numbers.
    #[must_use]
    pub fn new(nodes: usize, mut edges: Vec<Edge>) -> Self {
        debug_assert!(edges.iter().all(|edge| edge.distance > 0 || edge.from < edge.to));
        edges.sort_unstable_by_key(|edge| (edge.from, edge.to));
        let mut incoming = edges.clone();
        incoming.sort_unstable_by_key(|edge| (edge.to, edge.from));
        let out_starts = starts(nodes, edges.iter().map(|edge| edge.from));
        let in_starts = starts(nodes, incoming.iter().map(|edge| edge.to));
        Self { nodes, edges, out_starts, incoming, in_starts }
    }

    /// The graph of a loop that obeys the rule of [`super::ties`]. Its last
    /// node is the packet number.
    #[must_use]
    pub fn of_loop(body: &LoopBody, values: &Values, latencies: Latencies) -> Self {
        let mut edges = Vec::with_capacity(3 * body.ops.len());
        for (number, op) in body.ops.iter().enumerate() {
            cancel::check();
            let from = number as u32;
            if let Some(dest) = op.dest {
                let latency = result_latency(op, latencies);
                let readers = values.readers(dest).iter();
                edges.extend(readers.map(|&to| Edge { from, to, latency, distance: 0 }));
            }
            if let Some(source) = overwritten(op) {
                let others = values.readers(source).iter().filter(|&&reader| reader != from);
                edges.extend(others.map(|&reader| Edge {
                    from: reader,
                    to: from,
                    latency: 0,
                    distance: 0,
                }));
            }
        }
        let packet = body.ops.len() as u32;
        edges.push(Edge { from: packet, to: packet, latency: 1, distance: 1 });
        Self::new(body.ops.len() + 1, edges)
    }

    /// Number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// All dependences.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The edges from `node`.
    #[must_use]
    pub fn out(&self, node: usize) -> &[Edge] {
        &self.edges[self.out_starts[node] as usize..self.out_starts[node + 1] as usize]
    }

    /// The edges to `node`.
    #[must_use]
    pub fn into(&self, node: usize) -> &[Edge] {
        &self.incoming[self.in_starts[node] as usize..self.in_starts[node + 1] as usize]
    }

    /// RecMII: the least II that the circuits allow; 0 without circuits.
    #[must_use]
    pub fn rec_mii(&self) -> u32 {
        let alone = self
            .edges
            .iter()
            .filter(|edge| edge.from == edge.to && edge.distance > 0)
            .map(|edge| edge.latency.div_ceil(edge.distance))
            .max()
            .unwrap_or(0);
        if self.edges.iter().all(|edge| edge.from <= edge.to) {
            return alone;
        }
        // For circuits of several nodes the sum of all latencies is an upper
        // bound, since a circuit's distance is at least 1.
        let mut low = alone;
        let mut high = self.edges.iter().map(|edge| edge.latency).sum::<u32>().max(alone);
        while low < high {
            let middle = low.midpoint(high);
            if self.admits(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Whether no circuit has a positive sum of delays at this II (longest
    /// paths by Bellman and Ford converge).
    fn admits(&self, ii: u32) -> bool {
        let mut longest = vec![0i64; self.nodes];
        for _ in 0..=self.nodes {
            cancel::check();
            let mut settled = true;
            for edge in &self.edges {
                let at_least = longest[edge.from as usize] + edge.delay(ii);
                if at_least > longest[edge.to as usize] {
                    longest[edge.to as usize] = at_least;
                    settled = false;
                }
            }
            if settled {
                return true;
            }
        }
        false
    }

    /// By node: the longest sum of delays to the end of the iteration, the
    /// height in Rau's priority. `ii` must be at least RecMII.
    #[must_use]
    pub fn heights(&self, ii: u32) -> Vec<i64> {
        let mut heights = vec![0i64; self.nodes];
        // If all edges lead forward, one pass suffices and a second one changes
        // nothing.
        for _ in 0..=self.nodes {
            cancel::check();
            let mut settled = true;
            for edge in self.edges.iter().rev() {
                let height = heights[edge.to as usize] + edge.delay(ii);
                if height > heights[edge.from as usize] {
                    heights[edge.from as usize] = height;
                    settled = false;
                }
            }
            if settled {
                break;
            }
        }
        heights
    }
}

/// Cycles from the issue of `op` until its result may be used: the op's own
/// latency, after that of the load if a source is in memory. (`lea` has a
/// memory operand and loads nothing; stores and prefetches have no result.)
#[must_use]
pub fn result_latency(op: &Op, latencies: Latencies) -> u32 {
    let loads = op.operands.iter().any(|operand| matches!(operand, Operand::Memory(_)))
        && op.code.mnemonic() != Mnemonic::Lea;
    let load = if loads { latencies.load } else { 0 };
    u32::from(op.latency.min(latencies.work)) + u32::from(load)
}

/// Where the run of each node starts in an ascending sequence, and the end.
fn starts(nodes: usize, sequence: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut starts = vec![0u32; nodes + 1];
    for node in sequence {
        starts[node as usize + 1] += 1;
    }
    for node in 0..nodes {
        starts[node + 1] += starts[node];
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: u32, to: u32, latency: u32, distance: u32) -> Edge {
        Edge { from, to, latency, distance }
    }

    #[test]
    fn rec_mii_is_the_greatest_ratio_of_a_circuit() {
        let graph = Ddg::new(3, vec![edge(0, 1, 3, 0), edge(1, 2, 2, 0)]);
        assert_eq!(graph.rec_mii(), 0);
        let graph = Ddg::new(3, vec![edge(0, 1, 3, 0), edge(1, 2, 2, 0), edge(2, 0, 2, 2)]);
        assert_eq!(graph.rec_mii(), 4, "7 cycles over 2 iterations");
        let graph = Ddg::new(
            3,
            vec![edge(0, 1, 3, 0), edge(1, 2, 2, 0), edge(2, 0, 2, 2), edge(1, 1, 5, 1)],
        );
        assert_eq!(graph.rec_mii(), 5, "the circuit of one node binds");
    }

    #[test]
    fn heights_are_longest_delays_to_the_end() {
        let graph = Ddg::new(
            4,
            vec![edge(0, 1, 3, 0), edge(0, 2, 1, 0), edge(1, 3, 1, 0), edge(2, 3, 9, 0)],
        );
        assert_eq!(graph.heights(1), [10, 1, 9, 0]);
        let graph = Ddg::new(2, vec![edge(0, 1, 3, 0), edge(1, 0, 1, 1)]);
        assert_eq!(graph.heights(4), [3, 0]);
    }
}
