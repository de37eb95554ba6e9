//! The counters of a sensor's program, from the program's own statistics.
//!
//! A separate thread reads them once a second, so that no file, pipe or program that does
//! not respond delays a hello. The kernel's counters of the program's packet sockets are
//! not used: reading resets them for the program (packet(7), `PACKET_STATISTICS`).

mod follow;
mod suricata;
mod zeek;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use follow::Follower;
use serde_json::Value;
use suricata::Socket;
use zeek::Intervals;

/// The interval of reading.
const PAUSE: Duration = Duration::from_secs(1);

/// A source of statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsSource {
    kind: Kind,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Suricata's command socket.
    Suricata,
    /// A file of Suricata's events (EVE) with those of type `stats` among them.
    Eve,
    /// Zeek's stats.log, as tab-separated values or JSON.
    Zeek,
}

const KINDS: [(&str, Kind); 3] =
    [("suricata", Kind::Suricata), ("eve", Kind::Eve), ("zeek", Kind::Zeek)];

impl FromStr for StatsSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').filter(|(_, path)| !path.is_empty());
        let known = |name: &str| KINDS.iter().find(|(known, _)| *known == name);
        parts
            .and_then(|(name, path)| Some(Self { kind: known(name)?.1, path: path.into() }))
            .ok_or_else(|| "expected suricata:SOCKET, eve:FILE or zeek:FILE".to_owned())
    }
}

impl fmt::Display for StatsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

/// Seconds by which a program that was started with this process may appear older: ages are
/// in whole seconds.
const SLACK: u64 = 2;

/// The statistics of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    /// Packets dropped since its start.
    dropped: u64,
    /// Seconds since its start, if reported.
    uptime: Option<u64>,
}

impl Said {
    /// The statistics in Suricata's counters.
    fn by(counters: &Value) -> Option<Self> {
        let dropped = counters.pointer("/capture/kernel_drops")?.as_u64()?;
        Some(Self { dropped, uptime: counters["uptime"].as_u64() })
    }
}

/// Packets that a program dropped since this process began, from counters that restart with
/// the program.
#[derive(Debug)]
struct Total {
    began: Instant,
    sum: u64,
    last: Option<Said>,
}

impl Total {
    fn new() -> Self {
        Self { began: Instant::now(), sum: 0, last: None }
    }

    /// Updates with the statistics `now`. If the program is older than this process, or
    /// does not report its age, the first reading is the baseline; otherwise all of it
    /// counts.
    fn is_at(&mut self, now: Said) {
        self.is_at_after(now, self.began.elapsed());
    }

    /// As [`Total::is_at`], at `age` after this process began.
    fn is_at_after(&mut self, now: Said, age: Duration) {
        let is_same = |last: &Said| {
            let uptimes = now.uptime.zip(last.uptime);
            now.dropped >= last.dropped && uptimes.is_none_or(|(now, last)| now >= last)
        };
        let is_older = match now.uptime {
            Some(uptime) => uptime > age.as_secs() + SLACK,
            None => self.last.is_none(),
        };
        let before = match self.last.filter(is_same) {
            Some(last) => last.dropped,
            None if is_older => now.dropped,
            None => 0,
        };
        self.sum = self.sum.saturating_add(now.dropped - before);
        self.last = Some(now);
    }
}

/// The values read so far.
#[derive(Debug, Default)]
struct Shared {
    dropped: AtomicU64,
    has_read: AtomicBool,
}

/// A program's statistics, read in the background.
pub struct Stats(Arc<Shared>);

impl Stats {
    /// Reads `source` until the process ends. `tell` gets an error message, once until
    /// reading succeeds again.
    pub fn read(
        source: StatsSource,
        mut tell: impl FnMut(String) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        let ask = move || {
            let mut reader = Reader::new(&source);
            let mut is_wrong = false;
            loop {
                let outcome = reader.dropped();
                match &outcome {
                    Ok(Some(dropped)) => {
                        ours.dropped.store(*dropped, Ordering::Relaxed);
                        ours.has_read.store(true, Ordering::Relaxed);
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

    /// Packets that the program dropped; `None` until the first reading.
    pub fn dropped(&self) -> Option<u64> {
        let has_read = self.0.has_read.load(Ordering::Relaxed);
        has_read.then(|| self.0.dropped.load(Ordering::Relaxed))
    }
}

/// Reads one kind of source.
enum Reader {
    Suricata(Socket, Total),
    Eve(Follower, Total),
    Zeek(Follower, Intervals, u64),
}

impl Reader {
    fn new(source: &StatsSource) -> Self {
        let path = source.path.clone();
        match source.kind {
            Kind::Suricata => Self::Suricata(Socket::new(path), Total::new()),
            // These counters are since the start: the last existing event is the reference.
            Kind::Eve => Self::Eve(Follower::from_last(path), Total::new()),
            // These numbers are for an interval each: only future ones count.
            Kind::Zeek => Self::Zeek(Follower::from_end(path), Intervals::default(), 0),
        }
    }

    /// Packets dropped so far; `None` if not reported yet.
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
                    let Some(said) = suricata::said_in_event(line) else { return };
                    last = Some(said);
                    if !is_first {
                        total.is_at(said);
                    }
                })?;
                last.filter(|_| is_first).into_iter().for_each(|said| total.is_at(said));
                Ok(last.map(|_| total.sum))
            }
            Self::Zeek(follower, intervals, sum) => {
                follower.lines(&mut |line, is_later| {
                    if let Some(dropped) = intervals.dropped(line, is_later) {
                        *sum = sum.saturating_add(dropped);
                    }
                })?;
                Ok(Some(*sum))
            }
        }
    }
}

#[cfg(test)]
mod tests;
