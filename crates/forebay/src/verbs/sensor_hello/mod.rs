//! `forebay sensor-hello`: sends hellos for a sensor while it is alive.

mod drops;
mod stats;
mod tool;

use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_broker::hello::{ETHER_TYPE, Hello};
use forebay_io::af_packet::{FrameSocket, StrayCounter};
use forebay_io::device::{Link, LinkStats};
use forebay_packet::MacAddress;
use forebay_pipeline::{DropCount, Ledger, LedgerRow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::cli::{Cli, SensorHelloArgs};
use crate::failure::Failure;
use crate::input::print_json;
use crate::signals;
use drops::Drops;
use stats::{Reading, Stats};
use tool::Tool;

/// A file of drops that was not written for so long has no news: there are as many as it says.
const STALE: Duration = Duration::from_secs(10);

/// All stations.
const EVERYONE: MacAddress = MacAddress([0xff; 6]);

/// Sends hellos until a signal arrives or the sensor's program ends.
///
/// # Errors
/// If the device is gone, or the program has ended.
pub fn run(cli: &Cli, args: &SensorHelloArgs) -> Result<(), Failure> {
    let mut speaker = Speaker::open(cli, args)?;
    let stop = Arc::new(AtomicBool::new(false));
    signals::watch(&stop)?;
    let tool = Tool::of(args)?;
    let mut due = Instant::now();
    let ended = loop {
        if stop.load(Ordering::Relaxed) {
            break tool.end();
        }
        if tool.has_ended() {
            break tool.outcome();
        }
        let now = Instant::now();
        if now >= due {
            speaker.speak(cli)?;
            due += args.interval;
            if due < now {
                // After a pause, missed hellos are not made up for.
                due = now + args.interval;
            }
        }
        wait(due.saturating_duration_since(Instant::now()), tool.descriptor())?;
    };
    let shown = if cli.json { print_json(&speaker.account()) } else { Ok(()) };
    ended.and(shown)
}

/// Sleeps for some time, or until the program ends or a signal arrives.
fn wait(time: Duration, tool: Option<BorrowedFd<'_>>) -> Result<(), Failure> {
    let time = Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    let mut polled: Vec<PollFd<'_>> =
        tool.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).into_iter().collect();
    match poll(&mut polled, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(Failure::Live(format!("cannot wait: {error}"))),
    }
}

/// The sender of hellos.
struct Speaker<'a> {
    args: &'a SensorHelloArgs,
    from: MacAddress,
    socket: FrameSocket,
    strays: StrayCounter,
    drops: Option<Drops<'a>>,
    stats: Option<Stats>,
    /// What the file of drops said last.
    reading: Option<Reading>,
    /// The device's counters at the start, and no drops.
    start: Reading,
    last: Option<Hello>,
    sent: u64,
    failed: u64,
}

impl<'a> Speaker<'a> {
    fn open(cli: &Cli, args: &'a SensorHelloArgs) -> Result<Self, Failure> {
        let device = args.interface.as_str();
        let link = Link::named(device).map_err(forebay_io::Error::from)?;
        let from = args.from.or(link.address).filter(|address| !address.is_group());
        let from = from.ok_or_else(|| {
            Failure::Usage(format!("{device} has no address of its own: expected --from"))
        })?;
        let drops = args.drops.as_ref().map(|file| Drops::new(file, args.drops_key.as_deref()));
        let is_quiet = cli.quiet;
        let tell = move |what: String| {
            if !is_quiet {
                // A failure to write to standard error cannot be reported.
                let _ = writeln!(io::stderr(), "{what}");
            }
        };
        let name = args.interface.clone();
        let counters = move || Link::named(&name).ok().map(|link| link.stats);
        let stats = args.stats.clone().map(|source| Stats::read(source, counters, tell));
        let stats = stats.transpose();
        let stats =
            stats.map_err(|error| Failure::Live(format!("cannot start a thread: {error}")))?;
        Ok(Self {
            args,
            stats,
            reading: None,
            from,
            socket: FrameSocket::open(device, ETHER_TYPE)?,
            strays: StrayCounter::open(device, from, ETHER_TYPE)?,
            drops,
            start: Reading { dropped: 0, device: link.stats, at: Instant::now() },
            last: None,
            sent: 0,
            failed: 0,
        })
    }

    /// Sends one hello.
    fn speak(&mut self, cli: &Cli) -> Result<(), Failure> {
        // A deleted device does not come back with this number.
        let link = Link::named(&self.args.interface).map_err(forebay_io::Error::from)?;
        let Reading { dropped, device, at } = self.read(link.stats);
        let since = |counter: fn(&LinkStats) -> u64| {
            counter(&device).saturating_sub(counter(&self.start.device))
        };
        let mut by_device = since(|stats| stats.rx_missed);
        if self.stats.is_none() {
            // The kernel also counts frames that only the program would have received.
            by_device += since(|stats| stats.rx_dropped);
        }
        let hello = Hello {
            from: self.from,
            name: self.args.name.clone(),
            group: self.args.group.clone(),
            interval: self.args.interval,
            received: since(|stats| stats.rx_packets),
            dropped: by_device.saturating_add(dropped),
            age_ms: u32::try_from(at.elapsed().as_millis()).unwrap_or(u32::MAX),
            strays: self.strays.frames()?,
        };
        match self.socket.send(&hello.frame(self.args.to.unwrap_or(EVERYONE))) {
            Ok(()) => self.sent += 1,
            Err(error) => {
                if self.failed == 0 && !cli.quiet {
                    // A failure to write to standard error cannot be reported.
                    let _ = writeln!(io::stderr(), "{error}; trying again");
                }
                self.failed += 1;
            }
        }
        self.last = Some(hello);
        Ok(())
    }

    /// The drops of the program, and the counters of the device at that time; those of now, where
    /// nothing is known of the program. A rate of drops is that of one time.
    fn read(&mut self, device: LinkStats) -> Reading {
        let at = Instant::now();
        let now = |dropped| Reading { dropped, device, at };
        match (&mut self.drops, &self.stats) {
            (Some(drops), _) => {
                let news = drops.news();
                let fresh = self.reading.filter(|last| news.is_none() && last.at + STALE > at);
                *self.reading.insert(fresh.unwrap_or_else(|| now(drops.count())))
            }
            // Until the first statistic nothing is known since the start.
            (None, Some(stats)) => stats.last().unwrap_or(self.start),
            (None, None) => now(0),
        }
    }

    /// A summary for scripts.
    fn account(&self) -> serde_json::Value {
        let due = self.sent + self.failed;
        let ledger = Ledger {
            rows: vec![
                LedgerRow {
                    stage: "hello".into(),
                    injected: due,
                    output: due,
                    ..LedgerRow::default()
                },
                LedgerRow {
                    stage: "send".into(),
                    input: due,
                    output: self.sent,
                    drops: vec![DropCount { name: "refused", packets: self.failed }],
                    ..LedgerRow::default()
                },
            ],
        };
        json!({
            "interface": self.args.interface,
            "hellos": self.sent,
            "received": self.last.as_ref().map(|hello| hello.received),
            "dropped": self.last.as_ref().map(|hello| hello.dropped),
            "dropped_by_program": self.stats.as_ref().and_then(Stats::last).map(|last| last.dropped),
            "frames_for_others": self.last.as_ref().map(|hello| hello.strays),
            "ledger": ledger,
            "closes": ledger.closes(),
        })
    }
}
