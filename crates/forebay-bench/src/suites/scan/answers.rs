//! What engines are to find, by an automaton over whole streams.

use aho_corasick::{AhoCorasickBuilder, MatchKind};

use super::engines::{Input, Set};
use super::literals::Text;
use crate::failure::Result;

/// The pairs of a payload and a literal in it, sorted. In streams a literal is in the payload in
/// which it ends.
pub fn expected(literals: &[Text], set: Set, input: &Input<'_>) -> Result<Vec<(u32, u32)>> {
    let automaton = AhoCorasickBuilder::new()
        .match_kind(MatchKind::Standard)
        .ascii_case_insensitive(true)
        .build(literals)?;
    let mut parts = vec![Vec::new(); if set == Set::Stream { input.stream_count } else { 0 }];
    let numbered = (0_u32..).zip(input.streams);
    match set {
        Set::Stream => numbered.for_each(|(number, &stream)| parts[stream as usize].push(number)),
        Set::Block | Set::Batch => parts.extend(numbered.map(|(number, _)| vec![number])),
    }
    let (mut pairs, mut whole, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for numbers in parts {
        whole.clear();
        ends.clear();
        for &number in &numbers {
            whole.extend_from_slice(input.texts[number as usize]);
            ends.push(whole.len());
        }
        let first = pairs.len();
        for found in automaton.find_overlapping_iter(&whole) {
            let part = ends.partition_point(|&end| end < found.end());
            pairs.push((numbers[part], found.pattern().as_u32()));
        }
        // Occurrences of a stream are in order, but literals are found many times in a payload.
        pairs[first..].sort_unstable();
        let mut kept = pairs.split_off(first);
        kept.dedup();
        pairs.append(&mut kept);
    }
    pairs.sort_unstable();
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_of_a_stream_is_in_the_payload_in_which_it_ends() {
        let literals = [b"abc".to_vec(), b"c".to_vec()];
        let texts: [&[u8]; 4] = [b"AB", b"ab", b"cabcC", b""];
        let input = Input { texts: &texts, streams: &[0, 1, 0, 1], stream_count: 2 };
        let pairs = |set| expected(&literals, set, &input).unwrap();
        assert_eq!(pairs(Set::Block), [(2, 0), (2, 1)]);
        assert_eq!(pairs(Set::Batch), pairs(Set::Block));
        assert_eq!(pairs(Set::Stream), pairs(Set::Block));
        let input = Input { streams: &[0, 0, 0, 0], stream_count: 1, ..input };
        let texts: [&[u8]; 4] = [b"AB", b"C", b"", b"cc"];
        let input = Input { texts: &texts, ..input };
        assert_eq!(expected(&literals, Set::Stream, &input).unwrap(), [(1, 0), (1, 1), (3, 1)]);
    }
}
