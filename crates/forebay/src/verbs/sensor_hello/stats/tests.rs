//! Statistics as programs write them, and damaged statistics.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use super::*;

fn follow(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn append(path: &PathBuf, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn reader(kind: StatsKind, path: &Path) -> Reader {
    Reader::new(&StatsSource { kind, path: path.to_owned() })
}

fn event(uptime: u64, dropped: u64) -> String {
    let stats = counters(uptime, dropped);
    format!("{{\"event_type\":\"stats\",\"stats\":{stats}}}\n")
}

fn counters(uptime: u64, dropped: u64) -> String {
    let capture = format!("{{\"kernel_packets\":9000,\"kernel_drops\":{dropped}}}");
    format!("{{\"uptime\":{uptime},\"capture\":{capture}}}")
}

#[test]
fn sources_are_named_by_kind_and_path() {
    let source: StatsSource = "zeek:/var/log/a:b".parse().unwrap();
    assert_eq!((source.kind, source.path), (StatsKind::Zeek, PathBuf::from("/var/log/a:b")));
    for wrong in ["", "zeek", "zeek:", "snort:/x", "/var/log/eve.json"] {
        assert!(wrong.parse::<StatsSource>().is_err(), "{wrong}");
    }
}

#[test]
fn what_a_program_dropped_before_is_not_told() {
    let said = |uptime, dropped| total::Reading { dropped, uptime };
    // Readings after numbers of seconds, and the drops since the first.
    for (readings, expected) in [
        // The program is older than this process.
        (&[(0, said(Some(1_000), 50)), (8, said(Some(1_008), 53))][..], [0, 3]),
        (&[(5, said(Some(8), 50)), (13, said(Some(16), 53))], [0, 3]),
        // The program was started by this process; its age is a second too high.
        (&[(8, said(Some(9), 4)), (16, said(Some(17), 6))], [4, 6]),
        (&[(90, said(Some(8), 4)), (98, said(Some(16), 4))], [4, 4]),
        // The program was restarted, with fewer drops, as many, and more.
        (&[(0, said(Some(1_000), 50)), (60, said(Some(8), 7))], [0, 7]),
        (&[(0, said(Some(1_000), 50)), (60, said(Some(8), 50))], [0, 50]),
        (&[(0, said(Some(1_000), 50)), (60, said(Some(8), 70))], [0, 70]),
        // A log of two programs that have ended.
        (&[(0, said(Some(1_000), 50)), (0, said(Some(8), 7))], [0, 0]),
        // A program that does not report its age.
        (&[(0, said(None, 50)), (60, said(None, 53))], [0, 3]),
        (&[(0, said(None, 50)), (60, said(None, 7))], [0, 7]),
        (&[(0, said(Some(1_000), 50)), (60, said(None, 53))], [0, 3]),
    ] {
        let mut total = Total::new();
        let sums = readings.iter().map(|&(after, now)| {
            total.is_at_after(now, Duration::from_secs(after));
            total.sum
        });
        assert_eq!(sums.collect::<Vec<_>>(), expected, "{readings:?}");
    }
}

#[test]
fn eve_says_the_drops_since_the_start_of_suricata() {
    let alert = "{\"event_type\":\"alert\",\"alert\":{\"signature\":\"stats\"}}\n";
    let (_folder, path) = follow(&(event(992, 1) + &event(1_000, 3) + alert));
    let mut reader = reader(StatsKind::Eve, &path);
    assert_eq!(reader.dropped().unwrap(), Some(0), "of the time before");
    append(&path, alert);
    assert_eq!(reader.dropped().unwrap(), None);
    let (whole, half) = (event(1_008, 5), event(1_016, 7));
    append(&path, &(whole + &half[..20]));
    assert_eq!(reader.dropped().unwrap(), Some(2));
    append(&path, &half[20..]);
    assert_eq!(reader.dropped().unwrap(), Some(4));
    // Suricata was restarted.
    append(&path, &event(1, 20));
    assert_eq!(reader.dropped().unwrap(), Some(24));
    append(&path, "{\"event_type\":\"stats\",\"stats\":{\"capture\":{\"kernel_drops\":-1}}}\n");
    append(&path, "{\"event_type\":\"stats\"\n\u{0}\u{fffd}\"stats\"\n");
    assert_eq!(reader.dropped().unwrap(), None);
}

#[test]
fn logs_are_followed_over_rotation_and_truncation() {
    let (_folder, path) = follow(&event(100, 3));
    let mut reader = reader(StatsKind::Eve, &path);
    assert_eq!(reader.dropped().unwrap(), Some(0));
    append(&path, &event(108, 4));
    fs::rename(&path, path.with_extension("1")).unwrap();
    assert_eq!(reader.dropped().unwrap(), Some(1));
    append(&path, &event(116, 6));
    assert_eq!(reader.dropped().unwrap(), Some(3));
    fs::write(&path, "").unwrap();
    assert_eq!(reader.dropped().unwrap(), None);
    append(&path, &event(124, 8));
    assert_eq!(reader.dropped().unwrap(), Some(5));
}

#[test]
fn of_a_long_log_the_last_lines_are_read() {
    let filler = format!("{{\"event_type\":\"dns\",\"x\":\"{}\"}}\n", "y".repeat(900));
    let (_folder, path) = follow(&(event(100, 1) + &filler.repeat(6_000) + &event(108, 2)));
    let mut reader = reader(StatsKind::Eve, &path);
    assert_eq!(reader.dropped().unwrap(), Some(0));
    append(&path, &("z".repeat(3 << 20) + "\n" + &event(116, 3)));
    assert_eq!(reader.dropped().unwrap(), Some(1));
}

#[test]
fn zeek_says_the_drops_of_each_interval() {
    let head = "#separator \\x09\n#path\tstats\n#fields\tts\tpeer\tpkts_proc\tpkts_dropped\tx\n";
    let (_folder, path) = follow(&format!("{head}1.0\tw1\t100\t50\t-\n"));
    let mut zeek = reader(StatsKind::Zeek, &path);
    assert_eq!(zeek.dropped().unwrap(), Some(0), "of the time before");
    // The first interval of each process began before.
    append(&path, "2.0\tw1\t100\t30\t-\n2.0\tw2\t100\t40\t-\n");
    assert_eq!(zeek.dropped().unwrap(), Some(0), "in part of the time before");
    append(&path, "3.0\tw1\t100\t3\t-\n3.0\tw2\t100\t4\t-\n4.0\tw1\t1\t-\t-\n5.0\n");
    assert_eq!(zeek.dropped().unwrap(), Some(7));
    // Another log, with a new process.
    fs::rename(&path, path.with_extension("1")).unwrap();
    append(&path, "#fields\tts\tpkts_dropped\tpeer\n5.0\t2\tw1\n5.0\t1\tw3\n");
    assert_eq!(zeek.dropped().unwrap(), Some(10));
    let (_folder, path) = follow("");
    let mut json = reader(StatsKind::Zeek, &path);
    assert_eq!(json.dropped().unwrap(), Some(0));
    let line = |dropped| format!("{{\"ts\":1.0,\"peer\":\"w\",\"pkts_dropped\":{dropped}}}\n");
    append(&path, &(line(100) + &line(11) + "{\"ts\":2.0}\n{\n"));
    assert_eq!(json.dropped().unwrap(), Some(11));
    fs::write(&path, line(5)).unwrap();
    assert_eq!(json.dropped().unwrap(), Some(16), "of a log that began anew");
}

#[test]
fn a_log_that_begins_later_is_read_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.log");
    let mut zeek = reader(StatsKind::Zeek, &path);
    assert!(zeek.dropped().is_err());
    append(&path, "{\"pkts_dropped\":5}\n");
    assert_eq!(zeek.dropped().unwrap(), Some(5));
    assert!(reader(StatsKind::Eve, folder.path()).dropped().is_err(), "a folder");
    assert!(reader(StatsKind::Eve, Path::new("/dev/zero")).dropped().is_err());
}

#[test]
fn the_command_socket_is_asked_and_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut reader = reader(StatsKind::Suricata, &path);
    assert!(reader.dropped().is_err());
    let listener = UnixListener::bind(&path).unwrap();
    let said = |uptime, dropped| {
        format!("{{\"message\":{},\"return\":\"OK\"}}\n", counters(uptime, dropped))
    };
    let (first, second, anew) = (said(1_000, 4), said(1_008, 6), said(1, 9));
    let suricata = std::thread::spawn(move || {
        for answers in [
            &["{\"return\":\"OK\"}\n", first.as_str(), second.as_str()][..],
            &["{\"return\":\"OK\"}\n", anew.as_str()],
            &["{\"return\":\"OK\"}\n", "{\"message\":{},\"return\":\"OK\"}\n"],
            &["{\"return\":\"NOK\"}\n"],
            &["nonsense\n"],
        ] {
            let (mut socket, _) = listener.accept().unwrap();
            let mut questions = BufReader::new(socket.try_clone().unwrap()).lines();
            let mut asked = Vec::new();
            for answer in answers {
                asked.push(questions.next().unwrap().unwrap());
                socket.write_all(answer.as_bytes()).unwrap();
            }
            assert_eq!(asked[0], "{\"version\":\"0.2\"}");
            assert!(asked[1..].iter().all(|asked| asked == "{\"command\":\"dump-counters\"}"));
        }
    });
    assert_eq!(reader.dropped().unwrap(), Some(0), "of the time before");
    assert_eq!(reader.dropped().unwrap(), Some(2));
    assert!(reader.dropped().is_err(), "the connection was closed");
    assert_eq!(reader.dropped().unwrap(), Some(11), "started anew");
    assert!(reader.dropped().is_err());
    for _ in 0..4 {
        assert!(reader.dropped().is_err());
    }
    suricata.join().unwrap();
}
