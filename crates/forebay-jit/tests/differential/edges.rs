//! Packets against memory that is not there: code that reads a byte too many
//! at either end dies here.

use forebay_jit::{Packets, Tally};

use crate::filters::cases;
use crate::support::corpus::{Captured, Tables, data, ethernet};
use crate::support::guarded::Guarded;

/// `packets` without a byte between them, the first half from the start of the
/// memory, the others up to its end.
pub fn at_both_ends(memory: &mut Guarded, packets: &[&Captured]) -> Tables {
    let mut tables = Tables::default();
    let (first, second) = packets.split_at(packets.len() / 2);
    let bytes = |packets: &[&Captured]| packets.iter().map(|p| p.bytes.len()).sum::<usize>();
    let room = memory.bytes().len();
    assert!(bytes(packets) <= room, "packets for more memory than there is");
    let mut lay = |packets: &[&Captured], mut at: usize| {
        for packet in packets {
            let end = at + packet.bytes.len();
            memory.bytes_mut()[at..end].copy_from_slice(&packet.bytes);
            tables.push(at, &packet.bytes, packet.wire_len);
            at = end;
        }
    };
    lay(first, 0);
    lay(second, room - bytes(second));
    tables
}

#[test]
fn packets_at_unmapped_pages() {
    let data = data();
    let mix = ethernet(&[data.join("mix/dev-mix.pcap")]);
    let short: Vec<_> = mix.iter().filter(|packet| packet.bytes.len() < 120).collect();
    let mut tally = Tally::default();
    for round in 0..200 {
        let mut memory = Guarded::new(8);
        let count = [256, 97, 32, 8, 2, 1][round % 6];
        let chosen: Vec<_> =
            (0..count).map(|i| short[(round * 311 + i * 7) % short.len()]).collect();
        // Some cut short, so that those beside them are nearer to the edge.
        let cut = |(i, packet): (usize, &&Captured)| {
            let length = if (i + round) % 5 == 0 { i * 3 % 60 } else { packet.bytes.len() };
            let bytes = packet.bytes[..length.min(packet.bytes.len())].to_vec();
            Captured { bytes, wire_len: packet.wire_len }
        };
        let chosen: Vec<_> = chosen.iter().enumerate().map(cut).collect();
        let tables = at_both_ends(&mut memory, &chosen.iter().collect::<Vec<_>>());
        let packets =
            Packets::new(memory.bytes(), &tables.offset, &tables.cap_len, &tables.wire_len);
        let packets = packets.unwrap();
        for case in cases(&data) {
            let truth = case.truth(&packets);
            tally += case.check(&packets, &truth);
            for (way, filter) in &case.filters {
                for i in [0, count - 1] {
                    let verdict = filter.run(packets.packet(i), packets.wire_len(i));
                    assert_eq!(verdict, truth[i], "{} by {way}", case.name);
                }
            }
        }
    }
    assert!(tally.edge > 0 && tally.batch > tally.edge, "{tally:?}");
}
