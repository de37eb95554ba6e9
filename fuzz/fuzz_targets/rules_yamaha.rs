//! The parser of our own rule lists: no text makes it panic, and every parsed list survives
//! printing and parsing.
#![no_main]

#[path = "support/rules.rs"]
mod rules;

use forebay_rules::language::yamaha;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(document) = yamaha::parse(text) else { return };
    let applied = document.names().filter_map(|name| document.list(name));
    for list in applied.chain([document.ascending()]) {
        let printed = list.to_string();
        let again = yamaha::parse(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
        assert_eq!(again.only_list().as_ref(), Some(&list), "{printed}");
        rules::check(&list, data);
    }
});
