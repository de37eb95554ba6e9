//! Recorders and live captures: what is "out" is in the file, whatever the disk, the folder's
//! owner and SIGKILL do.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::broker::{Started, ask, broker, number, row};
use crate::support::command::{command, run};
use crate::support::namespace::{in_namespace, veth, wait_for};
use serde_json::Value;

/// The user and group nobody.
const NOBODY: u32 = 65_534;

/// A folder for a test, with a file system of its own of 256 KiB at `disk`. To be called in a
/// namespace's thread.
pub(crate) fn small_disk() -> tempfile::TempDir {
    // SAFETY: concerns this thread's mounts alone, and no memory.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mount = |words: &[&str]| {
        let status = Command::new("mount").args(words).status().unwrap();
        assert!(status.success(), "mount {words:?}");
    };
    mount(&["--make-rprivate", "/"]);
    mount(&["-t", "tmpfs", "-o", "size=256k", "none", disk.to_str().unwrap()]);
    folder
}

/// A broker's configuration with a recorder that takes all that comes to device `b`.
fn configure(folder: &Path, file: &Path, broker: &str, keys: &str) -> PathBuf {
    let config = folder.join("run.toml");
    let text = format!(
        "[broker]\ncontrol = \"{}\"\n{broker}\n\
         [[input]]\nname = \"tap\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
         [[output]]\nname = \"disk\"\ntype = \"pcap\"\nfile = \"{}\"\n{keys}\n\
         [[group]]\nname = \"all\"\n[[group.sensor]]\nname = \"disk\"\n",
        folder.join("control").display(),
        file.display()
    );
    fs::write(&config, text).unwrap();
    config
}

fn generate(packets: u32) {
    let packets = packets.to_string();
    let ran = run(["gen", "-i", "g", "--rate", "4000", "--flows", "20", "--packets", &packets]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

/// Packets of a capture; the last of it may be cut off.
fn packets(capture: &Path) -> u64 {
    let ran = run(["filter", "--count", "--json", "-r", capture.to_str().unwrap()]);
    let said: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", ran.stderr);
    });
    number(&said, "matched")
}

fn given(socket: &Path) -> u64 {
    let said = ask(socket, &["ledger"]).unwrap();
    number(row(&said, "tx disk"), "in")
}

#[test]
fn a_recorder_on_a_full_disk_counts_what_is_in_its_file_and_goes_on_when_there_is_room() {
    in_namespace(|| {
        veth("g", "b");
        let folder = small_disk();
        let (disk, socket) = (folder.path().join("disk"), folder.path().join("control"));
        let (file, partial) = (disk.join("all.pcapng"), disk.join("all.pcapng.partial"));
        fs::write(disk.join("ballast"), vec![1; 100 << 10]).unwrap();
        let keys = "on_full = \"retry\"";
        let config = configure(folder.path(), &file, "metrics = \"127.0.0.1:0\"", keys);
        let broker = broker(&config, &socket);
        generate(2_000);
        wait_for("all packets", || given(&socket) == 2_000);
        let said = ask(&socket, &["ledger"]).unwrap();
        let disk_row = row(&said, "tx disk").clone();
        let out = number(&disk_row, "out");
        assert!(0 < out && out < 2_000, "{disk_row}");
        assert_eq!(number(&disk_row["drops"], "disk_full"), 2_000 - out, "{disk_row}");
        assert_eq!(packets(&partial), out);
        wait_for("the notice", || broker.said().contains("output disk: cannot write"));
        assert!(broker.said().contains("No space left on device"), "{}", broker.said());
        let status = ask(&socket, &["status"]).unwrap();
        let recorder = &status["outputs"][0]["recorder"];
        // A packet may have fitted after a failure, where others came late.
        assert!(["waiting", "trying"].map(Value::from).contains(&recorder["state"]), "{status}");
        assert!(recorder["fault"].as_str().unwrap().contains("space"), "{status}");

        fs::remove_file(disk.join("ballast")).unwrap();
        let mut sent = 2_000;
        wait_for("the recorder to go on", || {
            generate(20);
            sent += 20;
            broker.said().contains("output disk: records to")
        });
        wait_for("all packets", || given(&socket) == sent);
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        let last = number(row(&said, "tx disk"), "out");
        assert!(last > out, "{said}");
        assert_eq!(packets(&file), last);
        assert!(!partial.exists());
    });
}

#[test]
fn a_live_capture_on_a_full_disk_ends_with_what_its_ledger_says() {
    in_namespace(|| {
        veth("g", "b");
        let folder = small_disk();
        let file = folder.path().join("disk/out.pcap");
        let words = ["filter", "-i", "b", "--json", "-U", "-w", file.to_str().unwrap()];
        let mut capture = Started::listening(command(words));
        generate(4_000);
        let (status, stdout) = capture.output();
        assert_eq!(status, Some(1), "{}", capture.said());
        assert!(capture.said().contains("out.pcap: No space left on device"), "{}", capture.said());
        let said: Value = serde_json::from_slice(&stdout).unwrap();
        let rows = said["ledger"].as_array().unwrap();
        let out = number(rows.last().unwrap(), "out");
        assert!(out > 0 && packets(&file) == out, "{said}");
        assert!(number(&rows.last().unwrap()["drops"], "disk_full") > 0, "{said}");
    });
}

/// What tcpdump reads of a capture that may end within a packet.
fn tcpdump_reads(capture: &Path) -> u64 {
    let output = Command::new("tcpdump").args(["-n", "-r"]).arg(capture).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().count() as u64
}

#[test]
fn what_is_recorded_is_readable_after_sigkill_and_kept_by_the_next() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        eprintln!("skipped: tcpdump is not installed");
        return;
    }
    in_namespace(|| {
        veth("g", "b");
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let live = at("live.pcap");
        let words = ["filter", "-i", "b", "-w", live.to_str().unwrap()];
        let mut capture = Started::listening(command(words));
        let config = configure(folder.path(), &at("all.pcapng"), "", "");
        let mut recorder = broker(&config, &at("control"));
        generate(500);
        // Written out within a second or two, without -U.
        wait_for("the packets in the capture", || tcpdump_reads(&at("live.pcap.partial")) == 500);
        wait_for("the packets", || given(&at("control")) == 500);
        let out = || number(row(&ask(&at("control"), &["ledger"]).unwrap(), "tx disk"), "out");
        wait_for("the packets in the recording", || out() == 500);
        capture.signal(libc::SIGKILL);
        recorder.signal(libc::SIGKILL);
        assert_eq!((capture.output().0, recorder.output().0), (None, None));
        assert_eq!(tcpdump_reads(&at("live.pcap.partial")), 500);
        assert_eq!(tcpdump_reads(&at("all.pcapng.partial")), 500);
        let next = broker(&config, &at("control"));
        assert_eq!(tcpdump_reads(&at("all.pcapng.partial.old")), 500);
        next.signal(libc::SIGTERM);
        next.ended();
        assert!(at("all.pcapng").exists() && !at("all.pcapng.partial").exists());
    });
}

#[test]
fn a_recorder_begins_files_by_size_and_keeps_a_number_of_them() {
    in_namespace(|| {
        veth("g", "b");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("all.pcapng");
        let socket = folder.path().join("control");
        let keys = "rotate = { size = \"64KiB\", every = \"1h\", keep = 3 }";
        let config = configure(folder.path(), &file, "", keys);
        let broker = broker(&config, &socket);
        generate(3_000);
        wait_for("the packets", || given(&socket) == 3_000);
        let status = ask(&socket, &["status"]).unwrap();
        let recorder = status["outputs"][0]["recorder"].clone();
        let (files, removed) = (number(&recorder, "files"), number(&recorder, "removed_files"));
        assert!(files > 4 && removed == files - 3, "{recorder}");
        broker.signal(libc::SIGTERM);
        assert_eq!(number(row(&broker.ended(), "tx disk"), "out"), 3_000);
        let names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("all_"))
            .collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names.iter().all(|name| packets(&folder.path().join(name)) > 0));
    });
}

#[test]
fn a_recorder_of_another_user_writes_as_that_user_and_follows_no_link() {
    in_namespace(|| {
        veth("g", "b");
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(folder.path(), 0o777);
        let (theirs, victim) = (folder.path().join("theirs"), folder.path().join("victim"));
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::write(&victim, "precious").unwrap();
        mode(&victim, 0o600);
        let file = theirs.join("all.pcapng");
        let config = |user: &str| configure(folder.path(), &file, user, "");
        let nobody = "user = \"nobody\"";
        // Whoever owns the folder leads the recorder elsewhere: by its name, and by the other.
        for user in [nobody, ""] {
            for (name, says) in [("all.pcapng", "symbolic link"), ("all.pcapng.partial", "no file")]
            {
                symlink(&victim, theirs.join(name)).unwrap();
                let ran = run(["run", "-c", config(user).to_str().unwrap()]);
                assert!(ran.status == 1 && ran.stderr.contains(says), "{}", ran.stderr);
                assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
                fs::remove_file(theirs.join(name)).unwrap();
            }
        }
        let socket = folder.path().join("control");
        let broker = broker(&config(nobody), &socket);
        let found = fs::metadata(theirs.join("all.pcapng.partial")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&found), NOBODY);
        generate(50);
        wait_for("the packets", || given(&socket) == 50);
        broker.signal(libc::SIGTERM);
        assert_eq!(number(row(&broker.ended(), "tx disk"), "out"), 50);
        assert_eq!(packets(&file), 50);
        // A folder that the user may not write to is an error that names the file.
        mode(&theirs, 0o755);
        chown(&theirs, Some(0), Some(0)).unwrap();
        let ran = run(["run", "-c", config(nobody).to_str().unwrap()]);
        let says = "output disk: cannot create";
        assert!(ran.status == 1 && ran.stderr.contains(says), "{}", ran.stderr);
    });
}

#[test]
fn a_recorder_that_outgrows_the_limit_of_file_sizes_says_so_and_goes_on() {
    in_namespace(|| {
        veth("g", "b");
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("all.pcapng"), folder.path().join("control"));
        let config = configure(folder.path(), &file, "", "");
        let mut limited = Command::new("sh");
        // In blocks of 512 bytes, or of 1024 in bash.
        limited.args(["-c", "ulimit -f 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_forebay")]);
        limited.args(["run", "--json", "-c"]).arg(&config);
        let broker = crate::support::broker::broker_by(limited, &socket);
        generate(2_000);
        wait_for("the packets", || given(&socket) == 2_000);
        wait_for("the notice", || broker.said().contains("File too large"));
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        let out = number(row(&said, "tx disk"), "out");
        assert!(out < 2_000 && packets(&file) == out, "{said}");
    });
}
