//! Writes captures of either format.
//!
//! A pcap file has one link type and a clock of micro- or nanoseconds. With
//! [`Format::Auto`] a capture starts as pcap where that fits what is known of
//! its interfaces, and becomes pcapng when it no longer does: what was written
//! so far is read back and written anew. Nobody sees that happen, because the
//! file has its name only when it is finished.
//!
//! Where a batch says that its packets lie in memory as the records of a pcap
//! file ([`Layout::PcapRecords`]), runs of neighbours are written with one
//! copy, or with none if they are long. That keeps the stored time stamps to
//! the last bit, even those whose fraction is a second or more.
//!
//! Packets count as written when the system has taken them. Where a write fails, the file is
//! cut to the records that are whole in it, and more can be written behind them: a caller can
//! wait for room after [`Writer::write`] or [`Writer::flush`] has failed, and go on. Where the file
//! cannot be cut, each later write tries that again first.

mod sink;
mod whole;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_packet::{Batch, Interface, Layout, LiveMask};

use crate::error::Error;
use crate::pcap::{self, RECORD_HEADER};
use crate::pcapng::{self, InterfaceDoesNotFit};
use crate::reader::{ReadOptions, Reader};
use crate::whole_file::{Placement, WholeFile};
use sink::Sink;
use whole::Content;

/// A capture format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap where it fits, else pcapng.
    Auto,
    /// One link type, a clock of micro- or nanoseconds.
    Pcap,
    /// Any number of interfaces, each with its link type and clock.
    Pcapng,
}

/// What a finished capture is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputName {
    /// This, whatever its format; `-` is standard output.
    Exact(PathBuf),
    /// This, and `.pcap` or `.pcapng` after it.
    Stem(PathBuf),
}

impl OutputName {
    fn path(&self, format: Format) -> PathBuf {
        match self {
            Self::Exact(path) => path.clone(),
            Self::Stem(stem) => {
                let mut path = stem.clone().into_os_string();
                path.push(if format == Format::Pcapng { ".pcapng" } else { ".pcap" });
                path.into()
            }
        }
    }
}

/// How to write a capture.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Cut packets to so many captured bytes.
    pub snap_len: Option<u32>,
    /// Write each batch out at once rather than when a buffer is full.
    pub packet_buffered: bool,
    /// Where the capture is until it is whole. One that grows in sight cannot turn from
    /// pcap into pcapng once a part of it is written out.
    pub placement: Placement,
    /// Bytes that are gathered before they are written, 256 KiB if not given otherwise. The
    /// buffer takes a quarter more.
    pub buffer_len: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            snap_len: None,
            packet_buffered: false,
            placement: Placement::default(),
            buffer_len: 256 << 10,
        }
    }
}

/// A number of packets, and their captured bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Captured bytes of these.
    pub bytes: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Packets.
    pub packets: u64,
    /// Captured bytes of the packets, as written.
    pub bytes: u64,
    /// Length of the file.
    pub file_len: u64,
    /// Its name; `-` for standard output.
    pub path: PathBuf,
    /// Its format, never [`Format::Auto`].
    pub format: Format,
}

/// Whether a pcap file can hold the packets of these interfaces.
#[must_use]
pub fn fits_pcap(interfaces: &[Interface]) -> bool {
    match interfaces {
        [interface] => pcap::ticks_per_second(interface.clock).is_some(),
        _ => false,
    }
}

/// A capture being written. Dropped unfinished, it leaves no file behind but one that
/// grows in sight.
pub struct Writer {
    sink: Sink,
    name: OutputName,
    format: Format,
    /// Whether pcap may become pcapng.
    may_turn: bool,
    interfaces: Arc<Vec<Interface>>,
    options: WriteOptions,
}

impl Writer {
    /// Starts a capture of packets of `interfaces`; later batches may bring
    /// more of them behind these.
    ///
    /// # Errors
    /// When the file cannot be created, or `interfaces` do not fit `format`.
    pub fn create(
        name: OutputName,
        format: Format,
        interfaces: &Arc<Vec<Interface>>,
        options: &WriteOptions,
    ) -> Result<Self, Error> {
        let may_turn = format == Format::Auto;
        let format = match format {
            Format::Auto if fits_pcap(interfaces) => Format::Pcap,
            Format::Auto => Format::Pcapng,
            chosen => chosen,
        };
        let path = name.path(format);
        let file = WholeFile::create(&path, options.placement)
            .map_err(|source| Error::Create { file: shown(&path), source })?;
        let mut writer = Self {
            sink: Sink::new(file, format, options.buffer_len),
            name,
            format,
            may_turn,
            interfaces: Arc::default(),
            options: options.clone(),
        };
        writer.start(interfaces)?;
        Ok(writer)
    }

    /// The format so far, never [`Format::Auto`].
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The name that the capture will have if its format stays as it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.name.path(self.format)
    }

    /// Length of the file so far in bytes, with what is still buffered.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.sink.len()
    }

    /// Packets written so far, with those that are still buffered.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.written().packets + self.held()
    }

    /// What the system has taken: what a reader of the file gets, once it has its name.
    #[must_use]
    pub fn written(&self) -> Tally {
        self.sink.written().tally
    }

    /// Packets that are still buffered.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.sink.pending().tally.packets
    }

    /// Whether the file ends within a packet and still cannot be cut, so that others keep the
    /// packets before that and nothing can follow them.
    pub(crate) fn is_torn_for_good(&mut self) -> bool {
        self.sink.is_torn() && self.sink.mend().is_err()
    }

    /// Whether what is written is gone at once and cannot be taken back: see
    /// [`is_stream`](crate::is_stream).
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.sink.is_stream()
    }

    /// Writes the packets of `batch` that are live and in `which`, in order.
    ///
    /// # Errors
    /// When the file cannot be written, or the batch's packets do not fit its
    /// format. [`Writer::written`] says what is in the file then; nothing is buffered.
    pub fn write(&mut self, batch: &Batch, which: &LiveMask) -> Result<(), Error> {
        self.adopt(batch.interfaces())?;
        let as_records = batch.layout() == Layout::PcapRecords;
        if self.format == Format::Pcap && !as_records && !self.times_fit(batch, which) {
            self.turn("a time stamp after the year 2106")?;
        }
        let written = match self.format {
            Format::Pcap if as_records => self.write_runs(batch, which),
            Format::Pcap => self.write_records(batch, which),
            Format::Pcapng | Format::Auto => self.write_blocks(batch, which),
        };
        written.map_err(|source| self.write_failed(source))?;
        if self.options.packet_buffered { self.flush() } else { Ok(()) }
    }

    /// Makes the capture pcapng, whatever its interfaces, so that several
    /// outputs agree on the format.
    ///
    /// # Errors
    /// When it was to be pcap, or part of it has left for a pipe or device.
    pub fn require_pcapng(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Error> {
        if self.format == Format::Pcap {
            self.turn("what the other outputs hold")?;
        }
        self.adopt(interfaces)
    }

    /// Hands everything written so far to the system.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.sink.flush().map_err(|source| self.write_failed(source))
    }

    /// Does what may fail for want of room before the capture has its name, so that of
    /// several captures none gets its name if another cannot.
    ///
    /// # Errors
    /// When the file cannot be written, or another cannot be created beside it.
    pub fn prepare(&mut self) -> Result<(), Error> {
        let path = self.path();
        self.sink.prepare(&path).map_err(|source| self.write_failed(source))
    }

    /// Ends the capture: from now on it is there under its name.
    ///
    /// # Errors
    /// When the file cannot be written or named.
    pub fn finish(self) -> Result<Summary, Error> {
        let (path, format, file_len) = (self.path(), self.format, self.sink.len());
        let failed = |source| Error::Write { file: shown(&path), source };
        let Tally { packets, bytes } = self.sink.finish(&path).map_err(failed)?.tally;
        Ok(Summary { packets, bytes, file_len, path, format })
    }

    /// The error of a write that failed. What the file lacks to be continued is written
    /// again: its header, and the interfaces that were buffered.
    fn write_failed(&mut self, source: io::Error) -> Error {
        let error = Error::Write { file: shown(&self.path()), source };
        if self.format == Format::Pcapng {
            let described = self.sink.written().interfaces.min(self.interfaces.len());
            self.interfaces = Arc::new(self.interfaces[..described].to_vec());
        }
        if self.sink.len() == 0 {
            let interfaces = Arc::clone(&self.interfaces);
            // These fitted before.
            let _ = self.start(&interfaces);
        }
        error
    }

    fn does_not_fit(&self, what: String) -> Error {
        Error::DoesNotFit { file: shown(&self.path()), what }
    }

    /// Writes what a file begins with.
    fn start(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Error> {
        if self.format == Format::Pcap {
            let [interface] = &interfaces[..] else {
                let n = interfaces.len();
                return Err(self.does_not_fit(format!("{n} interfaces, in the pcap format")));
            };
            if pcap::ticks_per_second(interface.clock).is_none() {
                let what = "a clock other than micro- or nanoseconds, in the pcap format";
                return Err(self.does_not_fit(what.to_owned()));
            }
            let cut = self.options.snap_len.unwrap_or(u32::MAX);
            self.sink.buffer().extend_from_slice(&pcap::file_header(interface, cut));
            self.interfaces = Arc::clone(interfaces);
            return Ok(());
        }
        self.sink.buffer().extend_from_slice(&pcapng::section_header());
        self.interfaces = Arc::default();
        self.adopt(interfaces)
    }

    /// Takes in the interfaces of a batch: those known so far, and maybe more.
    fn adopt(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Error> {
        if Arc::ptr_eq(&self.interfaces, interfaces) {
            return Ok(());
        }
        let known = self.interfaces.len();
        if interfaces.get(..known) != Some(&self.interfaces[..]) {
            // A caller that saw fewer of the same interfaces has an older list.
            if self.interfaces.starts_with(interfaces) {
                return Ok(());
            }
            let what = "packets whose interfaces contradict those before".to_owned();
            return Err(self.does_not_fit(what));
        }
        if interfaces.len() > known && self.format == Format::Pcap {
            self.turn("a second interface")?;
        }
        if self.format == Format::Pcapng {
            for interface in &interfaces[known..] {
                let block = pcapng::interface_block(interface, self.options.snap_len)
                    .map_err(|misfit| self.does_not_fit(misfit_text(interface, misfit)))?;
                let put = self.sink.put(&block, Content::INTERFACE);
                put.map_err(|source| self.write_failed(source))?;
            }
        }
        self.interfaces = Arc::clone(interfaces);
        Ok(())
    }

    /// Turns the pcap written so far into pcapng, because of `cause`.
    fn turn(&mut self, cause: &str) -> Result<(), Error> {
        if !self.may_turn {
            return Err(self.does_not_fit(format!("{cause}, in the pcap format")));
        }
        // These are ours, and may be as long as they were when they were read.
        let options = ReadOptions { longest_record: u64::MAX, ..ReadOptions::default() };
        let name = shown(&self.path());
        let is_unwritten = self.sink.unwritten().is_some();
        let input: Box<dyn io::Read + Send> = if let Some(unwritten) = self.sink.unwritten() {
            Box::new(io::Cursor::new(unwritten.to_vec()))
        } else {
            self.flush()?;
            let Some(input) = self.sink.read_back() else {
                return Err(self.does_not_fit(format!(
                    "{cause}: it began as pcap, and what has been written out cannot become pcapng"
                )));
            };
            input.map_err(|source| Error::Open { file: name.clone(), source })?
        };
        let mut written = Reader::from_read(input, name, &options)?;
        self.format = Format::Pcapng;
        if is_unwritten {
            self.sink.begin_anew(Format::Pcapng);
        } else {
            let path = self.path();
            let file = WholeFile::create(&path, self.options.placement)
                .map_err(|source| Error::Create { file: shown(&path), source })?;
            self.sink = Sink::new(file, Format::Pcapng, self.options.buffer_len);
        }
        let interfaces = Arc::clone(&self.interfaces);
        self.start(&interfaces)?;
        while let Some(batch) = written.receive()? {
            self.write_blocks(&batch, &batch.live()).map_err(|source| self.write_failed(source))?;
        }
        Ok(())
    }

    /// Whether pcap records can tell the time of these packets.
    fn times_fit(&self, batch: &Batch, which: &LiveMask) -> bool {
        let per_second = self.interfaces.first().and_then(|i| pcap::ticks_per_second(i.clock));
        let last = pcap::MAX_SECONDS * per_second.unwrap_or(0) + u64::from(u32::MAX);
        which.iter().filter(|&i| batch.live().contains(i)).all(|i| batch.ticks(i) <= last)
    }

    fn cut(&self, cap_len: u32) -> u32 {
        cap_len.min(self.options.snap_len.unwrap_or(u32::MAX))
    }

    /// Writes records as they lie in the batch's region, neighbours together.
    fn write_runs(&mut self, batch: &Batch, which: &LiveMask) -> io::Result<()> {
        let live = batch.live();
        let bytes = batch.region().bytes();
        let longest = self.options.snap_len.unwrap_or(u32::MAX);
        let (mut run, mut content) = (0..0, Content::default());
        for i in which.iter().filter(|&i| live.contains(i)) {
            let cap_len = batch.cap_len(i);
            let packet = batch.offset(i) as usize;
            let record = packet - RECORD_HEADER..packet + cap_len as usize;
            if cap_len <= longest && record.start == run.end {
                run.end = record.end;
                content += Content::packet(cap_len);
                continue;
            }
            if !run.is_empty() {
                self.sink.put(&bytes[run.clone()], content)?;
            }
            (run, content) = (record, Content::packet(cap_len));
            if cap_len > longest {
                let mut header = [0; RECORD_HEADER];
                header.copy_from_slice(&bytes[run.start..packet]);
                header[8..12].copy_from_slice(&longest.to_le_bytes());
                self.sink.buffer().extend_from_slice(&header);
                let kept = &bytes[packet..packet + longest as usize];
                self.sink.buffer().extend_from_slice(kept);
                self.sink.added(Content::packet(longest))?;
                (run, content) = (0..0, Content::default());
            }
        }
        self.sink.put(&bytes[run], content)
    }

    /// Writes a pcap record for each packet.
    fn write_records(&mut self, batch: &Batch, which: &LiveMask) -> io::Result<()> {
        let live = batch.live();
        for i in which.iter().filter(|&i| live.contains(i)) {
            let clock = batch.interface(i).clock;
            let per_second = pcap::ticks_per_second(clock).unwrap_or(1);
            let cap_len = self.cut(batch.cap_len(i));
            let header =
                pcap::record_header(batch.ticks(i), per_second, cap_len, batch.wire_len(i));
            self.sink.buffer().extend_from_slice(&header);
            self.sink.buffer().extend_from_slice(&batch.packet(i)[..cap_len as usize]);
            self.sink.added(Content::packet(cap_len))?;
        }
        Ok(())
    }

    /// Writes a pcapng block for each packet.
    fn write_blocks(&mut self, batch: &Batch, which: &LiveMask) -> io::Result<()> {
        let live = batch.live();
        for i in which.iter().filter(|&i| live.contains(i)) {
            let cap_len = self.cut(batch.cap_len(i));
            pcapng::packet_block(
                self.sink.buffer(),
                batch.interface_id(i),
                batch.ticks(i),
                &batch.packet(i)[..cap_len as usize],
                batch.wire_len(i),
            );
            self.sink.added(Content::packet(cap_len))?;
        }
        Ok(())
    }
}

fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard output".to_owned() } else { path.display().to_string() }
}

fn misfit_text(interface: &Interface, misfit: InterfaceDoesNotFit) -> String {
    match misfit {
        InterfaceDoesNotFit::Link => {
            format!("link type {}, in the pcapng format: at most 65535", interface.link.0)
        }
        InterfaceDoesNotFit::Resolution => format!(
            "a clock of {:?}, in the pcapng format: exponents up to 127",
            interface.clock.resolution
        ),
    }
}
