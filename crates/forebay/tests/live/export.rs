//! Records of flows of a running broker: files have all records, or the account names why not.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::recording::small_disk;
use crate::support::broker::{Started, ask, broker, number, row};
use crate::support::command::run;
use crate::support::namespace::{in_namespace, veth, wait_for};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};

/// The user and group nobody.
const NOBODY: u32 = 65_534;

/// A broker's configuration with two workers and a group `all`, whose records are exported.
fn configure(folder: &Path, broker: &str, export: &str, flows: &str) -> PathBuf {
    let config = folder.join("run.toml");
    let text = format!(
        "[broker]\ncontrol = \"{}\"\nworkers = 2\n{broker}\n[export]\n{export}\n\
         [[input]]\nname = \"tap\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
         [[output]]\nname = \"out\"\ntype = \"af_packet\"\ninterface = \"c\"\n\
         [[group]]\nname = \"all\"\nfilter = \"udp\"\nflows = {flows}\n\
         [[group.sensor]]\nname = \"ids\"\n",
        folder.join("control").display(),
    );
    fs::write(&config, text).unwrap();
    config
}

fn devices() {
    veth("g", "b");
    veth("c", "d");
}

fn generate(flows: u32, packets: u32, rate: u32) {
    let [flows, packets, rate] = [flows, packets, rate].map(|number| number.to_string());
    let gen_words = ["gen", "-i", "g", "--rate", &rate, "--flows", &flows, "--packets", &packets];
    let ran = run(gen_words);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

/// Packets that came to the group's records.
fn counted(socket: &Path) -> u64 {
    let said = ask(socket, &["ledger"]).unwrap();
    number(row(&said, "group all"), "in")
}

/// Records of JSON lines.
fn records(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn packets(records: &[Value]) -> u64 {
    records.iter().map(|one| number(one, "packets_ab") + number(one, "packets_ba")).sum()
}

/// Waits until no record ends any more, and all that ended are written or lost. Returns the state
/// of the export.
fn all_ended(socket: &Path) -> Value {
    let mut before = 0;
    let mut export = Value::Null;
    wait_for("all records", || {
        sleep(Duration::from_millis(500));
        let status = ask(socket, &["status"]).unwrap();
        export = status["export"].clone();
        let lost: u64 =
            export["lost"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        let ended = number(&status["remarks"], "flows_idle");
        let is_still = ended > 0 && ended == std::mem::replace(&mut before, ended);
        is_still && number(&export, "written") + lost == ended
    });
    export
}

fn stop(broker: Started) -> Value {
    broker.signal(libc::SIGTERM);
    let said = broker.ended();
    assert_eq!((&said["closes"], &said["errors"]), (&true.into(), &json!([])));
    said
}

/// All records that ended are in files or lost.
#[track_caller]
fn all_written(said: &Value, records: u64) {
    let export = &said["export"];
    assert_eq!((number(export, "written"), number(export, "held")), (records, 0), "{said}");
    assert_eq!((&export["lost"], &export["fault"]), (&json!({}), &Value::Null));
}

#[test]
fn sigterm_writes_all_records_and_they_have_all_packets() {
    in_namespace(|| {
        devices();
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::create_dir(at("theirs")).unwrap();
        chown(at("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
        let file = at("theirs/flows.jsonl");
        let export = format!("path = \"{}\"\nformat = \"jsonl\"", file.display());
        let config = configure(folder.path(), "user = \"nobody\"", &export, "true");
        let broker = broker(&config, &at("control"));
        let partial = at("theirs/flows.jsonl.partial");
        assert_eq!(fs::metadata(&partial).unwrap().uid(), NOBODY);
        generate(20, 1_000, 4_000);
        wait_for("the packets", || counted(&at("control")) == 1_000);
        let said = stop(broker);
        let records = records(&file);
        assert!(!partial.exists());
        assert_eq!((records.len(), packets(&records)), (20, 1_000), "{said}");
        all_written(&said, 20);
        for record in &records {
            let of_broker = ["group", "sensor", "cut", "shed"].map(|name| record[name].clone());
            assert_eq!(of_broker, [json!("all"), json!("ids"), json!(0), json!(0)], "{record}");
            assert_eq!(record["proto"], "udp");
        }
    });
}

#[test]
fn records_are_written_as_they_end_in_files_that_follow_one_another() {
    in_namespace(|| {
        devices();
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("flows.csv"), folder.path().join("control"));
        let export = format!(
            "path = \"{}\"\nrotate = {{ size = \"64KiB\", keep = 3 }}\ngroups = [\"all\"]",
            file.display()
        );
        let flows = "{ idle_timeout = \"200ms\" }";
        let config = configure(folder.path(), "metrics = \"127.0.0.1:0\"", &export, flows);
        let broker = broker(&config, &socket);
        generate(20_000, 6_000, 8_000);
        let export = all_ended(&socket);
        let (begun, removed) = (number(&export, "files"), number(&export, "removed_files"));
        assert!(begun > 4 && removed == begun - 3, "{export}");
        let ended = number(&export, "written");
        assert_eq!((&export["lost"], &export["held"]), (&json!({}), &0.into()));
        // A change that leaves the export as it is keeps it, and one of it is refused.
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace("200ms", "300ms")).unwrap();
        assert!(ask(&socket, &["reload"]).is_some());
        fs::write(&config, text.replace("keep = 3", "keep = 4")).unwrap();
        let refused = run(["ctl", "-s", socket.to_str().unwrap(), "reload"]);
        assert!(refused.status == 1 && refused.stderr.contains("export"), "{}", refused.stderr);
        generate(20, 40, 4_000);
        wait_for("the packets", || counted(&socket) == 6_040);
        let said = stop(broker);
        let written = number(&said["export"], "written");
        assert!((ended + 1..=ended + 40).contains(&written), "{said}");
        all_written(&said, written);
        let names: BTreeSet<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("flows"))
            .collect();
        assert!(names.len() == 3 && names.iter().all(|name| name.ends_with(".csv")), "{names:?}");
    });
}

#[test]
fn a_stage_that_is_turned_off_leaves_its_open_records() {
    in_namespace(|| {
        devices();
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("flows.parquet"), folder.path().join("control"));
        let export = format!("path = \"{}\"\nformat = \"parquet\"", file.display());
        let config = configure(folder.path(), "", &export, "true");
        let broker = broker(&config, &socket);
        generate(20, 600, 4_000);
        wait_for("the packets", || counted(&socket) == 600);
        let held = || number(&ask(&socket, &["status"]).unwrap()["export"], "held");
        assert_eq!(held(), 0);
        // Another size is another table.
        let text = fs::read_to_string(&config).unwrap();
        fs::write(&config, text.replace("flows = true", "flows = { max_flows = 1000 }")).unwrap();
        assert!(ask(&socket, &["reload"]).is_some());
        wait_for("the records of the old table", || held() == 20);
        generate(20, 600, 4_000);
        wait_for("the packets", || counted(&socket) == 1_200);
        all_written(&stop(broker), 40);
        let reader = SerializedFileReader::new(fs::File::open(&file).unwrap()).unwrap();
        let mut sum = 0;
        for row in reader.get_row_iter(None).unwrap() {
            for (name, field) in row.unwrap().into_columns() {
                match (name.as_str(), field) {
                    ("packets_ab" | "packets_ba", Field::ULong(packets)) => sum += packets,
                    ("group", field) => assert_eq!(field, Field::Str("all".to_owned())),
                    ("sensor", field) => assert_eq!(field, Field::Str("ids".to_owned())),
                    _ => {}
                }
            }
        }
        assert_eq!(sum, 1_200);
    });
}

#[test]
fn records_that_end_faster_than_they_are_written_are_counted_and_packets_go_on() {
    in_namespace(|| {
        devices();
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("flows.jsonl"), folder.path().join("control"));
        let export = format!("path = \"{}\"\nformat = \"jsonl\"\nqueue = 64", file.display());
        // Nearly each packet ends the record of another flow.
        let config = configure(folder.path(), "", &export, "{ max_flows = 16 }");
        let broker = broker(&config, &socket);
        generate(20_000, 20_000, 100_000);
        wait_for("the packets", || counted(&socket) == 20_000);
        let evicted = number(&ask(&socket, &["status"]).unwrap()["remarks"], "flows_evicted");
        wait_for("the notice", || broker.said().contains("(queue_full)"));
        let said = stop(broker);
        let lost = number(&said["export"]["lost"], "queue_full");
        let records = records(&file);
        assert_eq!(number(&said["export"], "written"), records.len() as u64, "{said}");
        // Each worker's open records come last.
        let open = records.iter().filter(|record| record["ended"].is_null()).count() as u64;
        assert!(lost > 0 && (1..=32).contains(&open), "{said}");
        assert_eq!(records.len() as u64 + lost, evicted + open, "{said}");
        assert_eq!(number(row(&said, "group all"), "out"), 20_000, "{said}");
    });
}

#[test]
fn a_full_disk_loses_records_by_name_and_files_are_whole() {
    in_namespace(|| {
        devices();
        let folder = small_disk();
        let (disk, socket) = (folder.path().join("disk"), folder.path().join("control"));
        fs::write(disk.join("ballast"), vec![1; 100 << 10]).unwrap();
        let path = disk.join("flows.csv");
        let export = format!("path = \"{}\"", path.display());
        let config = configure(folder.path(), "", &export, "{ idle_timeout = \"100ms\" }");
        let broker = broker(&config, &socket);
        generate(20_000, 6_000, 4_000);
        let full = all_ended(&socket);
        assert!(number(&full, "written") > 0, "{full}");
        assert!(number(&full["lost"], "disk_full") > 0, "{full}");
        // A few records may have fitted after a failure, where the others came late.
        let fault = full["fault"].as_str();
        assert!(fault.is_none_or(|fault| fault.contains("space")), "{full}");
        assert!(broker.said().contains("export: cannot write"), "{}", broker.said());
        assert!(broker.said().contains("No space left on device"), "{}", broker.said());
        fs::remove_file(disk.join("ballast")).unwrap();
        let mut sent = 6_000;
        wait_for("the export to go on", || {
            generate(20, 20, 4_000);
            sent += 20;
            // For longer than the idle timeout.
            sleep(Duration::from_millis(300));
            let export = &ask(&socket, &["status"]).unwrap()["export"];
            number(export, "written") > number(&full, "written") && export["fault"].is_null()
        });
        wait_for("the notice", || broker.said().contains("export: writes again"));
        wait_for("the packets", || counted(&socket) == sent);
        let said = stop(broker);
        let mut lines = 0;
        for entry in fs::read_dir(&disk).unwrap() {
            let file = entry.unwrap().path();
            assert_eq!(file.extension().and_then(|name| name.to_str()), Some("csv"), "{file:?}");
            let text = fs::read_to_string(&file).unwrap();
            let whole = text.lines().skip(1).filter(|line| line.split(',').count() == 22).count();
            assert_eq!(whole, text.lines().count() - 1, "{file:?}");
            assert!(text.ends_with('\n'), "{file:?}");
            lines += whole as u64;
        }
        assert_eq!(lines, number(&said["export"], "written"), "{said}");
        assert!(lines > number(&full, "written"), "{said}");
    });
}

#[test]
fn a_program_at_a_socket_reads_records_and_those_without_it_are_counted() {
    in_namespace(|| {
        devices();
        let folder = tempfile::tempdir().unwrap();
        let (path, socket) = (folder.path().join("flows"), folder.path().join("control"));
        let listener = UnixListener::bind(&path).unwrap();
        let export =
            format!("type = \"socket\"\nformat = \"jsonl\"\npath = \"{}\"", path.display());
        let config = configure(folder.path(), "", &export, "{ idle_timeout = \"200ms\" }");
        let broker = broker(&config, &socket);
        let (reader, _) = listener.accept().unwrap();
        generate(50, 1_000, 8_000);
        let state = all_ended(&socket);
        let written = number(&state, "written");
        assert!(written >= 50 && state["lost"] == json!({}), "{state}");
        let mut lines = BufReader::new(reader).lines();
        let read = lines.by_ref().take(written as usize).map(|line| line.unwrap());
        let records: Vec<Value> = read.map(|line| serde_json::from_str(&line).unwrap()).collect();
        assert_eq!(packets(&records), 1_000);
        // The reader goes, and nobody listens any more.
        drop((lines, listener));
        fs::remove_file(&path).unwrap();
        wait_for("the notice", || broker.said().contains("tries again every second"));
        generate(50, 1_000, 8_000);
        let state = all_ended(&socket);
        assert!(number(&state["lost"], "no_reader") >= 50, "{state}");
        let listener = UnixListener::bind(&path).unwrap();
        let (reader, _) = listener.accept().unwrap();
        wait_for("the notice", || broker.said().contains("export: writes again"));
        generate(50, 1_000, 8_000);
        wait_for("the packets", || counted(&socket) == 3_000);
        let said = stop(broker);
        let again = BufReader::new(reader).lines().map(|line| line.unwrap());
        let again: Vec<Value> = again.map(|line| serde_json::from_str(&line).unwrap()).collect();
        assert_eq!(packets(&again), 1_000);
        let export = &said["export"];
        let all = number(export, "written") + number(&export["lost"], "no_reader");
        assert_eq!((number(export, "files"), number(export, "held")), (2, 0), "{said}");
        assert!(all >= 150 && number(export, "written") == written + again.len() as u64, "{said}");
    });
}

#[test]
fn records_are_counted_while_a_reader_takes_nothing_and_at_the_end() {
    in_namespace(|| {
        devices();
        let folder = tempfile::tempdir().unwrap();
        let (path, socket) = (folder.path().join("flows"), folder.path().join("control"));
        let listener = UnixListener::bind(&path).unwrap();
        let export =
            format!("type = \"socket\"\nformat = \"jsonl\"\npath = \"{}\"", path.display());
        let config = configure(folder.path(), "", &export, "{ idle_timeout = \"200ms\" }");
        let broker = broker(&config, &socket);
        let (reader, _) = listener.accept().unwrap();
        generate(20_000, 6_000, 8_000);
        let mut before = 0;
        wait_for("all records to end", || {
            sleep(Duration::from_millis(500));
            let ended = number(&ask(&socket, &["status"]).unwrap()["remarks"], "flows_idle");
            ended > 0 && ended == std::mem::replace(&mut before, ended)
        });
        let of = |said: &Value| {
            let lost = said["export"]["lost"].as_object().unwrap().values();
            let lost: u64 = lost.filter_map(Value::as_u64).sum();
            ["written", "held"].map(|key| number(&said["export"], key)).iter().sum::<u64>() + lost
        };
        let status = ask(&socket, &["status"]).unwrap();
        assert!(number(&status["export"], "held") > 1_000, "{status}");
        assert_eq!(of(&status), before, "{status}");
        // The reader is not there any more when the broker ends, but another could be.
        drop(reader);
        let said = stop(broker);
        assert!(number(&said["export"]["lost"], "no_reader") > 0, "{said}");
        assert_eq!((of(&said), number(&said["export"], "held")), (before, 0), "{said}");
    });
}

#[test]
fn a_file_that_cannot_be_created_is_an_error_at_the_start() {
    in_namespace(|| {
        devices();
        let folder = tempfile::tempdir().unwrap();
        let config = configure(folder.path(), "", "path = \"/nothing/flows.csv\"", "true");
        let ran = run(["run", "-c", config.to_str().unwrap()]);
        let says = "[export]: cannot create /nothing/flows.csv";
        assert!(ran.status == 1 && ran.stderr.contains(says), "{}", ran.stderr);
        // What was begun before another failure does not stay.
        let file = folder.path().join("flows.csv");
        fs::write(folder.path().join("control"), "").unwrap();
        configure(folder.path(), "", &format!("path = \"{}\"", file.display()), "true");
        let ran = run(["run", "-c", config.to_str().unwrap()]);
        assert!(ran.status == 1 && ran.stderr.contains("is no socket"), "{}", ran.stderr);
        assert!(!folder.path().join("flows.csv.partial").exists() && !file.exists());
    });
}
