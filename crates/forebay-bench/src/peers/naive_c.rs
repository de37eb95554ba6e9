//! The paper's naive C program of a rule list (`naive.c`), by the system's compilers.
#![allow(unsafe_code, reason = "calls compiled C")]

use std::path::Path;

use forebay_packet::Region;
use forebay_rules::packed::Key4;
use forebay_rules::rule::{TCP, UDP};
use forebay_rules::{FlagTest, PortTest, ProtocolTest, Rule, RuleList};
use libloading::Library;

use super::c_code::library;
use super::dpdk::symbol;
use super::matcher::{Matcher, prefix};
use super::process::find;
use crate::failure::{Failure, Result};
use crate::suites::rules::frames::{FRAME, frame};

const TEXT: &str = include_str!("naive.c");

/// Where packets lie: bytes from packet to packet, and before the first.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    stride: usize,
    start: usize,
}

/// One after another, each on a boundary of 4 bytes: their addresses are on none (section 4.1.1).
pub const PACKED: Layout = Layout { stride: FRAME, start: 0 };

/// Source addresses on boundaries of 8 bytes (section 4.1.2), and no packet in two lines of the
/// cache.
pub const ALIGNED: Layout = Layout { stride: 64, start: 6 };

/// Flags that a compiler does better with. The loop that gcc 12 makes takes 200 cycles a packet
/// where it crosses two lines of code, and 140 where it does not; clang's does not gain by
/// being aligned.
fn flags(compiler: &str) -> &'static [&'static str] {
    if compiler == "gcc" { &["-falign-loops=64"] } else { &[] }
}

/// `struct pattern`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Pattern {
    source: [u8; 4],
    source_mask: [u8; 4],
    destination: [u8; 4],
    destination_mask: [u8; 4],
    source_ports: (u16, u16),
    destination_ports: (u16, u16),
    protocol: u8,
    flags: u8,
    flags_mask: u8,
    names_ports: u8,
}

const _: () = assert!(size_of::<Pattern>() == 28);

/// `void classify(const uint8_t *packets, size_t stride, const struct pattern *pattern,
/// size_t patterns, uint32_t *rules, size_t n)`.
// SAFETY: a type, that of the C function above.
type Classify = unsafe extern "C" fn(
    packets: *const u8,
    stride: usize,
    pattern: *const Pattern,
    patterns: usize,
    rules: *mut u32,
    count: usize,
);

/// The compiled program, a list, and packets.
#[derive(Debug)]
pub struct NaiveC {
    classify: Classify,
    /// Holds the code.
    _library: Library,
    patterns: Vec<Pattern>,
    layout: Layout,
    packets: Option<Region>,
    count: usize,
}

impl NaiveC {
    /// Compiles the program for `list`; files called `name` are left in `folder`.
    pub fn new(
        list: &RuleList,
        layout: Layout,
        compiler: &str,
        folder: &Path,
        name: &str,
    ) -> Result<Self> {
        let program = find(compiler).ok_or_else(|| format!("{compiler} is not installed"))?;
        let patterns = list.rules.iter().map(pattern).collect::<Result<_, _>>()?;
        let library = library(&program, flags(compiler), TEXT, folder, name)?;
        // SAFETY: the program defines `classify` with this type.
        let classify = unsafe { symbol(&library, c"classify")? };
        let (packets, count) = (None, 0);
        Ok(Self { classify, _library: library, patterns, layout, packets, count })
    }
}

impl Matcher for NaiveC {
    fn load(&mut self, keys: &[Key4]) -> Result<()> {
        let Layout { stride, start } = self.layout;
        if self.count != keys.len() {
            let region = Region::new(keys.len() * stride)?;
            (self.packets, self.count) = (Some(region), keys.len());
        }
        let packets = self.packets.as_mut().map_or(&mut [][..], Region::bytes_mut);
        let room = stride.min(start + FRAME) - start;
        for (slot, key) in packets.chunks_exact_mut(stride).zip(keys) {
            slot[start..start + room].copy_from_slice(&frame(key)[..room]);
        }
        Ok(())
    }

    fn touch(&self, first: usize, count: usize) -> u64 {
        let bytes = self.packets.as_ref().map_or(&[][..], Region::bytes);
        let packets = bytes.chunks_exact(self.layout.stride).skip(first).take(count);
        packets.map(|packet| u64::from(packet[0]) + u64::from(packet[FRAME - 1])).sum()
    }

    fn run(&mut self, _keys: &[Key4], first: usize, rules: &mut [u32]) {
        let Layout { stride, start } = self.layout;
        let packets = self.packets.as_ref().map_or(&[][..], Region::bytes);
        assert!(first + rules.len() <= self.count);
        // SAFETY: the code is loaded; `load` has laid out `count` packets, each with all
        // bytes that the program reads inside its stride, and `rules` has a place for each.
        unsafe {
            (self.classify)(
                packets.as_ptr().add(first * stride + start),
                stride,
                self.patterns.as_ptr(),
                self.patterns.len(),
                rules.as_mut_ptr(),
                rules.len(),
            );
        }
    }
}

/// A rule as a pattern, if the paper's language (section 3) has such rules.
fn pattern(rule: &Rule) -> Result<Pattern> {
    let refuse = |what: &str| Failure(format!("the naive C has no {what} like that of `{rule}`"));
    let address = |set| {
        let (address, length) = prefix(set)?;
        Some((address, u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)))
    };
    let (source, source_mask) = address(&rule.source).ok_or_else(|| refuse("source"))?;
    let (destination, destination_mask) =
        address(&rule.destination).ok_or_else(|| refuse("destination"))?;
    let ports = |test: &PortTest| match test {
        PortTest::Any => Some((0, u16::MAX)),
        PortTest::In(set) => <[_; 1]>::try_from(set.ranges()).ok().map(|[range]| range),
    };
    let (protocol, flags, flags_mask) = match &rule.protocol {
        ProtocolTest::Any => (0, 0, 0),
        ProtocolTest::Only(test) => {
            let mut protocols = test.protocols.iter();
            let (Some(protocol @ (TCP | UDP)), None, None) =
                (protocols.next(), protocols.next(), &test.icmp)
            else {
                return Err(refuse("protocol"));
            };
            match test.tcp_flags[..] {
                [] => (protocol, 0, 0),
                [FlagTest::Equal { mask, value }] => (protocol, value, mask),
                _ => return Err(refuse("test of flags")),
            }
        }
    };
    Ok(Pattern {
        source: source.to_be_bytes(),
        source_mask: source_mask.to_be_bytes(),
        destination: destination.to_be_bytes(),
        destination_mask: destination_mask.to_be_bytes(),
        source_ports: ports(&rule.source_ports).ok_or_else(|| refuse("ports"))?,
        destination_ports: ports(&rule.destination_ports).ok_or_else(|| refuse("ports"))?,
        protocol,
        flags,
        flags_mask,
        names_ports: u8::from([&rule.source_ports, &rule.destination_ports] != [&PortTest::Any; 2]),
    })
}

#[cfg(test)]
mod tests {
    use forebay_rules::language::yamaha;

    use super::*;
    use crate::suites::rules::engines::first_match;
    use crate::suites::rules::headers::{HeaderKind, draw};

    #[test]
    fn both_layouts_answer_as_the_oracle() {
        if find("gcc").is_none() {
            eprintln!("skipped: gcc is not installed");
            return;
        }
        let text = "ip filter 1 pass 10.0.0.0/24 192.0.2.1 tcp 1000-2000 80\n\
                    ip filter 2 reject 10.0.0.0/16 * established * *\n\
                    ip filter 3 pass 10.0.0.0/8 * * * 53\n\
                    ip filter 4 pass 10.0.0.0/8 192.0.2.0/24 * * *\n\
                    ip filter 5 pass * * udp * *\n";
        let list = yamaha::parse(text).unwrap().ascending();
        let keys = draw(&list, 5_000, HeaderKind::Packets, 5);
        let expected: Vec<u32> = keys.iter().map(|key| first_match(&list, key)).collect();
        let folder = tempfile::tempdir().unwrap();
        for layout in [PACKED, ALIGNED] {
            let name = format!("stride-{}", layout.stride);
            let made = NaiveC::new(&list, layout, "gcc", folder.path(), &name);
            let mut naive = made.unwrap();
            naive.load(&keys).unwrap();
            let mut rules = vec![0; keys.len()];
            naive.run(&keys[100..], 100, &mut rules[100..]);
            assert_eq!(rules[100..], expected[100..], "{name}");
        }
    }

    #[test]
    fn rules_that_the_paper_cannot_say_are_refused() {
        for text in
            ["* icmp 8 0", "10.0.0.1-10.0.0.2 tcp * *", "* tcp 1,3 *", "* tcpflag!=0x00/0x01 * *"]
        {
            let list = yamaha::parse(&format!("ip filter 1 pass * {text}")).unwrap().ascending();
            assert!(pattern(&list.rules[0]).is_err(), "{text}");
        }
    }
}
