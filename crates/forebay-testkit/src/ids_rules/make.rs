//! Traffic on which a rule fires, and mutations of it that a sensor sees through.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write;

use super::reference::{Content, Rule, Traffic};

/// Bytes that fill what no content claims.
const FILLERS: [u8; 3] = [b'x', b'7', b'Z'];

/// Traffic on which the reference matcher fires, if some can be made.
pub fn traffic(rule: &Rule) -> Option<Traffic> {
    let buffers = rule.by_buffer();
    FILLERS.into_iter().find_map(|filler| {
        (0..4).find_map(|style| {
            let traffic = assemble(rule, &buffers, filler, style)?;
            rule.fires(&traffic).then_some(traffic)
        })
    })
}

/// Bytes in which the positive contents of a buffer match.
fn layout(contents: &[Content], filler: u8) -> Vec<u8> {
    let mut cells: Vec<Option<u8>> = Vec::new();
    let mut previous = 0i64;
    for content in contents.iter().filter(|content| !content.negated) {
        let relative = content.distance.is_some() || content.within.is_some();
        let start = match (relative, content.offset, content.depth) {
            (true, ..) => previous + content.distance.unwrap_or(0),
            (false, None, None) if !content.at_start => cells.len() as i64,
            (false, offset, _) => offset.unwrap_or(0),
        };
        let mut at = start.max(0) as usize;
        let fits = |cells: &[Option<u8>], at: usize| {
            (content.bytes.iter().enumerate()).all(|(index, byte)| {
                cells.get(at + index).copied().flatten().is_none_or(|c| c == *byte)
            })
        };
        while !fits(&cells, at) {
            at += 1;
        }
        let end = at + content.bytes.len();
        cells.resize(cells.len().max(end), None);
        for (index, byte) in content.bytes.iter().enumerate() {
            cells[at + index] = Some(*byte);
        }
        previous = end as i64;
    }
    cells.into_iter().map(|cell| cell.unwrap_or(filler)).collect()
}

fn assemble(
    rule: &Rule,
    buffers: &BTreeMap<String, Vec<Content>>,
    filler: u8,
    style: usize,
) -> Option<Traffic> {
    let get = |name: &str| buffers.get(name).map(|contents| layout(contents, filler));
    let payload = get("").unwrap_or_default();
    if let Some(name) = get("dns.query") {
        return Some(Traffic { to_server: dns_query(&name), to_client: Vec::new() });
    }
    if let Some(name) = get("tls.sni") {
        return Some(Traffic { to_server: client_hello(&name), to_client: Vec::new() });
    }
    if let Some(version) = get("ssh.proto") {
        let banner = [b"SSH-", &version[..], b"-x\r\n"].concat();
        return Some(sided(rule.to_client, banner));
    }
    if let Some(file) = (rule.protocol == "smtp").then(|| get("file.data")).flatten() {
        return Some(sided(false, mail(&file)));
    }
    let known = buffers.keys().all(|name| {
        name.is_empty()
            || name == "file.data"
            || name.starts_with("http.") && name != "http.header_names"
    });
    if !known {
        return None;
    }
    if !rule.is_http() && buffers.len() == 1 && buffers.contains_key("") {
        let mut traffic = sided(rule.to_client, payload);
        if rule.protocol == "ftp" {
            let (server, client) = (&mut traffic.to_server, &mut traffic.to_client);
            match rule.to_client {
                true => server.extend(b"FEAT\r\n"),
                false => client.extend(b"220 (x)\r\n"),
            }
        }
        return Some(traffic);
    }
    if rule.to_client || buffers.contains_key("file.data") {
        return Some(response(&get, payload, style));
    }
    Some(request(&get, payload, style))
}

fn sided(to_client: bool, bytes: Vec<u8>) -> Traffic {
    if to_client {
        Traffic { to_server: Vec::new(), to_client: bytes }
    } else {
        Traffic { to_server: bytes, to_client: Vec::new() }
    }
}

/// The header lines that a layout of `http.header` and those of single headers make.
fn header_lines(get: &dyn Fn(&str) -> Option<Vec<u8>>, style: usize) -> Vec<u8> {
    let mut lines = Vec::new();
    let singles = [
        ("http.user_agent", "User-Agent"),
        ("http.host", "Host"),
        ("http.cookie", "Cookie"),
        ("http.referer", "Referer"),
        ("http.accept", "Accept"),
        ("http.connection", "Connection"),
        ("http.content_type", "Content-Type"),
    ];
    let block = [get("http.header"), get("http.header.raw")].into_iter().flatten();
    for block in block {
        let mut block = &block[..];
        while let Some(rest) = block.strip_suffix(b"\r\n") {
            block = rest;
        }
        let first = block.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let lead: &[u8] = match (style, first.contains(&b':')) {
            (0 | 1, true) if !block.starts_with(b"\r\n") && !block.starts_with(b":") => b"",
            _ if block.starts_with(b"\r\n") => b"X-First: 1",
            _ if block.starts_with(b":") => b"X-First",
            _ => b"X-First: ",
        };
        lines.extend([lead, block].concat());
        let last = block.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        let whole = lead.len() > 2 || last.contains(&b':');
        lines.extend(if whole { &b"\r\n"[..] } else { b": 1\r\n" });
    }
    for (buffer, name) in singles {
        if let Some(value) = get(buffer) {
            lines.extend([name.as_bytes(), b": ", &value, b"\r\n"].concat());
        }
    }
    lines
}

fn request(get: &dyn Fn(&str) -> Option<Vec<u8>>, payload: Vec<u8>, style: usize) -> Traffic {
    let body = get("http.request_body");
    let method = get("http.method")
        .unwrap_or_else(|| if body.is_some() { b"POST".to_vec() } else { b"GET".to_vec() });
    // A payload that starts as a request is one.
    let text = payload.to_ascii_uppercase();
    if body.is_none()
        && (text.starts_with(b"GET ") || text.starts_with(b"POST "))
        && style.is_multiple_of(2)
    {
        let end: &[u8] = if style == 0 { b"" } else { b" HTTP/1.1\r\nHost: h\r\n\r\n" };
        return sided(false, [&payload[..], end].concat());
    }
    let uri = match (get("http.uri"), get("http.uri.raw")) {
        (Some(uri), None) => escaped(&uri),
        (_, Some(raw)) => raw,
        (None, None) => Vec::new(),
    };
    let slash: &[u8] =
        if uri.starts_with(b"/") || style > 1 && !uri.is_empty() { b"" } else { b"/" };
    let start = [&method[..], b" ", slash, &uri, b" HTTP/1.1\r\n"].concat();
    let body = [body.unwrap_or_default(), payload].concat();
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    let headers = header_lines(get, style);
    sided(false, [&start[..], &headers, length.as_bytes(), &body].concat())
}

fn response(get: &dyn Fn(&str) -> Option<Vec<u8>>, payload: Vec<u8>, style: usize) -> Traffic {
    let body = get("file.data").or_else(|| get("http.response_body"));
    if body.is_none() && payload.starts_with(b"HTTP/1.") {
        return sided(true, payload);
    }
    let code = get("http.stat_code").unwrap_or_else(|| b"200".to_vec());
    let reason = get("http.stat_msg").unwrap_or_else(|| b"OK".to_vec());
    let body = [body.unwrap_or_default(), payload].concat();
    let start = [b"HTTP/1.1 ", &code[..], b" ", &reason, b"\r\n"].concat();
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    let headers = header_lines(get, style);
    let to_client = [&start[..], &headers, length.as_bytes(), &body].concat();
    let uri = get("http.uri").map_or(b"/".to_vec(), |uri| escaped(&uri));
    let to_server = [b"GET ", &uri[..], b" HTTP/1.1\r\n\r\n"].concat();
    Traffic { to_server, to_client }
}

/// A URI with those bytes percent-encoded that cannot stand in one.
fn escaped(uri: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    for &byte in uri {
        if byte.is_ascii_graphic() && byte != b'%' {
            escaped.push(byte);
        } else {
            escaped.extend(format!("%{byte:02X}").bytes());
        }
    }
    escaped
}

fn dns_query(name: &[u8]) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let name = if name.starts_with(b".") { [b"ab", name].concat() } else { name.to_vec() };
    for label in name.split(|&byte| byte == b'.') {
        message.push(label.len() as u8);
        message.extend_from_slice(label);
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// A ClientHello with a server name, in one record.
fn client_hello(name: &[u8]) -> Vec<u8> {
    let entry = [&[0], &(name.len() as u16).to_be_bytes()[..], name].concat();
    let list = [&(entry.len() as u16).to_be_bytes()[..], &entry].concat();
    let extension = [&[0, 0], &(list.len() as u16).to_be_bytes()[..], &list].concat();
    let mut hello = vec![3, 3];
    hello.extend([0xa5; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    hello.extend((extension.len() as u16).to_be_bytes());
    hello.extend(extension);
    let handshake = [&[1, 0], &(hello.len() as u16).to_be_bytes()[..], &hello].concat();
    record(&handshake)
}

fn record(fragment: &[u8]) -> Vec<u8> {
    [&[0x16, 3, 1], &(fragment.len() as u16).to_be_bytes()[..], fragment].concat()
}

fn mail(body: &[u8]) -> Vec<u8> {
    let head =
        b"EHLO a.example\r\nMAIL FROM:<a@a.example>\r\nRCPT TO:<b@b.example>\r\nDATA\r\nSubject: s";
    [&head[..], b"\r\n\r\n", body, b"\r\n.\r\n"].concat()
}

fn quoted_printable(stream: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = stream.starts_with(b"EHLO").then(|| head_and_body(stream)).flatten()?;
    let body = body.strip_suffix(b"\r\n.\r\n")?;
    let quoted: Vec<u8> =
        body.iter().flat_map(|byte| format!("={byte:02X}").into_bytes()).collect();
    let line = b"\r\ncontent-transfer-encoding: quoted-printable\r\n\r\n";
    Some([head, line, &quoted, b"\r\n.\r\n"].concat())
}

/// Start and end of the URI of a request.
fn uri_of(request: &[u8]) -> Option<(usize, usize)> {
    let start = request.iter().position(|&byte| byte == b' ')? + 1;
    let line = request.iter().position(|&byte| byte == b'\n')?;
    let end = request[..line].windows(6).rposition(|window| window == b" HTTP/")?;
    (start < end).then_some((start, end))
}

fn with_uri(request: &[u8], change: impl Fn(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let (start, end) = uri_of(request)?;
    Some([&request[..start], &change(&request[start..end]), &request[end..]].concat())
}

/// Changes the path of a URI byte by byte.
fn by_byte(uri: &[u8], path_only: bool, change: impl Fn(u8) -> Vec<u8>) -> Vec<u8> {
    let query = uri.iter().position(|&byte| byte == b'?').unwrap_or(uri.len());
    let limit = if path_only { query } else { uri.len() };
    let changed = uri[..limit].iter().flat_map(|&byte| change(byte));
    changed.chain(uri[limit..].iter().copied()).collect()
}

/// The head of a message, and its body.
fn head_and_body(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = message.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((&message[..end], &message[end + 4..]))
}

fn chunked(message: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = head_and_body(message)?;
    let mut bytes = [head, b"\r\ntransfer-encoding: Chunked\r\n\r\n"].concat();
    for chunk in body.chunks(3) {
        bytes.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
    }
    bytes.extend(b"0\r\n\r\n");
    Some(bytes)
}

fn compressed(message: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = head_and_body(message)?;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).ok()?;
    let body = encoder.finish().ok()?;
    Some([head, b"\r\nCONTENT-ENCODING : gzip\r\n\r\n", &body].concat())
}

/// A message with its header lines changed.
fn with_lines(message: &[u8], change: impl Fn(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let (head, body) = head_and_body(message)?;
    let mut lines = head.split(|&byte| byte == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
    let mut bytes = lines.next()?.to_vec();
    for line in lines {
        bytes.extend([b"\r\n", &change(line)[..]].concat());
    }
    Some([&bytes[..], b"\r\n\r\n", body].concat())
}

/// Replaces what is between a header's name and its value.
fn separated(line: &[u8], separator: &[u8]) -> Vec<u8> {
    let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
    let value = line.get(colon + 1..).unwrap_or_default();
    [line[..colon].trim_ascii_end(), separator, value.trim_ascii_start()].concat()
}

/// A header line whose value goes on in further lines at each of its blanks.
fn folded(line: &[u8], ends: &[u8]) -> Vec<u8> {
    let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
    let (name, value) = line.split_at((colon + 2).min(line.len()));
    let changed = value.iter().flat_map(|&byte| {
        if matches!(byte, b' ' | b'\t') { [ends, &[byte]].concat() } else { vec![byte] }
    });
    name.iter().copied().chain(changed).collect()
}

/// A header line that is repeated where its value has `, `.
fn repeated(line: &[u8]) -> Vec<u8> {
    let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < line.len() {
        if line[at..].starts_with(b", ") {
            bytes.extend([b"\r\n", &line[..colon], b": "].concat());
            at += 2;
        } else {
            bytes.push(line[at]);
            at += 1;
        }
    }
    bytes
}

fn split_records(stream: &[u8], size: usize) -> Option<Vec<u8>> {
    let handshake = stream.strip_prefix(&[0x16, 3, 1]).and_then(|rest| rest.get(2..))?;
    Some(handshake.chunks(size).flat_map(record).collect())
}

type Change = fn(&[u8]) -> Option<Vec<u8>>;

fn flip_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}

fn percent(byte: u8) -> Vec<u8> {
    format!("%{byte:02x}").into_bytes()
}

/// A path of which letters are encoded, and of each encoding one character once more.
fn encoded_twice(uri: &[u8], character: usize) -> Vec<u8> {
    by_byte(uri, true, |byte| {
        if !byte.is_ascii_alphabetic() {
            return vec![byte];
        }
        let mut once = percent(byte);
        let twice = percent(once[character]);
        once.splice(character..=character, twice);
        once
    })
}

fn percent_all(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|&byte| percent(byte)).collect()
}

/// Mutations that a sensor sees through, each with its name.
pub const MUTATIONS: [(&str, Change); 29] = [
    ("case", |bytes| Some(bytes.iter().map(|&byte| flip_case(byte)).collect())),
    ("case of the path", |m| with_uri(m, |uri| by_byte(uri, true, |byte| vec![flip_case(byte)]))),
    ("percent-encoded", |m| {
        with_uri(m, |uri| {
            by_byte(
                uri,
                false,
                |byte| if b"/?".contains(&byte) { vec![byte] } else { percent(byte) },
            )
        })
    }),
    ("percent-encoded vowels", |m| {
        with_uri(m, |uri| {
            by_byte(uri, false, |b| if b"aeiouAEIOU_".contains(&b) { percent(b) } else { vec![b] })
        })
    }),
    ("percent-encoded slashes", |m| {
        with_uri(m, |uri| by_byte(uri, false, |b| if b == b'/' { percent(b) } else { vec![b] }))
    }),
    ("percent-encoded punctuation", |m| {
        with_uri(m, |uri| {
            let all = |b: u8| b.is_ascii_punctuation() && !b"/?%".contains(&b);
            by_byte(uri, false, |b| if all(b) { percent(b) } else { vec![b] })
        })
    }),
    ("%u", |m| {
        with_uri(m, |uri| {
            by_byte(uri, true, |b| {
                if b.is_ascii_alphanumeric() { format!("%u{b:04X}").into_bytes() } else { vec![b] }
            })
        })
    }),
    ("full width", |m| {
        with_uri(m, |uri| {
            by_byte(uri, true, |b| match b {
                b'/' | b'%' => vec![b],
                _ => String::from_utf16_lossy(&[u16::from(b) + 0xfee0]).into_bytes(),
            })
        })
    }),
    ("overlong", |m| {
        with_uri(m, |uri| {
            let long = |b: u8| vec![0xc0 | b >> 6, 0x80 | b & 0x3f];
            by_byte(uri, true, |b| if b.is_ascii_alphanumeric() { long(b) } else { vec![b] })
        })
    }),
    ("best fit", |m| {
        with_uri(m, |uri| {
            by_byte(uri, true, |b| match b {
                b'a' => vec![0xc4, 0x81],
                b'A' => vec![0xc4, 0x80],
                _ => vec![b],
            })
        })
    }),
    ("mixed encodings", |m| {
        let count = Cell::new(0u32);
        with_uri(m, |uri| {
            by_byte(uri, true, |byte| {
                count.set(count.get() + 1);
                match (count.get().wrapping_mul(0x9e37_79b9) >> 29, byte) {
                    (_, b'%' | b'/') | (0..=3, _) => vec![byte],
                    (4, _) => percent(byte),
                    (5, _) => format!("%U{byte:04x}").into_bytes(),
                    (6, _) => percent_all(&[0xc0 | byte >> 6, 0x80 | byte & 0x3f]),
                    _ => percent_all(&[
                        0xef,
                        0xbc | byte >> 6 & 1,
                        0x80 | byte.wrapping_sub(0x20) & 0x3f,
                    ]),
                }
            })
        })
    }),
    ("overlong, the second byte encoded", |m| {
        with_uri(m, |uri| {
            let long = |b: u8| [vec![0xc0 | b >> 6], percent(0x80 | b & 0x3f)].concat();
            by_byte(uri, true, |b| if b.is_ascii_alphanumeric() { long(b) } else { vec![b] })
        })
    }),
    ("encoded, then the first digit", |m| with_uri(m, |uri| encoded_twice(uri, 1))),
    ("encoded, then the second digit", |m| with_uri(m, |uri| encoded_twice(uri, 2))),
    ("several slashes", |m| {
        with_uri(m, |uri| by_byte(uri, true, |b| if b == b'/' { b"///".to_vec() } else { vec![b] }))
    }),
    ("dot segments", |m| {
        with_uri(m, |uri| {
            by_byte(uri, true, |b| if b == b'/' { b"/./zz/../".to_vec() } else { vec![b] })
        })
    }),
    ("backslashes", |m| {
        with_uri(m, |uri| by_byte(uri, true, |b| vec![if b == b'/' { b'\\' } else { b }]))
    }),
    ("absolute URI", |m| with_uri(m, |uri| [b"http://other.example", uri].concat())),
    ("chunked", |m| chunked(m)),
    ("gzip", |m| compressed(m)),
    ("folded", |m| with_lines(m, |line| folded(line, b"\r\n"))),
    ("folded with a line feed", |m| with_lines(m, |line| folded(line, b"\n"))),
    ("no space after the colon", |m| with_lines(m, |line| separated(line, b":"))),
    ("blanks around the colon", |m| with_lines(m, |line| separated(line, b" :  \t"))),
    ("value on the next line", |m| with_lines(m, |line| separated(line, b":\r\n "))),
    ("repeated headers", |m| with_lines(m, repeated)),
    ("quoted-printable", |m| quoted_printable(m)),
    ("records of one byte", |stream| split_records(stream, 1)),
    ("records of seven bytes", |stream| split_records(stream, 7)),
];

/// Traffic with the messages of both directions mutated where they can be.
pub fn mutated(traffic: &Traffic, change: Change) -> Option<Traffic> {
    let changed = |bytes: &Vec<u8>| change(bytes).unwrap_or_else(|| bytes.clone());
    let new =
        Traffic { to_server: changed(&traffic.to_server), to_client: changed(&traffic.to_client) };
    (new.to_server != traffic.to_server || new.to_client != traffic.to_client).then_some(new)
}
