//! What has been found in a flow, and what waits for more.
//!
//! A rule needs more than one of its literals: it may be one for an application that the flow must be,
//! and other parts of its contents must be in the traffic, too. What may be needed is a [`mark`]; rules
//! that need the same marks are a group. When a literal of a rule is found before the marks that it
//! needs, its group waits for them.
//!
//! Invariant: a flow in which a literal of a rule was found, and all marks that the rule needs, in
//! whatever order, may match.
//!
//! [`mark`]: MARKS

use super::literals::Owner;

/// The most marks: bits of [`Evidence`].
pub(super) const MARKS: u32 = 128;

/// The most groups of rules that need the same marks.
pub(super) const GROUPS: usize = 256;

/// The flow may be HTTP.
pub(super) const HTTP: u8 = 0;
/// A datagram of the flow may be DNS, or the flow has other packets than datagrams.
pub(super) const DNS: u8 = 1;
/// The flow may be a control connection of FTP.
pub(super) const FTP: u8 = 2;
/// The first mark of a part of contents.
pub(super) const FIRST_PART: u8 = 3;

/// The marks that a rule needs, and its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    pub marks: u128,
    pub group: u8,
}

impl Needs {
    /// Nothing.
    pub const NONE: Self = Self { marks: 0, group: 0 };
    /// That the flow may be HTTP. It is the first group of each set.
    pub const HTTP: Self = Self { marks: 1 << HTTP, group: 0 };
}

/// A group: the marks that its rules need, and one of these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub marks: u128,
    pub owner: Owner,
}

/// What the literals found in a flow so far allow to be said of it. It starts as its default, and
/// is kept for both directions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The marks that were found.
    found: u128,
    /// The groups of which a literal was found and a mark is missing.
    waiting: [u128; 2],
    /// What waited first, and its group.
    first: Option<Owner>,
    group_of_first: u8,
    may_match: bool,
}

const _: () = assert!(size_of::<Evidence>() <= 64, "a cache line");

impl Evidence {
    /// Whether a filterable rule may fire on the flow. It stays true.
    #[must_use]
    pub fn may_match(self) -> bool {
        self.may_match
    }

    /// Whether the flow may be HTTP.
    #[must_use]
    pub fn may_be_http(self) -> bool {
        self.found & 1 << HTTP != 0
    }

    /// Whether something was found that makes the flow one that may match once it may be HTTP.
    #[must_use]
    pub fn is_pending(self) -> bool {
        self.waiting[0] & 1 != 0
    }

    /// Adds all marks: the flow has, or had, packets of which nothing is known, so that each literal of a
    /// rule counts by itself.
    pub fn assume_marks(&mut self) {
        self.found = u128::MAX;
    }

    /// Adds that a packet of the flow meets the condition of an always-forward rule, which passes
    /// the whole flow, or does so if the flow may be HTTP. Returns whether it now may match.
    pub(super) fn forward(&mut self, rule: u32, http_only: bool) -> bool {
        self.add(if http_only { Needs::HTTP } else { Needs::NONE }, Owner::Rule(rule));
        self.may_match
    }

    /// Whether something waits that counts with the same marks.
    pub(super) fn has_waiting(&self, Needs { marks, group }: Needs) -> bool {
        let waits = self.waiting[usize::from(group >> 7)] >> (group & 127) & 1 != 0;
        waits && marks & !self.found != 0
    }

    /// Adds that something was found which counts with these marks. Returns whether it counts.
    pub(super) fn add(&mut self, needs: Needs, owner: Owner) -> bool {
        let counts = needs.marks & !self.found == 0;
        if counts {
            self.may_match = true;
        } else {
            let Needs { group, .. } = needs;
            self.waiting[usize::from(group >> 7)] |= 1 << (group & 127);
            if self.first.is_none() {
                (self.first, self.group_of_first) = (Some(owner), group);
            }
        }
        counts
    }

    /// Adds a mark. Returns what waited for it, if something did that now counts: what waited first, or
    /// else one rule of its group.
    pub(super) fn mark(&mut self, mark: u8, groups: &[Group]) -> Option<Owner> {
        if self.found & 1 << mark != 0 {
            return None;
        }
        self.found |= 1 << mark;
        let bits = |word: usize| {
            let mut left = self.waiting[word];
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                (bit < 128).then_some(word << 7 | bit)
            })
        };
        let complete =
            |group: &usize| groups.get(*group).is_none_or(|group| group.marks & !self.found == 0);
        let group = [0, 1].into_iter().flat_map(bits).find(complete)?;
        if self.may_match {
            return None;
        }
        self.may_match = true;
        let is_first = usize::from(self.group_of_first) == group;
        self.first.filter(|_| is_first).or(groups.get(group).map(|group| group.owner))
    }
}
