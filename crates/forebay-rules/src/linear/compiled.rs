//! `list` and `ems`: rule lists through the back ends of filters.
//!
//! `list` tries a packet's rules by compare and branch, blocks list-scheduled;
//! `ems` keeps several packets in flight, with a pattern of code for each
//! history of outcomes. See `docs/filter-compiler.md`.

use std::cell::RefCell;

use forebay_codegen::code::{Backend, Isa};
use forebay_jit::{Filter, JitError, Options, Packets, Verified};
use forebay_packet::BATCH;

use super::error::LinearError;
use super::function::{function, key_bytes};
use super::kernel::bytes::bytes_of;
use crate::engine::{Engine, NO_RULE};
use crate::packed::{Key4, Key6};
use crate::rule::{Family, RuleList};

/// The most rules of a family. A branch a test makes more code than caches
/// hold and takes long for more; `tree` is faster long before.
pub const MAX_RULES: usize = 1024;

/// The most patterns of `ems`; a list that takes more is left to `list`. With
/// so many, 200 rules of a ClassBench firewall list compile in 52 ms to 370 KB.
const EMS_PATTERNS: usize = 20_000;

/// Engines `list` and `ems`.
#[derive(Clone, Debug)]
pub struct Compiled {
    ipv4: Filter,
    ipv6: Filter,
}

/// What the packets of a batch are to the code of a filter.
struct Tables {
    offset: [u32; BATCH],
    lengths: [u32; BATCH],
    /// IPv6 keys without the padding between them.
    keys: Vec<u8>,
}

thread_local! {
    static TABLES: RefCell<Tables> = const {
        RefCell::new(Tables { offset: [0; BATCH], lengths: [0; BATCH], keys: Vec::new() })
    };
}

impl Compiled {
    /// The code that `backend` makes of `list` for a machine of level `isa`.
    ///
    /// # Errors
    /// More than [`MAX_RULES`] rules of a family, rules that are unions of too
    /// many conjunctions, or code that cannot be made.
    pub fn new(list: &RuleList, backend: Backend, isa: Isa) -> Result<Self, LinearError> {
        let compile = |family: Family| -> Result<Filter, LinearError> {
            let rules = list.rules.iter().filter(|rule| rule.family == family).count();
            if rules > MAX_RULES {
                let engine = backend.name();
                return Err(LinearError::TooManyRules { engine, rules, most: MAX_RULES });
            }
            let function = function(list, family, backend.name())?;
            let verified = Verified::new(function).map_err(JitError::from)?;
            let mut options = Options::new(backend, Some(isa)).map_err(JitError::from)?;
            options.codegen.ems_patterns = EMS_PATTERNS;
            Ok(Filter::of_function(&verified, &options)?)
        };
        Ok(Self { ipv4: compile(Family::Ipv4)?, ipv6: compile(Family::Ipv6)? })
    }

    /// The back end that made the code for `family`: what was asked for, or
    /// what it gave way to.
    #[must_use]
    pub fn backend(&self, family: Family) -> Backend {
        match family {
            Family::Ipv4 => self.ipv4.backend(),
            Family::Ipv6 => self.ipv6.backend(),
        }
    }
}

impl Engine for Compiled {
    fn classify4(&self, keys: &[Key4], rules: &mut [u32]) {
        assert_eq!(keys.len(), rules.len(), "a rule for each key");
        TABLES.with_borrow_mut(|tables| {
            tables.set(key_bytes(Family::Ipv4));
            for (keys, rules) in keys.chunks(BATCH).zip(rules.chunks_mut(BATCH)) {
                let Tables { offset, lengths, .. } = &*tables;
                run(&self.ipv4, bytes_of(keys), offset, lengths, rules);
            }
        });
    }

    fn classify6(&self, keys: &[Key6], rules: &mut [u32]) {
        assert_eq!(keys.len(), rules.len(), "a rule for each key");
        TABLES.with_borrow_mut(|tables| {
            tables.set(key_bytes(Family::Ipv6));
            for (keys, rules) in keys.chunks(BATCH).zip(rules.chunks_mut(BATCH)) {
                let Tables { offset, lengths, keys: bytes } = tables;
                bytes.clear();
                keys.iter().for_each(|key| append(bytes, key));
                run(&self.ipv6, bytes, offset, lengths, rules);
            }
        });
    }

    fn bytes(&self) -> usize {
        self.ipv4.code().len() + self.ipv6.code().len()
    }
}

impl Tables {
    fn set(&mut self, bytes: usize) {
        if self.lengths[0] as usize != bytes {
            self.lengths = [bytes as u32; BATCH];
            self.offset = std::array::from_fn(|packet| (packet * bytes) as u32);
        }
    }
}

fn append(bytes: &mut Vec<u8>, key: &Key6) {
    for word in key.source.iter().chain(&key.destination) {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    for half in [key.first, key.second, key.kind, key.flags] {
        bytes.extend_from_slice(&half.to_ne_bytes());
    }
}

/// Runs `filter` on keys that lie one behind the other in `memory`.
fn run(filter: &Filter, memory: &[u8], offset: &[u32], lengths: &[u32], rules: &mut [u32]) {
    let count = rules.len();
    let lengths = &lengths[..count];
    // The tables describe the keys, so this does not fail.
    let Ok(packets) = Packets::new(memory, &offset[..count], lengths, lengths) else {
        return rules.fill(NO_RULE);
    };
    filter.run_batch(&packets, rules);
    // Verdict 0 becomes `NO_RULE`.
    const { assert!(NO_RULE == 0_u32.wrapping_sub(1)) };
    rules.iter_mut().for_each(|rule| *rule = rule.wrapping_sub(1));
}
