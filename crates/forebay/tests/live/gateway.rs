//! A running broker with a gateway: flows wait, pass whole or are withheld.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::scan::datagram;
use crate::support::broker::{ask, broker, number, row};
use crate::support::command::run;
use crate::support::frames::Sender;
use crate::support::namespace::{in_namespace, veth, wait_for};

const HTTP: &str = "485454502f312e31";

fn configure(folder: &Path, gateway: &str) -> PathBuf {
    let text = format!(
        "[broker]\ncontrol = \"{0}/control\"\nworkers = 2\n\
         [flow]\nidle_timeout = \"500ms\"\n\
         [scan]\nliterals = \"{0}/literals\"\n\
         [[input]]\nname = \"tap\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
         [[output]]\nname = \"ids\"\ntype = \"af_packet\"\ninterface = \"ids\"\n\
         [[group]]\nname = \"ids\"\n{gateway}\nsensor = [{{ name = \"ids\" }}]\n",
        folder.display()
    );
    let config = folder.join("gateway.toml");
    fs::write(&config, text).unwrap();
    config
}

#[test]
fn flows_that_are_hit_pass_whole_and_the_others_are_withheld() {
    in_namespace(|| {
        veth("g", "b");
        veth("s", "ids");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("literals"), HTTP).unwrap();
        let config = configure(folder.path(), "gateway = { mode = \"hold\" }");
        let socket = folder.path().join("control");
        let broker = broker(&config, &socket);
        let ledger = || ask(&socket, &["ledger"]).unwrap();
        let remark = |name: &str| number(&ask(&socket, &["status"]).unwrap()["remarks"], name);
        Sender::open("g").paced(|n| datagram(1, n), 4000, 4000.0);
        // Those that end clean do so by time, without a further packet.
        wait_for("the end of the flows", || {
            let said = ledger();
            number(row(&said, "group ids"), "in") >= 4000
                && number(row(&said, "group ids"), "held") == 0
        });
        let said = ledger();
        let group = row(&said, "group ids");
        assert_eq!(number(&group["drops"], "withheld"), 3600, "{said}");
        assert_eq!(number(row(&said, "tx ids"), "out"), 400, "{said}");
        assert_eq!(remark("gateway_withheld_flows"), 90);
        assert_eq!(remark("gateway_passed_literal"), 400);
        assert_eq!(remark("gateway_passed_flows_literal"), 10);
        assert_eq!(
            remark("gateway_replayed_within_10ms") + remark("gateway_replayed_within_1s"),
            201
        );

        // Other settings while packets come: what waits goes on, and nothing is lost.
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Sender::open("g").paced(|n| datagram(2, n), 4000, 4000.0);
                stop.store(true, Ordering::Relaxed);
            });
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let modes =
                    ["", "gateway = {}", "gateway = { mode = \"hold\", memory = \"1MiB\" }"];
                configure(folder.path(), modes[round % 3]);
                assert!(ask(&socket, &["reload"]).is_some());
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        wait_for("the packets", || number(row(&ledger(), "group ids"), "in") >= 8000);
        assert!(ask(&socket, &["drain"]).is_some());
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        let group = row(&said, "group ids");
        let out = number(group, "out");
        assert_eq!(out + number(&group["drops"], "withheld"), number(group, "in"), "{said}");
        assert_eq!(number(row(&said, "tx ids"), "out"), out, "{said}");
    });
}

#[test]
fn a_gateway_is_asked_for_by_its_verb() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("literals"), HTTP).unwrap();
    let config = configure(folder.path(), "");
    let ran = run(["gateway", "-c", config.to_str().unwrap()]);
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("expected the key `gateway` in a [[group]]"), "{}", ran.stderr);
    let config = configure(folder.path(), "gateway = {}");
    let ran = run(["gateway", "--check=file", "-c", config.to_str().unwrap()]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}
