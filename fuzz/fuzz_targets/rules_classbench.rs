//! The parsers of ClassBench's filter sets and traces: no text makes them panic, a parsed
//! set is equivalent in our syntax, and a header survives printing and parsing.
#![no_main]

#[path = "support/rules.rs"]
mod rules;

use forebay_rules::language::classbench;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(list) = classbench::parse(text) {
        rules::check(&list, data);
    }
    for (index, line) in text.lines().enumerate() {
        if let Ok(Some(key)) = classbench::parse_header(index + 1, line) {
            assert_eq!(key.to_string().parse(), Ok(key));
        }
    }
});
