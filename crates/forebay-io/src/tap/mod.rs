//! TAP devices: network devices of our own making, whose wire is this program
//! (Documentation/networking/tuntap.rst in the kernel's sources).
//!
//! What the host sends to the device is received here, and what is sent here the host
//! receives. Frames are read and written one by one, without any header of the driver's,
//! so that the kernel hands them over cut up and with their checksums done.

mod port;
mod sys;

pub use port::{Tap, TapOptions, TapRx, TapTx};
pub(crate) use sys::enter_new_network;
