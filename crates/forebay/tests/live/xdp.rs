//! The broker in the kernel, in a network of its own: probes in, sensors out, every packet
//! counted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::support::broker::{Started, all_well, ask, broker, number, row};
use crate::support::command::{command, run};
use crate::support::namespace::{in_namespace, ip, veth, wait_for};
use forebay_io::af_packet::{PacketRx, PacketTx, RxOptions, TxOptions};
use forebay_io::{Received, Rx, Tx};
use forebay_packet::{Batch, Interface, PacketMeta, Region, Rewrites};
use serde_json::Value;
use tempfile::TempDir;

/// Links `g0`, `g1` of a tap, and links `x0` … to sensors; the broker's ends are `b0`, `b1`
/// and `y0` ….
pub struct Network {
    folder: TempDir,
    outputs: usize,
}

impl Network {
    pub fn new(outputs: usize) -> Self {
        (0..2).for_each(|i| veth(&format!("g{i}"), &format!("b{i}")));
        (0..outputs).for_each(|i| veth(&format!("x{i}"), &format!("y{i}")));
        Self { folder: tempfile::tempdir().unwrap(), outputs }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a configuration: keys before all sections, then those of the group, then its
    /// sensors, one a line, as the inside of a table.
    pub fn configure(&self, first: &str, group: &str, sensors: &[String]) -> PathBuf {
        let control = self.path("control");
        let mut text = format!(
            "{first}\n[broker]\ncontrol = \"{}\"\n[flow]\nidle_timeout = \"1s\"\n\
             [balance]\ninterval = \"200ms\"\n",
            control.display()
        );
        for i in 0..2 {
            text +=
                &format!("[[input]]\nname = \"tap{i}\"\ntype = \"xdp\"\ninterface = \"b{i}\"\n");
        }
        for i in 0..self.outputs {
            text += &format!("[[output]]\nname = \"o{i}\"\ntype = \"xdp\"\ninterface = \"y{i}\"\n");
        }
        text += &format!("[[group]]\nname = \"ids\"\n{group}\nsensor = [\n");
        for (i, sensor) in sensors.iter().enumerate() {
            text += &format!("{{ name = \"s{i}\", {sensor} }},\n");
        }
        text += "]\n";
        let path = self.path("run.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A sensor behind each output.
    pub fn each(&self) -> Vec<String> {
        let sensor = |i| format!("output = \"o{i}\", mac = \"02:00:00:00:01:0{i}\"");
        (0..self.outputs).map(sensor).collect()
    }

    pub fn broker(&self, config: &Path) -> Started {
        broker(config, &self.path("control"))
    }

    /// What the broker answers, if it does.
    fn ask(&self, words: &[&str]) -> Option<Value> {
        ask(&self.path("control"), words)
    }

    /// A sink that hears all sensors.
    fn sink(&self) -> Started {
        let mut words = vec!["sink".to_owned(), "--json".to_owned()];
        (0..self.outputs).for_each(|i| words.extend(["-i".to_owned(), format!("x{i}")]));
        let times = ["--quiet-after", "5s", "--duration", "120s", "--idle-timeout", "500ms"];
        words.extend(times.map(String::from));
        Started::listening(command(words))
    }
}

/// Packets sent by a generator at `device`.
fn generate(device: &str, words: &str) -> u64 {
    let words = ["gen", "--json", "-i", device].into_iter().chain(words.split_whitespace());
    let ran = run(words);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    number(&serde_json::from_slice(&ran.stdout).unwrap(), "packets")
}

#[test]
fn every_packet_reaches_one_sensor_without_leaving_the_kernel() {
    in_namespace(|| {
        let network = Network::new(3);
        let config =
            network.configure("filter = \"ip\"", "filter = \"udp or tcp\"", &network.each());
        let broker = network.broker(&config);
        // Both ends of a tap, one after the other, as a generator's flows are numbered.
        let runs: Vec<(u64, Value)> = (0..2)
            .map(|i| {
                let sink = network.sink();
                let words = "--rate 4000 --packets 5000 --flows 200 --life 1s";
                (generate(&format!("g{i}"), words), sink.ended())
            })
            .collect();
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        for (i, (sent, heard)) in runs.iter().enumerate() {
            all_well(*sent, heard, &said);
            assert_eq!(number(row(&said, &format!("rx tap{i}")), "in"), *sent, "{said}");
        }
        assert_eq!(number(row(&said, "group ids"), "out"), 10_000, "{said}");
        assert_eq!(number(row(&said, "user_space"), "in"), 0, "{said}");
        for i in 0..3 {
            assert!(number(row(&said, &format!("tx o{i}")), "out") > 500, "{said}");
        }
    });
}

#[test]
fn inputs_with_long_and_short_frames_share_the_outputs() {
    in_namespace(|| {
        let network = Network::new(2);
        for device in ["g0", "b0", "x0", "y0", "x1", "y1"] {
            ip(&format!("link set dev {device} mtu 3300"));
        }
        let config = network.configure("", "", &network.each());
        let broker = network.broker(&config);
        let runs: Vec<(u64, Value)> = [("g0", 3200), ("g1", 600)]
            .map(|(device, size)| {
                let sink = network.sink();
                let words = format!("--rate 2000 --packets 1000 --flows 100 --size {size}");
                (generate(device, &words), sink.ended())
            })
            .into();
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        for (sent, heard) in &runs {
            all_well(*sent, heard, &said);
        }
        assert_eq!(number(row(&said, "user_space"), "in"), 0, "{said}");
    });
}

#[test]
fn settings_change_in_the_kernel_and_nothing_is_lost() {
    in_namespace(|| {
        let network = Network::new(2);
        let config = network.configure("", "", &network.each());
        let broker = network.broker(&config);
        let sink = network.sink();
        let sent = std::thread::scope(|scope| {
            let load = scope.spawn(|| generate("g0", "--rate 4000 --duration 4s --flows 200"));
            for i in 0..30 {
                let filter = ["", "filter = \"udp\"", "filter = \"ip and not tcp\""][i % 3];
                network.configure(filter, ["", "filter = \"ip\""][i % 2], &network.each());
                assert!(network.ask(&["reload"]).is_some(), "reload {i}");
                std::thread::sleep(Duration::from_millis(30));
            }
            load.join().unwrap()
        });
        // What the kernel cannot do is refused, and everything stays as it is.
        network.configure("", "slice = 64", &network.each());
        assert!(network.ask(&["reload"]).is_none());
        let heard = sink.ended();
        assert!(network.ask(&["drain"]).is_some());
        all_well(sent, &heard, &broker.ended());
    });
}

#[test]
fn it_is_said_where_the_network_stack_runs_the_program() {
    in_namespace(|| {
        let network = Network::new(1);
        ip("link delete dev b1");
        // Its driver runs no XDP programs.
        ip("link add name b1 type bridge");
        ip("link set dev b1 up");
        let config = network.configure("", "", &network.each());
        let broker = network.broker(&config);
        let said = |device| format!("{device}: its driver runs no XDP programs");
        wait_for("the start to be told", || broker.said().contains("running"));
        let told = broker.said();
        assert!(told.contains(&said("b1")) && !told.contains(&said("b0")), "{told}");
        broker.signal(libc::SIGTERM);
        broker.ended();
    });
}

#[test]
fn settings_change_in_the_kernel_after_an_input_is_gone() {
    in_namespace(|| {
        let network = Network::new(1);
        let mut broker = network.broker(&network.configure("", "", &network.each()));
        ip("link delete dev b0");
        network.configure("filter = \"udp port 1\"", "", &network.each());
        assert!(network.ask(&["reload"]).is_some(), "{}", broker.said());
        generate("g1", "--rate 4000 --packets 200 --flows 20");
        wait_for("the drops", || {
            let said = network.ask(&["ledger"]).unwrap();
            number(&row(&said, "filter")["drops"], "no_match") == 200
        });
        broker.signal(libc::SIGTERM);
        let (status, stdout) = broker.output();
        let said: Value = serde_json::from_slice(&stdout).unwrap();
        // That a port was lost is told in the end.
        assert_eq!((status, &said["closes"]), (Some(1), &true.into()), "{said}");
    });
}

#[test]
fn a_sensor_drains_in_the_kernel_and_no_flow_is_torn() {
    in_namespace(|| {
        let network = Network::new(3);
        let config = network.configure("", "", &network.each());
        let broker = network.broker(&config);
        let sink = network.sink();
        let load = std::thread::spawn(|| {
            generate("g0", "--rate 4000 --duration 6s --flows 200 --life 1s")
        });
        std::thread::sleep(Duration::from_secs(1));
        assert!(network.ask(&["sensor", "s0", "drain"]).is_some());
        let sent = load.join().unwrap();
        wait_for("s0 to drain", || {
            std::thread::sleep(Duration::from_millis(100));
            let said = network.ask(&["sensors"]).unwrap();
            let s0 = &said[0]["sensors"][0];
            number(s0, "buckets") + number(s0, "flows_kept") == 0
        });
        let heard = sink.ended();
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        all_well(sent, &heard, &said);
        assert!(number(row(&said, "tx o0"), "out") < sent / 3, "{said}");
    });
}

#[test]
fn a_sensor_that_is_down_gets_nothing_from_the_kernel() {
    in_namespace(|| {
        let network = Network::new(2);
        let config = network.configure("", "", &network.each());
        let broker = network.broker(&config);
        assert!(network.ask(&["sensor", "s0", "down"]).is_some());
        let packets = generate("g1", "--rate 4000 --packets 2000 --flows 200");
        wait_for("the packets", || {
            let said = network.ask(&["ledger"]).unwrap();
            number(row(&said, "tx o1"), "out") == packets
        });
        assert!(network.ask(&["sensor", "s1", "down"]).is_some());
        generate("g0", "--rate 4000 --packets 1000 --flows 200");
        wait_for("the drops", || {
            let said = network.ask(&["ledger"]).unwrap();
            number(&row(&said, "group ids")["drops"], "no_sensor") == 1_000
        });
        // With `pass` they go where they would if all were up.
        network.configure("", "no_sensor = \"pass\"", &network.each());
        assert!(network.ask(&["reload"]).is_some());
        generate("g0", "--rate 4000 --packets 1000 --flows 200");
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        let out = [0, 1].map(|i| number(row(&said, &format!("tx o{i}")), "out"));
        assert_eq!(out[0] + out[1], packets + 1_000, "{said}");
        assert!(out[0] > 200, "{said}");
    });
}

/// A frame between host 10.0.0.`host` and 10.1.0.1: UDP, with its number in the payload.
/// `fragment` is the field of flags and offset; the second half of a datagram has no ports.
fn datagram(host: u8, number: u8, fragment: u16) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 0xb, 0x02, 0, 0, 0, 0, 0xa, 8, 0];
    let [flags, offset] = fragment.to_be_bytes();
    frame.extend([0x45, 0, 0, 60, host, 7, flags, offset, 64, 17, 0, 0, 10, 0, 0, host]);
    frame.extend([10, 1, 0, 1]);
    if fragment & 0x1fff == 0 {
        frame.extend([3, 232, 7, 208, 0, 64, 0, 0]);
    }
    frame.resize(74, number);
    frame
}

/// What user space has to look at first comes by way of it, with the whole flow behind it.
#[test]
fn flows_of_both_ways_stay_whole_and_in_order() {
    const HOSTS: u8 = 60;
    const MORE: u16 = 0x2000;
    in_namespace(|| {
        let network = Network::new(2);
        let config = network.configure("", "", &network.each());
        let text = std::fs::read_to_string(&config).unwrap();
        let text = text.replace("[broker]", "[broker]\nworkers = 2");
        // However slow this machine is, no flow pauses for that long.
        std::fs::write(&config, text.replace("\"1s\"", "\"60s\"")).unwrap();
        let broker = network.broker(&config);
        let open = |device: String| PacketRx::open(&device, &RxOptions::default()).unwrap();
        let mut sensors = [0, 1].map(|i| open(format!("x{i}")));
        let mut tx = PacketTx::open("g0", &TxOptions::default()).unwrap();
        let kinds = [0, 0, 0, MORE, 5, 0, 0, MORE, 5, 0];
        for (number, fragment) in (0..).zip(kinds) {
            for host in 1..=HOSTS {
                send(&mut tx, &datagram(host, number, fragment));
            }
        }
        // For each host the sensor, and the frames that it has had.
        let mut seen = vec![(None, 0); usize::from(HOSTS) + 1];
        let all = kinds.len() * usize::from(HOSTS);
        let mut came = 0;
        wait_for("all frames", || {
            for (sensor, rx) in sensors.iter_mut().enumerate() {
                while let Received::Batch(batch) = rx.receive().unwrap() {
                    for i in 0..batch.len() {
                        let (host, number) = (batch.packet(i)[29], batch.packet(i)[73]);
                        let (known, next) = &mut seen[usize::from(host)];
                        assert_eq!(*known.get_or_insert(sensor), sensor, "host {host}");
                        assert_eq!((*next, batch.packet(i).len()), (number, 74), "host {host}");
                        *next += 1;
                        came += 1;
                    }
                }
            }
            came == all
        });
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        // All that came after the first fragment, of every host.
        assert_eq!(number(row(&said, "user_space"), "out"), u64::from(HOSTS) * 7, "{said}");
        assert_eq!(number(row(&said, "group ids"), "out"), u64::from(HOSTS) * 3, "{said}");
        let both = [0, 1].map(|sensor| seen.iter().filter(|host| host.0 == Some(sensor)).count());
        assert!(both.iter().all(|&hosts| hosts > 10), "{both:?}");
    });
}

fn send(tx: &mut PacketTx, frame: &[u8]) {
    let mut region = Region::new(frame.len()).unwrap();
    region.bytes_mut()[..frame.len()].copy_from_slice(frame);
    let interfaces = Arc::new(vec![Interface::default()]);
    let mut batch = Batch::with_capacity(Arc::new(region), interfaces, 1);
    let len = frame.len() as u32;
    let meta = PacketMeta { offset: 0, cap_len: len, wire_len: len, ticks: 0, interface: 0 };
    batch.push(meta).unwrap();
    tx.send(&batch, &batch.live(), &Rewrites::NONE).unwrap();
    tx.flush().unwrap();
}

#[test]
fn sensors_behind_one_output_are_told_apart_by_address_and_tag() {
    in_namespace(|| {
        let network = Network::new(1);
        let sensors =
            ["mac = \"02:00:00:00:01:00\"", "vlan = 103", "mac = \"02:00:00:00:01:02\", vlan = 7"];
        let config = network.configure("", "key = \"src\"", &sensors.map(String::from));
        let broker = network.broker(&config);
        let mut rx = PacketRx::open("x0", &RxOptions::default()).unwrap();
        let mut tx = PacketTx::open("g1", &TxOptions::default()).unwrap();
        (1..=90).for_each(|host| send(&mut tx, &datagram(host, 0, 0)));
        let mut seen = [0; 3];
        wait_for("all frames", || {
            while let Received::Batch(batch) = rx.receive().unwrap() {
                for i in 0..batch.len() {
                    let frame = batch.packet(i);
                    let tag = (frame[12..14] == [0x81, 0]).then(|| frame[15]);
                    let sensor = match (&frame[..6], tag) {
                        ([2, 0, 0, 0, 1, 0], None) => 0,
                        ([2, 0, 0, 0, 0, 0xb], Some(103)) => 1,
                        ([2, 0, 0, 0, 1, 2], Some(7)) => 2,
                        other => panic!("{other:02x?}"),
                    };
                    seen[sensor] += 1;
                }
            }
            seen.iter().sum::<u32>() == 90
        });
        assert!(seen.iter().all(|&frames| frames > 10), "{seen:?}");
        broker.signal(libc::SIGTERM);
        assert_eq!(broker.ended()["closes"], true);
    });
}

/// An ordinary user with three capabilities puts new filters in place.
#[test]
fn settings_change_in_the_kernel_after_privileges_are_given_up() {
    in_namespace(|| {
        let network = Network::new(1);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(network.folder.path(), open).unwrap();
        let user = |filter: &str| {
            let config = network.configure(filter, "", &network.each());
            let text = std::fs::read_to_string(&config).unwrap();
            std::fs::write(&config, text.replace("[broker]", "[broker]\nuser = \"nobody\""))
                .unwrap();
            config
        };
        let broker = network.broker(&user(""));
        let id = broker.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = |name| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        // CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF.
        let kept = (1_u64 << 12) | (1 << 38) | (1 << 39);
        assert!(line("CapPrm:").ends_with(&format!("{kept:016x}")), "{status}");
        assert!(!line("Uid:").contains("\t0"), "{status}");
        for filter in ["filter = \"udp port 1\"", "filter = \"not port 2000\""] {
            user(filter);
            assert!(network.ask(&["reload"]).is_some(), "{filter}");
            let mut tx = PacketTx::open("g0", &TxOptions::default()).unwrap();
            (1..=50).for_each(|host| send(&mut tx, &datagram(host, 0, 0)));
        }
        wait_for("the drops", || {
            let said = network.ask(&["ledger"]).unwrap();
            number(&row(&said, "filter")["drops"], "no_match") == 100
        });
        broker.signal(libc::SIGTERM);
        assert_eq!(broker.ended()["closes"], true);
    });
}
