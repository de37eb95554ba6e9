//! Heads of HTTP/1.1 messages (RFC 9112).

use super::names::HostName;
use super::writer::Writer;
use forebay_packet::random::Random;

const PATHS: [&str; 8] = [
    "/",
    "/index.html",
    "/assets/app.js",
    "/images/header.jpg",
    "/v2/items?page=",
    "/search?q=harbour+tides&n=",
    "/account/orders/",
    "/download/archive-",
];
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "curl/8.5.0",
    "python-requests/2.31.0",
];
const SERVERS: [&str; 3] = ["nginx/1.24.0", "Apache/2.4.58 (Debian)", "envoy"];
const TEXT_TYPES: [&str; 3] = ["text/html; charset=utf-8", "text/plain", "application/xhtml+xml"];
const BINARY_TYPES: [&str; 3] = ["image/jpeg", "application/octet-stream", "video/mp4"];

fn pick<'a>(random: &mut Random, choices: &[&'a str]) -> &'a [u8] {
    choices[random.below(choices.len() as u64) as usize].as_bytes()
}

/// A request; with a body it is a POST.
pub fn request(writer: &mut Writer<'_>, random: &mut Random, body: u32) {
    writer.put(if body > 0 { b"POST " } else { b"GET " });
    let path = pick(random, &PATHS);
    writer.put(path);
    if matches!(path.last(), Some(b'=' | b'/' | b'-')) && path.len() > 1 {
        writer.put_decimal(random.below(100_000) as u32);
    }
    writer.put(b" HTTP/1.1\r\nHost: ");
    HostName::new(random).put_dotted(writer);
    writer.put(b"\r\nUser-Agent: ");
    writer.put(pick(random, &AGENTS));
    writer.put(b"\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n");
    if random.one_in(2) {
        writer.put(b"Cookie: session=");
        for _ in 0..4 {
            writer.put_decimal(random.next() as u32);
        }
        writer.put(b"\r\n");
    }
    if body > 0 {
        writer.put(b"Content-Type: text/html\r\nContent-Length: ");
        writer.put_decimal(body);
        writer.put(b"\r\n");
    }
    writer.put(b"Connection: keep-alive\r\n\r\n");
}

/// A response with `body` bytes behind it.
pub fn response(writer: &mut Writer<'_>, random: &mut Random, body: u32, text: bool) {
    writer.put(b"HTTP/1.1 200 OK\r\nServer: ");
    writer.put(pick(random, &SERVERS));
    writer.put(b"\r\nContent-Type: ");
    writer.put(pick(random, if text { &TEXT_TYPES } else { &BINARY_TYPES }));
    writer.put(b"\r\nContent-Length: ");
    writer.put_decimal(body);
    writer.put(b"\r\nCache-Control: max-age=");
    writer.put_decimal(random.below(86_400) as u32);
    writer.put(b"\r\nConnection: keep-alive\r\n\r\n");
}
