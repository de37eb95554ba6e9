//! The engine at every level finds what the reference finds.

mod support;

use forebay_packet::random::Random;
use forebay_scan::{Engine, LiteralSet, Scanner};
use forebay_testkit::{capture, data};
use support::{Engines, difference, scan, set, string};

/// Alphabets of few bytes, so that literals overlap, repeat, and contain each other.
const ALPHABETS: &[&[u8]] =
    &[b"ab", b"aAbB", b"\0\x01", b"xX\0 ", b"abcdefgh", b"@AZ[`az{", b"\x00\x20\x80\xa0"];

fn random_set(random: &mut Random, alphabet: &[u8], count: u64) -> LiteralSet {
    let mut set = LiteralSet::new();
    while (set.len() as u64) < count {
        let len = match random.below(4) {
            0 => 1 + random.below(3),
            1 => 4 + random.below(3),
            2 => 7 + random.below(6),
            _ => 1 + random.below(40),
        };
        let literal = string(random, alphabet, len as usize);
        let nocase = random.below(2) == 0;
        set.push(&literal, nocase).unwrap();
        match random.below(8) {
            // A duplicate, a prefix, a suffix, another case.
            0 => drop(set.push(&literal, nocase)),
            1 => drop(set.push(&literal[..literal.len().div_ceil(2)], nocase)),
            2 => drop(set.push(&literal[literal.len() / 2..], nocase)),
            3 => drop(set.push(&literal.to_ascii_uppercase(), !nocase)),
            _ => {}
        }
    }
    set
}

#[test]
fn random_texts_over_small_alphabets() {
    let mut random = Random::new(1);
    let mut found = 0;
    for round in 0..200 {
        let alphabet = ALPHABETS[round % ALPHABETS.len()];
        let count = 1 + random.below([3, 30, 200][round % 3]);
        let engines = Engines::new(&random_set(&mut random, alphabet, count));
        let texts: Vec<Vec<u8>> = (0..20)
            .map(|_| {
                let len = random.below(200) as usize;
                let mut text = string(&mut random, alphabet, len);
                if random.below(3) == 0 {
                    // Runs, which random strings do not have.
                    let (byte, at) = (alphabet[0], random.below(len as u64 + 1) as usize);
                    let run = vec![byte; random.below(60) as usize];
                    text.splice(at..at, run);
                }
                text
            })
            .collect();
        let texts: Vec<&[u8]> = texts.iter().map(|text| &text[..]).collect();
        found += engines.assert_equal(&texts, &format!("round {round}"));
    }
    assert!(found > 10_000, "{found} matches are too few to have compared anything");
}

#[test]
fn random_streams_of_random_segments() {
    let mut random = Random::new(2);
    let mut found = 0;
    for round in 0..200 {
        let alphabet = ALPHABETS[round % ALPHABETS.len()];
        let count = 1 + random.below(20);
        let engines = Engines::new(&random_set(&mut random, alphabet, count));
        let text = string(&mut random, alphabet, 400);
        let mut segments = Vec::new();
        let (mut rest, most) = (&text[..], 2 + random.below(60));
        while !rest.is_empty() {
            let len = random.below(most) as usize;
            let (segment, next) = rest.split_at(len.min(rest.len()));
            segments.push(segment);
            rest = next;
        }
        found += engines.assert_equal_stream(&segments, &format!("round {round}"));
    }
    assert!(found > 10_000, "{found} matches are too few to have compared anything");
}

/// Literals of 2 and 3 bytes, from few to so many that their windows share slots, in texts made of
/// them: each again and again, cut, in other cases, and across the ends of texts and segments.
#[test]
fn many_short_literals() {
    let mut random = Random::new(3);
    let mut found = 0;
    for (round, count) in [20, 100, 1_000, 4_000].into_iter().cycle().take(40).enumerate() {
        let bytes: Vec<u8> = (0..=255).collect();
        // Of a part of the bytes, so that literals have windows in common.
        let alphabet = &bytes[..[256, 128][round % 2]];
        let mut literals = Vec::new();
        for _ in 0..count {
            let len = 2 + random.below(2) as usize;
            literals.push((string(&mut random, alphabet, len), random.below(3) > 0));
        }
        let engines = Engines::new(&set(&literals));
        let mut text = Vec::new();
        while text.len() < 4_000 {
            let (literal, _) = &literals[random.below(60.min(count)) as usize];
            let mut literal = literal.clone();
            match random.below(6) {
                0 => literal.make_ascii_uppercase(),
                1 => literal.make_ascii_lowercase(),
                2 => literal.truncate(1),
                3 => literal = string(&mut random, alphabet, 3),
                _ => {}
            }
            text.extend(literal);
        }
        let mut pieces = Vec::new();
        let mut rest = &text[..];
        while !rest.is_empty() {
            let (piece, next) = rest.split_at((random.below(40) as usize).min(rest.len()));
            pieces.push(piece);
            rest = next;
        }
        found += engines.assert_equal(&[&text], &format!("round {round}, one text"));
        found += engines.assert_equal(&pieces, &format!("round {round}, texts"));
        found += engines.assert_equal_stream(&pieces, &format!("round {round}"));
    }
    assert!(found > 10_000, "{found} matches are too few to have compared anything");
}

/// Behind the part of a text that fits the buffer are zeros, which are not of the text.
#[test]
fn a_short_literal_that_the_end_of_a_buffer_seems_to_complete() {
    let engines = Engines::new(&set(&[("x\0", true)]));
    for end in 8_100..8_200 {
        let text = [&vec![b'y'; end - 1][..], b"x", &[b'y'; 100], b"x\0"].concat();
        assert_eq!(engines.assert_equal(&[&text], &format!("{end} bytes")), 1);
    }
}

/// Literals of every kind, for the tests of places.
const KINDS: &[(&[u8], bool)] = &[
    (b"q", false),
    (b"K", true),
    (b"qj", true),
    (b"\0\0", false),
    (b"zz", false),
    (b"ZZZ", false),
    (b"zZ", false),
    (b"vwx", false),
    (b"aaaaaaa", true),
    (b"vwxy", true),
    (b"Vwxyu", false),
    (b"VWXYUT", false),
    (b"region7", true),
    (b"region7 and more of it", false),
    (b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", true),
    (b"baaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true),
    (b"xXxXxXxXxX", false),
    (b"AaAa", false),
    (b"\x00\x01\x00\x01\x00\x01\x00\x01", false),
    (b"\xff\xfe\xfd", false),
];

#[test]
fn literals_at_every_position_of_a_text() {
    let engines = Engines::new(&set(KINDS));
    for (literal, _) in KINDS {
        for filler in [b'.', literal[0], *literal.last().unwrap()] {
            for before in 0..140 {
                for behind in [0, 1, 3, 64] {
                    let mut text = vec![filler; before];
                    text.extend_from_slice(literal);
                    text.resize(text.len() + behind, filler);
                    let neighbour = text.clone();
                    let found = engines.assert_equal(&[&text, &neighbour], "a place");
                    assert!(found >= 2, "{literal:?} is not found");
                }
            }
        }
    }
}

#[test]
fn every_split_of_a_stream_in_three() {
    let engines = Engines::new(&set(KINDS));
    for (literal, _) in KINDS {
        let text = [b"aq", *literal, b"zKa"].concat();
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let segments = [&text[..first], &text[first..second], &text[second..]];
                assert!(engines.assert_equal_stream(&segments, "a split") > 0);
            }
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        engines.assert_equal_stream(&bytes, "bytes");
    }
}

#[test]
fn texts_that_are_longer_than_the_buffer() {
    let mut random = Random::new(3);
    let mut literals: Vec<(Vec<u8>, bool)> =
        KINDS.iter().map(|(bytes, nocase)| (bytes.to_vec(), *nocase)).collect();
    literals.push((vec![b'r'; 4096], true));
    literals.push((vec![b'R'; 2000], false));
    literals.push((string(&mut random, b"abcdefgh", 4096), false));
    let engines = Engines::new(&set(&literals));
    for (number, (literal, _)) in literals.iter().enumerate() {
        for place in [0, 1, 8150, 8180, 8184, 8185, 8191, 8192, 12_000, 16_370, 20_000] {
            let mut text = vec![b'.'; place + random.below(9) as usize];
            text.extend_from_slice(literal);
            text.extend_from_slice(&[b','; 9000]);
            let short = &text[text.len() - 50..];
            let found = engines.assert_equal(&[short, &text, short, &text], "a long text");
            assert!(found >= 2, "literal {number} is not found at {place}");
            let (first, rest) = text.split_at(random.below(text.len() as u64) as usize);
            assert!(engines.assert_equal_stream(&[first, rest], "a long stream") > 0);
        }
    }
}

#[test]
fn literals_at_every_place_about_the_ends_of_the_buffer() {
    let mut random = Random::new(5);
    let mut text = |len| string(&mut random, b"abcdefghijklm", len);
    let mut literals: Vec<(Vec<u8>, bool)> = Vec::new();
    for len in [4, 5, 7, 8, 12, 32, 40, 65] {
        literals.extend([(text(len), true), (text(len), false)]);
    }
    // Found by its beginning.
    literals.push(([&b"b"[..], &[b'a'; 64]].concat(), true));
    let engines = Engines::new(&set(&literals));
    // The buffer takes 8 KiB; the parts of a text have 8 bytes in common.
    for end in [8192, 8192 + 8184] {
        for (number, (literal, _)) in literals.iter().enumerate() {
            for place in end - literal.len() - 12..end + 12 {
                let mut text = vec![b'.'; place];
                text.extend_from_slice(literal);
                text.extend_from_slice(&[b','; 600]);
                let found = engines.assert_equal(&[&text], "a place about the end of the buffer");
                assert!(found >= 1, "literal {number} is not found at {place}");
            }
        }
    }
}

/// Literals that are in packets, or nearly, of 1 to 40 bytes.
fn literals_of(packets: &[capture::Packet], random: &mut Random, count: usize) -> LiteralSet {
    let mut set = LiteralSet::new();
    while set.len() < count {
        let bytes = &packets[random.below(packets.len() as u64) as usize].data;
        let most = [6, 40, 40, 40][random.below(4) as usize];
        let len = 1 + random.below(most) as usize;
        if bytes.len() < len {
            continue;
        }
        let start = random.below((bytes.len() - len) as u64 + 1) as usize;
        let mut literal = bytes[start..start + len].to_vec();
        if random.below(2) == 0 {
            literal[random.below(len as u64) as usize] = random.next() as u8;
        }
        set.push(&literal, random.below(2) == 0).unwrap();
    }
    set
}

#[test]
fn packets_of_all_captures() {
    let mut random = Random::new(4);
    let packets: Vec<capture::Packet> = data::captures(&data::folder())
        .into_iter()
        .flat_map(|path| capture::read(path).packets)
        .filter(|packet| packet.data.len() < 1 << 20)
        .collect();
    assert!(packets.len() > data::at_least(100_000, 500), "{} packets", packets.len());
    let texts: Vec<&[u8]> = packets.iter().map(|packet| &packet.data[..]).collect();
    for count in [10, 300, 5_000] {
        let engines = Engines::new(&literals_of(&packets, &mut random, count));
        let mut found = 0;
        for batch in texts.chunks(256) {
            found += engines.assert_equal(batch, &format!("{count} literals"));
        }
        assert!(found > texts.len() / 10, "{found} matches are too few");
        for segments in texts.chunks(40).step_by(20) {
            engines.assert_equal_stream(segments, &format!("{count} literals"));
        }
    }
}

#[test]
fn literals_that_share_all_but_their_ends() {
    let literals: Vec<(String, bool)> =
        (0..20_000).map(|number| (format!("aaaaaaaaaaaaaaaaaaaaaaa{number:05}"), true)).collect();
    let engines = Engines::new(&set(&literals));
    let texts: Vec<String> =
        (0..200).map(|n| format!("aaaaaa{}{}", literals[n * 97].0, n)).collect();
    let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    assert!(engines.assert_equal(&texts, "20,000 literals") >= texts.len());
}

#[test]
fn an_empty_set_finds_nothing() {
    let engines = Engines::new(&LiteralSet::new());
    assert_eq!(engines.assert_equal(&[b"text", b""], "no literals"), 0);
    assert_eq!(engines.assert_equal_stream(&[b"text", b""], "no literals"), 0);
}

#[test]
fn the_comparison_notices_a_literal_that_was_left_out() {
    let all = set(KINDS);
    for (left_out, (literal, _)) in KINDS.iter().enumerate() {
        let kept: Vec<_> = KINDS
            .iter()
            .enumerate()
            .map(
                |(number, kind)| {
                    if number == left_out { (&b"\xf7\xf8\xf9"[..], false) } else { *kind }
                },
            )
            .collect();
        let damaged = Scanner::compile(&set(&kept), Engine::Simd).unwrap();
        let expected = scan(&Scanner::compile(&all, Engine::Oracle).unwrap(), &[literal]);
        assert!(difference(&expected, &scan(&damaged, &[literal])).is_some(), "{literal:?}");
    }
}
