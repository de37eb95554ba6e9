//! Literals and a text of any bytes: the engine at every level finds what the reference finds, in
//! a batch and in a stream of segments.
//!
//! An input is the number of literals, each as its length with a bit for whether case matters and
//! its bytes, the length of segments, and the text.
#![no_main]

#[path = "../../crates/forebay-scan/tests/support/mod.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod support;

use forebay_scan::LiteralSet;
use libfuzzer_sys::fuzz_target;

/// The literals and the rest of an input.
fn literals_of(data: &[u8]) -> Option<(LiteralSet, &[u8])> {
    let mut set = LiteralSet::new();
    let (&count, mut rest) = data.split_first()?;
    for _ in 0..count % 32 {
        let (&kind, bytes) = rest.split_first()?;
        let (literal, next) = bytes.split_at_checked(usize::from(kind & 0x7f).max(1))?;
        set.push(literal, kind & 0x80 != 0).ok()?;
        rest = next;
    }
    Some((set, rest))
}

fuzz_target!(|data: &[u8]| {
    let Some((set, rest)) = literals_of(data) else { return };
    let Some((&segment, text)) = rest.split_first() else { return };
    let engines = support::Engines::new(&set);
    let (first, second) = text.split_at(text.len() / 3);
    engines.assert_equal(&[first, text, second], "a batch");
    let segments: Vec<&[u8]> = text.chunks(usize::from(segment).max(1)).collect();
    engines.assert_equal_stream(&segments, "a stream");
});
