//! By what flows are told to be of an application.

/// Methods by which Suricata detects HTTP at the start of a stream, in any case, followed by a space or
/// a tab.
const METHODS: [&str; 28] = [
    "GET",
    "PUT",
    "POST",
    "HEAD",
    "TRACE",
    "OPTIONS",
    "CONNECT",
    "DELETE",
    "PATCH",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "CHECKOUT",
    "UNCHECKOUT",
    "CHECKIN",
    "UPDATE",
    "LABEL",
    "REPORT",
    "MKWORKSPACE",
    "MKACTIVITY",
    "MERGE",
    "INVALID",
    "VERSION-CONTROL",
    "BASELINE-CONTROL",
];

/// Other starts of streams of HTTP, in any case.
const STARTS: [&str; 4] = ["HTTP/0.9", "HTTP/1.0", "HTTP/1.1", "PRI * HTTP/2.0"];

/// Literals, in any case, behind which another application may begin within a stream: those that ask for
/// TLS in SMTP and IMAP, FTP (in two spellings of Suricata's versions), POP3, LDAP (RFC 4511, section 4.14)
/// and PostgreSQL (`SSLRequest`). Behind them Suricata looks for applications as at the start.
pub(super) const UPGRADES: [&[u8]; 6] = [
    b"STARTTLS",
    b"AUTH TLS",
    b"AUTH_TLS",
    b"STLS",
    b"1.3.6.1.4.1.1466.20037",
    b"\x04\xd2\x16\x2f",
];

/// Literals, in any case, without which a flow is not taken for a control connection of FTP: commands
/// and replies by which versions of Suricata detect it.
pub(super) const FTP_MARKERS: [&str; 7] =
    ["FEAT", "USER ", "PASS ", "PORT ", "QUIT", "220 ", "220-"];

/// Whether a stream that begins with these bytes, of either direction, may be of HTTP: a sensor that takes
/// connections from their middle does not know which one is to the server. Blanks and ends of lines before
/// the start do not count. A few bytes may be if others behind them could make them so; none are not.
#[must_use]
pub fn may_begin_http(stream: &[u8]) -> bool {
    let text = stream.trim_ascii_start();
    let Some(first) = text.first() else { return !stream.is_empty() };
    // Most segments are not text.
    if !first.is_ascii_alphabetic() {
        return false;
    }
    let begins = |start: &str| {
        let len = start.len().min(text.len());
        text[..len].eq_ignore_ascii_case(&start.as_bytes()[..len])
    };
    let is_method = |method: &&str| {
        begins(method) && text.get(method.len()).is_none_or(|byte| matches!(byte, b' ' | b'\t'))
    };
    STARTS.into_iter().any(begins) || METHODS.iter().any(is_method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_begins_with_a_method_or_a_version() {
        for start in [
            "GET / HTTP/1.1",
            "get\t/",
            "http/1.0 200",
            "VERSION-CONTROL x",
            "PRI * HTTP/2.0\r\n",
            "\r\n POST /",
        ] {
            for len in 1..=start.len() {
                assert!(may_begin_http(&start.as_bytes()[..len]), "{start:?} {len}");
            }
        }
        assert!(!may_begin_http(b""));
        for other in [
            "\x16\x03\x01\x02\0\x01http/1.1",
            "GETTING ",
            "xGET / HTTP/1.1",
            "HTTP/2 200",
            "SSH-2.0",
            "\0",
        ] {
            assert!(!may_begin_http(other.as_bytes()), "{other:?}");
        }
    }
}
