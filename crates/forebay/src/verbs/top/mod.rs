//! `forebay top`: displays a running broker.
//!
//! One thread queries the broker once an interval; the other displays the results, and
//! polls keys and signals in between, so that a broker that does not respond does not block
//! the terminal.

mod screen;
mod snapshot;
mod view;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use forebay_broker::control::{AskError, Request, ask};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use crate::cli::{Cli, TopArgs};
use crate::failure::Failure;
use crate::input::print;
use crate::show::{Colour, terminal_columns};
use screen::Screen;
use snapshot::{Sample, Snapshot};
use view::Room;

/// Interval of polling keys and signals.
const NAP: Duration = Duration::from_millis(50);

/// Columns without a terminal.
const COLUMNS: usize = 80;

pub fn run(cli: &Cli, args: &TopArgs) -> Result<(), Failure> {
    // A failure of the first query is most likely a wrong socket.
    let first = look(&args.socket)?;
    if args.once {
        thread::sleep(args.interval);
        let second = look(&args.socket)?;
        return show(cli, &Snapshot::new(Some(&first), &second));
    }
    // A second signal must not end the process at once: the terminal has to be restored.
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        flag::register(signal, Arc::clone(&stop)).map_err(Failure::Signals)?;
    }
    watch(cli, args, first, &stop)
}

/// Queries a broker for everything displayed.
fn look(socket: &Path) -> Result<Sample, AskError> {
    Ok(Sample {
        status: ask(socket, &Request::Status)?,
        sensors: ask(socket, &Request::Sensors)?,
        ledger: ask(socket, &Request::Ledger)?,
    })
}

/// Displays the broker's state until the user quits.
fn watch(cli: &Cli, args: &TopArgs, first: Sample, stop: &AtomicBool) -> Result<(), Failure> {
    let (samples, said) = mpsc::channel();
    let (socket, interval) = (args.socket.clone(), args.interval);
    let asking = move || {
        loop {
            thread::sleep(interval);
            if samples.send(look(&socket)).is_err() {
                return;
            }
        }
    };
    // The thread ends with the process, or when the receiver is dropped.
    thread::Builder::new().spawn(asking).map_err(Failure::Thread)?;
    let screen = if cli.json { None } else { Screen::take().map_err(Failure::Stdout)? };
    let mut shown = Snapshot::new(None, &first);
    let mut last = first;
    let mut remark = None;
    draw(screen.as_ref(), &shown, remark.as_deref())?;
    while !stop.load(Ordering::Relaxed) && !screen.as_ref().is_some_and(Screen::quits) {
        let said = match said.recv_timeout(NAP) {
            Ok(said) => said,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        remark = None;
        match said {
            Ok(sample) => {
                shown = Snapshot::new(Some(&last), &sample);
                last = sample;
            }
            // The broker may be restarted; without a screen the command does not wait for
            // that.
            Err(error) if screen.is_some() => remark = Some(error.to_string()),
            Err(error) => return Err(error.into()),
        }
        match &screen {
            Some(_) => draw(screen.as_ref(), &shown, remark.as_deref())?,
            None => show(cli, &shown)?,
        }
    }
    Ok(())
}

fn draw(screen: Option<&Screen>, shown: &Snapshot, remark: Option<&str>) -> Result<(), Failure> {
    let Some(screen) = screen else { return Ok(()) };
    let lines = view::lines(shown, remark, screen.room(), Colour::stdout());
    screen.show(&lines).map_err(Failure::Stdout)
}

/// Prints a snapshot.
fn show(cli: &Cli, snapshot: &Snapshot) -> Result<(), Failure> {
    if cli.json {
        // A line for each snapshot, so that readers can separate them.
        return print(|out| {
            serde_json::to_writer(&mut *out, snapshot)?;
            writeln!(out)
        });
    }
    let columns = terminal_columns(std::io::stdout()).unwrap_or(COLUMNS);
    let lines = view::lines(snapshot, None, Room { columns, rows: None }, Colour::stdout());
    print(|out| lines.iter().try_for_each(|line| writeln!(out, "{}", line.trim_end())))
}
