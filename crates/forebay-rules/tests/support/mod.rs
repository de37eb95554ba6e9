//! What the tests share: where the test data lies, and files of many lists read.

use forebay_rules::language::{Format, NamedList, Options, ParseError, open};
pub use forebay_testkit::data::external as data;

/// All lists of a file, or the first mistake in one of them.
pub fn lists_of(
    format: Format,
    text: &str,
    options: &Options,
) -> Result<Vec<NamedList>, ParseError> {
    let catalogue = open(format, text, options)?;
    (0..catalogue.lists().len()).map(|list| Ok(catalogue.read(list)?.list)).collect()
}
