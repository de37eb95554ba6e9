//! `split --balance packets` and `bytes`: whole flows, even loads, and captures that can be
//! read only once.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use serde_json::Value;

use super::{Scratch, packets};
use crate::support::command::{self, Ran, command, ran, run, run_with_input};
use crate::support::data;
use forebay_testkit::capture;
use forebay_testkit::make::{self, ETHERNET, Pcap};

/// Traffic with tunnels, fragments in any order, and flows of Zipf sizes.
fn traffic(scratch: &Scratch) -> PathBuf {
    let path = scratch.path("traffic.pcap");
    let name = path.to_str().unwrap();
    run(["gen", "-q", "-w", name, "--packets", "30000", "--flows", "3000"]).exits(0);
    path
}

/// Packets of each flow of a capture, as `forebay flows` lists them, but for ICMP: an error
/// is of the flow that it quotes.
fn flows(capture: &Path) -> BTreeMap<String, u64> {
    let listed = run(["flows", "-q", "--json", "-r", capture.to_str().unwrap()]).exits(0).json();
    let flow = |flow: &Value| {
        let [there, back] = ["packets_ab", "packets_ba"].map(|way| flow[way].as_u64().unwrap());
        (format!("{} {} {}", flow["proto"], flow["a"], flow["b"]), there + back)
    };
    let mut sums = BTreeMap::new();
    let listed = listed["flows"].as_array().unwrap().iter();
    let others = listed.filter(|flow| !flow["proto"].as_str().unwrap().starts_with("icmp"));
    for (name, packets) in others.map(flow) {
        *sums.entry(name).or_insert(0) += packets;
    }
    sums
}

/// Each sensor's load over its fair share of all.
fn of_shares(loads: &[u64], weights: &[u64]) -> Vec<f64> {
    let each = loads.iter().sum::<u64>() as f64 / weights.iter().sum::<u64>() as f64;
    loads.iter().zip(weights).map(|(&load, &weight)| load as f64 / (each * weight as f64)).collect()
}

#[test]
fn loads_are_even_flows_whole_and_the_numbers_true() {
    let scratch = Scratch::new();
    for input in [data::folder().join("mix/dev-mix.pcap"), traffic(&scratch)] {
        for (by, weights) in [("packets", "1,1,1,1"), ("bytes", "1,1,1,1"), ("packets", "1,2,5")] {
            let name = format!("{by}-{weights}");
            let options = ["--balance", by, "--weights", weights, "--force"];
            let (outcome, files) = scratch.split(&input, &name, &options);
            let weights: Vec<u64> =
                weights.split(',').map(|weight| weight.parse().unwrap()).collect();
            let each = packets(&files);
            let counts: Vec<u64> = each.iter().map(|packets| packets.len() as u64).collect();
            let wire = |packets: &Vec<capture::Packet>| {
                packets.iter().map(|one| u64::from(one.wire_len)).sum()
            };
            let bytes: Vec<u64> = each.iter().map(wire).collect();
            let shares = of_shares(if by == "bytes" { &bytes } else { &counts }, &weights);
            let busiest = shares.iter().copied().fold(0.0, f64::max);
            let told = &outcome["imbalance"][by];
            let bound = told["bound"].as_f64().unwrap();
            assert!((told["measured"].as_f64().unwrap() - busiest).abs() < 1e-9);
            assert!(bound <= busiest + 1e-9 && busiest <= bound.max(1.05), "{busiest} {told}");
            for (sensor, share) in outcome["sensors"].as_array().unwrap().iter().zip(shares) {
                let told = sensor[format!("{by}_of_share")].as_f64().unwrap();
                assert!((told - share).abs() < 1e-9, "{sensor}");
            }
            let balance = &outcome["balance"];
            assert_eq!((&balance["by"], &balance["in_buckets"]), (&by.into(), &0.into()));
            let is_mix = input.ends_with("dev-mix.pcap");
            let least = if is_mix { data::at_least(1_000, 400) } else { 1_000 };
            assert!(balance["units"].as_u64().unwrap() as usize > least, "{balance}");
            let largest = balance["largest_unit"].as_u64().unwrap() as f64;
            let all = if by == "bytes" { &bytes } else { &counts }.iter().sum::<u64>() as f64;
            let heaviest =
                *weights.iter().max().unwrap() as f64 / weights.iter().sum::<u64>() as f64;
            assert!((bound - (largest / (all * heaviest)).max(1.0)).abs() < 1e-9, "{balance}");
        }
        if input.ends_with("dev-mix.pcap") {
            // Joined captures: addresses are not unique. `captures` looks at the parts.
            continue;
        }
        // Whole: what `flows` lists of the outputs is what it lists of the input.
        let files = command::sensor_files(&scratch.path("packets-1,1,1,1"));
        let expected = flows(&input);
        let mut found = BTreeMap::new();
        for (flow, packets) in files.iter().flat_map(|file| flows(file)) {
            assert_eq!(expected.get(&flow), Some(&packets), "{flow} is torn");
            assert!(found.insert(flow.clone(), packets).is_none(), "{flow} is at two sensors");
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn one_large_flow_is_the_bound() {
    let scratch = Scratch::new();
    let mut frames = make::datagrams(300);
    frames.extend((0..700).map(|_| make::udp(([10, 9, 9, 9], 9), ([10, 9, 9, 8], 9), &[0; 9])));
    let input = scratch.file("in.pcap", &Pcap::of(ETHERNET).file(&frames));
    let (outcome, files) = scratch.split(&input, "out", &["-n", "4", "--balance", "packets"]);
    let mut counts: Vec<usize> = packets(&files).iter().map(Vec::len).collect();
    counts.sort_unstable();
    assert_eq!(counts, [100, 100, 100, 700]);
    let told = &outcome["imbalance"]["packets"];
    assert_eq!((told["bound"].as_f64(), told["measured"].as_f64()), (Some(2.8), Some(2.8)));
    assert_eq!(outcome["balance"]["largest_unit"], 700);
    let (by_hash, _) = scratch.split(&input, "hash", &["-n", "4"]);
    assert_eq!(by_hash["imbalance"]["packets"]["bound"].as_f64(), Some(2.8));
    assert_eq!(
        (&by_hash["balance"]["by"], &by_hash["balance"]["units"]),
        (&"hash".into(), &Value::Null)
    );
}

#[test]
fn outputs_do_not_depend_on_workers_compression_or_pipes() {
    let scratch = Scratch::new();
    let input = traffic(&scratch);
    let bytes = fs::read(&input).unwrap();
    let options = |workers| ["-n", "5", "--balance", "bytes", "--workers", workers];
    let expected = scratch.outputs(&input, "one", &options("1"));
    assert_eq!(scratch.outputs(&input, "three", &options("3")), expected);
    let gzip = {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&bytes).unwrap();
        gzip.finish().unwrap()
    };
    let zstd = scratch.file("in.pcap.zst", &zstd::encode_all(&bytes[..], 1).unwrap());
    assert_eq!(scratch.outputs(&zstd, "zstd", &options("2")), expected);
    for (name, stream) in [("pipe", &bytes), ("gzip-pipe", &gzip)] {
        let out = scratch.path(name);
        let words = ["split", "-q", "-r", "-", "-o", out.to_str().unwrap()];
        run_with_input(words.into_iter().chain(options("2")), stream).exits(0);
        let outputs: Vec<Vec<u8>> =
            command::sensor_files(&out).iter().map(|file| fs::read(file).unwrap()).collect();
        assert!(outputs == expected, "{name}");
    }
}

/// Splits what a FIFO gives, with these options.
fn of_fifo(scratch: &Scratch, bytes: &[u8], options: &[&str]) -> Ran {
    let fifo = scratch.path("fifo");
    if !fifo.exists() {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
    }
    let out = scratch.path("out");
    let words = ["split", "-r", fifo.to_str().unwrap(), "-n", "2", "-o", out.to_str().unwrap()];
    let mut command = command(words.iter().chain(options));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            // It may end before it has read everything.
            let _ = fs::OpenOptions::new().write(true).open(&fifo).unwrap().write_all(bytes);
        });
        child.wait_with_output().unwrap()
    });
    ran(&command, output)
}

#[test]
fn a_stream_is_kept_up_to_the_limit() {
    let scratch = Scratch::new();
    // 24 + 1,048,552 bytes: just what 1 MiB holds.
    let records = |packets| {
        let pcap = Pcap::of(ETHERNET);
        let udp = |i: u16| make::udp(([10, 0, 0, 1], i), ([10, 0, 0, 2], 53), &[7; 194]);
        let frames: Vec<Vec<u8>> = (0..packets).map(udp).collect();
        pcap.file(&frames)
    };
    let fits = records(4_000);
    let over = [fits.clone(), vec![0; (1 << 20) + 1 - fits.len()]].concat();
    let limit = ["--balance", "packets", "--spill", "1"];
    let refused = of_fifo(&scratch, &over, &limit).exits(1);
    refused.says(&["fifo: it has more than 1 MiB", "--spill"]);
    assert!(!scratch.path("out").exists());
    of_fifo(&scratch, &fits, &limit).exits(0);
    let counts = packets(&command::sensor_files(&scratch.path("out")));
    assert_eq!([counts[0].len(), counts[1].len()], [2_000, 2_000]);
    // The folder is looked at before the stream is read.
    let occupied = of_fifo(&scratch, b"", &limit).exits(1);
    occupied.says(&["already holds sensor-0.pcap"]);
    // By hash a stream is read once, and has no limit.
    let by_hash = ["--force", "--spill", "1"];
    of_fifo(&scratch, &records(5_000), &by_hash).exits(0);
}

#[test]
fn a_cut_capture_is_split_evenly_up_to_the_cut() {
    let scratch = Scratch::new();
    let whole = Pcap::of(ETHERNET).file(&make::datagrams(1_000));
    let input = scratch.file("cut.pcap", &whole[..whole.len() - 5]);
    let out = scratch.path("out");
    let (input, folder) = (input.to_str().unwrap(), out.to_str().unwrap());
    let words = ["split", "-q", "--json", "-r", input, "-o", folder, "-n", "3"];
    let cut = run(words.into_iter().chain(["--balance", "packets"])).exits(1);
    assert_eq!(cut.json()["totals"]["packets_out"], 999);
    let counts: Vec<usize> = packets(&command::sensor_files(&out)).iter().map(Vec::len).collect();
    assert_eq!(counts, [333; 3]);
}
