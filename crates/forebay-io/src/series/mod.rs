//! Captures that follow one another: the next begins when one is large or old enough.
//!
//! Two naming schemes:
//!
//! * [`Naming::Tcpdump`]: NAME, NAME1, NAME2 …; with a fixed number N of files NAME0 to
//!   NAME(N-1), zero-padded, used in turn. With a time limit the name may contain
//!   conversions of strftime(3), in UTC.
//! * [`Naming::Numbered`]: `stem_00001_20261123094500.pcapng`, with the number and the
//!   time, so that names sort and never repeat. A given number of these is kept, including
//!   those of earlier runs: the oldest is removed for a new one.
//!
//! Time is wall-clock time, also when a capture is read. If the clock is set back, the
//! present file's age starts again at 0.

mod names;

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_packet::{Batch, Interface, LiveMask};

use crate::error::Error;
use crate::format::Format;
use crate::whole_file::{Placement, is_stream};
use crate::writer::{OutputName, Tally, WriteOptions, Writer};
pub use names::{BadPattern, Numbered};
use names::{strftime, tcpdump_name};

/// The most bytes of a record besides its packet: a block's head, padding, comment and tail.
const RECORD_OVERHEAD: u64 = 64;

/// The naming scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Tcpdump's names.
    Tcpdump {
        /// With a size limit, the number of files used in turn. With only a time limit, the
        /// number of files written.
        files: Option<u64>,
    },
    /// Names with number and time.
    Numbered {
        /// The number of files kept.
        keep: Option<u64>,
    },
}

/// Options of a series.
#[derive(Clone, Debug)]
pub struct SeriesOptions {
    /// The name from which others are derived; `-` is standard output.
    pub name: PathBuf,
    /// The format of the packets' source, or [`Format::Auto`]. Files have the simplest
    /// format that fits, unless it could not be changed later.
    pub format: Format,
    /// How each file is written.
    pub write: WriteOptions,
    /// The length in bytes after which the next file begins.
    pub max_len: Option<u64>,
    /// The age in seconds after which the next file begins.
    pub max_age: Option<u64>,
    /// The naming scheme.
    pub naming: Naming,
    /// Device and inode of the input file, which must not be replaced.
    pub spared: Option<(u64, u64)>,
}

/// Captures that follow one another.
pub struct Series {
    options: SeriesOptions,
    writer: Option<Writer>,
    /// Counts of the finished files.
    finished: Tally,
    /// Files started.
    begun: u64,
    /// Names of the finished files, each once.
    names: Vec<PathBuf>,
    /// Number of the present file in its time slice, or of all.
    number: u64,
    /// Start of the present time slice, in seconds since the epoch.
    slice_start: u64,
    slices: u64,
    /// With numbers and times in names.
    numbered: Option<Numbered>,
    /// Seconds since the epoch.
    clock: Box<dyn Fn() -> u64 + Send>,
}

impl Series {
    /// A series whose first file is opened by [`Series::open`], or by the first packet.
    ///
    /// # Errors
    /// If the name has an invalid conversion.
    pub fn new(options: SeriesOptions) -> Result<Self, BadPattern> {
        if options.max_age.is_some() && matches!(options.naming, Naming::Tcpdump { .. }) {
            strftime(&options.name.to_string_lossy(), 0)?;
        }
        let is_rotated = options.max_len.or(options.max_age).is_some();
        let numbered = match options.naming {
            Naming::Numbered { keep } if is_rotated => {
                Some(Numbered::new(options.name.clone(), keep))
            }
            _ => None,
        };
        Ok(Self {
            options,
            writer: None,
            finished: Tally::default(),
            begun: 0,
            names: Vec::new(),
            number: 0,
            slice_start: now(),
            slices: 0,
            numbered,
            clock: Box::new(now),
        })
    }

    /// Sets the clock, which returns seconds since the epoch.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> u64 + Send + 'static) -> Self {
        self.clock = Box::new(clock);
        self.slice_start = (self.clock)();
        self
    }

    /// Packets in the files, accepted by the system.
    #[must_use]
    pub fn written(&self) -> Tally {
        let mut sum = self.finished;
        sum += self.writer.as_ref().map(Writer::written).unwrap_or_default();
        sum
    }

    /// Packets that remain if the series ends here without [`Series::close`]: a file that
    /// is invisible until it is complete is not kept.
    #[must_use]
    pub fn kept(&self) -> Tally {
        let mut sum = self.finished;
        if let Some(writer) = self.writer.as_ref().filter(|writer| self.is_in_sight(writer)) {
            sum += writer.written();
        }
        sum
    }

    /// Whether the packets written so far are visible to others.
    fn is_in_sight(&self, writer: &Writer) -> bool {
        self.options.write.placement != Placement::Hidden || writer.is_stream()
    }

    /// Packets that are still buffered.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::held)
    }

    /// Files started so far, and how many of the series' files were removed for newer ones.
    #[must_use]
    pub fn files(&self) -> (u64, u64) {
        (self.begun, self.numbered.as_ref().map_or(0, Numbered::removed))
    }

    /// The present file.
    #[must_use]
    pub fn current(&self) -> Option<PathBuf> {
        self.writer.as_ref().map(Writer::path)
    }

    /// The files finished so far.
    #[must_use]
    pub fn names(&self) -> &[PathBuf] {
        &self.names
    }

    /// Whether the requested number of files by time was written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        match self.options.naming {
            Naming::Tcpdump { files: Some(files) } => {
                self.options.max_len.is_none() && self.slices >= files
            }
            _ => false,
        }
    }

    /// Writes the packets of `batch` that are live and in `which`, in order. Packets after
    /// the last of a limited number of files by time are not written.
    ///
    /// # Errors
    /// If a file cannot be written, created or named. [`Series::written`] and
    /// [`Series::held`] then count those of these packets that were written or buffered.
    pub fn write(&mut self, batch: &Batch, which: &LiveMask) -> Result<(), Error> {
        self.write_marked(batch, which, &LiveMask::EMPTY)
    }

    /// As [`Series::write`]. In pcapng, the packets in `marked` get a comment.
    ///
    /// # Errors
    /// As [`Series::write`].
    pub(crate) fn write_marked(
        &mut self,
        batch: &Batch,
        which: &LiveMask,
        marked: &LiveMask,
    ) -> Result<(), Error> {
        let which = batch.live().and(which);
        self.leave_torn();
        self.open(batch.interfaces())?;
        let most = |i: usize| u64::from(batch.cap_len(i)) + RECORD_OVERHEAD;
        let room = self.options.max_len.map_or(u64::MAX, |len| len.saturating_sub(self.len()));
        if which.iter().map(most).sum::<u64>() <= room {
            self.rotate(batch.interfaces())?;
            return self.put(batch, &which, marked);
        }
        for i in which.iter() {
            self.rotate(batch.interfaces())?;
            let mut one = LiveMask::default();
            one.insert(i);
            self.put(batch, &one, marked)?;
        }
        Ok(())
    }

    fn put(&mut self, batch: &Batch, which: &LiveMask, marked: &LiveMask) -> Result<(), Error> {
        match &mut self.writer {
            Some(writer) => writer.write_marked(batch, which, marked),
            None => Ok(()),
        }
    }

    /// Abandons a visible file that ends within a packet and cannot be truncated, so that
    /// another is started. A file without packets is retried instead: a full disk gets no
    /// more files.
    fn leave_torn(&mut self) {
        let is_hidden = self.options.write.placement == Placement::Hidden;
        let Some(writer) = self.writer.as_mut().filter(|_| !is_hidden) else { return };
        let written = writer.written();
        if written.packets > 0 && !writer.is_stream() && writer.is_torn_for_good() {
            self.finished += written;
            self.writer = None;
        }
    }

    /// Length of the present file.
    fn len(&self) -> u64 {
        self.writer.as_ref().map_or(0, Writer::file_len)
    }

    /// Starts the next file if the present one is old or large enough.
    fn rotate(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Error> {
        let limits = (self.options.max_age, self.options.max_len);
        if self.writer.is_none() || limits == (None, None) {
            return Ok(());
        }
        let is_old = self.options.max_age.is_some_and(|age| self.age() >= age);
        let is_full = self.options.max_len.is_some_and(|len| self.len() > len);
        if !is_old && !is_full {
            return Ok(());
        }
        self.close()?;
        if is_old {
            self.slice_start = (self.clock)();
            self.slices += 1;
        }
        match self.options.naming {
            Naming::Numbered { .. } => {}
            Naming::Tcpdump { .. } if is_old => self.number = 0,
            Naming::Tcpdump { files } => {
                self.number += 1;
                if files.is_some_and(|files| self.number >= files) {
                    self.number = 0;
                }
            }
        }
        self.open(interfaces)
    }

    /// Seconds since the start of the present time slice. If the clock was set back since,
    /// the slice restarts.
    fn age(&mut self) -> u64 {
        let now = (self.clock)();
        self.slice_start = self.slice_start.min(now);
        now - self.slice_start
    }

    /// Opens a file if none is open, unless the last one was written.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn open(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Error> {
        if self.writer.is_some() || self.is_over() {
            return Ok(());
        }
        let name = self.next_name();
        let format = match self.options.format {
            // A stream cannot be restarted as pcapng when a second interface appears.
            Format::Pcapng if !is_stream(&name) && !self.is_numbered() => Format::Auto,
            Format::Pcapng => Format::Pcapng,
            _ => Format::Auto,
        };
        if self.options.spared.is_some() && self.options.spared == identity(&name) {
            let source = io::Error::other("it is the input, and would be replaced");
            return Err(Error::Create { file: name.display().to_string(), source });
        }
        let exact = OutputName::Exact(name.clone());
        let writer = Writer::create(exact, format, interfaces, &self.options.write)?;
        self.writer = Some(writer);
        self.begun += 1;
        if let Some(numbered) = &mut self.numbered {
            numbered.begun(name);
        }
        Ok(())
    }

    fn is_numbered(&self) -> bool {
        matches!(self.options.naming, Naming::Numbered { .. })
    }

    /// Ends the present file if it has packets and is old enough, even if no more packets
    /// come.
    ///
    /// # Errors
    /// As [`Series::finish`].
    pub fn tick(&mut self) -> Result<(), Error> {
        let has_packets = self.writer.as_ref().is_some_and(|writer| writer.packets() > 0);
        if has_packets && self.options.max_age.is_some_and(|age| self.age() >= age) {
            self.close()?;
            self.slice_start = (self.clock)();
        }
        Ok(())
    }

    /// Passes all buffered packets to the system.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.leave_torn();
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }

    /// Completes the present file under its final name. A visible file is renamed even if
    /// its last packets could not be written, since its records are complete.
    ///
    /// # Errors
    /// If the file cannot be written or named.
    pub fn close(&mut self) -> Result<(), Error> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        let flushed = writer.flush();
        if flushed.is_err() && self.options.write.placement == Placement::Hidden {
            // A stream keeps what was written; otherwise the data is lost.
            if writer.is_stream() {
                self.finished += writer.written();
            }
            return flushed;
        }
        let (path, written) = (writer.path(), writer.written());
        let is_in_sight = self.is_in_sight(&writer);
        let named = writer.finish();
        // A file that cannot be named is lost, unless it is visible.
        if named.is_ok() || is_in_sight {
            self.finished += written;
        }
        named?;
        if !self.is_numbered() && !self.names.contains(&path) {
            self.names.push(path);
        }
        flushed
    }

    /// Ends the series. Without any packets it leaves an empty capture.
    ///
    /// # Errors
    /// As [`Series::close`].
    pub fn finish(&mut self, interfaces: &[Interface]) -> Result<(), Error> {
        if self.begun == 0 {
            let interfaces = match interfaces {
                [] => vec![Interface::default()],
                some => some.to_vec(),
            };
            self.open(&Arc::new(interfaces))?;
        }
        self.close()
    }

    /// The name of the present file, or of the next.
    #[must_use]
    pub fn name(&self) -> PathBuf {
        let options = &self.options;
        match options.naming {
            Naming::Numbered { .. } => match &self.numbered {
                Some(numbered) => numbered.name((self.clock)()),
                None => options.name.clone(),
            },
            Naming::Tcpdump { files } => {
                let pattern = options.name.to_string_lossy();
                let by_time = options.max_age.map(|_| strftime(&pattern, self.slice_start));
                // Checked when the series was created.
                let base = by_time.and_then(Result::ok).map_or(options.name.clone(), PathBuf::from);
                let in_turn = options.max_len.is_some();
                if in_turn { tcpdump_name(&base, self.number, files) } else { base }
            }
        }
    }

    /// The name of the next file; reads the numbers of earlier ones first.
    fn next_name(&mut self) -> PathBuf {
        self.numbered.iter_mut().for_each(Numbered::list);
        if self.is_numbered() {
            self.slice_start = (self.clock)();
        }
        self.name()
    }
}

/// Device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok().filter(Metadata::is_file)?;
    Some((found.dev(), found.ino()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
