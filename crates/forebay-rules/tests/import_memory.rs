//! What importing keeps, by the peak memory of the process: a program of its own.

#[path = "support/nftables.rs"]
mod nftables;

use std::fs;

use forebay_rules::language::{Format, Options, open};
use nftables::{source_is, with_set};

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

/// Each condition of another mask comes to a million ranges, of which a rule keeps one.
#[test]
fn what_conditions_on_sets_come_to_is_kept_within_a_limit() {
    // Bits that are 0 in all elements.
    let free = [20, 21, 22, 23, 24, 26, 28, 29, 30, 31];
    let pairs = (0..4).flat_map(|first| (5..10).map(move |second| (free[first], free[second])));
    let rules = pairs.map(|(first, second)| {
        let mask = !(0x1ff << 10 | 1 << first | 1_u32 << second);
        let conditions = [source_is(None, "10.0.0.1"), source_is(Some(mask), "@s")];
        conditions.join(",") + r#",{"accept":null}"#
    });
    let text = with_set(488, rules);
    let catalogue = open(Format::Nftables, &text, &Options::default()).unwrap();
    let before = peak();
    assert_eq!(catalogue.read(0).unwrap().list.list.rules.len(), 20);
    // All of them together are 640 MB.
    let grown = peak() - before;
    assert!((16 << 20..320 << 20).contains(&grown), "{grown} bytes");
}
