//! Network devices through `AF_XDP` sockets: queue by queue, below the kernel's stack
//! (Documentation/networking/af_xdp.rst in the kernel's sources).
//!
//! A port is one queue of a device. Its memory, the UMEM, is divided into frames of equal
//! size; receiver and sender each have their own. Frames circulate: the receiver passes
//! empty frames to the kernel through the fill ring and gets packets from the receive ring;
//! the sender passes packets through the transmit ring and gets the frames back from the
//! completion ring. Received packets are not copied again: batches refer to the frames,
//! which return to the fill ring when the last of them is dropped.
//!
//! With driver support the device itself reads and writes the frames (zero copy); otherwise
//! the kernel copies. A BPF program attached to the device must redirect its packets to the
//! sockets: the opener of a port enters each socket into that program's map.
//!
//! These packets bypass the stack. A VLAN tag that the device strips, or a checksum that a
//! sender on this host left incomplete, is lost: [`crate::device::check`] ensures that
//! devices do neither.

mod pool;
mod port;
mod ring;
mod rx;
mod socket;
mod tx;

pub use port::{Copying, XdpOptions, XdpPort};
pub use rx::XdpRx;
pub use tx::XdpTx;
