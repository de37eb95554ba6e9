//! When and how output is coloured.
//!
//! Colour only repeats what the text says. It is used on a terminal that is not `dumb`,
//! unless the environment has a non-empty `NO_COLOR` (no-color.org). Sequences are ECMA-48
//! "select graphic rendition" with the terminal's own eight colours, which follow the
//! user's theme.

use std::ffi::OsStr;
use std::io::IsTerminal;

/// Whether a stream gets colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text only.
    Never,
    /// Text with colour sequences.
    Always,
}

/// A style of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Headings and key figures.
    Bold,
    /// Less important text.
    Dim,
    /// Success: a ledger that closes.
    Good,
    /// A warning: drops, imbalance.
    Warning,
    /// A failure.
    Bad,
}

impl Style {
    /// Parameters of the ECMA-48 sequence.
    fn parameters(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "1;31",
        }
    }
}

impl Colour {
    /// The setting for standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self::of_environment(std::io::stdout().is_terminal())
    }

    /// The setting for standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::of_environment(std::io::stderr().is_terminal())
    }

    fn of_environment(terminal: bool) -> Self {
        let no_color = std::env::var_os("NO_COLOR");
        Self::decide(terminal, no_color.as_deref(), std::env::var_os("TERM").as_deref())
    }

    /// The decision, given whether the stream is a terminal and the values of `NO_COLOR`
    /// and `TERM`.
    #[must_use]
    pub fn decide(terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let refused = no_color.is_some_and(|value| !value.is_empty());
        let dumb = term.is_some_and(|value| value == "dumb");
        if terminal && !refused && !dumb { Self::Always } else { Self::Never }
    }

    /// `text` in `style`, or unchanged without colour.
    #[must_use]
    pub fn paint(self, style: Style, text: &str) -> String {
        match self {
            Self::Always if !text.is_empty() => {
                format!("\u{1b}[{}m{text}\u{1b}[0m", style.parameters())
            }
            _ => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_needs_a_terminal_and_no_objection() {
        let term = Some(OsStr::new("xterm-256color"));
        assert_eq!(Colour::decide(true, None, term), Colour::Always);
        assert_eq!(Colour::decide(true, Some(OsStr::new("")), term), Colour::Always);
        assert_eq!(Colour::decide(true, Some(OsStr::new("1")), term), Colour::Never);
        assert_eq!(Colour::decide(true, None, Some(OsStr::new("dumb"))), Colour::Never);
        assert_eq!(Colour::decide(false, None, term), Colour::Never);
    }

    #[test]
    fn painting_is_reversible_by_dropping_the_sequences() {
        assert_eq!(Colour::Always.paint(Style::Good, "closes"), "\u{1b}[32mcloses\u{1b}[0m");
        assert_eq!(Colour::Never.paint(Style::Good, "closes"), "closes");
        assert_eq!(Colour::Always.paint(Style::Bold, ""), "");
    }
}
