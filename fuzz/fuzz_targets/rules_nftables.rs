//! The parser of nftables' JSON: no text makes it panic, and parsed lists are equivalent in
//! our syntax.
#![no_main]

#[path = "support/rules.rs"]
mod rules;

use forebay_rules::language::{Format, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    rules::check_source(Format::Nftables, data, &Options::default());
});
