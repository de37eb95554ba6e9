//! What goes wrong ends in one clear message and the right exit status, and leaves no
//! half-written file: damaged captures, contradictory options, full disks, signals.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::command::{self, Ran, command, files, run, run_with_input};
use crate::support::data;
use crate::support::scratch::Scratch;
use forebay_testkit::capture;
use forebay_testkit::make::{self, ETHERNET, Pcap, RAW};
use serde_json::json;

fn split(input: &str, folder: &str, options: &[&str]) -> Ran {
    let mut arguments = vec!["split", "-r", input, "-o", folder];
    arguments.extend(options);
    run(arguments)
}

#[test]
fn what_is_no_capture_is_refused_by_name() {
    let scratch = Scratch::with_packets(40);
    let noise: Vec<u8> =
        (0..4_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let inputs = [
        scratch.file("empty", b""),
        scratch.file("three", &[0xd4, 0xc3, 0xb2]),
        scratch.file("noise", &noise),
        scratch.file("text", b"#!/bin/sh\necho hello\n"),
        scratch.file("gzip", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3, 4]),
        scratch.folder.path().to_str().unwrap().to_owned(),
        scratch.text("missing.pcap"),
    ];
    for input in &inputs {
        let out = scratch.text("out");
        split(input, &out, &["-n", "2"]).exits(1).says(&[input]);
        assert!(!Path::new(&out).exists(), "{input}");
        let copy = scratch.text("copy.pcap");
        run(["filter", "-r", input, "-w", &copy]).exits(1).says(&[input]);
        assert!(!Path::new(&copy).exists(), "{input}");
        run(["filter", "-r", input, "--count"]).exits(1).says(&[input]);
        run(["flows", "-r", input]).exits(1).says(&[input]);
    }
}

#[test]
fn a_refused_expression_leaves_nothing_behind() {
    let data = data::folder();
    let scratch = Scratch::with_packets(40);
    let out = scratch.text("out");
    let copy = scratch.text("copy.pcap");
    for (expression, _) in data::refused(&data) {
        let option = format!("--filter={expression}");
        split(&scratch.input, &out, &["-n", "2", &option]).exits(2).says(&[]);
        assert!(!Path::new(&out).exists(), "{expression}");
        run(["filter", "-r", &scratch.input, "-w", &copy, "--", &expression]).exits(2).says(&[]);
        assert!(!Path::new(&copy).exists(), "{expression}");
        // A direction is refused of saved captures only.
        if !expression.ends_with("bound") {
            run(["compile", "--", &expression]).exits(2).says(&[]);
        }
    }
}

#[test]
fn contradictory_sensors_are_wrong_use() {
    let scratch = Scratch::with_packets(40);
    let out = scratch.text("out");
    let wrong: [&[&str]; 8] = [
        &["-n", "0"],
        &["-n", "5000"],
        &["-n", "2", "--weights", "1,2,3"],
        &["--weights", "1,0"],
        &["--weights", "1,x"],
        &["--weights", "-1,2"],
        &["-n", "two"],
        &[],
    ];
    for options in wrong {
        let ran = split(&scratch.input, &out, options).exits(2);
        assert!(ran.stderr.contains("error:") && ran.stdout.is_empty(), "{}", ran.stderr);
        assert!(!Path::new(&out).exists());
    }
    split(&scratch.input, &out, &["-n", "0"]).says(&["sensor"]);
    split(&scratch.input, &out, &["-n", "2", "--weights", "1,2,3"]).says(&["-n 2", "--weights"]);
}

#[test]
fn earlier_captures_are_replaced_only_when_asked() {
    let scratch = Scratch::with_packets(40);
    let (folder, out) = (scratch.path("out"), scratch.text("out"));
    fs::create_dir(&folder).unwrap();
    split(&scratch.input, &out, &["-n", "4"]).exits(0);
    assert_eq!(command::sensor_files(&folder).len(), 4);

    let content = || files(&folder).into_iter().map(|path| (fs::read(&path).unwrap(), path));
    fs::write(folder.join("notes.txt"), "kept").unwrap();
    let before: Vec<_> = content().collect();
    split(&scratch.input, &out, &["-n", "2"]).exits(1).says(&["sensor-0.pcap", "--force"]);
    assert!(content().eq(before), "something was touched");

    split(&scratch.input, &out, &["-n", "2", "--force"]).exits(0);
    let names: Vec<_> =
        files(&folder).iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["notes.txt", "sensor-0.pcap", "sensor-1.pcap"]);
}

#[test]
fn a_folder_that_cannot_be_made_or_written_fails() {
    let scratch = Scratch::with_packets(40);
    for below in ["in.pcap/out", "in.pcap"] {
        let out = scratch.text(below);
        split(&scratch.input, &out, &["-n", "2"]).exits(1).says(&[&out]);
    }
    assert_eq!(files(scratch.folder.path()).len(), 1);
    let copy = scratch.text("no/such/folder/copy.pcap");
    run(["filter", "-r", &scratch.input, "-w", &copy]).exits(1).says(&[&copy]);
}

/// Whether a file system can be mounted that no other process sees.
fn can_mount() -> bool {
    let tried =
        Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        data::skipped("mounting a small file system needs root and unshare");
    }
    can
}

/// Runs the command with a file system of 256 KiB mounted at `disk`, and lists what is in
/// it afterwards.
fn run_on_small_disk(disk: &Path, arguments: &[&str]) -> (Ran, String) {
    let listing = disk.with_extension("listing");
    let script = "mount -t tmpfs -o size=256k none \"$1\" || exit 99; disk=$1; listing=$2; shift 2
        \"$@\"; status=$?; ls -AR \"$disk\" > \"$listing\"; exit $status";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, "sh"]).arg(disk).arg(&listing);
    command.arg(env!("CARGO_BIN_EXE_forebay")).args(arguments).env("NO_COLOR", "1");
    let output = command.output().unwrap();
    (command::ran(&command, output), fs::read_to_string(listing).unwrap())
}

#[test]
fn a_full_disk_fails_and_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::with_packets(40);
    let large: Vec<Vec<u8>> = make::datagrams(8_000);
    let input = scratch.file("large.pcap", &Pcap::of(ETHERNET).file(&large));
    let disk = scratch.path("disk");
    fs::create_dir(&disk).unwrap();
    let on_disk = |name: &str| disk.join(name).to_str().unwrap().to_owned();

    let out = on_disk("out");
    let arguments = ["split", "-r", &input, "-n", "3", "-o", &out];
    let (ran, left) = run_on_small_disk(&disk, &arguments);
    ran.exits(1).says(&["sensor-", "space"]);
    assert!(!left.contains("sensor-") && !left.contains("part"), "{left}");

    let copy = on_disk("copy.pcap");
    let (ran, left) = run_on_small_disk(&disk, &["filter", "-r", &input, "-w", &copy]);
    ran.exits(1).says(&["copy.pcap", "space"]);
    assert!(!left.contains("copy") && !left.contains("part"), "{left}");

    let (ran, left) = run_on_small_disk(&disk, &["gen", "-w", &copy, "--packets", "20000"]);
    ran.exits(1).says(&["copy.pcap", "space"]);
    assert!(!left.contains("copy") && !left.contains("part"), "{left}");
}

#[test]
fn a_device_that_takes_nothing_fails() {
    let scratch = Scratch::with_packets(40);
    run(["filter", "-r", &scratch.input, "-w", "/dev/full"]).exits(1).says(&["/dev/full"]);
    for arguments in
        [&["filter", "-r", &scratch.input][..], &["flows", "-r", &scratch.input, "--json"]]
    {
        let mut command = command(arguments);
        command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let output = command.stderr(Stdio::piped()).output().unwrap();
        command::ran(&command, output).exits(1).says(&["standard output"]);
    }
}

#[test]
fn headers_that_are_not_decoded_are_named_with_their_packets() {
    let ethernet = |ether_type: u16, payload: &[u8]| {
        [&[2; 12][..], &ether_type.to_be_bytes(), payload, &[0; 46]].concat()
    };
    let mut packets = make::datagrams(9);
    let mut add = |count: usize, packet: Vec<u8>| packets.extend(vec![packet; count]);
    add(5, ethernet(0x88cc, &[]));
    add(3, ethernet(38, &[0x42, 0x42, 3]));
    // MACsec with an encrypted payload, behind a VLAN tag.
    add(2, ethernet(0x8100, &[0, 7, 0x88, 0xe5, 0x0c, 0, 0, 0, 0, 1]));
    let authenticated = [&[0x45, 0, 0, 60, 0, 0, 0, 0, 64, 51, 0, 0][..], &[10; 48]].concat();
    add(4, ethernet(0x0800, &authenticated));
    let scratch = Scratch::with_packets(1);
    let input = scratch.file("kinds.pcap", &Pcap::of(make::ETHERNET).file(&packets));
    let folder = scratch.path("out");
    let split = split(&input, folder.to_str().unwrap(), &["-n", "3", "--json"]).exits(0).json();
    let expected = json!({
        "EtherType 0x88cc": 5, "LLC 0x4242": 3, "EtherType 0x88e5": 2, "IP protocol 51": 4,
    });
    assert_eq!(split["undecoded"], expected);
    let notes = split["notes"].to_string();
    assert!(notes.contains("EtherType 0x88cc (5), IP protocol 51 (4)"), "{notes}");
    assert_eq!(run(["flows", "-r", &input, "--json"]).exits(0).json()["undecoded"], expected);
    let said = run(["flows", "-r", &input]).exits(0).stderr;
    assert!(said.contains("LLC 0x4242 (3), EtherType 0x88e5 (2)"), "{said}");
}

#[test]
fn a_link_type_nobody_knows_is_carried_and_counted_but_not_filtered() {
    let scratch = Scratch::with_packets(40);
    let packets = make::datagrams(60);
    let input = scratch.file("strange.pcap", &Pcap::of(12_345).file(&packets));
    let folder = scratch.path("out");
    let ran = split(&input, folder.to_str().unwrap(), &["-n", "3", "--json"]).exits(0);
    let outcome = ran.json();
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("60 packets") && notes.contains("link type"), "{notes}");
    assert_eq!(outcome["undecoded"], json!({ "link type 12345": 60 }));
    let sensors = command::sensor_files(&folder).into_iter().map(capture::read);
    let loads: Vec<usize> = sensors
        .map(|sensor| {
            assert!(sensor.packets.iter().all(|packet| packet.link == 12_345));
            sensor.packets.len()
        })
        .collect();
    assert_eq!(loads.iter().sum::<usize>(), 60, "{loads:?}");
    // An equal share of these would be 20: leading bytes that differ spread.
    assert!(loads.iter().all(|&load| load > 3), "{loads:?}");
    run(["filter", "-r", &input, "--count", "tcp"]).exits(1).says(&["link type", "12345"]);
    assert_eq!(run(["filter", "-r", &input, "--count"]).exits(0).text(), "60 packets\n");
}

#[test]
fn what_precedes_a_cut_is_used_and_the_cut_is_told() {
    let scratch = Scratch::with_packets(40);
    let whole = fs::read(&scratch.input).unwrap();
    let input = scratch.file("cut.pcap", &whole[..whole.len() - 7]);
    let ran = run(["filter", "-r", &input, "--count"]).exits(1);
    let last = make::datagrams(40).pop().unwrap().len() + 16;
    let offset = format!("byte {}", whole.len() - last);
    let ran = ran.says(&[&input, &offset, "every packet is accounted for"]);
    assert_eq!(ran.text(), "39 packets\n");

    let copy = scratch.path("copy.pcap");
    run(["filter", "-r", &input, "-w", copy.to_str().unwrap()]).exits(1).says(&[&offset]);
    let kept = capture::read(&copy);
    assert!(kept.packets == capture::read(&input).packets && !kept.cut);
    let ran = run(["flows", "-r", &input, "--json"]).exits(1).says(&[&offset]);
    assert_eq!(ran.json()["flows"].as_array().unwrap().len(), 39);
    let ran = split(&input, &scratch.text("out"), &["-n", "2"]).exits(1).says(&[&offset]);
    assert!(ran.text().contains("every packet is accounted for"));
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let scratch = Scratch::with_packets(40);
    let input = scratch.file("long.pcap", &Pcap::of(ETHERNET).file(&make::datagrams(30_000)));
    for verb in [
        &["filter", "-r", &input, "--verdicts"][..],
        &["filter", "-r", &input],
        &["flows", "-r", &input],
    ] {
        let mut child =
            command(verb).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        let output = child.wait_with_output().unwrap();
        let ran = command::ran(&command(verb), output);
        assert!(ran.exits(0).stderr.is_empty());
    }
}

/// Waits until a process catches SIGINT.
fn wait_for_handler(process: u32) {
    let catches = || {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let bits = u64::from_str_radix(caught.trim(), 16).unwrap();
        bits >> (libc::SIGINT - 1) & 1 == 1
    };
    let end = Instant::now() + Duration::from_secs(20);
    while !catches() {
        assert!(Instant::now() < end, "it catches no SIGINT");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts the command on a pipe that delivers `head` and then stalls, sends SIGINT, and
/// waits for the end.
fn interrupt(arguments: &[&str], head: &[u8]) -> (Output, Duration) {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stalled = child.stdin.take().unwrap();
    stalled.write_all(head).unwrap();
    wait_for_handler(child.id());
    std::thread::sleep(Duration::from_millis(400));
    assert!(child.try_wait().unwrap().is_none(), "it did not wait for more");
    let sent = Instant::now();
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let ended = loop {
        if child.try_wait().unwrap().is_some() {
            break sent.elapsed();
        }
        if sent.elapsed() > Duration::from_secs(10) {
            child.kill().unwrap();
            panic!("{arguments:?}: still running 10 s after SIGINT");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    drop(stalled);
    (child.wait_with_output().unwrap(), ended)
}

#[test]
fn an_interrupt_ends_a_stalled_read_and_leaves_nothing() {
    let scratch = Scratch::with_packets(40);
    let head = fs::read(&scratch.input).unwrap();
    let (out, copy) = (scratch.text("out"), scratch.text("copy.pcap"));
    let runs: [&[&str]; 4] = [
        &["split", "-r", "-", "-n", "2", "-o", &out],
        &["filter", "-r", "-", "-w", &copy],
        &["filter", "-r", "-", "--count"],
        &["flows", "-r", "-"],
    ];
    for arguments in runs {
        let (output, ended) = interrupt(arguments, &head);
        assert!(ended < Duration::from_secs(3), "{arguments:?}: {ended:?}");
        command::ran(&command(arguments), output).exits(1).says(&["interrupted"]);
        assert_eq!(files(scratch.folder.path()).len(), 1, "{arguments:?}");
    }
}

#[test]
fn standard_input_is_a_capture_too() {
    let scratch = Scratch::with_packets(40);
    let bytes = fs::read(&scratch.input).unwrap();
    let ran = run_with_input(["filter", "-r", "-", "--count"], &bytes).exits(0);
    assert_eq!(ran.text(), "40 packets\n");
    let folder = scratch.path("out");
    let out = folder.to_str().unwrap();
    run_with_input(["split", "-r", "-", "-n", "2", "-o", out], &bytes).exits(0);
    let sensors =
        command::sensor_files(&folder).into_iter().map(|file| capture::read(file).packets.len());
    assert_eq!(sensors.sum::<usize>(), 40);
    run_with_input(["filter", "-r", "-", "--count"], b"").exits(1).says(&["standard input"]);
    run_with_input(["filter", "-r", "-", "--count"], &bytes[..500])
        .exits(1)
        .says(&["standard input", "byte"]);
}

#[test]
fn a_bad_line_of_a_program_is_named() {
    let scratch = Scratch::with_packets(40);
    for (text, line) in [
        ("2\n40 0 0 12\n6 0 0 x\n", "line 3"),
        ("2\n40 0 0\n6 0 0 1\n", "line 2"),
        ("many\n6 0 0 1\n", "line 1"),
        ("1\n5 0 0 7\n", ""),
        ("0\n", ""),
        ("", ""),
    ] {
        let program = scratch.file("program", text.as_bytes());
        let ran = run(["filter", "-r", &scratch.input, "--count", "--program", &program]);
        ran.exits(2).says(&[&program, line]);
    }
    let missing = scratch.text("missing");
    run(["filter", "-r", &scratch.input, "--count", "--program", &missing])
        .exits(1)
        .says(&[&missing]);
    run(["filter", "-r", &scratch.input, "--count", "-F", &missing]).exits(1).says(&[&missing]);
}

#[test]
fn an_interface_for_which_the_filter_does_not_compile_is_named() {
    let scratch = Scratch::with_packets(40);
    let frames = make::datagrams(4);
    // An IP link has no Ethernet addresses: `ether host` compiles for the first only.
    let mut late = [make::section(), make::interface(ETHERNET, 6)].concat();
    late.extend(make::enhanced(0, 1_000_000, &frames[0]));
    late.extend(make::interface(RAW, 6));
    late.extend(make::enhanced(1, 2_000_000, &make::without_ethernet(&frames[1])));
    let input = scratch.file("two.pcapng", &late);
    let expression = "ether host 02:00:00:00:00:01";
    let copy = scratch.text("copy.pcapng");
    let ran = run(["filter", "-r", &input, "-w", &copy, expression]);
    ran.exits(1).says(&["interface 1"]);
    assert!(!Path::new(&copy).exists());
    let out = scratch.text("out");
    split(&input, &out, &["-n", "2", "--filter", expression]).exits(1).says(&["interface 1"]);
    assert!(!Path::new(&out).exists());
    assert_eq!(run(["filter", "-r", &input, "--count", "udp"]).exits(0).text(), "2 packets\n");
    // An interface without packets, described late, asks nothing of the filter.
    let mut unused = [make::section(), make::interface(ETHERNET, 6)].concat();
    unused.extend(make::enhanced(0, 1_000_000, &frames[0]));
    unused.extend(make::interface(RAW, 6));
    let input = scratch.file("unused.pcapng", &unused);
    run(["filter", "-r", &input, "--count", expression]).exits(0);
    // Nor does one that is described first. If packets of it come, nothing is written.
    let first = [make::section(), make::interface(ETHERNET, 6), make::interface(RAW, 6)].concat();
    let good = [first.clone(), make::enhanced(0, 1_000_000, &frames[0])].concat();
    let input = scratch.file("first.pcapng", &good);
    run(["filter", "-r", &input, "--count", expression]).exits(0);
    let raw = make::enhanced(1, 2_000_000, &make::without_ethernet(&frames[1]));
    let bad = [good, raw].concat();
    let input = scratch.file("packets.pcapng", &bad);
    let ran = run(["filter", "-r", &input, expression]).exits(1).says(&["interface 1"]);
    assert_eq!((ran.text().as_str(), ran.stderr.lines().count()), ("", 3), "{}", ran.stderr);
    run_with_input(["filter", "-r", "-", "--count", expression], &bad)
        .exits(1)
        .says(&["interface 1"]);
    // Wrong in itself.
    run(["filter", "-r", &input, "--count", "ether hst x"]).exits(2);
}

#[test]
fn an_expression_that_rejects_all_packets_of_an_interface_is_no_error() {
    let scratch = Scratch::with_packets(40);
    let frames = make::datagrams(4);
    let mut capture =
        [make::section(), make::interface(0, 6), make::interface(ETHERNET, 6)].concat();
    capture.extend(make::enhanced(1, 1_000_000, &frames[0]));
    let without = scratch.file("without.pcapng", &capture);
    capture.extend(make::enhanced(0, 2_000_000, &[2, 0, 0, 0, 0x45]));
    let with = scratch.file("with.pcapng", &capture);
    for input in [&without, &with] {
        let count =
            |expression| run(["filter", "-r", input, "--count", expression]).exits(0).text();
        assert_eq!(count("arp"), "0 packets\n");
        assert_eq!(count("arp or udp"), "1 packet\n");
        let out = scratch.text(&format!("{}.out", input.len()));
        split(input, &out, &["-n", "2", "--force", "--filter", "arp"]).exits(0);
    }
}

#[test]
fn a_broker_drops_and_counts_packets_of_a_link_type_that_its_filter_is_wrong_for() {
    let scratch = Scratch::with_packets(40);
    let frames = make::datagrams(4);
    let capture = [
        [make::section(), make::interface(ETHERNET, 6), make::interface(RAW, 6)].concat(),
        make::enhanced(0, 1_000_000, &frames[0]),
        make::enhanced(1, 2_000_000, &make::without_ethernet(&frames[1])),
        make::enhanced(0, 3_000_000, &frames[2]),
    ]
    .concat();
    let input = scratch.file("mixed.pcapng", &capture);
    let config = |filter: &str, output: &str| {
        let text = format!(
            "filter = \"{filter}\"\n\
             [[input]]\nname = \"played\"\ntype = \"pcap\"\nfile = \"{input}\"\n\
             [[output]]\nname = \"disk\"\ntype = \"pcap\"\nfile = \"{}\"\n\
             [[group]]\nname = \"ids\"\n[[group.sensor]]\nname = \"s0\"\n",
            scratch.text(output)
        );
        scratch.file("run.toml", text.as_bytes())
    };
    let right = config("not ether host 02:00:00:00:00:99", "out.pcapng");
    let said = run(["run", "--json", "-c", &right]).exits(0).json();
    let filter = &said["ledger"][1];
    assert_eq!((&filter["stage"], filter["out"].as_u64()), (&"filter".into(), Some(2)), "{said}");
    assert_eq!(filter["drops"], json!({"no_match": 0, "wrong_link_type": 1}));
    assert_eq!((&said["closes"], &said["errors"]), (&json!(true), &json!([])));
    // A filter that can select nothing from a port is refused before the start.
    run(["run", "-c", &config("ip and arp", "none.pcapng")]).exits(2).says(&["rejects all"]);
}

#[test]
fn what_failed_is_told_before_the_ledger_and_a_ledger_of_zeros_is_not() {
    let scratch = Scratch::with_packets(40);
    let bytes = fs::read(&scratch.input).unwrap();
    let ran = run_with_input(["filter", "-r", "-", "--count"], &bytes[..500]).exits(1);
    assert!(ran.stderr.starts_with("error: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("accounted for"), "{}", ran.stderr);
    let ran = run_with_input(["filter", "-r", "-", "--count"], &bytes[..30]).exits(1);
    assert!(!ran.stderr.contains("accounted for"), "{}", ran.stderr);
}

#[test]
fn a_file_truncated_while_it_is_read_is_cut_off() {
    let scratch = Scratch::with_packets(40);
    let long = Pcap::of(ETHERNET).file(&make::datagrams(60_000));
    let repeated = [&long[..], &long[24..], &long[24..], &long[24..]].concat();
    let input = scratch.file("shrinks.pcap", &repeated);
    // Nobody reads its output until the file has lost its end.
    let arguments = ["filter", "-r", input.as_str(), "-w", "-"];
    let mut child =
        command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut head = [0; 24];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut head).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    fs::OpenOptions::new().write(true).open(&input).unwrap().set_len(100).unwrap();
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    let ran = command::ran(&command(arguments), child.wait_with_output().unwrap());
    ran.exits(1).says(&[&input, "cut off", "byte"]);
    let written = capture::parse(&[&head[..], &rest].concat());
    assert!(!written.cut && !written.packets.is_empty());
}

#[test]
fn files_that_are_read_whole_have_a_limit_that_the_message_names() {
    let scratch = Scratch::with_packets(4);
    let too_long = "has more than";
    for (arguments, parts) in [
        (vec!["run", "--check", "-c", "/dev/zero"], ["/dev/zero", "a character device"]),
        (
            vec!["filter", "-r", &scratch.input, "-F", "/dev/zero"],
            [too_long, "a filter expression"],
        ),
        (vec!["filter", "-r", &scratch.input, "--program", "/dev/zero"], [too_long, "a program"]),
        (vec!["rules", "check", "/dev/zero"], [too_long, "a file of rules"]),
        (
            vec!["scan", "--literals", "/dev/zero", "-r", &scratch.input],
            [too_long, "a file of literals"],
        ),
    ] {
        let ran = run(&arguments);
        assert_ne!(ran.status, 0, "{}", ran.arguments);
        ran.says(&parts);
    }
    let rules = scratch.file("rules", b"ip filter 1 pass * *\n");
    let trace = run(["rules", "match", &rules, "--trace", "/dev/zero"]).exits(1);
    trace.says(&["/dev/zero:1", "a line of more than 4096 bytes"]);
    // The file of rules that a configuration names is held to the same.
    let config = "rules = \"/dev/zero\"\n[[input]]\nname = \"a\"\ntype = \"af_packet\"\n\
                  interface = \"a\"\n[[output]]\nname = \"b\"\ntype = \"af_packet\"\n\
                  interface = \"b\"\n[[group]]\nname = \"g\"\n[[group.sensor]]\nname = \"b\"\n\
                  output = \"b\"\n";
    let config = scratch.file("run.toml", config.as_bytes());
    let ran = run(["run", "--check", "-c", &config]).exits(2);
    ran.says(&["/dev/zero", "a character device", "a regular file"]);
}
