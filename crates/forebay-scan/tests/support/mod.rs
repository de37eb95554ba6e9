//! Scans by every engine, at every level, and the comparison of their matches.
#![allow(dead_code, reason = "each test program uses a part")]

use forebay_packet::Vectors;
use forebay_packet::random::Random;
use forebay_scan::{Engine, LiteralSet, Match, Matches, Scanner, StreamPart, StreamState};

/// A set of these literals.
pub fn set(literals: &[(impl AsRef<[u8]>, bool)]) -> LiteralSet {
    let mut set = LiteralSet::new();
    for (bytes, nocase) in literals {
        set.push(bytes.as_ref(), *nocase).unwrap();
    }
    set
}

/// The reference, and the engine at each level of this machine.
pub struct Engines {
    pub oracle: Scanner,
    pub levels: Vec<(Vectors, Scanner)>,
}

impl Engines {
    pub fn new(set: &LiteralSet) -> Self {
        let oracle = Scanner::compile(set, Engine::Oracle).unwrap();
        let here = Vectors::ALL.into_iter().filter(|vectors| vectors.are_here());
        let level = |vectors| Scanner::compile_for(set, Engine::Simd, vectors).unwrap();
        Self { oracle, levels: here.map(|vectors| (vectors, level(vectors))).collect() }
    }

    /// Asserts that all find the same in a batch of texts. Returns the number of matches.
    pub fn assert_equal(&self, texts: &[&[u8]], context: &str) -> usize {
        let expected = scan(&self.oracle, texts);
        for (vectors, scanner) in &self.levels {
            if let Some(difference) = difference(&expected, &scan(scanner, texts)) {
                panic!("{context}, {vectors:?}: {difference}");
            }
        }
        expected.len()
    }

    /// Asserts that all find the same in a stream of segments.
    pub fn assert_equal_stream(&self, segments: &[&[u8]], context: &str) -> usize {
        let expected = scan_stream(&self.oracle, segments);
        for (vectors, scanner) in &self.levels {
            if let Some(difference) = difference(&expected, &scan_stream(scanner, segments)) {
                panic!("{context}, {vectors:?}, segments {:?}: {difference}", lens(segments));
            }
            if let Some(difference) = difference(&expected, &scan_parts(scanner, segments)) {
                panic!("{context}, {vectors:?}, parts {:?}: {difference}", lens(segments));
            }
        }
        expected.len()
    }
}

fn lens(segments: &[&[u8]]) -> Vec<usize> {
    segments.iter().map(|segment| segment.len()).collect()
}

/// The matches in a batch, in order of text.
pub fn scan(scanner: &Scanner, texts: &[&[u8]]) -> Vec<Match> {
    let mut matches = Matches::new();
    scanner.scan(texts, &mut scanner.scratch(), &mut matches);
    matches.as_slice().to_vec()
}

/// The matches of each segment of a stream, as of a text with its number.
pub fn scan_stream(scanner: &Scanner, segments: &[&[u8]]) -> Vec<Match> {
    let (mut state, mut scratch) = (StreamState::default(), scanner.scratch());
    let mut matches = Matches::new();
    for (number, segment) in (0..).zip(segments) {
        scanner.scan_stream(number, segment, &mut state, &mut scratch, &mut matches);
        let most = 64 + scanner.max_literal_len();
        assert!(state.memory() <= most, "{} bytes of state, expected {most}", state.memory());
    }
    matches.as_slice().to_vec()
}

/// As [`scan_stream`], one to three segments together, among those of another stream, whose matches
/// are left out.
fn scan_parts(scanner: &Scanner, segments: &[&[u8]]) -> Vec<Match> {
    const OTHER: u32 = 1 << 31;
    let (mut states, mut scratch) = (<[StreamState; 2]>::default(), scanner.scratch());
    let mut matches = Matches::new();
    let (mut rest, mut number) = (segments, 0);
    while !rest.is_empty() {
        let (together, others) = rest.split_at((1 + number as usize % 3).min(rest.len()));
        rest = others;
        // Their parts in turns; the other stream has the segments in another order.
        let parts = together.iter().flat_map(|segment| {
            let other = segments[segments.len() - 1 - number as usize];
            number += 1;
            [(number - 1, *segment, 0), (OTHER, other, 1)]
        });
        let parts: Vec<_> = parts
            .map(|(text, bytes, stream)| {
                let state: &mut StreamState = &mut states[stream];
                let before = (state.tail().to_vec(), state.again());
                scanner.append(bytes, state);
                (text, bytes, before)
            })
            .collect();
        let list: Vec<StreamPart<'_>> = parts
            .iter()
            .map(|(text, bytes, (head, again))| StreamPart {
                text: *text,
                head,
                bytes,
                again: *again,
            })
            .collect();
        scanner.scan_parts(&list, &mut scratch, &mut matches);
        for (state, again) in states.iter_mut().zip(&scratch.again()[list.len() - 2..]) {
            state.set_again(*again);
        }
    }
    matches.as_slice().iter().filter(|found| found.text < OTHER).copied().collect()
}

/// What differs: matches that are missing, that are too many, or that are out of order.
pub fn difference(expected: &[Match], found: &[Match]) -> Option<String> {
    let sorted = |matches: &[Match]| {
        let mut sorted = matches.to_vec();
        sorted.sort_unstable();
        sorted
    };
    let (expected, in_order) = (sorted(expected), sorted(found));
    if !found.is_sorted_by_key(|found| found.text) {
        return Some(format!("expected matches in order of texts, found {found:?}"));
    }
    if let Some(twice) = in_order.windows(2).find(|pair| pair[0] == pair[1]) {
        return Some(format!("{:?} is reported twice", twice[0]));
    }
    let missing = expected.iter().find(|found| in_order.binary_search(found).is_err());
    let surplus = in_order.iter().find(|found| expected.binary_search(found).is_err());
    match (missing, surplus) {
        (None, None) => None,
        (missing, surplus) => Some(format!("missing {missing:?}, too many {surplus:?}")),
    }
}

/// A random string over the first letters of an alphabet.
pub fn string(random: &mut Random, alphabet: &[u8], len: usize) -> Vec<u8> {
    (0..len).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect()
}
