//! Devices that come, change and go, as the kernel tells.

use std::io;
use std::os::fd::BorrowedFd;

use super::error::DeviceError;
use super::link::{Link, Links};
use super::netlink::{Netlink, RTM_DELLINK, RTM_NEWLINK, RTMGRP_LINK};

/// What happened to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is there, or something of it is different.
    Is(Link),
    /// It was deleted, or left the namespace.
    Gone(Link),
    /// Changes were missed: a caller that tracks devices has to read all of them again.
    Missed,
}

/// Tells of changes to the devices of the namespace it was opened in.
pub struct Watch {
    netlink: Netlink,
    links: Links,
}

impl Watch {
    /// Watches from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open(RTMGRP_LINK)?, links: Links::new()? })
    }

    /// The device called `name`, as it is now. This opens nothing, so it works after a process
    /// has given up the privileges to open the watch.
    ///
    /// # Errors
    /// That there is none, or the system's error.
    pub fn link(&mut self, name: &str) -> Result<Link, DeviceError> {
        self.links.named(name)
    }

    /// Becomes readable when something changed.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.netlink.descriptor()
    }

    /// What changed since the last call, in order, without waiting.
    ///
    /// # Errors
    /// The system's.
    pub fn changes(&mut self) -> io::Result<Vec<Change>> {
        let mut changes = Vec::new();
        let whole = self.netlink.drain(|(kind, message)| {
            let change = match kind {
                RTM_NEWLINK => Change::Is,
                RTM_DELLINK => Change::Gone,
                _ => return,
            };
            changes.extend(Link::parse(message).map(change));
        })?;
        if !whole {
            changes.push(Change::Missed);
        }
        Ok(changes)
    }
}
