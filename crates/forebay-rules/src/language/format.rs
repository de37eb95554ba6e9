//! The languages of files, recognised by the text, and files of each as catalogues of lists.

use super::catalogue::{Catalogue, Imported, Listed, NamedList, Options};
use super::error::ParseError;
use super::{cisco, classbench, iptables, nftables, yamaha};
use crate::rule::RuleList;
use forebay_packet::cancel;

/// The languages that lists are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// One of the others, recognised by the text.
    #[default]
    Auto,
    /// Filters of YAMAHA RT routers.
    Yamaha,
    /// Configurations of Cisco devices.
    Cisco,
    /// What `iptables-save` and `ip6tables-save` print.
    Iptables,
    /// What `nft -j list ruleset` prints.
    Nftables,
    /// Filter sets of ClassBench.
    Classbench,
}

impl Format {
    /// All by the names that users give them, each with what it is.
    pub const NAMES: [(&str, Self, &str); 6] = [
        ("auto", Self::Auto, "Told from the file"),
        ("yamaha", Self::Yamaha, "Filters of YAMAHA RT routers: our own language"),
        (
            "cisco",
            Self::Cisco,
            "Access lists in configurations of Cisco devices: IOS, IOS-XE, NX-OS, ASA",
        ),
        ("iptables", Self::Iptables, "What iptables-save or ip6tables-save prints"),
        ("nftables", Self::Nftables, "What `nft -j list ruleset` prints"),
        ("classbench", Self::Classbench, "Filter sets of ClassBench"),
    ];

    /// The format, recognised by the text where it is not given.
    ///
    /// The first line that only one language has decides. A text of blank lines and `#`
    /// comments alone is an empty list of ours.
    ///
    /// # Errors
    /// If no line is of any language, with the first that is no comment.
    pub fn resolve(self, text: &[u8]) -> Result<Self, ParseError> {
        if self != Self::Auto {
            return Ok(self);
        }
        let mut strange = None;
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            cancel::check();
            let line = String::from_utf8_lossy(&line[..line.len().min(LINE_START)]);
            if let Some(format) = Self::of_line(&line, strange.is_none()) {
                return Ok(format);
            }
            let line = line.trim();
            if strange.is_none() && !line.is_empty() && !line.starts_with('#') {
                strange = Some(ParseError::at(index + 1, line, EXPECTED));
            }
        }
        strange.map_or(Ok(Self::Yamaha), Err)
    }

    /// The language that `line` can only be of. JSON is the whole text, so that it is known by
    /// the first line.
    fn of_line(line: &str, is_first: bool) -> Option<Self> {
        let is_prefix = |word: &str| {
            let (address, length) = word.split_once('/').unwrap_or_default();
            address.parse::<std::net::Ipv4Addr>().is_ok() && length.parse::<u8>().is_ok()
        };
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        match words[..] {
            [first, ..] if is_first && first.starts_with('{') => Some(Self::Nftables),
            ["*filter" | "*nat" | "*mangle" | "*raw" | "*security"] => Some(Self::Iptables),
            [source, destination, ..]
                if source.strip_prefix('@').is_some_and(is_prefix) && is_prefix(destination) =>
            {
                Some(Self::Classbench)
            }
            ["ip" | "ipv6", "filter", ..]
            | ["ip" | "ipv6", _, "secure", "filter"]
            | ["numbers", "from", ..] => Some(Self::Yamaha),
            ["access-list", _, ..] | ["ip" | "ipv4" | "ipv6", "access-list", ..] => {
                Some(Self::Cisco)
            }
            _ => None,
        }
    }
}

/// The bytes of a line by which its language is recognised.
const LINE_START: usize = 512;

/// What a text must have for its language to be recognised.
const EXPECTED: &str = "rules of YAMAHA routers (`ip filter …`), a configuration with access \
    lists of a Cisco device (`access-list …`), what iptables-save prints (`*filter`) or \
    `nft -j list ruleset` (`{\"nftables\": …`), or rules of ClassBench (`@192.0.2.0/24 …`)";

/// The lists of a file of `format`.
///
/// # Errors
/// If the text is not of that format as a whole. Mistakes within a list are reported when it
/// is read.
pub fn open<'a>(
    format: Format,
    text: &'a str,
    options: &Options,
) -> Result<Box<dyn Catalogue + 'a>, ParseError> {
    Ok(match format {
        Format::Auto => return open(format.resolve(text.as_bytes())?, text, options),
        Format::Yamaha => Box::new(yamaha::parse(text)?),
        Format::Classbench => Box::new(Whole(classbench::parse(text)?)),
        Format::Cisco => Box::new(cisco::Config::scan(text, options.unsupported)?),
        Format::Iptables => Box::new(iptables::Save::scan(text, options)?),
        Format::Nftables => Box::new(nftables::Ruleset::scan(text, options)?),
    })
}

/// A file that is one list without a name.
struct Whole(RuleList);

impl Catalogue for Whole {
    fn lists(&self) -> Vec<Listed> {
        let (name, full_name) = (String::new(), String::new());
        vec![Listed { name, full_name, entries: self.0.rules.len() }]
    }

    fn read(&self, list: usize) -> Result<Imported, ParseError> {
        let rules = self.0.rules.iter().inspect(|_| cancel::check()).cloned().collect();
        Box::new(Self(RuleList { rules, ..self.0 })).into_list(list)
    }

    fn into_list(self: Box<Self>, _: usize) -> Result<Imported, ParseError> {
        // Rules are numbered by their line, from 0.
        let lines = self.0.rules.iter().map(|rule| rule.number as usize + 1).collect();
        let list = NamedList { name: String::new(), list: self.0 };
        Ok(Imported { list, lines, untested: Vec::new() })
    }
}
