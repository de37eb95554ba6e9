//! Marks a position in a filter expression, for error messages.
//!
//! An expression is printed on one line, with line breaks replaced, and carets
//! on the next line mark the position. Of an expression too long for a terminal
//! only a window around the position is printed.

use std::ops::Range;

/// Columns of the window, including the cut marks.
const WIDTH: usize = 76;

/// Marks a cut.
const CUT: &str = "...";

/// Two lines without a final line break: `expression` or a window of it, and
/// carets under the bytes of `span`, or one caret if the span is empty. The
/// span lies on character boundaries.
pub(crate) fn point_at(expression: &str, span: &Range<usize>) -> String {
    let shown: Vec<char> =
        expression.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let column = |byte: usize| expression[..byte].chars().count();
    let (start, end) = (column(span.start), column(span.end));

    // Centre the window on the position, as far as the ends allow.
    let first = if shown.len() < WIDTH {
        0
    } else {
        start.saturating_sub(WIDTH / 2).min(shown.len() + 1 - WIDTH)
    };
    let last = shown.len().min(first + WIDTH);
    let mut window: String = shown[first..last].iter().collect();
    if first > 0 {
        window = CUT.to_owned() + &window.chars().skip(CUT.len()).collect::<String>();
    }
    if last < shown.len() {
        window = window.chars().take(WIDTH - CUT.len()).collect::<String>() + CUT;
    }
    let carets = end.min(last).saturating_sub(start).max(1);
    format!("{window}\n{}{}", " ".repeat(start - first), "^".repeat(carets))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under_carets(expression: &str, span: Range<usize>) -> String {
        let text = point_at(expression, &span);
        let (window, carets) = text.split_once('\n').unwrap();
        assert!(window.chars().count() <= WIDTH, "{window}");
        let marked = |(c, mark): (char, char)| (mark == '^').then_some(c);
        window.chars().chain([' ']).zip(carets.chars()).filter_map(marked).collect()
    }

    #[test]
    fn the_span_is_under_the_carets() {
        assert_eq!(point_at("tcp prot 80", &(4..8)), "tcp prot 80\n    ^^^^");
        assert_eq!(point_at("port", &(4..4)), "port\n    ^");
        assert_eq!(point_at("ip\nor\tfoo", &(6..9)), "ip or foo\n      ^^^");
        assert_eq!(under_carets("höst → foo", 10..13), "foo");
    }

    #[test]
    fn long_expressions_are_windowed_around_the_span() {
        let expression = (0..500).map(|n| format!("w{n:03} ")).collect::<String>();
        for n in 0..500 {
            assert_eq!(under_carets(&expression, n * 5..n * 5 + 4), format!("w{n:03}"));
        }
        let end = expression.len();
        assert_eq!(under_carets(&expression, end..end), " ");
        assert!(under_carets(&expression, 0..end).starts_with("w000 "));
    }
}
