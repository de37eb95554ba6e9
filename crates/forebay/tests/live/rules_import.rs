//! Imported lists decide as the kernel does: random rulesets of nftables and iptables in a
//! network of their own, packets sent through them, and the lists that their own tools
//! print held against what came through.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::support::namespace::{in_namespace, ip, wait_for};
use forebay_packet::random::Random;
use forebay_rules::language::{Format, Options, open};
use forebay_rules::rule::{Action, RuleList};
use forebay_rules::{Family, Key};
use forebay_testkit::has_program;
use serde_json::Value;

/// Packets for each ruleset.
const PACKETS: u16 = 600;

fn tool(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {complaint}\n{input}");
    String::from_utf8(output.stdout).unwrap()
}

/// Sets of the frames' source addresses: of all, and of those that came through.
const SEEN: &str = "table inet seen {
  set sent { typeof ether saddr; flags dynamic; size 65535; }
  set passed { typeof ether saddr; flags dynamic; size 65535; }
  chain first { type filter hook prerouting priority -400; add @sent { ether saddr }; }
  chain last { type filter hook prerouting priority 400; add @passed { ether saddr }; }
}
";

/// The numbers of the frames in a set.
fn numbers(set: &str) -> HashSet<u16> {
    let text = tool("nft", &["-j", "list", "set", "inet", "seen", set], "");
    let json: Value = serde_json::from_str(&text).unwrap();
    let objects = json["nftables"].as_array().unwrap();
    let set = objects.iter().find_map(|object| object.get("set")).unwrap();
    let elements = set["elem"].as_array().cloned().unwrap_or_default();
    let number = |element: &Value| {
        let address = element.as_str().or(element["elem"]["val"].as_str()).unwrap();
        u16::from_str_radix(&address[12..].replace(':', ""), 16).unwrap()
    };
    elements.iter().map(number).collect()
}

/// Addresses, ports and flags at which rules begin and end, and what is beside them.
const HOSTS: [u8; 8] = [0, 1, 2, 7, 8, 9, 127, 128];
const PORTS: [u16; 7] = [21, 22, 23, 79, 80, 1023, 1024];
const FLAGS: [u8; 7] = [0, 2, 16, 18, 4, 1, 0x29];

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let mut total: u32 = words.sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

/// A packet from its IP header on; perhaps a fragment other than the first.
fn packet(draw: &mut Random, with_fragments: bool) -> Vec<u8> {
    let protocol = draw.pick(&[6, 6, 6, 17, 17, 1, 47]);
    let (from, to) = (draw.pick(&PORTS).to_be_bytes(), draw.pick(&PORTS).to_be_bytes());
    let v6 = draw.index(3) == 0;
    let icmp = [draw.pick(&[0, 3, 8, 128, 129, 1]), draw.pick(&[0, 1, 3])];
    let mut payload = match protocol {
        6 => [&from[..], &to, &[0; 8], &[0x50, draw.pick(&FLAGS)], &[0; 6]].concat(),
        17 => [&from[..], &to, &[0, 8, 0, 0]].concat(),
        1 => [&icmp[..], &[0; 6]].concat(),
        _ => vec![0; 8],
    };
    let later = draw.index(8) == 0 && with_fragments;
    if later {
        payload = vec![0, 22, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 2, 0, 0];
    }
    let (source, destination) = (draw.pick(&HOSTS), draw.pick(&HOSTS));
    if v6 {
        let number = if protocol == 1 { 58 } else { protocol };
        let fragment = [number, 0, 1, 0, 0, 0, 0, 9];
        let headers = if later { &fragment[..] } else { &[] };
        let length = (headers.len() + payload.len()) as u16;
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend([if later { 44 } else { number }, 64]);
        for host in [source, destination] {
            bytes.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
        bytes.extend(headers);
        return [bytes, payload].concat();
    }
    let length = (20 + payload.len()) as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 1, 0, if later { 9 } else { 0 }, 64, protocol, 0, 0]);
    bytes.extend([10, 0, 0, source, 10, 0, 0, destination]);
    let checksum = sum(&bytes).to_be_bytes();
    bytes[10..12].copy_from_slice(&checksum);
    [bytes, payload].concat()
}

/// Sends frames to device `b` by its peer.
struct Wire(std::os::fd::OwnedFd, libc::sockaddr_ll);

impl Wire {
    fn open() -> Self {
        use std::os::fd::FromRawFd as _;
        // SAFETY: a name that ends with 0.
        let index = unsafe { libc::if_nametoindex(c"g".as_ptr()) };
        assert!(index > 0, "{}", std::io::Error::last_os_error());
        // SAFETY: takes no memory; what it returns is checked.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: all bytes zero are an address; the fields that matter follow.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index.cast_signed();
        // SAFETY: the socket is open and nobody else's.
        Self(unsafe { std::os::fd::OwnedFd::from_raw_fd(socket) }, address)
    }

    fn send(&self, frame: &[u8]) {
        use std::os::fd::AsRawFd as _;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the frame and the address are that long, and live through the call.
        let sent = unsafe {
            let address = (&raw const self.1).cast();
            libc::sendto(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, address, length)
        };
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }
}

fn devices() {
    ip("link add g type veth peer name b");
    for device in ["g", "b"] {
        ip(&format!("link set dev {device} address 02:00:00:00:ff:0{}", u8::from(device == "b")));
        ip(&format!("link set dev {device} arp off up"));
    }
}

/// Sends packets of `families` through the ruleset that is in force, and holds each
/// against the list of its family.
/// How many of those passed and how many did not is returned.
fn compare(
    draw: &mut Random,
    with_fragments: bool,
    list_of: &dyn Fn(Family) -> Option<RuleList>,
    about: &str,
) -> [u32; 2] {
    tool("nft", &["flush", "set", "inet", "seen", "sent"], "");
    tool("nft", &["flush", "set", "inet", "seen", "passed"], "");
    let wire = Wire::open();
    let mut keys = Vec::new();
    for number in 0..PACKETS {
        let packet = packet(draw, with_fragments);
        let kind: [u8; 2] = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        let [high, low] = number.to_be_bytes();
        let ethernet = [&[2, 0, 0, 0, 0xff, 1, 2, 0, 0, 0, high, low][..], &kind].concat();
        wire.send(&[ethernet, packet.clone()].concat());
        keys.push(Key::of_ip(&packet).unwrap());
    }
    wait_for("the packets", || numbers("sent").len() == usize::from(PACKETS));
    let passed = numbers("passed");
    let lists = [Family::Ipv4, Family::Ipv6].map(list_of);
    let mut verdicts = [0; 2];
    for (number, key) in (0..).zip(&keys) {
        let Some(list) = &lists[usize::from(key.family == Family::Ipv6)] else { continue };
        let ours = list.decide(key).action == Action::Pass;
        assert_eq!(passed.contains(&number), ours, "{key}\n{about}\n{list}");
        verdicts[usize::from(ours)] += 1;
    }
    verdicts
}

/// Both verdicts are had often enough to tell something.
fn are_mixed(all: &[[u32; 2]]) {
    for verdict in 0..2 {
        let packets: u32 = all.iter().map(|verdicts| verdicts[verdict]).sum();
        assert!(packets > 1_000, "{all:?}");
    }
}

/// A condition of nftables.
fn nft_condition(draw: &mut Random) -> String {
    let (a, b) = (draw.pick(&HOSTS), draw.pick(&HOSTS));
    let (low, high) = (a.min(b), a.max(b));
    let (p, q) = (draw.pick(&PORTS), draw.pick(&PORTS));
    let (first, last) = (p.min(q), p.max(q));
    let way = draw.pick(&["saddr", "daddr"]);
    let port = draw.pick(&["sport", "dport"]);
    let not = draw.pick(&["", "", "!= "]);
    match draw.index(22) {
        0 => format!("ip {way} {not}10.0.0.{a}"),
        1 => format!("ip {way} {not}10.0.0.{a}/29"),
        2 => format!("ip {way} {not}10.0.0.{low}-10.0.0.{}", high + 1),
        3 => format!("ip {way} {not}@hosts"),
        4 => format!("ip6 {way} {not}2001:db8::{a:x}"),
        5 => format!("ip6 {way} {not}2001:db8::/125"),
        6 => format!("tcp {port} {not}{{ {first}, {}-2000 }}", last.max(1001) + 1),
        7 => format!("tcp {port} {} {p}", draw.pick(&["<", ">", "<=", ">=", "==", "!="])),
        8 => format!("udp {port} {not}{first}-{}", last + 1),
        9 => format!("udp {port} {not}@ports"),
        10 => format!("meta l4proto {not}{{ tcp, udp }} "),
        11 => format!("meta l4proto {{ tcp, udp }} th {port} {p}"),
        12 => {
            format!("ip saddr . tcp dport {{ 10.0.0.9 . {p}, 10.0.0.0/30 . {first}-{} }}", last + 1)
        }
        13 => format!("ip {way} & 255.255.255.{} == 10.0.0.{}", 0x85, a & 0x85),
        14 => format!("icmp type {not}{{ echo-request, destination-unreachable }}"),
        15 => "icmp type destination-unreachable icmp code port-unreachable".to_owned(),
        16 => format!("icmpv6 type {not}echo-request"),
        17 => format!("tcp flags & (fin | syn | ack) {} syn", draw.pick(&["==", "!="])),
        18 => "tcp flags syn,rst".to_owned(),
        19 => format!("tcp flags {not}{{ syn, ack, syn | ack }}"),
        20 => format!("meta nfproto {}", draw.pick(&["ipv4", "ipv6"])),
        _ => "ip protocol gre".to_owned(),
    }
}

/// A table of chains; those jump to later ones only.
fn nft_table(draw: &mut Random) -> String {
    let mut text = "table inet t {
  set hosts { type ipv4_addr; flags interval; elements = { 10.0.0.1, 10.0.0.8-10.0.0.127 } }
  set ports { type inet_service; elements = { 22, 80 } }
  map verdicts { type inet_service : verdict; elements = { 22 : drop, 80 : accept, 1023 : jump c3 } }
"
    .to_owned();
    for chain in (0..4).rev() {
        let _ = writeln!(text, "  chain c{chain} {{");
        if chain == 0 {
            let policy = draw.pick(&["accept", "drop"]);
            let _ = writeln!(text, "    type filter hook prerouting priority 0; policy {policy};");
        }
        for _ in 0..2 + draw.index(4) {
            let to = chain + 1 + draw.index(2);
            let jump = ["jump", "goto"][draw.index(2)];
            let target = match draw.index(9) {
                0 | 1 => "accept".to_owned(),
                2 | 3 => "drop".to_owned(),
                4 => "return".to_owned(),
                5 => "counter".to_owned(),
                6 if chain < 3 => "tcp dport vmap @verdicts".to_owned(),
                _ if to < 4 => format!("{jump} c{to}"),
                _ => "drop".to_owned(),
            };
            let mut condition = nft_condition(draw);
            if draw.index(4) == 0 && !condition.contains(" . ") && !target.contains("vmap") {
                condition = format!("ip saddr 10.0.0.0/28 {condition}");
            }
            // What contradicts itself nft refuses; a map asks for TCP itself.
            if target.contains("vmap") {
                condition = format!("ip daddr 10.0.0.{}/29", draw.pick(&HOSTS));
            } else if condition.contains("ip6") || condition.contains("icmpv6") {
                condition = condition.replace("ip saddr 10.0.0.0/28 ", "");
            }
            let _ = writeln!(text, "    {condition} {target}");
        }
        text += "  }\n";
    }
    text + "}\n"
}

#[test]
fn lists_of_nftables_decide_as_the_kernel_does() {
    if !has_program("nft") {
        return;
    }
    in_namespace(|| {
        devices();
        let (mut draw, mut all) = (Random::new(7), Vec::new());
        for round in 0..16 {
            let table = nft_table(&mut draw);
            tool("nft", &["-f", "-"], &format!("flush ruleset\n{SEEN}{table}"));
            let text = tool("nft", &["-j", "list", "ruleset"], "");
            let options = Options { table: Some("inet t".to_owned()), ..Options::default() };
            let catalogue = open(Format::Nftables, &text, &options).unwrap();
            let read = catalogue.read(0).unwrap_or_else(|error| panic!("{error}\n{table}"));
            let list = |_| Some(read.list.list.clone());
            // Without connection tracking, which puts fragments together, nftables takes bytes
            // of later ones for a header.
            all.push(compare(&mut draw, false, &list, &format!("round {round}\n{table}")));
        }
        are_mixed(&all);
    });
}

/// A condition of iptables.
fn xt_condition(draw: &mut Random) -> String {
    let (a, b) = (draw.pick(&HOSTS), draw.pick(&HOSTS));
    let (low, high) = (a.min(b), a.max(b));
    let (p, q) = (draw.pick(&PORTS), draw.pick(&PORTS));
    let (first, last) = (p.min(q), p.max(q));
    let way = draw.pick(&["-s", "-d"]);
    let not = draw.pick(&["", "", "! "]);
    let port = draw.pick(&["--sport", "--dport"]);
    let protocol = draw.pick(&["tcp", "udp"]);
    match draw.index(12) {
        0 => format!("{not}{way} 10.0.0.{a}"),
        1 => format!("{not}{way} 10.0.0.{a}/29"),
        2 => format!("-p {protocol} {not}{port} {first}:{last}"),
        3 => format!("{not}-p {protocol}"),
        4 => format!("-p {protocol} -m multiport {not}--ports {p},{q}"),
        5 => format!("-p {protocol} -m multiport {not}--dports {first}:{},9", last + 1),
        6 => format!("-m iprange {not}--src-range 10.0.0.{low}-10.0.0.{high}"),
        7 => format!("-p tcp {not}--tcp-flags FIN,SYN,RST,ACK SYN"),
        8 => format!("-p icmp {not}--icmp-type 8"),
        9 => "-p icmp --icmp-type 3/1".to_owned(),
        10 => format!("-p {protocol} -s 10.0.0.{a} {port} {p}"),
        _ => format!("-p tcp {not}--syn"),
    }
}

#[test]
fn lists_of_iptables_decide_as_the_kernel_does() {
    if !has_program("nft") || !has_program("iptables-legacy-restore") {
        return;
    }
    in_namespace(|| {
        devices();
        tool("nft", &["-f", "-"], SEEN);
        let (mut draw, mut all) = (Random::new(11), Vec::new());
        for round in 0..16 {
            let policy = draw.pick(&["ACCEPT", "DROP"]);
            let mut text = format!("*raw\n:PREROUTING {policy}\n:c1 -\n:c2 -\n:c3 -\n");
            for chain in 0..4 {
                let name = ["PREROUTING", "c1", "c2", "c3"][chain];
                for _ in 0..2 + draw.index(4) {
                    let to = chain + 1 + draw.index(2);
                    let target = match draw.index(8) {
                        0 | 1 => "-j ACCEPT".to_owned(),
                        2 | 3 => "-j DROP".to_owned(),
                        4 => "-j RETURN".to_owned(),
                        5 | 6 if to < 4 => format!("-j c{to}"),
                        _ if to < 4 => format!("-g c{to}"),
                        _ => String::new(),
                    };
                    let _ = writeln!(text, "-A {name} {} {target}", xt_condition(&mut draw));
                }
            }
            text += "COMMIT\n";
            // The variant over nftables shares its view of fragments.
            tool("iptables-legacy-restore", &[], &text);
            let saved = tool("iptables-legacy-save", &["-t", "raw"], "");
            let options = Options { table: Some("raw".to_owned()), ..Options::default() };
            let catalogue = open(Format::Iptables, &saved, &options).unwrap();
            let read = catalogue.read(0).unwrap_or_else(|error| panic!("{error}\n{saved}"));
            let list = |family| (family == Family::Ipv4).then(|| read.list.list.clone());
            all.push(compare(&mut draw, true, &list, &format!("round {round}\n{saved}")));
        }
        are_mixed(&all);
    });
}
