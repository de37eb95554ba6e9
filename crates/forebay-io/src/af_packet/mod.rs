//! Network devices through `AF_PACKET` sockets, with rings shared with the kernel
//! (packet(7); Documentation/networking/packet_mmap.rst in the kernel's sources).
//!
//! [`PacketRx`] receives with TPACKET_V3: the kernel fills blocks of memory with packets
//! and hands over a block when it is full or old enough. Packets are not copied again:
//! batches refer to the block, which returns to the kernel when the last of them is
//! dropped. Parts that the kernel keeps beside a packet are restored first: VLAN tags that
//! were stripped, and checksums that a sender on this host left incomplete.
//!
//! [`PacketTx`] sends with a TPACKET_V2 ring: packets are copied into slots, rewritten for
//! their outputs, and sent with one system call.
//!
//! [`FrameSocket`] has no ring: it is for the few frames of a control protocol.
//! [`StrayCounter`] counts frames for other stations.
//!
//! A group of receivers shares the packets of one device: a BPF program selects the member
//! for each packet.

mod block;
mod frames;
mod ring;
mod rx;
mod strays;
pub(crate) mod sys;
mod tx;
mod undelivered;

pub use frames::FrameSocket;
pub use rx::{PacketRx, RxNotes, RxOptions};
pub use strays::StrayCounter;
pub use tx::{PacketTx, TxOptions};
