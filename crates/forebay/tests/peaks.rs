//! The most memory that offline verbs take, whatever their input.

mod support {
    pub mod command;
    pub mod peak;
}

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Write};
use std::iter::repeat_n;
use std::path::Path;

use support::command::run;
use support::peak;

/// What every verb may take.
const BASE: u64 = 64 << 20;

/// What `flows` and `split` may take besides for each flow.
const A_FLOW: u64 = 400;

/// A capture of that many flows of one packet each.
fn capture_of_flows(folder: &Path, flows: u64) -> String {
    let name = folder.join("flows.pcap").to_str().unwrap().to_owned();
    let number = flows.to_string();
    let options = ["--profile", "uniform", "--size", "64", "--flows", &number];
    run(["gen", "-q", "-w", &name, "--packets", &number].iter().chain(&options)).exits(0);
    name
}

#[test]
fn a_flow_takes_no_more_than_is_promised_in_every_form() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let folder = tempfile::tempdir().unwrap();
    // Just more than a hash table of 2^18 slots takes: twice as many slots are half empty.
    let flows = 250_000;
    let capture = capture_of_flows(folder.path(), flows);
    for format in ["table", "csv", "json", "jsonl"] {
        let run = peak::of(&["flows", "-q", "-r", &capture, "--format", format]);
        // Little besides: text would not fit into what every verb may take.
        run.exits(0).within(BASE / 4 + A_FLOW * flows);
    }
    // Not so for records that end.
    for format in ["table", "csv", "json", "jsonl"] {
        let few = ["--max-flows", "10000"];
        let run =
            peak::of(&[&["flows", "-q", "-r", &capture, "--format", format], &few[..]].concat());
        run.exits(0).within(BASE / 4 + A_FLOW * 10_000);
    }
    let (out, page) = (folder.path().join("out"), folder.path().join("page.html"));
    let (out, page) = (out.to_str().unwrap(), page.to_str().unwrap());
    let split = ["split", "-q", "-r", &capture, "-n", "4", "-o", out, "--report", page];
    peak::of(&split).exits(0).within(BASE / 4 + A_FLOW * flows);
    let by_load = [&split[..], &["--force", "--balance", "bytes"]].concat();
    peak::of(&by_load).exits(0).within(BASE / 4 + A_FLOW * flows);
    for policy in ["red", "csfq", "drr"] {
        let link = ["flows", "-q", "-r", &capture, "--policy", policy, "--link", "1mbit"];
        peak::of(&link).exits(0).within(BASE / 4 + A_FLOW * flows);
    }
}

#[test]
fn packets_without_addresses_take_no_more_memory_where_loads_are_counted() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_owned();
    let split = ["split", "-q", "-r", "-", "-n", "3", "-o", &out, "--balance", "packets"];
    // More of them, each a unit by itself, than are counted.
    let measured = peak::of_piped(&split, |out| {
        out.write_all(&pcap_header(147))?;
        (0_u32..500_000).try_for_each(|i| out.write_all(&pcap_record(&i.to_be_bytes())))
    });
    measured.exits(0).within(BASE);
}

/// The header of a pcap file of that link type.
fn pcap_header(link: u32) -> Vec<u8> {
    let mut header = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    header.extend([2, 0, 4, 0]);
    header.extend([0; 12]);
    header.extend(link.to_le_bytes());
    header
}

/// A record of a packet.
fn pcap_record(packet: &[u8]) -> Vec<u8> {
    let len = u32::try_from(packet.len()).unwrap().to_le_bytes();
    [&[0; 8], &len[..], &len[..], packet].concat()
}

/// An Ethernet frame of that length: UDP from 192.0.2.1 to 192.0.2.2.
fn frame(len: usize) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(u16::try_from(len - 14).unwrap().to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend([0, 7, 0, 9]);
    frame.resize(len, 0);
    frame
}

/// The offline verbs with their captures on standard input. Files go to `folder`.
fn verbs(folder: &Path) -> Vec<Vec<String>> {
    let rules = folder.join("list.rules");
    fs::write(&rules, "ip filter 1 pass * * udp * 9\n").unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (rules, out, copy) = (path("list.rules"), path("out"), path("copy"));
    [
        &["filter", "-q", "-r", "-", "--count", "greater 1"][..],
        &["filter", "-q", "-r", "-", "-w", &copy],
        &["filter", "-q", "-r", "-", "--verdicts", "--json", "greater 1"],
        &["flows", "-q", "-r", "-"],
        &["split", "-q", "-r", "-", "-n", "3", "-o", &out, "--force"],
        &["rules", "match", &rules, "-q", "-r", "-"],
        &["rules", "match", &rules, "-q", "-r", "-", "--verdicts", "--json"],
    ]
    .into_iter()
    .map(|arguments| arguments.iter().map(ToString::to_string).collect())
    .collect()
}

/// Runs every verb on what `write` puts in, and demands the exit status and the limit.
fn every_verb_on(status: i32, write: impl Fn(&mut dyn Write) -> io::Result<()> + Sync) {
    let folder = tempfile::tempdir().unwrap();
    for arguments in verbs(folder.path()) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        peak::of_piped(&arguments, |pipe| write(pipe)).exits(status).within(BASE);
    }
}

#[test]
fn many_sensors_and_workers_take_no_more_memory() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (capture, out) = (path("in.pcap"), path("out"));
    // 80 MB, some 80 KB for each of the most sensors.
    let traffic = ["--profile", "uniform", "--size", "1000", "--flows", "10000"];
    run(["gen", "-q", "-w", &capture, "--packets", "80000"].iter().chain(&traffic)).exits(0);
    for (sensors, workers) in [("4", "1024"), ("1024", "2"), ("1024", "1024")] {
        let options = ["-n", sensors, "--workers", workers, "--force"];
        let split = [&["split", "-q", "-r", &capture, "-o", &out][..], &options].concat();
        peak::of_threads(&split, 64).exits(0).within(BASE);
    }
}

/// Writes so many bytes of `content`, over and over.
fn repeated(out: &mut dyn Write, content: &[u8], times: usize) -> io::Result<()> {
    repeat_n(content, times).try_for_each(|content| out.write_all(content))
}

#[test]
fn a_pipe_takes_no_more_memory_for_a_longer_capture() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let records = repeat_n(pcap_record(&frame(1000)), 64).flatten().collect::<Vec<u8>>();
    let write = |out: &mut dyn Write| {
        out.write_all(&pcap_header(1))?;
        // 260 MB.
        repeated(out, &records, 4_000)
    };
    every_verb_on(0, write);
    let list = ["filter", "-q", "-r", "-", "--json", "--packets"];
    let listed = peak::of_piped(&list, |pipe| write(pipe));
    listed.exits(0).within(BASE);
}

#[test]
fn a_pipe_that_is_written_record_by_record_takes_no_more_memory() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let record = pcap_record(&frame(100));
    every_verb_on(0, |out| {
        out.write_all(&pcap_header(1))?;
        repeated(out, &record, 60_000)
    });
}

/// A capture of zero bytes: packets without length.
fn zeros() -> impl Read {
    Cursor::new(pcap_header(1)).chain(io::repeat(0).take(200 << 20))
}

#[test]
fn packets_without_length_take_no_more_memory_however_they_are_compressed() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut gzip = flate2::write::GzEncoder::new(
        File::create(path("gzip")).unwrap(),
        flate2::Compression::fast(),
    );
    io::copy(&mut zeros(), &mut gzip).unwrap();
    gzip.finish().unwrap();
    let mut zstd = zstd::Encoder::new(File::create(path("zstd")).unwrap(), 1).unwrap();
    io::copy(&mut zeros(), &mut zstd).unwrap();
    zstd.finish().unwrap();
    for name in ["gzip", "zstd"] {
        let bytes = fs::read(path(name)).unwrap();
        assert!(bytes.len() < 4 << 20, "{name}: {} bytes", bytes.len());
        every_verb_on(0, |out| out.write_all(&bytes));
        let by_name = path(name);
        peak::of(&["flows", "-q", "-r", by_name.to_str().unwrap()]).exits(0).within(BASE);
    }
}

#[test]
fn fragments_whose_first_never_comes_take_no_more_memory() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let mut packet = frame(64);
    // A later fragment.
    packet[20..22].copy_from_slice(&[0, 100]);
    every_verb_on(0, |out| {
        out.write_all(&pcap_header(1))?;
        for i in 0_u32..300_000 {
            let [a, b, c, d] = i.to_be_bytes();
            packet_of(&packet, &[(18, c), (19, d), (28, a), (29, b)], out)?;
        }
        Ok(())
    });
}

/// Writes a packet with some bytes changed.
fn packet_of(packet: &[u8], changes: &[(usize, u8)], out: &mut dyn Write) -> io::Result<()> {
    let mut packet = packet.to_vec();
    changes.iter().for_each(|&(at, byte)| packet[at] = byte);
    out.write_all(&pcap_record(&packet))
}

#[test]
fn long_records_take_no_more_memory_and_too_long_ones_are_refused() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    const DBUS: u32 = 231;
    let _alone = peak::alone();
    let record = pcap_record(&vec![0; 15 << 20]);
    every_verb_on(0, |out| {
        out.write_all(&pcap_header(DBUS))?;
        repeated(out, &record, 12)
    });
    let long = pcap_record(&vec![0; 20 << 20]);
    let given = |options: &[&str]| {
        let arguments = [&["filter", "-r", "-", "--count"][..], options].concat();
        peak::of_piped(&arguments, |pipe| {
            pipe.write_all(&pcap_header(DBUS))?;
            pipe.write_all(&long)
        })
    };
    let refused = given(&[]).exits(1).within(BASE);
    for part in ["the record at byte 24 takes 20971520 bytes; at most 16777216", "--longest-record"]
    {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    given(&["--longest-record", "20"]).exits(0);
}

#[test]
fn a_large_zstd_window_is_refused_and_can_be_allowed() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let compressed = |log: u32| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        io::copy(&mut zeros().take((100 << 20) + 24), &mut encoder).unwrap();
        encoder.finish().unwrap()
    };
    let count = |bytes: &[u8], options: &[&str]| {
        let arguments = [&["filter", "-r", "-", "--count"][..], options].concat();
        peak::of_piped(&arguments, |pipe| pipe.write_all(bytes))
    };
    count(&compressed(23), &[]).exits(0).within(BASE);
    let large = compressed(26);
    let refused = count(&large, &[]).exits(1).within(BASE);
    for part in ["a window of more than 8 MiB", "--zstd-window"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    count(&large, &["--zstd-window", "32"]).exits(1);
    count(&large, &["--zstd-window", "64"]).exits(0).within(BASE + (64 << 20));
}

/// A pcapng block.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(12 + body.len()).unwrap().to_le_bytes();
    [&kind.to_le_bytes()[..], &len, body, &len].concat()
}

/// A section header.
fn section() -> Vec<u8> {
    let body = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    block(0x0a0d_0d0a, &body)
}

/// An interface of that link type, with a name of that many bytes.
fn interface(link: u16, name: u16) -> Vec<u8> {
    let mut body = [&link.to_le_bytes()[..], &[0; 6]].concat();
    if name > 0 {
        body.extend([&[2, 0], &name.to_le_bytes()[..]].concat());
        body.extend(vec![b'x'; usize::from(name).next_multiple_of(4)]);
        body.extend([0; 4]);
    }
    block(1, &body)
}

#[test]
fn interfaces_take_no_more_memory_and_are_refused_without_number() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    let (plain, named) = (interface(1, 0), interface(1, 60_000));
    let mut packet = vec![0; 12];
    packet.extend([4, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4]);
    let packet = block(6, &packet);
    // As many as there may be, and a packet now and then.
    every_verb_on(0, |out| {
        out.write_all(&section())?;
        for i in 0..65_536 {
            out.write_all(&plain)?;
            if i > 60_000 {
                out.write_all(&packet)?;
            }
        }
        Ok(())
    });
    every_verb_on(1, |out| {
        out.write_all(&section())?;
        repeated(out, &plain, 3_000_000)
    });
    every_verb_on(1, |out| {
        out.write_all(&section())?;
        repeated(out, &named, 2_000)
    });
    let links = peak::of_piped(&["flows", "-q", "-r", "-"], |out| {
        out.write_all(&section())?;
        (0..=u16::MAX).try_for_each(|link| out.write_all(&interface(link, 0)))
    });
    let links = links.exits(1).within(BASE);
    assert!(links.stderr.contains("more than 64 link types at byte"), "{}", links.stderr);
}

#[test]
fn blocks_and_packets_of_odd_lengths_take_no_more_memory() {
    if !forebay_testkit::runs_long_tests() {
        return;
    }
    let _alone = peak::alone();
    // Blocks that are skipped, as long as they may be.
    let skipped = block(0x0bad, &vec![0; (16 << 20) - 12]);
    every_verb_on(0, |out| {
        out.write_all(&section())?;
        repeated(out, &skipped, 8)
    });
    // Packets just too long for the room that is left for the beginning of a record.
    let record = pcap_record(&vec![0; 262_144]);
    let byte_by_byte = pcap_record(&vec![0; 5_000]);
    every_verb_on(0, |out| {
        out.write_all(&pcap_header(1))?;
        byte_by_byte.chunks(1).try_for_each(|byte| out.write_all(byte))?;
        repeated(out, &record, 800)
    });
}
