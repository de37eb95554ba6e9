//! Network devices by `AF_PACKET` sockets, over rings that the kernel shares with us
//! (packet(7); Documentation/networking/packet_mmap.rst in the kernel's sources).
//!
//! [`PacketRx`] receives by TPACKET_V3: the kernel fills blocks of memory with packets and
//! hands over a block when it is full or old enough. Packets are not copied again: batches
//! lie in the block, which goes back to the kernel when the last of them is dropped. What
//! the kernel keeps beside a packet is put back into it first: VLAN tags that were
//! stripped, and checksums that a sender on this host left half done.
//!
//! [`PacketTx`] sends by a TPACKET_V2 ring: packets are copied into slots, changed as
//! their outputs want them, and one system call has all of them sent.
//!
//! [`FrameSocket`] has neither ring: it is for the few frames of a protocol of one's own
//! beside the packets. [`StrayCounter`] counts frames for other stations.
//!
//! A group of receivers shares the packets of one device: a BPF program says which member
//! gets a packet.

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
