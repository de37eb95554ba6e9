//! Application payloads.
//!
//! A [`Message`] is a few words from which any range of its bytes can be written
//! independently: TCP cuts it into segments and retransmits some of them, without
//! storing anything. It is a rendered head of less than [`HEAD`] bytes followed by
//! an endless body of text or random bytes.

pub mod dns;
mod http;
mod names;
mod text;
mod tls;
mod writer;

use forebay_packet::random::{Random, fill_at};
pub use writer::Writer;

/// An upper bound of a rendered head.
const HEAD: usize = 1024;

/// Longest fragment of a TLS record (RFC 8446 section 5.1).
const TLS_RECORD: u32 = 16_384;
const TLS_RECORD_HEADER: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    HttpRequest { body: u32 },
    HttpResponse { body: u32, text: bool },
    ClientHello,
    ServerFlight,
    ClientFinished,
    Records,
    Opaque,
}

/// One application message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    kind: Kind,
    seed: u64,
    len: u32,
}

impl Message {
    /// A message without bytes.
    pub const EMPTY: Self = Self { kind: Kind::Opaque, seed: 0, len: 0 };

    fn with_head(kind: Kind, seed: u64, body: u32) -> Self {
        let mut message = Self { kind, seed, len: 0 };
        message.len = message.render_head(&mut [0; HEAD]) as u32 + body;
        message
    }

    /// An HTTP/1.1 request; with a body it is a POST, otherwise a GET.
    #[must_use]
    pub fn http_request(seed: u64, body: u32) -> Self {
        Self::with_head(Kind::HttpRequest { body }, seed, body)
    }

    /// An HTTP/1.1 response with a body of text or of random bytes.
    #[must_use]
    pub fn http_response(seed: u64, body: u32) -> Self {
        let text = seed & 1 == 0;
        Self::with_head(Kind::HttpResponse { body, text }, seed, body)
    }

    /// A TLS ClientHello with a server name.
    #[must_use]
    pub fn client_hello(seed: u64) -> Self {
        Self::with_head(Kind::ClientHello, seed, 0)
    }

    /// A TLS ServerHello and `encrypted` bytes of what follows it.
    #[must_use]
    pub fn server_flight(seed: u64, encrypted: u16) -> Self {
        // The rendered head ends with the header of the encrypted record, whose
        // length is in the seed so that it can be rendered again.
        let seed = seed & !0xffff | u64::from(encrypted);
        Self::with_head(Kind::ServerFlight, seed, u32::from(encrypted))
    }

    /// The client's last message of a TLS handshake.
    #[must_use]
    pub fn client_finished(seed: u64) -> Self {
        Self::with_head(Kind::ClientFinished, seed, tls::FINISHED)
    }

    /// TLS application data, `len` bytes with the record headers, of which there
    /// is at least one.
    #[must_use]
    pub fn records(seed: u64, len: u32) -> Self {
        let len = len.max(TLS_RECORD_HEADER + 17);
        // A last record needs at least a tag and a content type.
        let rest = len % (TLS_RECORD + TLS_RECORD_HEADER);
        let len = if rest < TLS_RECORD_HEADER + 17 { len - rest } else { len };
        Self { kind: Kind::Records, seed, len }
    }

    /// Random bytes.
    #[must_use]
    pub fn opaque(seed: u64, len: u32) -> Self {
        Self { kind: Kind::Opaque, seed, len }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Writes the bytes from `offset` on.
    pub fn write(&self, offset: u32, out: &mut [u8]) {
        match self.kind {
            Kind::HttpResponse { text: true, .. } | Kind::HttpRequest { .. } => {
                text::fill(self.seed, offset, out);
            }
            _ => fill_at(self.seed, offset, out),
        }
        if self.kind == Kind::Records {
            self.write_record_headers(offset, out);
        } else if (offset as usize) < HEAD {
            let mut head = [0; HEAD];
            let len = self.render_head(&mut head);
            if let Some(rest) = head[..len].get(offset as usize..) {
                let n = rest.len().min(out.len());
                out[..n].copy_from_slice(&rest[..n]);
            }
        }
    }

    /// Writes those bytes of record headers that lie in the range.
    fn write_record_headers(&self, offset: u32, out: &mut [u8]) {
        let period = TLS_RECORD + TLS_RECORD_HEADER;
        let end = offset + out.len() as u32;
        let mut start = offset / period * period;
        while start < end {
            let inside = (self.len - start).min(period) - TLS_RECORD_HEADER;
            let header = tls::record_header(tls::APPLICATION_DATA, inside as u16);
            for (at, byte) in (start..).zip(header) {
                if (offset..end).contains(&at) {
                    out[(at - offset) as usize] = byte;
                }
            }
            start += period;
        }
    }

    fn render_head(&self, out: &mut [u8]) -> usize {
        let mut writer = Writer::new(out);
        let mut random = Random::new(self.seed);
        match self.kind {
            Kind::HttpRequest { body } => http::request(&mut writer, &mut random, body),
            Kind::HttpResponse { body, text } => {
                http::response(&mut writer, &mut random, body, text);
            }
            Kind::ClientHello => tls::client_hello(&mut writer, &mut random),
            Kind::ServerFlight => {
                tls::server_hello(&mut writer, &mut random, self.seed as u16);
            }
            Kind::ClientFinished => tls::client_finished(&mut writer),
            Kind::Records | Kind::Opaque => {}
        }
        writer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let mut all = Vec::new();
        for seed in 0..40 {
            all.push(Message::http_request(seed, 0));
            all.push(Message::http_request(seed, 3_000));
            all.push(Message::http_response(seed, 5_000 + seed as u32));
            all.push(Message::client_hello(seed));
            all.push(Message::server_flight(seed << 20, 3_000));
            all.push(Message::client_finished(seed));
            all.push(Message::records(seed, 33_000 + seed as u32 * 7));
            all.push(Message::opaque(seed, 777));
        }
        all
    }

    fn whole(message: &Message) -> Vec<u8> {
        let mut bytes = vec![0; message.len() as usize];
        message.write(0, &mut bytes);
        bytes
    }

    #[test]
    fn any_range_of_a_message_is_the_same_bytes() {
        for message in messages() {
            let bytes = whole(&message);
            for start in (0..bytes.len()).step_by(211) {
                let mut part = vec![0; 300.min(bytes.len() - start)];
                message.write(start as u32, &mut part);
                assert_eq!(part, &bytes[start..start + part.len()], "{message:?} at {start}");
            }
        }
    }

    #[test]
    fn heads_fit_and_http_lengths_are_right() {
        for message in messages() {
            assert!(message.render_head(&mut [0; HEAD]) < HEAD, "{message:?}");
        }
        let bytes = whole(&Message::http_response(4, 1_234));
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(head.contains("Content-Length: 1234\r\n"), "{head}");
        assert_eq!(body.len(), 1_234);
    }

    #[test]
    fn tls_records_tile_their_messages() {
        for message in messages() {
            if !matches!(
                message.kind,
                Kind::ClientHello | Kind::ServerFlight | Kind::ClientFinished | Kind::Records
            ) {
                continue;
            }
            let bytes = whole(&message);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                assert!((20..=23).contains(&rest[0]) && rest[1] == 3, "{message:?}");
                let len = usize::from(u16::from_be_bytes([rest[3], rest[4]]));
                rest = &rest[5 + len..];
            }
        }
    }
}
