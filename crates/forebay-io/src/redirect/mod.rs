//! Sends redirected frames, to devices that accept frames from XDP programs.
//!
//! Frames are written into memory of a BPF program, and one call runs the program for each
//! of them (see [`forebay_bpf::programs::sender`]). To a device without zero copy this
//! sends several times as many frames as an AF_XDP socket: for that, the kernel allocates a
//! socket buffer for each frame, which a program at the other end of a veth pair makes it
//! copy once more.
//!
//! The device must accept redirected frames (checked by [`RedirectTx::open`]), and a frame
//! must fit a page. A call takes some microseconds, so frames are collected until there are
//! many, or until [`crate::Tx::flush`].
//!
//! A device can stop accepting redirected frames: a veth device does so when the other end
//! loses its NAPI. After the first call with a refused frame, packets are sent through a packet
//! socket's ring, and redirection is retried after a second. If the device refuses frames again
//! within a minute of a retry, the next wait is twice as long, up to five minutes.

mod home;
mod tx;

pub use tx::RedirectTx;
