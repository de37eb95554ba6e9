//! Floods through a running broker, beside ordinary flows and while buckets move: memory
//! stays bounded, the load even, the ordinary flows whole, and every packet is accounted.

use std::time::Duration;

use crate::support::broker::{Started, number, row};
use crate::support::frames::{Sender, fragment, syn_from_anywhere, syn_to_anywhere};
use crate::support::listener::Listener;
use crate::support::namespace::in_namespace;
use crate::support::switched::{Switch, Switched};
use serde_json::Value;

/// Sensors, each an equal one.
const SENSORS: usize = 3;

/// Frames of a flood, and those a second.
const FLOOD: u64 = 80_000;
const FLOOD_RATE: f64 = 20_000.0;

/// What a flood may add to the broker's memory: the records and tables that it can fill are
/// smaller together.
const MOST_MEMORY: u64 = 24 << 20;

/// What became of a flood.
struct FloodResult {
    /// What the broker said on standard error.
    told: String,
    /// The flood's frames that each sensor had.
    flood: Vec<u64>,
    moves: Value,
}

/// Resident memory of a process, in bytes (proc_pid_status(5)).
fn memory(broker: &Started) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", broker.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Sends a flood while ordinary flows come and go, and one of the sensors drains, so that
/// each of its buckets records the keys that it has.
fn flood(group: &str, frame: fn(u64) -> Vec<u8>) -> FloodResult {
    let network = Switched::new(SENSORS, Switch::Static);
    let top = "[flow]\nidle_timeout = \"1s\"\n[balance]\ninterval = \"500ms\"";
    let config = network.configure(top, |_| String::new());
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        text.replace("name = \"ids\"\n", &format!("name = \"ids\"\n{group}\n")),
    )
    .unwrap();
    let broker = network.broker(&config);
    let devices: Vec<String> = (0..SENSORS).map(|i| format!("x{i}")).collect();
    let listener = Listener::start(&devices, Duration::from_secs(1));
    let words = "--rate 2000 --duration 9s --flows 1000 --life 1s --even";
    let (sent, grown, moves) = std::thread::scope(|scope| {
        let load = scope.spawn(|| network.generate(words));
        // By then all that ordinary flows need is there.
        std::thread::sleep(Duration::from_secs(3));
        let before = memory(&broker);
        assert!(network.ask(&["sensor", "s0", "drain"]).is_some());
        Sender::open("g").paced(frame, FLOOD, FLOOD_RATE);
        let grown = memory(&broker).saturating_sub(before);
        let sent = number(&load.join().unwrap(), "packets");
        (sent, grown, network.ask(&["buckets"]).unwrap()["moves"].clone())
    });
    let account = listener.ended(sent + FLOOD);
    println!("memory grew by {} KiB; moves {moves}", grown >> 10);
    assert!(grown < MOST_MEMORY, "memory grew by {grown} bytes");
    broker.signal(libc::SIGTERM);
    let (said, told) = broker.ended_with_notices();
    assert_eq!(said["closes"], true, "{said}");
    assert_eq!(number(row(&said, "tx switch"), "out"), sent + FLOOD, "{said}");
    account.is_whole_beside(sent, FLOOD);
    println!("the flood's frames by sensor: {:?}", account.foreign);
    FloodResult { told, flood: account.foreign, moves }
}

/// The sensor that drains has as much of a flood as came before its buckets had turned; the
/// others share the rest alike.
#[track_caller]
fn is_spread(result: &FloodResult) {
    let [first, second] = [1, 2].map(|sensor: usize| result.flood[sensor] as f64);
    assert!((first / second - 1.0).abs() < 0.1, "{:?}", result.flood);
    assert!(result.flood[0] < FLOOD / 3, "{:?}", result.flood);
    assert!(number(&result.moves, "completed") > 0, "{}", result.moves);
}

#[test]
fn a_syn_flood_from_everywhere_is_spread_and_harms_no_flow() {
    in_namespace(|| is_spread(&flood("", syn_from_anywhere)));
}

#[test]
fn a_flood_of_fragments_is_spread_and_harms_no_flow() {
    in_namespace(|| is_spread(&flood("", fragment)));
}

#[test]
fn a_flood_at_one_bucket_stays_with_one_sensor_and_is_told() {
    in_namespace(|| {
        let result = flood("key = \"src\"", syn_to_anywhere);
        let reached = result.flood.iter().filter(|&&frames| frames > 0).count();
        assert_eq!(reached, 1, "{:?}", result.flood);
        assert!(number(&result.moves, "completed") > 0, "{}", result.moves);
        assert!(result.told.contains("too big for any sensor"), "{}", result.told);
    });
}
