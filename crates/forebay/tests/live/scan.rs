//! A running broker that scans payloads, and groups that select by what is found.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::broker::{ask, broker, number, row};
use crate::support::frames::Sender;
use crate::support::namespace::{in_namespace, veth, wait_for};
use serde_json::Value;

const HTTP: &str = "485454502f312e31";
const NOWHERE: &str = "0123456789abcdef0123456789abcdef";

/// Datagram `n` of a round, of one of 100 flows. Every tenth has `HTTP/1.1` in its last ones.
pub fn datagram(round: u64, n: u64) -> Vec<u8> {
    let flow = n % 100;
    let text: &[u8] =
        if flow.is_multiple_of(10) && n > 2000 { b"say HTTP/1.1 here" } else { b"some text" };
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let [len, payload] = [28, 8].map(|headers| (headers + text.len() as u16).to_be_bytes());
    frame.extend([0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([10, round as u8, 0, flow as u8, 10, 0, 0, 1]);
    frame.extend([0x10, 0, 0, 53, payload[0], payload[1], 0, 0]);
    frame.extend(text);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// Writes a configuration with two groups, and with the table `scan`, which may be empty.
fn configure(folder: &Path, socket: &Path, scan: &str) -> PathBuf {
    let output = |name: &str| {
        format!("[[output]]\nname = \"{name}\"\ntype = \"af_packet\"\ninterface = \"{name}\"\n")
    };
    let group = |name: &str, selection: &str| {
        format!(
            "[[group]]\nname = \"{name}\"\noutput = \"{name}\"\n{selection}\
             sensor = [{{ name = \"{name}\" }}]\n"
        )
    };
    let (hits, clean) = match scan {
        "" => ("", ""),
        _ => ("scan = \"hits\"\n", "scan = \"clean\"\n"),
    };
    let text = format!(
        "[broker]\ncontrol = \"{}\"\nworkers = 2\n{scan}\
         [[input]]\nname = \"tap\"\ntype = \"af_packet\"\ninterface = \"b\"\n{}{}{}{}",
        socket.display(),
        output("ids"),
        output("rest"),
        group("ids", hits),
        group("rest", clean),
    );
    let config = folder.join("run.toml");
    fs::write(&config, text).unwrap();
    config
}

#[test]
fn groups_get_hits_and_the_rest_and_a_reload_loses_nothing() {
    in_namespace(|| {
        for (generator, broker) in [("g", "b"), ("s1", "ids"), ("s2", "rest")] {
            veth(generator, broker);
        }
        let folder = tempfile::tempdir().unwrap();
        let (socket, literals) = (folder.path().join("control"), folder.path().join("literals"));
        fs::write(&literals, format!("# two\n{HTTP}\n{NOWHERE}\n")).unwrap();
        let configure = |scan: &str| configure(folder.path(), &socket, scan);
        let scan = format!("[scan]\nliterals = \"{}\"\n", literals.display());
        let broker = broker(&configure(&scan), &socket);
        let ledger = || ask(&socket, &["ledger"]).unwrap();
        // Datagrams of 100 flows, of which every tenth has the first literal in its last ones.
        let generate = |round: u64| Sender::open("g").paced(|n| datagram(round, n), 4000, 4000.0);
        let settled = |sent: u64| {
            wait_for("the packets", || number(row(&ledger(), "scan"), "in") >= sent);
            ledger()
        };
        generate(1);
        let said = settled(4000);
        let out = |said: &Value, stage: &str| number(row(said, stage), "out");
        let (hits, clean) = (out(&said, "tx ids"), out(&said, "tx rest"));
        assert!(hits > 0 && clean > 0, "{said}");
        assert_eq!(hits + clean, out(&said, "scan"), "{said}");
        let shown = ask(&socket, &["scan"]).unwrap();
        assert_eq!(shown["hits"][0]["literal"], "HTTP/1.1", "{shown}");
        let found = number(&shown["hits"][0], "packets");
        assert!(found > 0 && shown["hits"].as_array().unwrap().len() == 1, "{shown}");

        // The same literals go on counting. With others while packets come, none is lost.
        assert!(ask(&socket, &["reload"]).is_some());
        assert_eq!(ask(&socket, &["scan"]).unwrap(), shown);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| generate(2));
            for round in 0..5 {
                let literal = if round % 2 == 0 { NOWHERE } else { HTTP };
                fs::write(&literals, format!("{literal}\n")).unwrap();
                assert!(ask(&socket, &["reload"]).is_some());
            }
            sending.join().unwrap();
        });
        let said = settled(8000);
        assert_eq!(out(&said, "tx ids") + out(&said, "tx rest"), out(&said, "scan"), "{said}");
        assert_eq!(number(&ask(&socket, &["scan"]).unwrap(), "literals"), 1);

        // A file with a mistake leaves the last literals in force; without the table all pass.
        fs::write(&literals, "xy\n").unwrap();
        assert!(ask(&socket, &["reload"]).is_none());
        assert_eq!(number(&ask(&socket, &["scan"]).unwrap(), "literals"), 1);
        configure("");
        assert!(ask(&socket, &["reload"]).is_some());
        assert!(ask(&socket, &["scan"]).is_none());
        generate(3);
        let said = settled(12_000);
        assert!(out(&said, "tx rest") >= 4000, "{said}");
        assert!(ask(&socket, &["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}

#[test]
fn rules_select_flows_and_a_reload_of_rules_loses_nothing() {
    in_namespace(|| {
        for (generator, broker) in [("g", "b"), ("s1", "ids"), ("s2", "rest")] {
            veth(generator, broker);
        }
        let folder = tempfile::tempdir().unwrap();
        let (socket, rules) = (folder.path().join("control"), folder.path().join("rules"));
        let of_text = |text: &str| {
            let filterable =
                format!("alert udp any any -> $HOME 53 (msg:\"it\"; content:\"{text}\"; sid:7;)");
            // Nothing of port 9 comes, and one rule has an error.
            let others = "alert udp any any -> any 9 (sid:8;)\nalert udp any any\n";
            fs::write(&rules, format!("{filterable}\n{others}")).unwrap();
        };
        of_text("HTTP/1.1");
        let scan = format!(
            "[scan]\nrules = [\"{}\"]\nvariables = {{ HOME = \"10.0.0.1\" }}\n",
            rules.display()
        );
        let broker = broker(&configure(folder.path(), &socket, &scan), &socket);
        let ledger = || ask(&socket, &["ledger"]).unwrap();
        let generate = |round: u64| Sender::open("g").paced(|n| datagram(round, n), 4000, 4000.0);
        let settled = |sent: u64| {
            wait_for("the packets", || number(row(&ledger(), "scan"), "in") >= sent);
            ledger()
        };
        let out = |said: &Value, stage: &str| number(row(said, stage), "out");
        generate(1);
        let said = settled(4000);
        // Ten of a hundred flows are hits, in the second half; what else the kernel sends is clean.
        let (hits, clean) = (out(&said, "tx ids"), out(&said, "tx rest"));
        assert!(hits >= 190 && clean >= 3800, "{said}");
        assert_eq!(hits + clean, out(&said, "scan"), "{said}");
        let shown = ask(&socket, &["scan"]).unwrap();
        let of = |key: &str| number(&shown, key);
        assert_eq!((of("rules"), of("filterable"), of("refused")), (2, 1, 1), "{shown}");
        let hit = &shown["hits"][0];
        assert_eq!((number(hit, "sid"), number(hit, "flows")), (7, 10), "{shown}");
        assert_eq!(hit["message"], "it", "{shown}");

        // The same rules go on counting. With others while packets come, none is lost.
        assert!(ask(&socket, &["reload"]).is_some());
        assert_eq!(ask(&socket, &["scan"]).unwrap(), shown);
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| generate(2));
            for round in 0..5 {
                of_text(if round % 2 == 0 { "nothing of it" } else { "HTTP/1.1" });
                assert!(ask(&socket, &["reload"]).is_some());
            }
            sending.join().unwrap();
        });
        let said = settled(8000);
        assert_eq!(out(&said, "tx ids") + out(&said, "tx rest"), out(&said, "scan"), "{said}");
        assert_eq!(ask(&socket, &["scan"]).unwrap()["hits"], serde_json::json!([]));
        assert!(ask(&socket, &["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}
