//! Every expression on every capture, by every back end at every level.

use forebay_filter::compile;
use forebay_jit::{FilterSet, Options, Packets, Tally};

use crate::filters::{cases, ways};
use crate::support::corpus::{
    Captured, batches, captures, data, ethernet, expressions, full, laid_out,
};

#[test]
fn verdicts_on_all_ethernet_captures() {
    let Some(data) = data() else { return };
    let packets = ethernet(&captures(&data));
    assert!(packets.len() > 100_000, "only {} packets", packets.len());
    // As they would lie in a capture: at all alignments.
    let (region, tables) = laid_out(&packets, |i| i * 13 % 64);
    let packets =
        Packets::in_region(&region, &tables.offset, &tables.cap_len, &tables.wire_len).unwrap();
    let mut tally = Tally::default();
    let mut in_use = 0;
    let step = if full() { 1 } else { 8 };
    for (number, case) in cases(&data).iter().enumerate() {
        // By default each expression has another eighth of all batches.
        for start in (number % step * 256..packets.len()).step_by(step * 256) {
            let packets = packets.slice(start..packets.len().min(start + 256));
            let truth = case.truth(packets);
            in_use += truth.iter().filter(|&&verdict| verdict != 0).count();
            tally += case.check(packets, &truth);
        }
    }
    // A comparison of nothing would pass too.
    assert!(in_use > 100_000, "only {in_use} packets accepted");
    assert!(tally.batch > tally.slow, "{tally:?}");
}

#[test]
fn verdicts_on_packets_cut_anywhere() {
    let Some(data) = data() else { return };
    let whole = ethernet(&[data.join("mix/dev-mix.pcap")]);
    let step = if full() { 97 } else { 997 };
    let mut packets = Vec::new();
    for packet in whole.iter().step_by(step) {
        for length in 0..packet.bytes.len().min(140) {
            let bytes = packet.bytes[..length].to_vec();
            packets.push(Captured { bytes, wire_len: packet.wire_len });
        }
    }
    let (region, tables) = laid_out(&packets, |i| i % 64);
    let packets =
        Packets::in_region(&region, &tables.offset, &tables.cap_len, &tables.wire_len).unwrap();
    for case in cases(&data) {
        case.check(packets, &case.truth(packets));
    }
}

/// Captures as they are read, whatever their link types: the interpreter's set
/// against that of each back end.
#[test]
fn verdicts_on_captures_of_all_link_types() {
    let Some(data) = data() else { return };
    let expressions = expressions(&data);
    let captures = captures(&data);
    let ways = ways();
    let mut next = 0;
    for path in captures.iter().step_by(if full() { 1 } else { 3 }) {
        for mut batch in batches(path) {
            next += 1;
            let expression = &expressions[next % expressions.len()];
            // Not every expression means something for every link type.
            let links = batch.interfaces().iter().map(|interface| interface.link);
            if links.into_iter().any(|link| compile(expression, link).is_err()) {
                continue;
            }
            (0..batch.len()).step_by(11).for_each(|i| batch.drop_packet(i));
            let verdicts = |batch: &mut forebay_packet::Batch, way: usize| {
                let way = ways[way];
                let options = Options::new(way.backend, Some(way.isa)).unwrap();
                FilterSet::new(expression.clone(), options).run_batch(batch).unwrap();
                std::mem::take(&mut batch.verdict)
            };
            // The first ways are the interpreter's.
            let truth = verdicts(&mut batch, 0);
            let way = next % ways.len();
            let place = path.display();
            assert_eq!(
                verdicts(&mut batch, way),
                truth,
                "{expression} by {} on {place}",
                ways[way]
            );
        }
    }
}
