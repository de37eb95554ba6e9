//! Sensors of a live broker: their hellos through a switch, their links, their deaths and
//! returns.

use std::time::{Duration, Instant};

use crate::support::broker::{number, row};
use crate::support::namespace::{in_namespace, ip, wait_for};
use crate::support::switched::{Switch, Switched, address, received, tell};
use serde_json::Value;

const HELLO: fn(usize) -> String = |_| "hello = true".to_owned();

/// Nothing was lost, doubled or late on its way to sensors.
fn none_lost(sent: &Value, heard: &Value, said: &Value) {
    assert_eq!(number(heard, "received"), number(sent, "packets"), "{heard}\n{said}");
    for wrong in ["lost", "duplicates", "reordered", "lost_here"] {
        assert_eq!(number(heard, wrong), 0, "{wrong}: {heard}\n{said}");
    }
    assert_eq!(said["closes"], true, "{said}");
}

#[test]
fn a_sensor_killed_behind_the_switch_gives_its_load_to_others_and_returns() {
    in_namespace(|| {
        let network = Switched::new(3, Switch::Static);
        let top = "[flow]\nidle_timeout = \"1s\"\n[health]\nhello_timeout = \"10s\"";
        let broker = network.broker(&network.configure(top, HELLO));
        // Those of the others may come late by seconds.
        let interval = |i: usize| if i == 1 { "200ms" } else { "1s" };
        let mut hellos: Vec<_> = (0..3).map(|i| network.hello(i, interval(i))).collect();
        let stands = |i: usize, standing: &str| network.sensor(i)["standing"] == standing;
        wait_for("hellos", || (0..3).all(|i| network.sensor(i)["received"].is_u64()));
        wait_for("all up", || (0..3).all(|i| stands(i, "up")));
        let sink = network.sink("1s");
        let sent = std::thread::scope(|scope| {
            let load =
                scope.spawn(|| network.generate("--rate 3000 --duration 15s --flows 300 --even"));
            wait_for("load", || received("x1") > 1_000);
            // The port stays up: only the hellos end.
            let killed = Instant::now();
            hellos[1].signal(libc::SIGKILL);
            wait_for("the death", || stands(1, "down"));
            let took = killed.elapsed();
            println!("a dead sensor's buckets went to others after {} ms", took.as_millis());
            assert!(took < Duration::from_secs(5), "{took:?}");
            // What was under way then has arrived.
            std::thread::sleep(Duration::from_millis(200));
            let (dead, others) = (received("x1"), received("x0") + received("x2"));
            wait_for("the others", || received("x0") + received("x2") > others + 2_000);
            assert_eq!(received("x1"), dead, "the dead sensor still gets packets");
            hellos[1] = network.hello(1, interval(1));
            wait_for("the return", || stands(1, "up") && received("x1") > dead);
            load.join().unwrap()
        });
        let heard = sink.ended();
        broker.signal(libc::SIGTERM);
        let (said, told) = broker.ended_with_notices();
        none_lost(&sent, &heard, &said);
        let broken =
            told.lines().find(|line| line.contains("sensor s1 gave ")).unwrap_or_else(|| {
                panic!("{told}");
            });
        assert!(!broken.contains(" 0 flows broken"), "{broken}");
        assert!(told.contains("sensor s1 is Down: no hello for "), "{told}");
        assert!(told.contains("sensor s1 is Up: its hellos are back"), "{told}");
    });
}

#[test]
fn sensors_silent_but_for_hellos_stay_known_to_a_switch_that_learns() {
    in_namespace(|| {
        let network = Switched::new(3, Switch::Learning);
        let _hellos: Vec<_> = (0..3).map(|i| network.hello(i, "300ms")).collect();
        let broker = network.broker(&network.configure("", HELLO));
        wait_for("hellos", || (0..3).all(|i| network.sensor(i)["hello_ms_ago"].is_u64()));
        wait_for("all heard", || (0..3).all(|i| network.sensor(i)["received"].is_u64()));
        let sink = network.sink("30s");
        // Twice as long as the switch remembers.
        let sent = network.generate("--rate 2000 --duration 4s --flows 300");
        none_lost(&sent, &sink.ended(), &serde_json::json!({ "closes": true }));
        for i in 0..3 {
            let sensor = network.sensor(i);
            assert_eq!(
                (number(&sensor, "frames_for_others"), &sensor["flooded"]),
                (0, &false.into())
            );
        }
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!(number(row(&said, "tx switch"), "out"), number(&sent, "packets"), "{said}");
    });
}

#[test]
fn hellos_are_heard_on_a_device_that_is_an_input_as_well() {
    in_namespace(|| {
        let network = Switched::new(2, Switch::Static);
        let config = network.configure("filter = \"not ether proto 0x88b5\"", HELLO);
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("interface = \"b\"", "interface = \"out\"")).unwrap();
        let broker = network.broker(&config);
        let _hellos: Vec<_> = (0..2).map(|i| network.hello(i, "100ms")).collect();
        wait_for("hellos", || (0..2).all(|i| network.sensor(i)["received"].is_u64()));
        broker.signal(libc::SIGTERM);
        assert_eq!(broker.ended()["closes"], true);
    });
}

#[test]
fn a_switch_that_floods_is_noticed() {
    in_namespace(|| {
        let network = Switched::new(3, Switch::Flooding);
        let _hellos: Vec<_> = (0..3).map(|i| network.hello(i, "50ms")).collect();
        let broker = network.broker(&network.configure("", HELLO));
        wait_for("all heard", || (0..3).all(|i| network.sensor(i)["received"].is_u64()));
        // A hello after which frames count has been heard.
        std::thread::sleep(Duration::from_millis(200));
        let sent = number(&network.generate("--rate 2000 --packets 1000 --flows 300"), "packets");
        let own = |i: usize| {
            let strays = number(&network.sensor(i), "frames_for_others");
            sent.checked_sub(strays)
        };
        // Each packet reached all three: each got what the others should have.
        wait_for("strays", || (0..3).filter_map(own).sum::<u64>() == sent);
        assert!((0..3).all(|i| network.sensor(i)["flooded"] == true));
        wait_for("that to be told", || broker.said().contains("sensor s2 gets frames for others"));
        (0..3).for_each(|i| tell(&format!("q{i}"), &address(i)));
        let before: Vec<u64> =
            (0..3).map(|i| number(&network.sensor(i), "frames_for_others")).collect();
        network.generate("--rate 2000 --packets 1000 --flows 300");
        std::thread::sleep(Duration::from_millis(300));
        for (i, before) in before.into_iter().enumerate() {
            assert_eq!(number(&network.sensor(i), "frames_for_others"), before);
        }
    });
}

#[test]
fn hellos_of_strangers_count_for_nobody() {
    in_namespace(|| {
        let network = Switched::new(2, Switch::Static);
        let only_first = |i: usize| format!("hello = {}", i == 0);
        let broker = network.broker(&network.configure("", only_first));
        let hellos = |key: &str| number(&network.ask(&["status"]).unwrap()["hellos"], key);
        let stranger = network.hello(1, "50ms");
        wait_for("strangers", || hellos("unknown") > 2);
        // Another name, and another group, from the right address.
        for (key, name) in [("--name", "s1"), ("--group", "zeek")] {
            let words = ["sensor-hello", "-i", "x0", "--interval", "50ms", key, name];
            let before = hellos("unknown");
            stranger.signal(libc::SIGSTOP);
            let _liar =
                crate::support::broker::Started::start(crate::support::command::command(words));
            wait_for("a liar", || hellos("unknown") > before + 2);
            stranger.signal(libc::SIGCONT);
        }
        assert_eq!((hellos("heard"), hellos("malformed")), (0, 0));
        wait_for("that to be told", || {
            broker.said().contains("02:00:00:00:01:01 (`s1`) says hello")
        });
        let nameless = ["sensor-hello", "-i", "x0", "--interval", "50ms"];
        let _first =
            crate::support::broker::Started::start(crate::support::command::command(nameless));
        wait_for("the sensor", || hellos("heard") > 2);
    });
}

#[test]
fn a_hello_ends_with_the_sensors_program() {
    in_namespace(|| {
        let network = Switched::new(1, Switch::Static);
        let broker = network.broker(&network.configure("", HELLO));
        let drops = network.path("drops");
        std::fs::write(&drops, "kernel_drops 41\nkernel_drops 42\nother 7\n").unwrap();
        let mut words = vec!["sensor-hello", "--json", "-i", "x0", "--interval", "50ms"];
        words.extend(["--drops", drops.to_str().unwrap(), "--drops-key", "kernel_drops"]);
        words.extend(["--", "sleep", "1000"]);
        let hello = crate::support::broker::Started::start(crate::support::command::command(words));
        wait_for("a hello with drops", || network.sensor(0)["dropped"] == 42);
        wait_for("it to be up", || network.sensor(0)["standing"] == "up");
        hello.signal(libc::SIGTERM);
        let said = hello.ended();
        assert!(number(&said, "hellos") > 0 && said["dropped"] == 42, "{said}");
        wait_for("its death", || network.sensor(0)["standing"] == "down");
        let mut short = crate::support::broker::Started::start(crate::support::command::command([
            "sensor-hello",
            "-i",
            "x0",
            "--",
            "sh",
            "-c",
            "exit 3",
        ]));
        assert_eq!(short.output().0, Some(1));
        assert!(short.said().contains("sh has ended: exit status: 3"), "{}", short.said());
        drop(broker);
    });
}

#[test]
fn a_sensor_with_a_link_to_itself_is_down_while_the_link_is() {
    in_namespace(|| {
        let network = Switched::new(0, Switch::Static);
        let mut text = format!(
            "[broker]\ncontrol = \"{}\"\n[[input]]\nname = \"tap\"\ntype = \"af_packet\"\n\
             interface = \"b\"\n",
            network.path("control").display()
        );
        for i in 0..2 {
            crate::support::namespace::veth(&format!("x{i}"), &format!("y{i}"));
            text += &format!(
                "[[output]]\nname = \"o{i}\"\ntype = \"af_packet\"\ninterface = \"y{i}\"\n"
            );
        }
        text += "[[group]]\nname = \"ids\"\n";
        for i in 0..2 {
            text += &format!("[[group.sensor]]\nname = \"s{i}\"\noutput = \"o{i}\"\n");
        }
        let config = network.path("run.toml");
        std::fs::write(&config, text).unwrap();
        let broker = network.broker(&config);
        let stands = |standing: &str| network.sensor(0)["standing"] == standing;
        assert!(stands("up"));
        ip("link set dev x0 down");
        wait_for("its death", || stands("down"));
        let sent = number(&network.generate("--rate 2000 --packets 500 --flows 100"), "packets");
        wait_for("the other", || received("x1") >= sent);
        ip("link set dev x0 up");
        wait_for("its return", || stands("up"));
        broker.signal(libc::SIGTERM);
        let (said, told) = broker.ended_with_notices();
        assert_eq!(number(row(&said, "tx o0"), "in"), 0, "{said}");
        assert!(told.contains("sensor s0 is Down: its link is down"), "{told}");
    });
}
