//! How rules of a list that changes are named.

use crate::rule::{Family, Rule};
use std::fmt;
use std::str::FromStr;

/// Identifies a rule of a [`Live`](super::Live) list, also after moves. No other rule ever has
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId {
    /// The number that readers return and counters use. It is used again some time after the
    /// rule was removed.
    pub number: u32,
    /// How many rules had the number before.
    pub(super) life: u32,
}

/// A rule's family and number, which no other rule of a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Named {
    /// Its family.
    pub family: Family,
    /// Its number.
    pub number: u32,
}

impl Named {
    /// The name of `rule`.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        Self { family: rule.family, number: rule.number }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.family {
            Family::Ipv4 => write!(f, "{}", self.number),
            Family::Ipv6 => write!(f, "ipv6:{}", self.number),
        }
    }
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (family, number) = match text.strip_prefix("ipv6:") {
            Some(number) => (Family::Ipv6, number),
            None => (Family::Ipv4, text),
        };
        let number = number.parse().map_err(|_| {
            format!("'{text}' is not a rule: expected NUMBER, or ipv6:NUMBER for a rule of IPv6")
        })?;
        Ok(Self { family, number })
    }
}
