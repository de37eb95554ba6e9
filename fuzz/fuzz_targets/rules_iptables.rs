//! The reader of iptables-save and ip6tables-save: no text makes it panic, and what it
//! reads decides the same in our syntax.
#![no_main]

#[path = "support/rules.rs"]
mod rules;

use forebay_rules::Family;
use forebay_rules::language::iptables;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for family in [Family::Ipv4, Family::Ipv6] {
        for named in iptables::parse(text, family).unwrap_or_default() {
            rules::check(&named.list, data);
        }
    }
});
