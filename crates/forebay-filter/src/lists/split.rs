//! A pure `or` list taken apart.
//!
//! Of libpcap's grammar (pcap-filter(7)) this knows just enough to recognise a
//! list of terms that are each qualifiers and a value, or a value alone, which
//! inherits the qualifiers of the term before it. Whatever else there is, an
//! `and`, a bracket, a protocol by itself, a name that might be a keyword, and
//! it is not a list. Whether a term makes sense is left to libpcap.

/// A term of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term<'a> {
    /// The qualifiers as they stand in the list, at this term or at an earlier
    /// one that it inherits them from.
    pub qualifiers: &'a str,
    /// An address, a network, a port or a range of ports.
    pub value: &'a str,
}

impl Term<'_> {
    /// The term by itself.
    pub fn expression(&self) -> String {
        format!("{} {}", self.qualifiers, self.value)
    }
}

const PROTOCOLS: [&str; 7] = ["ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp"];
const KINDS: [&str; 4] = ["host", "net", "port", "portrange"];

/// The terms of `expression`; nothing if it is not a pure list.
pub(super) fn split(expression: &str) -> Option<Vec<Term<'_>>> {
    let mut words = Words { rest: without_brackets(expression) };
    let mut terms: Vec<Term> = Vec::new();
    loop {
        let qualifiers = match words.qualifiers() {
            Some("") => terms.last()?.qualifiers,
            Some(qualifiers) => qualifiers,
            None => return None,
        };
        let value = words.take().filter(|word| is_value(word))?;
        terms.push(Term { qualifiers, value });
        match words.take() {
            None => return Some(terms),
            Some("or" | "||") => {}
            Some(_) => return None,
        }
    }
}

/// `expression` without brackets around the whole.
fn without_brackets(expression: &str) -> &str {
    let mut inner = expression.trim_matches(is_space);
    while let Some(stripped) = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        inner = stripped.trim_matches(is_space);
    }
    inner
}

/// What libpcap skips between words.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// The rest of the expression, word by word.
#[derive(Clone, Copy)]
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start_matches(is_space);
        let length = match text.strip_prefix("||") {
            Some(_) => 2,
            // No word of any list, but not the end of it either.
            None if text.starts_with('|') => 1,
            None => text.find(|c| is_space(c) || c == '|').unwrap_or(text.len()),
        };
        let (word, rest) = text.split_at(length);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Takes the next word if it is among `words`.
    fn take_one_of(&mut self, words: &[&str]) -> bool {
        let mut next = *self;
        let is = next.take().is_some_and(|word| words.contains(&word));
        if is {
            *self = next;
        }
        is
    }

    /// Takes a protocol, a direction and a kind, each if it is there; the text
    /// from the first to the last of them. Nothing for half a direction.
    fn qualifiers(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start_matches(is_space);
        self.rest = text;
        self.take_one_of(&PROTOCOLS);
        let mut direction = *self;
        if direction.take_one_of(&["src", "dst"]) {
            *self = direction;
            // `src or dst`; but `src` may also be followed by a value.
            if direction.take_one_of(&["or", "and"]) {
                if !direction.take_one_of(&["src", "dst"]) {
                    return None;
                }
                *self = direction;
            }
        }
        self.take_one_of(&KINDS);
        let taken = &text[..text.len() - self.rest.len()];
        Some(taken.trim_end_matches(is_space))
    }
}

/// Whether a word is sure to be a value and no keyword of libpcap: it has the
/// characters of one, and a digit at the beginning or a dot or colon inside.
fn is_value(word: &str) -> bool {
    let of_value = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/' | '-' | '_');
    word.chars().all(of_value)
        && word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == ':')
        && (word.starts_with(|c: char| c.is_ascii_digit()) || word.contains(['.', ':']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expressions(list: &str) -> Option<Vec<String>> {
        Some(split(list)?.iter().map(Term::expression).collect())
    }

    #[test]
    fn terms_have_their_qualifiers_or_inherit_them() {
        for (list, expected) in [
            ("host 1.2.3.4", &["host 1.2.3.4"][..]),
            ("host 1.2.3.4 or 1.2.3.5", &["host 1.2.3.4", "host 1.2.3.5"]),
            (
                " src host a.b or\n5.6.7.8||dst net 10.0.0.0/8 || 11.0.0.0/8 ",
                &["src host a.b", "src host 5.6.7.8", "dst net 10.0.0.0/8", "dst net 11.0.0.0/8"],
            ),
            (
                "((tcp src or dst port 80 or 443 or portrange 1-2))",
                &["tcp src or dst port 80", "tcp src or dst port 443", "portrange 1-2"],
            ),
            ("src 1.2.3.4 or dst 1.2.3.4", &["src 1.2.3.4", "dst 1.2.3.4"]),
            ("ip6 host 2001:db8::1 or ::1", &["ip6 host 2001:db8::1", "ip6 host ::1"]),
            ("arp 1.2.3.4", &["arp 1.2.3.4"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|&term| term.to_owned()).collect();
            assert_eq!(expressions(list), Some(expected), "{list}");
        }
    }

    #[test]
    fn anything_else_is_no_list() {
        for other in [
            "",
            "or",
            "1.2.3.4",
            "host",
            "host 1.2.3.4 or",
            "or host 1.2.3.4",
            "host 1.2.3.4 and port 80",
            "host 1.2.3.4 && port 80",
            "not host 1.2.3.4",
            "! host 1.2.3.4",
            "host !1.2.3.4",
            "host (1.2.3.4 or 1.2.3.5)",
            "(host 1.2.3.4) or host 1.2.3.5",
            "host 1.2.3.4 or tcp",
            "host 1.2.3.4 or vlan",
            "port ssh",
            "port 80 or ssh",
            "src or dst",
            "src or 1.2.3.4",
            "src and host 1.2.3.4",
            "host host 1.2.3.4",
            "port tcp 80",
            "net 10.0.0.0 mask 255.0.0.0",
            "ether host 00:11:22:33:44:55",
            "host 1.2.3.4 or ip[0] = 1",
            "host 1.2.3.4 or 5 = 5",
            "len > 5",
            "host 1.2.3.4 | host 1.2.3.5",
            "host 1.2.3.4\u{a0}or host 1.2.3.5",
        ] {
            assert_eq!(expressions(other), None, "{other:?}");
        }
    }
}
