//! Redirects every frame to an AF_XDP socket: the program of an `af_xdp` port.
//!
//! A frame can only be given to a socket that is bound to the queue it arrived on. So slots
//! of the socket map are numbered queue by queue, with as many slots to a queue as there
//! are sockets: one, or several that share the queue's memory. Of several, the hash of the
//! address pair selects one, as in [`super::fanout`], and frames without addresses go to
//! the first.
//!
//! [`NoSocket`] decides about a frame whose slot is empty.

use forebay_packet::HashKey;

use crate::error::BpfError;
use crate::map::SocketMap;
use crate::object::{Loader, include_program};
use crate::program::{Action, Kind, Program};
use crate::programs::fanout::MAX_WORKERS;

/// The action for frames without a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSocket {
    /// Drop them. Only the interface counts them.
    Drop,
    /// Pass them to the host's network stack.
    Pass,
}

/// Loads the program: slot = queue × `sockets_per_queue` + worker.
///
/// # Errors
/// If the number of sockets to a queue is 0 or exceeds the limit of workers, or the kernel
/// refuses the program.
pub fn load(
    sockets: &SocketMap,
    sockets_per_queue: u32,
    hash_key: &HashKey,
    no_socket: NoSocket,
    multi_buffer: bool,
) -> Result<Program, BpfError> {
    if sockets_per_queue == 0 || sockets_per_queue > MAX_WORKERS {
        return Err(BpfError::Setting {
            setting: "the number of sockets to a queue",
            value: u64::from(sockets_per_queue),
            expected: "1 to 65536",
        });
    }
    let otherwise = match no_socket {
        NoSocket::Drop => Action::Drop,
        NoSocket::Pass => Action::Pass,
    };
    Loader::new(include_program!("redirect"))
        .hash_key(hash_key)
        .set("per_queue", sockets_per_queue.into())
        .set("otherwise", otherwise as u64)
        .map("sockets", sockets)
        .load("forebay_redirect", Kind::Xdp { multi_buffer })
}
