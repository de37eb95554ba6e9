//! Tables for a terminal: aligned columns that fit its width.
//!
//! Numbers are never cut. If a table is wider than the terminal, the widest text column is
//! narrowed, one screen column at a time, until the table fits or every text column has its
//! least width. A column is narrowed by cutting with `…` or, if it was created with
//! [`Column::wrapped`], by wrapping. A terminal narrower than the numbers wraps the lines
//! itself.

use super::colour::{Colour, Style};
use super::text;

/// Blanks between two columns.
const GAP: usize = 2;
/// The least width of a text column.
const LEAST_COLUMNS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Truncated,
    Wrapped,
    Number,
}

/// The heading of a column and the format of its cells.
#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    kind: Kind,
}

impl Column {
    /// Left-aligned text, cut with `…` if necessary.
    #[must_use]
    pub fn left(heading: &str) -> Self {
        Self { heading: text::visible(heading).into_owned(), kind: Kind::Truncated }
    }

    /// Left-aligned text, wrapped if necessary.
    #[must_use]
    pub fn wrapped(heading: &str) -> Self {
        Self { kind: Kind::Wrapped, ..Self::left(heading) }
    }

    /// Right-aligned numbers, never cut.
    #[must_use]
    pub fn right(heading: &str) -> Self {
        Self { kind: Kind::Number, ..Self::left(heading) }
    }
}

/// The contents of one cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Option<Style>,
}

impl Cell {
    /// A cell in `style`, with colour.
    #[must_use]
    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { style: Some(style), ..Self::from(text.as_ref()) }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self { text: text::visible(text).into_owned(), style: None }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

/// A table under construction.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Option<Vec<Cell>>>,
}

impl Table {
    /// An empty table with these columns.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row. Missing cells are empty; cells beyond the last column are
    /// not shown.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) -> &mut Self {
        let mut cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        cells.resize_with(self.columns.len(), Cell::default);
        self.rows.push(Some(cells));
        self
    }

    /// Adds a horizontal line, as above a sum.
    pub fn rule(&mut self) -> &mut Self {
        self.rows.push(None);
        self
    }

    /// True when no row has been added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines that end in a line feed, at most `limit` columns wide if
    /// possible; `None` is unlimited. Pass [`terminal_columns`](super::terminal_columns).
    #[must_use]
    pub fn render(&self, limit: Option<usize>, colour: Colour) -> String {
        let mut layout = Layout::new(self.columns.clone());
        self.rows.iter().flatten().for_each(|cells| layout.measure(cells));
        layout.fit(limit);
        let mut out = String::new();
        layout.render_heading(&mut out, colour);
        for row in &self.rows {
            match row {
                Some(cells) => layout.render_row(&mut out, cells, colour),
                None => layout.render_rule(&mut out, colour),
            }
        }
        out
    }
}

/// The columns of a table and their widths. A long table is not kept in memory: its rows
/// are generated twice, first to be measured, then to be printed.
#[derive(Clone, Debug)]
pub struct Layout {
    columns: Vec<Column>,
    widths: Vec<usize>,
}

impl Layout {
    /// These columns, as wide as their headings.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        let widths = columns.iter().map(|column| text::columns(&column.heading)).collect();
        Self { columns, widths }
    }

    /// Widens columns to fit these cells.
    pub fn measure(&mut self, cells: &[Cell]) {
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = (*width).max(text::columns(&cell.text));
        }
    }

    /// Narrows text columns until lines are at most `limit` columns wide, if possible;
    /// `None` is unlimited. To be called once, after all rows are measured.
    pub fn fit(&mut self, limit: Option<usize>) {
        let Self { columns, widths } = self;
        let gaps = GAP * widths.len().saturating_sub(1);
        let mut excess =
            limit.map_or(0, |limit| (widths.iter().sum::<usize>() + gaps).saturating_sub(limit));
        while excess > 0 {
            let widest = (0..widths.len())
                .filter(|&at| columns[at].kind != Kind::Number && widths[at] > LEAST_COLUMNS)
                .max_by_key(|&at| (widths[at], std::cmp::Reverse(at)));
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
            excess -= 1;
        }
    }

    /// Appends the headings and the line below them.
    pub fn render_heading(&self, out: &mut String, colour: Colour) {
        let headings: Vec<Cell> = self
            .columns
            .iter()
            .map(|column| Cell { text: column.heading.clone(), style: Some(Style::Bold) })
            .collect();
        self.render_row(out, &headings, colour);
        self.render_rule(out, colour);
    }

    /// Appends a line across.
    fn render_rule(&self, out: &mut String, colour: Colour) {
        let dashes: Vec<String> = self.widths.iter().map(|&width| "─".repeat(width)).collect();
        let line = dashes.join(&" ".repeat(GAP));
        out.push_str(&colour.paint(Style::Dim, &line));
        out.push('\n');
    }

    /// Appends a row of as many cells as there are columns.
    pub fn render_row(&self, out: &mut String, cells: &[Cell], colour: Colour) {
        let widths = &self.widths;
        let lines_of: Vec<Vec<std::borrow::Cow<'_, str>>> = cells
            .iter()
            .zip(widths)
            .zip(&self.columns)
            .map(|((cell, &width), column)| match column.kind {
                Kind::Wrapped => {
                    text::wrap(&cell.text, width).into_iter().map(Into::into).collect()
                }
                Kind::Truncated | Kind::Number => vec![text::truncate(&cell.text, width)],
            })
            .collect();
        let height = lines_of.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut pending_blanks = 0;
            for (at, lines) in lines_of.iter().enumerate() {
                let shown = lines.get(line).map_or("", |shown| shown.as_ref());
                let padding = widths[at].saturating_sub(text::columns(shown));
                let (before, after) =
                    if self.columns[at].kind == Kind::Number { (padding, 0) } else { (0, padding) };
                if shown.is_empty() {
                    pending_blanks += widths[at] + GAP;
                    continue;
                }
                out.extend(std::iter::repeat_n(' ', pending_blanks + before));
                match cells[at].style {
                    Some(style) => out.push_str(&colour.paint(style, shown)),
                    None => out.push_str(shown),
                }
                pending_blanks = after + GAP;
            }
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Table {
        let mut table = Table::new(vec![
            Column::left("stage"),
            Column::right("in"),
            Column::right("out"),
            Column::wrapped("drops"),
        ]);
        table.row(["filter", "200,000", "180,000", "not selected 20,000"]);
        table.row(["balance", "180,000", "179,950", "fragment without a first 50"]);
        table.rule();
        table.row(["all", "200,000", "179,950", ""]);
        table
    }

    #[test]
    fn golden_table_without_a_limit() {
        let shown = ledger().render(None, Colour::Never);
        let expected = "\
stage         in      out  drops
───────  ───────  ───────  ───────────────────────────
filter   200,000  180,000  not selected 20,000
balance  180,000  179,950  fragment without a first 50
───────  ───────  ───────  ───────────────────────────
all      200,000  179,950
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn golden_table_in_forty_columns_wraps_the_widest_text() {
        let shown = ledger().render(Some(40), Colour::Never);
        let expected = "\
stage         in      out  drops
───────  ───────  ───────  ─────────────
filter   200,000  180,000  not selected
                           20,000
balance  180,000  179,950  fragment
                           without a
                           first 50
───────  ───────  ───────  ─────────────
all      200,000  179,950
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn text_is_cut_and_numbers_are_not() {
        let mut table = Table::new(vec![Column::left("file"), Column::right("packets")]);
        table.row(["a-very-long-file-name.pcap", "18,446,744,073,709,551,615"]);
        for limit in [0, 5, 20, 36, 40, 54, 100] {
            let shown = table.render(Some(limit), Colour::Never);
            assert!(shown.contains("18,446,744,073,709,551,615"), "limit {limit}");
            let least = LEAST_COLUMNS + GAP + 26;
            let widest = shown.lines().map(text::columns).max().expect("has lines");
            assert!(widest <= limit.max(least), "limit {limit}: {widest}");
        }
        assert!(table.render(Some(40), Colour::Never).contains("a-very-long…  18,446"));
    }

    #[test]
    fn styles_do_not_change_the_layout() {
        let mut table = Table::new(vec![Column::left("a"), Column::right("b")]);
        table.row([Cell::from("x"), Cell::styled("1", Style::Bad)]);
        let plain = table.render(None, Colour::Never);
        let painted = table.render(None, Colour::Always);
        let mut stripped = String::new();
        for (at, piece) in painted.split('\u{1b}').enumerate() {
            let text = if at == 0 { piece } else { piece.split_once('m').expect("a sequence").1 };
            stripped.push_str(text);
        }
        assert_ne!(plain, painted);
        assert_eq!(plain, stripped);
    }

    #[test]
    fn hostile_cells_and_odd_shapes_are_shown_safely() {
        let mut table = Table::new(vec![Column::left("name"), Column::left("more")]);
        table.row(["\u{1b}]0;owned\u{7}"]).row(["1", "2", "3"]).row([""]);
        let shown = table.render(Some(30), Colour::Never);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'));
        assert!(!shown.contains('3'), "there is no third column");
        assert_eq!(shown.lines().count(), 5);
        assert_eq!(Table::new(Vec::new()).render(Some(10), Colour::Never).trim(), "");
    }
}
