//! The pcapng format (draft-ietf-opsawg-pcapng): blocks of a type, a length,
//! a body and the length again, all in the byte order of their section.

mod fields;
mod read;
mod write;

pub(crate) use read::Parser;
pub(crate) use write::{InterfaceDoesNotFit, interface_block, packet_block, section_header};

/// Section Header Block (section 4.1): the same in either byte order.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Interface Description Block (section 4.2).
pub(crate) const INTERFACE: u32 = 1;
/// Packet Block (appendix A), obsolete.
const OLD_PACKET: u32 = 2;
/// Simple Packet Block (section 4.4).
const SIMPLE_PACKET: u32 = 3;
/// Enhanced Packet Block (section 4.3).
pub(crate) const PACKET: u32 = 6;

/// The number in a section header that determines the section's byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Type and length before a block's body.
const BLOCK_HEAD: usize = 8;
/// The length again after it.
const BLOCK_TAIL: usize = 4;

/// Ends a list of options.
const OPT_END: u16 = 0;
/// The name the capturing system gave the interface.
const IF_NAME: u16 = 2;
/// Its description by a user.
const IF_DESCRIPTION: u16 = 3;
/// Ticks a second, as a power of 10, or of 2 with the top bit set.
const IF_TSRESOL: u16 = 9;
/// Seconds to add to each time stamp.
const IF_TSOFFSET: u16 = 14;
