//! What counts as written of captures that follow one another is what a reader gets.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Packet, batch_of};
use forebay_io::{
    CaptureTx, Format, Naming, OnFull, Placement, ReadOptions, Reader, Series, SeriesOptions, Tx,
    WriteOptions,
};
use forebay_packet::{Batch, Interface, Rewrites};

fn series(name: &Path, placement: Placement) -> Series {
    let options = SeriesOptions {
        name: name.to_owned(),
        format: Format::Auto,
        write: WriteOptions { placement, ..WriteOptions::default() },
        max_len: None,
        max_age: None,
        naming: Naming::Tcpdump { files: None },
        spared: None,
    };
    Series::new(options).unwrap()
}

fn batch(packets: usize, len: usize) -> Batch {
    let packet = Packet { bytes: vec![7; len], wire_len: len as u32, ticks: 1, interface: 0 };
    batch_of(&vec![packet; packets], &Arc::new(vec![Interface::default()]))
}

#[test]
fn a_capture_that_cannot_be_named_counts_only_where_it_was_in_sight() {
    for (placement, kept) in [(Placement::Hidden, 0), (Placement::Growing, 5)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let mut series = series(&path, placement);
        let batch = batch(5, 60);
        series.write(&batch, &batch.live()).unwrap();
        fs::create_dir(&path).unwrap();
        series.close().unwrap_err();
        let sums = (series.written().packets, series.kept().packets, series.held());
        assert_eq!(sums, (kept, kept, 0), "{placement:?}");
        assert_eq!(folder.path().join("out.pcap.partial").exists(), kept > 0);
    }
}

#[test]
fn what_a_stream_has_is_kept_if_the_series_is_given_up() {
    let batch = batch(100, 60_000);
    let mut stream = series(Path::new("/dev/null"), Placement::Hidden);
    stream.write(&batch, &batch.live()).unwrap();
    stream.flush().unwrap();
    assert_eq!((stream.kept().packets, stream.kept().bytes), (100, 6_000_000));
    let folder = tempfile::tempdir().unwrap();
    let mut hidden = series(&folder.path().join("out.pcap"), Placement::Hidden);
    hidden.write(&batch, &batch.live()).unwrap();
    hidden.flush().unwrap();
    assert_eq!((hidden.written().packets, hidden.kept().packets), (100, 0));
}

/// A recorder that begins a file every minute, by a clock of its own.
struct ByTime {
    folder: tempfile::TempDir,
    clock: Arc<AtomicU64>,
    tx: CaptureTx,
}

impl ByTime {
    /// 2026-11-23 09:45:00 in UTC.
    const START: u64 = 1_795_427_100;

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(Self::START));
        let series = Series::new(SeriesOptions {
            name: folder.path().join("all.pcapng"),
            format: Format::Pcapng,
            write: WriteOptions { placement: Placement::GrowingBeneath, ..WriteOptions::default() },
            max_len: None,
            max_age: Some(60),
            naming: Naming::Numbered { keep: None },
            spared: None,
        });
        let seconds = Arc::clone(&clock);
        let series = series.unwrap().with_clock(move || seconds.load(Ordering::Relaxed));
        let tell = |what: String| panic!("nothing is to be told: {what}");
        let mut tx = CaptureTx::new(series, OnFull::Stop, Box::new(tell));
        tx.begin().unwrap();
        Self { folder, clock, tx }
    }

    /// So many seconds after the start a packet comes, and is written out.
    fn packet_at(&mut self, seconds: u64) {
        self.clock.store(Self::START + seconds, Ordering::Relaxed);
        let batch = batch(1, 60);
        self.tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
        self.tx.flush().unwrap();
    }

    /// So many seconds after the start none comes.
    fn nothing_at(&mut self, seconds: u64) {
        self.clock.store(Self::START + seconds, Ordering::Relaxed);
        self.tx.flush().unwrap();
    }

    /// The files and how many packets each has.
    fn files(&self) -> Vec<(String, usize)> {
        let file = |entry: std::io::Result<fs::DirEntry>| {
            let entry = entry.unwrap();
            let mut reader = Reader::open(&entry.path(), &ReadOptions::default()).unwrap();
            let mut packets = 0;
            while let Some(batch) = reader.receive().unwrap() {
                packets += batch.live().count();
            }
            (entry.file_name().into_string().unwrap(), packets)
        };
        let mut files: Vec<_> = fs::read_dir(self.folder.path()).unwrap().map(file).collect();
        files.sort();
        files
    }

    #[track_caller]
    fn has(&self, expected: &[(&str, usize)]) {
        let expected: Vec<_> =
            expected.iter().map(|(name, packets)| (format!("all_{name}"), *packets)).collect();
        assert_eq!(self.files(), expected);
    }
}

#[test]
fn the_next_file_begins_with_the_first_packet_after_its_time() {
    let mut recorder = ByTime::new();
    [0, 1, 59].into_iter().for_each(|seconds| recorder.packet_at(seconds));
    recorder.has(&[("00001_20261123094500.pcapng.partial", 3)]);
    recorder.packet_at(60);
    let first = ("00001_20261123094500.pcapng", 3);
    recorder.has(&[first, ("00002_20261123094600.pcapng.partial", 1)]);
    // Its minute is counted from its own beginning.
    [61, 119, 125].into_iter().for_each(|seconds| recorder.packet_at(seconds));
    let second = ("00002_20261123094600.pcapng", 3);
    recorder.has(&[first, second, ("00003_20261123094705.pcapng.partial", 1)]);
}

#[test]
fn a_file_ends_at_its_time_also_if_no_more_packets_come() {
    let mut recorder = ByTime::new();
    // None came at all: it is there for those who look for it.
    recorder.nothing_at(100);
    recorder.has(&[("00001_20261123094500.pcapng.partial", 0)]);
    let mut recorder = ByTime::new();
    recorder.packet_at(10);
    recorder.nothing_at(59);
    recorder.has(&[("00001_20261123094500.pcapng.partial", 1)]);
    recorder.nothing_at(60);
    let first = ("00001_20261123094500.pcapng", 1);
    recorder.has(&[first]);
    recorder.nothing_at(600);
    recorder.packet_at(605);
    recorder.has(&[first, ("00002_20261123095505.pcapng.partial", 1)]);
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_a_file_from_its_end() {
    let mut recorder = ByTime::new();
    recorder.packet_at(30);
    recorder.clock.store(ByTime::START - 3_600, Ordering::Relaxed);
    recorder.tx.flush().unwrap();
    let at = |seconds: u64| ByTime::START - 3_600 + seconds;
    for seconds in [59, 60] {
        recorder.clock.store(at(seconds), Ordering::Relaxed);
        recorder.tx.flush().unwrap();
        assert_eq!(recorder.files()[0].0.ends_with(".partial"), seconds == 59, "{seconds}");
    }
}
