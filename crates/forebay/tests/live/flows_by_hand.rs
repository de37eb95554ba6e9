//! Flows that are shunted and passed by hand while packets come.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use crate::support::broker::{ask, number, row};
use crate::support::command::{command, run};
use crate::support::frames::Sender;
use crate::support::namespace::{in_namespace, wait_for};
use crate::support::switched::{Switch, Switched};
use crate::xdp::Network;
use forebay_packet::flow::AddressKind;
use forebay_packet::{FlowKey, community_id};
use serde_json::Value;

/// A flow of the test's own: a number of it, IPv6, and a VLAN tag on the way back.
#[derive(Clone, Copy)]
struct Flow {
    number: u8,
    six: bool,
    tagged: bool,
}

impl Flow {
    fn port(self) -> u16 {
        5_000 + u16::from(self.number)
    }

    fn key(self) -> String {
        let port = self.port();
        match self.six {
            false => format!("udp 10.0.0.1:{port} > 10.0.0.2:53"),
            true => format!("udp [fd00::2]:53 > [fd00::1]:{port}"),
        }
    }

    /// Its Community ID, by the command.
    fn id(self) -> String {
        let (kind, low, high) = match self.six {
            false => (AddressKind::Ipv4, 0x0a00_0001, 0x0a00_0002),
            true => (AddressKind::Ipv6, 0xfd00 << 112 | 1, 0xfd00 << 112 | 2),
        };
        let (key, _) = FlowKey::two_way(kind, 17, (low, self.port()), (high, 53));
        community_id(&FlowKey { has_ports: true, ..key }, 0).unwrap()
    }

    /// A packet from its first end, or to it.
    fn frame(self, back: bool) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        if self.tagged && back {
            frame.extend([0x81, 0, 0, 5]);
        }
        let ends = if back { [2, 1] } else { [1, 2] };
        if self.six {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
            ends.into_iter().for_each(|end| {
                frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end])
            });
        } else {
            frame.extend([8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0]);
            ends.into_iter().for_each(|end| frame.extend([10, 0, 0, end]));
        }
        let ports = if back { [53, self.port()] } else { [self.port(), 53] };
        ports.into_iter().for_each(|port| frame.extend(port.to_be_bytes()));
        frame.extend([0, 8, 0, 0]);
        frame.resize(frame.len().max(70), 0);
        frame
    }
}

/// 32 flows of all kinds.
fn flows() -> Vec<Flow> {
    (0..32).map(|number| Flow { number, six: number & 1 != 0, tagged: number & 2 != 0 }).collect()
}

/// Ten packets of each flow, in turn and both ways.
fn packets() -> Vec<Vec<u8>> {
    (0..10)
        .flat_map(|turn| flows().into_iter().map(move |flow| flow.frame(turn % 2 == 1)))
        .collect()
}

/// The answer of `ctl flow` with lines on standard input.
fn with_lines(socket: &Path, words: &[&str], lines: &str) -> (bool, String) {
    let mut ctl = command(["ctl", "-s", socket.to_str().unwrap(), "flow"]);
    ctl.args(words).stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut child = ctl.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

/// A broker whose group is `ids`, and whose tap is behind `device`.
struct Tap<'a> {
    socket: PathBuf,
    device: &'a str,
    sent: Cell<u64>,
}

impl Tap<'_> {
    fn ask(&self, words: &[&str]) -> Option<Value> {
        ask(&self.socket, words)
    }

    fn flow(&self, words: &[&str]) -> Option<Value> {
        self.ask(&[&["flow"], words].concat())
    }

    fn shown(&self, words: &[&str]) -> Value {
        self.flow(&[&["show", "--limit", "1000"], words].concat()).unwrap()[0].clone()
    }

    /// Packets of the flows shown.
    fn counted(&self, words: &[&str]) -> u64 {
        let said = self.shown(words);
        said["flows"].as_array().unwrap().iter().map(|flow| number(flow, "packets")).sum()
    }

    /// Sends the traffic once more; packets that were shunted of it.
    fn send(&self) -> u64 {
        let packets = packets();
        let dropped = |ledger: &Value| {
            let drops = |stage| row_of(ledger, stage).map_or(0, |row| shunted(&row["drops"]));
            drops("group ids") + drops("user_space")
        };
        let ledger = || self.ask(&["ledger"]).unwrap();
        let before = dropped(&ledger());
        Sender::open(self.device).send(&packets);
        self.sent.set(self.sent.get() + packets.len() as u64);
        wait_for("the packets", || {
            let said = ledger();
            let all = number(row(&said, "filter"), "in");
            let held = number(row(&said, "group ids"), "held");
            all == self.sent.get() && held == 0
        });
        dropped(&ledger()) - before
    }
}

fn row_of<'a>(ledger: &'a Value, stage: &str) -> Option<&'a Value> {
    ledger["ledger"].as_array().unwrap().iter().find(|row| row["stage"] == stage)
}

fn shunted(drops: &Value) -> u64 {
    drops["shunted_by_hand"].as_u64().unwrap_or(0)
}

/// Shunts and passes flows by addresses and ports.
fn flows_by_key(tap: &Tap<'_>) {
    let flows = flows();
    assert_eq!(tap.send(), 0);
    for flow in &flows[..8] {
        assert_eq!(tap.flow(&["shunt", &flow.key()]).unwrap(), "1 flow shunted");
    }
    assert_eq!((tap.send(), tap.send()), (80, 80));
    assert_eq!((tap.counted(&[]), tap.shown(&[])["next"].is_null()), (160, true));
    let one = tap.shown(&[&flows[3].key()]);
    assert_eq!(one["flows"][0]["community_id"], flows[3].id(), "{one}");
    assert_eq!(
        (number(&one["flows"][0], "packets"), &one["flows"][0]["action"]),
        (20, &"shunt".into())
    );
    // The same once more: the counters stay.
    assert!(tap.flow(&["shunt", "--for", "1h", &flows[3].key()]).is_some());
    assert_eq!((tap.counted(&[&flows[3].key()]), tap.send()), (20, 80));
    // A flow that passes reaches its sensor again.
    assert_eq!(tap.flow(&["pass", &flows[3].key()]).unwrap(), "1 flow passed");
    assert_eq!(tap.send(), 70);
    let said = tap.shown(&[]);
    assert_eq!((number(&said, "shunted"), number(&said, "passed")), (7, 1), "{said}");
    // All end soon.
    let keys: String = flows.iter().map(|flow| flow.key() + "\n").collect();
    let (done, told) =
        with_lines(&tap.socket, &["shunt", "-", "--follow", "--for", "100ms"], &keys);
    assert!(done, "{told}");
    wait_for("their time to be over", || number(&tap.shown(&[]), "shunted") == 0);
    assert_eq!(tap.send(), 0);
}

#[test]
fn shunted_flows_reach_no_sensor_until_they_pass_or_their_time_is_over() {
    in_namespace(|| {
        let network = Switched::new(2, Switch::Static);
        let broker = network.broker(&network.configure("", |_| String::new()));
        let tap = Tap { socket: network.path("control"), device: "g", sent: Cell::new(0) };
        flows_by_key(&tap);
        // By Community IDs, of which one flow is known already.
        let ids: String = flows()[16..].iter().map(|flow| flow.id() + "\n").collect();
        let known = flows()[16];
        assert!(tap.flow(&["pass", &known.key()]).is_some());
        let (done, told) = with_lines(&tap.socket, &["shunt", "-"], &ids);
        assert!(done && told.contains("16 flows shunted"), "{told}");
        let said = tap.shown(&[]);
        assert_eq!((number(&said, "shunted"), number(&said, "searched")), (1, 15), "{said}");
        assert!(tap.send() >= 10, "the first packets of the others pass");
        wait_for("the flows to be found", || number(&tap.shown(&[]), "searched") == 0);
        assert_eq!(tap.send(), 160);
        let one = tap.shown(&[&known.id()]);
        assert_eq!(one["flows"][0]["flow"], known.key(), "{one}");
        let (done, told) = with_lines(&tap.socket, &["pass", "-", "--for", "60s"], &ids);
        assert!(done, "{told}");
        assert_eq!((tap.send(), tap.counted(&[])), (0, 160));
        assert!(tap.ask(&["drain"]).is_some());
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
    });
}

#[test]
fn the_kernel_drops_shunted_flows() {
    in_namespace(|| {
        let network = Network::new(2);
        let broker = network.broker(&network.configure("", "", &network.each()));
        let tap = Tap { socket: network.path("control"), device: "g0", sent: Cell::new(0) };
        flows_by_key(&tap);
        let refused = |words: &[&str]| {
            let ctl = ["ctl", "-s", tap.socket.to_str().unwrap(), "flow"];
            run(ctl.iter().chain(words)).exits(1).stderr
        };
        let said = refused(&["shunt", &flows()[0].id()]);
        assert!(said.contains("group ids: expected addresses and ports"), "{said}");
        let lines = many_flows(100_000);
        let begun = Instant::now();
        let (done, told) = with_lines(&tap.socket, &["shunt", "-"], &lines);
        println!("100,000 flows in the kernel: {:?}", begun.elapsed());
        assert!(done, "{told}");
        assert_eq!((number(&tap.shown(&[]), "shunted"), tap.send()), (100_000, 0));
        let (done, told) = with_lines(&tap.socket, &["shunt", "-"], &many_flows(131_073));
        assert!(!done && told.contains("expected at most 131072 in all"), "{told}");
        assert!(tap.ask(&["drain"]).is_some());
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
    });
}

#[test]
fn bad_flows_are_refused_with_their_line_and_nothing_is_changed() {
    in_namespace(|| {
        let network = Switched::new(1, Switch::Static);
        let broker = network.broker(&network.configure("", |_| String::new()));
        let socket = network.path("control");
        let refused = |words: &[&str]| {
            let ctl = ["ctl", "-s", socket.to_str().unwrap(), "flow"];
            run(ctl.iter().chain(words)).exits(1).stderr
        };
        for (words, expected) in [
            (&["shunt", "tcp 10.0.0.1:1"][..], "expected `>`"),
            (&["shunt", "tcp 10.0.0.1 > 10.0.0.2"], "a flow of this protocol has ports"),
            (&["pass", "1:nonsense"], "expected `tcp 10.0.0.1:1234 > 10.0.0.2:80` or a Community"),
            (&["shunt", "--group", "x", "udp 10.0.0.1:1 > 10.0.0.2:2"], "no group `x`"),
            (&["show", "nothing"], "expected"),
        ] {
            let said = refused(words);
            assert!(said.contains(expected), "{words:?}: {said}");
        }
        let lines = "# flows\nudp 10.0.0.1:1 > 10.0.0.2:2\nudp 10.0.0.1:1 > 10.0.0.2\n";
        let (done, told) = with_lines(&socket, &["shunt", "-"], lines);
        assert!(!done && told.contains("line 3, ") && told.contains("a port at both"), "{told}");
        assert_eq!(number(&network.ask(&["flow", "show"]).unwrap()[0], "shunted"), 0);
        // Followed, the others are shunted.
        let (done, told) = with_lines(&socket, &["shunt", "-", "--follow"], lines);
        assert!(!done && told.contains("1 lines were refused"), "{told}");
        assert_eq!(number(&network.ask(&["flow", "show"]).unwrap()[0], "shunted"), 1);
        assert!(network.ask(&["drain"]).is_some());
        broker.ended();
    });
}

/// Flows that no packet belongs to.
fn many_flows(count: u32) -> String {
    (0..count).fold(String::new(), |mut all, i| {
        let _ = writeln!(
            all,
            "tcp 198.18.{}.{}:{} > 203.0.113.1:443",
            i >> 8 & 255,
            i & 255,
            1024 + (i >> 16)
        );
        all
    })
}

#[test]
fn a_hundred_thousand_flows_are_shunted_at_once() {
    in_namespace(|| {
        let network = Switched::new(1, Switch::Static);
        let broker = network.broker(&network.configure("", |_| String::new()));
        let socket = network.path("control");
        let lines = many_flows(100_000);
        let begun = Instant::now();
        let (done, told) = with_lines(&socket, &["shunt", "-"], &lines);
        let took = begun.elapsed();
        assert!(done && told.contains("100000 flows shunted"), "{told}");
        println!("100,000 flows: {took:?}");
        assert_eq!(number(&network.ask(&["flow", "show"]).unwrap()[0], "shunted"), 100_000);
        network.generate("--packets 2000 --flows 20 --rate 20000");
        wait_for("the packets", || {
            let ledger = network.ask(&["ledger"]).unwrap();
            number(row(&ledger, "group ids"), "out") == 2_000
        });
        let (done, told) = with_lines(&socket, &["pass", "-", "--for", "1s"], &lines);
        assert!(done, "{told}");
        wait_for("their time to be over", || {
            let said = network.ask(&["flow", "show"]).unwrap()[0].clone();
            number(&said, "shunted") + number(&said, "passed") == 0
        });
        assert!(network.ask(&["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}
