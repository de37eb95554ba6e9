//! What a sensor sees of traffic: the buffers of HTTP, DNS, TLS and SSH, decoded and normalised as
//! Suricata's documentation describes.

use std::io::Read;

use super::reference::Traffic;

const METHODS: [&str; 6] = ["GET ", "POST ", "HEAD ", "PUT ", "OPTIONS ", "PROPFIND "];

/// Whether a sensor takes the traffic for HTTP.
pub fn is_http(traffic: &Traffic) -> bool {
    let start = traffic.to_server.to_ascii_uppercase();
    METHODS.iter().any(|method| start.starts_with(method.as_bytes()))
        || traffic.to_client.starts_with(b"HTTP/1.")
}

/// Whether a sensor takes the traffic for a control connection of FTP.
pub fn is_ftp(traffic: &Traffic) -> bool {
    let start = traffic.to_server.to_ascii_uppercase();
    ["FEAT", "USER ", "PORT "].iter().any(|command| start.starts_with(command.as_bytes()))
        || traffic.to_client.starts_with(b"220 (")
}

/// The buffers of a name; all of them, if there is one for each direction.
pub fn buffers(traffic: &Traffic, name: &str, to_client: bool) -> Vec<Vec<u8>> {
    let sides = || [traffic.to_server.clone(), traffic.to_client.clone()];
    if name.is_empty() {
        return sides().to_vec();
    }
    match name {
        "dns.query" => return dns_name(&traffic.to_server).into_iter().collect(),
        "tls.sni" => return sni(&traffic.to_server).into_iter().collect(),
        "file.data" if traffic.to_server.starts_with(b"EHLO") => {
            return mail_body(&traffic.to_server).into_iter().collect();
        }
        "ssh.proto" => return sides().iter().filter_map(|side| ssh_version(side)).collect(),
        _ => {}
    }
    let side = if to_client { &traffic.to_client } else { &traffic.to_server };
    let response_only = ["http.stat_code", "http.stat_msg", "http.response_body", "file.data"];
    let request_only = ["http.uri", "http.uri.raw", "http.method", "http.user_agent", "http.host"];
    let side = match name {
        _ if response_only.contains(&name) => &traffic.to_client,
        _ if request_only.contains(&name) || name == "http.request_body" => &traffic.to_server,
        _ => side,
    };
    let Some(message) = Message::parse(side) else { return Vec::new() };
    let twice = (name == "http.uri").then(|| message.uri_decoded_twice());
    message.buffer(name).into_iter().chain(twice).collect()
}

/// A message of HTTP/1.
pub struct Message {
    start: Vec<u8>,
    raw_headers: Vec<u8>,
    /// Names and values, equal names joined.
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Message {
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = Vec::new();
        let mut rest = bytes;
        loop {
            let end = rest.iter().position(|&byte| byte == b'\n')?;
            let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            rest = &rest[end + 1..];
            if line.is_empty() {
                break;
            }
            lines.push(line.to_vec());
        }
        let raw = &bytes[..bytes.len() - rest.len()];
        let first = raw.iter().position(|&byte| byte == b'\n')? + 1;
        let mut message = Self {
            start: lines.first()?.clone(),
            raw_headers: raw[first..].to_vec(),
            headers: Vec::new(),
            body: Vec::new(),
        };
        let mut unfolded: Vec<Vec<u8>> = Vec::new();
        for line in &lines[1..] {
            match unfolded.last_mut() {
                Some(last) if matches!(line[0], b' ' | b'\t') => {
                    last.push(line[0]);
                    last.extend_from_slice(&line[1..]);
                }
                _ => unfolded.push(line.clone()),
            }
        }
        for line in unfolded {
            let colon = line.iter().position(|&byte| byte == b':')?;
            let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            let known = message.headers.iter_mut().find(|(n, _)| n.eq_ignore_ascii_case(name));
            match known {
                Some((_, values)) => values.extend([b", ", value].concat()),
                None => message.headers.push((name.to_vec(), value.to_vec())),
            }
        }
        message.body = message.decode(rest);
        Some(message)
    }

    fn decode(&self, body: &[u8]) -> Vec<u8> {
        let has = |name: &str, word: &str| {
            let value = self.header(name).unwrap_or_default().to_ascii_lowercase();
            String::from_utf8_lossy(&value).contains(word)
        };
        let body = if has("transfer-encoding", "chunked") { unchunk(body) } else { body.to_vec() };
        if has("content-encoding", "gzip") {
            let mut plain = Vec::new();
            return match flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain) {
                Ok(_) => plain,
                Err(_) => body,
            };
        }
        body
    }

    fn header(&self, name: &str) -> Option<Vec<u8>> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()));
        found.map(|(_, value)| value.clone())
    }

    fn buffer(&self, name: &str) -> Option<Vec<u8>> {
        let words: Vec<&[u8]> = self.start.splitn(2, |&byte| byte == b' ').collect();
        let after = words.get(1).copied().unwrap_or_default();
        let uri = self.uri();
        match name {
            "http.method" => words.first().map(|word| word.to_vec()),
            "http.uri" => Some(normalised_uri(uri, 1)),
            "http.uri.raw" => Some(uri.to_vec()),
            "http.protocol" => after.rsplit(|&byte| byte == b' ').next().map(<[u8]>::to_vec),
            "http.stat_code" => after.get(..3).map(<[u8]>::to_vec),
            "http.stat_msg" => after.get(4..).map(<[u8]>::to_vec),
            "http.header.raw" => Some(self.raw_headers.clone()),
            "http.header" => Some(self.header_lines()),
            "http.header_names" => Some(self.header_names()),
            "http.request_body" | "http.response_body" | "file.data" => Some(self.body.clone()),
            "http.host" => {
                let authority = uri.strip_prefix(b"http://").map(|rest| {
                    percent_decoded(rest.split(|&byte| byte == b'/').next().unwrap_or_default())
                });
                authority.or_else(|| self.header("host")).map(|host| host.to_ascii_lowercase())
            }
            "http.cookie" => self.header("cookie").or_else(|| self.header("set-cookie")),
            _ => self.header(&name.strip_prefix("http.")?.replace('_', "-")),
        }
    }

    /// The URI of a request as it is written.
    fn uri(&self) -> &[u8] {
        let blank = self.start.iter().position(|&byte| byte == b' ');
        let after = blank.map_or(&[][..], |blank| &self.start[blank + 1..]);
        match after.windows(6).rposition(|window| window == b" HTTP/") {
            Some(end) => &after[..end],
            None => after,
        }
    }

    /// `http.uri` of a sensor with `double-decode-path`.
    fn uri_decoded_twice(&self) -> Vec<u8> {
        normalised_uri(self.uri(), 2)
    }

    fn header_lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        for (name, value) in &self.headers {
            if !name.eq_ignore_ascii_case(b"cookie") && !name.eq_ignore_ascii_case(b"set-cookie") {
                lines.extend([&name[..], b": ", value, b"\r\n"].concat());
            }
        }
        lines
    }

    fn header_names(&self) -> Vec<u8> {
        let mut names = b"\r\n".to_vec();
        for (name, _) in &self.headers {
            names.extend([&name[..], b"\r\n"].concat());
        }
        names.extend(b"\r\n");
        names
    }
}

fn unchunk(mut body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some(end) = body.windows(2).position(|window| window == b"\r\n") {
        let digits = String::from_utf8_lossy(&body[..end]).into_owned();
        let Ok(size @ 1..) = usize::from_str_radix(digits.trim(), 16) else { break };
        let Some(chunk) = body.get(end + 2..end + 2 + size) else { break };
        plain.extend_from_slice(chunk);
        body = body.get(end + 4 + size..).unwrap_or_default();
    }
    plain
}

fn percent_decoded(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    let hex = |digits: Option<&[u8]>| {
        let digits = std::str::from_utf8(digits?).ok()?;
        digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
        u32::from_str_radix(digits, 16).ok()
    };
    while let Some(&byte) = rest.first() {
        let unicode =
            matches!(rest.get(..2), Some(b"%u" | b"%U")).then(|| hex(rest.get(2..6))).flatten();
        let short = (byte == b'%').then(|| hex(rest.get(1..3))).flatten();
        let (value, length) = match (unicode, short) {
            (Some(code @ 0xff01..=0xff5e), _) => ((code - 0xfee0) as u8, 6),
            (Some(code), _) => (code as u8, 6),
            (None, Some(code)) => (code as u8, 3),
            _ => (byte, 1),
        };
        bytes.push(value);
        rest = &rest[length..];
    }
    bytes
}

/// Overlong and full-width characters as ASCII.
fn narrowed(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let (value, length) = match *rest {
            [lead @ (0xc0 | 0xc1), low @ 0x80..=0xbf, ..] => ((lead & 1) << 6 | low & 0x3f, 2),
            [0xef, middle @ 0xbc..=0xbd, low @ 0x80..=0xbf, ..] => {
                let code = 0xf000 | u32::from(middle & 0x3f) << 6 | u32::from(low & 0x3f);
                (code.wrapping_sub(0xfee0) as u8, 3)
            }
            [0xc4, 0x80, ..] => (b'A', 2),
            [0xc4, 0x81, ..] => (b'a', 2),
            _ => (byte, 1),
        };
        bytes.push(value);
        rest = &rest[length..];
    }
    bytes
}

/// The URI as `http.uri` has it: without scheme and host, decoded, one slash for several, without
/// dot segments. The path is decoded so many times.
pub fn normalised_uri(uri: &[u8], times: usize) -> Vec<u8> {
    let uri = match uri.strip_prefix(b"http://") {
        Some(rest) => {
            let host = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
            &rest[host..]
        }
        None => uri,
    };
    let end = uri.iter().position(|&byte| byte == b'?').unwrap_or(uri.len());
    let path = (0..times).fold(uri[..end].to_vec(), |path, _| narrowed(&percent_decoded(&path)));
    let path: Vec<u8> = path.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
    let absolute = path.first() == Some(&b'/');
    let mut segments: Vec<&[u8]> = Vec::new();
    let all: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    for segment in &all {
        match *segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let directory = matches!(all.last(), Some(&(b"" | b"." | b"..")));
    let mut normal = if absolute { b"/".to_vec() } else { Vec::new() };
    normal.extend(segments.join(&b'/'));
    if directory && !segments.is_empty() {
        normal.push(b'/');
    }
    normal.extend(percent_decoded(&uri[end..]));
    normal
}

/// The name of the first question.
fn dns_name(message: &[u8]) -> Option<Vec<u8>> {
    let mut rest = message.get(12..)?;
    let mut name = Vec::new();
    loop {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            return Some(name);
        }
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend_from_slice(after.get(..usize::from(length))?);
        rest = &after[usize::from(length)..];
    }
}

/// The server name of a ClientHello, its records joined.
fn sni(stream: &[u8]) -> Option<Vec<u8>> {
    let mut handshake = Vec::new();
    let mut rest = stream;
    while let [0x16, 3, _, high, low, after @ ..] = rest {
        let length = usize::from(*high) << 8 | usize::from(*low);
        handshake.extend_from_slice(after.get(..length)?);
        rest = &after[length..];
    }
    let u16_at = |at: usize| {
        Some(usize::from(*handshake.get(at)?) << 8 | usize::from(*handshake.get(at + 1)?))
    };
    // Type and length, version, random.
    let mut at = 4 + 2 + 32;
    at += 1 + usize::from(*handshake.get(at)?);
    at += 2 + u16_at(at)?;
    at += 1 + usize::from(*handshake.get(at)?);
    at += 2;
    while u16_at(at)? != 0 {
        at += 4 + u16_at(at + 2)?;
    }
    let length = u16_at(at + 7)?;
    handshake.get(at + 9..at + 9 + length).map(<[u8]>::to_vec)
}

/// The body of a mail, decoded if it is quoted-printable.
fn mail_body(stream: &[u8]) -> Option<Vec<u8>> {
    let end = stream.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = (stream[..end].to_ascii_lowercase(), &stream[end + 4..]);
    let body = body.strip_suffix(b"\r\n.\r\n").unwrap_or(body);
    let encoded = head.windows(16).any(|window| window == b"quoted-printable");
    if !encoded {
        return Some(body.to_vec());
    }
    let marked: Vec<u8> = body.iter().map(|&b| if b == b'=' { b'%' } else { b }).collect();
    Some(percent_decoded(&marked))
}

fn ssh_version(stream: &[u8]) -> Option<Vec<u8>> {
    let rest = stream.strip_prefix(b"SSH-")?;
    let end = rest.iter().position(|&byte| byte == b'-')?;
    Some(rest[..end].to_vec())
}
