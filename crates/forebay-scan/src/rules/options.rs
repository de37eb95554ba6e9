//! The options of a rule: `(keyword; keyword: value; …)`, and the values of `content`.

use super::source::Fault;

/// The most bytes of a content.
pub const MAX_CONTENT_LEN: usize = crate::MAX_LITERAL_LEN;

/// An option, with its offset in the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleOption<'a> {
    /// The keyword.
    pub name: &'a str,
    /// What stands after the colon.
    pub value: Option<&'a [u8]>,
    /// The offset of the keyword in the rule.
    pub at: usize,
    /// The offset of the value in the rule.
    pub value_at: usize,
}

/// Splits the text between the parentheses of a rule.
///
/// A semicolon ends an option unless a backslash stands before it (Suricata), or it stands in
/// quotes that a value starts with (Snort).
pub fn split(text: &[u8], offset: usize) -> Result<Vec<RuleOption<'_>>, Fault> {
    let mut options = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let end = option_end(text, start);
        let whole = &text[start..end];
        let lead = whole.len() - whole.trim_ascii_start().len();
        if !whole.trim_ascii().is_empty() {
            options.push(option(whole.trim_ascii(), offset + start + lead)?);
        }
        start = end + 1;
    }
    Ok(options)
}

/// The offset of the semicolon that ends the option at `start`.
fn option_end(text: &[u8], start: usize) -> usize {
    let mut end = start;
    loop {
        end = match text[end..].iter().position(|&byte| byte == b';') {
            Some(length) => end + length,
            None => return text.len(),
        };
        let escaped = end > start && text[end - 1] == b'\\' && !is_escaped(text, start, end - 1);
        if !escaped && !in_quotes(&text[start..end]) {
            return end;
        }
        end += 1;
    }
}

/// Whether a backslash stands before an offset, and is not itself escaped.
fn is_escaped(text: &[u8], start: usize, at: usize) -> bool {
    let run = text[start..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
    run % 2 == 1
}

/// Whether a value starts with a quote and has no other one that could end it.
fn in_quotes(option: &[u8]) -> bool {
    let Some(colon) = option.iter().position(|&byte| byte == b':') else { return false };
    let value = option[colon + 1..].trim_ascii();
    let value = value.strip_prefix(b"!").unwrap_or(value).trim_ascii_start();
    let Some(quoted) = value.strip_prefix(b"\"") else { return false };
    !(0..quoted.len()).any(|at| quoted[at] == b'"' && !is_escaped(quoted, 0, at))
}

fn option(text: &[u8], at: usize) -> Result<RuleOption<'_>, Fault> {
    let colon = text.iter().position(|&byte| byte == b':');
    let name = text[..colon.unwrap_or(text.len())].trim_ascii();
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let name = std::str::from_utf8(name).ok().filter(|name| name.bytes().all(|b| known(&b)));
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(Fault::expected(at, "a keyword", text));
    };
    let Some(colon) = colon else {
        return Ok(RuleOption { name, value: None, at, value_at: at });
    };
    let value = &text[colon + 1..];
    let lead = value.len() - value.trim_ascii_start().len();
    Ok(RuleOption { name, value: Some(value.trim_ascii()), at, value_at: at + colon + 1 + lead })
}

/// The value of a `content`: whether it is negated, its bytes, and Snort 3's modifiers after it.
pub fn content(value: &[u8], at: usize) -> Result<(bool, Vec<u8>, &[u8]), Fault> {
    let rest = value.strip_prefix(b"!").unwrap_or(value);
    let negated = rest.len() != value.len();
    let rest = rest.trim_ascii_start();
    let at = at + (value.len() - rest.len());
    let Some(quoted) = rest.strip_prefix(b"\"") else {
        return Err(Fault::expected(at, "a text in quotes", value));
    };
    let ends = (0..quoted.len()).find(|&end| quoted[end] == b'"' && !is_escaped(quoted, 0, end));
    let Some(end) = ends else {
        return Err(Fault::expected(at, "a text that ends in a quote", rest));
    };
    let after = quoted[end + 1..].trim_ascii();
    if !after.is_empty() && !after.starts_with(b",") {
        let at = at + 2 + end;
        return Err(Fault::expected(at, "the end of the option after the quote", after));
    }
    let bytes = unescape(&quoted[..end], at + 1)?;
    if bytes.is_empty() {
        return Err(Fault::expected(at, "a content of at least one byte", rest));
    }
    if bytes.len() > MAX_CONTENT_LEN {
        let found = bytes.len();
        let message =
            format!("a content has at most {MAX_CONTENT_LEN} bytes; this one has {found}");
        return Err(Fault::new(at, message));
    }
    Ok((negated, bytes, after))
}

/// Replaces `|hex|` and `\x`.
fn unescape(text: &[u8], at: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut index = 0;
    while index < text.len() {
        match text[index] {
            b'|' => {
                let Some(length) = text[index + 1..].iter().position(|&byte| byte == b'|') else {
                    let found = &text[index..];
                    return Err(Fault::expected(at + index, "hexadecimal up to `|`", found));
                };
                hex(&text[index + 1..index + 1 + length], at + index + 1, &mut bytes)?;
                index += length + 2;
            }
            b'\\' if index + 1 < text.len() => {
                bytes.push(text[index + 1]);
                index += 2;
            }
            byte => {
                bytes.push(byte);
                index += 1;
            }
        }
    }
    Ok(bytes)
}

fn hex(digits: &[u8], at: usize, bytes: &mut Vec<u8>) -> Result<(), Fault> {
    let mut high = None;
    for (index, &digit) in digits.iter().enumerate() {
        if digit.is_ascii_whitespace() {
            continue;
        }
        let Some(value) = char::from(digit).to_digit(16) else {
            let found = &digits[index..=index];
            return Err(Fault::expected(at + index, "a hexadecimal digit", found));
        };
        match high.take() {
            None => high = Some(value as u8),
            Some(high) => bytes.push(high << 4 | value as u8),
        }
    }
    match high {
        None => Ok(()),
        Some(_) => Err(Fault::expected(at + digits.len(), "pairs of hexadecimal digits", b"|")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_at_semicolons_that_are_not_escaped() {
        let text = br#"msg:"a\; b"; content:"x;y" ; nocase; pcre:"/a\"\;/i";; sid: 1 "#;
        let options: Vec<_> =
            split(text, 0).unwrap().iter().map(|o| (o.name, o.value.unwrap_or(b"-"))).collect();
        let expected: [(&str, &[u8]); 5] = [
            ("msg", br#""a\; b""#),
            ("content", br#""x;y""#),
            ("nocase", b"-"),
            ("pcre", br#""/a\"\;/i""#),
            ("sid", b"1"),
        ];
        assert_eq!(options, expected);
    }

    #[test]
    fn contents_have_hexadecimal_and_escapes() {
        let text = br#"!"a|0d 0A|\"\\b|7C|""#;
        assert_eq!(content(text, 0).unwrap(), (true, b"a\r\n\"\\b|".to_vec(), &b""[..]));
        assert_eq!(content(br#""a",nocase"#, 0).unwrap().2, b",nocase");
    }

    #[test]
    fn bad_contents_name_their_place() {
        for (text, at) in [
            (&br#""a|0g|""#[..], 4),
            (br#""a|0|""#, 4),
            (br#""a|00""#, 2),
            (b"abc", 0),
            (br#""abc"#, 0),
            (br#""""#, 0),
            (br#""||""#, 0),
            (br#""a"b"#, 3),
        ] {
            assert_eq!(content(text, 0).unwrap_err().at, at, "{}", String::from_utf8_lossy(text));
        }
    }
}
