//! Buffers that contents are matched in, and how their bytes come from the stream.
//!
//! A buffer's [`Form`] says which parts of a content must stand in the stream as they are. The
//! names, and what is done to the bytes of each, are those of Suricata's documentation of rules
//! and of its HTTP parser, for every server personality.

use super::header::Application;

/// The direction of a flow that bytes travel in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Either, or not known.
    #[default]
    Either,
}

impl Side {
    /// What both demand; either direction, if they contradict each other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Either, side) | (side, Self::Either) => side,
            (a, b) if a == b => a,
            _ => Self::Either,
        }
    }

    /// Whether bytes of a direction may be meant.
    #[must_use]
    pub fn admits(self, direction: Self) -> bool {
        self == Self::Either || direction == Self::Either || self == direction
    }
}

/// How the bytes of a buffer come from the stream or packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As they are in the stream.
    Raw,
    /// As they are in a message of HTTP/1.
    HttpVerbatim,
    /// A request's URI: decoded, separators compressed, dot segments removed.
    Uri,
    /// The host of a request: of its URI, decoded, or of a header; in lower case.
    Host,
    /// Header lines: unfolded, trimmed, repeated ones joined by `, `.
    Headers,
    /// The value of the header with this name, in lower case, treated as header lines are.
    HeaderValue(&'static str),
    /// The body of a request: chunks joined, decompressed.
    RequestBody,
    /// The body of a response: chunks joined, decompressed, ranges joined.
    ResponseBody,
    /// A file in any protocol that carries files.
    File,
    /// A domain name of DNS: labels joined by dots.
    DomainName,
    /// A field of a TLS handshake.
    TlsField,
    /// A distinguished name of a certificate, as text.
    DistinguishedName,
    /// A name that SMB carries in ASCII or UTF-16.
    SmbName,
    /// Bytes that need not stand in the stream as they are.
    Derived,
}

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The form of its bytes.
    pub form: Form,
    /// The direction that its bytes travel in.
    pub side: Side,
    /// The application protocol that it implies.
    pub application: Option<Application>,
}

impl Buffer {
    /// The payload of packets and the stream.
    pub const PAYLOAD: Self = Self { form: Form::Raw, side: Side::Either, application: None };

    /// A buffer of which nothing is known.
    pub const UNKNOWN: Self = Self { form: Form::Derived, side: Side::Either, application: None };
}

/// How a keyword selects its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// For the content before it.
    Previous,
    /// For the contents after it.
    Following,
}

/// The buffer that a keyword selects, and for which contents.
pub fn by_keyword(name: &str) -> Option<(Buffer, Selection)> {
    use Application::{Dns, Http, Other, Smb, Tls};
    use Form as F;
    use Side::{Either, ToClient, ToServer};
    let selection =
        if MODIFIERS.contains(&name) { Selection::Previous } else { Selection::Following };
    let (form, side, application) = match name {
        "pkt_data" | "rawbytes_data" => (F::Raw, Either, None),
        "http_uri" | "http.uri" => (F::Uri, ToServer, Some(Http)),
        "http_raw_uri" | "http.uri.raw" | "http_method" | "http.method" | "http_request_line"
        | "http.request_line" | "http.raw_request" => (F::HttpVerbatim, ToServer, Some(Http)),
        "http_stat_code" | "http.stat_code" | "http_stat_msg" | "http.stat_msg"
        | "http_response_line" | "http.response_line" => (F::HttpVerbatim, ToClient, Some(Http)),
        "http_raw_header" | "http.header.raw" | "http_raw_cookie" | "http_protocol"
        | "http.protocol" => (F::HttpVerbatim, Either, Some(Http)),
        "http_host" | "http.host" | "http_raw_host" | "http.host.raw" => {
            (F::Host, ToServer, Some(Http))
        }
        "http_user_agent" | "http.user_agent" => {
            (F::HeaderValue("user-agent"), ToServer, Some(Http))
        }
        "http_referer" | "http.referer" => (F::HeaderValue("referer"), ToServer, Some(Http)),
        "http_accept" | "http.accept" => (F::HeaderValue("accept"), ToServer, Some(Http)),
        "http_accept_lang" | "http.accept_lang" => {
            (F::HeaderValue("accept-language"), ToServer, Some(Http))
        }
        "http_accept_enc" | "http.accept_enc" => {
            (F::HeaderValue("accept-encoding"), ToServer, Some(Http))
        }
        "http.request_header" | "http_request_header" => (F::Headers, ToServer, Some(Http)),
        "http.server" => (F::HeaderValue("server"), ToClient, Some(Http)),
        "http.location" => (F::HeaderValue("location"), ToClient, Some(Http)),
        "http.response_header" | "http_response_header" => (F::Headers, ToClient, Some(Http)),
        "http_connection" | "http.connection" => (F::HeaderValue("connection"), Either, Some(Http)),
        "http_content_type" | "http.content_type" => {
            (F::HeaderValue("content-type"), Either, Some(Http))
        }
        "http_content_len" | "http.content_len" => {
            (F::HeaderValue("content-length"), Either, Some(Http))
        }
        "http_header" | "http.header" | "http_cookie" | "http.cookie" | "http_header_names"
        | "http.header_names" | "http_start" | "http.start" => (F::Headers, Either, Some(Http)),
        "http_client_body" | "http.request_body" => (F::RequestBody, ToServer, Some(Http)),
        "http_server_body" | "http.response_body" => (F::ResponseBody, ToClient, Some(Http)),
        "file_data" | "file.data" => (F::File, Either, None),
        "dns_query" | "dns.query" | "dns.query.name" | "dns.queries.rrname" => {
            (F::DomainName, Either, Some(Dns))
        }
        "dns.answer.name"
        | "dns.answers.rrname"
        | "dns.authorities.rrname"
        | "dns.additionals.rrname" => (F::DomainName, Either, Some(Dns)),
        "tls_sni" | "tls.sni" => (F::TlsField, ToServer, Some(Tls)),
        "tls_cert_subject" | "tls.cert_subject" | "tls_cert_issuer" | "tls.cert_issuer" => {
            (F::DistinguishedName, Either, Some(Tls))
        }
        "ssh_proto" | "ssh.proto" | "ssh_software" | "ssh.software" => {
            (F::Raw, Either, Some(Other))
        }
        "ftpdata_command" | "sip.method" | "sip.uri" | "sip.request_line" | "sip.response_line"
        | "sip.stat_code" | "sip.stat_msg" => (F::Derived, Either, Some(Other)),
        "smb.share" | "smb.named_pipe" | "smb_share" | "smb_named_pipe" => {
            (F::SmbName, Either, Some(Smb))
        }
        "dce_stub_data" | "dcerpc.stub_data" => (F::Derived, Either, Some(Smb)),
        _ => return by_prefix(name),
    };
    Some((Buffer { form, side, application }, selection))
}

/// Keywords of Suricata up to 4 and of Snort 2 that stand after their content.
const MODIFIERS: [&str; 15] = [
    "http_client_body",
    "http_cookie",
    "http_header",
    "http_host",
    "http_method",
    "http_raw_cookie",
    "http_raw_header",
    "http_raw_host",
    "http_raw_uri",
    "http_server_body",
    "http_stat_code",
    "http_stat_msg",
    "http_uri",
    "http_user_agent",
    "http_encode",
];

/// Buffers whose bytes are derived: hashes, decoded fields, headers of packets.
fn by_prefix(name: &str) -> Option<(Buffer, Selection)> {
    let application = match name.split(['.', '_']).next()? {
        "http" | "http2" => Some(Application::Http),
        "tls" | "ssl" | "ja3" | "ja3s" | "ja4" => Some(Application::Tls),
        "dns" => Some(Application::Dns),
        "smb" | "dcerpc" => Some(Application::Smb),
        "smtp" | "email" => Some(Application::Smtp),
        "ssh" | "ftp" | "ike" | "krb5" | "mqtt" | "nfs" | "quic" | "rfb" | "sip" | "snmp"
        | "ldap" | "enip" | "modbus" | "dhcp" | "sdp" | "websocket" | "pgsql" | "mdns"
        | "llmnr" | "ntp" => Some(Application::Other),
        "file" | "filename" | "fileext" | "filemagic" | "base64" | "ipv4" | "ipv6" | "tcp"
        | "udp" | "icmpv4" | "icmpv6" | "igmp" | "entropy" | "vba" | "js" | "raw" => None,
        _ => return None,
    };
    Some((Buffer { form: Form::Derived, side: Side::Either, application }, Selection::Following))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_follow_their_content_and_new_ones_precede_it() {
        for (old, new) in [("http_uri", "http.uri"), ("http_header", "http.header")] {
            let (a, b) = (by_keyword(old).unwrap(), by_keyword(new).unwrap());
            assert_eq!(a.0, b.0);
            assert_eq!((a.1, b.1), (Selection::Previous, Selection::Following));
        }
        assert_eq!(by_keyword("tls_sni").unwrap().1, Selection::Following);
        assert_eq!(by_keyword("ja3.hash").unwrap().0.form, Form::Derived);
        assert!(by_keyword("sid").is_none());
    }

    #[test]
    fn contradicting_sides_admit_both() {
        assert_eq!(Side::ToServer.and(Side::ToClient), Side::Either);
        assert_eq!(Side::Either.and(Side::ToClient), Side::ToClient);
    }
}
