//! Parts of a content that must stand in the stream as they are, or be hidden by something that is
//! scanned for.
//!
//! A buffer can only hold a content if its bytes came from the stream. For each [`Form`] this
//! module cuts a content where a decoder may have put its parts together, and names for each part
//! the [`Hazards`] that could have hidden it.

use super::buffers::{Form, Side};
use super::header::Application;
use super::rule::Content;

/// What can hide a literal from a scan of the stream, in bytes that are scanned for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hazards {
    /// Bytes (ASCII) that percent encoding and wide characters in a URI could hide, as a bit set.
    pub uri_bytes: u128,
    /// A backslash that stands for a slash in a URI.
    pub backslash: bool,
    /// Folded header lines.
    pub folding: bool,
    /// HTTP/2 in place of HTTP/1.
    pub http2: bool,
    /// Chunks or compression of a body to the server.
    pub request_body: bool,
    /// Chunks, compression or ranges of a body to the client.
    pub response_body: bool,
    /// Encodings of parts of mails.
    pub mime: bool,
    /// Files in blocks of SMB or NFS.
    pub blocks: bool,
    /// Bytes (ASCII) after which a record of TLS may end within a handshake message.
    pub tls_bytes: u128,
    /// Compression of SMB.
    pub smb_compression: bool,
}

impl Hazards {
    /// Adds those of another one.
    pub fn add(&mut self, other: &Self) {
        self.uri_bytes |= other.uri_bytes;
        self.backslash |= other.backslash;
        self.folding |= other.folding;
        self.http2 |= other.http2;
        self.request_body |= other.request_body;
        self.response_body |= other.response_body;
        self.mime |= other.mime;
        self.blocks |= other.blocks;
        self.tls_bytes |= other.tls_bytes;
        self.smb_compression |= other.smb_compression;
    }
}

/// Literals of which at least one stands in the stream if the content is in its buffer, unless
/// one of the hazards does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The literals: one, or one for each encoding.
    pub literals: Vec<(Vec<u8>, bool)>,
    /// What could hide them.
    pub hazards: Hazards,
    /// How rare hazards are in ordinary traffic: 0, or more if they are common.
    pub cost: u32,
}

/// Both cases of the ASCII bytes, as a bit set.
fn bit_set(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |set, &byte| {
        let bit = |byte: u8| 1u128.checked_shl(u32::from(byte)).unwrap_or(0);
        set | bit(byte.to_ascii_lowercase()) | bit(byte.to_ascii_uppercase())
    })
}

/// The pieces of a content in the buffers of a rule.
pub fn pieces(
    content: &Content,
    rule_application: Option<Application>,
    rule_side: Side,
) -> Vec<Piece> {
    let one = |bytes: &[u8], nocase: bool, hazards: &Hazards| Piece {
        literals: vec![(bytes.to_vec(), nocase)],
        hazards: hazards.clone(),
        cost: 0,
    };
    let bytes = &content.bytes[..];
    let http2 = Hazards { http2: true, ..Hazards::default() };
    match content.buffer.form {
        Form::Raw => vec![one(bytes, content.nocase, &Hazards::default())],
        // Headers are followed by the trailers of a chunked body, so lines are taken alone.
        Form::HttpVerbatim => split(bytes, |byte| matches!(byte, b'\r' | b'\n'))
            .map(|line| one(line, content.nocase, &http2))
            .collect(),
        Form::Uri => uri(bytes),
        Form::Host => uri(bytes).into_iter().filter(|piece| piece.cost == 0).collect(),
        Form::Headers | Form::HeaderValue => headers(content, rule_side),
        Form::RequestBody => {
            vec![one(bytes, content.nocase, &Hazards { request_body: true, ..http2 })]
        }
        Form::ResponseBody => {
            vec![one(bytes, content.nocase, &Hazards { response_body: true, ..http2 })]
        }
        Form::File => file(content, rule_application),
        Form::DomainName => domain_name(content, &http2),
        Form::TlsField => {
            let tls_bytes = bit_set(bytes);
            let covered = bytes.is_ascii();
            let piece = one(bytes, true, &Hazards { tls_bytes, ..Hazards::default() });
            if covered { vec![piece] } else { Vec::new() }
        }
        Form::DistinguishedName => distinguished_name(content),
        Form::SmbName => vec![smb_message()],
        Form::Derived => Vec::new(),
    }
}

fn split(bytes: &[u8], cut: impl Fn(u8) -> bool) -> impl Iterator<Item = &[u8]> {
    bytes.split(move |&byte| cut(byte)).filter(|part| !part.is_empty())
}

/// Parts of a URI within a segment of its path or a word of its query.
///
/// Cut at slashes (compressed, dot segments removed), at `?` (also the replacement of characters
/// that cannot be converted), at spaces and `+` (which stand for each other in queries), and at
/// bytes other than ASCII; at `:` and `@`, which a sensor that includes the host may put in. First in pieces of bytes that no ordinary client encodes;
/// then in longer ones, and then with the slashes at their ends, which may have been backslashes.
/// A line feed ends the request line, so that one in a URI was encoded.
fn uri(bytes: &[u8]) -> Vec<Piece> {
    let piece = |part: &[u8], cost: u32| Piece {
        literals: vec![(part.to_vec(), true)],
        hazards: Hazards {
            uri_bytes: bit_set(part),
            backslash: part.contains(&b'/'),
            http2: true,
            ..Hazards::default()
        },
        cost,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let joined = |byte: u8| !byte.is_ascii() || b"/\\?+ \n:@".contains(&byte);
    let mut pieces: Vec<_> = split(bytes, |byte| !plain(byte)).map(|part| piece(part, 0)).collect();
    pieces.extend(
        split(bytes, joined)
            .filter(|part| !part.iter().all(|&b| plain(b)))
            .map(|part| piece(part, 1)),
    );
    for (start, end) in runs(bytes, |byte| !joined(byte)) {
        let slash = |at: usize| bytes.get(at) == Some(&b'/');
        let first = if start > 0 && slash(start - 1) { start - 1 } else { start };
        let last = if slash(end) { end + 1 } else { end };
        if first < start || last > end {
            pieces.push(piece(&bytes[first..last], 2));
        }
    }
    if bytes.contains(&b'\n') {
        let hazards = Hazards { uri_bytes: 1 << b'\n', http2: true, ..Hazards::default() };
        pieces.push(Piece { literals: vec![(b"%0a".to_vec(), true)], hazards, cost: 0 });
    }
    pieces
}

/// Start and end of each longest run of bytes that `keep` accepts.
fn runs(bytes: &[u8], keep: impl Fn(u8) -> bool) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    let mut start = None;
    for at in 0..=bytes.len() {
        let inside = at < bytes.len() && keep(bytes[at]);
        match (inside, start) {
            (true, None) => start = Some(at),
            (false, Some(first)) => {
                runs.push((first, at));
                start = None;
            }
            _ => {}
        }
    }
    runs
}

/// Parts of a header's name or value.
///
/// Cut at colons and at the ends of lines (spaces around them are normalised), at `, ` (values of
/// repeated headers are joined by it), and at spaces (folding puts one in), unless the direction
/// is to the server, where folded lines are scanned for. A NUL may fold as a space does.
fn headers(content: &Content, rule_side: Side) -> Vec<Piece> {
    let to_server = content.buffer.side.and(rule_side) == Side::ToServer;
    let hard = |byte: u8| matches!(byte, b':' | b'\r' | b'\n' | 0);
    let blank = |byte: u8| matches!(byte, b' ' | b'\t');
    let mut pieces = Vec::new();
    let mut add = |part: &[u8], folding: bool, follows_colon: bool, ends_name: bool| {
        if !part.is_empty() {
            let hazards = Hazards { http2: true, folding, ..Hazards::default() };
            let is_short = part.len() < SHORT_VALUE;
            let literals = match (follows_colon, ends_name) {
                (true, _) if is_short => after_colon(part, content.nocase),
                (_, true) if is_short => before_colon(part, content.nocase),
                _ => vec![(part.to_vec(), content.nocase)],
            };
            pieces.push(Piece { literals, hazards, cost: 0 });
        }
    };
    let begins_value = content.buffer.form == Form::HeaderValue && content.at_start;
    for (start, end) in runs(&content.bytes, |byte| !hard(byte)) {
        let line = &content.bytes[start..end];
        let mut follows_colon = match start {
            0 => begins_value && !line.first().is_some_and(|&byte| blank(byte)),
            _ => content.bytes[start - 1] == b':' && line.first() == Some(&b' '),
        };
        let ends_name = content.bytes.get(end) == Some(&b':');
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

/// Values shorter than this are scanned for together with what may stand before them.
const SHORT_VALUE: usize = 6;

/// A short value behind what may stand between it and the colon before it: nothing, or blanks of
/// any kind, the last two of which, or the colon and one, are part of the literal.
fn after_colon(value: &[u8], nocase: bool) -> Vec<(Vec<u8>, bool)> {
    let before = b":\t\x0b\x0c\r\n\0";
    let direct = before.iter().map(|&byte| vec![byte]);
    let spaced = before.iter().chain(b" ").map(|&byte| vec![byte, b' ']);
    direct.chain(spaced).map(|lead| ([&lead[..], value].concat(), nocase)).collect()
}

/// The short end of a header's name, or of what stands before a colon elsewhere, and what may follow.
fn before_colon(name: &[u8], nocase: bool) -> Vec<(Vec<u8>, bool)> {
    let behind = b": \t\x0b\x0c\r\n\0";
    behind.iter().map(|&byte| ([name, &[byte]].concat(), nocase)).collect()
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

/// Parts of a file. In protocols other than HTTP a file may come in blocks, and mail parsers put
/// ends of lines in themselves.
fn file(content: &Content, application: Option<Application>) -> Vec<Piece> {
    let http =
        Hazards { http2: true, request_body: true, response_body: true, ..Hazards::default() };
    let (hazards, lines) = match application {
        Some(Application::Http) => (http, false),
        Some(Application::Smtp) => (Hazards { mime: true, ..Hazards::default() }, true),
        _ => (Hazards { mime: true, blocks: true, ..http }, true),
    };
    split(&content.bytes, |byte| lines && matches!(byte, b'\r' | b'\n'))
        .map(|part| Piece {
            literals: vec![(part.to_vec(), content.nocase)],
            hazards: hazards.clone(),
            cost: 0,
        })
        .collect()
}

/// The most bytes of a label (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// Labels of a domain name.
///
/// A label that begins and ends within the content stands in the message behind its length, unless
/// the dot before or after it is itself a byte of a label; another one is a part of a label. A sensor
/// cuts names that are too long (Suricata, at 1,025 bytes), so one at the end of a name may be the
/// beginning of a longer label.
fn domain_name(content: &Content, hazards: &Hazards) -> Vec<Piece> {
    let labels: Vec<&[u8]> = content.bytes.split(|&byte| byte == b'.').collect();
    let last = labels.len() - 1;
    let mut pieces = Vec::new();
    for (index, label) in labels.iter().enumerate().filter(|(_, label)| !label.is_empty()) {
        let begins = index > 0 || content.at_start;
        let ends = index < last || content.at_end;
        let literals = if begins && ends && label.len() <= MAX_LABEL {
            let longest = if index < last { label.len() } else { MAX_LABEL };
            let lengths = label.len() as u8..=longest as u8;
            let mut literals: Vec<_> = lengths.map(|length| [&[length], *label].concat()).collect();
            if index > 0 {
                literals.push([b".", *label].concat());
            }
            if index < last {
                literals.push([*label, b"."].concat());
            }
            literals
        } else {
            vec![label.to_vec()]
        };
        let literals = literals.into_iter().map(|literal| (literal, true)).collect();
        pieces.push(Piece { literals, hazards: hazards.clone(), cost: 0 });
    }
    pieces
}

/// What a sensor prints for a name that it cannot parse.
const NO_NAME: &[u8] = b"x509error: invalid x.509 name";

/// Values of a distinguished name: text between `=`, `,`, `+`, `/` and escapes.
///
/// What is before a `=` is the type of an attribute, and so may be what is not behind one: it is
/// printed as a name for a number in the certificate, or as that number. A value that is no text is
/// printed as hexadecimal digits (crate x509-parser, which Suricata uses).
fn distinguished_name(content: &Content) -> Vec<Piece> {
    let bytes = &content.bytes[..];
    let cut =
        |byte: u8| !(byte.is_ascii_graphic() || byte == b' ') || b"=,+/\\\"#;<>".contains(&byte);
    let is_value = |&(start, end): &(usize, usize)| {
        let part = &bytes[start..end];
        let follows = start > 0 && bytes[start - 1] == b'=';
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let lower = part.to_ascii_lowercase();
        let in_error = NO_NAME.windows(part.len()).any(|window| window == lower);
        let trimmed = part.trim_ascii();
        let may_be_type = trimmed.iter().all(word) || trimmed.iter().all(number) || in_error;
        let digit = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
        let is_hex = trimmed
            .iter()
            .all(|byte| digit(&if content.nocase { byte.to_ascii_uppercase() } else { *byte }));
        bytes.get(end) != Some(&b'=') && (follows || !may_be_type) && !is_hex
    };
    runs(bytes, |byte| !cut(byte))
        .into_iter()
        .filter(is_value)
        .map(|(start, end)| bytes[start..end].trim_ascii())
        .filter(|part| !part.is_empty())
        .map(|part| Piece {
            literals: vec![(part.to_vec(), true)],
            hazards: Hazards { tls_bytes: bit_set(part), ..Hazards::default() },
            cost: 0,
        })
        .collect()
}

/// The start of a message of SMB that may have a name. Names have no part that stands in the stream as
/// it is, as any number of zero bytes may be in them, which sensors remove.
fn smb_message() -> Piece {
    let hazards = Hazards { smb_compression: true, ..Hazards::default() };
    let literals = [0xff, 0xfe].map(|kind| (vec![kind, b'S', b'M', b'B'], false)).to_vec();
    Piece { literals, hazards, cost: 2 }
}
