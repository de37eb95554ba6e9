//! Types, lengths and options of pcapng blocks.

/// Section Header Block (section 4.1): the same in either byte order.
pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
/// Interface Description Block (section 4.2).
pub(crate) const INTERFACE: u32 = 1;
/// Packet Block (appendix A), obsolete.
pub(super) const OLD_PACKET: u32 = 2;
/// Simple Packet Block (section 4.4).
pub(super) const SIMPLE_PACKET: u32 = 3;
/// Enhanced Packet Block (section 4.3).
pub(crate) const PACKET: u32 = 6;

/// The number in a section header that determines the section's byte order.
pub(super) const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// Type and length before a block's body.
pub(super) const BLOCK_HEAD: usize = 8;
/// The length again after it.
pub(super) const BLOCK_TAIL: usize = 4;

/// Code and length before an option's value.
pub(super) const OPTION_HEAD: usize = 4;

/// A comment on any block.
pub(super) const OPT_COMMENT: u16 = 1;
/// Ends a list of options.
pub(super) const OPT_END: u16 = 0;
/// The name the capturing system gave the interface.
pub(super) const IF_NAME: u16 = 2;
/// Its description by a user.
pub(super) const IF_DESCRIPTION: u16 = 3;
/// Ticks a second, as a power of 10, or of 2 with the top bit set.
pub(super) const IF_TSRESOL: u16 = 9;
/// Seconds to add to each time stamp.
pub(super) const IF_TSOFFSET: u16 = 14;
