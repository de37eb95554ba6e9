//! Promiscuous mode of a device, for ports whose own sockets cannot request it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::error::DeviceError;
use super::link::Link;
use crate::af_packet::sys::join_promiscuous;

/// Keeps a device in promiscuous mode while it exists; the kernel ends the mode with the
/// process in any case.
#[derive(Debug)]
pub struct Promiscuous(#[expect(dead_code, reason = "its being open is what it is for")] OwnedFd);

impl Promiscuous {
    /// Requests promiscuous mode of the device.
    ///
    /// # Errors
    /// The system's.
    pub fn join(link: &Link) -> Result<Self, DeviceError> {
        let refused = |errno: std::io::Error| {
            DeviceError::system(&link.name, "have it receive all frames")(errno)
        };
        // Without a protocol the socket receives nothing.
        let socket =
            socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
                .map_err(|errno| refused(errno.into()))?;
        join_promiscuous(socket.as_fd(), link.index).map_err(refused)?;
        Ok(Self(socket))
    }
}
