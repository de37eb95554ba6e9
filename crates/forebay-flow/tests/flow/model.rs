//! The table against a map with the same rules of ageing.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use forebay_flow::{Ended, Level, Options, Reason, ShortKey, Spare, Stay, Table};
use forebay_packet::flow::AddressKind;
use forebay_packet::random::Random;
use forebay_packet::{FlowKey, HashKey};

/// Key `n` of many.
pub fn key(n: u64) -> ShortKey {
    let (a, b) = (u128::from(n as u32), u128::from((n >> 32) as u32 | 0x0a00_0000));
    let (key, _) = FlowKey::two_way(AddressKind::Ipv4, 6, (a, n as u16), (b, 80));
    ShortKey::new(&FlowKey { has_ports: true, ..key }).unwrap()
}

pub fn options(flows: usize, level: Level) -> Options {
    Options { flows, lifetime: LIFETIME, key: HashKey([7, 9]), level }
}

const LIFETIME: u8 = 5;

/// What a table calls back.
enum Event {
    Packet(usize, u16, bool),
    Ended(Ended),
}

/// A flow as the model knows it.
#[derive(Default)]
struct Flow {
    state: u16,
    /// The epoch of the last packet, or an earlier one where the flow is to end sooner.
    last: i64,
}

#[derive(Default)]
struct Model(HashMap<ShortKey, Flow>);

impl Model {
    fn is_idle(flow: &Flow, epoch: u64) -> bool {
        epoch as i64 - flow.last >= LIFETIME.into()
    }

    fn end(&mut self, ended: Ended, epoch: u64) {
        let flow = self.0.remove(&ended.key).expect("only a flow that is there ends");
        assert_eq!(ended.state, flow.state);
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
fn compare(level: Level, mut flows: usize, keys: u64, steps: usize, seed: u64) {
    let mut random = Random::new(seed);
    let mut table = Table::new(&options(flows, level)).unwrap();
    let mut model = Model::default();
    let (mut wanted, mut moves) = (0, 0);
    for _ in 0..steps {
        // Epochs end between two calls of so many packets.
        let count = if table.epoch() == wanted { random.below(150) } else { random.below(65) };
        let batch: Vec<ShortKey> =
            (0..count).map(|_| key(random.below(keys).min(random.below(keys)))).collect();
        table.prefetch(&batch[..batch.len().min(64)]);
        let events = RefCell::new(Vec::new());
        table.packets(
            &batch,
            |i, state, is_new| {
                events.borrow_mut().push(Event::Packet(i, *state, is_new));
                *state = state.wrapping_add(i as u16 + 1);
                stay(*state)
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
            let spare = Spare::new(flows + more, key, level).unwrap();
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
fn check(table: &Table, model: &Model, keys: u64) {
    let mut left: Vec<_> = table.iter().collect();
    left.sort_unstable();
    let alive = model.0.iter().filter(|(_, flow)| !Model::is_idle(flow, table.epoch()));
    let mut expected: Vec<_> = alive.map(|(&key, flow)| (key, flow.state)).collect();
    expected.sort_unstable();
    assert_eq!(left, expected);
    let keys: Vec<_> = (0..keys.min(1 << 16)).map(key).collect();
    let mut states = Vec::new();
    table.states(&keys, &mut states);
    for (key, state) in keys.iter().zip(states) {
        let flow = model.0.get(key).filter(|flow| !Model::is_idle(flow, table.epoch()));
        assert_eq!(state, flow.map(|flow| flow.state));
    }
}

/// Much room, little room, and far more flows than there is room for.
fn compare_all(steps: usize) {
    for level in Level::all() {
        for (flows, keys) in [(60_000, 50_000), (10_000, 10_000), (3_000, 40_000), (3, 30)] {
            compare(level, flows, keys, steps, 1 + keys);
        }
    }
}

#[test]
fn a_map_gives_the_same_answers() {
    compare_all(1_500);
}

#[test]
fn a_map_gives_the_same_answers_to_ten_million_packets() {
    if forebay_testkit::runs_long_tests() {
        compare_all(20_000);
    }
}
