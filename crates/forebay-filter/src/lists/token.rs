//! The tokens of an expression, as far as its Boolean structure needs them.
//!
//! This implements the word boundaries of libpcap's lexer (`scanner.l`). Text
//! that libpcap might divide differently is rejected.

/// A token, with the position of its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub kind: Kind<'a>,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    And,
    Or,
    Not,
    Open,
    Close,
    /// A keyword, a name, a number or an address.
    Word(&'a str),
    /// An operator of arithmetic or of comparison, or `[ … ]` with its content.
    Operator(&'a str),
}

/// The tokens of `text`; `None` if libpcap might see others.
pub(super) fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.as_bytes().get(at) {
        let (kind, length) = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'(' => (Kind::Open, 1),
            b')' => (Kind::Close, 1),
            b'[' => {
                let length = text[at..].find(']')? + 1;
                (Kind::Operator("["), length)
            }
            b'\\' => {
                let is_end = |c: char| " !()\n\t".contains(c);
                let length = text[at..].find(is_end).unwrap_or(text.len() - at);
                (Kind::Word(&text[at..at + length]), length)
            }
            _ if is_of_word(byte) => word(&text[at..])?,
            _ => operator(&text[at..])?,
        };
        tokens.push(Token { kind, start: at, end: at + length });
        at += length;
    }
    Some(tokens)
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_' | b'$')
}

fn word(text: &str) -> Option<(Kind<'_>, usize)> {
    let length = text.bytes().position(|byte| !is_of_word(byte)).unwrap_or(text.len());
    let kind = match &text[..length] {
        "and" => Kind::And,
        "or" => Kind::Or,
        "not" => Kind::Not,
        word if is_whole(word) => Kind::Word(word),
        _ => return None,
    };
    Some((kind, length))
}

/// Whether libpcap takes all of `word` as one token: an IPv6 or Ethernet
/// address, or a name, number, range or address of other characters.
fn is_whole(word: &str) -> bool {
    let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    if word.contains(':') {
        return word.bytes().filter(|&byte| byte == b':').count() >= 2
            && word.bytes().all(is_of_address);
    }
    let ends = [word.as_bytes().first(), word.as_bytes().last()];
    !word.contains('$') && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

fn operator(text: &str) -> Option<(Kind<'_>, usize)> {
    const OPERATORS: [&str; 16] =
        [">=", "<=", "!=", "==", "<<", ">>", "+", "-", "*", "/", "%", "<", ">", "&", "|", "^"];
    if text.starts_with("&&") {
        return Some((Kind::And, 2));
    }
    if text.starts_with("||") {
        return Some((Kind::Or, 2));
    }
    if text.starts_with('!') && !text.starts_with("!=") {
        return Some((Kind::Not, 1));
    }
    if text.starts_with('=') && !text.starts_with("==") {
        return Some((Kind::Operator("="), 1));
    }
    let operator = OPERATORS.into_iter().find(|operator| text.starts_with(operator))?;
    Some((Kind::Operator(operator), operator.len()))
}
