//! Devices for programs that only send.
//!
//! The kernel has code through which it calls the XDP programs attached to devices. It has
//! to patch that code, and to wait for all processors, before and after it runs a program
//! that is not attached. So each program is attached to a TAP device that receives nothing.
//! The devices are in their own network namespace, which ends with the last of them.

use std::thread;

use forebay_bpf::link::{XdpLink, XdpMode};
use forebay_bpf::programs::sender::Sender;

use crate::device::{DeviceError, Link};
use crate::error::Error;
use crate::tap::{Tap, TapOptions, enter_new_network};

/// The name of the devices; the kernel fills in a number.
const NAME: &str = "forebay%d";

/// Keeps a program attached while it exists.
pub(super) struct Home {
    // Dropped before the device.
    _link: XdpLink,
    _tap: Tap,
}

impl Home {
    /// A device for the program of each sender.
    pub(super) fn open(senders: &[Sender]) -> Result<Vec<Self>, Error> {
        // The namespace is entered by a temporary thread.
        thread::scope(|scope| {
            let opened = scope.spawn(|| {
                enter_new_network().map_err(refused)?;
                senders.iter().map(Self::attach).collect()
            });
            let panicked = |_| refused(std::io::Error::other("a thread panicked")).into();
            opened.join().unwrap_or_else(|panic| Err(panicked(panic)))
        })
    }

    fn attach(sender: &Sender) -> Result<Self, Error> {
        let tap = Tap::open(NAME, &TapOptions { slots: 2, max_len: 64, ..TapOptions::default() })?;
        let index = Link::named(&tap.name)?.index;
        let link = XdpLink::attach(sender.program(), index, XdpMode::Any);
        let link = link.map_err(|error| refused(std::io::Error::other(error)))?;
        Ok(Self { _link: link, _tap: tap })
    }
}

fn refused(source: std::io::Error) -> DeviceError {
    DeviceError::system(NAME, "make a namespace and a device for a program in it")(source)
}
