//! The time until a change of the rules of a running broker is in force.
//!
//! A short run is a test. With `FOREBAY_EDITS_RECORD` set to a file, the measurement is complete:
//! 10,000 changes one after another of a list of 100,000 rules, and of a short one, which a
//! compiled engine matches, and 1,000 by processes. The file gets the figures as JSON.

use std::io::Read as _;
use std::path::Path;
use std::time::{Instant, SystemTime};

use crate::support::broker::number;
use crate::support::command::run;
use crate::support::namespace::in_namespace;
use crate::support::switched::{Switch, Switched};
use forebay_broker::control::{Request, RuleEdit, RulePlace, ask};
use forebay_packet::random::Random;
use forebay_testkit::data;
use serde_json::{Value, json};

/// The most milliseconds of 99 in 100 changes.
const MOST_MS: f64 = 10.0;

/// How changes are requested.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// By one process, each over a connection of its own.
    Client,
    /// By a `forebay ctl` each.
    Process,
}

#[test]
fn changes_are_in_force_within_milliseconds() {
    let Some(data) = data::external() else { return };
    in_namespace(move || {
        let record = std::env::var_os("FOREBAY_EDITS_RECORD");
        let (set, rules, changes) = match record {
            Some(_) => ("acl1_100k.gz", 100_000, 10_000),
            None => ("acl1_10k", 10_000, 500),
        };
        let network = Switched::new(1, Switch::Static);
        let all = access_list(&data.join("classbench/generated").join(set), rules, &network);
        let rows = [
            measure(&all, changes, By::Client, &network),
            measure(&all[..200], changes, By::Client, &network),
            measure(&all, changes / 10, By::Process, &network),
        ];
        let Some(record) = record else { return };
        let load = std::fs::read_to_string("/proc/loadavg").unwrap();
        let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let model = processor.lines().find_map(|line| line.strip_prefix("model name\t: "));
        let ended = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let written = json!({
            "what": "edits: time from the request of a change of the rules until it is in force",
            "ended_unix_s": ended,
            "processor": model,
            "processors": std::thread::available_parallelism().unwrap(),
            "load_average": load.trim(),
            "set": set,
            "runs": rows,
        });
        std::fs::write(record, format!("{written:#}\n")).unwrap();
        // The start of a process takes as long as the load of the machine makes it.
        for row in &rows[..2] {
            assert!(row["p99_ms"].as_f64().unwrap() <= MOST_MS, "{row}");
        }
    });
}

/// The filters of a ClassBench set, and others until there are `rules`.
fn access_list(set: &Path, rules: usize, network: &Switched) -> Vec<String> {
    let mut bytes = std::fs::read(set).unwrap();
    if set.extension().is_some_and(|extension| extension == "gz") {
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut text).unwrap();
        bytes = text;
    }
    let file = network.path("classbench");
    std::fs::write(&file, bytes).unwrap();
    let imported = run(["rules", "import", file.to_str().unwrap()]).exits(0).stdout;
    let imported = String::from_utf8(imported).unwrap();
    let mut all: Vec<String> =
        imported.lines().filter(|line| line.starts_with("ip filter")).map(String::from).collect();
    for at in all.len()..rules {
        all.push(format!("ip filter {at} pass 10.7.{}.{} * tcp * 443", at / 256 % 256, at % 256));
    }
    all
}

/// Changes a list at random places, a quarter each inserted, deleted, moved and replaced.
fn measure(list: &[String], changes: usize, by: By, network: &Switched) -> Value {
    let (mut random, file) = (Random::new(7), network.path("list"));
    std::fs::write(&file, format!("numbers from 0\n{}\n", list.join("\n"))).unwrap();
    let config = network.configure(&format!("rules = \"{}\"\n", file.display()), |_| String::new());
    let broker = network.broker(&config);
    let socket = network.path("control");
    let mut order: Vec<usize> = (0..list.len()).collect();
    let mut times: Vec<f64> = (0..changes)
        .map(|change| {
            let edit = draw(list, &mut order, list.len() + change, &mut random);
            let words = words(&edit);
            let started = Instant::now();
            match by {
                By::Client => {
                    ask(&socket, &Request::EditRules { edits: vec![edit] }).unwrap();
                }
                By::Process => {
                    let ctl = ["ctl", "-q", "-s", socket.to_str().unwrap(), "rules"];
                    run(ctl.into_iter().chain(words.iter().map(String::as_str))).exits(0);
                }
            }
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let shown = network.ask(&["rules", "show", "--from", "100"]).unwrap();
    assert_eq!(number(&shown, "count") as usize, order.len());
    let numbers = shown["rules"].as_array().unwrap().iter().map(|rule| number(rule, "number"));
    assert!(numbers.eq(order.iter().skip(99).take(100).map(|&number| number as u64)));
    assert!(network.ask(&["drain"]).is_some());
    assert_eq!(broker.ended()["closes"], true);
    times.sort_by(f64::total_cmp);
    let of = |quantile: f64| times[((changes - 1) as f64 * quantile) as usize];
    json!({
        "rules": list.len(),
        "changes": changes,
        "by": if by == By::Client { "connection" } else { "process" },
        "p50_ms": of(0.5),
        "p99_ms": of(0.99),
        "p999_ms": of(0.999),
        "max_ms": of(1.0),
    })
}

fn draw(list: &[String], order: &mut Vec<usize>, free: usize, random: &mut Random) -> RuleEdit {
    let at = random.index(order.len());
    let name = order[at].to_string();
    let mut text = |number: usize| {
        let (_, rest) =
            list[random.index(list.len())]["ip filter ".len()..].split_once(' ').unwrap();
        format!("ip filter {number} {rest}")
    };
    match free % 4 {
        0 => {
            order.insert(at, free);
            RuleEdit::Insert { text: text(free), place: RulePlace::Before(name) }
        }
        1 => {
            order.remove(at);
            RuleEdit::Delete { rule: name }
        }
        2 => {
            let number = order.remove(at);
            let to = random.index(order.len());
            let place = RulePlace::Before(order[to].to_string());
            order.insert(to, number);
            RuleEdit::Move { rule: name, place }
        }
        _ => RuleEdit::Replace { text: text(order[at]), rule: name },
    }
}

/// The words of `ctl rules` for a change.
fn words(edit: &RuleEdit) -> Vec<String> {
    let before = |place: &RulePlace| match place {
        RulePlace::Before(rule) => rule.clone(),
        _ => unreachable!("all places are before a rule"),
    };
    match edit {
        RuleEdit::Insert { text, place } => {
            ["insert", "--before", &before(place), text].map(String::from).to_vec()
        }
        RuleEdit::Delete { rule } => ["delete", rule].map(String::from).to_vec(),
        RuleEdit::Move { rule, place } => {
            ["move", rule, "--before", &before(place)].map(String::from).to_vec()
        }
        RuleEdit::Replace { rule, text } => ["replace", rule, text].map(String::from).to_vec(),
    }
}
