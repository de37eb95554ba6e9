//! Shared input handling of verbs: opening, filtering, stopping on signals; and output.

use std::env::temp_dir;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::available_parallelism;

use forebay_filter::{Profile, Program};
use forebay_io::text::{self, MOST_FILTER, Source};
use forebay_io::{DEFAULT_BLOCK_LEN, Format, Lane, ParallelReader, ReadOptions, Reader};
use forebay_jit::{FilterError, FilterSet, Options};
use forebay_packet::{Affinity, Batch, DecodeOptions, Interface};
use forebay_pipeline::{Chain, Worker};

use crate::cli::{Backend, Cli, KeyArgs, ReadLimits, Selection};
use crate::failure::Failure;
use crate::show::Progress;
use crate::signals;

/// The input of a worker: some batches, possibly none; `None` at the end.
pub type Receive = Box<dyn FnMut() -> Result<Option<Vec<Batch>>, Failure> + Send>;

/// A capture that is being read.
pub struct Input {
    lanes: ParallelReader,
    format: Format,
    first_interfaces: Vec<Interface>,
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    /// Shown until the input is dropped.
    _progress: Progress,
}

impl Input {
    /// Opens a capture, and shows progress on a terminal unless `quiet`.
    ///
    /// # Errors
    /// If it cannot be opened or is no capture.
    pub fn open(path: &Path, options: &ReadOptions, quiet: bool) -> Result<Self, Failure> {
        Self::open_copy(None, path, options, quiet)
    }

    /// As [`Input::open`], from a copy of the capture at `path` if there is one. The run
    /// stops when the flag of `options`, if there is one, is set.
    ///
    /// # Errors
    /// As [`Input::open`].
    pub fn open_copy(
        copy: Option<&File>,
        path: &Path,
        options: &ReadOptions,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let stop = options.stop.clone().unwrap_or_default();
        let options = ReadOptions { stop: Some(Arc::clone(&stop)), ..options.clone() };
        let reader = match copy {
            None => Reader::open(path, &options),
            Some(copy) => {
                let copy = copy.try_clone().map_err(|e| file_failure("read again", path, e))?;
                Reader::of_file(copy, file_name(path), &options)
            }
        };
        let reader = reader.map_err(|error| unless_stopped(&stop, error))?;
        let label = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
        let progress = Progress::bytes(&label, reader.position(), reader.total_len(), quiet);
        let format = reader.format();
        let first_interfaces = reader.first_interfaces().to_vec();
        let lanes = ParallelReader::new(reader);
        let bytes = Arc::default();
        Ok(Self { lanes, format, first_interfaces, stop, bytes, _progress: progress })
    }

    /// From now on a terminating signal stops the run instead of the process. To be called
    /// after the command line has been validated.
    ///
    /// # Errors
    /// If the signal handlers cannot be set.
    pub fn watch_signals(&self) -> Result<(), Failure> {
        signals::watch(&self.stop)
    }

    /// The format of the capture.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The interfaces described before the first packet. A filter must compile for these;
    /// for others only if they have packets.
    #[must_use]
    pub fn first_interfaces(&self) -> &[Interface] {
        &self.first_interfaces
    }

    /// The interfaces known so far.
    #[must_use]
    pub fn interfaces(&self) -> Arc<Vec<Interface>> {
        self.lanes.interfaces()
    }

    /// Bytes on the wire of the packets received so far.
    #[must_use]
    pub fn wire_bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// One worker for each chain; together they receive the capture, or the error that a
    /// signal arrived.
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

/// The reading options for this many workers. Each worker has a block and metadata of its
/// packets, several times as large for short packets; with many workers blocks are shorter.
#[must_use]
pub fn read_options(limits: &ReadLimits, workers: usize) -> ReadOptions {
    /// Blocks of all workers together.
    const BLOCKS: usize = 2 << 20;
    /// The shortest block: still some hundred packets.
    const LEAST: usize = 32 << 10;
    ReadOptions {
        block_len: (BLOCKS / workers.max(1)).clamp(LEAST, DEFAULT_BLOCK_LEN),
        zstd_window: u64::from(limits.zstd_window) << 20,
        longest_record: u64::from(limits.longest_record) << 20,
        ..ReadOptions::default()
    }
}

/// A copy of a capture that is read twice, for the reason `why`, but can be read only once, in an
/// unnamed file of at most `spill` MiB; `None` if the capture itself can be read twice. `before` is
/// called when it is open, and before it is read.
///
/// # Errors
/// [`Failure::File`], or that of `before`.
pub fn copy_of_stream(
    path: &Path,
    spill: u32,
    why: &str,
    before: impl FnOnce() -> Result<(), Failure>,
) -> Result<Option<File>, Failure> {
    let opened = if path == Path::new("-") {
        io::stdin().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::open(path)
    };
    // A file that cannot be opened is reported when it is read.
    let Ok(input) = opened else { return Ok(None) };
    if input.metadata().is_ok_and(|metadata| metadata.is_file() || metadata.is_dir()) {
        return Ok(None);
    }
    before()?;
    let folder = temp_dir();
    let no_file = |source| file_failure("create a temporary file in", &folder, source);
    let mut copy = tempfile::tempfile_in(&folder).map_err(no_file)?;
    let most = u64::from(spill) << 20;
    let copied = io::copy(&mut input.take(most + 1), &mut copy);
    let not_copied = |source| Failure::File { doing: "copy", file: file_name(path), source };
    let in_folder = |source: io::Error| {
        let text = format!("{source} (in {}, which TMPDIR can name)", folder.display());
        not_copied(io::Error::new(source.kind(), text))
    };
    let copied = copied.map_err(in_folder)?;
    if copied > most {
        let text = format!(
            "it has more than {spill} MiB, and {why}; name a file, or allow more with --spill"
        );
        let source = io::Error::new(io::ErrorKind::FileTooLarge, text);
        return Err(not_copied(source));
    }
    copy.rewind().map_err(no_file)?;
    Ok(Some(copy))
}

/// An error caused by a signal is no error of the input.
fn unless_stopped(stop: &AtomicBool, error: forebay_io::Error) -> Failure {
    if stop.load(Ordering::Relaxed) { Failure::Interrupted } else { error.into() }
}

/// The filter selected by the options; `None` if every packet is kept.
///
/// # Errors
/// If a file cannot be read, or has no valid program.
pub fn filter_of(cli: &Cli, selection: &Selection) -> Result<Option<FilterSet>, Failure> {
    let options = compiler_options(cli, selection.backend)?;
    if let Some(program) = program_of(selection)? {
        return Ok(Some(FilterSet::of_program(program, options)));
    }
    let expression = expression_of(selection)?;
    Ok((!expression.trim().is_empty()).then(|| FilterSet::new(expression, options)))
}

/// Compiles a filter for the interfaces of `capture`. If the expression is invalid for some
/// of them, a file is searched for packets of these first, so that the error precedes any
/// output; in an input that can be read only once, the first such packet ends the run.
///
/// # Errors
/// An expression that is invalid in itself, or for an interface with packets.
pub fn prepare(
    programs: &mut FilterSet,
    interfaces: &[Interface],
    capture: &Path,
    options: &ReadOptions,
) -> Result<(), Failure> {
    let mut wrong = programs.prepare(interfaces).map_err(Failure::WrongFilter)?;
    let is_file = capture != Path::new("-") && capture.is_file();
    if wrong.is_empty() || !is_file {
        return Ok(());
    }
    let mut reader = Reader::open(capture, options)?;
    // Damage is reported when it is read again, after the packets before it.
    while let Ok(Some(batch)) = reader.receive() {
        let of_batch = |error: &FilterError| {
            batch.live().iter().any(|i| usize::from(batch.interface_id(i)) == error.interface)
        };
        if let Some(found) = wrong.iter().position(of_batch) {
            return Err(wrong.swap_remove(found).into());
        }
    }
    Ok(())
}

/// The options for compiling filters.
///
/// # Errors
/// If this machine lacks the instruction-set level.
pub fn compiler_options(cli: &Cli, backend: Backend) -> Result<Options, Failure> {
    Options::new(backend.into(), cli.isa.map(Into::into))
        .map_err(|error| Failure::Usage(error.to_string()))
}

/// The program of `--program`, if given.
///
/// # Errors
/// If the file cannot be read, or has no valid program.
pub fn program_of(selection: &Selection) -> Result<Option<Program>, Failure> {
    let Some(path) = &selection.program else { return Ok(None) };
    let text = read_text(path, "a program", MOST_FILTER)?;
    Program::from_text(&text, Profile::Libpcap)
        .map(Some)
        .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}

/// The expression, from a file or the command line.
///
/// # Errors
/// If the file cannot be read.
pub fn expression_of(selection: &Selection) -> Result<String, Failure> {
    match &selection.expression_file {
        Some(path) => Ok(without_comments(&read_text(path, "a filter expression", MOST_FILTER)?)),
        None => Ok(selection.expression.join(" ")),
    }
}

/// `text` with comments, from `#` to the end of the line, replaced by blanks, as tcpdump
/// reads files of expressions. Columns in error messages stay valid.
fn without_comments(text: &str) -> String {
    let mut in_comment = false;
    let shown = |c: char| {
        in_comment = c != '\n' && (in_comment || c == '#');
        if in_comment { ' ' } else { c }
    };
    text.chars().map(shown).collect()
}

/// The text of a file of kind `what`, of at most `most` bytes; `-` is standard input.
fn read_text(path: &Path, what: &'static str, most: u64) -> Result<String, Failure> {
    text::read(path, Source::Any, what, most)
        .map_err(|source| Failure::Text { file: file_name(path), source })
}

/// A file's name in messages.
#[must_use]
pub fn file_name(path: &Path) -> String {
    match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    }
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

/// The most workers: they write in turn, and their memory must be bounded.
pub const MOST_WORKERS: usize = 64;

/// Processors available to this process, limited to the useful number.
#[must_use]
pub fn processors() -> usize {
    available_parallelism().map_or(1, usize::from).min(MOST_WORKERS)
}

/// A failed operation on a file.
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
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(|out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_with_their_line() {
        let text = "# web # and\nport 80 # é\nor port 443#";
        let expected = "           \nport 80    \nor port 443 ";
        assert_eq!(without_comments(text), expected);
    }
}
