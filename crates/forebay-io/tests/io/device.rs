//! Devices: looked at, mended, watched.

use crate::live::{in_namespace, ip, wait_for};
use forebay_io::device::{
    Change, DeviceError, Finding, Link, Need, Remedy, Watch, at_other_end, check, driver,
    receive_queues,
};
use forebay_packet::MacAddress;

const RECEIVE: Need = Need { receive: true, send: false, xdp: false, mtu: 0 };

/// Findings of one check, of one device.
fn of<'a>(findings: &'a [Finding], device: &str, check: &str) -> Vec<&'a Finding> {
    findings.iter().filter(|found| found.device == device && found.check == check).collect()
}

#[test]
fn a_device_is_described() {
    in_namespace(|| {
        ip(
            "link add va address 02:00:00:00:00:0a mtu 1400 numrxqueues 2 numtxqueues 3 type veth peer name vb",
        );
        let link = Link::named("va").unwrap();
        assert_eq!(link.name, "va");
        assert_eq!(link.address, Some(MacAddress([2, 0, 0, 0, 0, 10])));
        assert_eq!((link.mtu, link.rx_queues, link.tx_queues), (1400, 2, 3));
        assert_eq!(link.kind.as_deref(), Some("veth"));
        assert_eq!(link.peer, Some(Link::named("vb").unwrap().index));
        assert!(link.is_ethernet() && !link.up && !link.works());
        assert_eq!(driver("va").unwrap(), "veth");
        assert_eq!(receive_queues("va").unwrap(), 2);
        ip("link add bridge0 type bridge");
        ip("link set va master bridge0");
        assert_eq!(Link::named("va").unwrap().master, Some(Link::named("bridge0").unwrap().index));
    });
}

#[test]
fn what_harms_packets_is_found_told_and_mended() {
    in_namespace(|| {
        ip("link add va type veth peer name vb");
        ip("link set vb up");
        std::fs::write("/proc/sys/net/ipv6/conf/va/disable_ipv6", "0").unwrap();
        let need = Need { receive: true, send: true, xdp: true, mtu: 2000 };
        let (link, told) = check("va", need, false).unwrap();
        assert!(!link.up && link.mtu == 1500);
        let command = |check: &str| match of(&told, "va", check)[..] {
            [Finding { remedy: Remedy::Command(command), .. }] => command.clone(),
            ref other => panic!("{check}: {other:?}"),
        };
        assert_eq!(command("down"), "ip link set dev va up");
        assert_eq!(command("mtu"), "ip link set dev va mtu 2000");
        assert_eq!(command("ipv6"), "sysctl -w net.ipv6.conf.va.disable_ipv6=1");
        assert!(!of(&told, "vb", "uncut").is_empty(), "{told:?}");
        assert!(!of(&told, "vb", "checksums").is_empty());
        assert_eq!(
            of(&told, "vb", "tags")[0].remedy,
            Remedy::Command(
                "ethtool -K vb tx-vlan-hw-insert off tx-vlan-stag-hw-insert off".to_owned()
            )
        );
        let offloads = ["tags", "uncut", "checksums"].map(|check| of(&told, "vb", check).len());
        assert_eq!(offloads, [1; 3], "one finding a check: {told:?}");
        assert_eq!(
            of(&told, "vb", "napi")[0].remedy,
            Remedy::Command("ethtool -K vb gro on".to_owned())
        );

        let (link, mended) = check("va", need, true).unwrap();
        assert!(link.works() && link.mtu == 2000);
        // Some offloads go with others, and are not found any more.
        assert!(mended.len() + 2 > told.len(), "{mended:?}");
        for finding in &mended {
            assert_eq!(finding.remedy, Remedy::Mended, "{finding:?}");
            assert!(told.iter().any(|told| told.what == finding.what), "{finding:?}");
        }
        let (_, again) = check("va", need, false).unwrap();
        assert_eq!(again, [], "all is well");
    });
}

/// A namespace that has a name, as `ip netns` gives it, until this is dropped.
struct Named(String);

impl Named {
    fn new() -> Self {
        let name = format!("forebay-test-{}", std::process::id());
        ip(&format!("netns add {name}"));
        Self(name)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::process::Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn an_end_in_another_namespace_is_named_looked_at_and_left_alone() {
    in_namespace(|| {
        let named = Named::new();
        let Named(namespace) = &named;
        // Both ends may have the same number, each in its own namespace.
        ip(&format!("link add va index 77 type veth peer name vb index 77 netns {namespace}"));
        ip("link set va up");
        let need = Need { receive: true, send: true, xdp: true, mtu: 0 };
        let title = format!("vb of namespace {namespace}");
        let commands = |may_mend| -> Vec<String> {
            let (_, found) = check("va", need, may_mend).unwrap();
            let command = |finding: &Finding| match &finding.remedy {
                Remedy::Command(command) if finding.device == title => Some(command.clone()),
                Remedy::Mended if finding.device == title => panic!("{finding:?}"),
                _ => None,
            };
            found.iter().filter_map(command).collect()
        };
        let found = commands(true);
        assert_eq!(found.len(), 4, "uncut, tags, checksums, napi: {found:?}");
        let at = format!("ip netns exec {namespace} ethtool -K vb ");
        assert!(found.iter().all(|command| command.starts_with(&at)), "{found:?}");
        assert!(found.contains(&format!("{at}gro on")), "{found:?}");
        assert_eq!(commands(false), found, "nothing was changed there");
        assert_eq!(at_other_end("va", "gro on"), Some(format!("{at}gro on")));
        if std::process::Command::new("ethtool").arg("--version").output().is_err() {
            eprintln!("skipped: the commands are not followed without ethtool");
            return;
        }
        for command in &found {
            let ran = std::process::Command::new("sh").args(["-c", command]).output().unwrap();
            assert!(ran.status.success(), "{command}: {ran:?}");
        }
        assert_eq!(commands(false), [""; 0], "they are not repeated once followed");
    });
}

#[test]
fn an_end_in_a_namespace_without_a_name_is_told_without_a_command() {
    in_namespace(|| {
        ip("link add va type veth peer name vb");
        let (moved, gone) = std::sync::mpsc::channel::<()>();
        let (number, its_number) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            in_namespace(move || {
                // SAFETY: asks for the number of this thread, and takes nothing.
                number.send(unsafe { libc::gettid() }).unwrap();
                let _ = gone.recv();
            });
        });
        ip(&format!("link set vb netns {}", its_number.recv().unwrap()));
        let need = Need { receive: true, send: true, xdp: true, mtu: 0 };
        let (_, found) = check("va", need, false).unwrap();
        for check in ["uncut", "napi"] {
            let told = of(&found, "va", check);
            assert!(matches!(told[..], [Finding { remedy: Remedy::Noted, .. }]), "{found:?}");
        }
        drop(moved);
        other.join().unwrap();
    });
}

#[test]
fn what_is_glued_is_unglued() {
    in_namespace(|| {
        ip("link add va type veth peer name vb");
        ip("link set va up");
        ip("link set vb up");
        let napi = Need { receive: false, send: true, xdp: true, mtu: 0 };
        // Mends the other end, which is `a`, by switching GRO on.
        check("vb", napi, true).unwrap();
        let (_, findings) = check("va", RECEIVE, true).unwrap();
        let glue = of(&findings, "va", "glue");
        assert_eq!(glue.len(), 1, "{findings:?}");
        assert!(glue[0].what.starts_with("rx-gro is on") && glue[0].remedy == Remedy::Mended);
        let (_, findings) = check("va", RECEIVE, true).unwrap();
        assert_eq!(of(&findings, "va", "glue"), Vec::<&Finding>::new());
    });
}

#[test]
fn a_carrier_that_is_missing_is_noted() {
    in_namespace(|| {
        ip("link add va type veth peer name vb");
        let (link, findings) = check("va", RECEIVE, true).unwrap();
        assert!(link.up && !link.carrier);
        assert_eq!(of(&findings, "va", "carrier")[0].remedy, Remedy::Noted);
    });
}

#[test]
fn what_no_port_can_use_is_an_error() {
    in_namespace(|| {
        ip("tuntap add mode tun name nix");
        let error = check("nix", RECEIVE, true).unwrap_err();
        assert!(matches!(error, DeviceError::NotEthernet { hardware: 65534, .. }), "{error}");
        let error = check("missing", RECEIVE, true).unwrap_err();
        assert!(matches!(error, DeviceError::Missing { .. }), "{error}");
    });
}

#[test]
fn devices_are_watched_as_they_come_change_and_go() {
    in_namespace(|| {
        let mut watch = Watch::open().unwrap();
        assert_eq!(watch.changes().unwrap(), []);
        let mut expect = |words: &str, is_it: &dyn Fn(&Change) -> bool| {
            ip(words);
            wait_for(words, || watch.changes().unwrap().iter().any(is_it));
        };
        expect(
            "link add va type veth peer name vb",
            &|change| matches!(change, Change::Is(link) if link.name == "va"),
        );
        expect(
            "link set vb up",
            &|change| matches!(change, Change::Is(link) if link.name == "vb" && link.up),
        );
        expect(
            "link set va up",
            &|change| matches!(change, Change::Is(link) if link.name == "vb" && link.works()),
        );
        expect("link del va", &|change| matches!(change, Change::Gone(link) if link.name == "vb"));
    });
}
