//! Writes captures in either format.
//!
//! A pcap file has one link type and a clock of micro- or nanoseconds. With
//! [`Format::Auto`] a capture starts as pcap if its interfaces allow that, and is converted
//! to pcapng when they no longer do: the part written so far is read back and rewritten.
//! The conversion is invisible, because the file gets its name only when it is finished.
//!
//! In pcapng, interfaces keep their order. Each is described before its first packet or that of a
//! later one, and those without packets at the end.
//!
//! If the packets of a batch are pcap records in memory ([`Layout::PcapRecords`]),
//! consecutive ones are written with one copy, or without a copy if they are long. That
//! preserves the stored time stamps exactly, even those whose fraction is a second or more.
//!
//! Packets count as written when the system has accepted them. If a write fails, the file
//! is truncated to its complete records, and more can be appended: a caller can wait for
//! space after [`Writer::write`] or [`Writer::flush`] has failed, and continue. If the file
//! cannot be truncated, each later write retries that first.

mod content;
mod sink;
mod whole;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_packet::{Batch, Interface, Layout, LiveMask};

use crate::error::Error;
use crate::format::Format;
use crate::pcap::{self, RECORD_HEADER};
use crate::pcapng;
use crate::read_options::ReadOptions;
use crate::reader::Reader;
use crate::whole_file::{Placement, WholeFile};
use content::Content;
pub use content::Tally;
use sink::Sink;

/// The name of a finished capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputName {
    /// This name, whatever the format; `-` is standard output.
    Exact(PathBuf),
    /// This name with `.pcap` or `.pcapng` appended.
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

/// Options of a writer.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Cut packets to this many captured bytes.
    pub snap_len: Option<u32>,
    /// Write each batch at once rather than when a buffer is full.
    pub packet_buffered: bool,
    /// The location of the capture until it is complete. A growing, visible capture cannot
    /// be converted from pcap to pcapng once part of it is written.
    pub placement: Placement,
    /// Bytes collected before they are written, 256 KiB by default. The buffer takes a
    /// quarter more.
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

/// Statistics of a finished capture.
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

/// The comment of marked packets: of flows in which a scan found something or may have missed it.
pub const MARK: &str = "forebay: suspect";

/// Whether a pcap file can hold the packets of these interfaces.
#[must_use]
pub fn fits_pcap(interfaces: &[Interface]) -> bool {
    match interfaces {
        [interface] => pcap::ticks_per_second(interface.clock).is_some(),
        _ => false,
    }
}

/// A capture being written. If dropped before it is finished, only a growing, visible file
/// remains.
pub struct Writer {
    sink: Sink,
    name: OutputName,
    format: Format,
    /// Whether pcap may be converted to pcapng.
    may_turn: bool,
    interfaces: Arc<Vec<Interface>>,
    options: WriteOptions,
}

impl Writer {
    /// Starts a capture of packets of `interfaces`; later batches may append more
    /// interfaces.
    ///
    /// # Errors
    /// If the file cannot be created, or `interfaces` do not fit `format`.
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
        // Readers expect an interface in any file.
        writer.describe(1).map_err(|source| writer.write_failed(source))?;
        Ok(writer)
    }

    /// The present format, never [`Format::Auto`].
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The name that the capture will have if its format does not change.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.name.path(self.format)
    }

    /// Length of the file so far in bytes, including buffered data.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.sink.len()
    }

    /// Packets written so far, including buffered ones.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.written().packets + self.held()
    }

    /// Packets accepted by the system: the content of the file, once it has its name.
    #[must_use]
    pub fn written(&self) -> Tally {
        self.sink.written().tally
    }

    /// Packets that are still buffered.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.sink.pending().tally.packets
    }

    /// Whether the file ends within a packet and still cannot be truncated: the packets
    /// before that remain readable, and nothing can follow them.
    pub(crate) fn is_torn_for_good(&mut self) -> bool {
        self.sink.is_torn() && self.sink.mend().is_err()
    }

    /// Whether written data is passed on at once and cannot be withdrawn: see
    /// [`is_stream`](crate::is_stream).
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.sink.is_stream()
    }

    /// Writes the packets of `batch` that are live and in `which`, in order.
    ///
    /// # Errors
    /// If the file cannot be written, or the batch's packets do not fit its format.
    /// [`Writer::written`] then counts the packets in the file; nothing is buffered.
    pub fn write(&mut self, batch: &Batch, which: &LiveMask) -> Result<(), Error> {
        self.write_marked(batch, which, &LiveMask::EMPTY)
    }

    /// As [`Writer::write`]. In pcapng, the packets in `marked` get the comment [`MARK`].
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub(crate) fn write_marked(
        &mut self,
        batch: &Batch,
        which: &LiveMask,
        marked: &LiveMask,
    ) -> Result<(), Error> {
        self.adopt(batch.interfaces())?;
        let as_records = batch.layout() == Layout::PcapRecords;
        if self.format == Format::Pcap && !as_records && !self.times_fit(batch, which) {
            self.turn("a time stamp after the year 2106")?;
        }
        let written = match self.format {
            Format::Pcap if as_records => self.write_runs(batch, which),
            Format::Pcap => self.write_records(batch, which),
            Format::Pcapng | Format::Auto => self.write_blocks(batch, which, marked),
        };
        written.map_err(|source| self.write_failed(source))?;
        if self.options.packet_buffered { self.flush() } else { Ok(()) }
    }

    /// Makes the capture pcapng, whatever its interfaces, so that several outputs have the
    /// same format.
    ///
    /// # Errors
    /// If pcap was requested, or part of it was already written to a pipe or device.
    pub fn require_pcapng(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Error> {
        if self.format == Format::Pcap {
            self.turn("what the other outputs hold")?;
        }
        self.adopt(interfaces)
    }

    /// Passes all buffered data to the system.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.sink.flush().map_err(|source| self.write_failed(source))
    }

    /// Performs the steps that may fail for lack of space before the capture gets its name,
    /// so that of several captures either all get their names or none.
    ///
    /// # Errors
    /// If the file cannot be written, or another cannot be created beside it.
    pub fn prepare(&mut self) -> Result<(), Error> {
        let path = self.path();
        let prepared = self.describe(usize::MAX);
        let prepared = prepared.and_then(|()| self.sink.prepare(&path));
        prepared.map_err(|source| self.write_failed(source))
    }

    /// Completes the capture under its name.
    ///
    /// # Errors
    /// If the file cannot be written or named.
    pub fn finish(mut self) -> Result<Summary, Error> {
        let (path, format) = (self.path(), self.format);
        let failed = |source| Error::Write { file: shown(&path), source };
        self.describe(usize::MAX).map_err(failed)?;
        let file_len = self.sink.len();
        let Tally { packets, bytes } = self.sink.finish(&path).map_err(failed)?.tally;
        Ok(Summary { packets, bytes, file_len, path, format })
    }

    /// The error of a failed write. Buffers the header again if the file has none.
    fn write_failed(&mut self, source: io::Error) -> Error {
        let error = Error::Write { file: shown(&self.path()), source };
        if self.sink.len() == 0 {
            // These fitted before.
            let _ = self.start(&Arc::clone(&self.interfaces));
        }
        error
    }

    fn does_not_fit(&self, what: String) -> Error {
        Error::DoesNotFit { file: shown(&self.path()), what }
    }

    /// Buffers the start of a file. Writes nothing out: a failed write leads here.
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

    /// Applies the interfaces of a batch: the known ones, and possibly more.
    fn adopt(&mut self, interfaces: &Arc<Vec<Interface>>) -> Result<(), Error> {
        if Arc::ptr_eq(&self.interfaces, interfaces) {
            return Ok(());
        }
        let known = self.interfaces.len();
        if interfaces.get(..known) != Some(&self.interfaces[..]) {
            // A caller with fewer of the same interfaces has an older list.
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
                pcapng::interface_block(interface, self.options.snap_len)
                    .map_err(|misfit| self.does_not_fit(misfit.text(interface)))?;
            }
        }
        self.interfaces = Arc::clone(interfaces);
        Ok(())
    }

    /// Interfaces that the file or the buffer describes.
    fn described(&self) -> usize {
        self.sink.written().interfaces + self.sink.pending().interfaces
    }

    /// Writes the descriptions of the first `count` interfaces that are not there yet.
    ///
    /// Only the first one is written before it has packets: libpcap reads up to the description of
    /// an interface whose link type is another than the first one's.
    fn describe(&mut self, count: usize) -> io::Result<()> {
        let count = if self.format == Format::Pcap { 0 } else { count };
        for interface in self.interfaces.iter().take(count).skip(self.described()) {
            // They fitted when they came.
            let block = pcapng::interface_block(interface, self.options.snap_len)
                .map_err(|misfit| io::Error::other(misfit.text(interface)))?;
            self.sink.put(&block, Content::INTERFACE)?;
        }
        Ok(())
    }

    /// Converts the pcap written so far to pcapng, because of `cause`.
    fn turn(&mut self, cause: &str) -> Result<(), Error> {
        if !self.may_turn {
            return Err(self.does_not_fit(format!("{cause}, in the pcap format")));
        }
        // Our own records, which may be as long as the input's.
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
        self.describe(1).map_err(|source| self.write_failed(source))?;
        while let Some(batch) = written.receive()? {
            self.write_blocks(&batch, &batch.live(), &LiveMask::EMPTY)
                .map_err(|source| self.write_failed(source))?;
        }
        Ok(())
    }

    /// Whether pcap records can represent the times of these packets.
    fn times_fit(&self, batch: &Batch, which: &LiveMask) -> bool {
        let per_second = self.interfaces.first().and_then(|i| pcap::ticks_per_second(i.clock));
        let last = pcap::MAX_SECONDS * per_second.unwrap_or(0) + u64::from(u32::MAX);
        which.iter().filter(|&i| batch.live().contains(i)).all(|i| batch.ticks(i) <= last)
    }

    fn cut(&self, cap_len: u32) -> u32 {
        cap_len.min(self.options.snap_len.unwrap_or(u32::MAX))
    }

    /// Writes records as they lie in the batch's region, consecutive ones together.
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
    fn write_blocks(
        &mut self,
        batch: &Batch,
        which: &LiveMask,
        marked: &LiveMask,
    ) -> io::Result<()> {
        let live = batch.live();
        for i in which.iter().filter(|&i| live.contains(i)) {
            let (cap_len, interface) = (self.cut(batch.cap_len(i)), batch.interface_id(i));
            if usize::from(interface) >= self.described() {
                self.describe(usize::from(interface) + 1)?;
            }
            pcapng::packet_block(
                self.sink.buffer(),
                (interface, batch.ticks(i)),
                (&batch.packet(i)[..cap_len as usize], batch.wire_len(i)),
                if marked.contains(i) { MARK } else { "" },
            );
            self.sink.added(Content::packet(cap_len))?;
        }
        Ok(())
    }
}

fn shown(path: &Path) -> String {
    if path.as_os_str() == "-" { "standard output".to_owned() } else { path.display().to_string() }
}
