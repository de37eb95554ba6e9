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

mod sink;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_packet::{Batch, Interface, Layout, LiveMask};

use crate::error::Error;
use crate::pcap::{self, RECORD_HEADER};
use crate::pcapng::{self, InterfaceDoesNotFit};
use crate::reader::{ReadOptions, Reader};
use crate::whole_file::WholeFile;
use sink::Sink;

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
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Cut packets to so many captured bytes.
    pub snap_len: Option<u32>,
    /// Write each batch out at once rather than when a buffer is full.
    pub packet_buffered: bool,
    /// Write under the final name from the start, for captures that are read
    /// while they grow. Such a file cannot turn from pcap into pcapng once a
    /// part of it is written out.
    pub in_place: bool,
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

/// A capture being written. Dropped unfinished, it leaves no file behind,
/// unless it was written in place.
pub struct Writer {
    sink: Sink,
    name: OutputName,
    format: Format,
    /// Whether pcap may become pcapng.
    may_turn: bool,
    interfaces: Arc<Vec<Interface>>,
    options: WriteOptions,
    packets: u64,
    bytes: u64,
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
        let file = WholeFile::create(&path, options.in_place)
            .map_err(|source| Error::Create { file: shown(&path), source })?;
        let mut writer = Self {
            sink: Sink::new(file),
            name,
            format,
            may_turn,
            interfaces: Arc::default(),
            options: options.clone(),
            packets: 0,
            bytes: 0,
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

    /// Packets written so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Writes the packets of `batch` that are live and in `which`, in order.
    ///
    /// # Errors
    /// When the file cannot be written, or the batch's packets do not fit its
    /// format. The capture is then good for nothing but being dropped.
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

    /// Ends the capture: from now on it is there under its name.
    ///
    /// # Errors
    /// When the file cannot be written or named.
    pub fn finish(self) -> Result<Summary, Error> {
        let path = self.path();
        let summary = Summary {
            packets: self.packets,
            bytes: self.bytes,
            file_len: self.sink.len(),
            path: path.clone(),
            format: self.format,
        };
        let failed = |source| Error::Write { file: shown(&path), source };
        self.sink.finish(&path).map_err(failed)?;
        Ok(summary)
    }

    fn write_failed(&self, source: io::Error) -> Error {
        Error::Write { file: shown(&self.path()), source }
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
                self.sink.put(&block).map_err(|source| self.write_failed(source))?;
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
        let options = ReadOptions::default();
        let name = shown(&self.path());
        let mut written = if let Some(unwritten) = self.sink.unwritten() {
            let input = Box::new(io::Cursor::new(unwritten.to_vec()));
            Reader::from_read(input, name, &options)?
        } else if let Some(temporary) = self.sink.temporary().map(Path::to_owned) {
            self.flush()?;
            Reader::open(&temporary, &options)?
        } else {
            return Err(self.does_not_fit(format!(
                "{cause}: it began as pcap, and what has been written out cannot become pcapng"
            )));
        };
        self.format = Format::Pcapng;
        if self.sink.unwritten().is_some() {
            self.sink.clear();
        } else {
            let path = self.path();
            let file = WholeFile::create(&path, false)
                .map_err(|source| Error::Create { file: shown(&path), source })?;
            self.sink = Sink::new(file);
        }
        let interfaces = Arc::clone(&self.interfaces);
        self.start(&interfaces)?;
        let totals = (self.packets, self.bytes);
        while let Some(batch) = written.receive()? {
            self.write_blocks(&batch, &batch.live()).map_err(|source| self.write_failed(source))?;
        }
        (self.packets, self.bytes) = totals;
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
        let mut run = 0..0;
        for i in which.iter().filter(|&i| live.contains(i)) {
            let cap_len = batch.cap_len(i);
            self.packets += 1;
            self.bytes += u64::from(cap_len.min(longest));
            let packet = batch.offset(i) as usize;
            let record = packet - RECORD_HEADER..packet + cap_len as usize;
            if cap_len <= longest && record.start == run.end {
                run.end = record.end;
                continue;
            }
            if !run.is_empty() {
                self.sink.put(&bytes[run.clone()])?;
            }
            run = record;
            if cap_len > longest {
                let mut header = [0; RECORD_HEADER];
                header.copy_from_slice(&bytes[run.start..packet]);
                header[8..12].copy_from_slice(&longest.to_le_bytes());
                self.sink.buffer().extend_from_slice(&header);
                self.sink.put(&bytes[packet..packet + longest as usize])?;
                run = 0..0;
            }
        }
        self.sink.put(&bytes[run])
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
            self.sink.put(&batch.packet(i)[..cap_len as usize])?;
            self.packets += 1;
            self.bytes += u64::from(cap_len);
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
            self.sink.make_room()?;
            self.packets += 1;
            self.bytes += u64::from(cap_len);
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
