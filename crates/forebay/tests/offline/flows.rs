//! `forebay flows`: Community IDs against the published baselines, sums against the
//! capture, and one content in three forms.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::command::{ran, run};
use crate::support::data;
use forebay_io::date::iso8601;
use forebay_testkit::capture::{self, Packet};
use forebay_testkit::independent::{Identity, identities};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

fn flows(capture: &Path, options: &[&str]) -> Vec<Value> {
    let mut arguments = vec!["flows", "-r", capture.to_str().unwrap(), "--json"];
    arguments.extend(options);
    let outcome = run(arguments).exits(0).json();
    outcome["flows"].as_array().unwrap().clone()
}

fn number(flow: &Value, name: &str) -> u64 {
    flow[name].as_u64().unwrap_or_else(|| panic!("{name} of {flow}"))
}

fn text<'a>(flow: &'a Value, name: &str) -> &'a str {
    flow[name].as_str().unwrap_or_else(|| panic!("{name} of {flow}"))
}

/// The captures of the Community ID specification, except the one that holds all others.
fn specification() -> Option<(PathBuf, Vec<PathBuf>)> {
    let folder = data::external()?.join("captures/corelight__community-id-spec");
    let captures = fs::read_dir(folder.join("pcaps")).unwrap().map(|entry| entry.unwrap().path());
    let mut captures: Vec<PathBuf> = captures.collect();
    captures.sort();
    assert_eq!(captures.len(), 9);
    Some((folder, captures))
}

#[test]
fn community_ids_are_those_of_the_specification() {
    let Some((folder, captures)) = specification() else { return };
    for (seed, baseline) in [("0", "baseline_deflt.json"), ("1", "baseline_seed1.json")] {
        let text = fs::read(folder.join("baseline").join(baseline)).unwrap();
        let baseline: Vec<Value> = serde_json::from_slice(&text).unwrap();
        let id = |one: &Value| one["communityid"].as_str().map(str::to_owned);
        let expected: BTreeSet<String> = baseline.iter().filter_map(id).collect();
        let listed = captures.iter().flat_map(|file| flows(file, &["--seed", seed]));
        let found: BTreeSet<String> =
            listed.filter_map(|flow| flow["community_id"].as_str().map(str::to_owned)).collect();
        assert!(expected.len() > 10);
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn packets_and_bytes_add_up_to_the_capture() {
    let Some((_, mut captures)) = specification() else { return };
    captures.push(data::folder().join("mix/dev-mix.pcap"));
    for file in captures {
        let flows = flows(&file, &[]);
        let packets = capture::read(&file).packets;
        let sum = |a: &str, b: &str| flows.iter().map(|one| number(one, a) + number(one, b)).sum();
        let (count, bytes): (u64, u64) =
            (sum("packets_ab", "packets_ba"), sum("bytes_ab", "bytes_ba"));
        assert_eq!(count, packets.len() as u64, "{}", file.display());
        let expected: u64 = packets.iter().map(|one| u64::from(one.wire_len)).sum();
        assert_eq!(bytes, expected, "{}", file.display());
        for flow in &flows {
            assert!(number(flow, "packets_ab") > 0, "the first packet goes from a to b: {flow}");
            assert!(text(flow, "first") <= text(flow, "last"), "{flow}");
            assert!(
                !text(flow, "proto").is_empty() && flow["a"].is_string() && flow["b"].is_string()
            );
        }
    }
}

/// The source of a TCP or UDP packet whose Ethernet and IPv4 headers are the shortest.
fn plain_source(packet: &Packet) -> Option<(IpAddr, u16)> {
    let data = packet.data.get(..36)?;
    let is_fragment = u16::from_be_bytes([data[20], data[21]]) & 0x3fff != 0;
    let is_plain = packet.link == 1 && data[12..15] == [8, 0, 0x45] && !is_fragment;
    let address: [u8; 4] = data[26..30].try_into().unwrap();
    let source = (IpAddr::from(address), u16::from_be_bytes([data[34], data[35]]));
    (is_plain && matches!(data[23], 6 | 17)).then_some(source)
}

#[test]
fn times_of_each_direction_are_those_of_another_count() {
    let file = data::folder().join("mix/dev-mix.pcap");
    let capture = capture::read(&file);
    // Of flows that have only plain packets: the first and last time of packets from each end.
    let mut counted: HashMap<Identity, Option<[Option<[u64; 2]>; 2]>> = HashMap::new();
    for (packet, identity) in capture.packets.iter().zip(identities(&capture)) {
        let Some(identity) = identity else { continue };
        let times = counted.entry(identity).or_insert(Some([None; 2]));
        let end = plain_source(packet)
            .and_then(|source| identity.ends.iter().position(|&end| end == source));
        match (times, end) {
            (Some(times), Some(end)) => {
                let [first, last] = times[end].unwrap_or([packet.nanos; 2]);
                times[end] = Some([first.min(packet.nanos), last.max(packet.nanos)]);
            }
            (times, _) => *times = None,
        }
    }
    let flows = flows(&file, &[]);
    let named = |flow| ((text(flow, "proto"), text(flow, "a"), text(flow, "b")), flow);
    let shown: HashMap<(&str, &str, &str), &Value> = flows.iter().map(named).collect();
    let (mut compared, mut both_ways) = (0_usize, 0_usize);
    for (identity, times) in &counted {
        let Some(times) = times else { continue };
        let proto = if identity.protocol == 6 { "tcp" } else { "udp" };
        let [low, high] = identity.ends.map(|(address, port)| format!("{address}:{port}"));
        let as_shown = shown.get(&(proto, low.as_str(), high.as_str())).map(|flow| (flow, *times));
        let reversed = || {
            shown
                .get(&(proto, high.as_str(), low.as_str()))
                .map(|flow| (flow, [times[1], times[0]]))
        };
        let (flow, expected) = as_shown.or_else(reversed).unwrap();
        let names = [["first_ab", "last_ab"], ["first_ba", "last_ba"]];
        for (names, times) in names.iter().zip(expected) {
            for (n, name) in names.iter().enumerate() {
                let time = times.map(|times| iso8601(times[n].cast_signed()).into());
                assert_eq!(flow[name], time.unwrap_or(Value::Null), "{name} of {flow}");
            }
        }
        compared += 1;
        both_ways += usize::from(expected.iter().all(Option::is_some));
    }
    assert!(compared > data::at_least(1_000, 200) && both_ways > data::at_least(300, 50));
}

#[test]
fn csv_says_what_json_says() {
    let folder = data::folder();
    let file = folder.join("mix/dev-mix.pcap");
    // As the flows of the capture, and as records of which most end while it is read.
    for options in [&[][..], &["--idle-timeout", "1ms"]] {
        csv_is_json(&file, options);
    }
}

fn csv_is_json(file: &Path, options: &[&str]) {
    let in_format = |format| {
        let command = ["flows", "-q", "-r", file.to_str().unwrap(), "--format", format];
        run(command.iter().chain(options)).exits(0).text()
    };
    let csv = in_format("csv");
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let expected = "community_id,proto,a,b,packets_ab,packets_ba,bytes_ab,bytes_ba,first,last,\
                    tcp_flags_ab,tcp_flags_ba,ended,first_ab,last_ab,first_ba,last_ba";
    assert_eq!(names.join(","), expected);
    let flows: Vec<Value> =
        in_format("jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(flows, self::flows(file, options));
    assert!(flows.len() > data::at_least(2_000, 400) && lines.clone().count() == flows.len());
    for (line, flow) in lines.zip(&flows) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), names.len(), "{line}");
        for (name, field) in names.iter().zip(fields) {
            let value = match &flow[name] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(field, value, "{name} of {flow}");
        }
    }
}

/// The rows of a Parquet file, by column.
fn parquet_rows(file: &Path) -> Vec<Vec<(String, Field)>> {
    let reader = SerializedFileReader::new(fs::File::open(file).unwrap()).unwrap();
    let row = |row: Result<parquet::record::Row, _>| row.unwrap().into_columns();
    reader.get_row_iter(None).unwrap().map(row).collect()
}

#[test]
fn parquet_says_what_json_says() {
    let capture = data::folder().join("mix/dev-mix.pcap");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("flows.parquet");
    let [capture_name, name] = [&capture, &file].map(|path| path.to_str().unwrap());
    for options in [&[][..], &["--idle-timeout", "1ms"], &["--top", "3"]] {
        let command = ["flows", "-r", capture_name, "--format", "parquet", "-w", name, "--json"];
        let said = run(command.iter().chain(options)).exits(0).json();
        let (rows, flows) = (parquet_rows(&file), flows(&capture, options));
        assert_eq!((said["records"].as_u64(), rows.len()), (Some(rows.len() as u64), flows.len()));
        for (row, flow) in rows.iter().zip(&flows) {
            assert_eq!(row.len(), 19, "{flow}");
            for (name, field) in row {
                let value = match field {
                    Field::Null => Value::Null,
                    Field::Str(text) => text.as_str().into(),
                    Field::ULong(number) => (*number).into(),
                    Field::UShort(port) => (*port).into(),
                    // Times, which the reader gives as numbers.
                    Field::Long(nanos) => iso8601(*nanos).into(),
                    other => panic!("{name}: {other:?}"),
                };
                assert_eq!(value, flow[name], "{name} of {flow}");
            }
        }
    }
}

#[test]
fn a_file_of_flows_is_named_and_refused_like_other_outputs() {
    let capture = data::folder().join("mix/dev-mix.pcap");
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.pcap");
    fs::copy(&capture, &copy).unwrap();
    let file = folder.path().join("flows.csv");
    let [copy_name, name] = [&copy, &file].map(|path| path.to_str().unwrap());
    let flows = |more: &[&str]| run(["flows", "-q", "-r", copy_name].iter().chain(more));
    let printed = flows(&["--format", "csv"]).exits(0).text();
    flows(&["--format", "csv", "-w", name]).exits(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), printed);
    let few = flows(&["--format", "csv", "-c", "5", "-w", "-"]).exits(0).text();
    let sum = |line: &str| -> u64 {
        line.split(',').skip(4).take(2).map(|count| count.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(few.lines().skip(1).map(sum).sum::<u64>(), 5);
    for (wrong, status, said) in [
        (&["-w", name][..], 2, "expected --format csv, jsonl or parquet"),
        (&["--format", "parquet"], 2, "expected -w"),
        (&["--format", "csv", "-w", copy_name], 1, "is the input"),
        (&["--format", "csv", "-w", "/nothing/x.csv"], 1, "cannot write /nothing/x.csv"),
        (&["--policy", "drr", "--link", "1mbit", "--format", "parquet"], 2, "--policy"),
    ] {
        let refused = flows(wrong);
        assert!(refused.stderr.contains(said), "{wrong:?}: {}", refused.stderr);
        refused.exits(status);
    }
    // A capture that is cut off has the flows of the packets before that.
    let bytes = fs::read(&copy).unwrap();
    fs::write(&copy, &bytes[..bytes.len() - 10]).unwrap();
    flows(&["--format", "csv", "-w", name]).exits(1);
    let rest = fs::read_to_string(&file).unwrap().lines().count();
    assert!(rest > 1 && rest <= printed.lines().count());
}

#[test]
fn records_end_by_timeouts_and_for_want_of_room_and_no_packet_is_lost() {
    let file = data::folder().join("mix/dev-mix.pcap");
    let packets = |flows: &[Value]| -> u64 {
        flows.iter().map(|one| number(one, "packets_ab") + number(one, "packets_ba")).sum()
    };
    let whole = flows(&file, &[]);
    assert!(whole.iter().all(|flow| flow["ended"].is_null()));
    for (options, reasons) in [
        (&["--idle-timeout", "1ms"][..], &["idle", "closed"][..]),
        (&["--active-timeout", "10ms"], &["active"]),
        (&["--max-flows", "40"], &["evicted"]),
    ] {
        let records = flows(&file, options);
        let ended: BTreeSet<&str> =
            records.iter().filter_map(|one| one["ended"].as_str()).collect();
        assert_eq!(ended, BTreeSet::from_iter(reasons.iter().copied()), "{options:?}");
        assert!(records.len() > whole.len(), "{options:?}");
        assert_eq!(packets(&records), packets(&whole), "{options:?}");
        let open = records.iter().filter(|one| one["ended"].is_null()).count();
        assert!(options[0] != "--max-flows" || open <= 40, "{open} open");
    }
    let few = ["flows", "-r", file.to_str().unwrap(), "--max-flows", "40", "--top", "3"];
    let few = few.into_iter().chain(["--format", "csv"]);
    let outcome = run(few).exits(0);
    assert!(outcome.stderr.contains("(--max-flows)"), "{}", outcome.stderr);
    assert_eq!(outcome.text().lines().count(), 4);
}

#[test]
fn limits_of_flows_have_bounds() {
    for wrong in [["--max-flows", "0"], ["--max-flows", "1073741825"], ["--idle-timeout", "5"]] {
        run(["flows", "-r", "none.pcap", wrong[0], wrong[1]]).exits(2);
    }
}

#[test]
fn top_lists_the_largest_flows_largest_first() {
    let folder = data::folder();
    let file = folder.join("mix/dev-mix.pcap");
    let bytes = |flow: &Value| number(flow, "bytes_ab") + number(flow, "bytes_ba");
    let mut all: Vec<u64> = flows(&file, &[]).iter().map(bytes).collect();
    all.sort_unstable();
    let expected: Vec<u64> = all.into_iter().rev().take(7).collect();
    let top: Vec<u64> = flows(&file, &["--top", "7"]).iter().map(bytes).collect();
    assert_eq!(top, expected);
    assert!(flows(&file, &["--top", "0"]).is_empty());
}

#[test]
fn the_table_has_a_line_for_each_flow_and_fits_the_terminal() {
    let folder = data::folder();
    let file = folder.join("mix/dev-mix.pcap");
    let table = run(["flows", "-r", file.to_str().unwrap()]).exits(0).text();
    let flows = flows(&file, &[]);
    assert!(table.lines().count() > flows.len() && !table.contains('\u{1b}'));
    for flow in &flows {
        assert!(table.contains(text(flow, "a")), "{flow}");
    }
    if !data::has_program("script") {
        return;
    }
    let forebay = env!("CARGO_BIN_EXE_forebay");
    for columns in [80, 200] {
        let shown = format!(
            "stty cols {columns}; NO_COLOR=1 {forebay} -q flows --top 20 -r '{}'",
            file.display()
        );
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", &shown, "/dev/null"]).stdin(Stdio::null());
        let output = command.output().unwrap();
        let on_terminal = ran(&command, output).exits(0).text();
        let widest = on_terminal.lines().map(|line| line.trim_end().chars().count()).max();
        assert!(on_terminal.lines().count() > 20, "{on_terminal}");
        assert!(widest.is_some_and(|widest| widest <= columns), "{on_terminal}");
        assert_eq!(on_terminal.contains("community id"), columns > 80, "{on_terminal}");
    }
}

/// Where the flows of nDPI's tests differ from ours: it counts IP packets only, and none that is
/// a later fragment or that says to be longer than its frame.
const DIFFERENT: [(&str, Difference); 4] = [
    ("fuzz-2006-09-29-28586.pcap", Difference { not_ip: 8, fragments_only: 1, packets: 6 }),
    ("icmp-tunnel.pcap", Difference { not_ip: 1, fragments_only: 0, packets: 0 }),
    (
        "ndpi_match_string_subprotocol__error.pcapng",
        Difference { not_ip: 0, fragments_only: 0, packets: 1 },
    ),
    ("tcp_scan.pcapng", Difference { not_ip: 2, fragments_only: 0, packets: 0 }),
];

/// What we count and nDPI does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Difference {
    /// Flows that are not IP.
    not_ip: usize,
    /// IP flows of later fragments alone.
    fragments_only: usize,
    /// Packets of IP that are later fragments, or longer than their frames.
    packets: u64,
}

/// The packets of each flow that nDPI lists: `[5 pkts/678 bytes <-> 3 pkts/290 bytes]`.
fn listed_by_ndpi(result: &Path) -> Vec<u64> {
    let text = String::from_utf8_lossy(&fs::read(result).unwrap()).into_owned();
    let packets = |line: &str| -> Option<u64> {
        let (before, _) = line.strip_prefix('\t')?.split_once(" pkts/")?;
        let there = before.rsplit('[').next()?.parse::<u64>().ok()?;
        let (before, _) = line.rsplit_once(" pkts/")?;
        Some(there + before.rsplit(' ').next()?.parse::<u64>().ok()?)
    };
    let mut flows: Vec<u64> = text.lines().filter_map(packets).collect();
    flows.sort_unstable();
    flows
}

/// Whether nDPI passes over an Ethernet frame with IPv4: a later fragment, or one that says to
/// be longer than it is.
fn is_passed_over(frame: &[u8]) -> bool {
    let Some(([0x08, 0x00, 0x45..=0x4f, _, rest @ ..], len)) =
        frame.get(12..).map(|from_type| (from_type, frame.len() - 14))
    else {
        return false;
    };
    let [high, low, _, _, flags, offset, ..] = *rest else { return false };
    let total = usize::from(u16::from_be_bytes([high, low]));
    flags & 0x1f != 0 || offset != 0 || total > len
}

#[test]
fn flows_and_their_packets_are_those_that_ndpi_counts() {
    let Some(folder) = data::external().map(|data| data.join("captures/ntop__nDPI")) else {
        return;
    };
    let mut captures = 0;
    let mut different = Vec::new();
    for result in fs::read_dir(folder.join("result")).unwrap().map(|entry| entry.unwrap().path()) {
        let name = result.file_stem().unwrap().to_str().unwrap().to_owned();
        let file = folder.join("cfgs/default/pcap").join(&name);
        let ours = flows(&file, &[]);
        let size = |flow: &Value| number(flow, "packets_ab") + number(flow, "packets_ba");
        let ip = ours.iter().filter(|flow| flow["community_id"].is_string());
        let mut sizes: Vec<u64> = ip.map(size).collect();
        sizes.sort_unstable();
        let theirs = listed_by_ndpi(&result);
        let difference = Difference {
            not_ip: ours.len() - sizes.len(),
            fragments_only: sizes.len() - theirs.len(),
            packets: sizes.iter().sum::<u64>() - theirs.iter().sum::<u64>(),
        };
        let packets = capture::read(&file).packets;
        let passed_over = packets.iter().filter(|one| is_passed_over(&one.data)).count();
        assert_eq!(difference.packets, passed_over as u64, "{name}");
        if difference.packets == 0 {
            assert_eq!(sizes, theirs, "{name}");
        }
        if difference != Difference::default() {
            different.push((name, difference));
        }
        captures += 1;
    }
    assert_eq!(captures, 145);
    different.sort_by(|(one, _), (other, _)| one.cmp(other));
    assert_eq!(different, DIFFERENT.map(|(name, difference)| (name.to_owned(), difference)));
}
