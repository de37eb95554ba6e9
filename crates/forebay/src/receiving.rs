//! Waiting for what devices receive.

use forebay_io::Rx;
use forebay_io::af_packet::PacketRx;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::Failure;

/// The longest that one waits for packets before looking at the clock and for signals.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Waits for packets of any of these, not for long.
///
/// # Errors
/// When the system does not let us wait.
pub fn wait(ports: &[PacketRx]) -> Result<(), Failure> {
    let descriptors = ports.iter().filter_map(Rx::descriptor);
    let mut polled: Vec<PollFd<'_>> =
        descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&NAP)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Failure::Live(format!("cannot wait for packets: {error}"))),
    }
}
