//! Rules of intrusion detection systems, judged without the product's code: a matcher, and traffic on
//! which it fires.

mod decode;
pub mod make;
pub mod reference;

use std::fs;
use std::net::IpAddr;

use reference::Rule;

/// The rules of the larger test data, those that are commented out too; without it the test is
/// [`skipped`](crate::skipped).
///
/// # Panics
/// The data has no rules.
#[must_use]
pub fn lines() -> Option<Vec<String>> {
    let folder = crate::data::external()?.join("ids-rules");
    let files = fs::read_dir(&folder).expect("the test data has a folder of rules");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "rules"));
    files.sort();
    let mut lines = Vec::new();
    for file in files {
        let text = fs::read(file).expect("a file of rules can be read");
        let text = String::from_utf8_lossy(&text);
        let rules = text.lines().map(|line| line.trim_start_matches(['#', ' ']).trim());
        let rules = rules.filter(|line| line.starts_with("alert ") && line.ends_with(')'));
        lines.extend(rules.map(str::to_owned));
    }
    assert!(!lines.is_empty(), "no rules in {}", folder.display());
    Some(lines)
}

/// Protocol, source and destination of a flow that meets a rule's header.
#[must_use]
pub fn ends(rule: &Rule) -> (u8, [(IpAddr, u16); 2]) {
    let protocol = match rule.protocol.as_str() {
        "udp" | "dns" => 17,
        "icmp" => 1,
        _ => 6,
    };
    let source = end(&rule.source, ("192.0.2.1", 40_000));
    let destination = end(&rule.destination, ("198.51.100.2", 40_001));
    (protocol, [source, destination])
}

/// An address and a port of lists; the default where a list has none.
fn end((addresses, ports): &(String, String), default: (&str, u16)) -> (IpAddr, u16) {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(['[', ']', ',']).filter(|word| !word.starts_with('!'));
        words.map(str::to_owned).collect()
    };
    let address = words(addresses)
        .iter()
        .find_map(|word| word.split('/').next()?.parse().ok())
        .unwrap_or_else(|| default.0.parse().expect("an address"));
    let port = words(ports)
        .iter()
        .find_map(|word| word.split(':').find_map(|number| number.parse().ok()))
        .unwrap_or(default.1);
    (address, port)
}
