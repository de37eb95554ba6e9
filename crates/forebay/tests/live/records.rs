//! Records of flows in a running broker, and the cutoff, under traffic.

use std::path::Path;

use crate::support::broker::{number, row};
use crate::support::command::run;
use crate::support::namespace::{in_namespace, wait_for};
use crate::support::switched::{Switch, Switched, received};
use serde_json::Value;

/// Flows of the generator.
const FLOWS: usize = 40;

/// Writes a configuration whose group has these keys.
fn configure(network: &Switched, keys: &str) -> std::path::PathBuf {
    let path = network.configure("", |_| String::new());
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("source_mac", &format!("{keys}\nsource_mac"))).unwrap();
    path
}

/// Why `ctl flows` has no list.
fn refused(socket: &Path, words: &[&str]) -> String {
    let ran = run(["ctl", "-s", socket.to_str().unwrap(), "flows"].iter().chain(words));
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    ran.stderr
}

fn sum(flows: &[Value], keys: [&str; 2]) -> u64 {
    flows.iter().map(|flow| keys.iter().map(|key| number(flow, key)).sum::<u64>()).sum()
}

#[test]
fn records_agree_with_the_ledger_while_cutoff_and_records_come_and_go() {
    in_namespace(|| {
        let network = Switched::new(2, Switch::Static);
        let broker = network.broker(&configure(&network, "flows = true"));
        let reload = |keys: &str| {
            configure(&network, keys);
            assert!(network.ask(&["reload"]).is_some());
        };
        let sink = network.sink("30s");
        let sent = std::thread::scope(|scope| {
            let load =
                scope.spawn(|| network.generate("--rate 4000 --duration 6s --flows 40 --even"));
            wait_for("load", || received("x0") + received("x1") > 4_000);
            reload("cutoff = { bytes = \"1KiB\" }");
            std::thread::sleep(std::time::Duration::from_secs(1));
            reload("flows = { idle_timeout = \"50s\" }");
            load.join().unwrap()
        });
        let packets = number(&sent, "packets");
        let list = || network.ask(&["flows", "--top", "1000"]).unwrap();
        // A new device has other packets, too.
        let probes = |list: &Value| {
            let flows = list["flows"].as_array().unwrap().iter();
            flows.filter(|flow| flow["proto"] == "udp").cloned().collect::<Vec<_>>()
        };
        let both = ["packets_ab", "packets_ba"];
        wait_for("all packets", || sum(&probes(&list()), both) == packets);
        let list = list();
        let flows = list["flows"].as_array().unwrap();
        assert_eq!((number(&list, "open"), probes(&list).len()), (flows.len() as u64, FLOWS));
        assert!(flows.iter().all(|flow| flow["sensor"].is_string()), "{list}");
        let bytes = |flow: &Value| number(flow, "bytes_ab") + number(flow, "bytes_ba");
        assert!(flows.is_sorted_by(|a, b| bytes(a) >= bytes(b)), "{list}");
        let largest = network.ask(&["flows", "--group", "ids", "--top", "3"]).unwrap();
        assert_eq!(largest["flows"].as_array().unwrap(), &flows[..3]);
        let cut: u64 = flows.iter().map(|flow| number(flow, "cut")).sum();
        let socket = network.path("control");
        assert!(refused(&socket, &["--group", "ips"]).contains("no group `ips`"));
        assert!(refused(&socket, &["--top", "0"]).contains("expected 1 to 1000"));
        reload("");
        assert!(refused(&socket, &[]).contains("it has no key `flows`"));
        let heard = sink.ended();
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        let dropped = number(&row(&said, "group ids")["drops"], "cutoff");
        assert!(dropped > 1_000, "{said}");
        assert_eq!((cut, number(&heard, "received")), (dropped, packets - dropped), "{said}");
        assert_eq!((number(&heard, "torn_flows"), &said["closes"]), (0, &true.into()), "{said}");
    });
}
