//! The reader of Cisco access lists: no text makes it panic, and what it reads decides
//! the same in our syntax.
#![no_main]

#[path = "support/rules.rs"]
mod rules;

use forebay_rules::language::cisco;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for named in cisco::parse(text).unwrap_or_default() {
        rules::check(&named.list, data);
    }
});
