//! Values of single keys: texts with units, numbers within bounds, choices, names.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use forebay_pipeline::units;
use toml::Spanned;

use super::error::Fault;
use super::raw;

/// What `reader` makes of a text, if there is one.
pub(super) fn read<T, E: Display>(
    text: Option<&raw::Text>,
    reader: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Fault> {
    let fault = |text: &raw::Text, error: E| Fault::new(text.span(), error);
    text.map(|text| reader(text.get_ref()).map_err(|error| fault(text, error))).transpose()
}

/// A length of time of at least so many milliseconds, or so many where none is given.
pub(super) fn duration(
    text: Option<&raw::Text>,
    least: u64,
    default: u64,
) -> Result<Duration, Fault> {
    let judged = |text: &str| -> Result<Duration, String> {
        let duration = units::duration(text).map_err(|error| error.to_string())?;
        if duration < Duration::from_millis(least) {
            return Err(format!("`{text}` is too short: expected at least {least}ms"));
        }
        Ok(duration)
    };
    Ok(read(text, judged)?.unwrap_or(Duration::from_millis(default)))
}

/// A number within bounds, if there is one.
pub(super) fn bounded(
    number: Option<&Spanned<u64>>,
    bounds: RangeInclusive<u64>,
    what: &str,
) -> Result<Option<u64>, Fault> {
    let Some(number) = number else { return Ok(None) };
    if bounds.contains(number.get_ref()) {
        return Ok(Some(*number.get_ref()));
    }
    let (least, most) = bounds.into_inner();
    let got = number.get_ref();
    Err(Fault::new(number.span(), format!("{got} {what}: expected {least} to {most}")))
}

/// One of some names.
pub(super) fn choice<T: Copy>(
    text: &raw::Text,
    what: &str,
    choices: &[(&str, T)],
) -> Result<T, Fault> {
    let found = choices.iter().find(|(name, _)| name == text.get_ref());
    found.map(|&(_, choice)| choice).ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
        let got = text.get_ref();
        Fault::new(text.span(), format!("{what} `{got}`: expected one of {}", names.join(", ")))
    })
}

/// Whether names are given, not too long, and different.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a raw::Text>, what: &str) -> Result<(), Fault> {
    let mut seen: Vec<&str> = Vec::new();
    for name in all {
        let text = name.get_ref().as_str();
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.is_empty() || text.len() > 32 || !text.chars().all(fits) {
            return Err(Fault::new(
                name.span(),
                format!(
                    "`{text}` is no name for {what}: expected 1 to 32 letters, digits, `-`, `_` \
                     and `.`"
                ),
            ));
        }
        if seen.contains(&text) {
            return Err(Fault::new(name.span(), format!("a second {what} named `{text}`")));
        }
        seen.push(text);
    }
    Ok(())
}
