//! What a running broker reads, and what it builds, has limits: whatever it is given, it goes on
//! as it was and says why.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::support::broker::{Started, ask, broker_by, number, row};
use crate::support::command::{command, run};
use crate::support::namespace::{in_namespace, veth, wait_for};
use tempfile::TempDir;

/// A generator's device `g`, the broker's `b` and `y`, a sensor's `x`.
struct Network {
    folder: TempDir,
}

impl Network {
    fn new() -> Self {
        veth("g", "b");
        veth("x", "y");
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a configuration with that in front, and that in the broker's section.
    fn configure(&self, first: &str, broker: &str) {
        let control = self.path("control");
        let text = format!(
            "{first}\n[broker]\ncontrol = \"{}\"\n{broker}\n\
             [[input]]\nname = \"tap\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
             [[output]]\nname = \"ids\"\ntype = \"af_packet\"\ninterface = \"y\"\n\
             [[group]]\nname = \"ids\"\n[[group.sensor]]\nname = \"ids\"\n",
            control.display()
        );
        std::fs::write(self.path("run.toml"), text).unwrap();
    }

    fn run(&self) -> Command {
        command(["run", "--json", "-c", self.path("run.toml").to_str().unwrap()])
    }

    fn broker(&self, command: Command) -> Started {
        broker_by(command, &self.path("control"))
    }

    /// Asks for a reload, which must be refused for a reason with those words in it.
    #[track_caller]
    fn refuses(&self, reasons: &[&str]) {
        let socket = self.path("control");
        let ran = run(["ctl", "-s", socket.to_str().unwrap(), "reload"]);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        for reason in reasons {
            assert!(ran.stderr.contains(reason), "no {reason:?} in {}", ran.stderr);
        }
    }

    /// Packets pass as before, and the broker ends well.
    #[track_caller]
    fn goes_on(&self, broker: Started) {
        let ran = run(["gen", "-i", "g", "--rate", "4000", "--packets", "400", "--flows", "20"]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let passed =
            || number(row(&ask(&self.path("control"), &["ledger"]).unwrap(), "tx ids"), "out");
        wait_for("the packets", || passed() == 400);
        broker.signal(libc::SIGTERM);
        let said = broker.ended();
        assert_eq!((&said["closes"], &said["errors"]), (&true.into(), &serde_json::json!([])));
    }

    /// A file of that many rules, each of two networks and a range of ports, that reject.
    fn rules(&self, rules: u64) -> String {
        let mut state = 1_u64;
        let mut next = |most: u64| {
            // A linear congruential generator: any numbers will do.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        let mut text = String::new();
        for number in 1..=rules {
            let [a, b, c, d] = [256, 256, 256, 256].map(&mut next);
            let (low, high) = (next(30_000), 30_000 + next(30_000));
            let (from, to) = (format!("10.{a}.{b}.0/24"), format!("10.{c}.{d}.7/32"));
            let _ = writeln!(text, "ip filter {number} reject {from} {to} udp {low}-{high} *");
        }
        let path = self.path("rules");
        std::fs::write(&path, text).unwrap();
        format!("rules = \"{}\"", path.display())
    }
}

/// A field of a process's status, in KiB.
fn kib(process: i32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_reload_reads_regular_files_of_a_size_and_waits_for_none() {
    in_namespace(|| {
        let network = Network::new();
        network.configure("", "");
        let broker = network.broker(network.run());
        let fifo = network.path("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        network.configure("rules = \"/dev/zero\"", "");
        network.refuses(&["/dev/zero", "a character device, expected a regular file"]);
        network.configure(&format!("rules = \"{}\"", fifo.display()), "");
        network.refuses(&["fifo", "a FIFO, expected a regular file"]);
        // Sparse, so that it takes no room on the disk.
        let long = std::fs::File::create(network.path("long")).unwrap();
        long.set_len(1 << 40).unwrap();
        network.configure(&format!("rules = \"{}\"", network.path("long").display()), "");
        network.refuses(&["long", "the most that a file of rules may have"]);
        // The configuration itself.
        let config = network.path("run.toml");
        std::fs::rename(network.path("long"), &config).unwrap();
        network.refuses(&["run.toml", "the most that a configuration may have"]);
        for (target, found) in
            [("/dev/zero", "a character device"), (fifo.to_str().unwrap(), "a FIFO")]
        {
            std::fs::remove_file(&config).unwrap();
            std::os::unix::fs::symlink(target, &config).unwrap();
            network.refuses(&["run.toml", found]);
        }
        network.goes_on(broker);
    });
}

#[test]
fn a_reload_that_takes_too_much_memory_is_refused_and_gives_it_back() {
    in_namespace(|| {
        let network = Network::new();
        network.configure("", "reload_memory = \"48MiB\"");
        let broker = network.broker(network.run());
        let before = kib(broker.id(), "VmRSS");
        let rules = network.rules(100_000);
        network.configure(&rules, "reload_memory = \"48MiB\"");
        for _ in 0..3 {
            network.refuses(&["it takes more than 48 MiB, what `reload_memory` allows"]);
        }
        let peak = kib(broker.id(), "VmHWM");
        assert!(peak < before + (80 << 10), "{before} {peak} KiB");
        wait_for("the memory", || kib(broker.id(), "VmRSS") < before + (12 << 10));
        // What is sure to be too much is not begun with.
        network.configure("", "reload_memory = \"16MiB\"");
        assert!(ask(&network.path("control"), &["reload"]).is_some());
        network.configure(&rules, "");
        network.refuses(&["rules: it takes at least ", "`reload_memory` allows, 16 MiB"]);
        network.goes_on(broker);
    });
}

#[test]
fn a_reload_ends_before_the_process_has_no_memory_left() {
    in_namespace(|| {
        let network = Network::new();
        network.configure("", "");
        let mut limited = Command::new("sh");
        let run = network.run();
        limited.args(["-c", "ulimit -d 220000; exec \"$0\" \"$@\""]).arg(run.get_program());
        limited.args(run.get_args());
        let broker = network.broker(limited);
        let rules = network.rules(100_000);
        network.configure(&rules, "");
        network.refuses(&["there is no memory for it", "left by RLIMIT_DATA"]);
        network.goes_on(broker);
    });
}

#[test]
fn a_reload_leaves_memory_to_the_other_processes_of_a_control_group() {
    in_namespace(|| {
        let name = format!("forebay-test-{}", std::process::id());
        let places =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        let Some((group, limit)) = places.into_iter().find_map(|(top, limit)| {
            let group = PathBuf::from(top).join(&name);
            std::fs::create_dir(&group).ok()?;
            let made = std::fs::write(group.join(limit), "128M").is_ok();
            if !made {
                let _ = std::fs::remove_dir(&group);
            }
            made.then_some((group, limit))
        }) else {
            eprintln!("skipped: no control group that limits memory can be made here");
            return;
        };
        let network = Network::new();
        network.configure("", "");
        let mut limited = Command::new("sh");
        let run = network.run();
        let enter = format!("echo $$ > {}/cgroup.procs; exec \"$0\" \"$@\"", group.display());
        limited.args(["-c", &enter]).arg(run.get_program()).args(run.get_args());
        let broker = network.broker(limited);
        let rules = network.rules(100_000);
        network.configure(&rules, "");
        network.refuses(&["there is no memory for it", name.as_str()]);
        network.goes_on(broker);
        wait_for("the end of its processes", || std::fs::remove_dir(&group).is_ok());
        assert!(!limit.is_empty());
    });
}
