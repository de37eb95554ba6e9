//! What is known of one flow.

use forebay_packet::FlowKey;

/// Bits of TCP's control field (RFC 9293, section 3.1).
pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// Why a record ended before the traffic did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// No packet came for the idle timeout.
    Idle,
    /// It lasted for the active timeout; the flow may go on in another record.
    Active,
    /// TCP closed or reset the connection, and a new one began or none followed.
    Closed,
    /// The table was full.
    Evicted,
}

impl EndReason {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Closed => "closed",
            Self::Evicted => "evicted",
        }
    }
}

const _: () = assert!(size_of::<FlowRecord>() == 128);

/// One flow. Two cache lines; the first is all that finding it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct FlowRecord {
    /// The flow.
    pub key: FlowKey,
    /// Packets from the end that sent the first packet, and to it.
    pub packets: [u64; 2],
    /// Bytes on the wire from the end that sent the first packet, and to it.
    pub bytes: [u64; 2],
    /// Earliest time stamp, nanoseconds since the epoch.
    pub first: i64,
    /// Latest time stamp, nanoseconds since the epoch.
    pub last: i64,
    /// Time stamp of the last packet, by which silence is told: in a capture whose times go
    /// back, before `last`.
    pub seen: i64,
    /// The output of the first packet each way, likewise; nothing where none went that
    /// way, or nothing was balanced. The two differ only where flows are split by one end.
    pub outputs: [Option<u16>; 2],
    /// Packets, of those counted, that were dropped behind the cutoff; at most `u32::MAX`.
    pub cut: u32,
    /// Packets, of those counted, that a policy dropped; at most `u32::MAX`.
    pub shed: u32,
    /// What a policy keeps of the flow.
    pub state: u16,
    /// All of TCP's control bits that were set in packets each way, likewise.
    pub tcp_flags: [u8; 2],
    /// What the cutoff keeps each way, likewise; 0 if it has not been reached. The next record of a flow whose record ends by the active timeout begins with this, and with
    /// `state`.
    pub cut_off: [u8; 2],
    /// The first packet came from the key's high end, which is therefore `a`.
    pub a_is_high: bool,
    /// Why it ended; nothing if it was open when the traffic ended.
    pub ended: Option<EndReason>,
}

impl FlowRecord {
    /// Without packets yet.
    pub(super) fn new(key: FlowKey, a_is_high: bool, nanos: i64) -> Self {
        Self { key, first: nanos, last: nanos, seen: nanos, a_is_high, ..Self::default() }
    }

    /// The next record of the flow of `ended`.
    pub(super) fn continuing(self, ended: &Self) -> Self {
        let [ab, ba] = ended.cut_off;
        let cut_off = if self.a_is_high == ended.a_is_high { [ab, ba] } else { [ba, ab] };
        Self { state: ended.state, cut_off, ..self }
    }

    /// The output of the first packet.
    #[must_use]
    pub fn output(&self) -> Option<u16> {
        self.outputs[0]
    }

    /// Packets both ways.
    #[must_use]
    pub fn total_packets(&self) -> u64 {
        self.packets[0] + self.packets[1]
    }

    /// Bytes on the wire both ways.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes[0] + self.bytes[1]
    }

    /// Both ends have closed the connection, or one has reset it.
    pub(super) fn is_closed(&self) -> bool {
        let [ab, ba] = self.tcp_flags;
        (ab | ba) & RST != 0 || ab & ba & FIN != 0
    }
}
