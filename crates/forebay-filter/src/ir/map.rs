//! A persistent map from 32-bit numbers.
//!
//! Facts are passed from block to block: most blocks add one to those of their
//! predecessor, and where paths merge the common facts are kept. The map shares
//! common parts of two versions, adds an entry in time logarithmic in its size,
//! and intersects two versions in time proportional to the parts that they do
//! not share. A version that is intersected with many others may differ much
//! from each, so the time is also bounded: entries beyond the bound are
//! dropped. It is a big-endian Patricia tree (Okasaki and Gill, "Fast Mergeable
//! Integer Maps", 1998).

use std::rc::Rc;

/// A map from 32-bit keys; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Map<V>(Option<Rc<Node<V>>>);

#[derive(Debug)]
enum Node<V> {
    Leaf {
        key: u32,
        value: V,
    },
    /// Keys that agree above `bit`; those without `bit` are in `zero`.
    Branch {
        prefix: u32,
        bit: u32,
        zero: Rc<Node<V>>,
        one: Rc<Node<V>>,
    },
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self(None)
    }
}

/// The bits of `key` above `bit`.
fn above(key: u32, bit: u32) -> u32 {
    key & !(bit | (bit - 1))
}

/// The parent of two nodes whose keys differ first in the highest bit in which
/// `first_key` and `second_key` differ.
fn branch<V>(
    first_key: u32,
    first: Rc<Node<V>>,
    second_key: u32,
    second: Rc<Node<V>>,
) -> Rc<Node<V>> {
    let bit = 1 << (31 - (first_key ^ second_key).leading_zeros());
    let (zero, one) = if first_key & bit == 0 { (first, second) } else { (second, first) };
    Rc::new(Node::Branch { prefix: above(first_key, bit), bit, zero, one })
}

impl<V: Copy + PartialEq> Map<V> {
    /// The value of `key`.
    pub fn get(&self, key: u32) -> Option<V> {
        let mut node = self.0.as_ref()?;
        loop {
            match &**node {
                Node::Leaf { key: found, value } => return (*found == key).then_some(*value),
                Node::Branch { bit, zero, one, .. } => {
                    node = if key & bit == 0 { zero } else { one };
                }
            }
        }
    }

    /// Sets the value of `key`.
    pub fn insert(&mut self, key: u32, value: V) {
        self.0 = Some(match self.0.take() {
            None => Rc::new(Node::Leaf { key, value }),
            Some(root) => inserted(&root, key, value),
        });
    }

    /// The keys of both maps, with values merged by `merge`; entries for which
    /// it returns `None` are dropped. `merge` of two equal values must return
    /// that value.
    ///
    /// Each compared pair of nodes takes one of `steps`; when none are left,
    /// entries that the maps do not share are dropped.
    pub fn intersection(
        &self,
        other: &Self,
        merge: impl Fn(V, V) -> Option<V>,
        steps: &mut usize,
    ) -> Self {
        match (&self.0, &other.0) {
            (Some(left), Some(right)) => Self(common(left, right, &merge, steps)),
            _ => Self(None),
        }
    }
}

impl<V: PartialEq> PartialEq for Map<V> {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(left), Some(right)) => are_equal(left, right),
            (left, right) => left.is_none() && right.is_none(),
        }
    }
}

/// Whether two nodes have the same content; shared nodes are not visited.
fn are_equal<V: PartialEq>(left: &Rc<Node<V>>, right: &Rc<Node<V>>) -> bool {
    Rc::ptr_eq(left, right)
        || match (&**left, &**right) {
            (Node::Leaf { key, value }, Node::Leaf { key: other, value: second }) => {
                key == other && value == second
            }
            (
                Node::Branch { prefix, bit, zero, one },
                Node::Branch {
                    prefix: other_prefix,
                    bit: other_bit,
                    zero: other_zero,
                    one: other_one,
                },
            ) => {
                (prefix, bit) == (other_prefix, other_bit)
                    && are_equal(zero, other_zero)
                    && are_equal(one, other_one)
            }
            _ => false,
        }
}

fn inserted<V: Copy>(node: &Rc<Node<V>>, key: u32, value: V) -> Rc<Node<V>> {
    let leaf = || Rc::new(Node::Leaf { key, value });
    match &**node {
        Node::Leaf { key: found, .. } if *found == key => leaf(),
        Node::Leaf { key: found, .. } => branch(key, leaf(), *found, Rc::clone(node)),
        Node::Branch { prefix, bit, .. } if above(key, *bit) != *prefix => {
            branch(key, leaf(), *prefix, Rc::clone(node))
        }
        Node::Branch { prefix, bit, zero, one } => {
            let (zero, one) = if key & bit == 0 {
                (inserted(zero, key, value), Rc::clone(one))
            } else {
                (Rc::clone(zero), inserted(one, key, value))
            };
            Rc::new(Node::Branch { prefix: *prefix, bit: *bit, zero, one })
        }
    }
}

fn common<V: Copy + PartialEq>(
    left: &Rc<Node<V>>,
    right: &Rc<Node<V>>,
    merge: &impl Fn(V, V) -> Option<V>,
    steps: &mut usize,
) -> Option<Rc<Node<V>>> {
    if Rc::ptr_eq(left, right) {
        return Some(Rc::clone(left));
    }
    *steps = steps.checked_sub(1)?;
    match (&**left, &**right) {
        (Node::Leaf { key, value }, Node::Leaf { key: other, value: second }) => {
            if key != other {
                return None;
            }
            let merged = merge(*value, *second)?;
            let node = || Rc::new(Node::Leaf { key: *key, value: merged });
            Some(if merged == *value { Rc::clone(left) } else { node() })
        }
        (Node::Leaf { key, .. }, Node::Branch { zero, one, bit, .. }) => {
            common(left, if key & bit == 0 { zero } else { one }, merge, steps)
        }
        (Node::Branch { zero, one, bit, .. }, Node::Leaf { key, .. }) => {
            common(if key & bit == 0 { zero } else { one }, right, merge, steps)
        }
        (
            Node::Branch { prefix, bit, zero, one },
            Node::Branch { prefix: other_prefix, bit: other_bit, zero: other_zero, one: other_one },
        ) => {
            if bit > other_bit {
                let side = if other_prefix & bit == 0 { zero } else { one };
                return (above(*other_prefix, *bit) == *prefix)
                    .then(|| common(side, right, merge, steps))?;
            }
            if bit < other_bit {
                let side = if prefix & other_bit == 0 { other_zero } else { other_one };
                return (above(*prefix, *other_bit) == *other_prefix)
                    .then(|| common(left, side, merge, steps))?;
            }
            if prefix != other_prefix {
                return None;
            }
            let both =
                (common(zero, other_zero, merge, steps), common(one, other_one, merge, steps));
            match both {
                // Unchanged nodes stay shared with later versions.
                (Some(low), Some(high)) if Rc::ptr_eq(&low, zero) && Rc::ptr_eq(&high, one) => {
                    Some(Rc::clone(left))
                }
                (Some(zero), Some(one)) => {
                    Some(Rc::new(Node::Branch { prefix: *prefix, bit: *bit, zero, one }))
                }
                (side, None) | (None, side) => side,
            }
        }
    }
}

/// The common value of two versions.
pub(super) fn same<V: PartialEq>(first: V, second: V) -> Option<V> {
    (first == second).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn map(entries: &BTreeMap<u32, u8>) -> Map<u8> {
        let mut map = Map::default();
        for (&key, &value) in entries {
            map.insert(key, value);
        }
        map
    }

    fn key() -> impl Strategy<Value = u32> {
        prop_oneof![0_u32..20, any::<u32>(), (0_u32..32).prop_map(|bit| 1 << bit)]
    }

    proptest! {
        #[test]
        fn it_holds_what_was_put_in_last(entries in prop::collection::vec((key(), 0_u8..4), 0..60)) {
            let mut map = Map::default();
            for &(key, value) in &entries {
                map.insert(key, value);
            }
            let model: BTreeMap<u32, u8> = entries.iter().copied().collect();
            for (key, _) in &entries {
                for key in [*key, key ^ 1, key ^ (1 << 31)] {
                    prop_assert_eq!(map.get(key), model.get(&key).copied());
                }
            }
        }

        #[test]
        fn an_intersection_has_the_keys_of_both(
            base in prop::collection::btree_map(key(), 0_u8..4, 0..30),
            first in prop::collection::btree_map(key(), 0_u8..4, 0..20),
            second in prop::collection::btree_map(key(), 0_u8..4, 0..20),
        ) {
            // Two versions that share a common part.
            let shared = map(&base);
            let extended = |more: &BTreeMap<u32, u8>| {
                let (mut map, mut model) = (shared.clone(), base.clone());
                for (&key, &value) in more {
                    map.insert(key, value);
                    model.insert(key, value);
                }
                (map, model)
            };
            let ((left, left_model), (right, right_model)) = (extended(&first), extended(&second));
            let merge = |a: u8, b: u8| (a.abs_diff(b) < 2).then_some(a.max(b));
            let mut left_over = 1000;
            let both = left.intersection(&right, merge, &mut left_over);
            // With fewer steps than needed, the result has some of the entries.
            let (mut few, mut none) = ((1000 - left_over) / 2, 0);
            let some = [
                left.intersection(&right, merge, &mut few),
                left.intersection(&right, merge, &mut none),
            ];
            for key in base.keys().chain(first.keys()).chain(second.keys()) {
                let expected = left_model.get(key).zip(right_model.get(key));
                let expected = expected.and_then(|(&a, &b)| merge(a, b));
                prop_assert_eq!(both.get(*key), expected);
                for some in &some {
                    prop_assert!(some.get(*key).is_none_or(|value| Some(value) == expected));
                }
            }
        }
    }
}
