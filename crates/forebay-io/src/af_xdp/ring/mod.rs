//! The memory that an `AF_XDP` socket shares with the kernel: its frames, and the four
//! rings that say whose they are (Documentation/networking/af_xdp.rst, "Concepts").
//!
//! A ring is an array of a power of two of entries and two positions that never wrap but
//! at 32 bits. The producer writes entries from its position on and then stores the
//! position (release); the consumer loads it (acquire), reads the entries, and stores its
//! own position (release), which the producer loads (acquire) before it writes there
//! again. Each side writes its own position only.
//!
//! A [`Frame`] is the right to use one frame's memory. There is one for each frame of the
//! process, made with the memory; it cannot be copied. Putting it into a ring gives it to
//! the kernel, and the frame that comes out of a ring is made of the address the kernel
//! gave back: that the kernel gives each frame back once is what is trusted here, and that
//! it checks descriptors.
//!
//! A ring that we put frames into takes those that were made for it alone, and has a place
//! for each, so that it is never too full. (Its consumer's position would not tell: the
//! kernel stores it only when it has used up what it saw last.) The frames of a ring have
//! numbers in a row that no other frame of the process has: one comparison tells whether a
//! frame may be put there, and one whether it lies in a memory. A socket has one ring of a
//! kind, as the kernel refuses to size one again, and is bound here, to its own memory;
//! only then others get to see it.
//!
//! | module | has |
//! |---|---|
//! | `umem` | frames and their memory |
//! | `rings` | the four rings |
//! | `socket` | sockets, which their rings are made of |

mod rings;
mod socket;
mod umem;

pub(super) use rings::{CompletionRing, FillRing, Leased, Piece, ReceiveRing, TransmitRing};
pub(super) use socket::{Bound, Unbound};
pub(super) use umem::Frame;
