//! Receiving through a verb's own packet sockets: polling, waiting, and draining at the
//! end.

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

/// The longest wait for packets before checking the clock and signals.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The time after which a partly filled block is handed over.
const LAST_BLOCK: Duration = Duration::from_millis(50);

/// Receives the packets that have arrived by now, and no more. `take` gets each batch with
/// the index of its port.
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

/// Takes a batch of each port that has one; returns whether any had.
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

/// Reports on standard error that receiving from these devices has started.
pub fn tell_listening<S: AsRef<str>>(cli: &Cli, devices: impl IntoIterator<Item = S>) {
    if !cli.quiet {
        let devices: Vec<String> =
            devices.into_iter().map(|device| visible(device.as_ref()).into_owned()).collect();
        // A failure to write to standard error cannot be reported.
        let _ = writeln!(io::stderr(), "listening on {}", devices.join(", "));
    }
}

/// Waits for packets on any port, for a short time.
///
/// # Errors
/// If waiting fails.
pub fn wait(ports: &[PacketRx]) -> Result<(), Failure> {
    let descriptors = ports.iter().filter_map(Rx::descriptor);
    let mut polled: Vec<PollFd<'_>> =
        descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut polled, Some(&NAP)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Failure::Live(format!("cannot wait for packets: {error}"))),
    }
}
