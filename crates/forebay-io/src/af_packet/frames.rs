//! Sends and receives few frames of one EtherType, without rings.
//!
//! Frames of other types do not reach such a socket, so it costs nothing while a device
//! carries packets at full rate. Frames sent through it are not received by other sockets
//! of the same type on this host.

use std::os::fd::{AsFd, OwnedFd};

use forebay_packet::MacAddress;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::sys;
use crate::device::{DeviceError, Link};
use crate::error::Error;

/// Sends and receives the frames of one EtherType on a device.
pub struct FrameSocket {
    device: String,
    index: u32,
    socket: OwnedFd,
}

impl FrameSocket {
    /// A socket on `device` for frames of this EtherType.
    ///
    /// # Errors
    /// If there is no such device, its packets are no Ethernet frames, or a system call
    /// fails.
    pub fn open(device: &str, ether_type: u16) -> Result<Self, Error> {
        let link = Link::named(device)?.ethernet()?;
        let refused = |action| DeviceError::system(device, action);
        let socket = sys::socket().map_err(refused("open a packet socket"))?;
        sys::bind_for(socket.as_fd(), link.index, ether_type).map_err(refused("bind to it"))?;
        Ok(Self { device: link.name, index: link.index, socket })
    }

    /// Makes the device also receive frames for another address than its own, for the life
    /// of this socket.
    ///
    /// # Errors
    /// The system's.
    pub fn hear_address(&self, address: MacAddress) -> Result<(), Error> {
        let refused = DeviceError::system(&self.device, "have it receive for another address");
        sys::join_address(self.socket.as_fd(), self.index, address.0).map_err(refused)?;
        Ok(())
    }

    /// Receives the next frame, if there is one, and returns its length; frames longer than
    /// `frame` are truncated.
    ///
    /// # Errors
    /// The system's. A device that is down or gone is no error: nothing arrives then.
    pub fn receive(&self, frame: &mut [u8]) -> Result<Option<usize>, Error> {
        let len = frame.len();
        match recv(&self.socket, frame, RecvFlags::empty()) {
            Ok((_, whole)) => Ok(Some(whole.min(len))),
            Err(Errno::AGAIN | Errno::INTR | Errno::NETDOWN) => Ok(None),
            Err(error) => {
                let refused = DeviceError::system(&self.device, "receive from it");
                Err(refused(error).into())
            }
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The system's: the device is down or gone, or its queue is full.
    pub fn send(&self, frame: &[u8]) -> Result<(), Error> {
        let refused = DeviceError::system(&self.device, "send through it");
        send(&self.socket, frame, SendFlags::empty()).map_err(refused)?;
        Ok(())
    }
}
