//! Schedules of one iteration without overlap.

use super::ddg::Ddg;
use super::resources::{ReservationTable, Resources};
use super::schedule::Schedule;
use forebay_filter::cancel;

/// Nodes by descending height; equal ones in program order.
pub(super) fn by_height(heights: &[i64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..heights.len() as u32).collect();
    order.sort_by_key(|&node| std::cmp::Reverse(heights[node as usize]));
    order
}

/// List scheduling: ops are placed in order of the longest path of latencies to
/// the end, each in the first cycle that its operands and a free unit allow.
/// Heights fall along dependences, so the operands of an op are placed before
/// it; where latency 0 makes heights equal, program order decides.
#[must_use]
pub fn list_schedule(ddg: &Ddg, resources: &Resources, ops: usize) -> Schedule {
    // Without overlap, dependences on earlier iterations always hold: an II
    // beyond all latencies removes them from the heights.
    let beyond = ddg.edges().iter().map(|edge| edge.latency).sum::<u32>().max(1);
    place_in_order(ddg, resources, ops, by_height(&ddg.heights(beyond)), false)
}

/// Program order: each op starts no earlier than the one before it.
#[must_use]
pub fn program_order(ddg: &Ddg, resources: &Resources, ops: usize) -> Schedule {
    place_in_order(ddg, resources, ops, (0..ddg.nodes() as u32).collect(), true)
}

fn place_in_order(
    ddg: &Ddg,
    resources: &Resources,
    ops: usize,
    order: Vec<u32>,
    monotonous: bool,
) -> Schedule {
    let mut table = ReservationTable::new(resources, 1);
    let mut times = vec![0u32; ddg.nodes()];
    let mut least = 0;
    for node in order.into_iter().map(|node| node as usize) {
        cancel::check();
        let ready = ddg
            .into(node)
            .iter()
            .filter(|edge| edge.distance == 0)
            .map(|edge| times[edge.from as usize] + edge.latency)
            .max()
            .unwrap_or(0);
        let mut time = ready.max(least) as usize;
        table.grow_to(time);
        while !table.fits(node, time) {
            time += 1;
            table.grow_to(time);
        }
        table.take(node, time);
        times[node] = time as u32;
        if monotonous {
            least = time as u32;
        }
    }
    // Units are free again when the next iteration starts.
    let length = table.rows() as u32;
    let carried = ddg.edges().iter().filter(|edge| edge.distance > 0).map(|edge| {
        let behind = times[edge.from as usize] + edge.latency;
        behind.saturating_sub(times[edge.to as usize]).div_ceil(edge.distance)
    });
    let ii = carried.max().unwrap_or(0).max(length);
    times.truncate(ops);
    Schedule { ii, times }
}
