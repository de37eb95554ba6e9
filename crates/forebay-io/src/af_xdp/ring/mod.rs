//! The memory that an `AF_XDP` socket shares with the kernel: its frames, and the four
//! rings that pass their ownership (Documentation/networking/af_xdp.rst, "Concepts").
//!
//! A ring is an array of a power of two of entries and two positions that wrap only at 32
//! bits. The producer writes entries from its position on and then stores the position
//! (release); the consumer loads it (acquire), reads the entries, and stores its own
//! position (release), which the producer loads (acquire) before it writes there again.
//! Each side writes only its own position.
//!
//! A [`Frame`] is the right to use one frame's memory. There is one for each frame of the
//! process, created with the memory; it cannot be copied. Putting it into a ring passes it
//! to the kernel, and a frame taken from a ring is created from the address that the kernel
//! returned. This relies on the kernel returning each frame once, and checking descriptors.
//!
//! A ring that we produce for accepts only frames that were created for it, and has an
//! entry for each, so it never overflows. (Its consumer position does not help: the kernel
//! stores it only after it has used up the entries seen before.) The frames of a ring have
//! consecutive numbers that no other frame of the process has: one comparison checks that a
//! frame may be put there, and one that it belongs to a memory. A socket has one ring of
//! each kind, as the kernel refuses to size one again, and is bound to its own memory in
//! this module, before other modules can use it.
//!
//! | module | has |
//! |---|---|
//! | `umem` | frames and their memory |
//! | `rings` | the four rings |
//! | `socket` | sockets, from which rings are created |

mod rings;
mod socket;
mod umem;

pub(super) use rings::{CompletionRing, FillRing, Leased, Piece, ReceiveRing, TransmitRing};
pub(super) use socket::{Bound, Unbound};
pub(super) use umem::Frame;
