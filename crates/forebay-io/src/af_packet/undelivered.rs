//! Counts frames that a device received and the kernel delivered to no packet socket.
//!
//! The number is the difference between the frames counted by the device and by the
//! sockets. As packets are in flight between both, the difference counts only if two
//! readings agree, or when no more packets are taken. All sockets of a group are read after
//! the device; packets counted by one of them since its last reading would otherwise appear
//! undelivered.
//!
//! A frame dropped because a processor's backlog is full (`net.core.netdev_max_backlog`) is
//! counted by the device as received, and as dropped. Such frames are excluded, so that no
//! frame counts twice: as many as the device dropped, and no more than all backlogs did. A
//! veth device without NAPI counts them only as dropped, so frames without any other
//! counter may be missed then.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::sys::{self, Statistics};
use crate::device::{Counter, Link, LinkStats};

/// A packet socket, and the sums of its kernel counters.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    sums: Mutex<Sums>,
}

/// Sums of 32-bit kernel counters, which are reset by each reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Packets that arrived, including those that found no room.
    pub seen: u64,
    /// Packets that found no room.
    pub drops: u64,
    /// How often there was none.
    pub freezes: u64,
}

impl Sums {
    fn add(&mut self, statistics: &Statistics) {
        self.seen += u64::from(statistics.packets);
        self.drops += u64::from(statistics.drops);
        self.freezes += u64::from(statistics.freezes);
    }
}

impl Socket {
    pub fn new(fd: OwnedFd) -> Self {
        Self { fd, sums: Mutex::default() }
    }

    /// The sums so far. May be called by any thread.
    pub fn read(&self) -> io::Result<Sums> {
        // Held during the reading: other threads must see reset counters and sums
        // consistently.
        let mut sums = self.sums();
        sums.add(&sys::statistics(self.fd.as_fd())?);
        Ok(*sums)
    }

    /// The sums as of the last reading.
    pub fn sums(&self) -> MutexGuard<'_, Sums> {
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Frames not delivered to the sockets that share a device, or to the one that receives
/// all.
#[derive(Debug, Default)]
pub(super) struct Undelivered {
    sockets: Vec<Weak<Socket>>,
    difference: Difference,
    /// No more packets are taken: later frames do not count as undelivered.
    is_final: bool,
}

impl Undelivered {
    /// Starts counting for sockets that have begun to receive. `link` reads the device's
    /// counters.
    ///
    /// # Errors
    /// If reading a socket or the device fails.
    pub fn of(
        sockets: &[Arc<Socket>],
        link: impl FnOnce() -> io::Result<Option<Link>>,
    ) -> io::Result<Self> {
        // Before the device: a frame in between counts as seen, not as received.
        for socket in sockets {
            socket.read()?;
            socket.sums().seen = 0;
        }
        let stats = link()?.map(|link| link.stats).unwrap_or_default();
        let difference = Difference::from(&stats, backlog_drops());
        let sockets = sockets.iter().map(Arc::downgrade).collect();
        Ok(Self { sockets, difference, is_final: false })
    }

    /// The number of undelivered frames.
    pub fn frames(&self) -> u64 {
        self.difference.counted
    }

    /// Updates with the device's counters `stats`; reads the sockets. Only the first
    /// socket's calls count, so that there is time between two readings.
    ///
    /// # Errors
    /// If reading a socket fails.
    pub fn note(&mut self, stats: &LinkStats, by: &Arc<Socket>) -> io::Result<()> {
        let is_first = self.sockets.first().is_some_and(|first| first.as_ptr() == Arc::as_ptr(by));
        if is_first { self.read(stats) } else { Ok(()) }
    }

    fn read(&mut self, stats: &LinkStats) -> io::Result<()> {
        // The final counters of a closed socket are not known.
        let sockets: Option<Vec<_>> = self.sockets.iter().map(Weak::upgrade).collect();
        let Some(sockets) = sockets.filter(|_| !self.is_final) else {
            self.is_final = true;
            return Ok(());
        };
        let (backlog, mut seen) = (backlog_drops(), 0);
        for socket in sockets {
            seen += socket.read()?.seen;
        }
        self.difference.note(stats, backlog, seen);
        Ok(())
    }

    /// One of the sockets takes no more packets. The device's counters are `stats`.
    ///
    /// # Errors
    /// If reading a socket fails.
    pub fn finish(&mut self, stats: &LinkStats) -> io::Result<()> {
        self.read(stats)?;
        if !std::mem::replace(&mut self.is_final, true) {
            self.difference.counted = self.difference.last;
        }
        Ok(())
    }
}

/// Frames dropped by all processors' backlogs (`/proc/net/softnet_stat`), if this process
/// may read that.
fn backlog_drops() -> Option<u64> {
    second_column(&std::fs::read_to_string("/proc/net/softnet_stat").ok()?)
}

/// The sum of a table's second column, hexadecimal numbers.
fn second_column(table: &str) -> Option<u64> {
    let number = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(1)?, 16).ok();
    table.lines().map(number).sum()
}

/// The difference between frames received by a device and frames seen, or counted as
/// dropped.
#[derive(Debug, Default)]
struct Difference {
    received: Counter,
    dropped: Counter,
    backlog: Counter,
    last: u64,
    counted: u64,
}

impl Difference {
    fn from(stats: &LinkStats, backlog: Option<u64>) -> Self {
        let [received, dropped] = [stats.rx_packets, stats.rx_dropped].map(Counter::from);
        let backlog = Counter::from(backlog.unwrap_or(0));
        Self { received, dropped, backlog, last: 0, counted: 0 }
    }

    /// Updates with the device's counters `stats`, the backlog drops and the frames seen,
    /// which were read after both.
    fn note(&mut self, stats: &LinkStats, backlog: Option<u64>, seen: u64) {
        self.received.note(stats.rx_packets);
        self.dropped.note(stats.rx_dropped);
        self.backlog.note(backlog.unwrap_or(0));
        let dropped = self.dropped.grown().min(self.backlog.grown());
        let missing = self.received.grown().saturating_sub(seen + dropped);
        if missing == std::mem::replace(&mut self.last, missing) {
            self.counted = missing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_add_up_beyond_what_the_kernel_can_count() {
        let mut sums = Sums::default();
        for drops in [u32::MAX, u32::MAX, 2] {
            sums.add(&Statistics { packets: drops, drops, freezes: u32::MAX });
        }
        let freezes = 3 * u64::from(u32::MAX);
        assert_eq!(sums, Sums { seen: 1 << 33, drops: 1 << 33, freezes });
    }

    #[test]
    fn what_a_full_backlog_drops_is_not_undelivered_as_well() {
        let table =
            |drops: u32| format!("00000005 {drops:08x} 0 0\n0000ffff 0000000a 00000001 0\n");
        let backlog = |drops| second_column(&table(drops));
        assert_eq!(backlog(255), Some(265));
        assert_eq!(second_column("5\n"), None);
        let stats =
            |rx_packets, rx_dropped| LinkStats { rx_packets, rx_dropped, ..LinkStats::default() };
        let counted = |readings: &[(LinkStats, Option<u64>)]| {
            let mut difference = Difference::from(&stats(100, 7), readings[0].1.map(|_| 11));
            for (stats, backlog) in readings {
                (0..2).for_each(|_| difference.note(stats, *backlog, 18));
            }
            difference.counted
        };
        // Of 50 frames 30 were dropped at a full backlog, as were frames of other devices, and
        // 2 had half a tag.
        let full = (stats(150, 37), backlog(41));
        assert_eq!(counted(&[full]), 2);
        // Frames dropped by a driver do not reach a backlog.
        let [before, after] = [37, 1037].map(|dropped| (stats(150, dropped), backlog(31)));
        assert_eq!(counted(&[before, after]), 2);
        assert_eq!(counted(&[(stats(150, 1037), backlog(1))]), 32);
        // If the backlog's counters are unknown, nothing is subtracted.
        assert_eq!(counted(&[(stats(150, 37), None)]), 32);
    }
}
