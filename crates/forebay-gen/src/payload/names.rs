//! Host names under the domains reserved for examples (RFC 2606).

use super::writer::Writer;
use forebay_packet::random::Random;

const FIRST: [&str; 12] = [
    "www", "api", "cdn", "img", "mail", "static", "login", "media", "updates", "shop", "data",
    "edge",
];
const SECOND: [&str; 12] = [
    "river", "harbour", "meadow", "granite", "lantern", "orchard", "saffron", "pebble", "walnut",
    "copper", "juniper", "heron",
];
const TOP: [&str; 3] = ["com", "net", "org"];

/// A host name of four labels.
#[derive(Clone, Copy, Debug)]
pub struct HostName {
    first: &'static str,
    number: u32,
    second: &'static str,
    top: &'static str,
}

impl HostName {
    /// A random name.
    pub fn new(random: &mut Random) -> Self {
        Self {
            first: FIRST[random.below(FIRST.len() as u64) as usize],
            number: random.below(100) as u32,
            second: SECOND[random.below(SECOND.len() as u64) as usize],
            top: TOP[random.below(TOP.len() as u64) as usize],
        }
    }

    /// Writes the name with dots.
    pub fn put_dotted(&self, writer: &mut Writer<'_>) {
        writer.put(self.first.as_bytes());
        writer.put_decimal(self.number);
        writer.put8(b'.');
        writer.put(self.second.as_bytes());
        writer.put(b".example.");
        writer.put(self.top.as_bytes());
    }

    /// Writes the name as DNS labels (RFC 1035 section 3.1).
    pub fn put_labels(&self, writer: &mut Writer<'_>) {
        let digits = if self.number < 10 { 1 } else { 2 };
        writer.put8((self.first.len() + digits) as u8);
        writer.put(self.first.as_bytes());
        writer.put_decimal(self.number);
        for label in [self.second, "example", self.top] {
            writer.put8(label.len() as u8);
            writer.put(label.as_bytes());
        }
        writer.put8(0);
    }
}
