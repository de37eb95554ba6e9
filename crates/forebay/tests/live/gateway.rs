//! A running broker with a gateway: flows wait, pass whole or are withheld.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use forebay_gen::checksum::{fold, sum_words};
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Received, Rx as _};

use super::scan::datagram;
use crate::support::broker::{ask, broker, number, row};
use crate::support::command::run;
use crate::support::frames::Sender;
use crate::support::namespace::{in_namespace, ip, veth, wait_for};

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

/// Datagram `n` of those of [`datagram`] that have literals, with its number as IP identification.
fn numbered(n: u64) -> Vec<u8> {
    let mut frame = datagram(1, 2001 + n);
    frame[18..20].copy_from_slice(&(n as u16).to_be_bytes());
    frame
}

/// The number of a datagram of [`numbered`].
fn number_of(frame: &[u8]) -> u64 {
    u16::from_be_bytes([frame[18], frame[19]]).into()
}

/// Numbers of datagrams that have literals, among these.
fn with_literals(numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.filter(|n| (2001 + n).is_multiple_of(10)).collect()
}

/// The numbers of packets, by flow in the order in which they came.
fn by_flow(numbers: impl Iterator<Item = u64>) -> BTreeMap<u64, Vec<u64>> {
    let mut flows: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    numbers.for_each(|n| flows.entry((2001 + n) % 100).or_default().push(n));
    flows
}

#[test]
fn what_passes_while_the_sensors_device_is_down_arrives_in_order_when_it_is_up() {
    in_namespace(|| {
        veth("g", "b");
        veth("s", "ids");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("literals"), HTTP).unwrap();
        let keys = "gateway = { mode = \"hold\" }\nno_sensor = \"hold\"";
        let config = configure(folder.path(), keys);
        let socket = folder.path().join("control");
        let broker = broker(&config, &socket);
        let mut sensor = PacketRx::open("s", &RxOptions::default()).unwrap();
        let ledger = || ask(&socket, &["ledger"]).unwrap();
        let up = || number(&ask(&socket, &["status"]).unwrap()["groups"][0], "up");
        let send = |numbers: std::ops::Range<u64>| {
            Sender::open("g").send(&numbers.map(numbered).collect::<Vec<_>>());
        };
        let mut got = Vec::new();
        let mut wait_for_packets = |last: u64| {
            let expected = with_literals(0..last).len();
            wait_for("the packets", || {
                take(&mut sensor, &mut got);
                got.len() >= expected
            });
            let expected = by_flow(with_literals(0..last).into_iter());
            assert_eq!(by_flow(got.iter().map(|frame| number_of(frame))), expected);
        };
        send(0..400);
        wait_for_packets(400);
        ip("link set dev ids down");
        wait_for("the sensor to be down", || up() == 0);
        send(400..1400);
        // Flows that end clean meanwhile are withheld.
        wait_for("the clean flows to end", || {
            let group = row(&ledger(), "group ids").clone();
            number(&group, "in") == 1400 && number(&group["drops"], "withheld") == 1400 - 140
        });
        let said = ledger();
        let group = row(&said, "group ids");
        assert_eq!((number(group, "held"), number(group, "out")), (100, 40), "{said}");
        assert_eq!((number(&group["drops"], "no_sensor"), &said["closes"]), (0, &true.into()));
        ip("link set dev ids up");
        wait_for_packets(1400);
        send(1400..1600);
        wait_for_packets(1600);
        let status = ask(&socket, &["status"]).unwrap();
        assert_eq!(number(&status["remarks"], "gateway_waited_for_sensor"), 100, "{status}");
        assert!(ask(&socket, &["drain"]).is_some());
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        let group = row(&said, "group ids");
        assert_eq!(number(&group["drops"], "no_sensor"), 0, "{said}");
        assert_eq!(number(row(&said, "tx ids"), "out"), number(group, "out"), "{said}");
    });
}

#[test]
fn a_sensor_that_comes_and_goes_loses_nothing_that_can_wait() {
    in_namespace(|| {
        veth("g", "b");
        veth("s", "ids");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("literals"), HTTP).unwrap();
        let configure = |no_sensor: &str| {
            let keys = format!("gateway = {{ mode = \"hold\" }}\nno_sensor = \"{no_sensor}\"");
            configure(folder.path(), &keys)
        };
        let socket = folder.path().join("control");
        let broker = broker(&configure("hold"), &socket);
        let mut reader = PacketRx::open("s", &RxOptions::default()).unwrap();
        let mut got = Vec::new();
        let group = || row(&ask(&socket, &["ledger"]).unwrap(), "group ids").clone();
        let sensor = |word: &str| assert!(ask(&socket, &["sensor", "ids", word]).is_some());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Sender::open("g").paced(numbered, 4000, 4000.0);
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                for word in ["down", "up"] {
                    sensor(word);
                    std::thread::sleep(Duration::from_millis(60));
                    take(&mut reader, &mut got);
                }
            }
        });
        wait_for("the packets", || {
            let group = group();
            number(&group, "in") == 4000 && number(&group, "held") == 0
        });
        let said = group();
        // Of a sensor that goes within a batch, a worker may learn behind it.
        let lost = number(&said["drops"], "no_sensor");
        assert!(lost <= 20, "{said}");
        assert_eq!(number(&said, "out") + number(&said["drops"], "withheld") + lost, 4000);
        wait_for("the packets at the sensor", || {
            take(&mut reader, &mut got);
            got.len() as u64 == number(&said, "out")
        });
        let flows = by_flow(got.iter().map(|frame| number_of(frame)));
        assert!(flows.values().all(|flow| flow.is_sorted_by(|a, b| a < b)), "{flows:?}");

        // Another `no_sensor` lets what waits go on.
        sensor("down");
        Sender::open("g").send(&(0..500).map(numbered).collect::<Vec<_>>());
        wait_for("the packets", || number(&group(), "in") == 4500);
        let before = number(&group(), "out");
        configure("pass");
        assert!(ask(&socket, &["reload"]).is_some());
        wait_for("what waits", || number(&group(), "out") == before + 50);
        configure("hold");
        assert!(ask(&socket, &["reload"]).is_some());

        // At the end it is dropped.
        let dropped = number(&group()["drops"], "no_sensor");
        Sender::open("g").send(&(500..1000).map(numbered).collect::<Vec<_>>());
        wait_for("the packets", || number(&group(), "in") == 5000);
        assert_eq!(number(&group(), "out"), before + 50);
        assert!(ask(&socket, &["drain"]).is_some());
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        let group = row(&said, "group ids");
        let lost = number(&group["drops"], "no_sensor");
        assert!(lost >= dropped + 50, "{said}");
        let withheld = number(&group["drops"], "withheld");
        assert_eq!(number(group, "out") + withheld + lost, 5000, "{said}");
        assert_eq!(number(group, "out"), before + 50, "{said}");
    });
}

/// Segment `n` of a connection, as long as an MTU of 1,500 allows, with right checksums. A receiver may
/// join it with those before and behind it.
fn longest_segment(n: u32) -> Vec<u8> {
    const PAYLOAD: u32 = 1460;
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0x05, 0xdc, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let header = fold(sum_words(&frame[14..34])).to_be_bytes();
    frame[24..26].copy_from_slice(&header);
    frame.extend([0x10, 0, 0, 80]);
    frame.extend((n * PAYLOAD).to_be_bytes());
    frame.extend([0, 0, 0, 1, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
    frame.extend((0..PAYLOAD).map(|at| (at * 7 + n) as u8));
    let mut covered = frame[26..34].to_vec();
    covered.extend([0, 6]);
    covered.extend((frame.len() as u16 - 34).to_be_bytes());
    covered.extend(&frame[34..]);
    let sum = fold(sum_words(&covered)).to_be_bytes();
    frame[50..52].copy_from_slice(&sum);
    assert_eq!(frame.len(), 1514);
    frame
}

/// Takes the packets of IPv4 that have come.
fn take(port: &mut PacketRx, to: &mut Vec<Vec<u8>>) {
    while let Received::Batch(batch) = port.receive().unwrap() {
        let packets = batch.live().iter().map(|i| batch.packet(i).to_vec());
        to.extend(packets.filter(|packet| packet[12..14] == [8, 0]));
    }
}

#[test]
fn a_sensor_gets_the_longest_frames_as_they_came_by_veth_and_tap() {
    in_namespace(|| {
        veth("g", "b");
        veth("s", "ids");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("literals"), HTTP).unwrap();
        let socket = folder.path().join("control");
        let frames: Vec<Vec<u8>> = (0..512).map(longest_segment).collect();
        for (kind, device, reads) in [("af_packet", "ids", "s"), ("tap", "tap0", "tap0")] {
            let config = configure(folder.path(), "gateway = { mode = \"hold\" }");
            let text = fs::read_to_string(&config).unwrap().replace(
                "type = \"af_packet\"\ninterface = \"ids\"",
                &format!("type = \"{kind}\"\ninterface = \"{device}\""),
            );
            fs::write(&config, text).unwrap();
            let broker = broker(&config, &socket);
            ip(&format!("link set {device} up"));
            let mut sensor = PacketRx::open(reads, &RxOptions::default()).unwrap();
            Sender::open("g").send(&frames);
            // Those of a connection that is seen from its middle pass at once.
            let mut got = Vec::new();
            wait_for("the frames", || {
                take(&mut sensor, &mut got);
                got.len() >= frames.len()
            });
            assert!(got == frames, "{kind}: {} frames", got.len());
            assert!(ask(&socket, &["drain"]).is_some());
            let said = broker.ended();
            assert_eq!(said["closes"], true, "{said}");
        }
    });
}

/// A configuration of a gateway to a TAP device, of which a program sends to the wire, too.
fn configure_inline(folder: &Path, gateway: &str) -> PathBuf {
    let config = configure(folder, gateway);
    let text = fs::read_to_string(&config).unwrap().replace(
        "type = \"af_packet\"\ninterface = \"ids\"\n",
        "type = \"tap\"\ninterface = \"tap0\"\n\
         [[output]]\nname = \"wire\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
         [[input]]\nname = \"back\"\ntype = \"tap\"\ninterface = \"tap0\"\nto = \"wire\"\n",
    );
    let text = text.replace("{ name = \"ids\" }", "{ name = \"ids\", output = \"ids\" }");
    fs::write(&config, text).unwrap();
    config
}

#[test]
fn what_an_application_sends_goes_to_the_wire_unchanged() {
    in_namespace(|| {
        veth("g", "b");
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("literals"), HTTP).unwrap();
        let config = configure_inline(folder.path(), "gateway = { mode = \"annotate\" }");
        let socket = folder.path().join("control");
        let broker = broker(&config, &socket);
        ip("link set dev tap0 arp off multicast off up");
        let mut wire = PacketRx::open("g", &RxOptions::default()).unwrap();
        let mut application = PacketRx::open("tap0", &RxOptions::default()).unwrap();
        let frames: Vec<Vec<u8>> = (0..256).map(longest_segment).collect();
        let (there, back) = frames.split_at(128);
        Sender::open("g").send(there);
        Sender::open("tap0").send(back);
        let (mut arrived, mut answered) = (Vec::new(), Vec::new());
        wait_for("the frames", || {
            take(&mut application, &mut arrived);
            take(&mut wire, &mut answered);
            arrived.len() >= there.len() && answered.len() >= back.len()
        });
        assert!(arrived == there && answered == back, "{} {}", arrived.len(), answered.len());
        assert!(ask(&socket, &["drain"]).is_some());
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        let row = |stage: &str| row(&said, stage).clone();
        assert_eq!(number(&row("rx tap"), "in"), 128, "{said}");
        // The host may have sent frames of its own.
        let sent = number(&row("rx back"), "injected");
        assert!(sent >= 128, "{said}");
        assert_eq!(number(&row("group ids"), "in"), 128, "{said}");
        assert_eq!(number(&row("tx wire"), "out"), sent, "{said}");
    });
}

#[test]
fn an_application_in_the_way_of_packets_that_wait_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("literals"), HTTP).unwrap();
    let check = |gateway: &str, from: &str, to: &str| {
        let config = configure_inline(folder.path(), gateway);
        let text = fs::read_to_string(&config).unwrap().replace(from, to);
        fs::write(&config, text).unwrap();
        run(["gateway", "--check=file", "-c", config.to_str().unwrap()])
    };
    for mode in ["hold", "prefix"] {
        let ran = check(&format!("gateway = {{ mode = \"{mode}\" }}"), "", "");
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        let said =
            format!("`mode` `{mode}` and an application that sends (`to` of the input `back`)");
        assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    }
    let annotate = "gateway = { mode = \"annotate\" }";
    assert_eq!(check(annotate, "", "").status, 0);
    let ran = check(annotate, "to = \"wire\"", "to = \"wall\"");
    assert!(ran.stderr.contains("there is no output `wall`"), "{}", ran.stderr);
    let ran = check(annotate, "to = \"wire\"", "to = \"ids\"");
    assert!(ran.stderr.contains("by the same device"), "{}", ran.stderr);
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
