//! TAP devices: virtual network devices whose wire is this program
//! (Documentation/networking/tuntap.rst in the kernel's sources).
//!
//! Frames that the host sends to the device are received here, and frames sent here are
//! received by the host. Frames are read and written one by one, without a driver header,
//! so the kernel segments them and completes their checksums first.

mod port;
mod sys;

pub use port::{Tap, TapOptions, TapRx, TapTx};
pub(crate) use sys::enter_new_network;
