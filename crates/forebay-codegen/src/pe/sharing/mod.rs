//! Tests that two paths share.
//!
//! `port 53` tests the ports of IPv6 packets on one path, and on another those of IPv4 packets, which
//! are elsewhere; `net 10` the addresses of IP and of ARP. In lanes every node is evaluated for all
//! packets, so a long list of ports or networks would cost its tests twice. But where an atom holds
//! on one path and does not on the other (EtherType is IPv6), the field may be taken from where the
//! packet has it: that is one more operation on a column, and then the tests are the same. Nodes that
//! have the same tests and successors then become one.
//!
//! A field that is taken from one of two places is in a [`Region`]: its offset is [`Region::SIZE`] or
//! more, beyond all bytes of packets. So is a captured length that reaches to the end of one.

mod known;
mod nodes;
mod region;

use std::cmp::Reverse;

use forebay_filter::cancel;
use forebay_filter::ir::Function;
use rustc_hash::{FxHashMap, FxHashSet};

use super::atom::{Atom, Field};
use super::decision::{Decision, Target, reachable};
use known::{Known, known};
use nodes::merged;
pub(super) use nodes::side_by_side;
pub(super) use region::Region;

/// An offset, and one of another field.
type Pair = (u32, u32);

/// The most guards that are considered.
const MAX_GUARDS: usize = 8;

/// The most fields on one path that are tested alike.
const MAX_ALIKE: usize = 8;

/// The most regions that are tried.
const MAX_TRIALS: usize = 8;

/// The most regions of one guard.
const MAX_REGIONS: usize = 3;

/// The fewest comparisons that a region must spare.
const LEAST_ALIKE: usize = 3;

/// `decision` with tests that paths share; `None` if it has none that make it cheaper. `cost` returns the
/// cost of a decision function, or `None` if it does not suit lanes, or windows hold the fields of a
/// region at different places of their words.
pub(super) fn shared(
    function: &Function,
    decision: &Decision,
    cost: impl Fn(&Decision) -> Option<u32>,
) -> Option<Decision> {
    let is_long = |atom| matches!(atom, Atom::Captured(bytes) if Region::of(bytes).is_some());
    if decision.atoms().any(is_long) {
        return None;
    }
    let mut least = cost(decision)?;
    let mut best: Option<Decision> = None;
    let mut trials = 0;
    for guard in guards(decision) {
        // Nodes may become the same only when several of their fields are in regions.
        let mut made: Option<Decision> = None;
        for _ in 0..MAX_REGIONS {
            cancel::check();
            let before = made.as_ref().or(best.as_ref()).unwrap_or(decision);
            let known = known(before, guard);
            let mut regions = matches(function, before, &known);
            regions.sort_by_key(|matches| Reverse((matches.comparisons, matches.in_order)));
            let next = regions.iter().take(MAX_TRIALS - trials).find_map(|matches| {
                trials += 1;
                let made = apart(before, guard, &known, matches)?;
                let work = cost(&made)?;
                Some((made, work))
            });
            let Some((next, work)) = next else { break };
            if work < least {
                least = work;
                best = Some(next.clone());
            }
            made = Some(next);
        }
        if trials == MAX_TRIALS {
            break;
        }
    }
    best
}

/// Fields and constants, whose equality leads to different nodes, those next to the entry first.
fn guards(decision: &Decision) -> Vec<(Field, u32)> {
    let mut guards = Vec::new();
    for node in decision.nodes.iter().rev() {
        let parts = matches!((node.then, node.otherwise), (Target::Node(_), Target::Node(_)));
        if let (true, &[(Atom::Equal(field, constant), _)]) = (parts, &node.literals[..])
            && !guards.contains(&(field, constant))
        {
            guards.push((field, constant));
            if guards.len() == MAX_GUARDS {
                break;
            }
        }
    }
    guards
}

/// `decision` with the fields of `matches` in a region of their own.
fn apart(
    decision: &Decision,
    guard: (Field, u32),
    known: &[Known],
    &Matches { ref pairs, distance, .. }: &Matches,
) -> Option<Decision> {
    let number = decision.regions.len();
    // Pairs at one distance may have several bases. The first one's is that of the region, and the
    // others stay as they are.
    let &(then, otherwise) = pairs.first()?;
    let of_packets = Region::of(then).is_none() && Region::of(otherwise).is_none();
    let sources: FxHashSet<u32> = pairs.iter().map(|pair| pair.0).collect();
    let mut made = decision.clone();
    for (node, known) in made.nodes.iter_mut().zip(known) {
        for (atom, _) in &mut node.literals {
            let is_length = matches!(atom, Atom::Captured(_));
            let Some(offset) = offset_of(atom).filter(|_| of_packets || !is_length) else {
                continue;
            };
            let source = match known {
                Known::Holds => Some(*offset),
                Known::HoldsNot => u32::try_from(i64::from(*offset) - distance).ok(),
                Known::Nothing | Known::Unreached => None,
            };
            // A length in a region is one of packets, and never 0, on both paths.
            let is_none =
                |source| is_length && i64::from(source).min(i64::from(source) + distance) < 1;
            if let Some(source) = source.filter(|source| !is_none(*source))
                && Region::of(source) == Region::of(then)
                && sources.contains(&source)
            {
                *offset = Region::offset(number, source);
            }
        }
    }
    made.regions.push(Region::new(guard, then, distance));
    let (nodes, entry) = merged(made.nodes, made.entry);
    (made.nodes, made.entry) = reachable(nodes, entry);
    Some(made)
}

/// Fields that are tested alike where an atom holds and where not, all at one distance.
struct Matches {
    pairs: Vec<Pair>,
    /// Of the tests that are alike.
    comparisons: usize,
    /// From the field where the atom holds to the other one.
    distance: i64,
    /// Pairs that come in the same order on both paths, so that nodes become the same.
    in_order: usize,
}

/// Fields that are tested alike, by distance.
fn matches(function: &Function, decision: &Decision, known: &[Known]) -> Vec<Matches> {
    // By test, wherever its field is: the offsets where the guard holds, and where not.
    let mut alike: Vec<(Atom, [Vec<u32>; 2])> = Vec::new();
    let mut places: FxHashMap<Atom, usize> = FxHashMap::default();
    for (node, known) in decision.nodes.iter().zip(known) {
        let side = match known {
            Known::Holds => 0,
            Known::HoldsNot => 1,
            Known::Nothing | Known::Unreached => continue,
        };
        for (atom, _) in &node.literals {
            let mut test = *atom;
            let Some(offset) = offset_of(&mut test) else { continue };
            let offset = std::mem::take(offset);
            let place = *places.entry(test).or_insert_with(|| {
                alike.push((test, Default::default()));
                alike.len() - 1
            });
            let offsets = &mut alike[place].1[side];
            if !offsets.contains(&offset) && offsets.len() < MAX_ALIKE {
                offsets.push(offset);
            }
        }
    }
    alike.sort_by_key(|(test, _)| *test == Atom::Captured(0));
    let mut by_distance: Vec<Matches> = Vec::new();
    let mut numbers: FxHashMap<i64, usize> = FxHashMap::default();
    for (test, [then, otherwise]) in &alike {
        for (rank, &a) in then.iter().enumerate() {
            for (other_rank, &b) in otherwise.iter().enumerate().filter(|(_, b)| **b != a) {
                let distance = i64::from(b) - i64::from(a);
                // Lengths alone are not worth a region.
                if *test == Atom::Captured(0) && !numbers.contains_key(&distance) {
                    continue;
                }
                let place = *numbers.entry(distance).or_insert_with(|| {
                    let pairs = Vec::new();
                    by_distance.push(Matches { pairs, comparisons: 0, distance, in_order: 0 });
                    by_distance.len() - 1
                });
                let matches = &mut by_distance[place];
                matches.pairs.push((a, b));
                matches.comparisons += constants(function, *test);
                matches.in_order += usize::from(rank == other_rank);
            }
        }
    }
    by_distance.retain(|matches| matches.comparisons >= LEAST_ALIKE);
    by_distance
}

/// The offset of the field that an atom tests, or the captured length unless that is in a region.
fn offset_of(atom: &mut Atom) -> Option<&mut u32> {
    match atom {
        Atom::Equal(field, _) | Atom::AtLeast(field, _) | Atom::Member(field, _) => {
            Some(&mut field.offset)
        }
        Atom::Captured(bytes) => Some(bytes).filter(|bytes| Region::of(**bytes).is_none()),
        Atom::WireAtLeast(_)
        | Atom::WireEqual(_)
        | Atom::CapturedFrom(..)
        | Atom::Computed(..)
        | Atom::ComputedMember(..) => None,
    }
}

/// Whether a test that recurs is made once for all packets, and not under the mask of each node: a
/// comparison under an opmask is one instruction, as would be what takes its place.
pub(super) fn made_once(atom: Atom, wide: bool) -> bool {
    !wide || matches!(atom, Atom::Member(..))
}

/// About how many operations the tests of `decision` are.
pub(super) fn work(function: &Function, decision: &Decision, wide: bool) -> usize {
    let mut seen = FxHashSet::default();
    let operations = decision.atoms().map(|atom| {
        if !seen.insert(atom) && made_once(atom, wide) {
            return 1;
        }
        match atom {
            Atom::Member(field, set) => {
                let other_half = |offset| Atom::Member(Field { offset, ..field }, set);
                let halves = [field.offset.wrapping_sub(2), field.offset + 2].map(other_half);
                if field.bytes == 2 && halves.iter().any(|half| seen.contains(half)) {
                    return 3;
                }
                2 + constants(function, atom) * if wide { 1 } else { 2 }
            }
            Atom::ComputedMember(..) => 2 + constants(function, atom) * if wide { 1 } else { 2 },
            // The length is chosen, too.
            Atom::Captured(bytes) if Region::of(bytes).is_some() => 3,
            _ => 2,
        }
    });
    operations.sum()
}

/// The constants that a test compares a field with.
fn constants(function: &Function, test: Atom) -> usize {
    match test {
        Atom::Member(_, set) | Atom::ComputedMember(_, set) => {
            function.sets.get(set.0 as usize).map_or(0, Vec::len)
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use forebay_filter::compile_function;
    use forebay_packet::LinkType;
    use forebay_packet::random::Random;

    use super::*;
    use crate::pe::decision::Node;

    const LENGTH: usize = 96;

    fn decision_of(expression: &str) -> (Function, Decision) {
        let function = compile_function(expression, LinkType::ETHERNET).unwrap();
        let function = crate::pe::straighten::straighten(&function).unwrap_or(function);
        let decision = Decision::new(&function, true).unwrap();
        (function, decision)
    }

    /// What tests say of a packet, of which `captured` bytes count.
    struct Reading<'a> {
        function: &'a Function,
        decision: &'a Decision,
        packet: &'a [u8],
        captured: u32,
    }

    impl Reading<'_> {
        /// The offset for this packet of one that may be in a region.
        fn of_packet(&self, offset: u32) -> u32 {
            let Some(number) = Region::of(offset) else { return offset };
            let region = self.decision.regions[number];
            let [then, otherwise] = region.sources((offset, offset));
            self.of_packet(if self.holds(region.guard()) { then.0 } else { otherwise.0 })
        }

        fn holds(&self, atom: Atom) -> bool {
            let number = |field: Field| {
                let at = self.of_packet(field.offset) as usize;
                let bytes = &self.packet[at..at + field.bytes as usize];
                bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)) & field.mask
            };
            match atom {
                Atom::Equal(field, constant) => number(field) == constant,
                Atom::AtLeast(field, constant) => number(field) >= constant,
                Atom::Member(field, set) => {
                    self.function.sets[set.0 as usize].contains(&number(field))
                }
                Atom::Captured(bytes) => self.captured >= self.of_packet(bytes),
                other => panic!("{other:?}"),
            }
        }

        fn verdict(&self) -> bool {
            let mut at = self.decision.entry;
            loop {
                let Target::Node(index) = at else { return at == Target::End(true) };
                let node = &self.decision.nodes[index];
                let all = node.literals.iter().all(|&(atom, holds)| self.holds(atom) == holds);
                at = if all { node.then } else { node.otherwise };
            }
        }
    }

    /// A packet of some protocol, with numbers that the filters below look for.
    fn packet(random: &mut Random) -> [u8; LENGTH] {
        let mut packet = [0; LENGTH];
        for byte in &mut packet {
            *byte = [0, 6, 10, 17, 53, 80, 132, 192, 255][random.index(9)];
        }
        let types = [[8, 0], [0x86, 0xdd], [8, 6], [0x80, 0x35], [0x81, 0], [0x88, 0xa8]];
        for at in [12, 16] {
            packet[at..at + 2].copy_from_slice(&types[random.index(types.len())]);
        }
        for at in [34, 36, 38, 40, 54, 56, 58, 60] {
            if random.index(2) == 0 {
                packet[at] = 0;
            }
        }
        packet
    }

    const SHARED: [&str; 6] = [
        "port 53 or port 80 or port 6 or port 10 or port 17",
        "net 10.0.0.0/8 or net 192.0.0.0/8 or net 17.0.0.0/8 or host 10.10.10.10",
        "net 10.0.0.0/8 or net 17.0.0.0/8 or host 10.10.10.10 or arp net 192.0.0.0/8",
        "tcp portrange 50-90 or udp portrange 1-20 and not port 17",
        "(tcp port 80 or udp port 53) or (vlan and (tcp port 80 or udp port 53))",
        "not (tcp port 53 or udp port 80 or icmp) and not dst port 6",
    ];

    #[test]
    fn shared_tests_have_the_verdicts_of_separate_ones() {
        let mut random = Random::new(23);
        for expression in SHARED {
            let (function, decision) = decision_of(expression);
            // The more regions the better, whatever they cost.
            let cost = |decision: &Decision| Some(9 - decision.regions.len() as u32);
            let shared = shared(&function, &decision, cost).expect(expression);
            assert!(!shared.regions.is_empty(), "{expression}");
            let ordered = side_by_side(shared.clone());
            let mut accepted = 0;
            for _ in 0..20_000 {
                let packet = packet(&mut random);
                let captured = random.index(LENGTH) as u32;
                let verdict = |decision: &Decision| {
                    let (function, packet) = (&function, &packet[..]);
                    Reading { function, decision, packet, captured }.verdict()
                };
                assert_eq!(
                    verdict(&shared),
                    verdict(&decision),
                    "{expression}: {packet:?} {captured}"
                );
                assert_eq!(
                    verdict(&ordered),
                    verdict(&decision),
                    "{expression}: {packet:?} {captured}"
                );
                accepted += u32::from(verdict(&decision));
            }
            assert!((50..19_950).contains(&accepted), "{expression}: {accepted}");
        }
    }

    #[test]
    fn a_list_of_ports_or_networks_is_compared_once() {
        for expression in &SHARED[..2] {
            for wide in [false, true] {
                let (function, decision) = decision_of(expression);
                let cost = |decision: &Decision| Some(work(&function, decision, wide) as u32);
                let shared = shared(&function, &decision, cost).unwrap();
                let tests = |decision: &Decision| {
                    let atoms = decision.nodes.iter().flat_map(|node| &node.literals);
                    // Ports and addresses, not types and protocols.
                    let of_list = |(atom, _): &&(Atom, bool)| matches!(atom, Atom::Member(field, _) | Atom::Equal(field, _) if field.offset > 23 && field.bytes > 1);
                    atoms.filter(of_list).collect::<FxHashSet<_>>().len()
                };
                let (before, after) = (tests(&decision), tests(&shared));
                assert!(2 * after <= before, "{expression}: {after} for {before}");
            }
        }
    }

    #[test]
    fn what_a_conjunction_leaves_open_is_not_taken_for_known() {
        let field = Field { offset: 12, bytes: 2, mask: 0xffff };
        let guard = (field, 0x86dd);
        let node = |literals: &[(Atom, bool)], then, otherwise| Node {
            literals: literals.to_vec(),
            then,
            otherwise,
            text: String::new(),
        };
        let port = |offset| (Atom::Equal(Field { offset, ..field }, 53), true);
        let (yes, no) = (Target::End(true), Target::End(false));
        // With both tests of the entry or without, the other node may be reached by IPv6 packets.
        let both = [(Atom::Equal(field, 0x86dd), true), (Atom::Captured(58), true)];
        let nodes = vec![
            node(&[port(34)], yes, no),
            node(&[port(54)], yes, no),
            node(&both, Target::Node(1), Target::Node(0)),
        ];
        let (entry, accept) = (Target::Node(2), 1);
        let mut decision =
            Decision { nodes, entry, accept, leaves: Vec::new(), regions: Vec::new() };
        assert_eq!(known(&decision, guard), [Known::Nothing, Known::Holds, Known::Nothing]);
        decision.nodes[2].literals.pop();
        assert_eq!(known(&decision, guard), [Known::HoldsNot, Known::Holds, Known::Nothing]);
        // Two ways lead to one node.
        decision.nodes[1].otherwise = Target::Node(0);
        assert_eq!(known(&decision, guard), [Known::Nothing, Known::Holds, Known::Nothing]);
    }
}
