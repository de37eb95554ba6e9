//! Records: against a map with the same rules, and their bounds.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_flow::{
    Counted, DirectionCounts, EndReason, FlowRecord, FlowTable, Level, OnFull, RecordOptions,
};
use forebay_packet::flow::AddressKind;
use forebay_packet::random::Random;
use forebay_packet::{BATCH, Batch, FlowKey, HashKey, Interface, PacketMeta, Region};

/// Nanoseconds of a unit of time stamps.
const MICROSECOND: i64 = 1_000;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// A packet: its flow, whether it goes from the high end, microseconds, TCP's control bits.
type Packet = (FlowKey, bool, u64, u8);

fn batch(packets: &[Packet]) -> Batch {
    let region = Arc::new(Region::new(64).unwrap());
    let mut batch = Batch::new(region, Arc::new(vec![Interface::default()]));
    for (_, _, ticks, _) in packets {
        let meta = PacketMeta { offset: 0, cap_len: 10, wire_len: 60, ticks: *ticks, interface: 0 };
        batch.push(meta).unwrap();
    }
    batch.key.extend(packets.iter().map(|packet| packet.0));
    batch.reversed.extend(packets.iter().map(|packet| packet.1));
    batch.tcp_flags.extend(packets.iter().map(|packet| packet.3));
    batch
}

fn options(flows: usize, on_full: OnFull, level: Level) -> RecordOptions {
    RecordOptions { key: HashKey([1, 2]), level, ..RecordOptions::new(flows, on_full) }
}

fn udp(low: u128) -> FlowKey {
    FlowKey { low, high: 9, protocol: 17, kind: AddressKind::Ipv4, ..FlowKey::default() }
}

/// Keys that differ in each of their fields.
fn keys() -> Vec<FlowKey> {
    let tcp = FlowKey { protocol: 6, has_ports: true, port_low: 1, port_high: 80, ..udp(7) };
    let ipv6 = FlowKey { kind: AddressKind::Ipv6, ..tcp };
    let mut keys = vec![udp(7), tcp, ipv6];
    for key in [tcp, ipv6] {
        keys.extend([
            FlowKey { low: 8, ..key },
            FlowKey { high: 10, ..key },
            FlowKey { port_low: 2, ..key },
            FlowKey { port_high: 81, ..key },
            FlowKey { protocol: 17, ..key },
            FlowKey { has_ports: false, ..key },
            FlowKey { scope: 1, ..key },
            FlowKey { low: 1 << 100, ..ipv6 },
            FlowKey { scope: 1 << 63, ..key },
        ]);
    }
    keys.push(FlowKey { kind: AddressKind::Mac, ..FlowKey::default() });
    keys.push(FlowKey { kind: AddressKind::Arp, ..udp(7) });
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[test]
fn packets_without_addresses_are_one_record() {
    let opaque = |low| FlowKey { low, ..FlowKey::default() };
    let packets = [opaque(1), udp(1), opaque(2), udp(2), opaque(3)].map(|key| (key, false, 7, 0));
    let mut flows = FlowTable::new(RecordOptions::new(10, OnFull::Evict));
    flows.count(&batch(&packets), |_| panic!("nothing ends"));
    let counted: Vec<_> =
        flows.records().map(|record| (record.key, record.total_packets())).collect();
    assert_eq!(counted, [(opaque(0), 3), (udp(1), 1), (udp(2), 1)]);
}

#[test]
fn each_direction_has_an_output() {
    let packet = |low, reversed| (udp(low), reversed, 7, 0);
    let mut packets =
        batch(&[packet(1, true), packet(1, true), packet(1, false), packet(2, false)]);
    packets.output.extend_from_slice(&[3, 3, 5, 4]);
    let mut flows = FlowTable::new(RecordOptions::new(10, OnFull::Evict));
    flows.count(&packets, |_| panic!("nothing ends"));
    let outputs: Vec<_> = flows.records().map(FlowRecord::outputs).collect();
    assert_eq!(outputs, [[Some(3), Some(5)], [Some(4), None]]);
    assert_eq!(flows.records().next().unwrap().output(), Some(3));
}

#[test]
fn beyond_the_limit_only_packets_are_counted() {
    let packets = [1, 2, 3, 1, 4, 3].map(|low| (udp(low), false, 7, 0));
    let mut flows = FlowTable::new(RecordOptions::new(2, OnFull::Ignore));
    let mut numbers = Vec::new();
    let each = |i, counted: Option<Counted<'_>>| numbers.push((i, counted.map(|one| one.number)));
    flows.count_each(&batch(&packets), each, |_, _| panic!("nothing ends"));
    let expected = [Some(0), Some(1), None, Some(0), None, None];
    assert!(numbers.into_iter().eq(expected.into_iter().enumerate()));
    assert_eq!(flows.record(1).unwrap().key, udp(2));
    assert_eq!(flows.record(2), None);
    let packets: Vec<_> = flows.records().map(FlowRecord::total_packets).collect();
    assert_eq!((packets, flows.unrecorded_packets()), (vec![2, 1], 3));
}

/// A record of the model. Of each direction: packets, bytes, TCP's control bits, and the first and
/// last time stamp.
#[derive(Clone, Debug, PartialEq)]
struct ModelRecord {
    key: FlowKey,
    a_is_high: bool,
    directions: [(u64, u64, u8, Option<[i64; 2]>); 2],
    ended: Option<EndReason>,
}

impl ModelRecord {
    /// What the table has of the same flow.
    fn of(record: &FlowRecord) -> Self {
        let FlowRecord { key, ended, tcp_flags, .. } = *record;
        let counts = record.directions();
        let directions = [0, 1]
            .map(|n| (record.packets()[n], record.bytes()[n], tcp_flags[n], counts[n].times()));
        Self { key, a_is_high: record.a_is_high(), directions, ended }
    }

    fn times(&self) -> impl Iterator<Item = i64> {
        self.directions.iter().filter_map(|direction| direction.3).flatten()
    }

    fn first(&self) -> i64 {
        self.times().min().unwrap()
    }
}

/// What a map says, by the rules of the options' documentation.
#[derive(Default)]
struct Model {
    open: HashMap<FlowKey, ModelRecord>,
    ended: Vec<ModelRecord>,
}

impl Model {
    fn packet(&mut self, (key, reversed, ticks, flags): Packet, options: &RecordOptions) {
        let now = ticks as i64 * MICROSECOND;
        if let Some(record) = self.open.get(&key) {
            let (silence, age) = (now - record.times().max().unwrap(), now - record.first());
            let [ab, ba] = record.directions.map(|direction| direction.2);
            let is_closed = (ab | ba) & RST != 0 || ab & ba & FIN != 0;
            let reason = match options.idle.map(|idle| idle as i64) {
                Some(idle) if is_closed && silence > idle.min(5_000_000_000) => {
                    Some(EndReason::Closed)
                }
                Some(_) if is_closed && flags & (SYN | ACK) == SYN => Some(EndReason::Closed),
                Some(idle) if !is_closed && silence > idle => Some(EndReason::Idle),
                _ => options.active.filter(|&most| age >= most as i64).map(|_| EndReason::Active),
            };
            if reason.is_some() {
                self.ended.extend(self.open.remove(&key));
                self.ended.iter_mut().last().unwrap().ended = reason;
            }
        }
        let record = self.open.entry(key).or_insert(ModelRecord {
            key,
            a_is_high: reversed,
            directions: [(0, 0, 0, None); 2],
            ended: None,
        });
        let direction = &mut record.directions[usize::from(reversed != record.a_is_high)];
        direction.0 += 1;
        direction.1 += 60;
        direction.2 |= flags;
        direction.3 = Some([direction.3.map_or(now, |[first, _]| first), now]);
    }
}

#[test]
fn records_are_those_of_a_map_with_the_same_rules() {
    let keys = keys();
    assert!(keys.len() > 18);
    for level in Level::all() {
        for seed in 0..24 {
            let mut random = Random::new(seed);
            let timeout = |n: u64| n.checked_mul(1_000_000_000);
            let idle = [None, timeout(3), timeout(8), timeout(100)][random.below(4) as usize];
            let active = [None, timeout(20)][random.below(2) as usize];
            let options =
                RecordOptions { idle, active, ..options(1_000_000, OnFull::Evict, level) };
            let (mut table, mut model) = (FlowTable::new(options), Model::default());
            let (mut ended, mut ticks) = (Vec::new(), 0);
            // Silences about as long as the timeouts, for more keys than fit a page of the index.
            let spread = [1, 400][random.below(2) as usize];
            for _ in 0..200 {
                let packets: Vec<Packet> = (0..random.below(BATCH as u64 + 1))
                    .map(|_| {
                        let key = keys[random.below(keys.len() as u64) as usize];
                        let scope = key.scope + random.below(spread);
                        let flags =
                            [0, ACK, SYN, SYN | ACK, FIN | ACK, RST][random.below(6) as usize];
                        ticks += random.below(2_000_000 / 10);
                        (FlowKey { scope, ..key }, random.below(2) == 1, ticks, flags)
                    })
                    .collect();
                packets.iter().for_each(|&packet| model.packet(packet, &options));
                table.count(&batch(&packets), |record| ended.push(record));
            }
            let id = |record: &ModelRecord| (record.key, record.first());
            let mut expected = model.ended.clone();
            expected.extend(model.open.into_values());
            expected.sort_by_key(id);
            let found = ended.iter().chain(table.records());
            let mut found: Vec<ModelRecord> = found.map(ModelRecord::of).collect();
            found.sort_by_key(id);
            assert_eq!(found.len(), expected.len(), "seed {seed}, {level:?}");
            for (found, expected) in found.iter().zip(expected) {
                // Silence may be noticed before a packet shows it, for the same reason.
                let ended = expected.ended.or(found.ended);
                assert_eq!(*found, ModelRecord { ended, ..expected }, "seed {seed}, {level:?}");
            }
            assert_eq!(table.open(), table.records().count());
            let restarted = model.ended.iter().any(|record| record.ended == Some(EndReason::Idle));
            assert!(idle.is_none() || spread == 1 || restarted, "seed {seed}");
        }
    }
}

#[test]
fn all_of_many_flows_are_found_again() {
    // As many as a directory has room for at most.
    const FLOWS: usize = 1 << 18;
    for level in Level::all() {
        let mut table = FlowTable::new(options(FLOWS, OnFull::Evict, level));
        for _ in 0..2 {
            for first in (0..FLOWS as u128).step_by(BATCH) {
                let last = first + BATCH as u128;
                let packets: Vec<Packet> =
                    (first..last).map(|low| (udp(low), false, 1, 0)).collect();
                table.count(&batch(&packets), |_| panic!("there is room"));
            }
        }
        assert_eq!(table.open(), FLOWS);
        assert!(table.records().all(|record| record.packets() == [2, 0]), "{level:?}");
        // 512 entries each, parted when they are about 80% full.
        let pages = table.index_pages();
        assert!((FLOWS / 512..FLOWS / 150).contains(&pages), "{pages} pages");
    }
}

#[test]
fn a_full_table_ends_the_longest_silent_of_some_and_loses_no_packet() {
    for level in Level::all() {
        let mut table = FlowTable::new(options(1_000, OnFull::Evict, level));
        let (mut ended, mut young, mut packets_ended) = (0, 0, 0);
        let busy = udp(u128::from(u32::MAX));
        for round in 0..400 {
            let new = |n: u64| (udp(u128::from(round * 200 + n)), false, round, 0);
            let mut packets: Vec<Packet> = (0..200).map(new).collect();
            packets.push((busy, false, round, 0));
            table.count(&batch(&packets), |record| {
                assert_eq!(record.ended, Some(EndReason::Evicted));
                ended += 1;
                young += u32::from(record.last() + MICROSECOND >= round as i64 * MICROSECOND);
                packets_ended += record.total_packets();
            });
            assert!(table.open() <= 1_000);
        }
        let open: u64 = table.records().map(FlowRecord::total_packets).sum();
        assert_eq!(packets_ended + open, 400 * 201, "{level:?}");
        // A few more if the busy one was among them.
        assert!((400 * 200 + 1 - 1_000..400 * 201).contains(&ended), "{ended}");
        // At random, two of five would be of this round or the one before.
        assert!(young * 20 < ended, "{young} of {ended}, {level:?}");
    }
}

#[test]
fn silent_flows_end_although_no_packet_comes_for_them() {
    let idle = Some(1_000_000_000);
    let mut table =
        FlowTable::new(RecordOptions { idle, ..RecordOptions::new(100_000, OnFull::Evict) });
    let mut ended = 0;
    let mut count = |packets: &[Packet]| {
        table.count(&batch(packets), |record| {
            assert_eq!(record.ended, Some(EndReason::Idle));
            ended += 1;
        });
        table.open()
    };
    for first in (0..10_000).step_by(100) {
        let packets: Vec<Packet> =
            (first..first + 100).map(|low| (udp(low), false, 1, 0)).collect();
        count(&packets);
    }
    // A packet from the future alone ends nothing; it is 40 batches until all were examined.
    let others = [(udp(1 << 30), false, 2, 0); 128];
    let mut open = count(&[(udp(1 << 31), false, 1 << 50, 0), (udp(1 << 30), false, 2, 0)]);
    assert_eq!(open, 10_002);
    for _ in 0..100 {
        count(&others);
    }
    let later = others.map(|(key, reversed, _, flags)| (key, reversed, 2_000_000, flags));
    for _ in 0..50 {
        open = count(&later);
    }
    // The other flow's silence is ended by its own packet.
    assert_eq!((open, ended), (2, 10_001));
}

#[test]
fn a_small_full_table_ends_what_is_silent_too() {
    for level in Level::all() {
        let mut table = FlowTable::new(options(10, OnFull::Evict, level));
        let mut ended = Vec::new();
        for n in 0..300 {
            let packet = [(udp(n), false, n as u64, 0)];
            table.count(&batch(&packet), |record| ended.push(n - record.key.low));
        }
        assert_eq!(ended.len(), 290);
        // At random, every second would be younger than five.
        assert!(ended.iter().all(|&age| age >= 5), "{ended:?}");
    }
}

#[test]
fn a_packet_from_the_future_does_not_keep_its_flow() {
    let idle = Some(1_000_000_000);
    let options = RecordOptions { idle, ..RecordOptions::new(10, OnFull::Evict) };
    let mut table = FlowTable::new(options);
    let mut ended = Vec::new();
    for ticks in [0, 1 << 50, 1, 3_000_000] {
        table.count(&batch(&[(udp(1), false, ticks, 0)]), |record| ended.push(record));
    }
    // Silent until the packet from the future, and for three seconds behind the one after it.
    let packets: Vec<u64> = ended.iter().map(FlowRecord::total_packets).collect();
    assert_eq!((packets, table.open()), (vec![1, 2], 1));
}

#[test]
fn what_is_kept_for_policies_goes_on_behind_the_active_timeout() {
    let second = 1_000_000;
    let active = Some(20_000_000_000);
    let options = RecordOptions { active, ..RecordOptions::new(10, OnFull::Evict) };
    let mut flows = FlowTable::new(options);
    let mark = |_, counted: Option<Counted<'_>>| {
        let record = counted.unwrap().record;
        (record.cut, record.shed) = (1, 2);
        (record.state, record.cut_off) = (7, [3, 0]);
    };
    flows.count_each(&batch(&[(udp(1), false, 0, 0)]), mark, |_, _| panic!("nothing ends"));
    let mut ended = Vec::new();
    // The next record begins with a packet the other way.
    flows.count(&batch(&[(udp(1), true, 20 * second, 0)]), |record| ended.push(record));
    let ended = ended[0];
    assert_eq!((ended.ended, ended.cut, ended.shed), (Some(EndReason::Active), 1, 2));
    let next = flows.record(0).unwrap();
    assert_eq!((next.state, next.cut_off, next.cut, next.shed), (7, [0, 3], 0, 0));
}

#[test]
fn until_idle_no_syn_starts_a_record_and_one_with_a_state_is_kept() {
    let idle = Some(60_000_000_000);
    let options = RecordOptions { idle, until_idle: true, ..RecordOptions::new(10, OnFull::Evict) };
    let (syn, reset) = (2, 4);
    for (state, left) in [(0, 0), (1, 1)] {
        let mut flows = FlowTable::new(options);
        let mark = |_, counted: Option<Counted<'_>>| counted.unwrap().record.state = state;
        let packets = [(udp(1), false, 0, syn), (udp(1), false, 0, reset), (udp(1), false, 1, syn)];
        flows.count_each(&batch(&packets), mark, |_, _| panic!("nothing ends"));
        assert_eq!(flows.record(0).unwrap().total_packets(), 3);
        // A few seconds are enough for a closed connection, and two minutes for each.
        flows.pass_time(20_000_000_000, |_, _| {});
        assert_eq!(flows.open(), left);
        flows.pass_time(120_000_000_000, |_, _| {});
        assert_eq!(flows.open(), 0);
    }
}

#[test]
fn silent_flows_end_when_time_passes_without_packets() {
    let idle = Some(3_000_000_000);
    let options = RecordOptions { idle, ..RecordOptions::new(10, OnFull::Evict) };
    let mut flows = FlowTable::new(options);
    flows.pass_time(u64::MAX, |_, _| panic!("there are none"));
    flows.count(&batch(&[(udp(1), false, 7, 0)]), |_| panic!("nothing ends"));
    flows.pass_time(3_000_000_000, |_, _| panic!("nothing is silent for longer than the timeout"));
    let mut ended = Vec::new();
    flows.pass_time(4_000_000_000, |_, record| ended.push(record.ended));
    assert_eq!((ended, flows.open(), flows.numbers()), (vec![Some(EndReason::Idle)], 0, 1));
}

#[test]
fn each_direction_has_its_times_also_where_they_go_back() {
    let packet = |reversed, ticks| (udp(1), reversed, ticks, 0);
    let table = |packets: &[Packet]| {
        let mut flows = FlowTable::new(RecordOptions::new(10, OnFull::Evict));
        flows.count(&batch(packets), |_| panic!("nothing ends"));
        let record = *flows.record(0).unwrap();
        let times = record.directions().map(|counts| counts.times());
        (times, record.first(), record.last())
    };
    // `a` is the end that sent the first packet, here the high one.
    assert_eq!(table(&[packet(true, 5)]), ([Some([5_000, 5_000]), None], 5_000, 5_000));
    let packets = [packet(true, 5), packet(true, 9), packet(false, 7), packet(true, 3)];
    let times = [Some([3_000, 9_000]), Some([7_000, 7_000])];
    assert_eq!(table(&packets), (times, 3_000, 9_000));
    let packets = [packet(true, 5), packet(false, 11), packet(false, 2), packet(true, 4)];
    let times = [Some([4_000, 5_000]), Some([2_000, 11_000])];
    assert_eq!(table(&packets), (times, 2_000, 11_000));
}

#[test]
fn a_record_with_half_full_counters_ends_with_the_next_packet() {
    let mut flows = FlowTable::new(RecordOptions::new(10, OnFull::Evict));
    let fill = |_, counted: Option<Counted<'_>>| {
        let record = counted.unwrap().record;
        let [ab, ba] = record.directions();
        let packets = (1 << 43) - 1;
        *record = record.with_directions([DirectionCounts { packets, ..ab }, ba]);
    };
    let packet = [(udp(1), false, 7, 0)];
    flows.count_each(&batch(&packet), fill, |_, _| panic!("nothing ends"));
    flows.count(&batch(&packet), |_| panic!("the counter has room for another"));
    let mut ended = Vec::new();
    flows.count(&batch(&packet), |record| ended.push((record.packets(), record.ended)));
    assert_eq!(ended, [([1 << 43, 0], Some(EndReason::Active))]);
    assert_eq!(flows.record(0).unwrap().packets(), [1, 0]);
}
