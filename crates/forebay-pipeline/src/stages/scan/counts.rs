//! What a scan stage counts.

use forebay_scan::reassembly::Uncertainty;

use super::flows::ScannedFlows;
use super::rules::RuleCounts;
use crate::remarks::Remarks;

/// Flows and packets by what became of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub hit_packets: u64,
    pub hit_flows: u64,
    pub suspect_packets: u64,
    pub waiting_packets: u64,
    pub doubts: [u64; Uncertainty::ALL.len()],
    pub evicted: u64,
    pub rules: RuleCounts,
}

impl Counts {
    /// Counts doubts about flows that have ended.
    pub(super) fn add_ended(&mut self, flows: &mut ScannedFlows) {
        for doubts in flows.ended.drain(..) {
            doubts.iter().for_each(|cause| self.doubts[cause as usize] += 1);
        }
    }

    /// The numbers by name, with `more_evicted` flows of a table in use.
    pub(super) fn remarks(&self, more_evicted: u64) -> Remarks {
        let Counts {
            hit_packets,
            hit_flows,
            suspect_packets,
            waiting_packets,
            doubts,
            evicted,
            rules,
        } = *self;
        let evicted = evicted + more_evicted;
        let mut remarks = Remarks::from([
            ("scan_packets_hit", hit_packets),
            ("scan_flows_hit", hit_flows),
            ("scan_packets_suspect", suspect_packets),
            ("scan_packets_waiting", waiting_packets),
            ("scan_flows_evicted", evicted),
            ("scan_flows_trigger", rules.trigger_flows),
            ("scan_flows_forward", rules.forward_flows),
            ("scan_packets_forward", rules.forward_packets),
        ]);
        for (cause, count) in Uncertainty::ALL.into_iter().zip(doubts) {
            remarks.add(&Remarks::from([(remark(cause), count)]));
        }
        remarks
    }
}

/// The name of the remark on flows with a cause of doubt, and on packets of no flow.
fn remark(cause: Uncertainty) -> &'static str {
    match cause {
        Uncertainty::Middle => "scan_doubt_middle",
        Uncertainty::Overlap => "scan_doubt_overlap",
        Uncertainty::Unverified => "scan_doubt_unverified",
        Uncertainty::Gap => "scan_doubt_gap",
        Uncertainty::Memory => "scan_doubt_memory",
        Uncertainty::OutOfWindow => "scan_doubt_out_of_window",
        Uncertainty::Truncated => "scan_doubt_truncated",
        Uncertainty::Urgent => "scan_doubt_urgent",
        Uncertainty::Syn => "scan_doubt_syn",
        Uncertainty::Fin => "scan_doubt_fin",
        Uncertainty::PastFin => "scan_doubt_past_fin",
        Uncertainty::Fragment => "scan_doubt_fragment",
        Uncertainty::Undecoded => "scan_doubt_undecoded",
        Uncertainty::Reset => "scan_doubt_reset",
        Uncertainty::Reload => "scan_doubt_reload",
    }
}
