//! Sets of literals: of the rules in the data from outside the project, and larger ones made of
//! these.
//!
//! The literal of a rule is its longest positive content of four bytes or more, as prefilters
//! choose it, in any case. Generated sets have as many matches, and places that are worth a closer
//! look, as the set of all rules: what is frequent in traffic is in a few short literals, which a
//! larger set does not have more of.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use forebay_packet::random::Random;
use forebay_scan::{Engine, LiteralSet, Matches, Scanner};

use crate::failure::{During, Result};

/// The fewest bytes of a literal.
const LEAST: usize = 4;

/// Pieces of payloads that generated literals are chosen from.
const PIECES: usize = 8_000;

/// Spliced literals that one is chosen from.
const SPLICES: usize = 8;

const SEED: u64 = 20_261_124;

/// A byte string in lower case.
pub type Text = Vec<u8>;

/// What a set has in a megabyte of a traffic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// Pairs of a payload and a literal in it.
    pub hits: f64,
    /// Places with the window of a literal: those of its four bytes in a row that are the rarest
    /// in the traffic.
    pub candidates: f64,
}

/// The files of rules in a folder, in order.
pub fn rule_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).during(folder.display())? {
        files.push(entry.during(folder.display())?.path());
    }
    files.retain(|file| file.extension().is_some_and(|end| end == "rules"));
    files.sort();
    Ok(files)
}

/// The literals of the rules in a folder, in the order of the rules.
pub fn of_rules(folder: &Path) -> Result<Vec<Text>> {
    let reading = format!("reading the rules in {}", folder.display());
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for file in rule_files(folder)? {
        let bytes = fs::read(&file).during(&reading)?;
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"alert")) {
            let contents = contents(line).into_iter().filter(|text| text.len() >= LEAST);
            // Of equally long ones the first.
            let longest = contents.rev().max_by_key(Vec::len);
            found.extend(longest.filter(|text| seen.insert(text.clone())));
        }
    }
    if found.is_empty() { Err(format!("{reading}: none has a content").into()) } else { Ok(found) }
}

/// The positive contents of a rule, in lower case.
fn contents(rule: &[u8]) -> Vec<Text> {
    let mut found = Vec::new();
    for option in options(rule) {
        let Some(value) = option.strip_prefix(b"content:") else { continue };
        let quoted =
            value.trim_ascii().strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        found.extend(quoted.and_then(bytes_of));
    }
    found
}

/// The options of a rule: what is between semicolons that are not quoted or escaped.
fn options(rule: &[u8]) -> Vec<&[u8]> {
    let body = rule.iter().position(|&byte| byte == b'(').map_or(&rule[..0], |at| &rule[at + 1..]);
    let (mut found, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, &byte) in body.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => {
                found.push(body[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The bytes of a content: escaped ones, and in hexadecimal between bars.
fn bytes_of(text: &[u8]) -> Option<Text> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let [first, others @ ..] = rest {
        rest = others;
        match first {
            b'|' => {
                let end = rest.iter().position(|&byte| byte == b'|')?;
                let digits = std::str::from_utf8(&rest[..end]).ok()?;
                for pair in digits.split_whitespace() {
                    bytes.push(u8::from_str_radix(pair, 16).ok()?);
                }
                rest = &rest[end + 1..];
            }
            b'\\' => {
                bytes.push(*rest.first()?);
                rest = &rest[1..];
            }
            &byte => bytes.push(byte),
        }
    }
    bytes.make_ascii_lowercase();
    Some(bytes)
}

/// So many of `all`, drawn, in their order.
pub fn drawn(all: &[Text], count: usize) -> Vec<Text> {
    let mut numbers = Random::new(SEED).draw(count, all.len());
    numbers.sort_unstable();
    numbers.into_iter().map(|number| all[number as usize].clone()).collect()
}

/// The set as the engines take it: in any case.
pub fn set_of(literals: &[Text]) -> Result<LiteralSet> {
    let mut set = LiteralSet::new();
    for literal in literals {
        set.push(literal, true)?;
    }
    Ok(set)
}

/// Payloads, with how often each four bytes in a row are in them.
pub struct Sample<'a> {
    texts: &'a [&'a [u8]],
    megabytes: f64,
    windows: HashMap<[u8; LEAST], u32>,
}

impl<'a> Sample<'a> {
    pub fn new(texts: &'a [&'a [u8]]) -> Self {
        let mut windows = HashMap::new();
        for text in texts {
            for window in text.windows(LEAST) {
                *windows.entry(folded(window)).or_insert(0) += 1;
            }
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        Self { texts, megabytes: bytes as f64 / 1e6, windows }
    }

    /// The rarest window of a literal, and how often it is in the payloads.
    fn rarest(&self, literal: &[u8]) -> ([u8; LEAST], u32) {
        let counted = literal.windows(LEAST).map(|window| {
            let window = folded(window);
            (window, self.windows.get(&window).copied().unwrap_or(0))
        });
        counted.min_by_key(|&(_, count)| count).unwrap_or_default()
    }

    /// In how many payloads each literal is.
    fn hits(&self, literals: &[Text]) -> Result<Vec<u64>> {
        let scanner = Scanner::compile(&set_of(literals)?, Engine::Oracle)?;
        let (mut scratch, mut matches) = (scanner.scratch(), Matches::new());
        scanner.scan(self.texts, &mut scratch, &mut matches);
        let mut hits = vec![0; literals.len()];
        matches.as_slice().iter().for_each(|hit| hits[hit.literal as usize] += 1);
        Ok(hits)
    }

    /// The rates of a set.
    pub fn rates(&self, literals: &[Text]) -> Result<Rates> {
        let windows: HashMap<_, u32> =
            literals.iter().map(|literal| self.rarest(literal)).collect();
        let candidates: u64 = windows.values().map(|&count| u64::from(count)).sum();
        let hits: u64 = self.hits(literals)?.iter().sum();
        let megabytes = self.megabytes;
        Ok(Rates { hits: hits as f64 / megabytes, candidates: candidates as f64 / megabytes })
    }

    /// So many literals with the rates of `rules`: a half of these, pieces of payloads, and
    /// splices of two rules' literals.
    pub fn generate(&self, rules: &[Text], count: usize) -> Result<Vec<Text>> {
        let mut random = Random::of_part(SEED, count as u64);
        let wanted = self.rates(rules)?;
        let candidates = wanted.candidates * self.megabytes;
        let kept = drawn(rules, (rules.len() / 2).min(count));
        let mut left = (wanted.hits - self.rates(&kept)?.hits) * self.megabytes;
        let mut made = Made::new(self, &kept);
        let pieces = self.pieces(&mut random, rules);
        let counts = self.hits(&pieces)?;
        for (piece, hits) in pieces.into_iter().zip(counts) {
            let fits = made.candidates + f64::from(made.new_candidates(&piece)) <= candidates;
            if fits && hits as f64 <= left && made.all.len() < count && made.add(piece) {
                left -= hits as f64;
            }
        }
        while made.all.len() < count {
            // Of several the one that brings the candidates closest to their proper number, and of
            // these the one that is the least likely to be in the traffic.
            let wanted = (candidates - made.candidates).max(0.0) / (count - made.all.len()) as f64;
            let spliced = (0..SPLICES).map(|_| splice(&mut random, rules));
            let distance = |text: &Text| (f64::from(made.new_candidates(text)) - wanted).abs();
            let best = spliced.min_by(|a, b| {
                let rarity = || self.rarest(a).1.cmp(&self.rarest(b).1);
                distance(a).total_cmp(&distance(b)).then_with(rarity)
            });
            best.into_iter().for_each(|text| _ = made.add(text));
        }
        Ok(made.all)
    }

    /// Pieces of payloads as long as rules' literals.
    fn pieces(&self, random: &mut Random, rules: &[Text]) -> Vec<Text> {
        let piece = |_| {
            let len = rules[random.index(rules.len())].len();
            let text = self.texts[random.index(self.texts.len())];
            let start = random.index(text.len().checked_sub(len)? + 1);
            Some(text[start..start + len].to_ascii_lowercase())
        };
        (0..PIECES).filter_map(piece).collect()
    }
}

/// A set that is being generated.
struct Made<'a> {
    sample: &'a Sample<'a>,
    all: Vec<Text>,
    seen: HashSet<Text>,
    windows: HashSet<[u8; LEAST]>,
    candidates: f64,
}

impl<'a> Made<'a> {
    fn new(sample: &'a Sample<'a>, rules: &[Text]) -> Self {
        let (all, seen, windows) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut made = Self { sample, all, seen, windows, candidates: 0.0 };
        rules.iter().for_each(|text| _ = made.add(text.clone()));
        made
    }

    /// Places that a literal adds to those of all.
    fn new_candidates(&self, text: &Text) -> u32 {
        let (window, count) = self.sample.rarest(text);
        if self.windows.contains(&window) { 0 } else { count }
    }

    /// Adds a literal, unless it is there.
    fn add(&mut self, text: Text) -> bool {
        let (window, count) = self.sample.rarest(&text);
        if !self.seen.insert(text.clone()) {
            return false;
        }
        if self.windows.insert(window) {
            self.candidates += f64::from(count);
        }
        self.all.push(text);
        true
    }
}

/// The beginning of a literal and the end of another.
fn splice(random: &mut Random, rules: &[Text]) -> Text {
    let [first, second] = [0; 2].map(|_| &rules[random.index(rules.len())]);
    let head = &first[..random.between(2, first.len() as u64) as usize];
    let tail = &second[random.below(second.len() as u64 - 1) as usize..];
    [head, tail].concat()
}

fn folded(window: &[u8]) -> [u8; LEAST] {
    let mut folded = [0; LEAST];
    folded.copy_from_slice(window);
    folded.make_ascii_lowercase();
    folded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_gives_its_positive_contents() {
        let rule = br#"alert tcp any any -> any 80 (msg:"a; content:\"no\""; content:"GET |20 2f|"; nocase; content:!"none"; content:"a\"b\;c"; sid:1;)"#;
        assert_eq!(contents(rule), [b"get  /".to_vec(), b"a\"b;c".to_vec()]);
        assert_eq!(bytes_of(b"|0|"), Some(vec![0]));
        assert_eq!((bytes_of(b"|0"), bytes_of(b"a\\")), (None, None));
    }

    #[test]
    fn generated_sets_have_the_rates_of_the_rules_they_are_made_of() {
        let words: Vec<Text> = (0..200_u32).map(|n| format!("word{:x}", n * 7919).into()).collect();
        let mut random = Random::new(7);
        let text = |_| -> Text {
            let some: Vec<&[u8]> = (0..60).map(|_| &words[random.index(200)][..]).collect();
            some.join(&b" "[..])
        };
        let texts: Vec<Text> = (0..300).map(text).collect();
        let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let sample = Sample::new(&slices);
        let rules = &words[..100];
        let real = sample.rates(rules).unwrap();
        let made = sample.generate(rules, 400).unwrap();
        assert_eq!(made.len(), 400);
        let rates = sample.rates(&made).unwrap();
        let near = |one: f64, other: f64| (0.8..1.1).contains(&(one / other));
        assert!(near(rates.hits, real.hits), "{rates:?} {real:?}");
        assert!(rates.candidates > 0.8 * real.candidates, "{rates:?} {real:?}");
    }
}
