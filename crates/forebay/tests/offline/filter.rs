//! `forebay filter` and `forebay compile`: the flags mean what tcpdump's mean.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::command::{self, run};
use crate::support::data;
use crate::support::scratch::Scratch;
use forebay_testkit::capture;
use forebay_testkit::make::{self, ETHERNET, Pcap};
use serde_json::{Value, json};

impl Scratch {
    /// Filters into a file and reads it.
    fn filtered(&self, options: &[&str]) -> capture::Capture {
        let copy = self.text("copy.pcap");
        run(["filter", "-r", &self.input, "-w", &copy].iter().chain(options)).exits(0);
        capture::read(copy)
    }

    fn count(&self, options: &[&str]) -> String {
        run(["filter", "-r", &self.input, "--count"].iter().chain(options)).exits(0).text()
    }
}

#[test]
fn a_limit_counts_selected_packets() {
    let scratch = Scratch::with_packets(4_000);
    let all = capture::read(&scratch.input).packets;
    let selected: Vec<_> = all.iter().filter(|one| one.wire_len > 200).take(17).cloned().collect();
    let found = scratch.filtered(&["-c", "17", "greater 201"]);
    assert_eq!(selected.len(), 17);
    assert!(found.packets == selected && !found.cut);
    assert_eq!(scratch.count(&["-c", "1"]), "1 packet\n");
    assert_eq!(scratch.count(&["-c", "999999"]), "4000 packets\n");
    run(["filter", "-r", &scratch.input, "-c", "0"]).exits(2);
}

#[test]
fn a_snapshot_length_cuts_what_is_written() {
    let scratch = Scratch::with_packets(4_000);
    let all = capture::read(&scratch.input).packets;
    let found = scratch.filtered(&["-s", "60"]).packets;
    assert_eq!(found.len(), all.len());
    for (cut, whole) in found.iter().zip(&all) {
        assert_eq!(cut.data, whole.data[..whole.data.len().min(60)]);
        assert_eq!((cut.wire_len, cut.nanos), (whole.wire_len, whole.nanos));
    }
    assert!(scratch.filtered(&["-s", "0"]).packets == all);
}

#[test]
fn expressions_come_from_words_files_and_programs() {
    let scratch = Scratch::with_packets(4_000);
    let expression = "udp src port 1024 or less 46";
    let expected = scratch.count(&[expression]);
    assert!(expected != "0 packets\n" && expected != "4000 packets\n");
    let words: Vec<&str> = expression.split(' ').collect();
    assert_eq!(scratch.count(&words), expected);

    let file = scratch.text("expression");
    fs::write(&file, format!("{expression}\n")).unwrap();
    assert_eq!(scratch.count(&["-F", &file]), expected);

    let ddd = run(["compile", "--emit", "ddd", expression]).exits(0).text();
    let lines: Vec<&str> = ddd.lines().collect();
    assert_eq!(lines[0].parse(), Ok(lines.len() - 1));
    let program = scratch.text("program");
    fs::write(&program, ddd).unwrap();
    assert_eq!(scratch.count(&["--program", &program]), expected);
    let both = ["filter", "-r", &scratch.input, "--count", "-F", &file, "udp"];
    run(both).exits(2);
}

#[test]
fn verdicts_are_one_number_a_packet() {
    let scratch = Scratch::with_packets(4_000);
    let text = run(["filter", "-r", &scratch.input, "--verdicts", "less 100"]).exits(0).text();
    let all = capture::read(&scratch.input).packets;
    let expected = all.iter().map(|one| if one.wire_len <= 100 { "262144" } else { "0" });
    assert!(text.lines().eq(expected));
    let json = run(["filter", "-r", &scratch.input, "--verdicts", "--json", "udp"]).exits(0).json();
    assert_eq!(json["verdicts"].as_array().unwrap().len(), 4_000);
}

#[test]
fn a_summary_is_a_line_a_packet() {
    let scratch = Scratch::with_packets(4_000);
    let text = run(["filter", "-r", &scratch.input, "-c", "3"]).exits(0).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    for (i, line) in lines.iter().enumerate() {
        assert!(line.starts_with("2023-11-14T22:13:20."), "{line}");
        let ends = format!(" udp 10.1.0.{i}:{} > 192.0.2.1:53, length {}", 1024 + i, 43 + i);
        assert!(line.ends_with(&ends), "{line}");
    }
    let totals = run(["filter", "-r", &scratch.input, "--json", "src port 1030"]).exits(0).json();
    assert_eq!((totals["matched"].as_u64(), &totals["selected"]), (Some(1), &Value::Null));
    let packets = ["filter", "-r", &scratch.input, "--json", "--packets", "src port 1030"];
    let json = run(packets).exits(0).json();
    assert_eq!((json["packets"].as_u64(), json["matched"].as_u64()), (Some(4_000), Some(1)));
    let selected = &json["selected"][0];
    assert_eq!(selected["source"], "10.1.0.6:1030");
    assert_eq!((&selected["proto"], &selected["protocol"]), (&json!("udp"), &json!("udp")));
    assert_eq!(selected["source_address"], "10.1.0.6");
    assert_eq!((&selected["source_port"], &json["closes"]), (&json!(1030), &json!(true)));
    assert_eq!((selected["length"].as_u64(), selected["captured"].as_u64()), (Some(49), Some(49)));
}

#[test]
fn json_of_every_form_has_a_ledger_that_closes() {
    let scratch = Scratch::with_packets(4_000);
    let copy = scratch.text("copy.pcap");
    for options in [&["--count"][..], &["--verdicts"], &["-w", &copy], &["-c", "5"]] {
        let common = ["filter", "-r", &scratch.input, "--json"];
        let arguments = common.iter().chain(options).chain(&["less 100"]);
        let json = run(arguments).exits(0).json();
        assert!(json["error"].is_null(), "{json}");
    }
}

/// Names and contents of all files of a folder that are not the input.
fn written(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = command::files(folder).into_iter().filter(|path| name(path) != "in.pcap");
    files.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
}

#[test]
fn files_are_rotated_as_tcpdump_rotates_them() {
    if !data::has_program("tcpdump") {
        return;
    }
    let frames: Vec<Vec<u8>> = (0..4_000_u16)
        .map(|i| make::udp(([10, 0, 0, 1], i), ([10, 0, 0, 2], 53), &[i as u8; 1_300]))
        .collect();
    let bytes = Pcap::of(ETHERNET).file(&frames);
    for options in [&["-C", "1"][..], &["-C", "2", "-W", "11"], &["-C", "1", "-W", "3"]] {
        let [ours, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for folder in [&ours, &theirs] {
            fs::write(folder.path().join("in.pcap"), &bytes).unwrap();
        }
        let mut tcpdump = Command::new("tcpdump");
        // As root it would give up the right to write into the folder.
        tcpdump.args(["-Z", "root", "-r", "in.pcap", "-w", "x.pcap"]).args(options);
        let status = tcpdump.current_dir(theirs.path()).output().unwrap().status;
        assert!(status.success());
        let arguments = ["filter", "-r", "in.pcap", "-w", "x.pcap"].iter().chain(options);
        let mut forebay = command::command(arguments);
        let output = forebay.current_dir(ours.path()).output().unwrap();
        command::ran(&forebay, output).exits(0);
        let (ours, theirs) = (written(ours.path()), written(theirs.path()));
        let sizes = |files: &[(String, Vec<u8>)]| -> Vec<(String, usize)> {
            files.iter().map(|(name, bytes)| (name.clone(), bytes.len())).collect()
        };
        assert!(theirs.len() > 1);
        assert_eq!(sizes(&ours), sizes(&theirs), "{options:?}");
        assert!(ours == theirs, "{options:?}: the contents differ");
    }
}

#[test]
fn names_by_time_take_known_conversions_only() {
    let scratch = Scratch::with_packets(4_000);
    for pattern in ["x-%Q.pcap", "x-%", "x-%é.pcap"] {
        let name = scratch.text(pattern);
        let ran = run(["filter", "-r", &scratch.input, "-w", &name, "-G", "60"]);
        ran.exits(2).says(&["%Y", "is not known"]);
    }
    assert!(written(scratch.folder.path()).is_empty());
    let name = scratch.text("x-%Y-%s-%%.pcap");
    let ran = run(["filter", "-r", &scratch.input, "-w", &name, "-G", "3600", "--json"]).exits(0);
    let files = written(scratch.folder.path());
    assert_eq!(files.len(), 1);
    assert!(files[0].0.starts_with("x-20") && files[0].0.ends_with("-%.pcap"), "{}", files[0].0);
    let told = ran.json()["files"][0].as_str().unwrap().to_owned();
    assert_eq!(Path::new(&told).file_name().unwrap(), files[0].0.as_str());
}

#[test]
fn listings_equal_tcpdumps() {
    let folder = data::folder();
    if !data::has_program("tcpdump") {
        return;
    }
    let scratch = Scratch::with_packets(4_000);
    let mut compared = 0;
    for expression in data::expressions(&folder) {
        let theirs = Command::new("tcpdump")
            .args(["-r", &scratch.input, "-d", "--", &expression])
            .output()
            .unwrap();
        if !theirs.status.success() {
            continue;
        }
        let ours = run(["compile", "--emit", "cbpf", "--", &expression]).exits(0).text();
        assert_eq!(ours, String::from_utf8(theirs.stdout).unwrap(), "{expression}");
        compared += 1;
    }
    assert!(compared > 100, "only {compared} expressions");
}

#[test]
fn manual_pages_and_completions_are_made() {
    let folder = tempfile::tempdir().unwrap();
    run(["man", "--out", folder.path().to_str().unwrap()]).exits(0);
    let pages: Vec<(String, Vec<u8>)> = written(folder.path());
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for name in
        ["forebay.1", "forebay-filter.1", "forebay-split.1", "forebay-flows.1", "forebay-gen.1"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(pages.iter().all(|(_, text)| text.windows(3).any(|part| part == b".TH")));
    for shell in ["bash", "zsh", "fish"] {
        let text = run(["completions", shell]).exits(0).text();
        assert!(text.contains("forebay") && text.contains("vlan-in-key"), "{shell}");
    }
}
