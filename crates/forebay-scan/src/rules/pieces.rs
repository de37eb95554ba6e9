//! Parts of a content that must stand in the stream as they are, or be hidden by something that is
//! scanned for.
//!
//! A buffer can only hold a content if its bytes came from the stream. For each [`Form`] this
//! module cuts a content where a decoder may have put its parts together, and names for each part
//! the [`Hazards`] that could have hidden it.

use super::buffers::{Form, Side};
use super::header::Application;
use super::header_lines;
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
    /// Whether it has all those of another one.
    pub(super) fn covers(&self, other: &Self) -> bool {
        let mut both = self.clone();
        both.add(other);
        both == *self
    }

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The literals: one, or one for each encoding.
    pub literals: Vec<(Vec<u8>, bool)>,
    /// Further ones, for spellings that ordinary traffic does not have.
    pub unusual: Vec<(Vec<u8>, bool)>,
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
        ..Piece::default()
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
        Form::Host => uri_runs(bytes),
        Form::Headers | Form::HeaderValue(_) => header_lines::pieces(content, rule_side),
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

pub(super) fn split(bytes: &[u8], cut: impl Fn(u8) -> bool) -> impl Iterator<Item = &[u8]> {
    bytes.split(move |&byte| cut(byte)).filter(|part| !part.is_empty())
}

/// Bytes of a URI that no ordinary client encodes.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// A part of a URI.
fn uri_piece(part: &[u8], cost: u32) -> Piece {
    Piece {
        literals: vec![(part.to_vec(), true)],
        hazards: Hazards {
            uri_bytes: bit_set(part),
            backslash: part.contains(&b'/'),
            http2: true,
            ..Hazards::default()
        },
        cost,
        ..Piece::default()
    }
}

/// Runs of plain bytes.
fn uri_runs(bytes: &[u8]) -> Vec<Piece> {
    split(bytes, |byte| !is_plain(byte)).map(|part| uri_piece(part, 0)).collect()
}

/// How a byte beside a run of plain ones may be written: as it is or percent-encoded; a slash also as
/// a backslash. None for bytes that may stand for others.
fn spellings(byte: Option<&u8>) -> Option<Vec<Vec<u8>>> {
    let byte = *byte?;
    let encoded = |byte: u8| format!("%{byte:02x}").into_bytes();
    match byte {
        b'/' => Some(vec![b"/".to_vec(), b"\\".to_vec(), encoded(b'/'), encoded(b'\\')]),
        b'%' | b'\\' | b'?' | b'+' | b':' | b'@' => None,
        _ => byte.is_ascii_graphic().then(|| vec![vec![byte], encoded(byte)]),
    }
}

/// A run of plain bytes with the byte before and behind it, in all ways in which these may be written. In
/// another way they are hidden by what hides the run: wide characters, and encodings that are encoded.
///
/// A sensor that includes the host in the URI leaves out an empty name of a user before it, and puts in
/// the slash of an empty path behind it.
fn with_edges(bytes: &[u8], start: usize, end: usize) -> Option<Piece> {
    let in_path = start > 1 && bytes[start - 1] == b'/' && is_plain(bytes[start - 2]);
    let mut before = start.checked_sub(1).and_then(|at| spellings(bytes.get(at)));
    if let Some(before) = before.as_mut().filter(|_| !in_path && bytes[start - 1] == b'/') {
        before.push(b"@".to_vec());
    }
    let may_be_put_in = bytes.get(end) == Some(&b'/') && !in_path;
    let behind = spellings(bytes.get(end)).filter(|_| !may_be_put_in);
    if before.is_none() && behind.is_none() {
        return None;
    }
    let none = || vec![Vec::new()];
    let (before, behind) = (before.unwrap_or_else(none), behind.unwrap_or_else(none));
    let run = &bytes[start..end];
    let literals = before
        .iter()
        .flat_map(|before| behind.iter().map(move |behind| ([before, run, behind].concat(), true)));
    Some(Piece { literals: literals.collect(), ..uri_piece(run, 0) })
}

/// Parts of a URI within a segment of its path or a word of its query.
///
/// Cut at slashes (compressed, dot segments removed), at `?` (also the replacement of characters
/// that cannot be converted), at spaces and `+` (which stand for each other in queries), and at
/// bytes other than ASCII; at `:` and `@`, which a sensor that includes the host may put in. First in pieces of bytes that no ordinary client encodes;
/// then in longer ones, and then with the slashes at their ends, which may have been backslashes.
/// A line feed ends the request line, so that one in a URI was encoded.
fn uri(bytes: &[u8]) -> Vec<Piece> {
    let joined = |byte: u8| !byte.is_ascii() || b"/\\?+ \n:@".contains(&byte);
    let mut pieces = uri_runs(bytes);
    pieces.extend(runs(bytes, is_plain).into_iter().filter_map(|(a, b)| with_edges(bytes, a, b)));
    pieces.extend(
        split(bytes, joined)
            .filter(|part| !part.iter().all(|&b| is_plain(b)))
            .map(|part| uri_piece(part, 1)),
    );
    for (start, end) in runs(bytes, |byte| !joined(byte)) {
        let slash = |at: usize| bytes.get(at) == Some(&b'/');
        let first = if start > 0 && slash(start - 1) { start - 1 } else { start };
        let last = if slash(end) { end + 1 } else { end };
        if first < start || last > end {
            pieces.push(uri_piece(&bytes[first..last], 2));
        }
    }
    if bytes.contains(&b'\n') {
        let hazards = Hazards { uri_bytes: 1 << b'\n', http2: true, ..Hazards::default() };
        pieces.push(Piece { literals: vec![(b"%0a".to_vec(), true)], hazards, ..Piece::default() });
    }
    pieces
}

/// Start and end of each longest run of bytes that `keep` accepts.
pub(super) fn runs(bytes: &[u8], keep: impl Fn(u8) -> bool) -> Vec<(usize, usize)> {
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
            ..Piece::default()
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
        pieces.push(Piece { literals, hazards: hazards.clone(), ..Piece::default() });
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
            ..Piece::default()
        })
        .collect()
}

/// The start of a message of SMB that may have a name. Names have no part that stands in the stream as
/// it is, as any number of zero bytes may be in them, which sensors remove.
fn smb_message() -> Piece {
    let hazards = Hazards { smb_compression: true, ..Hazards::default() };
    let literals = [0xff, 0xfe].map(|kind| (vec![kind, b'S', b'M', b'B'], false)).to_vec();
    Piece { literals, hazards, cost: 2, ..Piece::default() }
}
