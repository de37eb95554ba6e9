//! What counts as written of captures that follow one another is what a reader gets.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{Packet, batch_of};
use forebay_io::{Format, Naming, Placement, Series, SeriesOptions, WriteOptions};
use forebay_packet::{Batch, Interface};

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
