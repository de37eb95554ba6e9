//! The packets: generated ones on which the paper's filters match the paper's shares,
//! and a capture of real ones.

use std::collections::HashSet;
use std::path::Path;

use forebay_filter::compile;
use forebay_gen::{Config, Generator, Profile};
use forebay_jit::Packets;
use forebay_packet::{LinkType, Region};

use super::expressions::PAPER;
use super::packets::{Descriptors, Engine as _};
use super::paper::MATCHED;
use crate::failure::{During, Result, ensure};
use crate::peers::libpcap::Libpcap;

const SEED: u64 = 20_070_926;

/// Shares may differ from the paper's by this much, in percent of all packets.
const TOLERANCE: f64 = 1.0;

/// The capture of real packets, in the folder of the data.
pub const CAPTURE: &str = "mix/dev-mix.pcap";

/// Bytes of a pcap file's header, and of a record's.
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// Packets in a memory of their own, in the order they came.
#[derive(Debug)]
pub struct Traffic {
    pub memory: Region,
    pub descriptors: Descriptors,
}

impl Traffic {
    /// Generates packets, all of them different.
    pub fn generate(packets: u64) -> Result<Self> {
        let config = Config {
            packets,
            flows: packets / 20,
            seed: SEED,
            profile: Profile::Paper,
            ..Config::default()
        };
        let longest = usize::from(config.size_or_default());
        let mut memory =
            Region::new(packets as usize * longest).during("making room for the packets")?;
        let mut descriptors = Descriptors::default();
        let mut generator = Generator::new(config)?;
        let mut end = 0;
        while let Some(batch) = generator.next_batch().during("generating")? {
            for i in 0..batch.len() {
                let packet = batch.packet(i);
                memory.bytes_mut()[end..end + packet.len()].copy_from_slice(packet);
                descriptors.push([end as u32, packet.len() as u32, batch.wire_len(i)]);
                end += packet.len();
            }
        }
        let traffic = Self { memory, descriptors };
        let all = traffic.packets();
        let different: HashSet<&[u8]> = (0..all.len()).map(|i| all.packet(i)).collect();
        ensure!(different.len() == all.len(), "generated packets repeat");
        Ok(traffic)
    }

    pub fn packets(&self) -> Packets<'_> {
        self.descriptors.packets(&self.memory)
    }

    /// libpcap's verdict on every packet.
    pub fn verdicts(&self, judge: &mut Libpcap) -> Vec<u32> {
        let mut verdicts = vec![0; self.descriptors.len()];
        judge.run(&self.packets(), 0, &mut verdicts);
        verdicts
    }

    /// The percentage of the packets that each of the paper's filters matches, after
    /// comparing it with the paper's.
    pub fn paper_shares(&self) -> Result<Vec<f64>> {
        let share = |(expression, wanted): (&str, f64)| {
            let program = compile(expression, LinkType::ETHERNET)?;
            let mut judge = Libpcap::new(&program)?;
            let verdicts = self.verdicts(&mut judge);
            let matched = verdicts.iter().filter(|&&verdict| verdict != 0).count();
            let share = 100.0 * matched as f64 / verdicts.len() as f64;
            let is_near = (share - wanted).abs() <= TOLERANCE;
            ensure!(is_near, "`{expression}` matches {share:.1}% instead of {wanted}%");
            Ok(share)
        };
        PAPER.into_iter().zip(MATCHED).map(share).collect()
    }

    /// Reads the capture of real packets, as its file is; none where there is no such file.
    pub fn captured(data: &Path) -> Result<Option<Self>> {
        let path = data.join(CAPTURE);
        if !path.is_file() {
            return Ok(None);
        }
        let reading = format!("reading {}", path.display());
        let file = std::fs::read(&path).during(&reading)?;
        let descriptors = records(&file).ok_or("no capture of Ethernet").during(&reading)?;
        let mut memory = Region::new(file.len()).during(&reading)?;
        memory.bytes_mut().copy_from_slice(&file);
        Ok(Some(Self { memory, descriptors }))
    }
}

/// The packets of a little-endian pcap file of Ethernet packets.
fn records(file: &[u8]) -> Option<Descriptors> {
    let word = |at: usize| Some(u32::from_le_bytes(file.get(at..at + 4)?.try_into().ok()?));
    let known = word(0)? == 0xa1b2_c3d4 && word(20)? == LinkType::ETHERNET.0;
    if !known {
        return None;
    }
    let mut descriptors = Descriptors::default();
    let mut at = FILE_HEADER;
    while at < file.len() {
        let (cap_len, wire_len) = (word(at + 8)?, word(at + 12)?);
        let start = at + RECORD_HEADER;
        at = start + cap_len as usize;
        file.get(start..at)?;
        descriptors.push([start as u32, cap_len, wire_len]);
    }
    Some(descriptors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_packets_match_the_shares_of_the_paper() {
        let traffic = Traffic::generate(8_192).unwrap();
        assert_eq!(traffic.descriptors.len(), 8_192);
        assert_eq!(traffic.paper_shares().unwrap().len(), 13);
    }

    #[test]
    fn records_are_found_and_broken_files_refused() {
        let mut file = Vec::new();
        for word in [0xa1b2_c3d4_u32, 0, 0, 0, 65_535, 1, 7, 8, 3, 60] {
            file.extend(word.to_le_bytes());
        }
        file.extend([1, 2, 3]);
        let found = records(&file).unwrap();
        assert_eq!(found.0, [[40], [3], [60]]);
        assert!(records(&file[..42]).is_none());
        assert!(records(&file[1..]).is_none());
    }
}
