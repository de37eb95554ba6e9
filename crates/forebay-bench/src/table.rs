//! Tables for the terminal.

use std::fmt::Display;
use std::io;

use forebay::show::{Colour, Column, Table, terminal_columns};

/// A table with a title: text in the first columns, numbers in the others; nothing without
/// rows.
pub fn table(title: &str, texts: usize, headings: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let column = |(index, heading): (usize, &&str)| match index < texts {
        true => Column::left(heading),
        false => Column::right(heading),
    };
    let mut table = Table::new(headings.iter().enumerate().map(column).collect());
    for row in rows {
        table.row(row);
    }
    let title = if title.is_empty() { String::new() } else { format!("{title}\n") };
    title + &table.render(terminal_columns(io::stdout()), Colour::stdout()) + "\n"
}

/// A table with a number for each pair of a row and a column, which are given by their
/// places. Rows without any number are left out.
pub fn pivot<R: Display, C: Display>(
    title: &str,
    corner: &str,
    (rows, columns): (&[R], &[C]),
    value: impl Fn(usize, usize) -> Option<f64>,
) -> String {
    let names: Vec<String> = columns.iter().map(C::to_string).collect();
    let headings: Vec<&str> =
        [corner].into_iter().chain(names.iter().map(String::as_str)).collect();
    let line = |(index, row): (usize, &R)| {
        let values = (0..columns.len()).map(|column| value(index, column));
        let values: Vec<Option<f64>> = values.map(|value| value.filter(|n| !n.is_nan())).collect();
        let cells = values.iter().map(|&value| number(value));
        let is_empty = values.iter().all(Option::is_none);
        (!is_empty).then(|| [row.to_string()].into_iter().chain(cells).collect())
    };
    table(title, 1, &headings, rows.iter().enumerate().filter_map(line).collect())
}

/// A number with about four digits, or a dash.
pub fn number(value: Option<f64>) -> String {
    match value.filter(|value| !value.is_nan()) {
        None => "–".to_owned(),
        Some(value) if value.abs() < 0.1 => format!("{value:.3}"),
        Some(value) if value.abs() < 10.0 => format!("{value:.2}"),
        Some(value) if value.abs() < 1_000.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

/// A range, in the form of [`number`].
pub fn range([low, high]: [f64; 2]) -> String {
    format!("{}–{}", number(Some(low)), number(Some(high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_rows_are_left_out_and_missing_values_shown() {
        let value = |row: usize, column: usize| match (row, column) {
            (0, 0) => Some(1234.5),
            (2, 1) => Some(0.0321),
            _ => None,
        };
        let text = pivot("Title", "rows", (&["a", "b", "c"], &[1, 2]), value);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines.len()), ("Title", 6));
        assert!(lines[3].starts_with("a") && lines[3].contains("1234") && lines[3].ends_with('–'));
        assert!(lines[4].ends_with("0.032"), "{text}");
        assert_eq!(pivot("Title", "", (&["a"], &[1]), |_, _| Some(f64::NAN)), "");
    }
}
