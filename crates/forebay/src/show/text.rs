//! Makes untrusted text safe to print, and measures its width in columns.
//!
//! File names, filter expressions and packet contents can contain escape sequences that
//! move the cursor or change the title of a terminal, and bidirectional controls that make
//! a line read as another (Unicode Technical Report 36, "Bidirectional Text Spoofing").
//! Both become visible escapes such as `\u{1b}`.
//!
//! Widths follow Unicode Standard Annex 11 as far as tables of addresses and file names
//! need it: combining marks and joiners take no column, East Asian wide blocks and emoji
//! take two, everything else takes one.

use std::borrow::Cow;

use std::fmt::Write;
use unicode_width::UnicodeWidthChar as _;

/// Whether a character controls a terminal or the text direction instead of being printed.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// `text` on one line, with control characters replaced by visible escapes.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) {
            // Writing to a String cannot fail.
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// `text` with its line breaks, but other control characters replaced.
#[must_use]
pub fn visible_lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Columns that `c` takes on a terminal.
#[must_use]
pub fn char_columns(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// Columns that `text` takes on a terminal.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// The longest prefix of `text` that fits `limit` columns, and the rest.
#[must_use]
pub fn split_at_columns(text: &str, limit: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += char_columns(c);
        if used > limit {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// `text` cut to `limit` columns, with `…` in the last if something was cut.
#[must_use]
pub fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if columns(text) <= limit {
        return Cow::Borrowed(text);
    }
    if limit == 0 {
        return Cow::Borrowed("");
    }
    let (start, _) = split_at_columns(text, limit - 1);
    Cow::Owned(format!("{start}…"))
}

/// `text` in lines of at most `limit` columns, broken at spaces, or inside words without
/// spaces. A character wider than `limit` gets its own line, so that nothing is lost.
#[must_use]
pub fn wrap(text: &str, limit: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    loop {
        let (fits, beyond) = split_at_columns(rest, limit.max(1));
        if beyond.is_empty() {
            lines.push(fits);
            return lines;
        }
        let line_end = if beyond.starts_with(' ') {
            fits.len()
        } else {
            match fits.rfind(' ') {
                Some(space) if space > 0 => space,
                _ if fits.is_empty() => beyond.chars().next().map_or(0, char::len_utf8),
                _ => fits.len(),
            }
        };
        lines.push(rest[..line_end].trim_end());
        rest = rest[line_end..].trim_start();
        if rest.is_empty() {
            return lines;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_direction_marks_become_visible() {
        assert_eq!(visible("plain"), "plain");
        assert!(matches!(visible("naïve 日本"), Cow::Borrowed(_)));
        assert_eq!(visible("\u{1b}[2Jx\n"), "\\u{1b}[2Jx\\n");
        assert_eq!(visible("evil\u{202e}pacp.exe"), "evil\\u{202e}pacp.exe");
        assert_eq!(visible("\0\u{9b}"), "\\u{0}\\u{9b}");
        assert_eq!(visible_lines("a\u{1b}\n ^\r\n"), "a\\u{1b}\n ^\\r\n");
    }

    #[test]
    fn widths_of_narrow_wide_and_combining_text() {
        assert_eq!(columns("tcp"), 3);
        assert_eq!(columns("日本"), 4);
        assert_eq!(columns("e\u{301}"), 1);
        assert_eq!(columns("µs…"), 3);
    }

    #[test]
    fn truncation_never_exceeds_the_limit() {
        assert_eq!(truncate("sensor-12.pcap", 14), "sensor-12.pcap");
        assert_eq!(truncate("sensor-12.pcap", 8), "sensor-…");
        assert_eq!(truncate("日本語", 4), "日…");
        assert_eq!(truncate("abc", 1), "…");
        assert_eq!(truncate("abc", 0), "");
    }

    #[test]
    fn wrapping_breaks_at_spaces_and_keeps_every_word() {
        let text = "tcp port 80 and not host 10.0.0.1";
        let lines = wrap(text, 12);
        assert_eq!(lines, ["tcp port 80", "and not host", "10.0.0.1"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("日本", 1), ["日", "本"], "too wide for a line, yet not lost");
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("abc   ", 3), ["abc"]);
    }

    #[test]
    fn wrapped_lines_hold_the_text_for_every_limit() {
        let text = "  a bb  ccc dddddddddd é日本 e ";
        for limit in 0..40 {
            let lines = wrap(text, limit);
            let kept: String = lines.concat().chars().filter(|c| *c != ' ').collect();
            let all: String = text.chars().filter(|c| *c != ' ').collect();
            assert_eq!(kept, all, "limit {limit}");
            assert!(lines.iter().all(|line| columns(line) <= limit.max(2)), "limit {limit}");
        }
    }
}
