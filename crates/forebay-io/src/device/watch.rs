//! Notifications about devices that are added, changed or removed.

use std::io;
use std::os::fd::BorrowedFd;

use super::error::DeviceError;
use super::link::{Link, Links};
use super::netlink::{Netlink, RTM_DELLINK, RTM_NEWLINK, RTMGRP_LINK};

/// A change of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was added or changed.
    Is(Link),
    /// It was deleted, or left the namespace.
    Gone(Link),
    /// Notifications were lost: a caller that tracks devices has to read all of them again.
    Missed,
}

/// Reports changes to the devices of the namespace in which it was opened.
pub struct Watch {
    netlink: Netlink,
    links: Links,
}

impl Watch {
    /// Starts watching.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open(RTMGRP_LINK)?, links: Links::new()? })
    }

    /// The present state of the device `name`. Opens nothing, so it works after a process
    /// has dropped the privileges to open the watch.
    ///
    /// # Errors
    /// If there is none, or the system's error.
    pub fn link(&mut self, name: &str) -> Result<Link, DeviceError> {
        self.links.named(name)
    }

    /// Becomes readable when something changed.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.netlink.descriptor()
    }

    /// The changes since the last call, in order, without waiting.
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
