//! What is changed of the packets for each output, worked out once for all packets.

use crate::rewrite::{ADDRESSES, MacAddress, Rewrite};

/// What is changed of the frames for each output, by the number of the output. Frames for outputs
/// beyond the last are not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrites {
    each: Vec<OutputRewrite>,
    /// Whether every output has [`OutputRewrite::addresses`], and there is one.
    all_have_addresses: bool,
}

/// What is changed of the frames for one output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRewrite {
    /// Of usual packets.
    pub rewrite: Rewrite,
    /// Of packets of suspect flows.
    pub annotated: Rewrite,
    /// The destination and the source that frames get, if nothing else is changed. What is too short for a
    /// frame keeps its own.
    pub addresses: Option<[u8; ADDRESSES]>,
}

impl OutputRewrite {
    const NONE: Self = Self { rewrite: Rewrite::NONE, annotated: Rewrite::NONE, addresses: None };

    fn new(rewrite: Rewrite) -> Self {
        Self { rewrite, annotated: rewrite.annotated(), addresses: addresses_only(&rewrite) }
    }
}

/// The new addresses, if both are new and nothing else is.
fn addresses_only(rewrite: &Rewrite) -> Option<[u8; ADDRESSES]> {
    let (MacAddress(destination), MacAddress(source)) = (rewrite.destination?, rewrite.source?);
    let addresses =
        Rewrite { destination: rewrite.destination, source: rewrite.source, ..Rewrite::NONE };
    let mut bytes = [0; ADDRESSES];
    bytes[..6].copy_from_slice(&destination);
    bytes[6..].copy_from_slice(&source);
    (*rewrite == addresses).then_some(bytes)
}

impl Rewrites {
    /// Nothing is changed, for any output.
    pub const NONE: Self = Self { each: Vec::new(), all_have_addresses: false };

    /// What is changed of frames for an output.
    #[inline]
    #[must_use]
    pub fn of(&self, output: u16) -> &OutputRewrite {
        self.each.get(usize::from(output)).unwrap_or(&OutputRewrite::NONE)
    }

    /// Whether frames for every one of these outputs get new addresses, and nothing else is changed.
    #[must_use]
    pub fn replace_all_addresses(&self) -> bool {
        self.all_have_addresses
    }
}

impl FromIterator<Rewrite> for Rewrites {
    fn from_iter<T: IntoIterator<Item = Rewrite>>(rewrites: T) -> Self {
        let each: Vec<OutputRewrite> = rewrites.into_iter().map(OutputRewrite::new).collect();
        let all = !each.is_empty() && each.iter().all(|output| output.addresses.is_some());
        Self { each, all_have_addresses: all }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Strip;
    use crate::rate_label::LabelField;
    use crate::rewrite::Annotation;

    #[test]
    fn addresses_are_known_where_nothing_else_is_changed() {
        let both = Rewrite {
            destination: Some(MacAddress([2; 6])),
            source: Some(MacAddress([4; 6])),
            ..Rewrite::NONE
        };
        let [.., last] = [
            Rewrite { source: None, ..both },
            Rewrite { destination: None, ..both },
            Rewrite { strip: Strip { vlan: true, ..Strip::NONE }, ..both },
            Rewrite { label: Some(LabelField::Dscp), ..both },
            Rewrite { push_vlan: Some(1), ..both },
            Rewrite { slice: Some(64), ..both },
            Rewrite { dscp: Some(1), ..both },
            Rewrite { annotation: Some(Annotation::Vlan(1)), ..both },
        ]
        .map(|other| {
            let rewrites = Rewrites::from_iter([both, other]);
            assert_eq!(rewrites.of(0).addresses, Some([2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4]));
            assert_eq!((rewrites.of(1).addresses, rewrites.of(1).rewrite), (None, other));
            assert!(!rewrites.replace_all_addresses());
            rewrites
        });
        assert_eq!(last.of(1).annotated.push_vlan, Some(1));
        assert_eq!(last.of(2), &OutputRewrite::NONE);
        assert!(Rewrites::from_iter([both, both]).replace_all_addresses());
        assert!(!Rewrites::NONE.replace_all_addresses());
    }
}
