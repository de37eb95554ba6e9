//! How runs end: the failure that matters is the one reported, what was thrown away is
//! not called written, signals do what they should, and outputs never replace inputs.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::command::{self, Ran, command, run};
use crate::support::scratch::Scratch;
use forebay_testkit::capture;
use forebay_testkit::make::{self, ETHERNET, Pcap, RAW};

/// Runs the command with a standard output that nobody reads.
fn run_unread(arguments: &[&str]) -> Ran {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut command = command(arguments);
    command.stdout(writer).stderr(Stdio::piped());
    let output = command.spawn().unwrap().wait_with_output().unwrap();
    command::ran(&command, output)
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// The exit status, within 10 seconds.
fn status_of(child: &mut Child) -> Option<i32> {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(60) {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("still running after 60 s");
}

#[test]
fn a_closed_output_does_not_hide_a_damaged_input() {
    let scratch = Scratch::with_packets(30_000);
    let whole = Pcap::of(ETHERNET).file(&make::datagrams(40));
    let cut = scratch.file("cut.pcap", &whole[..whole.len() - 7]);
    let good = scratch.file("good.pcap", &whole);
    let out = scratch.text("out");
    let verbs: [&[&str]; 5] = [
        &["flows"],
        &["flows", "--json"],
        &["split", "-n", "2", "--force", "-o", &out],
        &["filter"],
        &["filter", "--count"],
    ];
    for verb in verbs {
        let with = |input: &str| run_unread(&[verb, &["-r", input]].concat());
        let ran = with(&cut).exits(1).says(&[&cut, "cut off"]);
        assert!(ran.stderr.contains("every packet is accounted for"), "{}", ran.stderr);
        assert!(with(&good).exits(0).stderr.is_empty(), "{verb:?}");
    }
}

#[test]
fn a_capture_that_nobody_reads_to_its_end_is_no_error() {
    let scratch = Scratch::with_packets(30_000);
    let ran = run_unread(&["filter", "-r", &scratch.input, "-w", "-"]);
    assert!(ran.exits(0).stderr.is_empty());
    let ran = run_unread(&["gen", "-w", "-", "--packets", "5000"]);
    assert!(ran.exits(0).stderr.is_empty());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let scratch = Scratch::with_packets(30_000);
    // Nobody reads what it writes, so it never comes to look whether a signal came.
    let mut child = command(["filter", "-r", &scratch.input, "-w", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 24]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "-INT");
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the first signal was to end it in good order");
    signal(&child, "-INT");
    assert_eq!(status_of(&mut child), Some(130));
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let scratch = Scratch::with_packets(30_000);
    let bytes = fs::read(&scratch.input).unwrap();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_forebay")])
        .args(["filter", "-r", "-", "--count"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&bytes[..bytes.len() / 2]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "-HUP");
    stdin.write_all(&bytes[bytes.len() / 2..]).unwrap();
    drop(stdin);
    assert_eq!(status_of(&mut child), Some(0));
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "30000 packets\n");
}

#[test]
fn what_is_thrown_away_is_not_called_written() {
    let scratch = Scratch::with_packets(30_000);
    let head = fs::read(&scratch.input).unwrap();
    let (out, copy) = (scratch.text("out"), scratch.text("copy.pcap"));
    let runs: [&[&str]; 2] =
        [&["split", "-r", "-", "-n", "2", "-o", &out], &["filter", "-r", "-", "-w", &copy]];
    for arguments in runs {
        let mut command = command(arguments);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&head).unwrap();
        std::thread::sleep(Duration::from_millis(600));
        signal(&child, "-TERM");
        status_of(&mut child);
        let ran = command::ran(&command, child.wait_with_output().unwrap());
        let ran = ran.exits(1).says(&["interrupted", "discarded", "= 0 out"]);
        assert!(ran.stderr.contains("every packet is accounted for"), "{}", ran.stderr);
        drop(stdin);
    }
    assert_eq!(command::files(scratch.folder.path()).len(), 1);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let scratch = Scratch::with_packets(30_000);
    let ran = run(["flows", "-r", &scratch.text("x\u{1b}]0;title\u{7}\ny")]).exits(1);
    let ran = ran.says(&["x\\u{1b}]0;title\\u{7}"]);
    assert!(!ran.stderr.contains(['\u{1b}', '\u{7}']));
    let ran = run(["filter", "-r", &scratch.input, "tcp \u{1b}[2J"]).exits(2);
    assert!(!ran.stderr.contains('\u{1b}') && ran.stderr.lines().count() > 1, "{}", ran.stderr);
}

#[test]
fn a_stream_takes_a_second_interface() {
    let scratch = Scratch::with_packets(30_000);
    let frames = make::datagrams(2);
    let mut bytes = [make::section(), make::interface(ETHERNET, 6)].concat();
    bytes.extend(make::enhanced(0, 1_000_000, &frames[0]));
    bytes.extend(make::interface(RAW, 6));
    bytes.extend(make::enhanced(1, 2_000_000, &make::without_ethernet(&frames[1])));
    let input = scratch.file("two.pcapng", &bytes);
    let ran = run(["filter", "-r", &input, "-w", "-"]).exits(0);
    let (written, all) = (capture::parse(&ran.stdout), capture::parse(&bytes));
    assert!(!written.cut && all.packets.len() == 2);
    assert_eq!(written.packets, all.packets);
}

#[test]
fn a_split_never_removes_its_input() {
    let scratch = Scratch::with_packets(30_000);
    let folder = scratch.path("out");
    let out = folder.to_str().unwrap();
    run(["split", "-r", &scratch.input, "-n", "4", "-o", out]).exits(0);
    let sensor = folder.join("sensor-3.pcap");
    let before = fs::read(&sensor).unwrap();
    let text = sensor.to_str().unwrap();
    let link = scratch.path("link.pcap");
    std::os::unix::fs::symlink(&sensor, &link).unwrap();
    for input in [text, link.to_str().unwrap()] {
        let ran = run(["split", "-r", input, "-n", "2", "-o", out, "--force"]);
        ran.exits(1).says(&[text, "is the input"]);
    }
    let mut command = command(["split", "-r", "-", "-n", "2", "-o", out, "--force"]);
    let output = command.stdin(fs::File::open(&sensor).unwrap()).output().unwrap();
    command::ran(&command, output).exits(1).says(&[text, "is the input"]);
    assert!(fs::read(&sensor).unwrap() == before);
    assert_eq!(command::sensor_files(&folder).len(), 4);
}

#[test]
fn only_names_of_sensors_are_taken_for_earlier_captures() {
    let scratch = Scratch::with_packets(30_000);
    let folder = scratch.path("out");
    fs::create_dir(&folder).unwrap();
    for name in ["sensor-007.pcap", "sensor-+1.pcap"] {
        fs::write(folder.join(name), "someone else's").unwrap();
    }
    let out = folder.to_str().unwrap();
    run(["split", "-r", &scratch.input, "-n", "1", "-o", out]).exits(0);
    run(["split", "-r", &scratch.input, "-n", "1", "-o", out, "--force"]).exits(0);
    assert_eq!(command::files(&folder).len(), 3);
}

#[test]
fn files_of_expressions_may_hold_comments() {
    let scratch = Scratch::with_packets(30_000);
    let text = "# what is kept: (\nudp src port 1024 # the first\nor udp src port 1025\n";
    let file = scratch.file("expression", text.as_bytes());
    let ran = run(["filter", "-r", &scratch.input, "--count", "-F", &file]).exits(0);
    assert_eq!(ran.text(), "2 packets\n");
    let from_file = run(["compile", "--emit", "ddd", "-F", &file]).exits(0).text();
    let words = ["compile", "--emit", "ddd", "udp src port 1024 or udp src port 1025"];
    assert_eq!(from_file, run(words).exits(0).text());
    let program = from_file.as_bytes();
    let again =
        command::run_with_input(["compile", "--emit", "ddd", "--program", "-"], program).exits(0);
    assert_eq!(again.text(), from_file);
}

#[test]
fn options_may_follow_the_expression() {
    let scratch = Scratch::with_packets(30_000);
    let ran = run(["filter", "-r", &scratch.input, "udp", "src", "port", "1024", "--count"]);
    assert_eq!(ran.exits(0).text(), "1 packet\n");
}

#[test]
fn generated_packets_have_a_ledger_too() {
    let scratch = Scratch::with_packets(30_000);
    let ran =
        run(["gen", "-w", &scratch.text("made.pcap"), "--packets", "7000", "--json"]).exits(0);
    let ledger = &ran.json()["ledger"];
    assert_eq!((&ledger[0]["stage"], &ledger[1]["stage"]), (&"generate".into(), &"write".into()));
    assert_eq!((&ledger[0]["injected"], &ledger[1]["out"]), (&7000.into(), &7000.into()));
}

#[test]
fn many_sensors_fit_a_low_limit_of_open_files() {
    let scratch = Scratch::with_packets(30_000);
    let folder = scratch.path("out");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 128; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_forebay")]);
    command.args(["split", "-q", "-r", &scratch.input, "-n", "400", "-o"]).arg(&folder);
    let output = command.output().unwrap();
    command::ran(&command, output).exits(0);
    assert_eq!(command::sensor_files(&folder).len(), 400);
}

#[test]
fn packets_without_addresses_are_no_flows_of_their_own() {
    let scratch = Scratch::with_packets(30_000);
    let input = scratch.file("strange.pcap", &Pcap::of(12_345).file(&make::datagrams(60)));
    let ran = run(["flows", "-r", &input, "--json"]).exits(0);
    let flows = ran.json()["flows"].clone();
    assert_eq!(flows.as_array().unwrap().len(), 1, "{flows}");
    assert_eq!(
        flows[0]["packets_ab"].as_u64().unwrap() + flows[0]["packets_ba"].as_u64().unwrap(),
        60
    );
}
