//! A sensor of a running broker that is offered more than its limit.

use std::fs;
use std::path::PathBuf;

use crate::support::broker::{ask, broker, number, row};
use crate::support::command::run;
use crate::support::namespace::{in_namespace, veth, wait_for};
use serde_json::Value;

/// Packets a second that the sensor takes, and that there are.
const LIMIT: u64 = 2_000;
const RATE: u64 = 8_000;

fn configure(folder: &std::path::Path, sensor: &str) -> PathBuf {
    let text = format!(
        "[broker]\ncontrol = \"{}\"\n\
         [[input]]\nname = \"tap\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
         [[output]]\nname = \"ids\"\ntype = \"af_packet\"\ninterface = \"y\"\n\
         [[group]]\nname = \"ids\"\n[[group.sensor]]\nname = \"one\"\n{sensor}\n",
        folder.join("control").display()
    );
    let path = folder.join("run.toml");
    fs::write(&path, text).unwrap();
    path
}

fn generate(packets: u64) {
    let (rate, packets) = (RATE.to_string(), packets.to_string());
    let ran = run(["gen", "-i", "g", "--rate", &rate, "--flows", "200", "--packets", &packets]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

/// Packets that a stage dropped for reasons that begin so.
fn dropped(ledger: &Value, stage: &str, reason: &str) -> u64 {
    let drops = row(ledger, stage)["drops"].as_object().unwrap();
    let named = drops.iter().filter(|(name, _)| name.starts_with(reason));
    named.filter_map(|(_, packets)| packets.as_u64()).sum()
}

#[test]
fn a_class_has_a_limit_of_its_own_and_a_reload_ends_it() {
    in_namespace(|| {
        veth("g", "b");
        veth("x", "y");
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        let class = format!(
            "[[group.class]]\nname = \"all\"\nfilter = \"ip or ip6\"\nlimit_pps = {LIMIT}\n\
             on_overload = \"fair\""
        );
        let config = configure(folder.path(), &class);
        let broker = broker(&config, &socket);
        let ledger = || ask(&socket, &["ledger"]).unwrap();
        let arrived = || number(row(&ledger(), "rx tap"), "out");
        generate(RATE);
        wait_for("the packets", || arrived() >= RATE);
        let said = ledger();
        let shed = dropped(&said, "group ids", "class_");
        assert_eq!(number(row(&said, "tx ids"), "out") + shed, number(row(&said, "rx tap"), "out"));
        assert!(shed > RATE / 10, "{said}");
        let sensors = ask(&socket, &["sensors"]).unwrap();
        let class = &sensors[0]["classes"][0];
        assert_eq!((&class["name"], number(class, "limit_pps")), (&"all".into(), LIMIT));
        let by_name = class["shed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap());
        assert_eq!(by_name.sum::<u64>(), shed, "{class}");
        let shown = run(["ctl", "-s", socket.to_str().unwrap(), "sensors"]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("on overload"), "{shown}");

        configure(folder.path(), "");
        assert!(ask(&socket, &["reload"]).is_some());
        generate(RATE);
        wait_for("the packets", || arrived() >= 2 * RATE);
        assert_eq!(dropped(&ledger(), "group ids", "class_"), shed);
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!((&said["closes"], &said["errors"]), (&true.into(), &serde_json::json!([])));
    });
}

#[test]
fn whole_flows_are_shed_by_name_until_a_reload_ends_it() {
    in_namespace(|| {
        veth("g", "b");
        veth("x", "y");
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("control");
        let limit = format!("limit_pps = {LIMIT}");
        let config = configure(folder.path(), &format!("{limit}\non_overload = \"whole-flows\""));
        let broker = broker(&config, &socket);
        let ledger = || ask(&socket, &["ledger"]).unwrap();
        let arrived = || number(row(&ledger(), "rx tap"), "out");
        // A second of four times the limit.
        generate(RATE);
        wait_for("the packets", || arrived() >= RATE);
        let said = ledger();
        let shed = dropped(&said, "group ids", "shed_");
        let passed = number(row(&said, "tx ids"), "out");
        assert_eq!(passed + shed, number(row(&said, "rx tap"), "out"), "{said}");
        // A machine that is busy takes longer than a second to receive them.
        assert!(shed > RATE / 10, "{said}");
        let sensors = ask(&socket, &["sensors"]).unwrap();
        let sensor = &sensors[0]["sensors"][0];
        assert_eq!(number(sensor, "shed_above_packets_per_s"), LIMIT);
        let by_name: u64 =
            sensor["shed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(by_name, shed, "{sensor}");

        configure(folder.path(), &limit);
        assert!(ask(&socket, &["reload"]).is_some());
        generate(RATE);
        wait_for("the packets", || arrived() >= 2 * RATE);
        assert_eq!(dropped(&ledger(), "group ids", "shed_"), shed);
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!((&said["closes"], &said["errors"]), (&true.into(), &serde_json::json!([])));
    });
}
