//! What the registers hold.

use crate::list::registers::Gpr;

/// Packet memory; on entry, the argument table.
pub(super) const BASE: Gpr = Gpr(7);
/// The number of the newest packet minus the number of packets.
pub(super) const NUMBER: Gpr = Gpr(6);
/// The end of the table of offsets.
pub(super) const OFFSET: Gpr = Gpr(8);
/// The end of the table of verdicts.
pub(super) const VERDICT: Gpr = Gpr(9);
/// The end of the table of captured lengths.
pub(super) const CAP_LEN: Gpr = Gpr(10);
/// The end of the table of lengths on the wire; free if the filter does not
/// read them.
pub(super) const WIRE_LEN: Gpr = Gpr(11);

/// The other registers; those that need no saving first.
pub(super) const OTHERS: [Gpr; 9] =
    [Gpr(0), Gpr(1), Gpr(2), Gpr(3), Gpr(5), Gpr(12), Gpr(13), Gpr(14), Gpr(15)];

/// The number of registers for packets in flight and for temporaries.
pub(super) fn free_registers(reads_wire_length: bool) -> usize {
    OTHERS.len() + usize::from(!reads_wire_length)
}
