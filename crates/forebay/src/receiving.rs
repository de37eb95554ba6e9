//! Packet sockets of a verb's own: taking what has come to them, waiting for more, and taking
//! the rest at the end.

use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::{Duration, Instant};

use forebay_io::af_packet::PacketRx;
use forebay_io::{Received, Rx};
use forebay_packet::Batch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cli::Cli;
use crate::failure::Failure;
use crate::show::text::visible;

/// The longest that one waits for packets before looking at the clock and for signals.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// By when a block that is not full is given out, with what it has.
const LAST_BLOCK: Duration = Duration::from_millis(50);

/// Takes in what has come to these by now, and no more. `take` gets each batch with the place
/// of its port.
///
/// # Errors
/// Of ports, and of `take`.
pub fn take_rest(
    ports: &mut [PacketRx],
    mut take: impl FnMut(usize, Batch) -> Result<(), Failure>,
) -> Result<(), Failure> {
    ports.iter_mut().try_for_each(Rx::refuse)?;
    let mut heard = Instant::now();
    loop {
        let looked = Instant::now();
        if receive(ports, &mut take)? {
            heard = Instant::now();
        } else if looked - heard >= LAST_BLOCK {
            return Ok(());
        } else {
            sleep(Duration::from_millis(1));
        }
    }
}

/// Takes a batch of each port that has one; says whether any had.
///
/// # Errors
/// Of ports, and of `take`.
pub fn receive(
    ports: &mut [PacketRx],
    mut take: impl FnMut(usize, Batch) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let mut any = false;
    for (place, port) in ports.iter_mut().enumerate() {
        if let Received::Batch(batch) = port.receive()? {
            any = true;
            take(place, batch)?;
        }
    }
    Ok(any)
}

/// Says on standard error that these devices are received from, from now on.
pub fn tell_listening<S: AsRef<str>>(cli: &Cli, devices: impl IntoIterator<Item = S>) {
    if !cli.quiet {
        let devices: Vec<String> =
            devices.into_iter().map(|device| visible(device.as_ref()).into_owned()).collect();
        // Nobody is there to be told of a standard error that takes nothing.
        let _ = writeln!(io::stderr(), "listening on {}", devices.join(", "));
    }
}

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
