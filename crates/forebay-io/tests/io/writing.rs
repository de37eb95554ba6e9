//! What is written reads back the same; a file has its name only when whole;
//! pcap becomes pcapng when it must.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::common::{
    Packet, batch_of, blocks, drain, interface, packet, packets_of, read_all, reader, section,
    small_pcap,
};
use forebay_io::{
    Error, Format, OutputName, Placement, ReadOptions, Reader, WriteOptions, Writer, fits_pcap,
};
use forebay_packet::{Batch, Clock, Interface, LinkType, LiveMask, Resolution};
use proptest::prelude::*;

fn start(path: &Path, format: Format, interfaces: &Arc<Vec<Interface>>) -> Writer {
    let name = OutputName::Exact(path.to_owned());
    Writer::create(name, format, interfaces, &WriteOptions::default()).unwrap()
}

fn one(link: u32, clock: Clock) -> Arc<Vec<Interface>> {
    Arc::new(vec![Interface { link: LinkType(link), clock, ..Interface::default() }])
}

fn sample(n: u64, interface: u16) -> Vec<Packet> {
    let packet = |i: u64| Packet {
        bytes: vec![i as u8; (i * 31 % 90) as usize],
        wire_len: 100,
        ticks: i << 20,
        interface,
    };
    (0..n).map(packet).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().into_owned()
    };
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.sort();
    names
}

fn clock() -> impl Strategy<Value = Clock> {
    let resolution = prop_oneof![
        Just(Resolution::Decimal(6)),
        Just(Resolution::Decimal(9)),
        (0..128_u8).prop_map(Resolution::Decimal),
        (0..128_u8).prop_map(Resolution::Binary),
    ];
    let offset_seconds = prop_oneof![Just(0), any::<i64>()];
    (resolution, offset_seconds)
        .prop_map(|(resolution, offset_seconds)| Clock { resolution, offset_seconds })
}

prop_compose! {
    fn any_interface()(
        link in prop_oneof![Just(1), 0..0x1_0000_u32],
        snap_len in any::<u32>(),
        clock in clock(),
        name in proptest::option::of("[^\0]{0,9}"),
        description in proptest::option::of("[^\0]{0,40}"),
    ) -> Interface {
        Interface { link: LinkType(link), snap_len, clock, name, description, ..Interface::default() }
    }
}

prop_compose! {
    fn any_packet(interfaces: usize)(
        bytes in prop_oneof![
            9 => proptest::collection::vec(any::<u8>(), 0..200),
            1 => proptest::collection::vec(any::<u8>(), 0..9000),
        ],
        wire_len in any::<u32>(),
        ticks in any::<u64>(),
        interface in 0..interfaces as u16,
    ) -> Packet {
        Packet { bytes, wire_len, ticks, interface }
    }
}

fn any_capture() -> impl Strategy<Value = (Vec<Interface>, Vec<Packet>)> {
    proptest::collection::vec(any_interface(), 1..4).prop_flat_map(|interfaces| {
        let packets = proptest::collection::vec(any_packet(interfaces.len()), 0..80);
        (Just(interfaces), packets)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn pcapng_reads_back_as_it_was_written(
        (interfaces, packets) in any_capture(),
        block_len in prop_oneof![Just(64_usize), 64..5000_usize, Just(1 << 20)],
        dropped in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("capture");
        let interfaces = Arc::new(interfaces);
        let mut writer = start(&path, Format::Pcapng, &interfaces);
        let mut batch = batch_of(&packets, &interfaces);
        let all = batch.live();
        let alive = |i: &usize| dropped >> (i % 64) & 1 == 0;
        (0..packets.len()).filter(|i| !alive(i)).for_each(|i| batch.drop_packet(i));
        writer.write(&batch, &all).unwrap();
        let summary = writer.finish().unwrap();
        prop_assert_eq!(summary.file_len, fs::metadata(&path).unwrap().len());
        let reader = Reader::open(&path, &blocks(block_len)).unwrap();
        let (read, described, error) = drain(reader);
        prop_assert!(error.is_none());
        let kept: Vec<Packet> =
            (0..packets.len()).filter(alive).map(|i| packets[i].clone()).collect();
        prop_assert_eq!(summary.packets, kept.len() as u64);
        prop_assert_eq!(summary.bytes, kept.iter().map(|p| p.bytes.len() as u64).sum::<u64>());
        prop_assert_eq!(read, kept);
        prop_assert_eq!(described, interfaces);
    }

    #[test]
    fn pcap_reads_back_as_it_was_written(
        packets in proptest::collection::vec(any_packet(1), 0..80),
        link in 0..=0x03ff_ffff_u32,
        nanos in any::<bool>(),
        block_len in prop_oneof![Just(64_usize), 64..5000_usize, Just(1 << 20)],
    ) {
        let (clock, second) =
            if nanos { (Clock::NANOS, 1_000_000_000) } else { (Clock::MICROS, 1_000_000) };
        let end = second << 32;
        let cut = |packet: Packet| Packet { ticks: packet.ticks % end, ..packet };
        let packets: Vec<Packet> = packets.into_iter().map(cut).collect();
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        let interfaces = one(link, clock);
        let mut writer = start(&first, Format::Pcap, &interfaces);
        let batch = batch_of(&packets, &interfaces);
        writer.write(&batch, &batch.live()).unwrap();
        writer.finish().unwrap();
        let mut reader = Reader::open(&first, &blocks(block_len)).unwrap();
        prop_assert_eq!(reader.interfaces(), &interfaces);
        // Read as records and written as they lie, it is the same file.
        let mut writer = start(&second, Format::Auto, reader.interfaces());
        let mut read = Vec::new();
        while let Some(batch) = reader.receive().unwrap() {
            read.extend(packets_of(&batch));
            writer.write(&batch, &batch.live()).unwrap();
        }
        prop_assert_eq!(writer.finish().unwrap().format, Format::Pcap);
        prop_assert_eq!(read, packets);
        prop_assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    }
}

/// Copies what `keep` chooses, and says what should be in the copy.
fn copy_some(
    bytes: &[u8],
    path: &Path,
    options: &WriteOptions,
    keep: impl Fn(usize) -> bool,
) -> Vec<Packet> {
    let mut reader = reader(bytes, &blocks(4096)).unwrap();
    let name = OutputName::Exact(path.to_owned());
    let mut writer = Writer::create(name, Format::Auto, reader.interfaces(), options).unwrap();
    let (mut kept, mut seen) = (Vec::new(), 0);
    while let Some(batch) = reader.receive().unwrap() {
        let mut which = LiveMask::default();
        (0..batch.len()).filter(|i| keep(seen + i)).for_each(|i| which.insert(i));
        kept.extend(which.iter().map(|i| packets_of(&batch)[i].clone()));
        writer.write(&batch, &which).unwrap();
        seen += batch.len();
    }
    writer.finish().unwrap();
    kept
}

#[test]
fn runs_with_gaps_and_cuts_are_written_right() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.pcap");
    let mut pcap = small_pcap(3000);
    // A fraction of more than a second is kept as it is stored.
    pcap[28..32].copy_from_slice(&4_000_000_000_u32.to_le_bytes());
    for keep in [|_| true, |i| i % 7 != 3, |i| i % 50 == 0, |_| false] as [fn(usize) -> bool; 4] {
        let kept = copy_some(&pcap, &path, &WriteOptions::default(), keep);
        let written = fs::read(&path).unwrap();
        assert_eq!(read_all(&written, &ReadOptions::default()).0, kept);
        assert!(kept.is_empty() || written[24..32] == pcap[24..32]);
        let options = WriteOptions {
            snap_len: Some(40),
            packet_buffered: true,
            placement: Placement::Growing,
            ..WriteOptions::default()
        };
        let kept = copy_some(&pcap, &path, &options, keep);
        let reader = Reader::open(&path, &ReadOptions::default()).unwrap();
        assert_eq!(reader.interfaces()[0].snap_len, 40);
        let cut = |mut packet: Packet| {
            packet.bytes.truncate(40);
            packet
        };
        assert_eq!(drain(reader).0, kept.into_iter().map(cut).collect::<Vec<_>>());
    }
}

/// The length of a frame check sequence, whether there is one, and reserved bits.
#[test]
fn the_bits_above_the_link_type_of_pcap_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    for bits in [0, 0x2400_0000, 0x4400_0000, 0xfc00_0000_u32] {
        let mut bytes = small_pcap(9);
        bytes[20..24].copy_from_slice(&(bits | 1).to_le_bytes());
        let path = folder.path().join("fcs.pcap");
        fs::write(&path, &bytes).unwrap();
        let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
        let interfaces = Arc::clone(reader.interfaces());
        assert_eq!((interfaces[0].link, interfaces[0].link_flags), (LinkType::ETHERNET, bits));
        let copy = folder.path().join("copy.pcap");
        let mut writer = start(&copy, Format::Pcap, &interfaces);
        while let Some(batch) = reader.receive().unwrap() {
            writer.write(&batch, &batch.live()).unwrap();
        }
        writer.finish().unwrap();
        assert_eq!(fs::read(&copy).unwrap()[20..24], bytes[20..24]);
    }
}

#[test]
fn a_second_interface_turns_pcap_into_pcapng() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("sensor-0");
    let interfaces = one(1, Clock::NANOS);
    let mut more = Vec::clone(&interfaces);
    more.push(Interface { link: LinkType::RAW, snap_len: 0, ..Interface::default() });
    let more = Arc::new(more);
    // Few packets are still in the buffer when it turns, many are not.
    for n in [0, 100, 50_000] {
        let (before, after) = (sample(n, 0), sample(100, 1));
        let name = OutputName::Stem(stem.clone());
        let mut writer =
            Writer::create(name, Format::Auto, &interfaces, &WriteOptions::default()).unwrap();
        assert_eq!(writer.format(), Format::Pcap);
        for packets in before.chunks(256) {
            let batch = batch_of(packets, &interfaces);
            writer.write(&batch, &batch.live()).unwrap();
        }
        let batch = batch_of(&after, &more);
        writer.write(&batch, &batch.live()).unwrap();
        let summary = writer.finish().unwrap();
        assert_eq!(summary.path, stem.with_extension("pcapng"));
        assert_eq!((summary.packets, summary.format), (n + 100, Format::Pcapng));
        assert_eq!(names_in(folder.path()), ["sensor-0.pcapng"]);
        let reader = Reader::open(&summary.path, &ReadOptions::default()).unwrap();
        let (read, described, error) = drain(reader);
        assert!(error.is_none());
        assert_eq!(described, more);
        assert!(read == [before, after].concat());
        assert_eq!(summary.bytes, read.iter().map(|p| p.bytes.len() as u64).sum::<u64>());
    }
}

#[test]
fn a_long_packet_turns_into_pcapng_with_its_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long");
    // D-Bus, whose messages have up to 128 MiB.
    let interfaces = one(231, Clock::MICROS);
    let len = forebay_io::DEFAULT_LONGEST_RECORD as u32 + 1_000;
    let long = Packet { bytes: vec![7; len as usize], wire_len: len, ticks: 1, interface: 0 };
    let batch = batch_of(std::slice::from_ref(&long), &interfaces);
    let mut writer = start(&path, Format::Auto, &interfaces);
    writer.write(&batch, &batch.live()).unwrap();
    let mut more = Vec::clone(&interfaces);
    more.push(more[0].clone());
    writer.require_pcapng(&Arc::new(more)).unwrap();
    assert_eq!(writer.finish().unwrap().packets, 1);
    let options = ReadOptions { longest_record: u64::MAX, ..ReadOptions::default() };
    assert!(drain(Reader::open(&path, &options).unwrap()).0 == [long]);
}

#[test]
fn outputs_can_be_made_to_agree_on_pcapng() {
    let folder = tempfile::tempdir().unwrap();
    let stem = folder.path().join("sensor-1");
    let interfaces = one(1, Clock::MICROS);
    let mut more = Vec::clone(&interfaces);
    more.push(Interface::default());
    let name = OutputName::Stem(stem.clone());
    let mut writer =
        Writer::create(name, Format::Auto, &interfaces, &WriteOptions::default()).unwrap();
    writer.require_pcapng(&Arc::new(more)).unwrap();
    // A batch from before the second interface was known.
    let batch = batch_of(&sample(3, 0), &interfaces);
    writer.write(&batch, &batch.live()).unwrap();
    assert_eq!(writer.path(), stem.with_extension("pcapng"));
    let summary = writer.finish().unwrap();
    let (read, described, _) = drain(Reader::open(&summary.path, &ReadOptions::default()).unwrap());
    assert_eq!((read.len(), described.len()), (3, 2));
}

#[test]
fn a_time_past_2106_turns_pcap_into_pcapng() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late");
    let interfaces = one(1, Clock::MICROS);
    let late = Packet { ticks: 1_000_000 << 33, ..sample(1, 0)[0].clone() };
    let batch = batch_of(std::slice::from_ref(&late), &interfaces);
    let mut writer = start(&path, Format::Auto, &interfaces);
    writer.write(&batch, &batch.live()).unwrap();
    writer.finish().unwrap();
    assert_eq!(drain(Reader::open(&path, &ReadOptions::default()).unwrap()).0, [late]);
    let mut writer = start(&path, Format::Pcap, &interfaces);
    let error = writer.write(&batch, &batch.live()).unwrap_err();
    assert!(error.to_string().contains("after the year 2106, in the pcap format"), "{error}");
}

#[test]
fn what_fits_no_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let create = |format, interfaces: &Arc<Vec<Interface>>| {
        let name = OutputName::Exact(folder.path().join("none"));
        let error = Writer::create(name, format, interfaces, &WriteOptions::default()).err();
        error.expect("an error").to_string()
    };
    let pico = Clock { resolution: Resolution::Decimal(12), offset_seconds: 0 };
    let offset = Clock { offset_seconds: 1, ..Clock::MICROS };
    for clock in [pico, offset] {
        assert!(!fits_pcap(&one(1, clock)));
        assert!(create(Format::Pcap, &one(1, clock)).contains("a clock other than"));
    }
    assert!(create(Format::Pcap, &Arc::default()).contains("0 interfaces"));
    assert!(create(Format::Pcapng, &one(1 << 16, pico)).contains("link type 65536"));
    assert!(names_in(folder.path()).is_empty());
    let mut writer = start(&folder.path().join("none"), Format::Auto, &one(1, Clock::MICROS));
    let other = batch_of(&sample(1, 0), &one(101, Clock::MICROS));
    let error = writer.write(&other, &other.live()).unwrap_err();
    assert!(error.to_string().contains("interfaces contradict"), "{error}");
}

#[test]
fn an_empty_capture_is_a_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty");
    for (interfaces, format) in
        [(one(1, Clock::NANOS), Format::Pcap), (Arc::default(), Format::Pcapng)]
    {
        let summary = start(&path, Format::Auto, &interfaces).finish().unwrap();
        assert_eq!((summary.packets, summary.format), (0, format));
        let reader = Reader::open(&path, &ReadOptions::default()).unwrap();
        let (packets, described, error) = drain(reader);
        assert!(packets.is_empty() && error.is_none() && described == interfaces);
    }
}

fn long_batch(interfaces: &Arc<Vec<Interface>>) -> Batch {
    let packet = Packet { bytes: vec![7; 60_000], wire_len: 60_000, ticks: 1, interface: 0 };
    batch_of(&vec![packet; 100], interfaces)
}

#[test]
fn a_name_is_taken_only_by_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole.pcap");
    fs::write(&path, "what was there").unwrap();
    let interfaces = one(1, Clock::MICROS);
    let batch = long_batch(&interfaces);
    let mut given_up = start(&path, Format::Pcap, &interfaces);
    given_up.write(&batch, &batch.live()).unwrap();
    assert_eq!(names_in(folder.path()), ["whole.pcap"], "it has no name");
    given_up.prepare().unwrap();
    assert_eq!(names_in(folder.path()).len(), 2);
    drop(given_up);
    assert_eq!(names_in(folder.path()), ["whole.pcap"]);
    assert_eq!(fs::read(&path).unwrap(), b"what was there");
    let link = folder.path().join("link.pcap");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut writer = start(&link, Format::Pcap, &interfaces);
    writer.write(&batch, &batch.live()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"what was there");
    writer.finish().unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "its target was replaced");
    assert_eq!(names_in(folder.path()), ["link.pcap", "whole.pcap"]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 24 + 100 * 60_016);
}

#[test]
fn a_capture_that_grows_in_sight_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.pcap");
    let interfaces = one(1, Clock::MICROS);
    let placement = Placement::Growing;
    let options = WriteOptions { placement, packet_buffered: true, ..WriteOptions::default() };
    let name = OutputName::Exact(path.clone());
    let mut writer = Writer::create(name, Format::Auto, &interfaces, &options).unwrap();
    let batch = batch_of(&sample(5, 0), &interfaces);
    writer.write(&batch, &batch.live()).unwrap();
    assert_eq!(names_in(folder.path()), ["live.pcap.partial"]);
    let partial = folder.path().join("live.pcap.partial");
    assert_eq!(writer.file_len(), fs::metadata(&partial).unwrap().len());
    assert_eq!(drain(Reader::open(&partial, &ReadOptions::default()).unwrap()).0, sample(5, 0));
    let mut more = Vec::clone(&interfaces);
    more.push(Interface::default());
    let error = writer.require_pcapng(&Arc::new(more)).unwrap_err();
    assert!(matches!(error, Error::DoesNotFit { .. }), "{error}");
    assert_eq!(writer.packets(), 5);
    writer.finish().unwrap();
    assert_eq!(names_in(folder.path()), ["live.pcap"]);
}

#[test]
fn a_link_leads_a_capture_that_grows_to_its_target() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("there")).unwrap();
    let target = folder.path().join("there/target.pcap");
    let link = folder.path().join("link.pcap");
    fs::write(&target, "what was there").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let interfaces = one(1, Clock::MICROS);
    let options = WriteOptions { placement: Placement::Growing, ..WriteOptions::default() };
    let begin = || {
        let name = OutputName::Exact(link.clone());
        let mut writer = Writer::create(name, Format::Auto, &interfaces, &options).unwrap();
        let batch = batch_of(&sample(5, 0), &interfaces);
        writer.write(&batch, &batch.live()).unwrap();
        writer
    };
    let writer = begin();
    let there = folder.path().join("there");
    assert_eq!(names_in(&there), ["target.pcap", "target.pcap.partial"]);
    writer.finish().unwrap();
    assert_eq!(names_in(&there), ["target.pcap"]);
    assert_eq!(names_in(folder.path()), ["link.pcap", "there"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(drain(Reader::open(&target, &ReadOptions::default()).unwrap()).0, sample(5, 0));
    drop(begin());
    let left = names_in(&there);
    assert_eq!(left, ["target.pcap", "target.pcap.partial"], "as of a killed process, kept");
}

#[test]
fn a_full_disk_is_named() {
    let interfaces = one(1, Clock::MICROS);
    for n in [1, 100] {
        let mut writer = start(Path::new("/dev/full"), Format::Pcap, &interfaces);
        let batch = long_batch(&interfaces);
        let result = match n {
            1 => writer.finish().map(|_| ()),
            _ => writer.write(&batch, &batch.live()),
        };
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with("cannot write /dev/full: No space left"), "{text}");
    }
}

/// The description of an interface that is so long is written at once, before any packet.
#[test]
fn a_disk_without_room_for_the_first_interface_is_named() {
    let description = Some("x".repeat(40_000));
    let interfaces = Arc::new(vec![Interface { description, ..Interface::default() }]);
    for format in [Format::Pcapng, Format::Auto] {
        let name = OutputName::Exact("/dev/full".into());
        let created = Writer::create(name, format, &interfaces, &WriteOptions::default());
        let result = created.and_then(|mut writer| writer.require_pcapng(&interfaces));
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with("cannot write /dev/full: No space left"), "{text}");
    }
}

#[test]
fn places_that_take_no_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for placement in [Placement::Hidden, Placement::Growing, Placement::GrowingBeneath] {
        let options = WriteOptions { placement, ..WriteOptions::default() };
        let absent = folder.path().join("absent/x.pcap");
        for path in [absent, file.join("x.pcap"), folder.path().to_owned()] {
            let interfaces = one(1, Clock::MICROS);
            let name = OutputName::Exact(path.clone());
            let error = Writer::create(name, Format::Auto, &interfaces, &options).err();
            let text = error.expect("an error").to_string();
            assert!(text.starts_with(&format!("cannot create {}: ", path.display())), "{text}");
        }
    }
    assert_eq!(names_in(folder.path()), ["file"]);
}

/// The packets that tcpdump reads of a capture before its end or an error.
fn tcpdump_reads(bytes: &[u8], folder: &Path) -> Vec<String> {
    let path = folder.join("read.pcapng");
    fs::write(&path, bytes).unwrap();
    let output = Command::new("tcpdump").args(["-ttnnxr"]).arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn readers_that_refuse_another_link_type_read_as_much_as_of_the_input() {
    let has_tcpdump = Command::new("tcpdump").arg("--version").output().is_ok();
    let folder = tempfile::tempdir().unwrap();
    let numbered = |id: u32, n: u8| packet(id, n.into(), &[n; 60], 60, false);
    let [ethernet, raw] = [1, 101].map(|link| interface(link, 0, &[], false));
    let named = interface(1, 0, &[(2, b"third")], false);
    // Described when it is needed, at the start, and never needed; packets of the first link type
    // that come behind and before.
    let late = [
        &section(false)[..],
        &ethernet,
        &numbered(0, 1),
        &named,
        &numbered(1, 2),
        &numbered(0, 3),
        &raw,
        &numbered(2, 4),
        &numbered(0, 5),
    ];
    let early = [&section(false)[..], &ethernet, &raw, &numbered(0, 1), &numbered(1, 2)];
    let unused = [&section(false)[..], &ethernet, &numbered(0, 1), &raw, &numbered(0, 2)];
    let other_first = [&section(false)[..], &raw, &named, &numbered(1, 1)];
    let cases = [(&late[..], 3), (&early, 1), (&unused, 2), (&other_first, 0)];
    for (input, expected) in cases {
        let input = input.concat();
        let (packets, interfaces, _) = drain(reader(&input, &ReadOptions::default()).unwrap());
        let path = folder.path().join("out.pcapng");
        let mut copied = reader(&input, &ReadOptions::default()).unwrap();
        let mut writer = start(&path, Format::Pcapng, copied.interfaces());
        while let Some(batch) = copied.receive().unwrap() {
            writer.write(&batch, &batch.live()).unwrap();
        }
        writer.prepare().unwrap();
        writer.finish().unwrap();
        let written = fs::read(&path).unwrap();
        let same = drain(reader(&written, &ReadOptions::default()).unwrap());
        assert_eq!((same.0, same.1), (packets, interfaces), "nothing is missing");
        if has_tcpdump {
            let [of_input, of_output] =
                [&input, &written].map(|bytes| tcpdump_reads(bytes, folder.path()));
            assert!(of_output.starts_with(&of_input), "{of_output:?} {of_input:?}");
            let packets = of_output.iter().filter(|line| !line.starts_with('\t')).count();
            assert_eq!(packets, expected, "{of_output:?}");
        }
    }
    if !has_tcpdump {
        eprintln!("skipped: tcpdump is not installed");
    }
}
