//! A device for programs that are run but never receive.
//!
//! The kernel keeps code by which it calls the XDP programs that are on devices. It has to
//! rewrite that, and to wait for all processors, before and after it runs a program that is
//! on none. So each program gets a TAP device that receives nothing. The devices are in a
//! network namespace of their own, which ends with the last of them.

use std::thread;

use forebay_bpf::link::{XdpLink, XdpMode};
use forebay_bpf::programs::sender::Sender;

use crate::device::{DeviceError, Link};
use crate::error::Error;
use crate::tap::{Tap, TapOptions, enter_new_network};

/// What the devices are called; the kernel puts a number.
const NAME: &str = "forebay%d";

/// Where a program is for as long as this lives.
pub(super) struct Home {
    // Taken off before the device goes.
    _link: XdpLink,
    _tap: Tap,
}

impl Home {
    /// A home for the program of each sender.
    pub(super) fn open(senders: &[Sender]) -> Result<Vec<Self>, Error> {
        // The namespace is entered by a thread that ends.
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
