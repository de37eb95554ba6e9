//! The parser of Cisco's configurations: no text makes it panic, and parsed lists are
//! equivalent in our syntax.
#![no_main]

#[path = "support/rules.rs"]
mod rules;

use forebay_rules::language::{Format, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    rules::check_source(Format::Cisco, data, &Options::default());
});
