//! Engines by name, and which of them `auto` takes.

use crate::atom::Extent;
use crate::engine::{Engine, NO_RULE};
use crate::linear::{Compiled, Generic, LaneContent, LinearError, Naive, Pe};
use crate::matching::Decision;
use crate::rule::{Family, RuleList};
use crate::tree::{Estimate, Tree, TreeError};
use forebay_codegen::code::{Backend, Isa};
use std::fmt;
use std::str::FromStr;

/// The longest list for which `auto` takes `pe` without a look at `tree`. The time of `pe`
/// grows with the rules; that of `tree` hardly does, but depends on the list and the machine.
pub const MOST_LINEAR: usize = 256;

/// The longest list for which `auto` may take `pe`, which takes 50 ms to compile.
pub const MAY_BE_LINEAR: usize = 2048;

/// The most conjunctions of such a list: what is built for it only to be compared is bounded.
const MOST_ATOMS: usize = 4 * MAY_BE_LINEAR;

/// The least cycles a packet that a rule takes by `pe`, measured on ClassBench lists.
const LEAST_OF_RULE: f64 = 0.02;

/// An engine's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineName {
    /// Rule by rule, field by field.
    Naive,
    /// Compiled, a packet after another.
    List,
    /// Compiled, all rules at once for hundreds of packets.
    Pe,
    /// A table of rules, packets in lanes.
    PeGeneric,
    /// A table of rules, rules in lanes.
    PeOne,
    /// Compiled, several packets in flight.
    Ems,
    /// The classifier for large lists.
    Tree,
    /// What is taken for the fastest.
    Auto,
}

/// A name that no engine has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown engine '{name}', expected one of {}",
    EngineName::ALL.map(EngineName::name).join(", ")
)]
pub struct UnknownEngine {
    /// The name.
    pub name: String,
}

/// A list that cannot be matched with the engine asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// A linear engine does not take it.
    #[error(transparent)]
    Linear(#[from] LinearError),
    /// `tree` does not take it.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl EngineError {
    /// The rule that is the reason, by family and number, where one is.
    #[must_use]
    pub fn rule(&self) -> Option<(Family, u32)> {
        match self {
            Self::Tree(TreeError::TooSlow { worst, .. }) => Some((worst.family, worst.number)),
            Self::Tree(TreeError::Atoms(error)) | Self::Linear(LinearError::Atoms(error)) => {
                Some((error.family, error.number))
            }
            _ => None,
        }
    }
}

impl EngineName {
    /// All names.
    pub const ALL: [Self; 8] = [
        Self::Naive,
        Self::List,
        Self::Pe,
        Self::PeGeneric,
        Self::PeOne,
        Self::Ems,
        Self::Tree,
        Self::Auto,
    ];

    /// The name that users give it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::List => "list",
            Self::Pe => "pe",
            Self::PeGeneric => "pe-generic",
            Self::PeOne => "pe-1",
            Self::Ems => "ems",
            Self::Tree => "tree",
            Self::Auto => "auto",
        }
    }

    /// Makes `list` ready for matching with the instructions of `isa`.
    ///
    /// # Errors
    /// As [`EngineName::choose`].
    ///
    /// # Panics
    /// If this machine has not got `isa`.
    pub fn build(self, list: &RuleList, isa: Isa) -> Result<Box<dyn Engine>, EngineError> {
        Ok(self.choose(list, isa)?.engine)
    }

    /// As [`EngineName::build`], and returns what was taken.
    ///
    /// # Errors
    /// If the engine does not take the list. `auto` takes what `tree` takes, unless
    /// that is expected to be slower than [`LEAST_RATE`](crate::tree::LEAST_RATE).
    ///
    /// # Panics
    /// If this machine has not got `isa`.
    pub fn choose(self, list: &RuleList, isa: Isa) -> Result<Chosen, EngineError> {
        let engine: Box<dyn Engine> = match self {
            Self::Naive => Box::new(Naive::new(list)?),
            Self::List => Box::new(Compiled::new(list, Backend::List, isa)?),
            Self::Pe => Box::new(Pe::new(list, isa)?),
            Self::PeGeneric => Box::new(Generic::new(list, LaneContent::Packets, isa)?),
            Self::PeOne => Box::new(Generic::new(list, LaneContent::Rules, isa)?),
            Self::Ems => Box::new(Compiled::new(list, Backend::Ems, isa)?),
            Self::Tree => return Ok(Chosen::tree(list, Tree::new(list, isa)?)),
            Self::Auto => return automatic(list, isa),
        };
        Ok(Chosen { engine, name: self, rules: list.rules.len(), estimate: None })
    }
}

/// An engine that was built, and what is known of it.
pub struct Chosen {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Its name, which is not `auto`.
    pub name: EngineName,
    /// Rules of the list.
    pub rules: usize,
    /// What is expected of `tree`.
    pub estimate: Option<Estimate>,
}

impl Chosen {
    fn tree(list: &RuleList, tree: Tree) -> Self {
        let estimate = Some(tree.estimate());
        let engine = Box::new(tree);
        Self { engine, name: EngineName::Tree, rules: list.rules.len(), estimate }
    }

    /// A remark for the user: that rules are matched otherwise
    /// than by prefixes, and why.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        let estimate = self.estimate.filter(|estimate| estimate.ranged > 0)?;
        Some(format!("{}: {estimate}", self.name))
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.rules == 1 { "" } else { "s" };
        write!(f, "engine {} for {} rule{plural}", self.name, self.rules)?;
        self.estimate.map_or(Ok(()), |estimate| write!(f, ": {estimate}"))
    }
}

/// `pe` for short lists and for those that it is expected to match faster than `tree`, if the
/// machine and the list suit it, else `tree`.
fn automatic(list: &RuleList, isa: Isa) -> Result<Chosen, EngineError> {
    if list.rules.len() <= MOST_LINEAR
        && let Some(chosen) = scan(list, isa, f64::INFINITY)
    {
        return Ok(chosen);
    }
    let tree = Tree::new(list, isa)?;
    tree.estimate().require(list)?;
    let chosen = scan_beside(list, isa, tree.estimate());
    Ok(chosen.unwrap_or_else(|| Chosen::tree(list, tree)))
}

/// `pe`, if the machine and the list suit it, and it is expected to take fewer cycles a packet.
pub(crate) fn scan(list: &RuleList, isa: Isa, most_cycles: f64) -> Option<Chosen> {
    let pe = (isa >= Isa::Avx2).then(|| Pe::new(list, isa).ok()).flatten()?;
    let engine = (pe.cycles() < most_cycles).then(|| Box::new(pe) as Box<dyn Engine>)?;
    Some(Chosen { engine, name: EngineName::Pe, rules: list.rules.len(), estimate: None })
}

/// As [`scan`], for a list that is not short, if it is expected to be faster than its trees.
pub(crate) fn scan_beside(list: &RuleList, isa: Isa, trees: Estimate) -> Option<Chosen> {
    let (rules, cycles) = (list.rules.len(), trees.mean_cycles());
    let atoms = || list.rules.iter().map(|rule| Extent::of(rule).atoms);
    let may_be_faster = (MOST_LINEAR + 1..=MAY_BE_LINEAR).contains(&rules)
        && LEAST_OF_RULE * (rules as f64) < cycles
        && atoms().fold(0, usize::saturating_add) <= MOST_ATOMS;
    if may_be_faster { scan(list, isa, cycles) } else { None }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineName {
    type Err = UnknownEngine;

    fn from_str(name: &str) -> Result<Self, UnknownEngine> {
        let mut all = Self::ALL.into_iter();
        all.find(|engine| engine.name() == name)
            .ok_or_else(|| UnknownEngine { name: name.to_owned() })
    }
}

impl RuleList {
    /// The decision that an engine's answer means for a packet.
    ///
    /// # Panics
    /// If `rule` is neither an index of the list nor [`NO_RULE`].
    #[must_use]
    pub fn decision(&self, rule: u32) -> Decision {
        let rule = (rule != NO_RULE).then_some(rule as usize);
        Decision { rule, action: rule.map_or(self.default, |index| self.rules[index].action) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::yamaha;
    use crate::rule::Action;

    /// The engine for `count` rules of these hosts, or without, on the highest level of the machine.
    fn taken(count: u32, hosts: bool) -> EngineName {
        let line = |n: u32| match hosts {
            true => format!("ip filter {n} pass 10.{}.{}.1 * tcp * {}", n >> 8, n & 255, n % 7),
            false => format!("ip filter {n} pass * * tcp {} {}", n % 40, n / 40),
        };
        let rules = (1..=count).map(|n| yamaha::rule(&line(n)).unwrap()).collect();
        let list = RuleList { rules, default: Action::Reject };
        EngineName::Auto.choose(&list, forebay_jit::cpu::detect()).unwrap().name
    }

    #[test]
    fn lists_that_are_hard_on_trees_are_scanned_longer() {
        let scan =
            if forebay_jit::cpu::detect() >= Isa::Avx2 { EngineName::Pe } else { EngineName::Tree };
        assert_eq!(taken(200, true), scan);
        assert_eq!(taken(900, false), scan);
        assert_eq!(taken(2_000, true), EngineName::Tree);
        assert_eq!(taken(2_100, false), EngineName::Tree);
    }

    #[test]
    fn names_read_as_they_are_written() {
        for engine in EngineName::ALL {
            assert_eq!(engine.name().parse(), Ok(engine));
        }
        let error = "fast".parse::<EngineName>().unwrap_err().to_string();
        assert!(error.starts_with("unknown engine 'fast', expected one of naive, list"), "{error}");
    }
}
