//! What stages notice of packets and flows that they pass on.

use std::fmt;

use forebay_packet::decode::Undecoded;

/// The most kinds of undecoded headers that are counted apart.
pub const MOST_UNDECODED: usize = 16;

/// What is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remark {
    Name(&'static str),
    Undecoded(Undecoded),
    /// An undecoded header of a further kind.
    OtherUndecoded,
}

/// Numbers of what was noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks(Vec<(Remark, u64)>);

impl<const N: usize> From<[(&'static str, u64); N]> for Remarks {
    fn from(named: [(&'static str, u64); N]) -> Self {
        Self(named.map(|(name, count)| (Remark::Name(name), count)).to_vec())
    }
}

impl Remarks {
    fn count(&mut self, remark: Remark, count: u64) {
        if let Some((_, sum)) = self.0.iter_mut().find(|(known, _)| *known == remark) {
            *sum += count;
            return;
        }
        let kinds = self.0.iter().filter(|(known, _)| matches!(known, Remark::Undecoded(_)));
        match remark {
            Remark::Undecoded(_) if kinds.count() == MOST_UNDECODED => {
                self.count(Remark::OtherUndecoded, count);
            }
            _ => self.0.push((remark, count)),
        }
    }

    /// Counts a packet that ends at an undecoded header.
    pub fn count_undecoded(&mut self, what: Undecoded) {
        self.count(Remark::Undecoded(what), 1);
    }

    /// Adds the numbers of others.
    pub fn add(&mut self, others: &Self) {
        others.0.iter().for_each(|&(remark, count)| self.count(remark, count));
    }

    /// The number of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> u64 {
        self.named().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
    }

    /// The names and their numbers.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().filter_map(|&(remark, count)| match remark {
            Remark::Name(name) => Some((name, count)),
            Remark::Undecoded(_) | Remark::OtherUndecoded => None,
        })
    }

    /// Packets by the undecoded header that they end at.
    pub fn undecoded(&self) -> impl Iterator<Item = (String, u64)> {
        self.0.iter().filter_map(|(remark, count)| match remark {
            Remark::Name(_) => None,
            Remark::Undecoded(_) | Remark::OtherUndecoded => Some((remark.to_string(), *count)),
        })
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Undecoded(what) => what.fmt(f),
            Self::OtherUndecoded => f.write_str("others"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_bounded_and_no_packet_is_forgotten() {
        let mut sum = Remarks::from([("not_ip", 3)]);
        for worker in 0..4_u16 {
            let mut one = Remarks::from([("not_ip", 1)]);
            (0..30).for_each(|i| one.count_undecoded(Undecoded::EtherType(10 * worker + i)));
            assert_eq!(one.undecoded().count(), MOST_UNDECODED + 1);
            sum.add(&one);
        }
        assert_eq!((sum.get("not_ip"), sum.get("cut")), (7, 0));
        assert_eq!(sum.undecoded().count(), MOST_UNDECODED + 1);
        assert_eq!(sum.undecoded().map(|(_, packets)| packets).sum::<u64>(), 120);
        assert_eq!(sum.undecoded().next(), Some(("EtherType 0x0000".to_owned(), 1)));
    }
}
