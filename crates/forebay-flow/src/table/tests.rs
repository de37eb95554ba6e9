//! Keys that have the same digest, which no test can find for real ones.

use std::collections::HashMap;

use forebay_packet::HashKey;
use forebay_packet::random::Random;

use super::layout::{Digests, KeyLayout};
use super::*;
use crate::hash::Secret;
use crate::level::Level;

/// A number whose digest is that of three others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Crowded(u32);

impl TableKey for Crowded {}

impl KeyLayout for Crowded {
    type Beside = Self;
    type Buffer = Digests;

    fn digest(keys: &[Self], secret: &Secret, Digests(buffer): &mut Digests) -> u64 {
        for (key, entry) in keys.iter().zip(buffer) {
            *entry = ShortKey::digest(secret.siphash(u128::from(key.0 / 4)).into());
        }
        u64::MAX.checked_shr((STRETCH - keys.len()) as u32).unwrap_or(0)
    }

    fn entries<'a>(keys: &'a [Self], Digests(buffer): &'a Digests) -> &'a [ShortKey] {
        &buffer[..keys.len()]
    }

    fn is(&self, beside: &Self) -> bool {
        self == beside
    }

    fn keep(&self, _: ShortKey, beside: &mut Self) {
        *beside = *self;
    }

    fn whole(_: ShortKey, beside: &Self) -> Self {
        *beside
    }
}

#[test]
fn flows_of_equal_digests_are_told_apart() {
    for level in Level::all() {
        let options = Options { flows: 2_000, lifetime: 5, key: HashKey([1, 2]), level };
        let mut table = Table::<Crowded, Wide<u64>>::empty(&options).unwrap();
        let mut model: HashMap<Crowded, u64> = HashMap::new();
        let mut random = Random::new(1);
        for step in 0..2_000 {
            let count = random.below(100);
            let keys: Vec<_> = (0..count).map(|_| Crowded(random.below(400) as u32)).collect();
            let mut last = HashMap::new();
            table.packets(
                &keys,
                |i, Wide(packets), is_new| {
                    assert!(last.insert(keys[i], i) < Some(i), "packets of a flow come in order");
                    let before = model.entry(keys[i]).or_default();
                    assert_eq!((*before, *before == 0), (*packets, is_new), "step {step}");
                    (*packets, *before) = (*packets + 1, *before + 1);
                },
                |ended| panic!("{ended:?}"),
            );
            if step % 500 == 100 {
                let spare = Spare::empty(2_000, HashKey([step, 3]), level).unwrap();
                assert!(table.replace(spare).is_none());
            }
            table.retired();
            let mut states = Vec::new();
            table.states(&keys, &mut states);
            let expected = keys.iter().map(|key| Some(Wide(model[key])));
            assert!(states.into_iter().eq(expected), "step {step}");
        }
        assert_eq!((table.flows(), model.len(), table.work().evicted), (400, 400, 0));
        let mut flows: Vec<_> = table.iter().map(|(key, Wide(state))| (key, state)).collect();
        let mut expected: Vec<_> = model.into_iter().collect();
        flows.sort_unstable();
        expected.sort_unstable();
        assert_eq!(flows, expected);
    }
}
