//! Locates the error that libpcap reports for an expression.
//!
//! libpcap's messages have no position. Three properties of its compiler allow
//! it to be determined from outside; where none of them applies, no position is
//! given.
//!
//! 1. Many messages quote the offending word (`unknown port 'foo'`). If it
//!    occurs in the expression exactly once as a whole word, that is the
//!    position.
//! 2. The parser is LR(1) and never reads past the token at which it fails. A
//!    *probe* after the first n tokens, a number too large for 32 bits, is
//!    refused by the scanner with its own message, and libpcap does not
//!    overwrite an error once set. So the message for "n tokens and probe" is
//!    the probe's exactly if some expression starts with those n tokens; the
//!    least n for which it is not ends with the offending token. If there is no
//!    such n, the expression ends too early.
//! 3. Semantic errors are raised while parsing, from left to right: the
//!    shortest prefix that raises the same message before `or` and the probe
//!    ends at the error.
//!
//! The last two are monotonic in n, so a binary search suffices: some 2 log₂ n
//! trials, none of which generates a program.
//!
//! Tokens here are coarser than libpcap's (`2:2` is one), never finer except
//! inside words that are no token of libpcap's either.

use std::ops::Range;

/// A decimal number that every version of libpcap refuses.
pub(crate) const PROBE: &str = "99999999999";

/// The end of libpcap's message for a syntax error.
const SYNTAX_ERROR: &str = "syntax error";

/// The bytes of `expression` that `message` is about, if they can be
/// determined; an empty range at the end if the expression ends too early.
/// `trial` compiles an expression without optimising it and returns libpcap's
/// message.
pub(crate) fn locate(
    expression: &str,
    message: &str,
    trial: impl Fn(&str) -> Result<(), String>,
) -> Option<Range<usize>> {
    let tokens = tokens(expression);
    if message.ends_with(SYNTAX_ERROR) {
        return locate_syntax_error(expression, &tokens, message, trial);
    }
    let quoted = quoted(message).map(|culprit| (culprit, whole_words(expression, culprit)));
    if let Some((_, places)) = &quoted
        && let [place] = places.as_slice()
    {
        return Some(place.clone());
    }

    let same = |count: usize| {
        let end = count.checked_sub(1).map_or(0, |last| tokens[last].end);
        let probed = format!("{} or {PROBE}", &expression[..end]);
        trial(&probed).is_err_and(|other| other == message)
    };
    let counts: Vec<usize> = (1..=tokens.len()).collect();
    let shorter = counts.partition_point(|&count| !same(count));
    let last = tokens.get(shorter)?.clone();
    let culprit =
        quoted.and_then(|(_, places)| places.into_iter().rfind(|place| place.end <= last.end));
    Some(culprit.unwrap_or(last))
}

fn locate_syntax_error(
    expression: &str,
    tokens: &[Range<usize>],
    message: &str,
    trial: impl Fn(&str) -> Result<(), String>,
) -> Option<Range<usize>> {
    let refused = trial(PROBE).err()?;
    let probed = |end: usize| trial(&format!("{} {PROBE}", &expression[..end])).err();
    // Not applicable if libpcap's scanner accepts the probe.
    if !refused.contains(PROBE) {
        return None;
    }
    let viable = tokens.partition_point(|token| probed(token.end).as_ref() == Some(&refused));
    match tokens.get(viable) {
        Some(token) if probed(token.end).as_deref() == Some(message) => Some(token.clone()),
        Some(_) => None,
        None => {
            let end = tokens.last().map_or(0, |token| token.end);
            Some(end..end)
        }
    }
}

/// The text between the first pair of quotes of a message.
fn quoted(message: &str) -> Option<&str> {
    let start = message.find(['\'', '"'])?;
    let quote = &message[start..=start];
    let rest = &message[start + 1..];
    let end = rest.find(quote)?;
    Some(&rest[..end]).filter(|culprit| !culprit.is_empty())
}

/// The positions of `word` in `expression` with no word character beside it.
fn whole_words(expression: &str, word: &str) -> Vec<Range<usize>> {
    let in_word = |c: Option<char>| c.is_some_and(is_word);
    let places = expression.match_indices(word).map(|(at, _)| at..at + word.len());
    places
        .filter(|place| {
            let before = expression[..place.start].chars().next_back();
            let after = expression[place.end..].chars().next();
            let joined_before = in_word(before) && word.starts_with(is_word);
            let joined_after = in_word(after) && word.ends_with(is_word);
            !joined_before && !joined_after
        })
        .collect()
}

/// Whether libpcap's names, numbers and addresses contain the character.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-' | '$')
}

/// The tokens of `expression`, in order, without white space.
fn tokens(expression: &str) -> Vec<Range<usize>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = expression[at..].chars().next() {
        let length = token_length(&expression[at..], first);
        if !first.is_whitespace() {
            tokens.push(at..at + length);
        }
        at += length;
    }
    tokens
}

/// Length of the token, or white space, at the start of `text`, whose first
/// character is `first`.
fn token_length(text: &str, first: char) -> usize {
    let run = |part: fn(char) -> bool| text.find(|c| !part(c)).unwrap_or(text.len());
    match first {
        // A keyword escaped as a name: `\tcp`.
        '\\' => 1 + text[1..].find([' ', '!', '(', ')', '\n', '\t']).unwrap_or(text.len() - 1),
        '-' => 1,
        c if is_word(c) => run(is_word),
        c if c.is_whitespace() => run(char::is_whitespace),
        _ => match text.get(..2) {
            Some("&&" | "||" | "<<" | ">>" | "<=" | ">=" | "!=" | "==") => 2,
            _ => first.len_utf8(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_and_operators() {
        let split = |text: &'static str| -> Vec<&str> {
            tokens(text).into_iter().map(|token| &text[token]).collect()
        };
        assert_eq!(split("tcp port 80"), ["tcp", "port", "80"]);
        assert_eq!(split("ip[2:2]-x>=7"), ["ip", "[", "2:2", "]", "-", "x", ">=", "7"]);
        assert_eq!(
            split("ip proto \\tcp&&!(vlan)"),
            ["ip", "proto", "\\tcp&&", "!", "(", "vlan", ")"]
        );
        assert_eq!(split("a&&b|c"), ["a", "&&", "b", "|", "c"]);
        assert_eq!(split(" tcp-syn\n\t✓ 1::2/64 "), ["tcp-syn", "✓", "1::2", "/", "64"]);
        assert!(split("  ").is_empty());
        assert_eq!(split("\\"), ["\\"]);
    }

    #[test]
    fn a_quoted_culprit_is_found_as_a_whole_word_only() {
        assert_eq!(quoted("unknown port 'foo'"), Some("foo"));
        assert_eq!(quoted("bits set in \"1.2.3.4/8\""), Some("1.2.3.4/8"));
        assert_eq!(quoted("can't parse"), None);
        assert_eq!(whole_words("foot foo a.foo (foo)", "foo"), [5..8, 16..19]);
        assert_eq!(whole_words("net 11.2.3.4/8 or 1.2.3.4/88", "1.2.3.4/8"), []);
    }

    #[test]
    fn of_several_quotations_the_one_that_raised_the_message_is_meant() {
        // Stands for a compiler that takes `x` as a keyword except after `port`.
        let trial = |text: &str| match text.contains("port x") {
            true => Err("unknown port 'x'".to_owned()),
            false => Ok(()),
        };
        let found = locate("x or port x or port x", "unknown port 'x'", trial);
        assert_eq!(found, Some(10..11));
        assert_eq!(locate("ip", "expression rejects all packets", |_| Ok(())), None);
    }
}
