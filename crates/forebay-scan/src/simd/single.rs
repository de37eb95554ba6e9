//! Literals of one byte.

use super::literals::Groups;

/// The literals of one byte of a set.
#[derive(Clone, Debug)]
pub struct Single {
    /// The bytes, each with a group that has it; a letter in both cases for groups for which case
    /// does not matter.
    bytes: Vec<(u8, u32)>,
}

/// Bytes up to which the text is searched for each; with more, for all at once.
const FEW: usize = 8;

impl Single {
    /// The literals of some groups; `None` if these are none.
    pub fn new(groups: &Groups, single: &[u32]) -> Option<Self> {
        let mut bytes = Vec::new();
        for &group in single {
            let byte = groups.text(group)[0];
            bytes.push((byte, group));
            if groups.is_nocase(group) && byte.is_ascii_alphabetic() {
                bytes.push((byte.to_ascii_uppercase(), group));
            }
        }
        (!bytes.is_empty()).then_some(Self { bytes })
    }

    /// Calls `found` with the groups whose byte `text` has.
    pub fn find(&self, text: &[u8], mut found: impl FnMut(u32)) {
        if self.bytes.len() <= FEW {
            for &(byte, group) in &self.bytes {
                if memchr::memchr(byte, text).is_some() {
                    found(group);
                }
            }
            return;
        }
        let mut present = [false; 256];
        for &byte in text {
            present[usize::from(byte)] = true;
        }
        for &(byte, group) in &self.bytes {
            if present[usize::from(byte)] {
                found(group);
            }
        }
    }

    pub fn memory(&self) -> usize {
        size_of_val(&*self.bytes)
    }
}
