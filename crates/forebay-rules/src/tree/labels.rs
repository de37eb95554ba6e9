//! Labels: numbers in the order of the rules, with room between them.
//!
//! A matcher finds the least label, not the least position, so that a rule can
//! be put between two others without touching theirs. The labels of a list
//! that has just been built are evenly spread over the middle half of all
//! numbers; which leaves room at both ends, where lists grow most.

/// No rule.
pub(crate) const NO_LABEL: u32 = u32::MAX;

/// The middle half begins here.
const BASE: u32 = 1 << 30;

/// Steps between the labels of rules put in one after the other.
const STEP: u32 = 64;

/// How labels are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    /// Bits between two neighbours.
    shift: u32,
}

impl Labels {
    /// For a list of so many rules, which must be below 2²⁴.
    pub fn of(rules: usize) -> Self {
        Self { shift: 31 - (rules as u32 + 1).next_power_of_two().ilog2() }
    }

    /// The label of the rule at `index`.
    pub fn label(self, index: usize) -> u32 {
        BASE + ((index as u32) << self.shift) + (1 << (self.shift - 1))
    }

    /// The rule whose label this is, if it is one that the list was built with.
    #[inline]
    pub fn index(self, label: u32) -> Option<usize> {
        let place = label.wrapping_sub(BASE);
        let index = (place >> self.shift) as usize;
        (place < 2 * BASE && place & ((1 << self.shift) - 1) == 1 << (self.shift - 1))
            .then_some(index)
    }

    /// A label between two others, either of which may be missing, and how many
    /// there were to choose from. None if there is no room.
    ///
    /// Rules are often put in one behind or before the other. Beside a rule that
    /// was itself put in, a label is near to that one's, and leaves the rest of
    /// the gap to those that follow; between two of one kind it is in the middle.
    pub fn between(self, before: Option<u32>, after: Option<u32>) -> Option<(u32, u32)> {
        let low = before.map_or(0, |label| label + 1);
        let high = after.map_or(NO_LABEL - 1, |label| label.wrapping_sub(1));
        if low > high || after == Some(0) {
            return None;
        }
        let room = high - low;
        let step = (room / 2).min(STEP);
        let put_in = |label: Option<u32>| label.is_some_and(|label| self.index(label).is_none());
        let ascending = after.is_none() || put_in(before);
        let descending = before.is_none() || put_in(after);
        let label = match (ascending, descending) {
            (true, false) => low + step,
            (false, true) => high - step,
            _ => low + room / 2,
        };
        Some((label, room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_a_list_are_in_order_and_name_their_rules() {
        for rules in [1, 2, 1000, 65_535, 65_536, (1 << 24) - 1] {
            let labels = Labels::of(rules);
            for index in [0, rules / 2, rules - 1] {
                assert_eq!(labels.index(labels.label(index)), Some(index), "{index} of {rules}");
                assert_eq!(labels.index(labels.label(index) + 1), None);
            }
            assert!(labels.label(rules - 1) < 3 * BASE);
            assert!(rules == 1 || labels.label(0) < labels.label(1));
        }
    }

    #[test]
    fn a_label_lies_between_its_neighbours_until_there_is_no_room() {
        let labels = Labels::of(10);
        let ends = [(None, None), (Some(5), None), (None, Some(5)), (Some(5), Some(7))];
        for (before, after) in ends {
            let (label, _) = labels.between(before, after).unwrap();
            assert!(before.is_none_or(|low| low < label) && after.is_none_or(|high| label < high));
        }
        assert_eq!(labels.between(Some(5), Some(6)), None);
        assert_eq!(labels.between(None, Some(0)), None);
        assert_eq!(labels.between(Some(NO_LABEL - 1), None), None);
    }

    #[test]
    fn rules_put_in_one_behind_the_other_leave_room_for_hundreds() {
        let labels = Labels::of(10_000);
        for descending in [false, true] {
            let (mut before, mut after) = (labels.label(41), labels.label(42));
            for _ in 0..500 {
                let (label, _) = labels.between(Some(before), Some(after)).unwrap();
                *(if descending { &mut after } else { &mut before }) = label;
            }
        }
        let mut first = labels.label(0);
        for _ in 0..100_000 {
            (first, _) = labels.between(None, Some(first)).unwrap();
        }
    }
}
