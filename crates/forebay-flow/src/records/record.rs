//! The record of one flow.
//!
//! All fields fit two cache lines, so some are packed. Of the packets of a direction, the lowest 32
//! bits have a field of their own; the other bits are above the 52 bits of the bytes. A record whose
//! counters are half full ends, so they never overflow.

use std::num::NonZeroU16;

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
    /// It lasted for the active timeout, or its counters were half full; the flow may go on in
    /// another record.
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

/// Bits of a volume that count bytes.
const BYTES: u32 = 52;

/// Set in a volume of 2^51 bytes or more, or with 2^43 packets or more.
const HALF_FULL: u64 = 1 << (BYTES - 1) | 1 << 63;

/// Nanoseconds, as a power of 2, to which the time stamp of the last packet is kept if it is not the
/// latest: two milliseconds.
const SEEN_UNIT: u32 = 21;

/// Flags of a record: the first packet came from the key's high end; some packet was suspect.
const A_IS_HIGH: u8 = 1;
const SUSPECT: u8 = 2;

/// One flow. Two cache lines; the first is all that finding it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct FlowRecord {
    /// The flow.
    pub key: FlowKey,
    /// The lowest 32 bits of the packets from the end that sent the first packet, and to it.
    packets: [u32; 2],
    /// One more than the output of the first packet, likewise.
    outputs: [Option<NonZeroU16>; 2],
    /// 0 if the last packet has the latest time stamp; otherwise 1, and above this bit the last packet's
    /// time stamp in units of 2^[`SEEN_UNIT`] nanoseconds modulo 2^31.
    seen: u32,
    /// Bytes on the wire, likewise; above them, the packets but for their lowest 32 bits.
    volumes: [u64; 2],
    /// Earliest time stamp, likewise; where there is no packet, that of a packet in the other
    /// direction.
    first: [i64; 2],
    /// Latest time stamp, as `first`.
    last: [i64; 2],
    /// Packets, of those counted, that were dropped behind the cutoff; at most `u32::MAX`.
    pub cut: u32,
    /// Packets, of those counted, that a policy dropped; at most `u32::MAX`.
    pub shed: u32,
    /// What a policy keeps of the flow.
    pub state: u16,
    /// All of TCP's control bits that were set in packets from the end that sent the first packet,
    /// and to it.
    pub tcp_flags: [u8; 2],
    /// What the cutoff keeps, likewise; 0 if it has not been reached. The next record of a flow whose
    /// record ends by the active timeout begins with this, and with `state`.
    pub cut_off: [u8; 2],
    /// [`A_IS_HIGH`] and [`SUSPECT`].
    flags: u8,
    /// Why it ended; nothing if it was open when the traffic ended.
    pub ended: Option<EndReason>,
}

impl FlowRecord {
    /// A record without packets yet, whose first one comes from the key's high end or not.
    #[must_use]
    pub fn new(key: FlowKey, a_is_high: bool, nanos: i64) -> Self {
        Self {
            key,
            first: [nanos; 2],
            last: [nanos; 2],
            flags: u8::from(a_is_high) * A_IS_HIGH,
            ..Self::default()
        }
    }

    /// Whether the first packet came from the key's high end, which is therefore `a`.
    #[inline]
    #[must_use]
    pub fn a_is_high(&self) -> bool {
        self.flags & A_IS_HIGH != 0
    }

    /// Whether some packet was suspect: in its flow a scan had found something, or may have missed
    /// it.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.flags & SUSPECT != 0
    }

    /// Notes that a packet was suspect.
    #[inline]
    pub fn mark_suspect(&mut self) {
        self.flags |= SUSPECT;
    }

    /// The record with these packets from the end that sent the first packet, and to it. Packets
    /// from 2^44 and bytes from 2^52 are counted modulo these numbers. The packet with the latest
    /// time stamp is taken for the last.
    #[must_use]
    pub fn with_directions(self, [ab, ba]: [DirectionCounts; 2]) -> Self {
        let timed = |own: DirectionCounts, other| if own.packets == 0 { other } else { own };
        let timed = [timed(ab, ba), timed(ba, ab)];
        let volume = |DirectionCounts { packets, bytes, .. }| {
            packets >> u32::BITS << BYTES | bytes & ((1 << BYTES) - 1)
        };
        Self {
            packets: [ab.packets as u32, ba.packets as u32],
            volumes: [volume(ab), volume(ba)],
            first: timed.map(|counts| counts.first),
            last: timed.map(|counts| counts.last),
            seen: 0,
            ..self
        }
    }

    /// The next record of the flow of `ended`.
    pub(super) fn continuing(self, ended: &Self) -> Self {
        let [ab, ba] = ended.cut_off;
        let cut_off = if self.a_is_high() == ended.a_is_high() { [ab, ba] } else { [ba, ab] };
        Self { state: ended.state, cut_off, ..self }
    }

    /// The record, ended for a reason.
    pub(super) fn ending(&self, reason: EndReason) -> Self {
        Self { ended: Some(reason), ..*self }
    }

    /// Packets from the end that sent the first packet, and to it.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> [u64; 2] {
        [0, 1].map(|direction| {
            self.volumes[direction] >> BYTES << u32::BITS | u64::from(self.packets[direction])
        })
    }

    /// Bytes on the wire from the end that sent the first packet, and to it.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> [u64; 2] {
        self.volumes.map(|volume| volume & ((1 << BYTES) - 1))
    }

    /// Packets, bytes and time stamps from the end that sent the first packet, and to it.
    #[must_use]
    pub fn directions(&self) -> [DirectionCounts; 2] {
        let (packets, bytes) = (self.packets(), self.bytes());
        [0, 1].map(|direction| DirectionCounts {
            packets: packets[direction],
            bytes: bytes[direction],
            first: self.first[direction],
            last: self.last[direction],
        })
    }

    /// Earliest time stamp, nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub fn first(&self) -> i64 {
        self.first[0].min(self.first[1])
    }

    /// Latest time stamp, nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub fn last(&self) -> i64 {
        self.last[0].max(self.last[1])
    }

    /// The output of the first packet from the end that sent the first packet, and of the first to
    /// it; nothing where none went in that direction, or nothing was balanced. The two differ only where
    /// flows are split by one end.
    #[inline]
    #[must_use]
    pub fn outputs(&self) -> [Option<u16>; 2] {
        self.outputs.map(|output| output.map(|more| more.get() - 1))
    }

    /// Sets the output of the first packet of a direction; `u16::MAX` is none.
    #[inline]
    pub fn set_output(&mut self, direction: usize, output: Option<u16>) {
        self.outputs[direction] = output.and_then(|output| NonZeroU16::new(output.wrapping_add(1)));
    }

    /// The output of the first packet.
    #[must_use]
    pub fn output(&self) -> Option<u16> {
        self.outputs()[0]
    }

    /// Packets both ways.
    #[inline]
    #[must_use]
    pub fn total_packets(&self) -> u64 {
        let [ab, ba] = self.packets();
        ab + ba
    }

    /// Bytes on the wire both ways.
    #[inline]
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        let [ab, ba] = self.bytes();
        ab + ba
    }

    /// Whether no packet went in a direction.
    #[inline]
    pub(super) fn is_empty(&self, direction: usize) -> bool {
        self.packets[direction] == 0 && self.volumes[direction] >> BYTES == 0
    }

    /// Another packet could fill a counter.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        (self.volumes[0] | self.volumes[1]) & HALF_FULL != 0
    }

    /// Counts a packet. Returns whether it is the first in its direction.
    #[inline]
    pub(super) fn count(&mut self, direction: usize, nanos: i64, wire_len: u32) -> bool {
        let is_first = self.is_empty(direction);
        self.seen = if nanos < self.last() { in_seen_units(nanos) | 1 } else { 0 };
        let (packets, carry) = self.packets[direction].overflowing_add(1);
        self.packets[direction] = packets;
        self.volumes[direction] += u64::from(wire_len) | u64::from(carry) << BYTES;
        let (first, last) = (self.first[direction], self.last[direction]);
        self.first[direction] = if is_first { nanos } else { first.min(nanos) };
        self.last[direction] = if is_first { nanos } else { last.max(nanos) };
        is_first
    }

    /// Nanoseconds from the last packet to `now`, negative if it was after that. In a capture whose
    /// times go back, the last packet is not always the latest; then the result may be two
    /// milliseconds less or more, and is right up to 26 days.
    #[inline]
    pub(super) fn silence(&self, now: i64) -> i64 {
        if self.seen & 1 == 0 {
            return now.saturating_sub(self.last());
        }
        let doubled_units = in_seen_units(now).wrapping_sub(self.seen & !1).cast_signed();
        i64::from(doubled_units) << (SEEN_UNIT - 1)
    }

    /// Marks the record as free; `next` is kept in it.
    pub(super) fn free(&mut self, next: u32) {
        (self.packets, self.volumes, self.seen) = ([0; 2], [0; 2], next);
    }

    /// What [`FlowRecord::free`] has kept.
    pub(super) fn next_free(&self) -> u32 {
        self.seen
    }

    /// Both ends have closed the connection, or one has reset it.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        let [ab, ba] = self.tcp_flags;
        (ab | ba) & RST != 0 || ab & ba & FIN != 0
    }
}

/// The packets of a flow in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounts {
    /// How many.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Earliest time stamp, nanoseconds since the epoch; without meaning if there are no packets.
    pub first: i64,
    /// Latest time stamp, likewise.
    pub last: i64,
}

impl DirectionCounts {
    /// The earliest and the latest time stamp, if there are packets.
    #[must_use]
    pub fn times(&self) -> Option<[i64; 2]> {
        (self.packets > 0).then_some([self.first, self.last])
    }
}

/// A time stamp in units of 2^[`SEEN_UNIT`] nanoseconds, above the lowest bit.
fn in_seen_units(nanos: i64) -> u32 {
    (nanos >> SEEN_UNIT << 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_count_beyond_32_bits() {
        let direction = |packets| DirectionCounts { packets, bytes: 5, first: 1, last: 2 };
        let most = u64::from(u32::MAX);
        let mut record = FlowRecord::default().with_directions([direction(most - 1), direction(0)]);
        for packets in most..most + 3 {
            assert!(!record.count(0, 3, 60));
            assert_eq!(record.packets(), [packets, 0]);
            assert!(!record.is_empty(0) && record.is_empty(1) && !record.is_full());
        }
        assert_eq!(record.bytes(), [5 + 3 * 60, 5]);
        assert!(record.count(1, 3, 60) && !record.count(1, 3, 60));
    }

    #[test]
    fn a_record_is_full_before_a_counter_overflows() {
        let is_full = |packets, bytes| {
            let direction = DirectionCounts { packets, bytes, first: 1, last: 2 };
            let record =
                FlowRecord::default().with_directions([DirectionCounts::default(), direction]);
            let [_, counted] = record.directions();
            assert_eq!(counted, direction);
            record.is_full()
        };
        assert!(!is_full((1 << 43) - 1, (1 << 51) - 1));
        assert!(is_full(1 << 43, 0) && is_full((1 << 44) - 1, 7));
        assert!(is_full(1, 1 << 51) && is_full(1, (1 << 52) - 1));
    }

    #[test]
    fn silence_is_from_the_last_packet_not_the_latest() {
        let second = 1_000_000_000;
        let mut record = FlowRecord::new(FlowKey::default(), false, 7);
        record.count(0, 7, 60);
        assert_eq!(record.silence(9), 2);
        assert_eq!(record.silence(5), -2);
        // To the nanosecond while times do not go back.
        record.count(1, 3 * second + 1, 60);
        assert_eq!(record.silence(3 * second + 4), 3);
        for latest in [5 * second, 1 << 60] {
            record.count(0, latest, 60);
            record.count(1, second, 60);
            for silence in [-second, 0, 86_400 * second] {
                let found = record.silence(second + silence);
                assert!(found.abs_diff(silence) <= 1 << SEEN_UNIT, "{found} for {silence}");
            }
        }
    }
}
