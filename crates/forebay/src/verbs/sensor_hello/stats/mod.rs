//! The counters of a sensor's program, from the program's own statistics.
//!
//! A separate thread reads them once a second, so that no file, pipe or program that does
//! not respond delays a hello. The kernel's counters of the program's packet sockets are
//! not used: reading resets them for the program (packet(7), `PACKET_STATISTICS`).

mod follow;
mod suricata;
mod total;
mod zeek;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_io::device::LinkStats;

use crate::cli::{StatsKind, StatsSource};
use follow::Follower;
use suricata::Socket;
use total::Total;
use zeek::Intervals;

/// The interval of reading.
const PAUSE: Duration = Duration::from_secs(1);

/// The drops of a program, and the counters of its device at that time.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Packets that the program dropped.
    pub dropped: u64,
    pub device: LinkStats,
    pub at: Instant,
}

/// A program's statistics, read in the background.
pub struct Stats(Arc<Mutex<Option<Reading>>>);

impl Stats {
    /// Reads `source` until the process ends, and with each statistic the counters of its
    /// device. `tell` gets an error message, once until reading succeeds again.
    pub fn read(
        source: StatsSource,
        device: impl Fn() -> Option<LinkStats> + Send + 'static,
        mut tell: impl FnMut(String) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Mutex::default());
        let ours = Arc::clone(&shared);
        let ask = move || {
            let mut reader = Reader::new(&source);
            let mut is_wrong = false;
            loop {
                let outcome = reader.dropped();
                match &outcome {
                    Ok(Some(dropped)) => {
                        let reading =
                            |device| Reading { dropped: *dropped, device, at: Instant::now() };
                        if let Some(reading) = device().map(reading) {
                            *ours.lock().unwrap_or_else(PoisonError::into_inner) = Some(reading);
                        }
                    }
                    Ok(None) => {}
                    Err(error) if !is_wrong => {
                        tell(format!(
                            "cannot read statistics from {source}: {error}; trying again"
                        ));
                    }
                    Err(_) => {}
                }
                is_wrong = outcome.is_err();
                std::thread::sleep(PAUSE);
            }
        };
        std::thread::Builder::new().name("statistics".to_owned()).spawn(ask)?;
        Ok(Self(shared))
    }

    /// The last reading; `None` until the first.
    pub fn last(&self) -> Option<Reading> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads one kind of source.
enum Reader {
    Suricata(Socket, Total),
    Eve(Follower, Total),
    /// With the sum, once the log was read.
    Zeek(Follower, Intervals, Option<u64>),
}

impl Reader {
    fn new(source: &StatsSource) -> Self {
        let path = source.path.clone();
        match source.kind {
            StatsKind::Suricata => Self::Suricata(Socket::new(path), Total::new()),
            // These counters are since the start: the last existing event is the reference.
            StatsKind::Eve => Self::Eve(Follower::from_last(path), Total::new()),
            // These numbers are for an interval each: only future ones count.
            StatsKind::Zeek => Self::Zeek(Follower::from_end(path), Intervals::default(), None),
        }
    }

    /// Packets dropped so far; `None` if there is no new statistic.
    fn dropped(&mut self) -> io::Result<Option<u64>> {
        match self {
            Self::Suricata(socket, total) => {
                total.is_at(socket.ask()?);
                Ok(Some(total.sum))
            }
            Self::Eve(follower, total) => {
                // Of the existing events, the last one counts.
                let (is_first, mut last) = (total.last.is_none(), None);
                follower.lines(&mut |line, _| {
                    let Some(reading) = suricata::reading_in_event(line) else { return };
                    last = Some(reading);
                    if !is_first {
                        total.is_at(reading);
                    }
                })?;
                last.filter(|_| is_first).into_iter().for_each(|reading| total.is_at(reading));
                Ok(last.map(|_| total.sum))
            }
            Self::Zeek(follower, intervals, sum) => {
                let (before, mut is_new) = (sum.unwrap_or(0), sum.is_none());
                let sum = sum.insert(before);
                follower.lines(&mut |line, is_later| {
                    is_new = true;
                    if let Some(dropped) = intervals.dropped(line, is_later) {
                        *sum = sum.saturating_add(dropped);
                    }
                })?;
                Ok(is_new.then_some(*sum))
            }
        }
    }
}

#[cfg(test)]
mod tests;
