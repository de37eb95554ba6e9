//! Sending by redirected frames: what a device takes from XDP programs, it takes from here.
//!
//! Frames are written into memory of a BPF program, and one call has the program run for
//! each of them (see [`forebay_bpf::programs::sender`]). A device without zero copy sends
//! several times as many so as by an AF_XDP socket, for which the kernel makes a socket
//! buffer a frame, which a program at the other end of a veth pair makes it copy once more.
//!
//! The device must take redirected frames ([`RedirectTx::open`] tries it), and a frame is at
//! most as long as a page has room for. A call takes some microseconds, so what waits is
//! sent only when there are many, or at [`crate::Tx::flush`].
//!
//! A device can stop taking redirected frames, as a veth device does when the other end loses
//! its NAPI. After the first call in which it refuses one, a packet socket's ring sends, and the
//! device is tried at intervals: the first after a second, and after each return that did not
//! last twice as long, up to five minutes.

mod home;
mod tx;

pub use tx::RedirectTx;
