//! The words of an entry behind its addresses and ports.

use super::fields::Service;
use crate::language::error::ParseError;
use crate::language::names::tcp_flag;
use crate::language::words::{Words, number};
use crate::rule::{FlagTest, TCP};

/// What the words behind the addresses say.
#[derive(Default)]
pub(super) struct Options {
    pub log: bool,
    pub tcp_flags: Vec<FlagTest>,
    /// The entry is there and not in force.
    pub inactive: bool,
    /// A number, where it is last.
    pub number: Option<u32>,
    /// Conditions that packets alone do not answer, or not to these rules.
    pub conditions: Vec<String>,
}

/// How such a condition is refused.
pub(super) const EXPECTED: &str =
    "the end of the line, `log`, or a test of what a rule can ask of a packet";

/// Conditions with the number of words behind each.
const CONDITIONS: [(&str, usize); 14] = [
    ("fragments", 0),
    ("dscp", 1),
    ("precedence", 1),
    ("tos", 1),
    ("option", 1),
    ("time-range", 1),
    ("flow-label", 1),
    ("routing", 0),
    ("routing-type", 1),
    ("mobility", 0),
    ("mobility-type", 1),
    ("dest-option", 0),
    ("tracked", 0),
    ("nexthop-ip", 1),
];

/// Levels of ASA's `log`.
const LEVELS: [&str; 9] = [
    "emergencies",
    "alerts",
    "critical",
    "errors",
    "warnings",
    "notifications",
    "informational",
    "debugging",
    "default",
];

impl Options {
    /// Reads the rest of an entry of `service`.
    pub fn read(service: &Service, words: &mut Words) -> Result<Self, ParseError> {
        let mut options = Self::default();
        while let Some(word) = words.peek() {
            options.word(word, service, words)?;
        }
        Ok(options)
    }

    fn word(&mut self, word: &str, service: &Service, words: &mut Words) -> Result<(), ParseError> {
        let tcp = service.protocol == Some(TCP);
        if let Some((_, behind)) = CONDITIONS.iter().find(|entry| entry.0 == word) {
            words.take();
            let mut condition = word.to_owned();
            for _ in 0..*behind {
                let value = words.need("the value of a condition")?;
                condition = format!("{condition} {value}");
            }
            self.conditions.push(condition);
            return Ok(());
        }
        let bit = tcp_flag(word).filter(|_| tcp);
        match word {
            "log" | "log-input" => {
                words.take();
                self.log = self.logs(words)?;
            }
            "inactive" => {
                words.take();
                self.inactive = true;
            }
            "sequence" => {
                words.take();
                self.number = Some(words.number("a sequence number")?);
            }
            "rule-id" => {
                words.take();
                words.need("the number of a rule")?;
            }
            // Adds entries to another list, and leaves this one as it is.
            "reflect" => {
                words.take();
                words.need("the name of a list")?;
                if words.take_if("timeout") {
                    words.number::<u32>("seconds")?;
                }
            }
            "established" if tcp => {
                words.take();
                self.tcp_flags.push(FlagTest::ESTABLISHED_CISCO);
            }
            "match-any" | "match-all" if tcp && self.tcp_flags.is_empty() => {
                words.take();
                self.tcp_flags = flag_list(word, words)?;
            }
            _ => match bit {
                Some(bit) => {
                    words.take();
                    self.tcp_flags.push(FlagTest::set(bit));
                }
                // What the word means, and which words go with it, is not known.
                None => {
                    self.inactive |= words.ends_with("inactive");
                    self.conditions.push(words.rest());
                }
            },
        }
        Ok(())
    }

    /// What may follow `log`: a level, an interval, `disable`, or a cookie at the end.
    fn logs(&self, words: &mut Words) -> Result<bool, ParseError> {
        let mut logs = true;
        while let Some(word) = words.peek() {
            let is_level = LEVELS.contains(&word) || number::<u8>(word).is_some_and(|n| n < 8);
            match word {
                "disable" => logs = false,
                "interval" => {
                    words.take();
                    words.number::<u32>("seconds")?;
                    continue;
                }
                _ if is_level => {}
                _ if words.left() == 1 && !is_option(word) => {}
                _ => break,
            }
            words.take();
        }
        Ok(logs)
    }
}

/// Whether a word is more than a cookie of `log`.
fn is_option(word: &str) -> bool {
    let others = ["established", "inactive", "log", "log-input"];
    tcp_flag(word).is_some()
        || others.contains(&word)
        || CONDITIONS.iter().any(|entry| entry.0 == word)
}

/// `+ack -syn …` after `match-any` or `match-all`.
fn flag_list(how: &str, words: &mut Words) -> Result<Vec<FlagTest>, ParseError> {
    let (mut set, mut clear) = (0, 0);
    while let Some(word) = words.peek() {
        let (side, name) = match word.split_at_checked(1) {
            Some(("+", name)) => (&mut set, name),
            Some(("-", name)) => (&mut clear, name),
            _ => break,
        };
        *side |= tcp_flag(name).ok_or_else(|| words.error(word, "`+` or `-` and a TCP flag"))?;
        words.take();
    }
    if set | clear == 0 || set & clear != 0 {
        let found = words.peek().unwrap_or(how);
        return Err(words.error(found, "`+` or `-` before each TCP flag, each flag once"));
    }
    if how == "match-all" {
        return Ok(vec![FlagTest::Equal { mask: set | clear, value: set }]);
    }
    let bits = (0..8).map(|bit| 1_u8 << bit);
    let tests = bits.filter_map(|bit| {
        let wanted = (set & bit != 0).then(|| FlagTest::set(bit));
        wanted.or_else(|| (clear & bit != 0).then(|| FlagTest::clear(bit)))
    });
    Ok(tests.collect())
}
