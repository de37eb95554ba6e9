//! Every expression on every capture, by every back end at every level.

use std::collections::HashMap;

use forebay_jit::{Backend, FilterSet, Isa, Packets, Tally};
use forebay_packet::Batch;

use crate::filters::{Way, cases, ways};
use crate::support::corpus::{
    Captured, at_least, batches, captures, data, ethernet, expressions, full, laid_out,
};

#[test]
fn verdicts_on_all_ethernet_captures() {
    let data = data();
    let packets = ethernet(&captures(&data));
    assert!(packets.len() > at_least(100_000, 3_000), "only {} packets", packets.len());
    // As they would lie in a capture: at all alignments.
    let (region, tables) = laid_out(&packets, |i| i * 13 % 64);
    let packets =
        Packets::in_region(&region, &tables.offset, &tables.cap_len, &tables.wire_len).unwrap();
    let mut tally = Tally::default();
    let mut in_use = 0;
    for case in cases(&data) {
        for start in (0..packets.len()).step_by(256) {
            let packets = packets.slice(start..packets.len().min(start + 256));
            let truth = case.truth(&packets);
            in_use += truth.iter().filter(|&&verdict| verdict != 0).count();
            tally += case.check(&packets, &truth);
        }
    }
    // A comparison of nothing would pass too.
    assert!(in_use > at_least(100_000, 30_000), "only {in_use} packets accepted");
    assert!(tally.batch > tally.slow, "{tally:?}");
}

#[test]
fn verdicts_on_packets_cut_anywhere() {
    let data = data();
    let whole = ethernet(&[data.join("mix/dev-mix.pcap")]);
    let mut packets = Vec::new();
    for packet in whole.iter().step_by(97) {
        for length in 0..packet.bytes.len().min(140) {
            let bytes = packet.bytes[..length].to_vec();
            packets.push(Captured { bytes, wire_len: packet.wire_len });
        }
    }
    let (region, tables) = laid_out(&packets, |i| i % 64);
    let packets =
        Packets::in_region(&region, &tables.offset, &tables.cap_len, &tables.wire_len).unwrap();
    for case in cases(&data) {
        case.check(&packets, &case.truth(&packets));
    }
}

/// Captures as they are read, whatever their link types: the interpreter's set
/// against those of back ends, by default four of them for each batch.
#[test]
fn verdicts_on_captures_of_all_link_types() {
    let data = data();
    let expressions = expressions(&data);
    let ways = ways();
    let mut sets = HashMap::new();
    let mut run = |expression: &str, way: Way, batch: &mut Batch| {
        let options = way.options();
        let set = sets
            .entry((expression.to_owned(), way))
            .or_insert_with(|| FilterSet::new(expression, options));
        batch.verdict.clear();
        set.run_batch(batch).map(|()| batch.verdict.clone())
    };
    let (mut compared, mut refused) = (0, 0);
    let batches = captures(&data)
        .into_iter()
        .flat_map(|path| batches(&path).into_iter().map(move |batch| (path.clone(), batch)));
    for (number, (path, mut batch)) in batches.enumerate() {
        (0..batch.len()).step_by(11).for_each(|i| batch.drop_packet(i));
        let expression = &expressions[number % expressions.len()];
        let interp = Way { backend: Backend::Interp, isa: Isa::Scalar, rings: false, form: 0 };
        let truth = run(expression, interp, &mut batch);
        // Not every expression means something for every link type.
        compared += u32::from(truth.is_ok());
        refused += u32::from(truth.is_err());
        for n in 0..if full() { ways.len() } else { 4 } {
            let way = ways[(number + n * 5) % ways.len()];
            let verdict = run(expression, way, &mut batch);
            assert_eq!(verdict, truth, "{expression} by {way} on {}", path.display());
        }
    }
    assert!(
        compared > at_least(1000, 30) as u32 && compared > refused,
        "{compared} compared, {refused} refused"
    );
}
