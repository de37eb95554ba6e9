//! `forebay flows --policy`: shares of a link, the ledger, forms of output, wrong use.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::command::{ran, run};
use crate::support::data;
use crate::support::scratch::Scratch;
use forebay_testkit::make::{self, ETHERNET, Pcap};
use serde_json::Value;

/// Seconds of the capture.
const SECONDS: u64 = 8;

/// A capture of four flows with packets of 1,000 bytes: three of 6 Mbit/s, the second of them
/// capable of ECN, and one of 60 Mbit/s.
fn capture(scratch: &Scratch) -> String {
    let pcap = Pcap { nanoseconds: true, ..Pcap::of(ETHERNET) };
    let mut packets = Vec::new();
    for (flow, mbit) in [(0_u16, 6), (1, 6), (2, 6), (3, 60)] {
        let mut frame = make::udp(([10, 0, 0, 1], 7_000 + flow), ([10, 0, 0, 2], 9_000), &[0; 18]);
        frame[15] = if flow == 1 { 2 } else { 0 };
        let gap = 8_000_000 / mbit;
        let times = (0..SECONDS * 1_000_000_000 / gap).map(|n| n * gap + u64::from(flow) * 7_919);
        packets.extend(times.map(|time| (time, frame.clone())));
    }
    packets.sort();
    let mut file = pcap.header();
    for (time, frame) in &packets {
        file.extend(pcap.record(1_700_000_000_000_000_000 + time, frame, 1_000));
    }
    scratch.file("four.pcap", &file)
}

fn policy(input: &str, name: &str, options: &[&str]) -> Value {
    let mut arguments = vec!["flows", "-r", input, "--json", "--policy", name, "--link", "10mbit"];
    arguments.extend(options);
    run(arguments).exits(0).json()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// What each flow was sent in proportion to all.
fn shares(outcome: &Value) -> Vec<f64> {
    let flows = outcome["flows"].as_array().unwrap();
    flows.iter().map(|flow| flow["share"].as_f64().unwrap()).collect()
}

/// Asserts that nothing is missing in the totals of a link, nor between them and the flows.
fn assert_closed(outcome: &Value) {
    let (link, flows) = (&outcome["link"], outcome["flows"].as_array().unwrap());
    assert_eq!(outcome["closes"], true);
    for unit in ["packets", "bytes"] {
        let dropped: u64 =
            link["dropped"].as_object().unwrap().values().map(|drops| number(&drops[unit])).sum();
        let [offered, delivered, marked, queued] =
            ["offered", "delivered", "marked", "queued"].map(|name| number(&link[name][unit]));
        assert_eq!(offered, delivered + marked + dropped + queued, "{link}");
        let sum = |name: &str| -> u64 {
            flows.iter().map(|flow| number(&flow[format!("{name}_{unit}")])).sum()
        };
        let sums = ["offered", "delivered", "marked", "dropped"].map(sum);
        assert_eq!(sums, [offered, delivered, marked, dropped]);
    }
    assert_eq!(number(&link["offered"]["packets"]), 78 * 1_000 / 8 * SECONDS);
    let queue = &link["queue"];
    let peaks = queue["peak_bytes"].as_array().unwrap();
    assert!(peaks.len() <= 512 && peaks.len() == queue["mean_bytes"].as_array().unwrap().len());
    assert!(peaks.iter().all(|peak| number(peak) <= 131_072), "{queue}");
}

#[test]
fn fair_policies_give_a_flow_of_ten_times_the_rate_no_more() {
    let scratch = Scratch::with_packets(1);
    let input = capture(&scratch);
    for (name, within) in [("drr", 0.02), ("csfq", 0.2)] {
        let outcome = policy(&input, name, &[]);
        assert_closed(&outcome);
        for share in shares(&outcome) {
            assert!((share / 0.25 - 1.0).abs() < within, "{name}: {share}");
        }
        let link = &outcome["link"];
        assert!(link["jain"].as_f64().unwrap() > 0.97, "{link}");
        assert!(link["utilisation"].as_f64().unwrap() > 0.97, "{link}");
        assert_eq!(outcome, policy(&input, name, &[]), "a capture gives the same result each time");
    }
    let outcome = policy(&input, "red", &[]);
    assert_closed(&outcome);
    assert!(shares(&outcome)[3] > 0.7, "a threshold for all is no fair share");
    assert_eq!(number(&outcome["flows"][0]["threshold_bytes"]), 16_384);
}

#[test]
fn packets_of_senders_capable_of_ecn_are_marked() {
    let scratch = Scratch::with_packets(1);
    // Up to the upper threshold, so many of the others are dropped that the link is enough.
    let outcome = policy(&capture(&scratch), "red", &["--red-p", "100%"]);
    assert_closed(&outcome);
    let marked: Vec<u64> =
        outcome["flows"].as_array().unwrap().iter().map(|f| number(&f["marked_packets"])).collect();
    assert!(marked[1] > 1_000 && marked[0] + marked[2] + marked[3] == 0, "{marked:?}");
    let dropped = |flow: usize| number(&outcome["flows"][flow]["dropped_packets"]);
    assert!(dropped(1) < dropped(0) / 10, "{} {}", dropped(1), dropped(0));
}

#[test]
fn classes_have_weights() {
    let scratch = Scratch::with_packets(1);
    let input = capture(&scratch);
    let rules = scratch.text("voice.rules");
    fs::write(&rules, "ip filter 1 pass * * udp 7001 *\nip filter 2 pass * * udp * 7001\n")
        .unwrap();
    let rules = format!("3=@{rules}");
    let classes = ["--class", &rules, "--class", "2=udp portrange 7001-7002"];
    let outcome = policy(&input, "drr", &classes);
    assert_closed(&outcome);
    for (share, expected) in shares(&outcome).iter().zip([1.0, 3.0, 2.0, 1.0]) {
        assert!((share * 7.0 / expected - 1.0).abs() < 0.02, "{share}: {expected}");
    }
    let flows = outcome["flows"].as_array().unwrap();
    let quanta: Vec<u64> = flows.iter().map(|flow| number(&flow["quantum_bytes"])).collect();
    assert_eq!(quanta, [1_514, 4_542, 3_028, 1_514]);
    let outcome = policy(&input, "csfq", &classes);
    for (share, expected) in shares(&outcome).iter().zip([1.0, 3.0, 2.0, 1.0]) {
        assert!((share * 7.0 / expected - 1.0).abs() < 0.3, "{share}: {expected}");
    }
}

#[test]
fn table_csv_and_plots_show_what_json_has() {
    let scratch = Scratch::with_packets(1);
    let input = capture(&scratch);
    let outcome = policy(&input, "red", &["--top", "2"]);
    let plots = ["queue.svg", "queue.html"].map(|name| scratch.text(name));
    let options = ["flows", "-r", &input, "--policy", "red", "--link", "10mbit", "--top", "2"];
    let csv = run(options.iter().chain(&["--format", "csv", "--plot", &plots[0]])).exits(0).text();
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    for (line, flow) in lines.clone().zip(outcome["flows"].as_array().unwrap()) {
        for (name, field) in names.iter().zip(line.split(',')) {
            let value = &flow[name];
            assert_eq!(field, value.as_str().map_or(value.to_string(), str::to_owned), "{name}");
        }
    }
    assert_eq!(lines.count(), 2);
    let lines = run(options.iter().chain(&["--format", "jsonl"])).exits(0).text();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    assert_eq!(lines.collect::<Vec<Value>>(), *outcome["flows"].as_array().unwrap());
    let table = run(options.iter().chain(&["--plot", &plots[1]])).exits(0).text();
    let jain = format!("Jain's index {:.3}", outcome["link"]["jain"].as_f64().unwrap());
    assert!(table.contains("10.0.0.1:7003") && table.contains(&jain), "{table}");
    assert!(table.contains("78,000 in = ") && !table.contains("10.0.0.1:7002"), "{table}");
    let [svg, html] = plots.map(|plot| fs::read_to_string(plot).unwrap());
    assert!(svg.starts_with("<svg ") && svg.contains("red-min") && html.contains(&svg));
    assert!(html.contains("Jain&#39;s index"), "{html}");
    if !data::has_program("script") {
        return;
    }
    let forebay = env!("CARGO_BIN_EXE_forebay");
    for columns in [80, 160] {
        let shown = format!("stty cols {columns}; NO_COLOR=1 {forebay} -q {}", options.join(" "));
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", &shown, "/dev/null"]).stdin(Stdio::null());
        let output = command.output().unwrap();
        let on_terminal = ran(&command, output).exits(0).text();
        let widest = on_terminal.lines().map(|line| line.trim_end().chars().count()).max();
        assert!(widest.is_some_and(|widest| widest <= columns), "{on_terminal}");
        assert_eq!(on_terminal.contains("threshold"), columns > 80, "{on_terminal}");
    }
}

#[test]
fn wrong_use_of_policies_is_told() {
    let scratch = Scratch::with_packets(3);
    let red = ["--policy", "red", "--link", "1mbit"];
    let wrong: [(&[&str], &[&str]); 13] = [
        (&["--policy", "red"], &["--link"]),
        (&["--link", "10mbit"], &["--policy"]),
        (&["--quantum", "1000"], &["--policy"]),
        (&[&red[..], &["--idle-timeout", "5s"]].concat(), &["--idle-timeout", "--policy"]),
        (&["--policy", "fifo", "--link", "10mbit"], &["fifo", "red, csfq, drr"]),
        (&["--policy", "red", "--link", "10"], &["`10` is no link rate", "like 10mbit"]),
        (&["--policy", "red", "--link", "0mbit"], &["`0mbit` is no link rate"]),
        (&[&red[..], &["--quantum", "1000"]].concat(), &["--quantum is an option of --policy drr"]),
        (&[&red[..], &["--buffer", "10B"]].concat(), &["10 bytes", "64 bytes to 1 GiB"]),
        (
            &[&red[..], &["--red-min", "64KiB", "--red-max", "32KiB"]].concat(),
            &["65536 and 32768 bytes", "above it"],
        ),
        (&[&red[..], &["--class", "0=ip"]].concat(), &["a weight from 1 to 1000"]),
        (&[&red[..], &["--class", "2=prot"]].concat(), &["prot"]),
        (&[&red[..], &["--plot", "queue.pdf"]].concat(), &["queue.pdf", ".svg or .html"]),
    ];
    for (options, parts) in wrong {
        let input = ["flows", "-r", &scratch.input];
        run(input.iter().chain(options)).exits(2).says(parts);
    }
    let input = ["flows", "-r", &scratch.input, "--class", "2=@nowhere.rules"];
    run(input.iter().chain(&red)).exits(1).says(&["cannot read nowhere.rules"]);
}

#[test]
fn a_capture_without_packets_or_in_any_order_has_a_result() {
    let scratch = Scratch::with_packets(1);
    let pcap = Pcap::of(ETHERNET);
    let empty = scratch.file("empty.pcap", &pcap.header());
    let mut file = pcap.header();
    for (time, frame) in
        [5_000_000_000, 1_000_000_000, 6_000_000_000].iter().zip(make::datagrams(3))
    {
        file.extend(pcap.record(*time, &frame, frame.len() as u32));
    }
    let mixed = scratch.file("mixed.pcap", &file);
    for name in ["red", "csfq", "drr"] {
        let outcome = policy(&empty, name, &[]);
        assert_eq!(
            (number(&outcome["link"]["offered"]["packets"]), &outcome["link"]["jain"]),
            (0, &Value::Null)
        );
        let outcome = policy(&mixed, name, &[]);
        assert_eq!(number(&outcome["link"]["late_packets"]), 1);
        let told =
            run(["flows", "-r", &mixed, "--policy", name, "--link", "1gbit"]).exits(0).text();
        assert!(told.contains("1 packets have time stamps before"), "{told}");
    }
}
