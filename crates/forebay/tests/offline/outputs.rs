//! What is left of outputs: by processes that are killed, beyond limits of file sizes, and
//! where an output is the input.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::command::{self, command, files, run};
use crate::support::scratch::Scratch;
use forebay_testkit::make::{self, ETHERNET, Pcap};

/// Has a command live with a file system that has no files without names: the call that makes
/// one (open(2) with O_TMPFILE) fails as it does there.
fn without_unnamed_files(command: &mut Command) {
    let load = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let jump = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    // Fields of seccomp_data(2): the number at 0, the second argument at 24, the third at 32.
    let tmpfile = libc::O_TMPFILE.cast_unsigned() & !libc::O_DIRECTORY.cast_unsigned();
    let program = [
        load(0x20, 0),
        jump(0x15, libc::SYS_openat as u32, 3, 0),
        jump(0x15, libc::SYS_open as u32, 0, 5),
        load(0x20, 24),
        load(0x05, 1),
        load(0x20, 32),
        jump(0x45, tmpfile, 0, 1),
        load(0x06, libc::SECCOMP_RET_ERRNO | libc::EOPNOTSUPP.cast_unsigned()),
        load(0x06, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: makes two system calls in the child, with memory that lives meanwhile.
    unsafe {
        command.pre_exec(move || {
            let filter = libc::sock_fprog { len: 9, filter: program.as_ptr().cast_mut() };
            let first = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            let second = libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter);
            if first == 0 && second == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
}

/// Starts a copy of a capture that never ends, and returns when some of it is written.
fn endless(scratch: &Scratch, copy: &str, unnamed: bool) -> (Child, std::process::ChildStdin) {
    let mut command = command(["filter", "-r", "-", "-w", copy]);
    if !unnamed {
        without_unnamed_files(&mut command);
    }
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&fs::read(&scratch.input).unwrap()).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    // Its output is one of its descriptors, and has some length by then.
    let folder = format!("/proc/{}/fd", child.id());
    let scratch_folder = scratch.folder.path().to_str().unwrap().to_owned();
    let has_output = || {
        fs::read_dir(&folder).unwrap().flatten().any(|entry| {
            let to = fs::read_link(entry.path()).unwrap_or_default();
            to.starts_with(&scratch_folder)
                && fs::metadata(entry.path()).is_ok_and(|found| found.len() > 0)
        })
    };
    while !has_output() {
        assert!(Instant::now() < end, "nothing is written");
        std::thread::sleep(Duration::from_millis(10));
    }
    (child, stdin)
}

fn names(folder: &Path) -> Vec<String> {
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    files(folder).iter().map(name).collect()
}

#[test]
fn a_killed_process_leaves_nothing_or_what_the_next_removes() {
    let scratch = Scratch::with_packets(30_000);
    let copy = scratch.text("copy.pcap");
    let (mut child, _stdin) = endless(&scratch, &copy, true);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(names(scratch.folder.path()), ["in.pcap"], "where files need no name");

    let (mut killed, _stdin) = endless(&scratch, &copy, false);
    let (mut living, living_stdin) = endless(&scratch, &scratch.text("other.pcap"), false);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let hidden = |prefix: &str| {
        let names = names(scratch.folder.path());
        names.iter().filter(|name| name.starts_with(prefix)).count()
    };
    assert_eq!(hidden(".forebay-"), 2, "where they do");
    let (of_killed, of_living) = (killed.id(), living.id());
    run(["filter", "-r", &scratch.input, "-w", &copy]).exits(0);
    assert_eq!(hidden(&format!(".forebay-{of_killed}-")), 0);
    assert_eq!(hidden(&format!(".forebay-{of_living}-")), 1, "one that lives keeps its file");
    drop(living_stdin);
    assert!(living.wait().unwrap().success());
    assert_eq!(names(scratch.folder.path()), ["copy.pcap", "in.pcap", "other.pcap"]);
    let same = fs::read(scratch.path("other.pcap")).unwrap() == fs::read(&scratch.input).unwrap();
    assert!(same, "and is whole");
}

#[test]
fn a_limit_of_file_sizes_ends_with_a_message() {
    let scratch = Scratch::with_packets(30_000);
    let (out, copy) = (scratch.text("out"), scratch.text("copy.pcap"));
    let report = scratch.text("report.html");
    let runs: [&[&str]; 7] = [
        &["filter", "-r", &scratch.input, "-w", &copy],
        &["filter", "-r", &scratch.input],
        &["filter", "-r", &scratch.input, "--verdicts", "--json"],
        &["flows", "-r", &scratch.input, "--json"],
        &["split", "-r", &scratch.input, "-n", "2", "-o", &out],
        &["split", "-q", "-r", &scratch.input, "-n", "200", "-o", &out, "--report", &report],
        &["gen", "-w", &copy, "--packets", "20000"],
    ];
    for arguments in runs {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 40; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_forebay")]);
        let stdout = fs::File::create(scratch.path("stdout")).unwrap();
        command.args(arguments).env("NO_COLOR", "1").stdout(stdout).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        command::ran(&command, output).exits(1).says(&["File too large"]);
        fs::remove_file(scratch.path("stdout")).unwrap();
        let _ = fs::remove_dir_all(&out);
        assert_eq!(names(scratch.folder.path()), ["in.pcap"], "{arguments:?}");
    }
}

#[test]
fn an_output_is_never_the_input() {
    let scratch = Scratch::with_packets(30_000);
    let before = fs::read(&scratch.input).unwrap();
    let (link, hard) = (scratch.text("link.pcap"), scratch.text("hard.pcap"));
    std::os::unix::fs::symlink(&scratch.input, &link).unwrap();
    fs::hard_link(&scratch.input, &hard).unwrap();
    let here = || fs::File::open(&scratch.input).unwrap();
    let append = || fs::OpenOptions::new().append(true).open(&scratch.input).unwrap();
    let input = scratch.input.as_str();
    let refused = |arguments: &[&str], stdout: Stdio| {
        let mut command = command(arguments);
        command.stdin(here()).stdout(stdout).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        command::ran(&command, output).exits(1).says(&["is the input"]);
        assert!(fs::read(input).unwrap() == before, "{arguments:?}");
    };
    for (read, write) in [
        (input, input),
        (input, link.as_str()),
        (link.as_str(), input),
        (input, hard.as_str()),
        ("-", input),
        ("/dev/stdin", input),
    ] {
        refused(&["filter", "-r", read, "-w", write], Stdio::null());
    }
    refused(&["filter", "-r", input, "-w", "-"], append().into());
    let out = scratch.text("out");
    refused(&["split", "-r", input, "-n", "2", "-o", &out, "--report", input], Stdio::null());
    // A later file of several.
    fs::rename(input, scratch.path("copy.pcap1")).unwrap();
    let large: Vec<Vec<u8>> = (0..4_000_u16)
        .map(|i| make::udp(([10, 0, 0, 1], i), ([10, 0, 0, 2], 53), &[0; 1_300]))
        .collect();
    let input = scratch.file("copy.pcap1", &Pcap::of(ETHERNET).file(&large));
    let copy = scratch.text("copy.pcap");
    let ran = run(["filter", "-r", &input, "-w", &copy, "-C", "1"]).exits(1);
    ran.says(&["copy.pcap1", "is the input", "discarded"]);
    assert!(fs::read(&input).unwrap() == Pcap::of(ETHERNET).file(&large));
}

#[test]
fn packets_that_a_stream_did_not_take_are_not_out() {
    let scratch = Scratch::with_packets(30_000);
    for arguments in [
        &["filter", "-r", &scratch.input, "-w", "/dev/full"][..],
        &["gen", "-w", "/dev/full", "--packets", "30000"],
    ] {
        let ran = run(arguments).exits(1).says(&["No space", "disk_full", "= 0 out"]);
        assert!(ran.stderr.contains("every packet is accounted for"), "{}", ran.stderr);
    }
}

#[test]
fn lines_that_standard_output_did_not_take_are_not_out() {
    let scratch = Scratch::with_packets(30_000);
    let rules = scratch.file("rules", b"ip filter 12345 pass *\n");
    let trace = scratch.file("trace", "167772161 167772162 1 2 17 0 0\n".repeat(30_000).as_bytes());
    let captured = ["rules", "match", &rules, "-r", &scratch.input, "--verdicts"];
    let traced = ["rules", "match", &rules, "--trace", &trace, "--verdicts"];
    let filter = ["filter", "-r", &scratch.input];
    // The last text of each result.
    for (arguments, last) in [
        (filter.to_vec(), "\n"),
        ([&filter[..], &["--verdicts"]].concat(), "\n"),
        ([&filter[..], &["--json", "--packets"]].concat(), "\n    }"),
        ([&filter[..], &["--json", "--verdicts"]].concat(), "262144"),
        (captured.to_vec(), "\n"),
        ([&captured[..], &["--json"]].concat(), "12345"),
        (traced.to_vec(), "\n"),
        ([&traced[..], &["--json"]].concat(), "12345"),
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut none = command(&arguments);
        let output = none.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let ran = command::ran(&none, output).exits(1);
        ran.says(&["standard output: No space", "disk_full", "= 0 out"]);

        // A part is taken, which may end within a result.
        let part = scratch.path("part");
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_forebay")]);
        limited.args(&arguments).env("NO_COLOR", "1").stderr(Stdio::piped());
        let output = limited.stdout(fs::File::create(&part).unwrap()).output().unwrap();
        let ran = command::ran(&limited, output).exits(1);
        let ran = ran.says(&["standard output: File too large", "disk_full"]);
        let taken = fs::read_to_string(&part).unwrap().matches(last).count();
        let found = ran.stderr.split(" in = ").nth(1).and_then(|rest| rest.split(' ').next());
        let out: usize = found.unwrap().replace(',', "").parse().unwrap();
        assert!(0 < out && out == taken, "{}: {taken} taken: {}", ran.arguments, ran.stderr);
    }
}

#[test]
fn files_by_time_end_after_as_many_as_are_asked_for() {
    if !crate::support::data::has_program("tcpdump") {
        return;
    }
    let frames: Vec<Vec<u8>> = (0..4_000_u16)
        .map(|i| make::udp(([10, 0, 0, 1], i), ([10, 0, 0, 2], 53), &[i as u8; 1_300]))
        .collect();
    let bytes = Pcap::of(ETHERNET).file(&frames);
    // Within one slice of time the files are those of a size, used in turn.
    let options = ["-G", "3600", "-C", "1", "-W", "11"];
    let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for folder in [&ours, &theirs] {
        fs::write(folder.path().join("in.pcap"), &bytes).unwrap();
    }
    let mut tcpdump = Command::new("tcpdump");
    tcpdump.args(["-Z", "root", "-r", "in.pcap", "-w", "x.pcap"]).args(options);
    assert!(tcpdump.current_dir(theirs.path()).output().unwrap().status.success());
    let arguments = ["filter", "-r", "in.pcap", "-w", "x.pcap"].iter().chain(&options);
    let mut forebay = command(arguments);
    let output = forebay.current_dir(ours.path()).output().unwrap();
    command::ran(&forebay, output).exits(0);
    assert_eq!(names(ours.path()), names(theirs.path()));
    // With -G alone the run ends with the last file.
    let scratch = Scratch::with_packets(30_000);
    let name = scratch.text("x-%s.pcap");
    let mut command = command(["filter", "-v", "-r", "-", "-w", &name, "-G", "1", "-W", "1"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = fs::read(&scratch.input).unwrap();
    // It may end before it has taken all.
    let _ = stdin.write_all(&input);
    let end = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(100));
        let _ = stdin.write_all(&input[24..]);
    }
    let ran = command::ran(&command, child.wait_with_output().unwrap()).exits(0);
    assert!(ran.stderr.contains("every packet is accounted for"), "{}", ran.stderr);
    assert_eq!(names(scratch.folder.path()).len(), 2);
    assert!(
        run(["filter", "-r", &scratch.input, "-w", &name, "-W", "2"])
            .exits(2)
            .stderr
            .contains("-W")
    );
}
