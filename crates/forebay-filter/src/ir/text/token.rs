//! The tokens of function text, and their positions.

/// A syntax error in function text, and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct IrTextError {
    /// Line of the text, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The expected token.
    pub expected: String,
    /// The token found, in quotes, or the end of the text.
    pub found: String,
}

/// A word, a number or an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// Empty at the end of the text.
    pub text: &'a str,
    pub line: usize,
    pub column: usize,
}

impl Token<'_> {
    /// The error that another token is expected here.
    pub fn expected(self, expected: impl Into<String>) -> IrTextError {
        let Self { text, line, column } = self;
        let found = match text {
            "" => "the end of the text".to_owned(),
            text => format!("{:?}", text.chars().take(40).collect::<String>()),
        };
        IrTextError { line, column, expected: expected.into(), found }
    }

    /// The value of a numeric token: decimal, or hexadecimal after `0x`.
    pub fn number(self) -> Option<u32> {
        let digits = |text: &str| text.starts_with(|c: char| c.is_ascii_hexdigit());
        match self.text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok().filter(|_| digits(hex)),
            None => self.text.parse().ok().filter(|_| digits(self.text)),
        }
    }

    /// The number of a name such as `v12` with the letter `kind`.
    pub fn name(self, kind: char) -> Option<u32> {
        let digits = self.text.strip_prefix(kind)?;
        let number = digits.parse().ok()?;
        // Reject leading zeros: each name has one spelling.
        (digits == format!("{number}")).then_some(number)
    }
}

/// Operators of two characters.
const SIGNS: [&str; 5] = ["==", "!=", ">=", "<<", ">>"];

/// The tokens of `text`; the last is empty and marks the end.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut last = (1, 1);
    for (index, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or(line);
        let mut rest = content.trim_start();
        while !rest.is_empty() {
            let before = &content[..content.len() - rest.len()];
            let column = before.chars().count() + 1;
            let length = length(rest);
            tokens.push(Token { text: &rest[..length], line: index + 1, column });
            last = (index + 1, column + rest[..length].chars().count());
            rest = rest[length..].trim_start();
        }
    }
    tokens.push(Token { text: "", line: last.0, column: last.1 });
    tokens
}

/// The bytes of the first token of `text`, which is not empty.
fn length(text: &str) -> usize {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = text.find(|c| !is_word(c)).unwrap_or(text.len());
    if word > 0 {
        word
    } else if SIGNS.iter().any(|sign| text.starts_with(sign)) {
        2
    } else {
        text.chars().next().map_or(text.len(), char::len_utf8)
    }
}
