//! Parts of the names and values of HTTP's header lines.
//!
//! A sensor's buffer has each line as name, colon, space and value, whatever blanks were around the
//! colon and behind the value. So a name with the start of its value stands in the stream with nothing
//! or one space between them, or in a spelling that ordinary traffic does not have: the name with
//! another blank, or its colon with two.

use super::buffers::{Form, Side};
use super::pieces::{Hazards, Piece, runs, split};
use super::rule::Content;

/// Bytes that a sensor removes around names and values, or that fold a line.
const BLANKS: &[u8; 7] = b" \t\x0b\x0c\r\n\0";

/// Values shorter than this are scanned for together with what may stand before them.
const SHORT_VALUE: usize = 6;

/// Values shorter than this are scanned for together with what may stand behind them.
const SHORT_LINE: usize = 16;

/// The pieces of a content in header lines, or in the value of one header.
pub(super) fn pieces(content: &Content, rule_side: Side) -> Vec<Piece> {
    let to_server = content.buffer.side.and(rule_side) == Side::ToServer;
    let mut pieces = parts(content, to_server);
    pieces.extend(behind_names(content, to_server));
    pieces
}

/// For each line with a name and the start of its value: both together.
///
/// If the colon in a line is not the one behind the name, all of it is in a value, and stands in the
/// stream as it is. A value ends as in [`parts`]: at `, `, and at a blank unless folded lines are scanned for.
fn behind_names(content: &Content, to_server: bool) -> Vec<Piece> {
    let bytes = &content.bytes[..];
    let mut pieces = Vec::new();
    for (start, end) in runs(bytes, |byte| !matches!(byte, b'\r' | b'\n' | 0)) {
        let line = &bytes[start..end];
        let (name, rest, of_buffer) = match content.buffer.form {
            Form::HeaderValue(name) if start == 0 && content.at_start => {
                (name.as_bytes(), line, true)
            }
            Form::HeaderValue(_) => continue,
            _ => match line.iter().position(|&byte| byte == b':') {
                Some(colon) if line.get(colon + 1) == Some(&b' ') => {
                    (&line[..colon], &line[colon + 1..], false)
                }
                _ => continue,
            },
        };
        let is_token = |&byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || !name.iter().all(is_token) {
            continue;
        }
        let is_blank = |byte: u8| matches!(byte, b' ' | b'\t');
        let trimmed = rest.trim_ascii();
        let mut value = split_comma(trimmed)[0];
        if !to_server {
            value = split(value, is_blank).next().unwrap_or_default();
        }
        let line_ends = match bytes.get(end) {
            Some(byte) => matches!(byte, b'\r' | b'\n'),
            None => of_buffer && content.at_end,
        };
        let ends = line_ends && value.len() == trimmed.len();
        if value.is_empty() && !ends {
            continue;
        }
        let folding = to_server && value.iter().any(|&byte| is_blank(byte));
        let nocase = content.nocase || of_buffer;
        let mut literals: Vec<Vec<u8>> =
            [&b":"[..], b": "].iter().map(|lead| [name, lead, value].concat()).collect();
        if value.is_empty() {
            literals = followed(&literals, b"\r\n");
        } else if ends && value.len() < SHORT_LINE {
            // Ordinary values go on behind a space.
            let spaced = literals.iter().map(|text| [text, &b" "[..]].concat()).collect::<Vec<_>>();
            literals = followed(&literals, &BLANKS[1..]);
            literals.extend(followed(&spaced, BLANKS));
        }
        let mut unusual = followed(&[name.to_vec()], BLANKS);
        unusual.extend(followed(&[[name, b":"].concat()], &BLANKS[1..]));
        unusual.extend(followed(&[[name, b": "].concat()], BLANKS));
        if of_buffer {
            unusual.extend(with_zeros(name));
        }
        let with_case =
            |list: Vec<Vec<u8>>| list.into_iter().map(|bytes| (bytes, nocase)).collect();
        pieces.push(Piece {
            literals: with_case(literals),
            unusual: with_case(unusual),
            hazards: Hazards { http2: true, folding, ..Hazards::default() },
            cost: 0,
        });
    }
    pieces
}

/// Each text with each of these bytes behind it.
fn followed(texts: &[Vec<u8>], bytes: &[u8]) -> Vec<Vec<u8>> {
    let each = |text: &Vec<u8>| bytes.iter().map(|&byte| [text, &[byte][..]].concat()).collect();
    texts.iter().flat_map::<Vec<_>, _>(each).collect()
}

/// A name with zero bytes in it, which a sensor that asks for the header by its name ignores: the last
/// zero and what is behind it; if that is short, with what is behind the name.
pub(super) fn with_zeros(name: &[u8]) -> Vec<Vec<u8>> {
    let ends = |at: usize| [b"\0", &name[at..]].concat();
    let behind = [&b":"[..], BLANKS].concat();
    let of = |at: usize| match name.len() - at {
        0..SHORT_VALUE => followed(&[ends(at)], &behind),
        _ => vec![ends(at)],
    };
    (1..name.len()).flat_map(of).collect()
}

/// Parts of a header's name or value.
///
/// Cut at colons and at the ends of lines (spaces around them are normalised), at `, ` (values of
/// repeated headers are joined by it), and at spaces (folding puts one in), unless the direction
/// is to the server, where folded lines are scanned for. A NUL may fold as a space does.
fn parts(content: &Content, to_server: bool) -> Vec<Piece> {
    let hard = |byte: u8| matches!(byte, b':' | b'\r' | b'\n' | 0);
    let blank = |byte: u8| matches!(byte, b' ' | b'\t');
    let mut pieces = Vec::new();
    let mut add = |part: &[u8], folding: bool, follows_colon: bool, ends_name: bool| {
        if part.is_empty() {
            return;
        }
        let is_short = part.len() < SHORT_VALUE;
        let literals = match (follows_colon, ends_name) {
            (true, _) if is_short => after_colon(part),
            (_, true) if is_short => before_colon(part, to_server),
            _ => vec![part.to_vec()],
        };
        // What is before a colon on the next line is folded.
        let folding = folding || to_server && ends_name && is_short;
        pieces.push(Piece {
            literals: literals.into_iter().map(|literal| (literal, content.nocase)).collect(),
            hazards: Hazards { http2: true, folding, ..Hazards::default() },
            ..Piece::default()
        });
    };
    let begins_value = matches!(content.buffer.form, Form::HeaderValue(_)) && content.at_start;
    for (start, end) in runs(&content.bytes, |byte| !hard(byte)) {
        let line = &content.bytes[start..end];
        let mut follows_colon = match start {
            0 => begins_value && !line.first().is_some_and(|&byte| blank(byte)),
            _ => content.bytes[start - 1] == b':' && line.first() == Some(&b' '),
        };
        let ends_name = content.bytes.get(end) == Some(&b':') && !line.ends_with(b",");
        let parts = split_comma(line);
        let last = parts.len() - 1;
        for (index, part) in parts.into_iter().enumerate() {
            let ends_name = ends_name && index == last;
            if to_server {
                let ends_name = ends_name && !part.last().is_some_and(|&byte| blank(byte));
                let part = part.trim_ascii();
                let folding = part.iter().any(|&byte| blank(byte));
                add(part, folding, follows_colon, ends_name);
            } else {
                let mut words = split(part, blank).peekable();
                let mut first = follows_colon;
                while let Some(word) = words.next() {
                    let is_last = words.peek().is_none() && part.ends_with(word);
                    add(word, false, first, ends_name && is_last);
                    first = false;
                }
            }
            follows_colon = false;
        }
    }
    pieces
}

/// A short value behind what may stand between it and the colon before it: nothing, or blanks of
/// any kind, the last two of which, or the colon and one, are part of the literal.
fn after_colon(value: &[u8]) -> Vec<Vec<u8>> {
    let before = b":\t\x0b\x0c\r\n\0";
    let direct = before.iter().map(|&byte| vec![byte]);
    let spaced = before.iter().chain(b" ").map(|&byte| vec![byte, b' ']);
    direct.chain(spaced).map(|lead| [&lead[..], value].concat()).collect()
}

/// The short end of a header's name, or of what stands before a colon elsewhere, and what may follow:
/// the colon, or blanks before it. To the server there are either one or two blanks in the literal, as
/// folded lines are scanned for.
fn before_colon(name: &[u8], to_server: bool) -> Vec<Vec<u8>> {
    let name = [name.to_vec()];
    if !to_server {
        return followed(&name, &[&b":"[..], BLANKS].concat());
    }
    let unfolded: Vec<u8> = BLANKS.iter().copied().filter(|&byte| byte != b'\n').collect();
    let mut literals = followed(&name, b":");
    for &blank in &unfolded {
        literals.extend(followed(
            &[[&name[0][..], &[blank]].concat()],
            &[&b":"[..], &unfolded].concat(),
        ));
    }
    literals
}

/// Splits at `, `; neither the comma nor the space is kept.
fn split_comma(line: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 0..line.len().saturating_sub(1) {
        if &line[at..at + 2] == b", " {
            parts.push(&line[start..at]);
            start = at + 2;
        }
    }
    parts.push(line.get(start..).unwrap_or_default());
    // The comma or the space alone may be at the edge of the content.
    parts.into_iter().map(|part| part.strip_suffix(b",").unwrap_or(part)).collect()
}
