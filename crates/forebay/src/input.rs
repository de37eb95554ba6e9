//! What several verbs do with their input: open it, filter it, stop when asked.

use std::fs;
use std::io::{self, Read as _, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::available_parallelism;

use forebay_filter::{FilterSet, Profile, Program};
use forebay_io::{Lane, Lanes, ReadOptions, Reader};
use forebay_packet::{Affinity, Batch, DecodeOptions, Interface};
use forebay_pipeline::{Chain, Ledger, Worker};

use crate::cli::{Cli, KeyArgs, Selection};
use crate::failure::Failure;
use crate::show::{Colour, Column, Progress, Style, Table, human, terminal_columns};

/// Signals that ask the program to end.
const ENDING: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];

/// What a worker receives: some batches, perhaps none; nothing at the end.
pub type Receive = Box<dyn FnMut() -> Result<Option<Vec<Batch>>, Failure> + Send>;

/// A capture that is being read.
pub struct Input {
    lanes: Lanes,
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    /// Shown until the input is dropped.
    _progress: Progress,
}

impl Input {
    /// Opens a capture and shows progress, on a terminal.
    ///
    /// # Errors
    /// When it cannot be opened or is no capture.
    pub fn open(path: &Path, options: &ReadOptions, cli: &Cli) -> Result<Self, Failure> {
        let stop = stop_flag()?;
        let options = ReadOptions { stop: Some(Arc::clone(&stop)), ..options.clone() };
        let reader = Reader::open(path, &options).map_err(|error| unless_stopped(&stop, error))?;
        let label = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        let quiet = cli.quiet;
        let progress = Progress::bytes(&label, reader.position(), reader.total_len(), quiet);
        Ok(Self { lanes: Lanes::new(reader), stop, bytes: Arc::default(), _progress: progress })
    }

    /// The interfaces known so far.
    #[must_use]
    pub fn interfaces(&self) -> Arc<Vec<Interface>> {
        self.lanes.interfaces()
    }

    /// Bytes that the packets received so far had on the wire.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// One worker for each chain; together they receive the capture, or the news that
    /// a signal came.
    pub fn workers(&mut self, chains: Vec<Chain>) -> Vec<Worker<Receive>> {
        let lanes = self.lanes.split(chains.len());
        let with_lane = |(chain, mut lane): (Chain, Lane)| {
            let (stop, bytes) = (Arc::clone(&self.stop), Arc::clone(&self.bytes));
            let receive = move || {
                if stop.load(Ordering::Relaxed) {
                    return Err(Failure::Interrupted);
                }
                let batches = lane.receive().map_err(|error| unless_stopped(&stop, error))?;
                let sum = batches.iter().flatten().map(Batch::wire_bytes).sum();
                bytes.fetch_add(sum, Ordering::Relaxed);
                Ok(batches)
            };
            Worker { lane: Box::new(receive) as Receive, chain }
        };
        chains.into_iter().zip(lanes).map(with_lane).collect()
    }
}

/// A flag that a signal to end sets, so that no unfinished output is left behind.
///
/// # Errors
/// When the system takes no handlers.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::Signals)?;
    }
    Ok(stop)
}

/// What a signal did to the input is no fault of the input.
fn unless_stopped(stop: &AtomicBool, error: forebay_io::Error) -> Failure {
    if stop.load(Ordering::Relaxed) { Failure::Interrupted } else { error.into() }
}

/// The filter that the options ask for; nothing where every packet is kept.
///
/// # Errors
/// When a file cannot be read, or holds no valid program.
pub fn filter_of(selection: &Selection) -> Result<Option<FilterSet>, Failure> {
    if let Some(path) = &selection.program {
        let text = read_text(path)?;
        let program = Program::from_text(&text, Profile::Libpcap)
            .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        return Ok(Some(FilterSet::of_program(program)));
    }
    let expression = expression_of(selection)?;
    Ok((!expression.trim().is_empty()).then(|| FilterSet::new(expression)))
}

/// The expression that the options give, from a file or the command line.
///
/// # Errors
/// When the file cannot be read.
pub fn expression_of(selection: &Selection) -> Result<String, Failure> {
    match &selection.expression_file {
        Some(path) => read_text(path),
        None => Ok(selection.expression.join(" ")),
    }
}

fn read_text(path: &Path) -> Result<String, Failure> {
    /// More than any expression or program that libpcap takes.
    const MOST: u64 = 16 << 20;
    let read = || -> io::Result<String> {
        let mut text = String::new();
        if path == Path::new("-") {
            io::stdin().lock().take(MOST).read_to_string(&mut text)?;
        } else {
            fs::File::open(path)?.take(MOST).read_to_string(&mut text)?;
        }
        Ok(text)
    };
    read().map_err(|source| file_failure("read", path, source))
}

/// The decoder's options.
#[must_use]
pub fn decode_options(key: &KeyArgs, affinity: Affinity) -> DecodeOptions {
    DecodeOptions {
        affinity,
        vlan_in_key: key.vlan_in_key,
        tunnel_in_key: key.tunnel_in_key,
        tunnel_depth: key.tunnel_depth,
    }
}

/// Processors that this process may use.
#[must_use]
pub fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// A failure to do something with a file.
#[must_use]
pub fn file_failure(doing: &'static str, path: &Path, source: io::Error) -> Failure {
    Failure::File { doing, file: path.display().to_string(), source }
}

/// Prints to standard output, through one buffer.
///
/// # Errors
/// [`Failure::Stdout`].
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(Failure::Stdout)
}

/// Prints a value as JSON to standard output.
///
/// # Errors
/// [`Failure::Stdout`].
pub fn print_json(value: &serde_json::Value) -> Result<(), Failure> {
    print(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}

/// The ledger as a table for people.
#[must_use]
pub fn ledger_table(ledger: &Ledger, colour: Colour, width: Option<usize>) -> String {
    let mut table = Table::new(vec![
        Column::left("stage"),
        Column::right("in"),
        Column::right("out"),
        Column::right("held"),
        Column::wrapped("dropped"),
    ]);
    for row in &ledger.rows {
        let drops: Vec<String> = row
            .drops
            .iter()
            .filter(|drop| drop.packets > 0)
            .map(|drop| format!("{} {}", human::count(drop.packets), drop.name))
            .collect();
        table.row([
            row.stage.to_owned(),
            human::count(row.input + row.copies + row.injected),
            human::count(row.output),
            human::count(row.held),
            drops.join(", "),
        ]);
    }
    let (text, style) = if ledger.closes() {
        ("every packet is accounted for", Style::Good)
    } else {
        ("THE LEDGER DOES NOT CLOSE", Style::Bad)
    };
    let verdict = colour.paint(style, text);
    format!(
        "{}{verdict}: {} in = {} out + {} dropped\n",
        table.render(width, colour),
        human::count(ledger.input()),
        human::count(ledger.output()),
        human::count(ledger.dropped()),
    )
}

/// Says on standard error how a run went: the remarks and the ledger, where they
/// were asked for or something went wrong.
pub fn tell_ledger(ledger: &Ledger, cli: &Cli, failed: bool) {
    let asked = cli.verbose > 0 || failed || !ledger.closes();
    if asked && !cli.quiet {
        let width = terminal_columns(io::stderr());
        eprint!("{}", ledger_table(ledger, Colour::stderr(), width));
    }
}

/// Fails where packets are unaccounted for.
///
/// # Errors
/// [`Failure::Ledger`].
pub fn check_ledger(ledger: &Ledger) -> Result<(), Failure> {
    if ledger.closes() { Ok(()) } else { Err(Failure::Ledger) }
}
