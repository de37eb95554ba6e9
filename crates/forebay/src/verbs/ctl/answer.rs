//! Parts of an answer, as text.

use std::io;

use serde_json::Value;

use crate::show::{Colour, Table, human, terminal_columns};

pub(super) fn shown(table: &Table) -> String {
    table.render(terminal_columns(io::stdout()), Colour::stdout())
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Counts that are not 0, with their names.
pub(super) fn counts(value: &Value) -> String {
    let counted = value.as_object().into_iter().flatten();
    let counted = counted.filter(|(_, count)| number(count) > 0);
    let texts: Vec<String> =
        counted.map(|(name, count)| format!("{name} {}", human::count(number(count)))).collect();
    texts.join(", ")
}
