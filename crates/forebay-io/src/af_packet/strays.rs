//! Counts the frames that a device receives for other stations.
//!
//! A switch sends frames for unknown stations to all its ports. Such flooding must be
//! detected at full rate, without a copy of every frame: a filter accepts frames for others
//! into a socket with a minimal buffer that is never read, and the kernel counts them.

use std::os::fd::{AsFd, OwnedFd};

use forebay_packet::MacAddress;

use super::sys::{self, Instruction, Number};
use crate::device::{DeviceError, Link};
use crate::error::Error;

/// Counts frames for other stations, as far as the device receives them.
pub struct StrayCounter {
    device: String,
    socket: OwnedFd,
    frames: u64,
}

impl StrayCounter {
    /// Starts counting frames that `device` receives for stations other than `own`, except
    /// frames for groups of stations and of the EtherType `except`.
    ///
    /// # Errors
    /// If there is no such device, its packets are no Ethernet frames, or a system call
    /// fails.
    pub fn open(device: &str, own: MacAddress, except: u16) -> Result<Self, Error> {
        let link = Link::named(device)?.ethernet()?;
        let refused = || DeviceError::system(device, "count frames for others");
        let socket = sys::socket().map_err(refused())?;
        let fd = socket.as_fd();
        sys::filter(fd, &for_others(own, except)).map_err(refused())?;
        sys::set_least_receive_buffer(fd).map_err(refused())?;
        sys::set_number(fd, Number::IgnoreOutgoing, 1).map_err(refused())?;
        sys::bind(fd, link.index, true).map_err(refused())?;
        Ok(Self { device: link.name, socket, frames: 0 })
    }

    /// Frames so far.
    ///
    /// # Errors
    /// The system's.
    pub fn frames(&mut self) -> Result<u64, Error> {
        let refused = DeviceError::system(&self.device, "read its counters");
        // The counter is reset by reading, and too narrow for an hour of a busy link.
        self.frames += u64::from(sys::statistics(self.socket.as_fd()).map_err(refused)?.packets);
        Ok(self.frames)
    }
}

/// A filter that accepts frames whose destination is neither `own` nor a group and whose
/// EtherType is not `except`; compares single bytes.
fn for_others(own: MacAddress, except: u16) -> [Instruction; 10] {
    const LOAD_BYTE: u16 = 0x30;
    const LOAD_HALF: u16 = 0x28;
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_SET: u16 = 0x45;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let [a, b, c, d, e, f] = own.0;
    [
        (LOAD_BYTE, 0, 0, 0),
        (JUMP_IF_SET, 7, 0, 1),
        (LOAD_HALF, 0, 0, 12),
        (JUMP_IF_EQUAL, 5, 0, u32::from(except)),
        (LOAD_WORD, 0, 0, 0),
        (JUMP_IF_EQUAL, 0, 2, u32::from_be_bytes([a, b, c, d])),
        (LOAD_HALF, 0, 0, 4),
        (JUMP_IF_EQUAL, 1, 0, u32::from(u16::from_be_bytes([e, f]))),
        (RETURN, 0, 0, 1),
        (RETURN, 0, 0, 0),
    ]
}
