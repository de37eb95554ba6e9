//! `forebay rules`: what is found in lists, which rule decides about packets, and what
//! other languages become.

use std::fs;
use std::process::Command;

use crate::support::command::{Ran, ran, run, run_with_input};
use crate::support::data;
use crate::support::scratch::Scratch;
use forebay_packet::flow::AddressKind;
use forebay_packet::{DecodeOptions, Decoder, LinkType};
use forebay_rules::Key;
use forebay_testkit::capture;
use forebay_testkit::make::{self, ETHERNET, Pcap};
use serde_json::Value;

/// The filters of a small site, with a mistake in lines 6, 8 and 9.
const EDGE: &str = "\
# what the site lets in
ip filter 10 reject 192.168.0.0/16
ip filter 20 pass * 198.51.100.0/24 established
ip filter 30 pass * 198.51.100.10 tcp * www,https
ip filter 40 pass * 198.51.100.53 udp,tcp * domain
ip filter 50 reject * 198.51.100.10 tcp * www   # comes too late
ip filter 60 pass * 198.51.100.0/24 icmp 8
ip filter 70 pass * * gre * 1723
ip filter 80 reject 192.168.7.0/24
ipv6 filter 10 pass * 2001:db8:1::/48 icmp
ip lan1 secure filter in 10 20 30 40 50 60 70 80
ipv6 lan1 secure filter in 10
ip lan2 secure filter in 20 30
";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// Runs `forebay rules VERB FILE OPTIONS`.
fn rules(verb: &str, file: &str, options: &[&str]) -> Ran {
    run(["rules", verb, file].iter().chain(options))
}

#[test]
fn a_check_names_line_rule_and_cause_and_shows_a_packet() {
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("edge.rules", EDGE.as_bytes());
    let ran = rules("check", &file, &["--list", "lan1:in"]).exits(1).says(&[&file, "2 errors"]);
    let text = ran.text();
    let line = |line: usize| {
        let start = format!("{file}:{line}: ");
        let found = text.lines().find_map(|text| text.strip_prefix(&start));
        found.unwrap_or_else(|| panic!("no line {line} in: {text}"))
    };
    assert!(line(6).starts_with("error: lan1:in: ") && line(6).contains("rule 30"), "{text}");
    assert!(line(8).starts_with("error: lan1:in: ") && line(8).contains("never matches"), "{text}");
    assert!(line(9).starts_with("warning: lan1:in: ") && line(9).contains("rule 10"), "{text}");
    assert!(text.contains("198.51.100.10:80"), "{text}");
    let json = run(["rules", "check", &file, "--list", "lan1:in", "--json"]).exits(1);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    let shadowed: Vec<_> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["kind"] == "shadowed")
        .map(|finding| {
            (number(&finding["rule"]["number"]), number(&finding["causes"][0]["number"]))
        })
        .collect();
    assert_eq!(shadowed, [(50, 30), (80, 10)]);
    assert_eq!(json["lists"][0]["rules"], 9);
}

#[test]
fn a_list_without_mistakes_passes_the_check() {
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("edge.rules", EDGE.as_bytes());
    let ran = rules("check", &file, &["--list", "lan2:in"]).exits(0);
    assert_eq!(ran.text(), "2 rules: 0 errors, 0 warnings, 0 notes\n");
    let both = rules("check", &file, &[]).exits(1).text();
    assert!(both.contains("lan1:in: ") && both.contains("11 rules: 2 errors"), "{both}");
    let noted = "ip filter 1 pass * * tcp * 80\nip filter 2 reject * * tcp\n";
    let file = scratch.file("noted.rules", noted.as_bytes());
    let [few, all] = [&[][..], &["--notes"]].map(|options| rules("check", &file, options).text());
    assert!(all.contains("note: ") && !few.contains("note: "), "{few}{all}");
}

#[test]
fn what_is_no_list_is_refused_by_file_and_line() {
    let scratch = Scratch::with_packets(3);
    let file = scratch.file("bad.rules", b"ip filter 1 pass *\n\nip filter 2 pass 10.0.0.0/33\n");
    let place = format!("{file}:3: found \"10.0.0.0/33\", expected");
    rules("check", &file, &[]).exits(1).says(&[&place]);
    rules("match", &file, &["-r", &scratch.input]).exits(1).says(&[&place]);
    let packet = ["--packet", "tcp 10.0.0.1 > 10.0.0.2"];
    rules("explain", &file, &packet).exits(1).says(&[&place]);
    for (language, text, place) in [
        ("classbench", "@1.2.3.4/32 x\n", ":1: found \"x\", expected a destination prefix"),
        ("cisco", "\naccess-list 101 permit ip any any fragments\n", ":2: found \"fragments\","),
        (
            "iptables",
            "*filter\n:INPUT DROP\n-A INPUT -i lo -j DROP\nCOMMIT",
            ":3: found \"-i lo\",",
        ),
        ("nftables", "{\"nftables\": 7}", ":1: found column 14: invalid type: integer `7`,"),
    ] {
        let file = scratch.file("foreign", text.as_bytes());
        let ran = rules("import", &file, &["--from", language]).exits(1);
        assert!(ran.says(&[&format!("{file}{place}")]).stdout.is_empty());
    }
    let odd = (0..300).map(|n| (2 * n + 1).to_string()).collect::<Vec<_>>().join(",");
    let text = format!("# none\nipv6 filter 9 pass * * tcp {odd} {odd}\n");
    let file = scratch.file("wide.rules", text.as_bytes());
    let said = "IPv6 rule 9: its lists make 90000 combinations, expected at most 65536";
    let said = format!("{file}:2: {said}");
    rules("match", &file, &["-r", &scratch.input, "--engine", "naive"]).exits(1).says(&[&said]);
    // Open octets, which every packet comes near: the first such rule is in line 3.
    let open = |n: u32| format!("ip filter {n} pass *.{}.7.9 *.1.{}.3 *\n", n % 256, n * 7 % 256);
    let text = "# none\nip filter 1 pass 10.0.0.1\n".to_owned()
        + &(2..=500).map(open).collect::<String>()
        + "ip filter 501 pass 10.0.0.2\n"
        + &format!(
            "ip lan1 secure filter in {}\n",
            (1..=501).map(|n| format!("{n} ")).collect::<String>()
        );
    let file = scratch.file("slow.rules", text.as_bytes());
    let place = format!("{file}:3: lan1:in: the list would be matched at about ");
    let worst = "rule 2 has most combinations of address and port ranges, 65536";
    rules("check", &file, &[]).exits(1).says(&[&place, worst]);
    rules("match", &file, &["-r", &scratch.input]).exits(1).says(&[&place, worst]);
    let missing = scratch.text("missing");
    rules("check", &missing, &[]).exits(1).says(&[&missing]);
    rules("match", &missing, &["--trace", &missing]).exits(1).says(&[&missing]);
    rules("import", &missing, &["--from", "cisco"]).exits(1).says(&[&missing]);
    let latin = scratch.file("latin", b"ip filter 1 pass *\n# caf\xe9\nip filter 2 pass *\n");
    let place = format!("{latin}:2: found byte 0xe9, expected text in UTF-8");
    rules("check", &latin, &[]).exits(1).says(&[&place]);
    rules("import", &latin, &["--from", "iptables"]).exits(1).says(&[&place]);
}

#[test]
fn wrong_use_is_told_before_anything_is_done() {
    let scratch = Scratch::with_packets(3);
    let file = scratch.file("edge.rules", EDGE.as_bytes());
    let read = ["-r", &scratch.input];
    rules("match", &file, &read).exits(2).says(&[&file, "--list: lan1:in (9 rules), lan2:in"]);
    let packet = ["--packet", "tcp 10.0.0.1 > 10.0.0.2"];
    rules("explain", &file, &packet)
        .exits(2)
        .says(&["--list: lan1:in (9 rules), lan2:in (2 rules)"]);
    let wrong = rules("check", &file, &["--list", "lan9:in"]).exits(2);
    wrong.says(&["--list lan9:in", "lan1:in (9 rules), lan2:in (2 rules)"]);
    let one = scratch.file("one.rules", b"ip filter 1 pass *\n");
    rules("check", &one, &["--list", "lan1:in"]).exits(2).says(&["names no list"]);
    assert_eq!(rules("match", &one, &[]).status, 2);
    assert_eq!(rules("match", &one, &["-r", &scratch.input, "--trace", &one]).status, 2);
    rules("match", "-", &["-r", "-"]).exits(2).says(&["`-`, not both"]);
    let packet = ["--packet", "tcp 10.0.0.1:80 > 10.0.0.2 ack"];
    rules("explain", &one, &packet).exits(2).says(&["--packet: column 19: ", "at both ends"]);
    let lists = "access-list 101 permit ip any any\naccess-list 102 permit ip any any\n";
    let lists = scratch.file("two.lists", lists.as_bytes());
    let ran = rules("import", &lists, &["--from", "cisco"]).exits(2);
    ran.says(&["several lists", "101 (1 rule), 102 (1 rule)"]);
    rules("import", &lists, &["--from", "cisco", "--ipv6"]).exits(2).says(&["--ipv6"]);
    rules("import", &lists, &["--from", "cisco", "--list", "7"]).exits(2).says(&["101 (1 rule)"]);
    let empty = scratch.file("empty", b"");
    rules("import", &empty, &["--from", "iptables"]).exits(2).says(&["no list"]);
}

#[test]
fn verdicts_are_the_numbers_of_the_rules() {
    let scratch = Scratch::with_packets(0);
    let text = "ip filter 2 pass * * udp 1024-1033\nip filter 7 reject 10.1.0.0/28\n";
    let file = scratch.file("short.rules", text.as_bytes());
    let mut frames = make::datagrams(20);
    // ARP, which no rule is for, and a later fragment, which has no port.
    frames.push([&[0xff; 12][..], &[8, 6], &[0; 28]].concat());
    frames.push(make::ipv4([10, 1, 0, 3], [192, 0, 2, 1], 9, 3, &[4, 0, 0, 53, 0, 8, 0, 0]));
    let input = scratch.file("packets.pcap", &Pcap::of(ETHERNET).file(&frames));
    let mut expected: Vec<&str> = vec!["2"; 10];
    expected.extend(["7"; 6]);
    expected.extend(["-", "-", "-", "-", "-", "7"]);
    let verdicts = rules("match", &file, &["-r", &input, "--verdicts"]).exits(0).text();
    assert_eq!(verdicts.lines().collect::<Vec<_>>(), expected);

    let options = ["-r", &input, "--verdicts", "--json"];
    let json = rules("match", &file, &options).exits(0).json();
    let listed: Vec<String> =
        json["verdicts"].as_array().unwrap().iter().map(Value::to_string).collect();
    let nulls = expected.iter().map(|verdict| if *verdict == "-" { "null" } else { verdict });
    assert!(listed.iter().map(String::as_str).eq(nulls), "{json}");
    let bytes = |range: std::ops::Range<usize>| -> u64 {
        frames[range].iter().map(|frame| frame.len() as u64).sum()
    };
    let rule = |index: usize| {
        let rule = &json["rules"][index];
        (number(&rule["number"]), number(&rule["packets"]), number(&rule["bytes"]))
    };
    assert_eq!(rule(0), (2, 10, bytes(0..10)));
    assert_eq!(rule(1), (7, 7, bytes(10..16) + bytes(21..22)));
    assert_eq!(
        (number(&json["default"]["packets"]), number(&json["default"]["bytes"])),
        (4, bytes(16..20))
    );
    assert_eq!(
        (number(&json["not_ip"]["packets"]), &json["default"]["action"]),
        (1, &"reject".into())
    );

    let table = rules("match", &file, &["-r", &input]).exits(0).text();
    let rows: Vec<Vec<&str>> =
        table.lines().skip(2).map(|line| line.split_whitespace().take(2).collect()).collect();
    assert_eq!(rows, [["2", "10"], ["7", "7"], ["-", "4"], ["-", "1"], ["all", "22"]]);
    let from_stdin =
        run_with_input(["rules", "match", "-", "-r", &input, "--verdicts"], text.as_bytes());
    assert_eq!(from_stdin.exits(0).text(), verdicts);
}

#[test]
fn a_rule_of_many_combinations_is_matched_by_its_ranges() {
    let scratch = Scratch::with_packets(0);
    let odd = (0..300).map(|n| (2 * n + 1).to_string()).collect::<Vec<_>>().join(",");
    let text = format!("ip filter 8 reject * * udp 7 *\nip filter 9 pass * * udp {odd} {odd}\n");
    let file = scratch.file("wide.rules", text.as_bytes());
    let ends = |(from, to)| make::udp(([10, 1, 0, 1], from), ([192, 0, 2, 1], to), &[7; 4]);
    let ports = [(1, 53), (2, 53), (5, 52), (7, 53), (599, 599), (599, 601), (601, 1), (0, 0)];
    let input = scratch.file("ports.pcap", &Pcap::of(ETHERNET).file(&ports.map(ends)));
    for engine in ["tree", "auto"] {
        let options = ["-r", &input, "--verdicts", "--engine", engine];
        let verdicts = rules("match", &file, &options).exits(0).text();
        let expected = ["9", "-", "-", "8", "9", "-", "-", "-"];
        assert_eq!(verdicts.lines().collect::<Vec<_>>(), expected, "{engine}");
    }
}

#[test]
fn every_engine_says_the_same() {
    let folder = data::folder();
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("edge.rules", EDGE.as_bytes());
    let wide = "ip filter 1 pass * * tcp * 1-1023\nip filter 2 reject 10.0.0.0/8 * udp\n\
                ip filter 3 pass * * established\nip filter 4 pass * * icmp 8\n\
                ip filter 5 pass 192.168.0.0/16 *\nipv6 filter 9 pass * * udp * 53\n";
    let wide = scratch.file("wide.rules", wide.as_bytes());
    let mix = folder.join("mix/dev-mix.pcap");
    let mix = mix.to_str().unwrap();
    let mut matched = 0;
    for (file, list) in [(&file, &["--list", "lan1:in"][..]), (&wide, &[])] {
        let verdicts = |engine| {
            let options = [&["-r", mix, "--verdicts", "--engine", engine], list].concat();
            rules("match", file, &options).exits(0).text()
        };
        let expected = verdicts("naive");
        let of_list = expected.lines().filter(|line| *line != "-").count();
        // The addresses of the first list are in the larger data alone.
        assert!(of_list >= data::at_least(1, 0), "{file}: no rule matches");
        matched += of_list;
        for engine in ["list", "pe", "pe-generic", "pe-1", "ems", "tree", "auto"] {
            assert!(verdicts(engine) == expected, "{engine} on {file}");
        }
    }
    assert!(matched > 1_000, "rules match {matched} packets");
    let unknown = rules("match", &wide, &["-r", mix, "--engine", "fast"]);
    unknown.exits(2).says(&["fast", "naive"]);
}

#[test]
fn a_split_gives_sensors_what_the_rules_pass() {
    let scratch = Scratch::with_packets(0);
    let text = "ip filter 2 pass * * udp 1024-1033\nip filter 7 reject 10.1.0.0/28\n\
                ip filter 8 pass * *\nip lan1 secure filter in 2 7 8\nip lan1 secure filter out 8\n";
    let file = scratch.file("edge.rules", text.as_bytes());
    let mut frames = make::datagrams(20);
    frames.push([&[0xff; 12][..], &[8, 6], &[0; 28]].concat());
    let input = scratch.file("packets.pcap", &Pcap::of(ETHERNET).file(&frames));
    let folder = scratch.path("out");
    let arguments = ["split", "-r", &input, "-n", "1", "-o", folder.to_str().unwrap(), "--json"];
    let options = ["--rules", &file, "--list", "lan1:in"];
    let json = run(arguments.iter().chain(&options)).exits(0).json();
    let rows = json["ledger"].as_array().unwrap();
    let row = rows.iter().find(|row| row["stage"] == "rules").expect("a row of the rules");
    assert_eq!((number(&row["in"]), number(&row["out"])), (21, 15));
    assert_eq!(row["drops"], serde_json::json!({"rejected": 6}));
    // What is not IP is not the list's business.
    let kept = capture::read(folder.join("sensor-0.pcap")).packets;
    let kept: Vec<_> = kept.into_iter().map(|packet| packet.data).collect();
    let passed = |i: &usize| *i < 10 || *i >= 16;
    let expected: Vec<_> = (0..frames.len()).filter(passed).map(|i| frames[i].clone()).collect();
    assert_eq!(kept, expected);

    let several = run(arguments.iter().chain(&["--force", "--rules", &file]));
    several.exits(2).says(&["lan1:in (3 rules), lan1:out (1 rule)"]);
    let alone = run(arguments.iter().chain(&["--force", "--list", "lan1:in"]));
    alone.exits(2).says(&["--rules"]);
}

#[test]
fn verdicts_agree_with_libpcap_where_expressions_say_the_same() {
    let folder = data::folder();
    let scratch = Scratch::with_packets(0);
    // Expressions look neither behind tags and labels, as rules do, nor at the version.
    let plain = |one: &capture::Packet| {
        matches!(one.data.get(12..15), Some([8, 0, 0x40..=0x4f] | [0x86, 0xdd, 0x60..=0x6f]))
    };
    let packets = capture::read(folder.join("mix/dev-mix.pcap")).packets;
    let frames: Vec<Vec<u8>> = packets.into_iter().filter(plain).map(|one| one.data).collect();
    assert!(frames.len() > data::at_least(30_000, 3_500));
    let input = scratch.file("plain.pcap", &Pcap::of(ETHERNET).file(&frames));
    let cases = [
        ("ip filter 1 pass * * udp * 53", "ip and udp dst port 53"),
        ("ip filter 1 pass * * established", "ip and tcp[tcpflags] & tcp-ack != 0"),
        ("ip filter 1 pass * * tcpflag=0x02/0x12", "tcp[tcpflags] & (tcp-syn|tcp-ack) == tcp-syn"),
        ("ip filter 1 pass * * icmp 8", "icmp[icmptype] == 8"),
        ("ip filter 1 pass 192.168.0.0/16 *", "ip src net 192.168.0.0/16"),
        ("ip filter 1 pass * 10.0.0.0-10.0.0.127", "ip dst net 10.0.0.0/25"),
        (
            "ip filter 1 pass * * tcp 1024-65535 80,443",
            "ip and tcp src portrange 1024-65535 and (dst port 80 or dst port 443)",
        ),
        ("ip filter 1 pass * * 2,50", "ip proto 2 or ip proto 50"),
        ("ipv6 filter 1 pass fe80::/10", "ip6 src net fe80::/10"),
    ];
    for (rule, expression) in cases {
        let file = scratch.file("one.rules", rule.as_bytes());
        let ours = rules("match", &file, &["-r", &input, "--verdicts"]).exits(0).text();
        let theirs = run(["filter", "-r", &input, "--verdicts", expression]).exits(0).text();
        assert_eq!(ours.lines().count(), frames.len());
        for (i, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
            assert_eq!(ours == "1", theirs != "0", "{rule} and {expression}: packet {i}");
        }
    }
}

#[test]
fn keys_have_the_addresses_that_the_flow_decoder_finds() {
    let folder = data::folder();
    let options = DecodeOptions { tunnel_depth: 0, ..DecodeOptions::default() };
    let decoder = Decoder::new(options);
    let (mut equal, mut missed) = (0, 0);
    for indexed in data::captures(&folder) {
        let Ok(bytes) = fs::read(&indexed.path) else { continue };
        for packet in capture::parse(&bytes).packets {
            let link = LinkType(packet.link);
            let decoded = decoder.decode(link, &packet.data);
            let is_ip = matches!(decoded.key.kind, AddressKind::Ipv4 | AddressKind::Ipv6);
            let Some(key) = Key::of_packet(link, &packet.data) else {
                missed += usize::from(is_ip);
                continue;
            };
            // The decoder knows fewer kinds of link.
            if is_ip {
                let (low, high) = (decoded.key.low, decoded.key.high);
                let ends = if decoded.reversed { (high, low) } else { (low, high) };
                assert_eq!(
                    (key.source, key.destination),
                    ends,
                    "{}: {key}",
                    indexed.path.display()
                );
                equal += 1;
            }
        }
    }
    assert!(
        equal > data::at_least(100_000, 3_000) && missed == 0,
        "{equal} equal, {missed} missed"
    );
}

#[test]
fn imported_sets_find_the_first_matches_that_come_with_them() {
    let Some(folder) = data::external() else { return };
    let folder = folder.join("classbench/generated");
    let scratch = Scratch::with_packets(0);
    for set in ["acl1_1k", "fw1_1k", "ipc1_1k"] {
        // The expected matches leave flags out.
        let text = fs::read_to_string(folder.join(set)).unwrap();
        let without_flags = |line: &str| {
            let fields: Vec<&str> = line.split('\t').take(5).collect();
            format!("{}\t0x0000/0x0000\n", fields.join("\t"))
        };
        let foreign =
            scratch.file("set", text.lines().map(without_flags).collect::<String>().as_bytes());
        let imported = rules("import", &foreign, &["--from", "classbench"]).exits(0).text();
        let file = scratch.file("set.rules", imported.as_bytes());
        let trace = folder.join(format!("{set}_trace"));
        let options = ["--trace", trace.to_str().unwrap(), "--verdicts"];
        let verdicts = rules("match", &file, &options).exits(0).text();
        let expected = data::lines(&folder.join(format!("{set}_expected")));
        let expected: Vec<&str> =
            expected.iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
        let verdicts: Vec<&str> =
            verdicts.lines().map(|verdict| if verdict == "-" { "-1" } else { verdict }).collect();
        assert_eq!(verdicts, expected, "{set}");
        let json = rules("match", &file, &["--trace", trace.to_str().unwrap(), "--json"]).exits(0);
        let json = json.json();
        let hits = json["rules"].as_array().unwrap().iter().map(|rule| number(&rule["packets"]));
        assert_eq!(hits.sum::<u64>() + number(&json["default"]["packets"]), expected.len() as u64);
    }
}

#[test]
fn what_precedes_a_bad_header_of_a_trace_stands() {
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("one.rules", b"ip filter 5 pass * * tcp\n");
    let trace = scratch.file("trace", b"1 2 3 4 6 0 0\n1 2 3 4 17 0 0\n1 2 3 4 x\n1 2 3 4 6 0 0\n");
    let ran = rules("match", &file, &["--trace", &trace, "--verdicts"]).exits(1);
    assert_eq!(
        ran.says(&[&format!("{trace}:3: found \"x\", expected a protocol")]).text(),
        "5\n-\n"
    );
    let empty = scratch.file("empty", b"");
    let ran = rules("match", &file, &["--trace", &empty, "--json"]).exits(0);
    assert_eq!(number(&ran.json()["default"]["packets"]), 0);
}

#[test]
fn an_explanation_names_field_and_values_for_each_earlier_rule() {
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("edge.rules", EDGE.as_bytes());
    let packet = "tcp 203.0.113.9:40000 > 198.51.100.53:53 syn";
    let options = ["--list", "lan1:in", "--packet", packet];
    let text = rules("explain", &file, &options).exits(0).text();
    assert!(text.starts_with("pass by rule 40\n"), "{text}");
    for reason in [
        "  10  source address 203.0.113.9 is not in 192.168.0.0/16",
        "  20  TCP flags syn do not meet established",
        "  30  destination address 198.51.100.53 is not 198.51.100.10",
    ] {
        assert!(text.lines().any(|line| line == reason), "no {reason:?} in: {text}");
    }
    let json = rules("explain", &file, &["--list", "lan1:in", "--packet", packet, "--json"]);
    let json: Value = serde_json::from_slice(&json.exits(0).stdout).unwrap();
    assert_eq!((&json["action"], &json["packet"]), (&"pass".into(), &packet.into()));
    assert_eq!(json["rule"]["number"], 40);
    let earlier = json["earlier"].as_array().unwrap();
    let fields: Vec<_> = earlier.iter().map(|one| one["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["source", "tcp_flags", "destination"]);
    assert_eq!(
        (&earlier[1]["found"], &earlier[1]["wanted"]),
        (&"syn".into(), &"established".into())
    );

    let fragment = ["--list", "lan2:in", "--packet", "tcp 203.0.113.9 > 198.51.100.10"];
    let text = rules("explain", &file, &fragment).exits(0).text();
    assert!(text.starts_with("reject by default: no rule matches\n"), "{text}");
    assert!(text.contains("the packet has no TCP flags"), "{text}");
    assert!(text.contains("the packet has no destination port"), "{text}");
}

#[test]
fn lists_of_other_languages_are_printed_as_ours() {
    let scratch = Scratch::with_packets(0);
    let cases = [
        (
            "cisco",
            "access-list 101 permit tcp any any established\naccess-list 101 deny ip any any\n",
            "ip filter 10 pass * * tcpflag!=0x0000/0x0014 * *\nip filter 20 reject-nolog * * * * *\n",
        ),
        (
            "iptables",
            "# Generated by iptables-save\n*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -s 10.0.0.0/8 -j DROP\nCOMMIT\n",
            "ip filter 1 reject-nolog 10.0.0.0/8 * * * *\nip filter 2 pass * * * * *\n\
             ipv6 filter 1 pass * * * * *\n",
        ),
        (
            "iptables",
            "# Generated by ip6tables-save\n*filter\n:INPUT DROP\n-A INPUT -p icmpv6 -j ACCEPT\nCOMMIT\n",
            "ipv6 filter 1 pass * * icmp6 * *\n",
        ),
        (
            "iptables",
            "# Generated by ip6tables-nft-save v1.8.9\n*filter\n:INPUT DROP\n-A INPUT -j ACCEPT\nCOMMIT\n",
            "ipv6 filter 1 pass * * * * *\n",
        ),
        (
            "classbench",
            "@1.2.3.4/32\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000\n",
            "numbers from 0\nip filter 0 pass 1.2.3.4 * tcp * 80\n",
        ),
    ];
    for (language, text, ours) in cases {
        let file = scratch.file("foreign", text.as_bytes());
        let printed = rules("import", &file, &["--from", language]).exits(0).text();
        assert_eq!(printed, ours);
        let again = scratch.file("ours", printed.as_bytes());
        assert!(rules("check", &again, &[]).text().contains("0 errors"));
        let json = rules("import", &file, &["--from", language, "--json"]).exits(0);
        let json: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert_eq!(json["text"], ours);
    }
    let chains = "*filter\n:INPUT DROP\n:OUTPUT ACCEPT\n-A OUTPUT -p tcp -j DROP\nCOMMIT\n";
    let file = scratch.file("chains", chains.as_bytes());
    let options = ["--from", "iptables", "--list", "OUTPUT", "--ipv6"];
    let printed = rules("import", &file, &options).exits(0).text();
    assert!(printed.starts_with("ipv6 filter 1 reject-nolog * * tcp * *\n"), "{printed}");
}

/// A list that passes TCP to port 80 alone, in each language, and how it is chosen.
const WEB: [(&str, &str, &[&str]); 5] = [
    ("yamaha", "ip filter 1 pass * * tcp * 80\n", &[]),
    ("cisco", "access-list 101 permit tcp any any eq 80\n", &[]),
    (
        "iptables",
        "*filter\n:INPUT DROP\n:FORWARD DROP\n-A INPUT -p tcp -m tcp --dport 80 -j ACCEPT\nCOMMIT\n",
        &["--chain", "INPUT"],
    ),
    (
        "nftables",
        r#"{"nftables": [{"chain": {"family": "ip", "table": "t", "name": "in", "hook": "input",
            "policy": "drop"}}, {"rule": {"family": "ip", "table": "t", "chain": "in", "expr": [
            {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}},
            "right": 80}}, {"accept": null}]}}]}"#,
        &[],
    ),
    ("classbench", "@0.0.0.0/0 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000\n", &[]),
];

#[test]
fn every_command_takes_every_language_as_it_is() {
    let scratch = Scratch::with_packets(500);
    let mut answers = Vec::new();
    for (language, text, choice) in WEB {
        let file = scratch.file("foreign", text.as_bytes());
        let verdict = |port: u16| {
            let packet = format!("tcp 192.0.2.1:9 > 192.0.2.2:{port}");
            rules("explain", &file, &[choice, &["--packet", &packet]].concat()).exits(0).text()
        };
        assert!(verdict(80).starts_with("pass by rule "), "{language}: {}", verdict(80));
        assert!(verdict(81).starts_with("reject by default"), "{language}: {}", verdict(81));
        rules("check", &file, choice).exits(0);
        assert_eq!(
            rules("import", &file, choice).exits(0).text(),
            rules("import", &file, &[choice, &["--from", language]].concat()).exits(0).text()
        );
        let matched =
            rules("match", &file, &[choice, &["-r", &scratch.input, "--json"]].concat()).exits(0);
        let packets = matched.json()["default"]["packets"].clone();
        let into = scratch.text(language);
        let split = ["split", "-r", &scratch.input, "-n", "2", "-o", &into, "--rules", &file];
        let split = run([&split[..], choice, &["--json"]].concat()).exits(0).json();
        let rows = split["ledger"].as_array().unwrap();
        let row = rows.iter().find(|row| row["stage"] == "rules").unwrap();
        assert_eq!(row["drops"]["rejected"], packets, "{language}");
        answers.push(packets);
    }
    assert!(number(&answers[0]) > 0);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let split = ["split", "-r", &scratch.input, "-n", "2", "-o", "none", "--list", "a"];
    run(split).exits(2).says(&["--rules"]);
}

#[test]
fn a_broker_takes_every_language_and_places_what_is_wrong() {
    let scratch = Scratch::with_packets(0);
    let check = |list: &str, keys: &str| {
        let text = format!(
            "rules = \"{list}\"\n{keys}\n[[input]]\nname = \"a\"\ntype = \"af_packet\"\n\
             interface = \"a\"\n[[output]]\nname = \"o\"\ntype = \"af_packet\"\n\
             interface = \"o\"\n[[group]]\nname = \"g\"\noutput = \"o\"\n\
             [[group.sensor]]\nname = \"s\"\nmac = \"02:00:00:00:01:01\"\n"
        );
        let config = scratch.file("run.toml", text.as_bytes());
        run(["run", "--check=file", "-c", &config])
    };
    for (language, text, choice) in WEB {
        let file = scratch.file("foreign", text.as_bytes());
        let list = choice.get(1).map_or_else(String::new, |list| format!("rule_list = \"{list}\""));
        check(&file, &list).exits(0);
        check(&file, &format!("{list}\nrules_format = \"{language}\"")).exits(0);
        let other = if language == "cisco" { "nftables" } else { "cisco" };
        check(&file, &format!("rules_format = \"{other}\"")).exits(2).says(&[&file]);
        let cut = scratch.file("cut", text.replace("80", "80z").as_bytes());
        let line = 1 + text.lines().position(|line| line.contains("80")).unwrap();
        check(&cut, &list).exits(2).says(&[&format!("{cut}:{line}: found ")]);
    }
    let chains = scratch.file("chains", WEB[2].1.as_bytes());
    check(&chains, "").exits(2).says(&["several lists: choose with `rule_list`: INPUT (1 rule)"]);
    let other = scratch.file("other", b"what is this\n");
    check(&other, "").exits(2).says(&[&format!("{other}:1: found "), "`rules_format` names"]);
    let router = scratch.file("router.cfg", ROUTER);
    let keys = "rules_interface = \"Gi0/0\"\nrules_direction = \"in\"";
    check(&router, keys).exits(2).says(&[&format!("{router}:9: found \"time-range T\"")]);
    let met = check(&router, &format!("{keys}\nrules_unsupported = \"met\"")).exits(0);
    let told = format!("{router}:9: time-range T: not tested, taken as met by every packet");
    assert!(met.stderr.contains(&told), "{}", met.stderr);
}

/// A configuration with a description that is not UTF-8, and a list with a mistake.
const ROUTER: &[u8] = b"hostname r\ninterface Gi0/0\n description Stra\xdfe\n \
    ip access-group IN in\n ip access-group OUT out\ninterface Gi0/1\n ip access-group NONE in\n\
    ip access-list extended IN\n permit tcp any any eq 22 time-range T\n deny udp any any\n\
    ip access-list extended OUT\n permit ip any host 10.0.0.1\n\
    ip access-list extended WRONG\n permit ip any any any\n";

#[test]
fn the_list_that_an_interface_applies_is_imported() {
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("router.cfg", ROUTER);
    let import =
        |options: &[&str]| rules("import", &file, &[&["--from", "cisco"][..], options].concat());
    let out = import(&["--interface", "gi0/0", "--direction", "out"]).exits(0).text();
    // No list is applied to IPv6.
    assert_eq!(out, "ip filter 10 pass * 10.0.0.1 * * *\nipv6 filter 10 pass * * * * *\n");
    import(&["--interface", "Gi0/0"]).exits(2).says(&["IN in, OUT out", "--direction"]);
    import(&["--interface", "Gi0/1"]).exits(2).says(&["applies NONE"]);
    import(&["--interface", "Gi9"]).exits(2).says(&["Gi9 applies no list", "Gi0/0, Gi0/1"]);
    import(&["--list", "WRONG"]).exits(1).says(&[&format!("{file}:14: found \"any\"")]);
    import(&[]).exits(2).says(&["IN (2 rules), OUT (1 rule), WRONG (1 rule)"]);
    import(&["--table", "filter"]).exits(2).says(&["--table is for"]);
    import(&["--list", "IN"]).exits(1).says(&[&format!("{file}:9: found \"time-range T\"")]);
    let met = import(&["--list", "IN", "--unsupported", "met", "--json"]).exits(0);
    let said = format!("warning: {file}:9: time-range T: not tested, taken as met by every packet");
    assert!(met.stderr.contains(&said) && !met.stderr.contains("error:"), "{}", met.stderr);
    let met: Value = serde_json::from_slice(&met.stdout).unwrap();
    assert_eq!(met["untested"], serde_json::json!([{"line": 9, "condition": "time-range T"}]));
    assert_eq!((number(&met["rules"][1]["line"]), number(&met["rules"][1]["number"])), (10, 20));
    let unmet = import(&["--list", "IN", "--unsupported", "unmet", "-q"]).exits(0);
    assert_eq!(
        (unmet.text().as_str(), unmet.stderr.as_str()),
        ("ip filter 20 reject-nolog * * udp * *\n", "")
    );
}

#[test]
fn tables_fit_the_terminal() {
    let folder = data::folder();
    if !data::has_program("script") {
        return;
    }
    let scratch = Scratch::with_packets(0);
    let file = scratch.file("edge.rules", EDGE.as_bytes());
    let mix = folder.join("mix/dev-mix.pcap");
    let forebay = env!("CARGO_BIN_EXE_forebay");
    let mut shown = String::new();
    for arguments in [
        format!("match '{file}' --list lan1:in -r '{}'", mix.display()),
        format!("explain '{file}' --list lan1:in --packet 'udp [2001:db8::1]:1 > [2001:db8::2]:2'"),
    ] {
        let line = format!("stty cols 80; NO_COLOR=1 {forebay} -q rules {arguments}");
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-c", &line, "/dev/null"]).stdin(std::process::Stdio::null());
        let output = command.output().unwrap();
        shown.push_str(&ran(&command, output).exits(0).text());
    }
    let widest = shown.lines().map(|line| line.trim_end().chars().count()).max();
    assert!(shown.lines().count() > 12 && widest.is_some_and(|widest| widest <= 80), "{shown}");
}

/// The blocks of a page that are set in, without the blanks before their lines. A
/// command begins a block, and what it prints may hold empty lines.
fn blocks(page: &str) -> Vec<Vec<&str>> {
    let mut blocks = vec![Vec::new()];
    for line in page.lines() {
        let text = line.strip_prefix("    ");
        if text.is_none_or(|text| text.starts_with("$ ")) && !line.is_empty() {
            blocks.push(Vec::new());
        }
        let block = blocks.last_mut().unwrap();
        block.extend(text.or((line.is_empty() && !block.is_empty()).then_some("")));
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

#[test]
fn the_page_on_rule_lists_shows_what_the_commands_print() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rule-lists.md");
    let page = fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut commands = 0;
    for block in blocks(&page) {
        // A block is a file under its name in a comment, or a command and what it prints.
        let name = block[0].strip_prefix("# ").or_else(|| block[0].strip_prefix("! "));
        if let Some(name) = name.filter(|name| name.contains('.')) {
            fs::write(folder.path().join(name), block.join("\n")).unwrap();
            continue;
        }
        let Some(line) = block[0].strip_prefix("$ forebay ") else { continue };
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" {line} 2>&1"), env!("CARGO_BIN_EXE_forebay")]);
        command.current_dir(folder.path()).env("NO_COLOR", "1").env_remove("FOREBAY_ISA");
        let printed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(printed.trim_end(), block[1..].join("\n").trim_end(), "forebay {line}");
        commands += 1;
    }
    assert!(commands >= 8, "only {commands} commands");
}
