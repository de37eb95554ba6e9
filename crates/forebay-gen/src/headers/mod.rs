//! Headers of the packets, written from the inside out.
//!
//! A [`Frame`] is one buffer. The length of all headers of a packet is known before any is
//! written, so a session first writes its transport header and payload at their final place
//! ([`Frame::room`]), and [`Frame::seal`] then writes the checksums and every header before
//! them. Nothing is moved.

pub mod checksum;
mod direction;
mod encapsulation;
mod fields;
mod frame;
mod internet;
pub mod protocol;
mod transport;

pub use checksum::{fold, sum_words};
pub use direction::Direction;
pub use encapsulation::{Encapsulation, Tags, Tunnel, TunnelKind};
pub use frame::Frame;
pub use internet::{Fragment, InternetHeader, pseudo_header_sum};
pub use transport::{TcpFlags, TcpHeader, TcpOptions, UDP_HEADER, write_tcp, write_udp};
