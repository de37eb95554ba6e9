//! Payloads: of real packets, of generated ones, random bytes, and text that is hard on filters.

use std::collections::HashMap;
use std::path::Path;

use forebay_gen::{Config, Generator, Profile};
use forebay_io::{ReadOptions, Reader};
use forebay_packet::random::Random;
use forebay_packet::{Batch, Decoder, FlowKey};

use super::literals::Text;
use crate::failure::{During, Result};
use crate::named::named;
use crate::suites::filters::traffic::CAPTURE;

const SEED: u64 = 20_261_125;

/// Bytes of a payload of random bytes, and of one made of literals.
const PAYLOAD: usize = 1_400;

named! {
    /// What is scanned.
    pub enum Kind {
        /// The payloads of `dev-mix.pcap`.
        DevMix = "dev-mix",
        /// Of generated traffic like HTTP, DNS and TLS.
        Http = "http",
        Random = "random",
        /// Literals with a wrong byte, one after another.
        Worst = "worst",
    }
}

/// Payloads that are not empty, one after another in memory.
#[derive(Debug, Default)]
pub struct Traffic {
    bytes: Vec<u8>,
    /// The end of each.
    ends: Vec<usize>,
    /// The direction of a flow that each is of.
    pub streams: Vec<u32>,
    numbers: HashMap<(FlowKey, bool), u32>,
}

impl Traffic {
    /// The payloads of the packets of a capture, at most so many bytes.
    pub fn captured(data: &Path, most: usize) -> Result<Self> {
        let path = data.join(CAPTURE);
        let reading = format!("reading {}; FOREBAY_DATA names its folder", path.display());
        let mut reader = Reader::open(&path, &ReadOptions::default()).during(&reading)?;
        let mut traffic = Self::default();
        while let Some(batch) = reader.receive().during(&reading)? {
            traffic.add_batch(&batch, most);
        }
        Ok(traffic)
    }

    /// Generated payloads, about so many bytes.
    pub fn generated(most: usize) -> Result<Self> {
        let packets = most as u64 / 300;
        let config = Config {
            packets,
            flows: packets / 20,
            seed: SEED,
            profile: Profile::Mix,
            ..Config::default()
        };
        let mut generator = Generator::new(config)?;
        let mut traffic = Self::default();
        while let Some(batch) = generator.next_batch().during("generating")? {
            traffic.add_batch(&batch, most);
        }
        Ok(traffic)
    }

    /// Random bytes.
    pub fn random(bytes: usize) -> Self {
        let mut random = Random::new(SEED);
        let mut traffic = Self::default();
        for stream in 0..bytes / PAYLOAD {
            let payload: Vec<u8> = (0..PAYLOAD).map(|_| random.next() as u8).collect();
            traffic.add(&payload, stream as u32);
        }
        traffic
    }

    /// Literals one after another, each with its first or last byte changed: what a filter tests
    /// for is everywhere, and of literals only those are there that are within others.
    pub fn near_misses(literals: &[Text], bytes: usize) -> Self {
        let mut random = Random::new(SEED);
        let mut traffic = Self::default();
        for stream in 0..bytes / PAYLOAD {
            let mut payload = Vec::with_capacity(PAYLOAD);
            while payload.len() < PAYLOAD {
                let mut literal = literals[random.index(literals.len())].clone();
                // The first or the last byte, so that what is between stays.
                let at = if random.one_in(2) { 0 } else { literal.len() - 1 };
                literal[at] ^= 0x80;
                payload.extend(literal);
            }
            traffic.add(&payload[..PAYLOAD], stream as u32);
        }
        traffic
    }

    fn add_batch(&mut self, batch: &Batch, most: usize) {
        let decoder = Decoder::default();
        for i in batch.live().iter() {
            let (link, packet) = (batch.interface(i).link, batch.packet(i));
            let payload = decoder.payload(link, packet).unwrap_or_default();
            if payload.is_empty() || self.bytes.len() + payload.len() > most {
                continue;
            }
            let decoded = decoder.decode(link, packet);
            let next = self.numbers.len() as u32;
            let stream = *self.numbers.entry((decoded.key, decoded.reversed)).or_insert(next);
            self.add(payload, stream);
        }
    }

    fn add(&mut self, payload: &[u8], stream: u32) {
        self.bytes.extend_from_slice(payload);
        self.ends.push(self.bytes.len());
        self.streams.push(stream);
    }

    /// The payloads.
    pub fn texts(&self) -> Vec<&[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end]).collect()
    }

    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Streams, numbered from 0.
    pub fn stream_count(&self) -> usize {
        self.streams.iter().max().map_or(0, |&last| last as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_bytes_and_streams_asked_for() {
        let random = Traffic::random(10 * PAYLOAD);
        assert_eq!((random.texts().len(), random.stream_count()), (10, 10));
        let literals = [b"literal one".to_vec(), b"another".to_vec()];
        let near = Traffic::near_misses(&literals, 3 * PAYLOAD);
        assert_eq!(near.bytes(), 3 * PAYLOAD);
        let is_in =
            |text: &&[u8], literal: &Text| text.windows(literal.len()).any(|at| at == literal);
        assert!(!near.texts().iter().any(|text| literals.iter().any(|one| is_in(text, one))));
        let generated = Traffic::generated(300_000).unwrap();
        let texts = generated.texts();
        assert!((100_000..=300_000).contains(&generated.bytes()), "{}", generated.bytes());
        assert!(generated.stream_count() > 10 && generated.stream_count() < texts.len());
        assert!(texts.iter().all(|text| !text.is_empty()));
    }
}
