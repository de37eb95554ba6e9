//! Sources of statistics as programs write them, and as they are when something is wrong.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

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

fn reader(kind: Kind, path: &Path) -> Reader {
    Reader::new(&StatsSource { kind, path: path.to_owned() })
}

fn event(dropped: u64) -> String {
    let capture = format!("{{\"kernel_packets\":9000,\"kernel_drops\":{dropped}}}");
    format!("{{\"event_type\":\"stats\",\"stats\":{{\"uptime\":8,\"capture\":{capture}}}}}\n")
}

#[test]
fn sources_are_named_by_kind_and_path() {
    let source: StatsSource = "zeek:/var/log/a:b".parse().unwrap();
    assert_eq!((source.kind, source.path), (Kind::Zeek, PathBuf::from("/var/log/a:b")));
    for wrong in ["", "zeek", "zeek:", "snort:/x", "/var/log/eve.json"] {
        assert!(wrong.parse::<StatsSource>().is_err(), "{wrong}");
    }
}

#[test]
fn eve_says_the_drops_since_the_start_of_suricata() {
    let alert = "{\"event_type\":\"alert\",\"alert\":{\"signature\":\"stats\"}}\n";
    let (_folder, path) = follow(&(event(3) + alert));
    let mut reader = reader(Kind::Eve, &path);
    assert_eq!(reader.dropped().unwrap(), Some(3));
    append(&path, alert);
    assert_eq!(reader.dropped().unwrap(), None);
    let (whole, half) = (event(5), event(7));
    append(&path, &(whole + &half[..20]));
    assert_eq!(reader.dropped().unwrap(), Some(5));
    append(&path, &half[20..]);
    assert_eq!(reader.dropped().unwrap(), Some(7));
    // Suricata has been started anew.
    append(&path, &event(2));
    assert_eq!(reader.dropped().unwrap(), Some(9));
    append(&path, "{\"event_type\":\"stats\",\"stats\":{\"capture\":{\"kernel_drops\":-1}}}\n");
    append(&path, "{\"event_type\":\"stats\"\n\u{0}\u{fffd}\"stats\"\n");
    assert_eq!(reader.dropped().unwrap(), None);
}

#[test]
fn logs_are_followed_over_rotation_and_truncation() {
    let (_folder, path) = follow(&event(3));
    let mut reader = reader(Kind::Eve, &path);
    assert_eq!(reader.dropped().unwrap(), Some(3));
    append(&path, &event(4));
    fs::rename(&path, path.with_extension("1")).unwrap();
    assert_eq!(reader.dropped().unwrap(), Some(4));
    append(&path, &event(6));
    assert_eq!(reader.dropped().unwrap(), Some(6));
    fs::write(&path, "").unwrap();
    assert_eq!(reader.dropped().unwrap(), None);
    append(&path, &event(8));
    assert_eq!(reader.dropped().unwrap(), Some(8));
}

#[test]
fn of_a_long_log_the_last_lines_are_read() {
    let filler = format!("{{\"event_type\":\"dns\",\"x\":\"{}\"}}\n", "y".repeat(900));
    let (_folder, path) = follow(&(event(1) + &filler.repeat(6_000) + &event(2)));
    let mut reader = reader(Kind::Eve, &path);
    assert_eq!(reader.dropped().unwrap(), Some(2));
    append(&path, &("z".repeat(3 << 20) + "\n" + &event(3)));
    assert_eq!(reader.dropped().unwrap(), Some(3));
}

#[test]
fn zeek_says_the_drops_of_each_interval() {
    let head = "#separator \\x09\n#path\tstats\n#fields\tts\tpeer\tpkts_proc\tpkts_dropped\tx\n";
    let (_folder, path) = follow(&format!("{head}1.0\tw1\t100\t50\t-\n"));
    let mut zeek = reader(Kind::Zeek, &path);
    assert_eq!(zeek.dropped().unwrap(), Some(0), "of the time before");
    append(&path, "2.0\tw1\t100\t3\t-\n2.0\tw2\t100\t4\t-\n3.0\tw1\t1\t-\t-\n4.0\n");
    assert_eq!(zeek.dropped().unwrap(), Some(7));
    fs::rename(&path, path.with_extension("1")).unwrap();
    let other = "#fields\tts\tpkts_dropped\n5.0\t2\n";
    append(&path, other);
    assert_eq!(zeek.dropped().unwrap(), Some(9));
    let (_folder, path) = follow("");
    let mut json = reader(Kind::Zeek, &path);
    assert_eq!(json.dropped().unwrap(), Some(0));
    append(&path, "{\"ts\":1.0,\"peer\":\"w\",\"pkts_dropped\":11}\n{\"ts\":2.0}\n{\n");
    assert_eq!(json.dropped().unwrap(), Some(11));
}

#[test]
fn a_log_that_begins_later_is_read_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stats.log");
    let mut zeek = reader(Kind::Zeek, &path);
    assert!(zeek.dropped().is_err());
    append(&path, "{\"pkts_dropped\":5}\n");
    assert_eq!(zeek.dropped().unwrap(), Some(5));
    assert!(reader(Kind::Eve, folder.path()).dropped().is_err(), "a folder");
    assert!(reader(Kind::Eve, Path::new("/dev/zero")).dropped().is_err());
}

#[test]
fn the_command_socket_is_asked_and_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut reader = reader(Kind::Suricata, &path);
    assert!(reader.dropped().is_err());
    let listener = UnixListener::bind(&path).unwrap();
    let suricata = std::thread::spawn(move || {
        for answers in [
            &[
                "{\"return\":\"OK\"}\n",
                "{\"message\":{\"capture\":{\"kernel_drops\":4}},\"return\":\"OK\"}\n",
            ][..],
            &[
                "{\"return\":\"OK\"}\n",
                "{\"message\":{\"capture\":{\"kernel_drops\":1}},\"return\":\"OK\"}\n",
            ],
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
            assert!(asked.len() == 1 || asked[1] == "{\"command\":\"dump-counters\"}");
        }
    });
    assert_eq!(reader.dropped().unwrap(), Some(4));
    assert!(reader.dropped().is_err(), "the connection was closed");
    assert_eq!(reader.dropped().unwrap(), Some(5), "started anew");
    assert!(reader.dropped().is_err());
    for _ in 0..4 {
        assert!(reader.dropped().is_err());
    }
    suricata.join().unwrap();
}
