//! The captures of `corpus/`: packets of every kind that the decoder knows, generated traffic
//! in every framing, the same capture in every file format, a mirror, and damaged files.
//!
//! The files lie in the repository so that other programs can read them too; the test of this
//! module fails if they are not what [`files`] makes, and with `BLESS=1` writes them anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use forebay_gen::{Config, Framing, Generator, Profile};

use crate::make::{ETHERNET, Pcap, block, enhanced, interface, section};
use crate::packets::build::{BACK, FORTH};
use crate::packets::table::cases;
use crate::{capture, independent};

/// LINKTYPE_LINUX_SLL.
const COOKED: u32 = 113;

/// Every file by its path in the corpus.
pub fn files() -> BTreeMap<String, Vec<u8>> {
    let mut captures = BTreeMap::new();
    let mut add = |name: String, file| assert!(captures.insert(name, file).is_none());
    for (link, packets) in every_kind() {
        add(format!("headers/link-{link}.pcap"), Pcap::of(link).file(&packets));
    }
    for (framing, name) in Framing::ALL {
        let config = Config { flows: 40, packets: 150, size: Some(576), framing, ..small(1) };
        add(format!("framings/{name}.pcap"), generated(config));
    }
    for profile in [Profile::Uniform, Profile::Paper] {
        let config = Config { flows: 200, packets: 400, profile, ..small(2) };
        add(format!("{}.pcap", profile.name()), generated(config));
    }
    add("mirror.pcap".into(), mirror());
    let frames = frames(Config { flows: 30, packets: 60, size: Some(576), ..small(3) });
    for (name, file) in formats(&frames) {
        add(format!("formats/{name}"), file);
    }
    for (name, file) in damaged(&frames) {
        add(format!("damaged/{name}"), file);
    }
    let index = index(&captures);
    let mut files: BTreeMap<_, _> =
        captures.into_iter().map(|(name, file)| (format!("captures/{name}"), file)).collect();
    files.insert("captures/INDEX.tsv".into(), index.into_bytes());
    let mix = Config { flows: 500, packets: 4_000, size: Some(576), ..small(4) };
    files.insert("mix/dev-mix.pcap".into(), generated(mix));
    files
}

fn small(seed: u64) -> Config {
    Config { seed, ..Config::default() }
}

/// The packets of the decoder's table, both ways, by link type.
fn every_kind() -> BTreeMap<u32, Vec<Vec<u8>>> {
    let mut kinds: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
    for case in cases() {
        let packets = [FORTH, BACK].map(|way| (case.build)(way));
        kinds.entry(case.link.0).or_default().extend(packets);
    }
    kinds
}

/// Calls `each` with the time, bytes and length on the wire of every packet.
fn generate(config: Config, mut each: impl FnMut(u64, &[u8], u32)) {
    let mut generator = Generator::new(config).expect("a configuration of this file is valid");
    while let Some(batch) = generator.next_batch().expect("memory for a batch") {
        for i in 0..batch.len() {
            each(batch.ticks(i), batch.packet(i), batch.wire_len(i));
        }
    }
}

fn generated(config: Config) -> Vec<u8> {
    let pcap = Pcap::of(config.framing.link().0);
    let mut file = pcap.header();
    generate(config, |nanos, packet, wire_len| file.extend(pcap.record(nanos, packet, wire_len)));
    file
}

fn frames(config: Config) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    generate(config, |_, packet, _| frames.push(packet.to_vec()));
    frames
}

/// A link seen at two places: each frame twice, 20 µs apart, the second with a VLAN tag.
fn mirror() -> Vec<u8> {
    let pcap = Pcap::of(ETHERNET);
    let mut file = pcap.header();
    let config = Config { flows: 60, packets: 300, size: Some(576), ..small(5) };
    generate(config, |nanos, frame, wire_len| {
        let tagged = [&frame[..12], &[0x81, 0x00, 0x00, 0x07], &frame[12..]].concat();
        file.extend(pcap.record(nanos, frame, wire_len));
        file.extend(pcap.record(nanos + 20_000, &tagged, wire_len + 4));
    });
    file
}

/// The same packets in each format of a capture.
fn formats(frames: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for big_endian in [false, true] {
        for nanoseconds in [false, true] {
            let pcap = Pcap { big_endian, nanoseconds, ..Pcap::of(ETHERNET) };
            let order = if big_endian { "big" } else { "little" };
            let clock = if nanoseconds { "nano" } else { "micro" };
            files.push((format!("{order}-{clock}.pcap"), pcap.file(frames)));
        }
    }
    // A capture with a snapshot length.
    let pcap = Pcap { snap_len: 64, ..Pcap::of(ETHERNET) };
    let mut cut = pcap.header();
    for frame in frames {
        cut.extend(pcap.record(0, &frame[..frame.len().min(64)], frame.len() as u32));
    }
    files.push(("snapped.pcap".into(), cut));
    // Two sections; in the first, two interfaces with clocks of their own, and a block of a
    // kind that no reader knows.
    let mut ng = [section(), interface(ETHERNET, 6), interface(ETHERNET, 9)].concat();
    for (i, frame) in (0_u64..).zip(frames) {
        let (of, ticks) = if i % 2 == 0 { (0, i * 1_000) } else { (1, i * 1_000_000) };
        ng.extend(enhanced(of, 1_700_000_000_000_000_000 / [1_000, 1][of as usize] + ticks, frame));
    }
    ng.extend(block(0x7000_0001, &[1, 2, 3, 4]));
    ng.extend([section(), interface(COOKED, 6)].concat());
    for (i, frame) in (0_u64..).zip(frames.iter().take(20)) {
        // Linux's cooked header: from this host, Ethernet, an address of 6 bytes.
        let head = [&[0, 4, 0, 1, 0, 6][..], &frame[6..12], &[0, 0], &frame[12..14]].concat();
        let cooked = [&head, &frame[14..]].concat();
        ng.extend(enhanced(0, 1_700_000_001_000_000 + i, &cooked));
    }
    files.push(("sections.pcapng".into(), ng));
    files
}

/// Captures that break off, or contradict their format.
fn damaged(frames: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
    let pcap = Pcap::of(ETHERNET);
    let whole = pcap.file(frames);
    let ng = {
        let mut file = [section(), interface(ETHERNET, 6)].concat();
        frames.iter().for_each(|frame| file.extend(enhanced(0, 1_700_000_000_000_000, frame)));
        file
    };
    let second = 24 + 16 + frames[0].len();
    let mut lying = whole.clone();
    lying[second + 8..second + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut version = whole.clone();
    version[4..8].copy_from_slice(&[1, 0, 0, 0]);
    let mut total = ng.clone();
    // The second length of the first packet's block.
    let end = 28 + 32 + 32 + frames[0].len().next_multiple_of(4);
    total[end - 4..end].copy_from_slice(&[0xff; 4]);
    let cut = |file: &[u8], len: usize| file[..len].to_vec();
    let files = [
        ("empty-of-packets.pcap", pcap.header()),
        ("in-a-packet.pcap", cut(&whole, whole.len() - 5)),
        ("in-a-record-header.pcap", cut(&whole, second + 9)),
        ("length-of-4-gib.pcap", lying),
        ("version-1.0.pcap", version),
        ("in-a-block.pcapng", cut(&ng, ng.len() - 7)),
        ("two-lengths-of-a-block.pcapng", total),
    ];
    files.map(|(name, file)| (name.to_owned(), file)).into()
}

/// A line for each capture: path, source, licence, bytes, packets, flows, link types, content.
fn index(captures: &BTreeMap<String, Vec<u8>>) -> String {
    let mut index = "file\tsource\tlicence\tbytes\tpackets\tflows\tlink\tcontent\n".to_owned();
    for (name, file) in captures {
        let capture = capture::parse(file);
        let links: BTreeSet<u32> = capture.packets.iter().map(|packet| packet.link).collect();
        let name_of = |link: &u32| match *link {
            ETHERNET => "EN10MB".to_owned(),
            other => other.to_string(),
        };
        let links = links.iter().map(name_of).collect::<Vec<_>>().join("+");
        let flows: BTreeSet<_> = independent::identities(&capture).into_iter().flatten().collect();
        let (bytes, packets, flows) = (file.len(), capture.packets.len(), flows.len());
        let content = name.split(['/', '.']).next().unwrap_or_default();
        let of = "forebay\tMIT OR Apache-2.0";
        writeln!(index, "{name}\t{of}\t{bytes}\t{packets}\t{flows}\t{links}\t{content}")
            .expect("a string grows");
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_corpus_in_the_repository_is_what_is_made() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let files = files();
        let size: usize = files.values().map(Vec::len).sum();
        assert!(size < 5_000_000, "{size} bytes");
        for (name, made) in files {
            let path = folder.join(&name);
            if std::env::var("BLESS").as_deref() == Ok("1") {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, &made).unwrap();
            }
            let found = fs::read(&path).unwrap_or_default();
            assert!(found == made, "{name} differs; BLESS=1 writes it anew");
        }
    }
}
