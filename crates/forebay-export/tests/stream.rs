//! Streams of records: what a reader gets, and what becomes of records without one.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use forebay_export::{LineFormat, Origin, RecordStream, Row, StreamTarget};
use forebay_flow::FlowRecord;
use forebay_packet::FlowKey;
use forebay_packet::flow::AddressKind;
use rustix::fs::{CWD, FileType, Mode, OFlags};

fn record(number: u64) -> FlowRecord {
    let key = FlowKey { low: number.into(), kind: AddressKind::Ipv4, ..FlowKey::default() };
    FlowRecord::new(key, false, 7)
}

fn write(stream: &mut RecordStream, number: u64) -> std::io::Result<()> {
    let origin = Origin { group: "ids", sensor: None };
    stream.write(&Row::new(&record(number), 0, Some(origin)))
}

/// The addresses `a` of JSON lines as numbers.
fn numbers(lines: &str) -> Vec<u64> {
    let number = |line: &str| {
        let flow: serde_json::Value = serde_json::from_str(line).unwrap();
        let address: std::net::Ipv4Addr = flow["a_address"].as_str().unwrap().parse().unwrap();
        u64::from(address.to_bits())
    };
    lines.lines().map(number).collect()
}

fn never() -> Box<dyn FnMut() -> bool + Send> {
    Box::new(|| panic!("the reader takes everything"))
}

/// Opens a FIFO for reading without waiting for a writer.
fn reader(path: &Path) -> File {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    File::from(rustix::fs::openat(CWD, path, flags, Mode::empty()).unwrap())
}

#[test]
fn each_reader_of_a_fifo_gets_a_heading_and_the_records_of_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0).unwrap();
    let mut stream = RecordStream::new(StreamTarget::Fifo(path.clone()), LineFormat::Csv, never());
    let error = stream.open().unwrap_err();
    assert!(RecordStream::is_without_reader(&error), "{error}");
    assert!(write(&mut stream, 1).is_err());
    for connection in 1..3 {
        let mut file = reader(&path);
        for number in 0..10 {
            write(&mut stream, number).unwrap();
        }
        assert_eq!((stream.written(), stream.held()), (10 * (connection - 1), 10));
        stream.flush().unwrap();
        assert_eq!((stream.written(), stream.held()), (10 * connection, 0));
        let mut text = vec![0; 1 << 16];
        let len = file.read(&mut text).unwrap();
        let text = std::str::from_utf8(&text[..len]).unwrap();
        assert!(text.starts_with("community_id,") && text.ends_with('\n'), "{text}");
        assert_eq!(text.lines().count(), 11);
        // The reader goes, which is noticed although no record comes.
        drop(file);
        assert_eq!(stream.flush().unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert!(write(&mut stream, 1).is_err());
        assert_eq!((stream.connections(), stream.held()), (connection, 0));
    }
}

#[test]
fn a_file_is_no_fifo_and_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records");
    std::fs::write(&path, "mine").unwrap();
    for (target, kind) in [
        (StreamTarget::Fifo(path.clone()), ErrorKind::InvalidInput),
        (StreamTarget::Socket(path.clone()), ErrorKind::ConnectionRefused),
    ] {
        let mut stream = RecordStream::new(target, LineFormat::Csv, never());
        assert_eq!(stream.open().unwrap_err().kind(), kind);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

/// A socket, and a stream to it that gives up after waiting so many times.
fn socket(folder: &Path, most: u32) -> (UnixListener, RecordStream, Arc<AtomicU32>) {
    let path = folder.join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let waits = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&waits);
    let waiting = Box::new(move || counted.fetch_add(1, Ordering::Relaxed) >= most);
    let target = StreamTarget::Socket(path);
    (listener, RecordStream::new(target, LineFormat::JsonLines, waiting), waits)
}

#[test]
fn a_slow_reader_gets_all_records() {
    const RECORDS: u64 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let (listener, mut stream, waits) = socket(folder.path(), u32::MAX);
    let reading = thread::spawn(move || {
        let (mut reader, _): (UnixStream, _) = listener.accept().unwrap();
        // It begins to read when the stream has waited for it.
        while waits.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    for number in 0..RECORDS {
        write(&mut stream, number).unwrap();
    }
    stream.flush().unwrap();
    assert_eq!((stream.written(), stream.held()), (RECORDS, 0));
    drop(stream);
    let text = reading.join().unwrap();
    assert!(numbers(&text).into_iter().eq(0..RECORDS));
}

#[test]
fn of_a_reader_that_takes_nothing_the_written_records_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (listener, mut stream, _) = socket(folder.path(), 1);
    let mut given = 0;
    let error = loop {
        match write(&mut stream, given) {
            Ok(()) => given += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(!stream.is_open() && stream.held() == 0);
    let written = stream.written();
    assert!(written > 0 && written <= given, "{written} of {given}");
    let mut text = String::new();
    listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
    // Behind them there may be a part of another.
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    assert!(numbers(whole).into_iter().eq(0..written));
}
