//! Every capture of the test data through `forebay split`, judged by a reader and a
//! flow finder that share no code with the product.
//!
//! For each: no panic, a closed ledger, outputs that together are the input packet for
//! packet, each in the order of the input, and no flow in two of them. What a damaged
//! capture holds before its damage is treated the same.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::command::{self, Ran};
use crate::support::data::{self, Indexed};
use forebay_gen::Framing;
use forebay_testkit::capture::{self, Capture, Packet};
use forebay_testkit::{independent, parallel};

/// Splits a capture over five sensors. Returns its packets, and the sensor of each; or
/// nothing where it is refused as a whole.
fn split(path: &Path, options: &[&str]) -> Option<(Capture, Vec<usize>)> {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("out");
    let (file, out) = (path.to_str().unwrap(), folder.to_str().unwrap());
    let mut arguments = vec!["split", "-r", file, "-n", "5", "-o", out, "--json", "-q"];
    arguments.extend(options);
    let ran = command::run(&arguments);
    let input = capture::read(path);
    if ran.stdout.is_empty() {
        assert_refused_whole(ran, path, &folder);
        return None;
    }
    let outcome = ran.json();
    let ledger = outcome["ledger"].as_array().unwrap();
    assert_eq!(ledger[0]["in"], input.packets.len(), "{file}");
    assert_eq!(ledger[ledger.len() - 1]["out"], input.packets.len(), "{file}");
    if input.cut {
        let ran = ran.exits(1).says(&[file, " byte"]);
        let error = outcome["error"].as_str().unwrap();
        assert!(error.contains(|c: char| c.is_ascii_digit()), "{error}");
        assert!(ran.stderr.contains(error), "{}", ran.stderr);
    } else {
        ran.exits(0);
        assert!(outcome["error"].is_null(), "{file}");
    }
    let files = command::sensor_files(&folder);
    assert_eq!(files.len(), 5, "{file}");
    let outputs: Vec<Capture> = files.iter().map(capture::read).collect();
    let sensors = sensor_of_each(file, &input.packets, &outputs);
    Some((input, sensors))
}

/// One clear message that names the file, and nothing written.
fn assert_refused_whole(ran: Ran, path: &Path, folder: &Path) {
    ran.exits(1).says(&[path.to_str().unwrap()]);
    assert!(!folder.exists(), "{}", path.display());
}

/// Deals the input out again: each packet must be the next one of some output, and
/// nothing may be left in any.
fn sensor_of_each(file: &str, input: &[Packet], outputs: &[Capture]) -> Vec<usize> {
    let content = |packet: &Packet| (packet.link, packet.wire_len, packet.nanos);
    let mut rest: Vec<&[Packet]> = outputs.iter().map(|output| &output.packets[..]).collect();
    assert!(outputs.iter().all(|output| !output.cut), "{file}: an output is no whole capture");
    let mut sensors = Vec::with_capacity(input.len());
    for (number, packet) in input.iter().enumerate() {
        let is_next = |left: &&[Packet]| {
            let next = left.first();
            next.is_some_and(|next| content(next) == content(packet) && next.data == packet.data)
        };
        let sensor = rest.iter().position(is_next);
        let sensor = sensor.unwrap_or_else(|| panic!("{file}: packet {number} is not in turn"));
        rest[sensor] = &rest[sensor][1..];
        sensors.push(sensor);
    }
    assert!(rest.iter().all(|left| left.is_empty()), "{file}: more packets out than in");
    sensors
}

/// Fails where two packets of one `group` are at two sensors.
fn assert_whole<G: Hash + Eq + std::fmt::Debug>(
    path: &Path,
    groups: impl Iterator<Item = Option<G>>,
    sensors: &[usize],
) {
    let mut sensor_of = HashMap::new();
    for (number, (group, &sensor)) in groups.zip(sensors).enumerate() {
        let Some(group) = group else { continue };
        let text = format!("{group:?}");
        let (first, at) = *sensor_of.entry(group).or_insert((number, sensor));
        assert_eq!(at, sensor, "{}: {text}: packets {first} and {number}", path.display());
    }
}

/// The VLAN identifiers of an Ethernet frame, outermost first; none where another tag
/// or a fabric follows, which may hide further ones.
fn vlans(packet: &Packet) -> Option<Vec<u16>> {
    let mut found = Vec::new();
    let mut at = 12;
    while packet.link == 1
        && let Some(&[high, low, tag_high, tag_low]) = packet.data.get(at..at + 4)
        && matches!((high, low), (0x81, 0x00) | (0x88, 0xa8) | (0x91 | 0x92, 0x00))
    {
        found.push(u16::from_be_bytes([tag_high, tag_low]) & 0x0fff);
        at += 4;
    }
    let hides = matches!(
        packet.data.get(at..at + 2),
        Some([0x22, 0xf3] | [0x88, 0xe5 | 0xe7] | [0x89, 0x03 | 0x09 | 0x26 | 0x2f | 0x3f | 0x4f])
            | Some([0xf1, 0xc1] | [0xda, 0xda])
    );
    (packet.link != 1 || !hides).then_some(found)
}

fn all_captures() -> Vec<Indexed> {
    let captures = data::captures(&data::folder());
    assert!(captures.len() >= data::at_least(1_866, 60), "only {} captures", captures.len());
    captures
}

#[test]
fn every_capture_is_split_into_whole_flows() {
    let captures = all_captures();
    let [refused, cut, spread] = [const { AtomicUsize::new(0) }; 3];
    parallel::for_each(&captures, |Indexed { path, .. }| {
        let Some((input, sensors)) = split(path, &[]) else {
            refused.fetch_add(1, Ordering::Relaxed);
            return;
        };
        assert_whole(path, independent::identities(&input).into_iter(), &sensors);
        cut.fetch_add(usize::from(input.cut), Ordering::Relaxed);
        let used = sensors.iter().any(|&sensor| sensor != sensors[0]);
        spread.fetch_add(usize::from(used), Ordering::Relaxed);
    });
    let [refused, cut, spread] = [refused, cut, spread].map(AtomicUsize::into_inner);
    println!("{cut} captures are cut, {refused} refused, {spread} use several sensors");
    // Versions other than 2.2 to 2.4, which the reader of the tests reads all the same.
    assert_eq!(refused, data::at_least(4, 1));
    // Otherwise the checks above would have had little to find.
    assert!(cut >= data::at_least(8, 5) && spread > data::at_least(400, 30));
}

/// Tags and fabrics are on the frames of one direction only.
#[test]
fn flows_stay_whole_in_every_framing() {
    let scratch = tempfile::tempdir().unwrap();
    for (_, name) in Framing::ALL {
        let path = scratch.path().join(format!("{name}.pcap"));
        let file = path.to_str().unwrap();
        let sizes = ["--flows", "400", "--packets", "3000"];
        let made = [&["gen", "-w", file, "--framing", name, "-q"][..], &sizes].concat();
        command::run(&made).exits(0);
        let (input, sensors) = split(&path, &[]).unwrap();
        let identities = independent::identities(&input);
        let named = identities.iter().flatten().count();
        assert!(named * 100 >= input.packets.len() * 99, "{name}: the judge names {named} packets");
        for sensor in 0..5 {
            assert!(sensors.contains(&sensor), "{name}: sensor {sensor} has no packet");
        }
        assert_whole(&path, identities.into_iter(), &sensors);
    }
}

#[test]
fn flows_stay_whole_where_loads_are_counted() {
    let captures = all_captures();
    let some: Vec<_> = captures.iter().skip(1).step_by(5).collect();
    parallel::for_each(&some, |Indexed { path, .. }| {
        let Some((input, sensors)) = split(path, &["--balance", "packets"]) else { return };
        assert_whole(path, independent::identities(&input).into_iter(), &sensors);
    });
}

#[test]
fn address_pairs_stay_whole_with_the_key_ip_pair() {
    let captures = all_captures();
    let some: Vec<_> = captures.iter().step_by(10).collect();
    parallel::for_each(&some, |Indexed { path, .. }| {
        let Some((input, sensors)) = split(path, &["--key", "ip-pair"]) else { return };
        let identities = independent::identities(&input);
        let pair =
            |one: independent::Identity| -> [IpAddr; 2] { one.ends.map(|(address, _)| address) };
        assert_whole(path, identities.into_iter().map(|one| one.map(pair)), &sensors);
    });
}

/// The source (0) or destination (1) address of a whole TCP or UDP packet over IPv4.
fn address(packet: &Packet, end: usize) -> Option<[u8; 4]> {
    let header: &[u8; 34] = packet.data.first_chunk()?;
    let is_plain = packet.link == 1
        && header[12..14] == [0x08, 0x00]
        && header[14] >> 4 == 4
        && (header[20] & 0x3f, header[21]) == (0, 0)
        && matches!(header[23], 6 | 17);
    is_plain.then(|| std::array::from_fn(|i| header[26 + 4 * end + i]))
}

#[test]
fn what_is_from_or_to_an_address_stays_together_with_the_keys_src_and_dst() {
    let captures = all_captures();
    let some: Vec<_> = captures.iter().skip(3).step_by(10).collect();
    let apart = AtomicUsize::new(0);
    parallel::for_each(&some, |Indexed { path, .. }| {
        for (end, key) in ["src", "dst"].into_iter().enumerate() {
            let options = ["--key", key, "--tunnel-depth", "0"];
            let Some((input, sensors)) = split(path, &options) else { return };
            let of = |end| input.packets.iter().map(move |one| address(one, end));
            assert_whole(path, of(end), &sensors);
            // The key is that address, and not the pair.
            let mut sensor_of = HashMap::new();
            for (other, &sensor) in of(1 - end).zip(&sensors) {
                let Some(other) = other else { continue };
                let first = *sensor_of.entry(other).or_insert(sensor);
                apart.fetch_add(usize::from(first != sensor), Ordering::Relaxed);
            }
        }
    });
    assert!(apart.into_inner() > data::at_least(100, 10));
}

#[test]
fn flows_stay_whole_within_their_vlan() {
    let captures = all_captures();
    let some: Vec<_> = captures.iter().skip(5).step_by(10).collect();
    parallel::for_each(&some, |Indexed { path, .. }| {
        let Some((input, sensors)) = split(path, &["--vlan-in-key"]) else { return };
        let identities = independent::identities(&input);
        let tagged = identities.into_iter().zip(&input.packets);
        let groups = tagged.map(|(one, packet)| one.zip(vlans(packet)));
        assert_whole(path, groups, &sensors);
    });
}
