//! Literals that force a flow to pass because something could hide the literals of rules in it.
//!
//! Each trigger belongs to a [`Hazard`]. A trigger is scanned for only if a filterable rule has
//! its hazard. `docs/scan-rules.md` argues for each.

use super::buffers::Side;
use super::header_lines::with_zeros;
use super::pieces::Hazards;

/// Why a trigger forces a flow to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hazard {
    /// A percent-encoded byte of a URI.
    PercentEncoding,
    /// A wide or overlong character of a URI, raw or percent-encoded.
    WideCharacter,
    /// A backslash in place of a slash of a URI.
    Backslash,
    /// A folded header line.
    HeaderFolding,
    /// HTTP/2.
    Http2,
    /// A body in chunks, compressed, or in ranges.
    BodyEncoding,
    /// A mail's part in base64 or quoted-printable, or a mail in chunks.
    MailEncoding,
    /// A file in blocks of SMB or NFS.
    FileBlocks,
    /// A TLS handshake message over several records.
    TlsRecords,
    /// Compressed messages of SMB.
    SmbCompression,
}

impl Hazard {
    /// All hazards, in their order.
    pub const ALL: [Self; 10] = [
        Self::PercentEncoding,
        Self::WideCharacter,
        Self::Backslash,
        Self::HeaderFolding,
        Self::Http2,
        Self::BodyEncoding,
        Self::MailEncoding,
        Self::FileBlocks,
        Self::TlsRecords,
        Self::SmbCompression,
    ];

    /// A name for tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PercentEncoding => "percent_encoding",
            Self::WideCharacter => "wide_character",
            Self::Backslash => "backslash",
            Self::HeaderFolding => "header_folding",
            Self::Http2 => "http2",
            Self::BodyEncoding => "body_encoding",
            Self::MailEncoding => "mail_encoding",
            Self::FileBlocks => "file_blocks",
            Self::TlsRecords => "tls_records",
            Self::SmbCompression => "smb_compression",
        }
    }
}

/// A literal that forces a flow to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The literal.
    pub bytes: Vec<u8>,
    /// Whether ASCII letters match in both cases.
    pub nocase: bool,
    /// What it shows.
    pub hazard: Hazard,
    /// Whether it counts only in flows that may be HTTP.
    pub http_only: bool,
    /// The direction that it counts in.
    pub side: Side,
}

/// Ranges of code points that Suricata's HTTP parser converts to ASCII characters (best fit to
/// Windows-1252), a little wider than the table.
const BEST_FIT: [(u32, u32); 24] = [
    (0x100, 0x180),
    (0x197, 0x1f0),
    (0x261, 0x261),
    (0x2b9, 0x2cd),
    (0x300, 0x30e),
    (0x331, 0x332),
    (0x37e, 0x37e),
    (0x393, 0x3c6),
    (0x4bb, 0x4bb),
    (0x589, 0x589),
    (0x66a, 0x66a),
    (0x2010, 0x2017),
    (0x2032, 0x2044),
    (0x2074, 0x2089),
    (0x20a7, 0x20a7),
    (0x2102, 0x2134),
    (0x2212, 0x223c),
    (0x2261, 0x2265),
    (0x2303, 0x2303),
    (0x2320, 0x232a),
    (0x2500, 0x2584),
    (0x2758, 0x2758),
    (0x3008, 0x301b),
    (0xff01, 0xff5e),
];

/// The first two bytes of UTF-8 sequences that may be converted to ASCII characters: overlong
/// ones, and those of [`BEST_FIT`].
fn wide_prefixes() -> Vec<[u8; 2]> {
    let mut prefixes: Vec<[u8; 2]> = Vec::new();
    let overlong =
        [(0xc0, 0x80..=0xbf), (0xc1, 0x80..=0xbf), (0xe0, 0x80..=0x9f), (0xf0, 0x80..=0x8f)];
    for (lead, seconds) in overlong {
        prefixes.extend(seconds.map(|second| [lead, second]));
    }
    for code in BEST_FIT.into_iter().flat_map(|(first, last)| first..=last) {
        let mut buffer = [0; 4];
        if let Some(c) = char::from_u32(code) {
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            prefixes.push([bytes[0], bytes[1]]);
        }
    }
    prefixes.sort_unstable();
    prefixes.dedup();
    prefixes
}

/// The digits of percent encodings, as a bit set.
const HEXADECIMAL: u128 = 0x3ff << b'0' | 0x3f << b'A' | 0x3f << b'a';

/// Bytes of a bit set.
fn bytes_of(set: u128) -> impl Iterator<Item = u8> {
    (0..128).filter(move |bit| set >> bit & 1 == 1)
}

/// All triggers for hazards.
pub fn triggers(hazards: &Hazards) -> Vec<Trigger> {
    let (mut list, mut leads) = (List::default(), Vec::new());
    if hazards.uri_bytes != 0 {
        list.side = Side::ToServer;
        list.http_only = true;
        // A byte may be encoded with digits that are themselves encoded, where a sensor decodes
        // twice: `%4%31` is `%41` after the first time. Then a digit or the percent sign is.
        for byte in bytes_of(hazards.uri_bytes | HEXADECIMAL) {
            list.add(Hazard::PercentEncoding, format!("%{byte:02x}").as_bytes());
        }
        // `%25` is the first half of a doubly encoded byte; `%c…` to `%f…` start UTF-8.
        list.add(Hazard::PercentEncoding, b"%25");
        for prefix in ["%u", "%c", "%d", "%e", "%f"] {
            list.add(Hazard::WideCharacter, prefix.as_bytes());
        }
        for [lead, second] in wide_prefixes() {
            list.add(Hazard::WideCharacter, &[lead, second]);
            // Percent encoding comes first, so that of a raw lead byte the rest may be encoded.
            leads.push(lead);
        }
        leads.dedup();
        for lead in leads {
            list.add(Hazard::WideCharacter, &[lead, b'%']);
        }
    }
    if hazards.backslash {
        list.side = Side::ToServer;
        list.http_only = true;
        list.add(Hazard::Backslash, b"\\");
        list.add(Hazard::Backslash, b"%5c");
    }
    if hazards.folding {
        list.side = Side::ToServer;
        list.http_only = true;
        list.add(Hazard::HeaderFolding, b"\n ");
        list.add(Hazard::HeaderFolding, b"\n\t");
        list.add(Hazard::HeaderFolding, b"\n\0");
    }
    list.side = Side::Either;
    if hazards.http2 {
        list.http_only = false;
        list.add(Hazard::Http2, b"PRI * HTTP/2.0");
        list.http_only = true;
        list.add(Hazard::Http2, b"h2c");
    }
    list.http_only = true;
    for (present, side) in
        [(hazards.request_body, Side::ToServer), (hazards.response_body, Side::ToClient)]
    {
        if present {
            list.side = side;
            for name in ["Transfer-Encoding", "Content-Encoding", "Content-Range"] {
                list.add(Hazard::BodyEncoding, name.as_bytes());
                for rest in with_zeros(name.as_bytes()) {
                    list.add(Hazard::BodyEncoding, &rest);
                }
            }
            for magic in ["CWS", "ZWS"] {
                list.add_with_case(Hazard::BodyEncoding, magic.as_bytes(), false);
            }
        }
    }
    files(hazards, &mut list);
    if hazards.blocks || hazards.smb_compression {
        list.add(Hazard::SmbCompression, b"\xfcSMB");
    }
    for byte in bytes_of(hazards.tls_bytes) {
        for version in 0..=4 {
            list.add(Hazard::TlsRecords, &[byte, 0x16, 3, version]);
        }
    }
    list.triggers
}

/// Triggers for files that are not carried by HTTP.
fn files(hazards: &Hazards, list: &mut List) {
    list.http_only = false;
    if hazards.mime {
        list.side = Side::ToServer;
        list.add(Hazard::MailEncoding, b"Content-Transfer-Encoding");
        list.add(Hazard::MailEncoding, b"BDAT ");
    }
    list.side = Side::Either;
    if hazards.blocks {
        for kind in [0xff, 0xfe] {
            list.add(Hazard::FileBlocks, &[kind, b'S', b'M', b'B']);
        }
        // The program number of NFS in a call of ONC RPC, and the upper bytes of its version. Once a flow
        // is known as NFS, sensors do not look at the program: version and procedure of READ and WRITE,
        // and of NFS 4 of all calls, which are compound.
        list.add(Hazard::FileBlocks, &[0, 1, 0x86, 0xa3, 0, 0, 0]);
        for (version, procedure) in [(2, 6), (2, 7), (2, 8), (3, 6), (3, 7), (4, 1), (4, 6)] {
            list.add(Hazard::FileBlocks, &[0, 0, 0, version, 0, 0, 0, procedure]);
        }
    }
}

/// Triggers, and what the next ones share.
#[derive(Default)]
struct List {
    triggers: Vec<Trigger>,
    http_only: bool,
    side: Side,
}

impl List {
    fn add(&mut self, hazard: Hazard, bytes: &[u8]) {
        self.add_with_case(hazard, bytes, true);
    }

    fn add_with_case(&mut self, hazard: Hazard, bytes: &[u8], nocase: bool) {
        let (http_only, side) = (self.http_only, self.side);
        let bytes = bytes.to_vec();
        self.triggers.push(Trigger { bytes, nocase, hazard, http_only, side });
    }
}
