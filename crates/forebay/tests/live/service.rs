//! The broker as a service: who it is when it runs, what it tells the service manager, and
//! what is left of it when it is killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::broker::{Started, broker_by, number, row};
use crate::support::command::{command, run};
use crate::support::namespace::{in_namespace, veth, wait_for};
use crate::support::switched::{Switch, Switched, device};

/// The values that the threads of a process have of a field of their status.
fn of_all_threads(process: i32, field: &str) -> BTreeSet<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads
        .filter_map(|thread| {
            // One that ends meanwhile can do nothing any more.
            let status = fs::read_to_string(thread.unwrap().path().join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
        })
        .collect()
}

fn only(value: &str) -> BTreeSet<String> {
    BTreeSet::from([value.to_owned()])
}

/// Whether a broker does what it is there for, and no thread of it can do more.
fn works_without_privileges(network: &Switched, broker: Started) {
    let process = broker.id();
    assert_eq!(of_all_threads(process, "Uid:"), only("65534 65534 65534 65534"));
    for capabilities in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(of_all_threads(process, capabilities), only("0000000000000000"));
    }
    assert_eq!(of_all_threads(process, "NoNewPrivs:"), only("1"));
    // A filter of system calls is in force (proc_pid_status(5)).
    assert_eq!(of_all_threads(process, "Seccomp:"), only("2"));
    let sent = number(&network.generate("--rate 2000 --packets 500 --flows 50"), "packets");
    assert!(network.ask(&["reload"]).is_some(), "{}", broker.said());
    let sent = sent + number(&network.generate("--rate 2000 --packets 500 --flows 50"), "packets");
    broker.signal(libc::SIGTERM);
    let said = broker.ended();
    assert_eq!(number(row(&said, "tx switch"), "out"), sent, "{said}");
}

/// A folder that the user nobody may write to, as it has to for its control socket.
fn open_to_all(network: &Switched) {
    fs::set_permissions(network.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn root_becomes_the_user_named_and_can_do_no_more_than_that() {
    in_namespace(|| {
        let network = Switched::new(2, Switch::Static);
        open_to_all(&network);
        let config = network.configure("", |_| "hello = false".to_owned());
        let text = fs::read_to_string(&config).unwrap();
        let named = "[broker]\nuser = \"nobody\"\nmetrics = \"127.0.0.1:0\"";
        fs::write(&config, text.replace("[broker]", named)).unwrap();
        let broker = network.broker(&config);
        works_without_privileges(&network, broker);
    });
}

#[test]
fn an_ordinary_user_starts_with_capabilities_and_gives_them_up() {
    in_namespace(|| {
        let network = Switched::new(2, Switch::Static);
        open_to_all(&network);
        let config = network.configure("", |_| String::new());
        // The command may lie where nobody may go.
        let program = network.path("forebay");
        fs::copy(env!("CARGO_BIN_EXE_forebay"), &program).unwrap();
        let mut start = Command::new("setpriv");
        start.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        let capabilities = "+net_raw,+net_admin";
        start.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]);
        start.arg(&program).args(["run", "--json", "-c"]).arg(&config);
        let broker = broker_by(start, &network.path("control"));
        works_without_privileges(&network, broker);
    });
}

#[test]
fn a_standard_error_that_takes_nothing_holds_up_no_end() {
    in_namespace(|| {
        let network = Switched::new(2, Switch::Static);
        let config = network.configure("", |_| "hello = false".to_owned());
        let (reader, writer) = std::io::pipe().unwrap();
        let mut start = command(["run", "-c", config.to_str().unwrap()]);
        start.stdout(Stdio::null()).stderr(writer.try_clone().unwrap());
        let mut broker = start.spawn().unwrap();
        wait_for("the broker", || network.ask(&["status"]).is_some());
        // Opened anew, so that only this end does not wait.
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        let mut options = fs::OpenOptions::new();
        let mut end = options.write(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap();
        for len in [4096, 1] {
            while end.write(&[b'.'; 4096][..len]).is_ok() {}
        }
        assert!(network.ask(&["reload"]).is_some(), "and tells that, as far as it can");
        // SAFETY: a signal to a child that was not waited for yet.
        assert_eq!(unsafe { libc::kill(broker.id().cast_signed(), libc::SIGTERM) }, 0);
        let mut status = None;
        wait_for("its end", || {
            status = broker.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.unwrap().success(), "{status:?}");
        drop(reader);
    });
}

#[test]
fn sigkill_leaves_nothing_behind() {
    in_namespace(|| {
        veth("g", "b");
        veth("g2", "b2");
        veth("x0", "y0");
        let folder = tempfile::tempdir().unwrap();
        let (config, socket) = (folder.path().join("run.toml"), folder.path().join("control"));
        let text = format!(
            "[broker]\ncontrol = \"{}\"\n\
             [[input]]\nname = \"one\"\ntype = \"af_packet\"\ninterface = \"b\"\n\
             [[input]]\nname = \"two\"\ntype = \"af_xdp\"\ninterface = \"b2\"\n\
             [[output]]\nname = \"out\"\ntype = \"af_packet\"\ninterface = \"y0\"\n\
             [[group]]\nname = \"ids\"\n[[group.sensor]]\nname = \"s0\"\n",
            socket.display()
        );
        fs::write(&config, text).unwrap();
        let promiscuous = |name: &str| device(name)["promiscuity"].as_u64().unwrap() > 0;
        let has_program = |name: &str| !device(name)["xdp"].is_null();
        for _ in 0..2 {
            let mut broker = crate::support::broker::broker(&config, &socket);
            assert!(promiscuous("b") && promiscuous("b2") && has_program("b2"));
            broker.signal(libc::SIGKILL);
            assert_eq!(broker.output().0, None);
            assert!(socket.exists(), "nobody was there to remove it");
            // The kernel takes links down after the process is gone.
            wait_for("the devices", || {
                !promiscuous("b") && !promiscuous("b2") && !has_program("b2")
            });
        }
        // With nobody to clean up in between, the next one takes the socket over.
        let broker = crate::support::broker::broker(&config, &socket);
        broker.signal(libc::SIGTERM);
        broker.ended();
        assert!(!socket.exists());
    });
}

#[test]
fn top_gives_the_terminal_back_however_it_ends() {
    in_namespace(|| {
        let network = Switched::new(1, Switch::Static);
        let mut broker = network.broker(&network.configure("", |_| String::new()));
        let program = env!("CARGO_BIN_EXE_forebay");
        let top = format!("{program} top -s {}", network.path("control").display());
        // script(1) has a terminal for it; stty(1) says how that is afterwards.
        let at_a_terminal = |command: &str| {
            let line = format!("stty rows 24 cols 80; {command}; echo ended $?; stty -a");
            let mut script = Command::new("script");
            script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::piped());
            let mut child = script.stdout(Stdio::piped()).spawn().unwrap();
            let mut keys = child.stdin.take().unwrap();
            std::thread::sleep(Duration::from_secs(4));
            // Nobody reads it where a signal came before.
            let _ = keys.write_all(b"q");
            let output = child.wait_with_output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        for (command, status) in [
            (top.clone(), 0),
            (format!("timeout --foreground -s INT 3 {top}"), 124),
            (format!("timeout --foreground -s TERM 3 {top}"), 124),
            (format!("timeout --foreground -s HUP 3 {top}"), 124),
        ] {
            let shown = at_a_terminal(&command);
            assert!(shown.contains("group ids") && shown.contains("s0"), "{shown}");
            let (_, after) = shown.rsplit_once("\u{1b}[?25h\u{1b}[?1049l").unwrap();
            assert!(after.starts_with(&format!("ended {status}")), "{after}");
            let modes: Vec<&str> = after.split_whitespace().collect();
            assert!(["isig", "icanon", "echo"].iter().all(|mode| modes.contains(mode)), "{after}");
        }
        broker.signal(libc::SIGKILL);
        broker.output();
        let socket = network.path("control");
        let once = run(["top", "--once", "-s", socket.to_str().unwrap()]);
        once.exits(1).says(&["no broker answers at"]);
    });
}

/// A service manager's socket, and what came to it.
struct Manager(UnixDatagram);

impl Manager {
    fn new(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(socket)
    }

    fn hears(&self) -> String {
        let mut message = [0; 256];
        let len = self.0.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..len]).into_owned()
    }

    /// The next message that does not feed the watchdog.
    fn hears_news(&self) -> String {
        loop {
            let message = self.hears();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }
}

#[test]
fn the_service_manager_is_told_and_its_watchdog_fed() {
    in_namespace(|| {
        let network = Switched::new(1, Switch::Static);
        let config = network.configure("", |_| String::new());
        let manager = Manager::new(&network.path("notify"));
        let mut start = command(["run", "--json", "-c", config.to_str().unwrap()]);
        start.env("NOTIFY_SOCKET", network.path("notify")).env("WATCHDOG_USEC", "300000");
        let broker = broker_by(start, &network.path("control"));
        assert_eq!(manager.hears(), "READY=1\nSTATUS=running");
        (0..3).for_each(|_| assert_eq!(manager.hears(), "WATCHDOG=1"));
        for by_signal in [true, false] {
            if by_signal {
                broker.signal(libc::SIGHUP);
            } else {
                assert!(network.ask(&["reload"]).is_some());
            }
            let reloading = manager.hears_news();
            assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
            assert_eq!(manager.hears_news(), "READY=1\nSTATUS=running");
        }
        broker.signal(libc::SIGTERM);
        assert_eq!(manager.hears_news(), "STOPPING=1");
        broker.ended();
    });
}

#[test]
fn the_watchdog_starves_when_a_worker_hangs() {
    in_namespace(|| {
        veth("x0", "y0");
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // A worker that reads from a pipe into which nobody writes is stuck there.
        let pipe = at("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let text = format!(
            "[[input]]\nname = \"played\"\ntype = \"pcap\"\nfile = \"{}\"\n\
             [[output]]\nname = \"out\"\ntype = \"af_packet\"\ninterface = \"y0\"\n\
             [[group]]\nname = \"ids\"\n[[group.sensor]]\nname = \"s0\"\n",
            pipe.display()
        );
        fs::write(at("run.toml"), text).unwrap();
        let manager = Manager::new(&at("notify"));
        let mut start = command(["run", "--json", "-c", at("run.toml").to_str().unwrap()]);
        start.env("NOTIFY_SOCKET", at("notify")).env("WATCHDOG_USEC", "300000");
        let broker = Started::start(start);
        let mut writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        // The header of a capture (draft-ietf-opsawg-pcap): magic, version 2.4, snap length,
        // link type 1.
        let words = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1];
        writer.write_all(&words.map(u32::to_le_bytes).concat()).unwrap();
        assert_eq!(manager.hears(), "READY=1\nSTATUS=running");
        manager.0.set_read_timeout(Some(Duration::from_millis(1_500))).unwrap();
        let (started, mut fed) = (Instant::now(), 0);
        while manager.0.recv(&mut [0; 64]).is_ok() {
            fed += 1;
            assert!(started.elapsed() < Duration::from_secs(20), "fed {fed} times");
        }
        // Once at the most: the worker did move until it began to read.
        assert!(fed <= 1, "fed {fed} times");
        drop(writer);
        broker.ended();
        manager.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        assert_eq!(manager.hears_news(), "STOPPING=1");
    });
}
