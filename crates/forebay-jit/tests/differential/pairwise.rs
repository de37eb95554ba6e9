//! Batch sizes 1 to 256 and alignments 0 to 63, each pair of them on packets
//! out of 2,000, with each expression and each way to compile.

use std::collections::HashSet;

use forebay_jit::Packets;

use crate::filters::{cases, check};
use crate::support::corpus::{data, ethernet, full, laid_out};

#[test]
fn sizes_alignments_expressions_and_ways() {
    let data = data();
    let mix = ethernet(&[data.join("mix/dev-mix.pcap")]);
    let chosen: Vec<_> = mix.iter().step_by(mix.len() / 2000).take(2000).cloned().collect();
    assert_eq!(chosen.len(), 2000);
    let cases = cases(&data);
    let ways = cases[0].filters.len();
    let mut seen = [(); 4].map(|()| HashSet::new());
    let mut truths = Vec::new();
    let mut verdict = [0; 256];
    for alignment in 0..64 {
        let (region, tables) = laid_out(&chosen, |_| alignment);
        let packets =
            Packets::in_region(&region, &tables.offset, &tables.cap_len, &tables.wire_len).unwrap();
        if truths.is_empty() {
            truths = cases.iter().map(|case| case.truth(&packets)).collect();
        }
        for size in 1..=256 {
            let repeats = if full() { cases.len() } else { 1 };
            for way in 0..ways * repeats {
                let number = (size * 7 + alignment * ways + way) % cases.len();
                let (case, way) = (&cases[number], way % ways);
                let start = (size * 31 + alignment * 17 + way * 101) % (2000 - size + 1);
                let range = start..start + size;
                let (label, filter) = &case.filters[way];
                let truth = &truths[number][range.clone()];
                let packets = packets.slice(range);
                check(&case.name, *label, filter, &packets, truth, &mut verdict[..size]);
                seen[0].insert((size, number));
                seen[1].insert((alignment, number));
                seen[2].insert((size, way));
                seen[3].insert((number, way));
            }
        }
    }
    let pairs = [256 * cases.len(), 64 * cases.len(), 256 * ways, cases.len() * ways];
    assert_eq!(seen.map(|pairs| pairs.len()), pairs, "every pair was tried");
}
