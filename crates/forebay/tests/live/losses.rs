//! What goes wrong at devices while the broker runs: it is told, counted by name, and where
//! there is another way, packets take that.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::broker::{Started, ask, broker, number, row};
use crate::support::command::{command, run};
use crate::support::gro::switch_gro;
use crate::support::namespace::{in_namespace, ip, veth, wait_for};
use forebay_io::device::Link;
use serde_json::Value;
use tempfile::TempDir;

/// A link `g` of a tap and a link `x` to a sensor; the broker's ends are `b` and `y`.
struct Network(TempDir);

impl Network {
    fn new() -> Self {
        veth("g", "b");
        veth("x", "y");
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn broker(&self, input: &str, output: &str, more: &str) -> Started {
        let text = format!(
            "[broker]\ncontrol = \"{}\"\n{more}\n[flow]\nidle_timeout = \"500ms\"\n\
             [[input]]\nname = \"tap\"\ntype = \"{input}\"\ninterface = \"b\"\n\
             [[output]]\nname = \"o\"\ntype = \"{output}\"\ninterface = \"y\"\n\
             [[group]]\nname = \"ids\"\nsensor = [{{ name = \"s\", output = \"o\" }}]\n",
            self.path("control").display()
        );
        let config = self.path("run.toml");
        std::fs::write(&config, text).unwrap();
        broker(&config, &self.path("control"))
    }

    fn ask(&self, what: &str) -> Value {
        ask(&self.path("control"), &[what]).unwrap()
    }

    fn output(&self) -> Value {
        self.ask("status")["outputs"][0].clone()
    }

    fn refused(&self) -> u64 {
        number(&row(&self.ask("ledger"), "tx o")["drops"], "refused")
    }

    /// Waits until an event has all these parts, and gives its time by the broker's clock.
    fn event(&self, parts: &[&str]) -> f64 {
        let mut at = None;
        wait_for(&format!("an event with {parts:?}"), || {
            let events = self.ask("events");
            let said = |event: &&Value| {
                let what = event["what"].as_str().unwrap();
                parts.iter().all(|part| what.contains(part))
            };
            at = events.as_array().unwrap().iter().find(said).map(|event| event["at_s"].as_f64());
            at.is_some()
        });
        at.flatten().unwrap()
    }

    fn sink(&self) -> Started {
        let times = ["--quiet-after", "3s", "--duration", "120s", "--idle-timeout", "500ms"];
        Started::listening(command(["sink", "--json", "-i", "x"].into_iter().chain(times)))
    }
}

fn start_generator(words: &str) -> Started {
    Started::start(command(["gen", "--json", "-i", "g"].into_iter().chain(words.split(' '))))
}

#[test]
fn gro_that_is_switched_on_at_an_input_is_told_each_time_and_once() {
    in_namespace(|| {
        let network = Network::new();
        let broker = network.broker("af_packet", "af_packet", "");
        let told = || {
            let what = "input tap: b: rx-gro is on, which makes one packet of several: run \
                        `ethtool -K b rx-gro off`";
            broker.said().matches(what).count()
        };
        for round in 0..2 {
            assert_eq!(told(), round, "{}", broker.said());
            switch_gro("b", true);
            wait_for("the notice", || told() == round + 1);
            // Other changes of the device are none of its offloads.
            ip("link set dev b mtu 1400");
            ip("link set dev b mtu 1500");
            // Nobody receives from the output's device.
            switch_gro("y", round == 0);
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(told(), round + 1, "{}", broker.said());
            switch_gro("b", false);
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(ask(&network.path("control"), &["drain"]).is_some());
        let (said, notices) = broker.ended_with_notices();
        assert_eq!(said["closes"], true, "{said}");
        assert_eq!(notices.matches("rx-gro is on").count(), 2, "{notices}");
    });
}

const RATE: u64 = 4_000;

/// Places of the ring of a veth device (`VETH_RING_SIZE` of the kernel).
const VETH_RING: u64 = 256;

#[test]
fn an_output_that_refuses_redirected_frames_is_sent_to_by_workers_and_back() {
    in_namespace(|| {
        let network = Network::new();
        // Trials are made with what an ordinary user keeps.
        let open_to_all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(network.0.path(), open_to_all).unwrap();
        // The fewer frames are lost the better: any loss is to be told here.
        let more = "user = \"nobody\"\n[alarm]\nloss = \"0.001%\"";
        let broker = network.broker("xdp", "xdp", more);
        let sink = network.sink();
        let load =
            start_generator(&format!("--rate {RATE} --duration 20s --flows 200 --life 200ms"));
        let out = || number(&network.output(), "packets");
        wait_for("packets", || out() > 1_000);
        assert_eq!(network.output()["way"], "kernel");
        assert_eq!(network.ask("status")["alarms"], serde_json::json!([]));
        // As a sensor does at its start. Nothing is lost before.
        let before = network.ask("status")["uptime_s"].as_f64().unwrap();
        switch_gro("x", false);
        wait_for("the workers to send", || network.output()["way"] == "workers");
        let turned = network.event(&["output o: y refused", "(refused)", "`ethtool -K x gro on`"]);
        assert!(turned - before < 2.0, "{before}, {turned}");
        // From then on nothing is lost: less than what comes in two seconds was.
        let (lost, sent) = (network.refused(), out());
        println!("{lost} frames were refused before the workers sent");
        assert!((1..2 * RATE).contains(&lost), "{lost}");
        wait_for("packets by the workers", || out() > sent + 2_000);
        assert_eq!(network.refused(), lost);
        let told =
            network.event(&["alarm: tx o lost", "at y", "(refused)", "`ethtool -K x gro on`"]);
        assert!(told - before < 10.0, "{before}, {told}");
        let top = run(["top", "--once", "-s", network.path("control").to_str().unwrap()]);
        let shown = String::from_utf8_lossy(&top.stdout).into_owned();
        assert!(shown.contains("alarm: tx o loses") && shown.contains("(refused)"), "{shown}");
        // And back, for flows that begin.
        switch_gro("x", true);
        wait_for("the kernel to redirect", || network.output()["way"] == "kernel");
        network.event(&["output o: y takes redirected frames again"]);
        let redirected = || number(row(&network.ask("ledger"), "group ids"), "out");
        let before = redirected();
        wait_for("redirected packets", || redirected() > before + 1_000);
        network.event(&["alarm over: tx o"]);
        let sent = number(&load.ended(), "packets");
        let heard = sink.ended();
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!(said["closes"], true, "{said}");
        let tx = row(&said, "tx o");
        let lost = number(&tx["drops"], "refused");
        assert_eq!((number(tx, "in"), number(tx, "out")), (sent, sent - lost), "{said}");
        // What lies in the ring of a device whose NAPI goes the kernel frees, and counts nowhere.
        let freed = sent - lost - number(&heard, "received");
        assert!(freed <= VETH_RING, "{freed}: {heard}\n{said}");
        for wrong in ["duplicates", "reordered", "torn_flows", "lost_here"] {
            assert_eq!(number(&heard, wrong), 0, "{wrong}: {heard}\n{said}");
        }
    });
}

#[test]
fn frames_that_a_device_refuses_are_in_no_output_s_bytes() {
    in_namespace(|| {
        let network = Network::new();
        switch_gro("x", true);
        let broker = network.broker("xdp", "xdp", "");
        let frames = || number(row(&network.ask("ledger"), "tx o"), "in");
        for (gro, size, goal) in [(true, 60, 100), (false, 1_400, 300), (true, 100, 400)] {
            switch_gro("x", gro);
            let packets = goal - frames();
            let words = format!("--rate 2000 --packets {packets} --flows 5 --size {size}");
            assert_eq!(start_generator(&words).ended()["packets"], packets);
            wait_for("the packets", || frames() == goal);
            if gro {
                continue;
            }
            // What was refused before the workers took over was long.
            let output = network.output();
            let sent = number(&output, "packets") - 100;
            assert!(sent < 200, "none was refused: {output}");
            assert_eq!(number(&output, "bytes"), 100 * 60 + sent * 1_400, "{output}");
        }
        broker.signal(libc::SIGTERM);
        assert_eq!(broker.ended()["closes"], true);
    });
}

#[test]
fn an_output_whose_device_is_deleted_is_an_error_with_every_type_of_port() {
    in_namespace(|| {
        let network = Network::new();
        for (input, output) in [("xdp", "xdp"), ("af_packet", "af_packet"), ("af_packet", "af_xdp")]
        {
            let mut broker = network.broker(input, output, "");
            ip("link delete dev y");
            network.event(&["output o: y was deleted"]);
            broker.signal(libc::SIGTERM);
            let (status, stdout) = broker.output();
            let said: Value = serde_json::from_slice(&stdout).unwrap();
            assert_eq!((status, &said["closes"]), (Some(1), &true.into()), "{output}: {said}");
            let errors = said["errors"].to_string();
            assert!(errors.contains("output o: the network device y was deleted"), "{errors}");
            veth("x", "y");
        }
    });
}

#[test]
fn a_link_that_goes_down_and_comes_back_is_told() {
    in_namespace(|| {
        let network = Network::new();
        let broker = network.broker("af_packet", "af_packet", "metrics = \"127.0.0.1:0\"");
        let is_up = |side: &str| network.ask("status")[side][0]["up"].clone();
        assert_eq!((is_up("inputs"), is_up("outputs")), (true.into(), true.into()));
        // Its carrier is lost with the other end.
        ip("link set dev g down");
        network.event(&["input tap: b has no carrier"]);
        assert_eq!((is_up("inputs"), is_up("outputs")), (false.into(), true.into()));
        ip("link set dev g up");
        network.event(&["input tap: b is up again"]);
        ip("link set dev b down");
        network.event(&["input tap: b is down: run `ip link set dev b up`"]);
        ip("link set dev b up");
        wait_for("the link", || is_up("inputs") == true);
        ip("link set dev x down");
        network.event(&["output o: y has no carrier"]);
        ip("link set dev x up");
        wait_for("the link", || is_up("outputs") == true);
        broker.signal(libc::SIGTERM);
        assert_eq!(broker.ended()["errors"], serde_json::json!([]));
    });
}

#[test]
fn the_host_says_nothing_of_its_own_on_an_output() {
    in_namespace(|| {
        let network = Network::new();
        ip("link set dev y arp on multicast on");
        let on_the_wire = || Link::named("y").unwrap().stats.tx_packets;
        for (input, output) in [("af_packet", "af_packet"), ("af_packet", "af_xdp"), ("xdp", "xdp")]
        {
            let setting = "/proc/sys/net/ipv6/conf/y/disable_ipv6";
            let before = on_the_wire();
            std::fs::write(setting, "0").unwrap();
            wait_for("the host's IPv6", || on_the_wire() > before);
            let broker = network.broker(input, output, "");
            assert_eq!(std::fs::read_to_string(setting).unwrap().trim(), "1", "{output}");
            // For longer than the host's IPv6 pauses (RFC 4861 section 6.3.7), where it speaks.
            let before = on_the_wire();
            let sent = start_generator("--rate 300 --duration 5s --flows 20").ended();
            broker.signal(libc::SIGTERM);
            let said = broker.ended();
            let out = number(row(&said, "tx o"), "out");
            assert_eq!((out, said["closes"].as_bool()), (number(&sent, "packets"), Some(true)));
            assert_eq!(on_the_wire() - before, out, "{output}: {said}");
        }
    });
}
