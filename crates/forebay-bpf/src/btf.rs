//! Member offsets of the kernel's structures, from its BPF type format (BTF).
//!
//! The format is documented in the kernel's Documentation/bpf/btf.rst: a header, a list of
//! types, each followed by data that depends on its kind, and strings. Types are numbered
//! from 1.

use std::fs;
use std::io;

use crate::error::BpfError;

/// The file with the kernel's types.
const KERNEL: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;

/// Length of a type without the data that follows it, and of a member.
const TYPE: usize = 12;
const MEMBER: usize = 12;

const STRUCT: u32 = 4;

/// The types of the running kernel.
pub(crate) struct Types {
    bytes: Vec<u8>,
    types: std::ops::Range<usize>,
    strings: usize,
}

impl Types {
    /// Reads the types of the running kernel.
    pub fn of_kernel() -> Result<Self, BpfError> {
        let wrong = |source| BpfError::Types { what: "the kernel's types".to_owned(), source };
        let bytes = fs::read(KERNEL).map_err(wrong)?;
        Self::parse(bytes).ok_or_else(|| {
            wrong(io::Error::new(io::ErrorKind::InvalidData, "expected types of version 1"))
        })
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let number = |at| u32_at(&bytes, at).map(|number| number as usize);
        if u32_at(&bytes, 0)? & 0x00ff_ffff != u32::from(MAGIC) | 1 << 16 {
            return None;
        }
        let header = number(4)?;
        let start = header.checked_add(number(8)?)?;
        let types = start..start.checked_add(number(12)?)?;
        let strings = header.checked_add(number(16)?)?;
        (types.end <= bytes.len()).then_some(Self { bytes, types, strings })
    }

    /// The offset of a member in a structure, in bytes.
    pub fn offset(&self, structure: &str, member: &str) -> Result<i32, BpfError> {
        self.find(structure, member).ok_or_else(|| BpfError::Types {
            what: format!("`{member}` of `struct {structure}`"),
            source: io::Error::new(io::ErrorKind::NotFound, "there is no such member"),
        })
    }

    fn find(&self, structure: &str, member: &str) -> Option<i32> {
        let mut at = self.types.start;
        while at + TYPE <= self.types.end {
            let info = u32_at(&self.bytes, at + 4)?;
            let (kind, count) = (info >> 24 & 31, info as usize & 0xffff);
            if kind == STRUCT && self.is_named(at, structure) {
                let has_bit_fields = info >> 31 == 1;
                let members = (0..count).map(|i| at + TYPE + i * MEMBER);
                if let Some(found) = members.into_iter().find(|&at| self.is_named(at, member)) {
                    let bits = u32_at(&self.bytes, found + 8)?;
                    let bits = if has_bit_fields { bits & 0x00ff_ffff } else { bits };
                    return i32::try_from(bits / 8).ok();
                }
            }
            at += TYPE + following(kind, count)?;
        }
        None
    }

    /// Whether the name at `at` is `name`.
    fn is_named(&self, at: usize, name: &str) -> bool {
        let named = || {
            let start = self.strings.checked_add(u32_at(&self.bytes, at)? as usize)?;
            let text = self.bytes.get(start..)?.get(..=name.len())?;
            Some(text[..name.len()] == *name.as_bytes() && text[name.len()] == 0)
        };
        named().unwrap_or(false)
    }
}

/// Bytes after a type of this kind, with `count` members, values or parameters.
fn following(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables, declaration tags.
        1 | 14 | 17 => 4,
        // Pointers and other references to one type.
        2 | 7..=12 | 16 | 18 => 0,
        // Arrays.
        3 => 12,
        // Structures, unions, sections, 64-bit enumerations.
        4 | 5 | 15 | 19 => count * MEMBER,
        // Enumerations and function prototypes.
        6 | 13 => count * 8,
        _ => return None,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pointer, an integer, and `struct pair { int first, second; }` with the second
    /// behind 64 bits.
    fn example() -> Vec<u8> {
        let strings = b"\0pair\0first\0second\0";
        let types: [u32; 3 + 4 + 3 + 6] = [
            0,
            2 << 24,
            2, // a pointer
            0,
            1 << 24,
            4,
            32, // an integer
            1,
            4 << 24 | 2,
            12, // the structure
            6,
            2,
            0,
            12,
            2,
            64,
        ];
        let sizes = [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32];
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let words = sizes.into_iter().chain(types);
        bytes.extend(words.flat_map(u32::to_le_bytes));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_in_their_structures() {
        let types = Types::parse(example()).unwrap();
        assert_eq!(types.offset("pair", "first").unwrap(), 0);
        assert_eq!(types.offset("pair", "second").unwrap(), 8);
        let error = types.offset("pair", "third").unwrap_err().to_string();
        assert!(error.contains("`third` of `struct pair`"), "{error}");
        assert!(types.offset("pai", "first").is_err());
    }

    #[test]
    fn what_is_cut_off_is_not_found() {
        let whole = example();
        for len in 0..whole.len() {
            let types = Types::parse(whole[..len].to_vec());
            assert!(types.is_none_or(|types| types.offset("pair", "second").is_err()), "{len}");
        }
        assert!(Types::parse(vec![0; 100]).is_none());
    }
}
