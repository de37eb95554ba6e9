//! Lists of addresses and of ports in the header of a rule, and what they may contain.
//!
//! Variables (`$HOME_NET`) are values of the sensor's configuration. Without a value a variable may
//! contain anything or nothing, so lists are evaluated in three-valued logic, and a question for a
//! whole list is "may it contain this?": the answer is *no* only if it is so for every value.

use std::collections::HashMap;
use std::net::IpAddr;

use super::source::Fault;

/// How deep lists may be nested.
const MAX_DEPTH: usize = 16;

/// The elements of a list that may contain a value: of addresses or of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element<T> {
    /// Everything.
    Any,
    /// A set whose value is not known.
    Unknown,
    /// An address range or a port range, both ends included.
    Range(T, T),
    /// `[a, !b]`: the elements, and those that are excluded.
    List(Vec<(bool, Element<T>)>),
}

/// A list of addresses.
pub type Addresses = Element<IpAddr>;

/// A list of ports.
pub type Ports = Element<u16>;

/// The values of variables, without `$`.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: HashMap<String, String>,
}

impl Variables {
    /// No variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a variable, as `HOME_NET` to `[10.0.0.0/8,!10.1.0.0/16]`.
    pub fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }
}

impl<T: PartialOrd> Element<T> {
    /// Whether a value may be in the list: false only if it cannot.
    #[must_use]
    pub fn may_contain(&self, value: &T) -> bool {
        self.contains(value) != Some(false)
    }

    /// Whether a value is in the list, if that is known.
    fn contains(&self, value: &T) -> Option<bool> {
        match self {
            Self::Any => Some(true),
            Self::Unknown => None,
            Self::Range(first, last) => Some(first <= value && value <= last),
            Self::List(elements) => {
                let any = |negated: bool| {
                    let mut result = Some(false);
                    for (_, element) in elements.iter().filter(|(n, _)| *n == negated) {
                        match element.contains(value) {
                            Some(true) => return Some(true),
                            None => result = None,
                            Some(false) => {}
                        }
                    }
                    result
                };
                let included = if elements.iter().all(|(negated, _)| *negated) {
                    Some(true)
                } else {
                    any(false)
                };
                match (included, any(true)) {
                    (Some(false), _) | (_, Some(true)) => Some(false),
                    (Some(true), Some(false)) => Some(true),
                    _ => None,
                }
            }
        }
    }
}

/// What the elements of a list are parsed as.
pub trait Value: Sized {
    /// Parses one element: an address, a network, a range.
    fn parse(text: &str) -> Option<Element<Self>>;

    /// What an element is called in errors.
    const WHAT: &'static str;
}

impl Value for IpAddr {
    const WHAT: &'static str = "an address, a network, a list, a variable or `any`";

    fn parse(text: &str) -> Option<Element<Self>> {
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            return Some(Element::Range(first, last));
        }
        let Some((address, prefix)) = text.split_once('/') else {
            let address = text.parse().ok()?;
            return Some(Element::Range(address, address));
        };
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix: u32 = match prefix.parse::<std::net::Ipv4Addr>() {
            Ok(mask) if bits == 32 => u32::from(mask).leading_ones(),
            _ => prefix.parse().ok().filter(|&prefix| prefix <= bits)?,
        };
        Some(network(address, prefix))
    }
}

fn network(address: IpAddr, prefix: u32) -> Element<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(prefix).unwrap_or(0);
            let bits = u32::from(address);
            Element::Range(IpAddr::V4((bits & !host).into()), IpAddr::V4((bits | host).into()))
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(prefix).unwrap_or(0);
            let bits = u128::from(address);
            Element::Range(IpAddr::V6((bits & !host).into()), IpAddr::V6((bits | host).into()))
        }
    }
}

impl Value for u16 {
    const WHAT: &'static str = "a port, a range (`1024:`), a list, a variable or `any`";

    fn parse(text: &str) -> Option<Element<Self>> {
        let Some((first, last)) = text.split_once(':') else {
            let port = text.parse().ok()?;
            return Some(Element::Range(port, port));
        };
        let (first, last) = (first.trim(), last.trim());
        let first = if first.is_empty() { 0 } else { first.parse().ok()? };
        let last = if last.is_empty() { u16::MAX } else { last.parse().ok()? };
        (first <= last).then_some(Element::Range(first, last))
    }
}

/// Parses a list of a header.
pub fn parse<T: Value>(text: &str, at: usize, variables: &Variables) -> Result<Element<T>, Fault> {
    parse_nested(text, at, variables, 0)
}

fn parse_nested<T: Value>(
    text: &str,
    at: usize,
    variables: &Variables,
    depth: usize,
) -> Result<Element<T>, Fault> {
    let text = text.trim();
    if depth > MAX_DEPTH {
        return Err(Fault::new(at, format!("lists are nested at most {MAX_DEPTH} deep")));
    }
    if let Some(inner) = text.strip_prefix('!') {
        let element = parse_nested(inner, at, variables, depth + 1)?;
        return Ok(Element::List(vec![(true, element)]));
    }
    if let Some(name) = text.strip_prefix('$') {
        return match variables.values.get(name) {
            Some(value) => parse_nested(value, at, variables, depth + 1),
            None => Ok(Element::Unknown),
        };
    }
    if let Some(inner) = text.strip_prefix('[') {
        let Some(inner) = inner.strip_suffix(']') else {
            return Err(Fault::expected(at, "a list that ends in `]`", text.as_bytes()));
        };
        return parse_list(inner, at, variables, depth);
    }
    // A value of a variable may be a list without brackets.
    if depth > 0 && text.contains(',') {
        return parse_list(text, at, variables, depth);
    }
    if text.eq_ignore_ascii_case("any") {
        return Ok(Element::Any);
    }
    // The names of Suricata's sets of reputation and Snort's lists of files are not known here.
    if text.starts_with('@') {
        return Ok(Element::Unknown);
    }
    T::parse(text).ok_or_else(|| Fault::expected(at, T::WHAT, text.as_bytes()))
}

fn parse_list<T: Value>(
    inner: &str,
    at: usize,
    variables: &Variables,
    depth: usize,
) -> Result<Element<T>, Fault> {
    let mut elements = Vec::new();
    let (mut open, mut start) = (0usize, 0);
    let ends = inner.char_indices().chain([(inner.len(), ',')]);
    for (index, c) in ends {
        match c {
            '[' => open += 1,
            ']' => open = open.saturating_sub(1),
            ',' if open == 0 || index == inner.len() => {
                let part = inner[start..index].trim();
                start = index + 1;
                let (negated, element) = match part.strip_prefix('!') {
                    Some(rest) => (true, rest),
                    None => (false, part),
                };
                elements.push((negated, parse_nested(element, at, variables, depth + 1)?));
            }
            _ => {}
        }
    }
    Ok(Element::List(elements))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(text: &str) -> Addresses {
        parse(text, 0, &Variables::new()).unwrap()
    }

    fn ports(text: &str) -> Ports {
        parse(text, 0, &Variables::new()).unwrap()
    }

    #[test]
    fn lists_exclude_what_is_negated() {
        let list = addresses("[10.0.0.0/8, !10.1.0.0/255.255.0.0, 192.0.2.1, fe80::/10]");
        for (address, expected) in [
            ("10.2.0.1", true),
            ("10.1.0.1", false),
            ("192.0.2.1", true),
            ("192.0.2.2", false),
            ("fe80::1", true),
            ("::1", false),
        ] {
            assert_eq!(list.may_contain(&address.parse().unwrap()), expected, "{address}");
        }
        let list = ports("![80,443,8000:]");
        for (port, expected) in [(80, false), (81, true), (9000, false)] {
            assert_eq!(list.may_contain(&port), expected, "{port}");
        }
        assert!(ports(":1023").may_contain(&0));
    }

    #[test]
    fn a_variable_without_a_value_excludes_nothing() {
        assert!(addresses("$HOME_NET").may_contain(&"10.0.0.1".parse().unwrap()));
        assert!(addresses("!$HOME_NET").may_contain(&"10.0.0.1".parse().unwrap()));
        assert!(!addresses("[$HOME_NET,!10.0.0.1]").may_contain(&"10.0.0.1".parse().unwrap()));
        let mut variables = Variables::new();
        variables.set("HTTP_PORTS", "80,8080");
        let list: Ports = parse("!$HTTP_PORTS", 0, &variables).unwrap();
        assert!(!list.may_contain(&8080));
        assert!(list.may_contain(&81));
    }

    #[test]
    fn variables_that_name_themselves_are_refused() {
        let mut variables = Variables::new();
        variables.set("A", "[$A]");
        assert!(parse::<u16>("$A", 0, &variables).is_err());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["10.0.0", "10.0.0.0/33", "[10.0.0.1", "", "[,]", "::/129"] {
            assert!(parse::<IpAddr>(text, 0, &Variables::new()).is_err(), "{text}");
        }
        for text in ["65536", "a", "9:8", "[80", ""] {
            assert!(parse::<u16>(text, 0, &Variables::new()).is_err(), "{text}");
        }
    }
}
