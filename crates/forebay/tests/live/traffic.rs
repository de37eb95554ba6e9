//! The broker live, in a network of its own: probes in, sensors out, every packet counted.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::broker::{Started, ask, broker, number, row};
use crate::support::command::{command, run};
use crate::support::frames::Sender;
use crate::support::namespace::{in_namespace, ip, veth, wait_for};
use forebay_io::af_packet::{PacketRx, RxOptions};
use forebay_io::{Received, Rx as _};
use serde_json::Value;
use tempfile::TempDir;

/// A generator's link `g`, and links `x0` … to sensors; the broker's ends are `b` and `y0` ….
struct Network {
    folder: TempDir,
    sensors: usize,
}

impl Network {
    fn new(sensors: usize) -> Self {
        veth("g", "b");
        (0..sensors).for_each(|i| veth(&format!("x{i}"), &format!("y{i}")));
        Self { folder: tempfile::tempdir().unwrap(), sensors }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a configuration with a port a sensor, by the types of ports given.
    fn configure(&self, input: &str, output: &str, more: &str) -> PathBuf {
        let mut text = format!(
            "{more}\n[broker]\ncontrol = \"{}\"\n[flow]\nidle_timeout = \"1s\"\n\
             [[input]]\nname = \"tap\"\ntype = \"{input}\"\ninterface = \"b\"\n\
             ring = \"64MiB\"\n",
            self.path("control").display()
        );
        for i in 0..self.sensors {
            text += &format!(
                "[[output]]\nname = \"o{i}\"\ntype = \"{output}\"\ninterface = \"y{i}\"\nwait = \"100ms\"\n"
            );
        }
        text += "[[group]]\nname = \"ids\"\n";
        for i in 0..self.sensors {
            text += &format!(
                "[[group.sensor]]\nname = \"s{i}\"\noutput = \"o{i}\"\nmac = \"02:00:00:00:01:0{i}\"\n"
            );
        }
        let path = self.path("run.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn broker(&self, config: &Path) -> Started {
        broker(config, &self.path("control"))
    }

    /// What the broker answers, if it does.
    fn ask(&self, words: &[&str]) -> Option<Value> {
        ask(&self.path("control"), words)
    }

    /// A sink that hears all sensors.
    fn sink(&self) -> Started {
        let mut words = vec!["sink".to_owned(), "--json".to_owned()];
        (0..self.sensors).for_each(|i| words.extend(["-i".to_owned(), format!("x{i}")]));
        words.extend(
            ["--quiet-after", "2s", "--duration", "60s", "--idle-timeout", "1s"].map(String::from),
        );
        Started::listening(command(words))
    }

    fn generate(&self, words: &str) -> Value {
        let words = ["gen", "--json", "-i", "g"].into_iter().chain(words.split_whitespace());
        let ran = run(words);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        serde_json::from_slice(&ran.stdout).unwrap()
    }
}

/// Nothing was lost, doubled, late or torn, from the generator to the sensors.
fn all_well(sent: u64, heard: &Value, said: &Value) {
    crate::support::broker::all_well(sent, heard, said);
    assert_eq!(number(row(said, "rx tap"), "out"), sent, "{said}");
}

#[test]
fn every_packet_reaches_one_sensor_by_each_type_of_port() {
    in_namespace(|| {
        let network = Network::new(3);
        for (input, output) in [
            ("af_packet", "af_packet"),
            ("af_xdp", "af_packet"),
            ("af_packet", "af_xdp"),
            ("af_xdp", "af_xdp"),
        ] {
            let config = network.configure(input, output, "");
            let broker = network.broker(&config);
            let sink = network.sink();
            let sent = network.generate("--rate 4000 --packets 6000 --flows 300 --life 1s");
            let heard = sink.ended();
            broker.signal(libc::SIGTERM);
            let said = broker.ended();
            all_well(number(&sent, "packets"), &heard, &said);
            // Each sensor had its part.
            for i in 0..3 {
                assert!(number(row(&said, &format!("tx o{i}")), "out") > 500, "{said}");
            }
        }
    });
}

/// The configuration with that said of how each output sends.
fn sending(config: &Path, how: &str) {
    let text = std::fs::read_to_string(config).unwrap();
    let text = text.replace("wait = \"100ms\"\n", &format!("wait = \"100ms\"\nsend = \"{how}\"\n"));
    std::fs::write(config, text).unwrap();
}

#[test]
fn frames_are_redirected_by_an_ordinary_user_and_by_several_workers() {
    in_namespace(|| {
        let network = Network::new(2);
        let open_to_all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(network.folder.path(), open_to_all).unwrap();
        for how in ["frames", "ring"] {
            let config = network.configure("af_packet", "af_xdp", "");
            sending(&config, how);
            let text = std::fs::read_to_string(&config).unwrap();
            let more = "[broker]\nuser = \"nobody\"\nworkers = 2";
            std::fs::write(&config, text.replace("[broker]", more)).unwrap();
            let broker = network.broker(&config);
            let sink = network.sink();
            let sent = network.generate("--rate 4000 --packets 6000 --flows 300 --life 1s");
            let heard = sink.ended();
            broker.signal(libc::SIGTERM);
            all_well(number(&sent, "packets"), &heard, &broker.ended());
        }
    });
}

#[test]
fn frames_to_a_device_that_takes_none_are_refused() {
    in_namespace(|| {
        let network = Network::new(1);
        // No page has room for such frames.
        for device in ["b", "g", "x0", "y0"] {
            ip(&format!("link set dev {device} mtu 3400"));
        }
        let config = network.configure("af_packet", "af_xdp", "");
        sending(&config, "frames");
        let ran = run(["run", "-c", config.to_str().unwrap()]);
        assert!(ran.status != 0 && ran.stderr.contains("an MTU of 3400"), "{}", ran.stderr);
    });
}

/// TAP devices are the broker's own: there are none before it runs.
#[test]
fn every_packet_passes_tap_devices_of_the_brokers_own() {
    in_namespace(|| {
        let mut network = Network::new(0);
        network.sensors = 2;
        let mut text = format!(
            "[broker]\ncontrol = \"{}\"\n\
             [[input]]\nname = \"tap\"\ntype = \"tap\"\ninterface = \"t0\"\n",
            network.path("control").display()
        );
        for i in 0..2 {
            text += &format!("[[output]]\nname = \"o{i}\"\ntype = \"tap\"\ninterface = \"x{i}\"\n");
        }
        text += "[[group]]\nname = \"ids\"\n";
        for i in 0..2 {
            text += &format!("[[group.sensor]]\nname = \"s{i}\"\noutput = \"o{i}\"\n");
        }
        let config = network.path("run.toml");
        std::fs::write(&config, text).unwrap();
        let broker = network.broker(&config);
        for device in ["t0", "x0", "x1"] {
            ip(&format!("link set dev {device} arp off multicast off up"));
        }
        let sink = network.sink();
        let ran = run("gen --json -i t0 --rate 4000 --packets 6000 --flows 300".split(' '));
        let sent: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let heard = sink.ended();
        broker.signal(libc::SIGTERM);
        // Whatever the host itself has said by the device passes, too.
        crate::support::broker::all_well(number(&sent, "packets"), &heard, &broker.ended());
    });
}

/// The broker is stopped while packets come: its rings fill, and what they do not hold is
/// lost, by name and number.
#[test]
fn what_comes_while_the_broker_cannot_keep_up_is_counted() {
    in_namespace(|| {
        let network = Network::new(2);
        for input in ["af_packet", "af_xdp"] {
            let config = network.configure(input, "af_packet", "");
            let text = std::fs::read_to_string(&config).unwrap();
            std::fs::write(&config, text.replace("64MiB", "1MiB")).unwrap();
            let broker = network.broker(&config);
            let sink = network.sink();
            broker.signal(libc::SIGSTOP);
            let words = "--rate 10000 --packets 10000 --flows 300 --size 600";
            let sent = number(&network.generate(words), "packets");
            broker.signal(libc::SIGCONT);
            let heard = sink.ended();
            broker.signal(libc::SIGTERM);
            let said = broker.ended();
            let rx = row(&said, "rx tap");
            let lost: u64 =
                rx["drops"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
            println!("{input}: {sent} sent, {rx}");
            assert!(lost > 1_000, "the ring held all: {said}");
            assert_eq!((number(rx, "in"), number(rx, "out") + lost), (sent, sent), "{said}");
            assert_eq!(number(&heard, "received"), number(rx, "out"), "{heard}\n{said}");
            for wrong in ["duplicates", "reordered", "torn_flows", "lost_here"] {
                assert_eq!(number(&heard, wrong), 0, "{wrong}: {heard}\n{said}");
            }
            assert_eq!(said["closes"], true, "{said}");
        }
    });
}

#[test]
fn a_generator_that_is_started_again_is_nothing_new() {
    in_namespace(|| {
        let network = Network::new(3);
        let config = network.configure("af_packet", "af_packet", "");
        let broker = network.broker(&config);
        let sink = network.sink();
        let sent: u64 = (0..3)
            .map(|_| network.generate("--rate 4000 --packets 1500 --flows 100"))
            .map(|said| number(&said, "packets"))
            .sum();
        let heard = sink.ended();
        broker.signal(libc::SIGTERM);
        all_well(sent, &heard, &broker.ended());
        assert!(number(&heard, "flows") <= 100, "not the same flows: {heard}");
    });
}

/// Frames of all kinds that a link carries, one after the other, each with its number.
fn frames_of_all_kinds() -> Vec<Vec<u8>> {
    use crate::support::frames::{fragment, syn_from_anywhere};
    let stations = [0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1];
    let mut frames = Vec::new();
    for n in 0..20_u8 {
        let with = |rest: &[u8], len: usize| {
            let mut frame = [&stations[..], rest].concat();
            frame.resize(len, n);
            frame
        };
        let ipv4 = syn_from_anywhere(n.into()).split_off(12);
        let tagged = |tags: &[u8]| with(&[tags, &ipv4[..]].concat(), 64 + usize::from(n));
        frames.extend([
            // Runts: nearly no IPv4 header, and one that is cut off.
            with(&[0x08, 0, 0x45], 17),
            with(&ipv4[..12], 24),
            with(&ipv4, 60),
            with(&ipv4, 1_514),
            with(&ipv4, 3_000 + usize::from(n)),
            with(&ipv4, 9_014),
            tagged(&[0x81, 0, 0, 5]),
            tagged(&[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7]),
            tagged(&[0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3]),
            fragment((2 * n).into()),
            fragment((2 * n + 1).into()),
            // ARP, IPv6 whose header says more than there is, and IEEE 802.3.
            with(&[0x08, 6, 0, 1, 8, 0, 6, 4, 0, 1], 60),
            with(&[0x86, 0xdd, 0x60, 0, 0, 0, 0xff, 0xff, 17, 64], 60),
            with(&[0, 46, 0x42, 0x42, 3], 60),
        ]);
    }
    frames
}

#[test]
fn jumbo_runt_tagged_and_cut_frames_arrive_as_they_were() {
    in_namespace(|| {
        let network = Network::new(1);
        for device in ["g", "b", "x0", "y0"] {
            ip(&format!("link set dev {device} mtu 9000"));
        }
        let sent = frames_of_all_kinds();
        for (input, output) in [("af_packet", "af_packet")] {
            let broker = network.broker(&network.configure(input, output, ""));
            let mut rx = PacketRx::open("x0", &RxOptions::default()).unwrap();
            Sender::open("g").send(&sent);
            let mut got = Vec::new();
            wait_for("all frames", || {
                while let Received::Batch(batch) = rx.receive().unwrap() {
                    got.extend((0..batch.len()).map(|i| batch.packet(i).to_vec()));
                }
                got.len() >= sent.len()
            });
            for (i, (got, sent)) in got.iter().zip(&sent).enumerate() {
                // The sensor's address is written, and nothing else.
                assert_eq!(got[..6], [2, 0, 0, 0, 1, 0], "{input}: frame {i}");
                assert_eq!(got[12..], sent[12..], "{input}: frame {i}");
            }
            assert_eq!(got.len(), sent.len());
            let status = network.ask(&["status"]).unwrap();
            assert_eq!(status["undecoded"], serde_json::json!({ "LLC 0x4242": 20 }));
            broker.signal(libc::SIGTERM);
            let said = broker.ended();
            assert_eq!((&said["closes"], &said["errors"]), (&true.into(), &serde_json::json!([])));
            assert_eq!(number(row(&said, "tx o0"), "out"), sent.len() as u64, "{said}");
        }
    });
}

#[test]
fn jumbo_frames_pass_by_each_type_of_port() {
    in_namespace(|| {
        let network = Network::new(1);
        for device in ["g", "b", "x0", "y0"] {
            ip(&format!("link set dev {device} mtu 9000"));
        }
        for (input, output, size) in [
            ("af_packet", "af_packet", 9000),
            ("af_xdp", "af_packet", 9000),
            ("af_xdp", "af_packet", 1900),
            ("af_packet", "af_xdp", 4000),
        ] {
            let config = network.configure(input, output, "");
            let broker = network.broker(&config);
            let sink = network.sink();
            let sent = network.generate(&format!("--rate 2000 --packets 500 --size {size}"));
            let heard = sink.ended();
            broker.signal(libc::SIGTERM);
            let (said, told) = broker.ended_with_notices();
            all_well(number(&sent, "packets"), &heard, &said);
            // What it cannot send it says before it is sent.
            assert_eq!(told.contains("longer than 4096 bytes"), output == "af_xdp", "{told}");
        }
    });
}

#[test]
fn settings_change_under_load_and_nothing_is_lost() {
    in_namespace(|| {
        let network = Network::new(2);
        let config = network.configure("af_packet", "af_packet", "");
        let broker = network.broker(&config);
        let sink = network.sink();
        let sent = std::thread::scope(|scope| {
            let load = scope.spawn(|| network.generate("--rate 4000 --duration 9s --flows 200"));
            for i in 0..100 {
                let filter = ["", "filter = \"udp\"", "filter = \"ip and not tcp\""][i % 3];
                network.configure("af_packet", "af_packet", filter);
                if i % 2 == 0 {
                    assert!(network.ask(&["reload"]).is_some(), "reload {i}");
                } else {
                    broker.signal(libc::SIGHUP);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            load.join().unwrap()
        });
        // What cannot change is refused, and everything stays as it is.
        network.configure("af_xdp", "af_packet", "");
        assert!(network.ask(&["reload"]).is_none());
        let heard = sink.ended();
        assert!(network.ask(&["drain"]).is_some());
        all_well(number(&sent, "packets"), &heard, &broker.ended());
    });
}

/// So many rules that reject, each of two networks and two ranges of ports.
fn long_list(rules: u64) -> String {
    let mut state = 1_u64;
    let mut next = |most: u64| {
        // Numerical Recipes' generator: any will do.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % most
    };
    let mut text = String::new();
    for number in 1..=rules {
        let [a, b, c, d, e] = [256, 256, 256, 16, 256].map(&mut next);
        let (low, high) = (next(30_000), 30_000 + next(30_000));
        text += &format!(
            "ip filter {number} reject 10.{a}.{b}.0/24 10.{c}.{}.{e}/32 udp {low}-{high} *\n",
            16 * d
        );
    }
    text
}

#[test]
fn a_reload_that_takes_long_holds_up_nothing() {
    in_namespace(|| {
        let network = Network::new(2);
        let config = network.configure("af_packet", "af_packet", "");
        let broker = network.broker(&config);
        // A list of rules that takes several times as long to build as the packets need, and
        // rejects all.
        let list = network.path("list");
        std::fs::write(&list, long_list(300_000)).unwrap();
        let rules = format!("rules = \"{}\"\n", list.display());
        network.configure("af_packet", "af_packet", &rules);
        let passed = || number(row(&network.ask(&["ledger"]).unwrap(), "tx o1"), "out");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| network.ask(&["reload"]).is_some());
            assert!(network.ask(&["sensor", "s0", "down"]).is_some());
            network.generate("--rate 4000 --packets 500 --flows 50");
            wait_for("the packets", || passed() == 500);
            assert!(!first.is_finished());
            network.configure("af_packet", "af_packet", "");
            // It overtakes the first, which gives up, and who asked for that gets this.
            assert!(network.ask(&["reload"]).is_some());
            assert!(first.join().unwrap(), "{}", broker.said());
        });
        // Who asked later had what was there later: no rules.
        network.generate("--rate 2000 --packets 500 --flows 50");
        wait_for("the packets", || passed() == 1_000);
        assert!(network.ask(&["drain"]).is_some());
        let (said, told) = broker.ended_with_notices();
        assert_eq!(said["closes"], true);
        let reloaded = told.lines().filter(|line| line.ends_with("reloaded")).count();
        assert_eq!(reloaded, 1, "{told}");
    });
}

#[test]
fn a_reload_tells_how_rules_are_matched() {
    in_namespace(|| {
        let network = Network::new(2);
        let config = network.configure("af_packet", "af_packet", "");
        let broker = network.broker(&config);
        // Hundreds of prefixes each: more than trees take.
        let rule = |n: u32| {
            let (a, b) = (n / 200, n % 200 + 1);
            format!("ip filter {n} reject 10.0.{a}.{b}-10.200.0.7 10.1.0.3-10.250.{a}.{b} udp\n")
        };
        let list = network.path("list");
        // So many that they are not scanned.
        std::fs::write(&list, (1..=2_100).map(rule).collect::<String>()).unwrap();
        network.configure("af_packet", "af_packet", &format!("rules = \"{}\"\n", list.display()));
        assert!(network.ask(&["reload"]).is_some());
        wait_for("the notice", || broker.said().contains("reloaded"));
        let said = broker.said();
        let expected = format!("{}: tree: 2100 of the rules are matched by", list.display());
        assert!(said.contains(&expected), "{said}");
        assert!(network.ask(&["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}

#[test]
fn the_rules_in_force_are_shown_with_what_each_has_decided() {
    in_namespace(|| {
        let network = Network::new(2);
        let list = network.path("list");
        let keys = format!("rules = \"{}\"\n", list.display());
        std::fs::write(&list, "ip filter 1 pass * * tcp\nip filter 2 reject * * udp\n").unwrap();
        let broker = network.broker(&network.configure("af_packet", "af_packet", &keys));
        let settled = |sent: u64| {
            let rules = || row(&network.ask(&["ledger"]).unwrap(), "rules").clone();
            wait_for("the packets", || number(&rules(), "in") == sent);
            number(&rules()["drops"], "rejected")
        };
        let shown = |options: &[&str]| {
            let said = network.ask(&[&["rules", "show"], options].concat()).unwrap();
            let rules = said["rules"].as_array().unwrap();
            let packets = rules.iter().map(|rule| number(rule, "packets")).collect::<Vec<_>>();
            (packets, number(&said["default"], "packets"), said["next"].clone())
        };
        assert_eq!(shown(&[]), (vec![0, 0], 0, Value::Null));
        assert_eq!(shown(&["--hit"]), (vec![], 0, Value::Null));
        network.generate("--rate 4000 --packets 500 --flows 50");
        assert_eq!(settled(500), 500);
        assert_eq!(shown(&[]), (vec![0, 500], 0, Value::Null));
        assert_eq!(shown(&["--hit"]), (vec![500], 0, Value::Null));
        assert_eq!(shown(&["--limit", "1"]), (vec![0], 0, 2.into()));
        assert_eq!(shown(&["--from", "2"]), (vec![500], 0, Value::Null));
        // The same list goes on counting; another begins anew.
        assert_eq!(network.ask(&["reload"]), Some("reloaded".into()));
        assert_eq!(shown(&[]).0, [0, 500]);
        network.generate("--rate 4000 --packets 500 --flows 50");
        assert_eq!(settled(1000), 1000);
        assert_eq!(shown(&[]).0, [0, 1000]);
        std::fs::write(&list, "ip filter 3 pass *\nipv6 filter 3 pass *\n").unwrap();
        let said = "reloaded; rules at places 1 to 2 of 2 are now 1 to 2 of 2";
        assert_eq!(network.ask(&["reload"]), Some(said.into()));
        assert_eq!(shown(&[]), (vec![0, 0], 0, Value::Null));
        let socket = network.path("control");
        let text = run(["ctl", "-s", socket.to_str().unwrap(), "rules", "show"]).exits(0).text();
        assert!(text.contains("IPv6 3  ") && text.ends_with("2 rules\n"), "{text}");
        network.configure("af_packet", "af_packet", "");
        assert!(network.ask(&["reload"]).is_some());
        assert!(network.ask(&["rules", "show"]).is_none());
        assert!(network.ask(&["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}

#[test]
fn a_reload_takes_a_list_of_another_language() {
    in_namespace(|| {
        let network = Network::new(2);
        let list = network.path("list");
        let keys = format!("rules = \"{}\"\nrules_unsupported = \"met\"\n", list.display());
        std::fs::write(&list, "ip filter 1 pass *\nipv6 filter 1 pass *\n").unwrap();
        let broker = network.broker(&network.configure("af_packet", "af_packet", &keys));
        // How many packets the rules have had, and rejected, once they have had `sent`.
        let rejected = |sent: u64| {
            let ledger = || row(&network.ask(&["ledger"]).unwrap(), "rules").clone();
            wait_for("the packets", || number(&ledger(), "in") == sent);
            number(&ledger()["drops"], "rejected")
        };
        network.generate("--rate 4000 --packets 500 --flows 50");
        assert_eq!(rejected(500), 0);
        std::fs::write(&list, "access-list 7 deny any log\n").unwrap();
        assert!(network.ask(&["reload"]).is_some());
        network.generate("--rate 4000 --packets 500 --flows 50");
        assert_eq!(rejected(1000), 500);
        // A list with a mistake leaves the last in force.
        std::fs::write(&list, "access-list 7 deny nobody\n").unwrap();
        assert!(network.ask(&["reload"]).is_none());
        let expected = format!("{}:1: found \"nobody\", expected ", list.display());
        wait_for("the refusal", || broker.said().contains(&expected));
        network.generate("--rate 4000 --packets 500 --flows 50");
        assert_eq!(rejected(1500), 1000);
        assert!(network.ask(&["drain"]).is_some());
        assert_eq!(broker.ended()["closes"], true);
    });
}

#[test]
fn a_sensor_that_is_down_gets_nothing_and_others_get_all() {
    in_namespace(|| {
        let network = Network::new(2);
        let config = network.configure("af_packet", "af_packet", "");
        let broker = network.broker(&config);
        assert!(network.ask(&["sensor", "s0", "down"]).is_some());
        let sent = network.generate("--rate 4000 --packets 2000 --flows 200");
        let packets = number(&sent, "packets");
        wait_for("the packets", || {
            let said = network.ask(&["ledger"]).unwrap();
            number(row(&said, "tx o1"), "out") == packets
        });
        assert!(network.ask(&["sensor", "s1", "down"]).is_some());
        network.generate("--rate 4000 --packets 1000 --flows 200");
        assert!(network.ask(&["sensor", "nobody", "down"]).is_none());
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        assert_eq!(number(row(&said, "tx o0"), "in"), 0, "{said}");
        assert_eq!(number(&row(&said, "group ids")["drops"], "no_sensor"), 1_000, "{said}");
    });
}

#[test]
fn a_device_that_is_deleted_under_load_ends_the_broker_and_its_ledger_closes() {
    in_namespace(|| {
        let network = Network::new(1);
        let config = network.configure("af_packet", "af_packet", "");
        let broker = network.broker(&config);
        let load = Started::start(command("gen -i g --rate 5000 --duration 5s -q".split(' ')));
        wait_for("packets", || {
            let status = network.ask(&["status"]).unwrap();
            status["inputs"][0]["packets"].as_u64() > Some(100)
        });
        ip("link delete dev b");
        let mut broker = broker;
        let (status, stdout) = broker.output();
        drop(load);
        assert_eq!(status, Some(1));
        let said: Value = serde_json::from_slice(&stdout).unwrap();
        assert_eq!(said["closes"], true, "{said}");
        let error = said["errors"][0].as_str().unwrap();
        assert!(error.contains("input tap: ") && error.contains("b"), "{error}");
    });
}

#[test]
fn a_configuration_is_checked_without_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.toml");
    for name in ["minimal", "switch", "xdp", "recorder", "all"] {
        let example = run(["run", "--example", name]);
        assert_eq!(example.status, 0, "{}", example.stderr);
        std::fs::write(&path, &example.stdout).unwrap();
        let checked = run(["run", "--check=file", "-c", path.to_str().unwrap()]);
        assert_eq!(checked.status, 0, "{name}: {}", checked.stderr);
    }
    let example = run(["run", "--example"]);
    assert_eq!(example.stdout, run(["run", "--example=all"]).stdout);
    std::fs::write(&path, &example.stdout).unwrap();
    let checked = run(["run", "--check=file", "-c", path.to_str().unwrap()]);
    assert_eq!(checked.status, 0, "{}", checked.stderr);
    let wrong = String::from_utf8(example.stdout).unwrap().replace("not port 22", "not prot 22");
    std::fs::write(&path, wrong).unwrap();
    let refused = run(["run", "--check=file", "-c", path.to_str().unwrap()]);
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("filter of group ids"), "{}", refused.stderr);
}

#[test]
fn a_recorder_has_every_packet_of_several_inputs() {
    in_namespace(|| {
        let network = Network::new(1);
        veth("g1", "b1");
        let file = network.path("all.pcapng");
        let text = format!(
            "[broker]\ncontrol = \"{}\"\n\
             [[input]]\nname = \"tap\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
             [[input]]\nname = \"back\"\ntype = \"af_packet\"\ninterface = \"b1\"\n\
             [[output]]\nname = \"disk\"\ntype = \"pcap\"\nfile = \"{}\"\n\
             [[group]]\nname = \"all\"\nslice = 64\n[[group.sensor]]\nname = \"disk\"\n",
            network.path("control").display(),
            file.display()
        );
        let config = network.path("run.toml");
        std::fs::write(&config, text).unwrap();
        let broker = network.broker(&config);
        let sent = number(&network.generate("--rate 4000 --packets 800 --flows 20"), "packets");
        let back = run(["gen", "-i", "g1", "--rate", "4000", "--packets", "400", "--flows", "9"]);
        assert_eq!(back.status, 0, "{}", back.stderr);
        let seen = || number(row(&network.ask(&["ledger"]).unwrap(), "tx disk"), "out");
        wait_for("the last packet", || seen() == sent + 400);
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!((&said["closes"], &said["errors"]), (&true.into(), &serde_json::json!([])));
        let counted = run(["filter", "-r", file.to_str().unwrap(), "--count", "udp"]);
        let counted = String::from_utf8_lossy(&counted.stdout).into_owned();
        assert_eq!(counted.trim(), format!("{} packets", sent + 400));
    });
}
