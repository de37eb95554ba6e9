//! `forebay split`: shares, formats, clocks, determinism, fragments, and balance.

mod by_load;

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::support::command::{self, run};
use crate::support::data;
use forebay_balance::{Assignment, max_over_mean};
use forebay_packet::{Affinity, DecodeOptions, Decoder, HashKey, LinkType};
use forebay_testkit::capture::{self, Packet};
use forebay_testkit::make::{self, ETHERNET, Pcap, RAW};
use serde_json::Value;
use tempfile::TempDir;

struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.path(name), bytes).unwrap();
        self.path(name)
    }

    /// Splits `input` into a folder of this name. Returns the JSON and the outputs.
    fn split(&self, input: &Path, name: &str, options: &[&str]) -> (Value, Vec<PathBuf>) {
        let folder = self.path(name);
        let (input, out) = (input.to_str().unwrap(), folder.to_str().unwrap());
        let mut arguments = vec!["split", "-r", input, "-o", out, "--json", "-q"];
        arguments.extend(options);
        let outcome = run(arguments).exits(0).json();
        (outcome, command::sensor_files(&folder))
    }

    fn outputs(&self, input: &Path, name: &str, options: &[&str]) -> Vec<Vec<u8>> {
        let (_, files) = self.split(input, name, options);
        files.iter().map(|file| fs::read(file).unwrap()).collect()
    }
}

fn packets(files: &[PathBuf]) -> Vec<Vec<Packet>> {
    let packets = |file: &PathBuf| {
        let found = capture::read(file);
        assert!(!found.cut, "{}", file.display());
        found.packets
    };
    files.iter().map(packets).collect()
}

#[test]
fn weights_give_shares() {
    let scratch = Scratch::new();
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&make::datagrams(20_000)));
    let (outcome, files) = scratch.split(&input, "out", &["--weights", "1,1,2"]);
    let loads: Vec<usize> = packets(&files).iter().map(Vec::len).collect();
    assert_eq!(loads.len(), 3);
    for (sensor, (&load, share)) in loads.iter().zip([0.25, 0.25, 0.5]).enumerate() {
        // 20,000 flows of one packet: five standard deviations of a binomial are under 360.
        assert!((load as f64 - 20_000.0 * share).abs() < 360.0, "{loads:?}");
        let told = &outcome["sensors"][sensor];
        assert_eq!(told["packets"], load);
        assert_eq!(told["flows"], load);
        assert_eq!(told["share_target"], share);
        let bytes: u64 = packets(&files)[sensor].iter().map(|one| u64::from(one.wire_len)).sum();
        assert_eq!(told["bytes"], bytes);
        assert_eq!(Path::new(told["file"].as_str().unwrap()), files[sensor]);
    }
    assert_eq!(outcome["totals"]["packets_in"], 20_000);
    assert_eq!(outcome["totals"]["packets_out"], 20_000);
    assert_eq!(outcome["totals"]["flows"], 20_000);
    assert!(outcome["error"].is_null() && outcome["imbalance"]["packets"]["measured"].is_f64());
    assert_eq!(outcome["top_flows"].as_array().unwrap().len(), 20);
}

#[test]
fn a_filter_drops_under_its_name() {
    let scratch = Scratch::new();
    let mut frames = make::datagrams(100);
    frames.extend((0..50).map(|i| make::ipv4([10, 0, 0, i], [10, 0, 1, 1], 0, 0, &[0; 4])));
    for frame in &mut frames[100..] {
        frame[23] = 47;
    }
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&frames));
    let (outcome, files) = scratch.split(&input, "out", &["-n", "2", "--filter", "udp"]);
    assert_eq!(packets(&files).concat().len(), 100);
    let rows = outcome["ledger"].as_array().unwrap();
    let filter = rows.iter().find(|row| row["stage"] == "filter").unwrap();
    let drops: Vec<u64> =
        filter["drops"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!((filter["in"].as_u64(), drops), (Some(150), vec![50]));
}

#[test]
fn the_report_is_a_page_with_the_totals() {
    let scratch = Scratch::new();
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&make::datagrams(12_345)));
    let report = scratch.path("report.html");
    let (_, files) =
        scratch.split(&input, "out", &["-n", "4", "--report", report.to_str().unwrap()]);
    assert_eq!(files.len(), 4);
    let page = fs::read_to_string(&report).unwrap();
    assert!(page.trim_start().to_lowercase().starts_with("<!doctype html>"));
    assert!(page.trim_end().ends_with("</html>"));
    assert!(page.contains("12,345") || page.contains("12345"), "no total on the page");
    for sensor in 0..4 {
        assert!(page.contains(&format!("sensor {sensor}")), "no sensor {sensor}");
    }
    for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
}

#[test]
fn compressed_input_gives_the_same_outputs() {
    let scratch = Scratch::new();
    let bytes = Pcap::of(ETHERNET).file(&make::datagrams(3_000));
    let plain = scratch.file("in.pcap", &bytes);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let gzip = scratch.file("in.pcap.gz", &gzip.finish().unwrap());
    let zstd = scratch.file("in.pcap.zst", &zstd::encode_all(&bytes[..], 1).unwrap());
    let expected = scratch.outputs(&plain, "plain", &["-n", "3"]);
    assert_eq!(scratch.outputs(&gzip, "gzip", &["-n", "3"]), expected);
    assert_eq!(scratch.outputs(&zstd, "zstd", &["-n", "3"]), expected);
}

#[test]
fn interfaces_keep_their_link_types_and_clocks() {
    let scratch = Scratch::new();
    let frames = make::datagrams(200);
    let mut bytes = [make::section(), make::interface(ETHERNET, 9)].concat();
    bytes.extend(make::interface(RAW, 12));
    let (mut expected, mut sent) = (Vec::new(), Vec::new());
    for (i, frame) in (0_u64..).zip(&frames) {
        let interface = (i % 2) as u32;
        let data = if interface == 0 { frame.clone() } else { make::without_ethernet(frame) };
        // Picoseconds that are no whole number of nanoseconds; they reach 18 million seconds.
        let ticks = if interface == 0 {
            1_700_000_000_123_456_789 + i
        } else {
            17_000_000_000_000_000_007 + i
        };
        bytes.extend(make::enhanced(interface, ticks, &data));
        expected.push((interface, [9, 12][interface as usize], ticks));
        sent.push(data);
    }
    let input = scratch.file("in.pcapng", &bytes);
    let (_, files) = scratch.split(&input, "out", &["-n", "3"]);
    assert!(files.iter().all(|file| file.extension().unwrap() == "pcapng"));
    let mut found: Vec<_> =
        files.iter().flat_map(|file| make::ticks(&fs::read(file).unwrap())).collect();
    let order = |one: &(u32, u8, u64)| (one.0, one.2);
    found.sort_by_key(order);
    expected.sort_by_key(order);
    assert_eq!(found, expected);
    let mut got: Vec<_> = packets(&files).concat();
    assert!(got.iter().all(|one| [ETHERNET, RAW][one.interface] == one.link));
    got.sort_by_key(|one| one.data.clone());
    sent.sort();
    assert!(got.iter().map(|one| &one.data).eq(&sent));
}

#[test]
fn nanoseconds_and_byte_orders_are_understood_and_kept() {
    let scratch = Scratch::new();
    for big_endian in [false, true] {
        for nanoseconds in [false, true] {
            let format = Pcap { big_endian, nanoseconds, ..Pcap::of(ETHERNET) };
            let name = format!("{big_endian}-{nanoseconds}");
            let input = scratch.file(&format!("{name}.pcap"), &format.file(&make::datagrams(500)));
            let (_, files) = scratch.split(&input, &name, &["-n", "2"]);
            let mut found = packets(&files).concat();
            found.sort_by_key(|one| one.nanos);
            assert!(found == capture::read(&input).packets, "{format:?}");
            for file in &files {
                let head = fs::read(file).unwrap();
                let magic = u32::from_ne_bytes(head[..4].try_into().unwrap());
                let expected = if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4_u32 };
                assert!([expected, expected.swap_bytes()].contains(&magic), "{format:?}");
            }
        }
    }
}

#[test]
fn the_split_depends_on_the_hash_key_alone() {
    let scratch = Scratch::new();
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&make::datagrams(5_000)));
    let outputs = |name: &str, options: &[&str]| scratch.outputs(&input, name, options);
    let one = outputs("one", &["-n", "4", "--workers", "1"]);
    assert_eq!(outputs("three", &["-n", "4", "--workers", "3"]), one);
    assert_eq!(outputs("most", &["-n", "4", "--workers", "1024"]), one);
    let (a, b) = ("00112233445566778899aabbccddeeff", "00112233445566778899aabbccddee00");
    let keyed = outputs("a", &["-n", "4", "--hash-key", a]);
    assert_eq!(outputs("again", &["-n", "4", "--hash-key", a]), keyed);
    assert_ne!(outputs("b", &["-n", "4", "--hash-key", b]), keyed);
    assert_ne!(one, keyed);
}

#[test]
fn fragments_follow_their_first_whatever_the_order() {
    const MORE: u16 = 0x2000;
    let scratch = Scratch::new();
    let (mut frames, mut flows) = (Vec::new(), Vec::new());
    for i in 0..40_u8 {
        let (source, destination) = ([10, 2, 0, i], [192, 0, 2, 7]);
        let first = [&[0x10, i, 0, 53, 0, 48, 0, 0][..], &[i; 24]].concat();
        let later = make::ipv4(source, destination, 1000 + u16::from(i), 4, &[i; 16]);
        let first = make::ipv4(source, destination, 1000 + u16::from(i), MORE, &first);
        let whole = make::udp((source, 0x1000 + u16::from(i)), (destination, 53), &[i; 5]);
        // Every second flow has its later fragment first, with other traffic between.
        let ordered = if i % 2 == 0 { [first, later, whole] } else { [later, whole, first] };
        frames.extend(ordered);
        frames.extend((0..3).map(|n| make::udp(([10, 3, i, n], 99), (destination, 53), &[n])));
        flows.push(source);
    }
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&frames));
    for by in ["hash", "packets"] {
        let (_, files) = scratch.split(&input, by, &["-n", "4", "--balance", by]);
        let outputs = packets(&files);
        assert_eq!(outputs.concat().len(), frames.len());
        let mut used = [false; 4];
        for source in &flows {
            let of_flow = |one: &&Packet| one.data[26..30] == *source;
            let counts: Vec<usize> =
                outputs.iter().map(|out| out.iter().filter(of_flow).count()).collect();
            let sensor = counts.iter().position(|&n| n == 3);
            used[sensor.unwrap_or_else(|| panic!("{source:?} is torn: {counts:?}"))] = true;
        }
        assert!(used.iter().all(|&used| used), "all flows at one sensor prove nothing");
        for output in &outputs {
            assert!(output.is_sorted_by_key(|one| one.nanos), "not in the order of the input");
        }
    }
}

/// Max/mean of the packets of a split, as the outputs have them and as the JSON says.
fn imbalance(scratch: &Scratch, input: &Path, sensors: usize) -> (f64, Value) {
    let n = sensors.to_string();
    let (outcome, files) = scratch.split(input, &format!("balance-{n}"), &["-n", &n]);
    let loads: Vec<u64> = packets(&files).iter().map(|one| one.len() as u64).collect();
    let measured = max_over_mean(&loads, &vec![1; sensors]).unwrap();
    (measured, outcome["imbalance"]["packets"].clone())
}

#[test]
fn balance_is_what_the_flows_allow() {
    let scratch = Scratch::new();
    let full = env::var("FOREBAY_FULL").as_deref() == Ok("1");
    let (packets, flows) = if full { ("1000000", "100000") } else { ("200000", "20000") };
    let generated = scratch.path("generated.pcap");
    let name = generated.to_str().unwrap();
    run(["gen", "-q", "-w", name, "--packets", packets, "--flows", flows]).exits(0);
    for input in [data::folder().join("mix/dev-mix.pcap"), generated] {
        for sensors in [4, 16] {
            let (measured, told) = imbalance(&scratch, &input, sensors);
            let random = told["expected_p95"].as_f64().unwrap();
            println!(
                "{} over {sensors}: max/mean of packets {measured:.3}; random assignment of these \
                 flows: mean {}, 95th percentile {random:.3}",
                input.display(),
                told["expected"],
            );
            assert!((told["measured"].as_f64().unwrap() - measured).abs() < 1e-9);
            // One key is one draw; a hash that clumps would be far outside.
            assert!(measured < 1.5 * random, "{measured} against {random}");
            fs::remove_dir_all(scratch.path(&format!("balance-{sensors}"))).unwrap();
        }
    }
}

/// The outcomes of many draws: mean, and the variance of that mean.
fn mean_and_variance(draws: &[f64]) -> (f64, f64) {
    let n = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / n;
    let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, variance / n)
}

/// A TCP packet over IPv4 between hosts of 10.0.0.0/8, for link type RAW.
fn tcp(from: (u8, u16), to: (u8, u16), payload: &str) -> Vec<u8> {
    let len = (40 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, from.0, 10, 0, 0, to.0]);
    packet.extend([from.1.to_be_bytes(), to.1.to_be_bytes()].concat());
    packet.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    packet.extend(payload.as_bytes());
    packet
}

#[test]
fn followed_transfers_are_at_the_sensor_of_their_control_connection() {
    const SESSIONS: u8 = 100;
    let scratch = Scratch::new();
    let mut all = Vec::new();
    for host in 1..=SESSIONS {
        let passive = "227 Entering Passive Mode (10,0,0,200,8,0)\r\n";
        all.push(tcp((host, 4_000), (200, 21), "PORT 10,0,0,250,8,0\r\n"));
        all.push(tcp((host, 4_000), (200, 21), "PASV\r\n"));
        all.push(tcp((200, 21), (host, 4_000), passive));
        let mut begins = tcp((host, 5_000), (200, 2_048), "there");
        // A bare SYN.
        begins[33] = 0x02;
        all.push(begins);
        all.push(tcp((200, 2_048), (host, 5_000), "back"));
    }
    let input = scratch.file("in.pcap", &Pcap::of(RAW).file(&all));
    let together = |name: &str, options: &[&str]| {
        let (outcome, files) = scratch.split(&input, name, options);
        let mut sensors: HashMap<u8, Vec<usize>> = HashMap::new();
        for (sensor, packets) in packets(&files).iter().enumerate() {
            for packet in packets {
                let host = packet.data[15].min(packet.data[19]);
                sensors.entry(host).or_default().push(sensor);
            }
        }
        let is_one = |at: &&Vec<usize>| at.iter().all(|sensor| *sensor == at[0]);
        (outcome, sensors.values().filter(is_one).count())
    };
    let (outcome, whole) = together("followed", &["-n", "4", "--follow", "ftp"]);
    assert_eq!(whole, usize::from(SESSIONS));
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("100 data flows went with the connection"), "{notes}");
    assert!(notes.contains("100 announcements of data flows at another address"), "{notes}");
    let ledger = outcome["ledger"].as_array().unwrap();
    assert!(ledger.iter().any(|row| row["stage"] == "expectations" && row["out"] == 500));
    let by_load = ["-n", "4", "--follow", "ftp", "--balance", "packets"];
    let (outcome, whole) = together("by-load", &by_load);
    assert_eq!((whole, &outcome["balance"]["largest_unit"]), (usize::from(SESSIONS), &5.into()));
    assert_eq!(outcome["imbalance"]["packets"]["measured"], 1.0);
    let (_, by_chance) = together("alone", &["-n", "4"]);
    assert!(by_chance < 50, "{by_chance}");
    let (_, other_port) = together("port", &["-n", "4", "--follow", "ftp:2121,sip"]);
    assert_eq!(other_port, by_chance);
    let (file, out) = (input.to_str().unwrap(), scratch.path("x"));
    let words = ["split", "-r", file, "-n", "2", "-o", out.to_str().unwrap(), "--follow"];
    run(words.into_iter().chain(["irc"])).exits(2).says(&["`irc`: expected ftp, sip"]);
    run(words.into_iter().chain(["ftp", "--key", "src"])).exits(2).says(&["--key 5tuple"]);
}

/// Marsaglia's xorshift64: random enough to throw flows at sensors, and no relative of
/// the hash under test.
struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn the_hash_adds_no_imbalance_to_random_assignment() {
    const HASHED: u64 = 60;
    const RANDOM: u64 = 2_000;
    let folder = data::folder();
    let options = DecodeOptions { affinity: Affinity::FiveTuple, ..DecodeOptions::default() };
    let decoder = Decoder::new(options);
    let mut groups = HashMap::new();
    for packet in capture::read(folder.join("mix/dev-mix.pcap")).packets {
        let link = LinkType(packet.link);
        *groups.entry(decoder.decode(link, &packet.data).affinity).or_insert(0_u64) += 1;
    }
    assert!(groups.len() > data::at_least(2_000, 400));
    let mut sizes: Vec<u64> = groups.values().copied().collect();
    sizes.sort_unstable();
    for sensors in [4, 16] {
        let assignment = Assignment::of_weights(&vec![1; sensors]).unwrap();
        let ratio = |loads: &[u64]| max_over_mean(loads, &vec![1; sensors]).unwrap();
        let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
        let hashed: Vec<f64> = (0..HASHED)
            .map(|_| {
                let key = HashKey([random.next(), random.next()]);
                let mut loads = vec![0; sensors];
                for (group, packets) in &groups {
                    loads[usize::from(assignment.sensor_of(group.hash(&key)))] += packets;
                }
                ratio(&loads)
            })
            .collect();
        let drawn: Vec<f64> = (0..RANDOM)
            .map(|_| {
                let mut loads = vec![0; sensors];
                for packets in &sizes {
                    loads[(random.next() >> 33) as usize % sensors] += packets;
                }
                ratio(&loads)
            })
            .collect();
        let ((ours, our_variance), (theirs, their_variance)) =
            (mean_and_variance(&hashed), mean_and_variance(&drawn));
        let error = (our_variance + their_variance).sqrt();
        println!(
            "{sensors} sensors: mean max/mean {ours:.4} by hash, {theirs:.4} at random, standard error {error:.4}"
        );
        assert!((ours - theirs).abs() < 3.0 * error);
    }
}
