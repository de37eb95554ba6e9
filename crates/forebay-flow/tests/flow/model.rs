//! The table against a map with the same rules of ageing.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use forebay_flow::{Ended, Level, Reason, ShortKey, Spare, Stay, Table};
use forebay_packet::random::Random;
use forebay_packet::{FlowKey, HashKey};

use super::kinds::{Key, LIFETIME, State, Words, options};

/// What a table calls back.
enum Event<K, S> {
    Packet(usize, u16, bool),
    Ended(Ended<K, S>),
}

/// A flow as the model knows it.
#[derive(Default)]
struct Flow {
    state: u16,
    /// The epoch of the last packet, or an earlier one where the flow is to end sooner.
    last: i64,
}

struct Model<K>(HashMap<K, Flow>);

impl<K: Key> Model<K> {
    fn is_idle(flow: &Flow, epoch: u64) -> bool {
        epoch as i64 - flow.last >= LIFETIME.into()
    }

    fn end<S: State>(&mut self, ended: Ended<K, S>, epoch: u64) {
        let flow = self.0.remove(&ended.key).expect("only a flow that is there ends");
        assert_eq!(ended.state.number(), flow.state);
        assert_eq!(Self::is_idle(&flow, epoch), ended.reason == Reason::Idle, "{ended:?}");
    }
}

/// How long a flow stays after a packet after which it has this state: some are closed.
fn stay(state: u16) -> Stay {
    match state % 7 {
        0 => Stay::Epochs(state as u8 / 7 % 8),
        _ => Stay::Lifetime,
    }
}

/// Random packets, in batches of any length, of flows of which some are frequent; time passes,
/// and at times the flows move to other memory.
fn compare<K: Key, S: State>(level: Level, mut flows: usize, keys: u64, steps: usize) {
    let mut random = Random::new(1 + keys);
    let mut table = Table::<K, S>::empty(&options(flows, level)).unwrap();
    let mut model = Model(HashMap::new());
    let (mut wanted, mut moves) = (0, 0);
    for _ in 0..steps {
        // Epochs end between two calls of so many packets.
        let count = if table.epoch() == wanted { random.below(150) } else { random.below(65) };
        let numbers = (0..count).map(|_| random.below(keys).min(random.below(keys)));
        let batch: Vec<K> = numbers.map(K::number).collect();
        table.prefetch(&batch[..batch.len().min(64)]);
        let events = RefCell::new(Vec::new());
        table.packets(
            &batch,
            |i, state, is_new| {
                events.borrow_mut().push(Event::Packet(i, state.number(), is_new));
                let after = state.number().wrapping_add(i as u16 + 1);
                *state = S::of(after);
                stay(after)
            },
            |ended| events.borrow_mut().push(Event::Ended(ended)),
        );
        // The first packets of a call come when time has passed.
        let (epoch, mut seen) = (table.epoch(), HashMap::new());
        let mut left: HashSet<usize> = (0..batch.len()).collect();
        for event in events.into_inner() {
            match event {
                Event::Ended(ended) => model.end(ended, epoch),
                Event::Packet(i, state, is_new) => {
                    assert!(left.remove(&i), "packet {i} comes once");
                    let last = seen.insert(batch[i], i);
                    assert!(last < Some(i), "packets of a flow come in order");
                    assert_eq!(!model.0.contains_key(&batch[i]), is_new, "packet {i}");
                    let flow = model.0.entry(batch[i]).or_default();
                    assert_eq!(flow.state, state);
                    flow.state = state.wrapping_add(i as u16 + 1);
                    flow.last = epoch as i64;
                    if let Stay::Epochs(epochs) = stay(flow.state) {
                        flow.last -= i64::from(LIFETIME.saturating_sub(epochs));
                    }
                }
            }
        }
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(table.flows(), model.0.len());
        if random.below(20) == 0 {
            wanted += random.below(30);
            table.advance(wanted);
        }
        if random.below(10) == 0 {
            let buckets = random.below(1 << 12) as usize;
            let mut ends = Vec::new();
            table.sweep(buckets, |ended| ends.push(ended));
            ends.into_iter().for_each(|ended| model.end(ended, table.epoch()));
        }
        if random.below(100) == 0 {
            let more = if flows < 100_000 && random.below(3) == 0 { flows } else { 0 };
            let key = HashKey([random.next(), random.next()]);
            let spare = Spare::empty(flows + more, key, level).unwrap();
            if table.replace(spare).is_none() {
                (flows, moves) = (flows + more, moves + 1);
                check(&table, &model, keys);
            }
            table.retired();
        }
    }
    assert!(moves > 0, "{steps} steps without a move");
    check(&table, &model, keys);
}

/// Compares all flows.
fn check<K: Key, S: State>(table: &Table<K, S>, model: &Model<K>, keys: u64) {
    let mut left: Vec<_> = table.iter().collect();
    left.sort_unstable();
    let alive = model.0.iter().filter(|(_, flow)| !Model::<K>::is_idle(flow, table.epoch()));
    let mut expected: Vec<_> = alive.map(|(&key, flow)| (key, S::of(flow.state))).collect();
    expected.sort_unstable();
    assert_eq!(left, expected);
    let keys: Vec<_> = (0..keys.min(1 << 16)).map(K::number).collect();
    let mut states = Vec::new();
    table.states(&keys, &mut states);
    for (key, state) in keys.iter().zip(states) {
        let flow = model.0.get(key).filter(|flow| !Model::<K>::is_idle(flow, table.epoch()));
        assert_eq!(state, flow.map(|flow| S::of(flow.state)));
    }
}

/// Much room, little room, and far more flows than there is room for.
fn compare_sizes<K: Key, S: State>(level: Level, steps: usize) {
    for (flows, keys) in [(60_000, 50_000), (10_000, 10_000), (3_000, 40_000), (3, 30)] {
        compare::<K, S>(level, flows, keys, steps);
    }
}

#[test]
fn a_map_gives_the_same_answers() {
    for level in Level::all() {
        compare_sizes::<ShortKey, u16>(level, 1_500);
    }
}

#[test]
fn a_map_gives_the_same_answers_for_whole_keys_and_longer_states() {
    for level in Level::all() {
        compare_sizes::<ShortKey, Words<4>>(level, 400);
        compare_sizes::<FlowKey, u16>(level, 1_000);
        compare_sizes::<FlowKey, Words<16>>(level, 400);
    }
}

#[test]
fn a_map_gives_the_same_answers_to_ten_million_packets() {
    if forebay_testkit::runs_long_tests() {
        for level in Level::all() {
            compare_sizes::<ShortKey, u16>(level, 20_000);
            compare_sizes::<FlowKey, u16>(level, 20_000);
            compare_sizes::<FlowKey, Words<16>>(level, 20_000);
        }
    }
}
