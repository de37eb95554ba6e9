//! DNS queries and responses (RFC 1035, EDNS of RFC 6891).

use super::names::HostName;
use super::writer::Writer;
use forebay_packet::random::Random;

const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;
const CLASS_IN: u16 = 1;

/// A pointer to the name of the question, right behind the header (RFC 1035
/// section 4.1.4).
const QUESTION_NAME: u16 = 0xc00c;

/// One question: the seed determines both its query and its response.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    seed: u64,
}

impl Question {
    /// The question of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Writes the header and the question; returns the random stream after them, and the
    /// type of the question.
    fn put(self, writer: &mut Writer<'_>, flags: u16, answers: u16) -> (Random, u16) {
        let mut random = Random::new(self.seed);
        writer.put16(random.next() as u16);
        writer.put16(flags);
        writer.put16(1);
        writer.put16(answers);
        writer.put16(0);
        writer.put16(1);
        HostName::new(&mut random).put_labels(writer);
        let kind = if random.one_in(3) { TYPE_AAAA } else { TYPE_A };
        writer.put16(kind);
        writer.put16(CLASS_IN);
        (random, kind)
    }

    /// Writes the query; returns its length.
    pub fn write_query(self, out: &mut [u8]) -> usize {
        let mut writer = Writer::new(out);
        // Recursion desired.
        self.put(&mut writer, 0x0100, 0);
        put_opt(&mut writer);
        writer.len()
    }

    /// Writes the response: one to four addresses, or "no such name" once in
    /// sixteen; returns its length.
    pub fn write_response(self, out: &mut [u8]) -> usize {
        let mut writer = Writer::new(out);
        let mut outcome = Random::of_part(self.seed, 1);
        if outcome.one_in(16) {
            self.put(&mut writer, 0x8183, 0);
        } else {
            let answers = outcome.between(1, 4) as u16;
            let (mut random, kind) = self.put(&mut writer, 0x8180, answers);
            for _ in 0..answers {
                put_address(&mut writer, &mut random, kind);
            }
        }
        put_opt(&mut writer);
        writer.len()
    }
}

fn put_address(writer: &mut Writer<'_>, random: &mut Random, kind: u16) {
    writer.put16(QUESTION_NAME);
    writer.put16(kind);
    writer.put16(CLASS_IN);
    writer.put32(random.between(30, 86_400) as u32);
    writer.put_counted(|writer| {
        if kind == TYPE_AAAA {
            // The prefix for documentation (RFC 3849).
            writer.put32(0x2001_0db8);
            writer.put_random(random, 12);
        } else {
            // The block for benchmarks (RFC 2544).
            writer.put(&[198, 18]);
            writer.put_random(random, 2);
        }
    });
}

/// The OPT record: root name, payload of 1232 bytes, no options.
fn put_opt(writer: &mut Writer<'_>) {
    writer.put8(0);
    writer.put16(TYPE_OPT);
    writer.put16(1232);
    writer.put32(0);
    writer.put16(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_repeats_its_question() {
        for seed in 0..50 {
            let (mut query, mut response) = ([0; 512], [0; 512]);
            let question = Question::new(seed);
            let query_len = question.write_query(&mut query);
            let response_len = question.write_response(&mut response);
            assert_eq!(query[..2], response[..2], "same identifier");
            assert_eq!(query[2] & 0x80, 0);
            assert_eq!(response[2] & 0x80, 0x80);
            // The question ends where the query's OPT record, 11 bytes, begins.
            let end = query_len - 11;
            assert_eq!(query[12..end], response[12..end]);
            assert!(response_len >= query_len && response_len < 300);
        }
    }
}
