//! A matcher of rules, written from Suricata's documentation of the rule language and sharing no
//! code with the product. It fires at least where a sensor does: regular expressions and other
//! keywords than contents, flow direction and header count as satisfied.

use std::collections::BTreeMap;

use super::decode;

/// One `content` of a rule.
#[derive(Clone, Debug)]
pub struct Content {
    /// What is looked for.
    pub bytes: Vec<u8>,
    /// Whether letters match in both cases.
    pub nocase: bool,
    /// Whether it must not match.
    pub negated: bool,
    /// The buffer by its modern name; empty for the payload.
    pub buffer: String,
    /// The first place, from the start of the buffer.
    pub offset: Option<i64>,
    /// How many bytes behind `offset` it must lie in.
    pub depth: Option<i64>,
    /// The first place, from the end of the match before.
    pub distance: Option<i64>,
    /// How many bytes behind `distance` it must lie in.
    pub within: Option<i64>,
    /// Whether it must be at the start of the buffer.
    pub at_start: bool,
    /// Whether it must be at the end of the buffer.
    pub at_end: bool,
}

/// A rule as far as the matcher needs it.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its number.
    pub sid: String,
    /// The protocol of its header.
    pub protocol: String,
    /// Addresses and ports of the source, as they are written.
    pub source: (String, String),
    /// Addresses and ports of the destination, as they are written.
    pub destination: (String, String),
    /// Whether it is about what goes to the client.
    pub to_client: bool,
    /// Its contents, in order.
    pub contents: Vec<Content>,
}

/// What two hosts sent each other.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// The bytes that the client sends.
    pub to_server: Vec<u8>,
    /// The bytes that the server sends.
    pub to_client: Vec<u8>,
}

/// Names that the documentation gives as old forms of others.
fn modern(name: &str) -> Option<(String, bool)> {
    let after = [
        ("http_uri", "http.uri"),
        ("http_raw_uri", "http.uri.raw"),
        ("http_header", "http.header"),
        ("http_raw_header", "http.header.raw"),
        ("http_client_body", "http.request_body"),
        ("http_server_body", "http.response_body"),
        ("http_cookie", "http.cookie"),
        ("http_method", "http.method"),
        ("http_user_agent", "http.user_agent"),
        ("http_host", "http.host"),
        ("http_stat_code", "http.stat_code"),
        ("http_stat_msg", "http.stat_msg"),
    ];
    if let Some((_, new)) = after.iter().find(|(old, _)| *old == name) {
        return Some(((*new).to_owned(), true));
    }
    let sticky =
        ["http_", "dns_", "tls_", "ssh_", "file_", "http.", "dns.", "tls.", "ssh.", "file."];
    if name == "pkt_data" {
        return Some((String::new(), false));
    }
    sticky.iter().any(|prefix| name.starts_with(prefix)).then(|| {
        let (family, rest) = name.split_at(name.find(['_', '.']).expect("in all prefixes"));
        (format!("{family}.{}", &rest[1..]), false)
    })
}

/// Parses a rule's line.
pub fn parse(line: &str) -> Option<Rule> {
    let open = line.find('(')?;
    let close = line.rfind(')')?;
    let head: Vec<&str> = line[..open].split_whitespace().collect();
    let &[_, protocol, source, source_ports, _, destination, destination_ports] = &head[..] else {
        return None;
    };
    let mut rule = Rule {
        sid: String::new(),
        protocol: protocol.to_owned(),
        source: (source.to_owned(), source_ports.to_owned()),
        destination: (destination.to_owned(), destination_ports.to_owned()),
        to_client: false,
        contents: Vec::new(),
    };
    let mut sticky = String::new();
    for option in options(&line[open + 1..close]) {
        let (name, value) = match option.split_once(':') {
            Some((name, value)) => (name.trim(), value.trim()),
            None => (option.trim(), ""),
        };
        let number = || value.trim().parse::<i64>().ok();
        match name {
            "content" | "uricontent" => {
                let uri = name == "uricontent";
                let buffer = if uri { "http.uri".to_owned() } else { sticky.clone() };
                rule.contents.push(content(value, buffer));
                continue;
            }
            "sid" => rule.sid = value.to_owned(),
            "flow" => {
                rule.to_client = value.contains("to_client") || value.contains("from_server");
            }
            _ => {}
        }
        if let Some((buffer, for_previous)) = value.is_empty().then(|| modern(name)).flatten() {
            match rule.contents.last_mut() {
                Some(last) if for_previous => last.buffer = buffer,
                _ => sticky = buffer,
            }
            continue;
        }
        let Some(last) = rule.contents.last_mut() else { continue };
        match name {
            "nocase" => last.nocase = true,
            "offset" => last.offset = number(),
            "depth" => last.depth = number(),
            "distance" => last.distance = Some(number().unwrap_or(0)),
            "within" => last.within = number(),
            "startswith" => last.at_start = true,
            "endswith" => last.at_end = true,
            "isdataat" if value.replace(' ', "") == "!1,relative" => last.at_end |= !last.negated,
            _ => {}
        }
    }
    Some(rule)
}

/// Options, separated by semicolons that no backslash precedes.
fn options(text: &str) -> Vec<String> {
    let mut options = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ';' && !escaped {
            options.push(String::new());
        } else {
            options.last_mut().expect("never empty").push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    options
}

fn content(value: &str, buffer: String) -> Content {
    let negated = value.starts_with('!');
    let quoted = value.trim_start_matches('!').trim().trim_start_matches('"');
    let quoted = quoted.strip_suffix('"').unwrap_or(quoted);
    let mut bytes = Vec::new();
    let mut hex = false;
    let mut digits = String::new();
    let mut escaped = false;
    for c in quoted.chars() {
        match c {
            '|' if !escaped => {
                hex = !hex;
                let all = std::mem::take(&mut digits);
                let pairs = (0..all.len() / 2).map(|at| &all[at * 2..at * 2 + 2]);
                bytes.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")));
            }
            c if hex => digits.extend((!c.is_whitespace()).then_some(c)),
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            c => {
                let mut buffer = [0; 4];
                bytes.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
            }
        }
        escaped = false;
    }
    Content {
        bytes,
        nocase: false,
        negated,
        buffer,
        offset: None,
        depth: None,
        distance: None,
        within: None,
        at_start: false,
        at_end: false,
    }
}

impl Rule {
    /// The contents of each buffer, in order.
    pub fn by_buffer(&self) -> BTreeMap<String, Vec<Content>> {
        let mut buffers: BTreeMap<String, Vec<Content>> = BTreeMap::new();
        for content in &self.contents {
            buffers.entry(content.buffer.clone()).or_default().push(content.clone());
        }
        buffers
    }

    /// Whether the rule inspects HTTP.
    pub fn is_http(&self) -> bool {
        self.protocol == "http"
            || self.contents.iter().any(|content| content.buffer.starts_with("http."))
    }

    /// Whether the rule fires.
    pub fn fires(&self, traffic: &Traffic) -> bool {
        if self.is_http() && !decode::is_http(traffic) {
            return false;
        }
        if self.protocol == "ftp" && !decode::is_ftp(traffic) {
            return false;
        }
        self.by_buffer().iter().all(|(buffer, contents)| {
            decode::buffers(traffic, buffer, self.to_client)
                .iter()
                .any(|bytes| in_order(contents, bytes, 0))
        })
    }
}

/// Whether contents match, the first of them from the end of the match before it.
fn in_order(contents: &[Content], bytes: &[u8], previous: i64) -> bool {
    let Some((content, rest)) = contents.split_first() else { return true };
    let relative = content.distance.is_some() || content.within.is_some();
    let base = if relative { previous } else { 0 };
    let first =
        base + if relative { content.distance.unwrap_or(0) } else { content.offset.unwrap_or(0) };
    let length = if relative { content.within } else { content.depth };
    let size = bytes.len() as i64;
    let last = length.map_or(size, |length| (first + length).min(size));
    let found = |at: i64| {
        let end = at + content.bytes.len() as i64;
        let text = &bytes[at as usize..end as usize];
        let equal = if content.nocase {
            text.eq_ignore_ascii_case(&content.bytes)
        } else {
            text == content.bytes
        };
        equal && (!content.at_start || at == 0) && (!content.at_end || end == size)
    };
    let mut places = (first.max(0)..=last - content.bytes.len() as i64).filter(|&at| found(at));
    if content.negated {
        return places.next().is_none() && in_order(rest, bytes, previous);
    }
    places.any(|at| in_order(rest, bytes, at + content.bytes.len() as i64))
}
