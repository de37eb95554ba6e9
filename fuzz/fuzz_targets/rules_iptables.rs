//! The parser of iptables-save and ip6tables-save: no text makes it panic, and parsed lists
//! are equivalent in our syntax.
#![no_main]

#[path = "support/rules.rs"]
mod rules;

use forebay_rules::Family;
use forebay_rules::language::{Direction, Format, Options};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for family in [Family::Ipv4, Family::Ipv6] {
        let interface = Some(("eth0".to_owned(), Direction::In));
        let options = Options { family: Some(family), interface, ..Options::default() };
        rules::check_source(Format::Iptables, data, &options);
    }
});
