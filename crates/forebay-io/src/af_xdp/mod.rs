//! Network devices by `AF_XDP` sockets: queue by queue, below the kernel's stack
//! (Documentation/networking/af_xdp.rst in the kernel's sources).
//!
//! A port is one queue of a device. Its memory, the UMEM, is cut into frames of equal
//! size, of which receiver and sender each have their own. Frames go around: the receiver
//! gives empty ones to the kernel by the fill ring and gets packets by the receive ring;
//! the sender gives packets by the transmit ring and gets the frames back by the
//! completion ring. Received packets are not copied again: batches lie in the frames,
//! which go back to the fill ring when the last of them is dropped.
//!
//! Where the driver can, the device itself reads and writes the frames; elsewhere the
//! kernel copies. A BPF program attached to the device must redirect its packets to the
//! sockets: the opener of a port enters each socket into that program's map.
//!
//! The stack has not seen these packets. A VLAN tag that the device strips, or a checksum
//! that a sender on this host left half done, is lost: [`crate::device::check`] sees to
//! it that devices do neither.

mod port;
mod ring;
mod rx;
mod tx;

pub use port::{Copying, XdpOptions, XdpPort};
pub use rx::XdpRx;
pub use tx::XdpTx;
