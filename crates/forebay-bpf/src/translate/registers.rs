//! Where the registers and the memory of the classic machine are.

use forebay_filter::program::instruction::Size as ClassicSize;
use forebay_filter::verify::MEMORY_CELLS;

use crate::asm::Register::{R7, R8};
use crate::asm::{Register, Size};

/// The registers of A and X; both survive calls.
pub(super) const A: Register = R7;
pub(super) const X: Register = R8;

/// Offsets from the frame pointer of M\[\], the length of the frame, and bytes fetched by a
/// helper.
pub(super) const MEMORY: i16 = -4 * MEMORY_CELLS as i16;
pub(super) const LENGTH: i16 = MEMORY - 8;
pub(super) const FETCHED: i16 = LENGTH - 8;

/// The stack offset of a memory cell.
pub(super) fn memory(cell: u32) -> i16 {
    MEMORY + 4 * cell as i16
}

/// The size of a load.
pub(super) fn width(size: ClassicSize) -> Size {
    match size {
        ClassicSize::Byte => Size::Byte,
        ClassicSize::Half => Size::Half,
        ClassicSize::Word => Size::Word,
    }
}
