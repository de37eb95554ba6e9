//! What became of packets and flows.

use crate::remarks::Remarks;
use crate::stages::PassReason;

/// How long packets had waited that went on, in nanoseconds, by remark.
const WAITED: [(u64, &str); 4] = [
    (10_000_000, "gateway_replayed_within_10ms"),
    (1_000_000_000, "gateway_replayed_within_1s"),
    (60_000_000_000, "gateway_replayed_within_1m"),
    (u64::MAX, "gateway_replayed_later"),
];

/// Packets, bytes on the wire, and flows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub packets: u64,
    pub bytes: u64,
    pub flows: u64,
}

impl Count {
    /// Counts a packet.
    pub(super) fn add(&mut self, wire_len: u32) {
        self.packets += 1;
        self.bytes += u64::from(wire_len);
    }
}

/// What passed for each reason, what was withheld, and how long packets waited that passed.
pub(super) struct Counts {
    passed: [Count; PassReason::COUNT],
    pub withheld: Count,
    waited: [u64; WAITED.len()],
    /// Packets that waited for a sensor.
    pub waited_for_sensor: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            passed: [Count::default(); PassReason::COUNT],
            withheld: Count::default(),
            waited: [0; WAITED.len()],
            waited_for_sensor: 0,
        }
    }
}

impl Counts {
    /// What passed for a reason.
    pub(super) fn passed(&mut self, reason: PassReason) -> &mut Count {
        &mut self.passed[usize::from(reason.number())]
    }

    /// Counts a packet that passes after so many nanoseconds.
    pub(super) fn add_waited(&mut self, nanos: u64) {
        let slot = WAITED.iter().position(|&(limit, _)| nanos <= limit);
        self.waited[slot.unwrap_or(WAITED.len() - 1)] += 1;
    }

    pub(super) fn remarks(&self) -> Remarks {
        let mut remarks = Remarks::from([
            ("gateway_withheld_flows", self.withheld.flows),
            ("gateway_withheld_bytes", self.withheld.bytes),
        ]);
        for ((_, name), packets) in WAITED.iter().zip(self.waited) {
            remarks.add(&Remarks::from([(*name, packets)]));
        }
        if self.waited_for_sensor > 0 {
            remarks.add(&Remarks::from([("gateway_waited_for_sensor", self.waited_for_sensor)]));
        }
        let reasons = PassReason::all().zip(&self.passed);
        for (reason, count) in reasons.filter(|(_, count)| count.packets > 0) {
            remarks.add(&Remarks::from([
                (reason.packets_remark(), count.packets),
                (reason.bytes_remark(), count.bytes),
                (reason.flows_remark(), count.flows),
            ]));
        }
        remarks
    }
}
