//! Which rule list packets are held against, and how its file is read.

use forebay_rules::language::load::{Names, Selection};
use forebay_rules::language::{Direction, Format, Unsupported};

use super::error::Fault;
use super::raw;
use super::values::choice;

/// The keys that choose a list, for messages.
pub const RULE_KEYS: Names = Names {
    format: "`rules_format`",
    list: "`rule_list`",
    table: "`rules_table`",
    interface: "`rules_interface`",
    direction: "`rules_direction`",
    ipv6: "`rules_ipv6`",
};

/// What the keys choose. Whether that suits the file's language is known when it is read.
pub(super) fn check(raw: &raw::File) -> Result<Selection, Fault> {
    let keys = [
        ("rule_list", raw.rule_list.as_ref()),
        ("rules_format", raw.rules_format.as_ref()),
        ("rules_table", raw.rules_table.as_ref()),
        ("rules_interface", raw.rules_interface.as_ref()),
        ("rules_direction", raw.rules_direction.as_ref()),
        ("rules_unsupported", raw.rules_unsupported.as_ref()),
    ];
    let spans = keys.into_iter().filter_map(|(name, key)| Some((name, key?.span())));
    let ipv6 = raw.rules_ipv6.as_ref().map(|key| ("rules_ipv6", key.span()));
    if let (Some((name, span)), None) = (spans.chain(ipv6).next(), &raw.rules) {
        return Err(Fault::new(span, format!("a `{name}`, but no file of `rules` to find it in")));
    }
    let text = |text: &Option<raw::Text>| text.as_ref().map(|text| text.get_ref().clone());
    Ok(Selection {
        format: named(&raw.rules_format, "format", Format::NAMES)?.unwrap_or_default(),
        list: text(&raw.rule_list),
        table: text(&raw.rules_table),
        interface: text(&raw.rules_interface),
        direction: named(&raw.rules_direction, "direction", Direction::NAMES)?,
        unsupported: named(&raw.rules_unsupported, "meaning", Unsupported::NAMES)?
            .unwrap_or_default(),
        ipv6: raw.rules_ipv6.as_ref().is_some_and(|key| *key.get_ref()),
    })
}

fn named<T: Copy, const N: usize>(
    text: &Option<raw::Text>,
    what: &str,
    names: [(&str, T, &str); N],
) -> Result<Option<T>, Fault> {
    let names = names.map(|(name, value, _)| (name, value));
    text.as_ref().map(|text| choice(text, what, &names)).transpose()
}
