//! Synthetic traffic, deterministic by seed.
//!
//! A [`Generator`] generates exactly the packets and flows of a [`Config`], in order of
//! time, as batches of Ethernet frames, or of what a [`Framing`] makes of them, with
//! nanosecond time stamps. Equal configurations give equal bytes on every machine:
//! everything is integer arithmetic with its own random number generator (`random`).
//!
//! The crate's parts, from the bytes up: `headers` builds frames from the inside out,
//! `payload` renders application messages, `path` numbers hosts and ports, `session` has
//! the protocol exchanges of flows, `zipf` the number of packets of each, and `profile`
//! combines the sessions into one capture. [`probe`] is another kind of traffic: numbered
//! frames for live links.
#![forbid(unsafe_code)]

mod config;
mod framing;
mod headers;
mod path;
mod payload;
pub mod probe;
mod profile;
mod session;
mod zipf;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use forebay_packet::{BATCH, Batch, Clock, Interface, Layout, PacketMeta, Region};

pub use config::{Config, ConfigError, MAX_FLOWS, MAX_PACKETS, MAX_RATE, Profile, UnknownProfile};
pub use framing::{Framing, UnknownFraming};
pub use headers::checksum;

use headers::Frame;
use profile::Source;
use profile::mix::Mix;
use profile::paper::Paper;
use profile::uniform::Uniform;

/// Bytes of a pcap record header.
const RECORD_HEADER: usize = 16;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Bytes of one region: two huge pages, so that mapping costs little per packet. With slots
/// of equal size in ordinary pages the generator took more than twice the time
/// (`examples/throughput.rs`).
const REGION: usize = 4 << 20;

/// Generates the packets of one capture.
#[derive(Debug)]
pub struct Generator {
    source: Box<dyn Source>,
    frame: Frame,
    framing: Framing,
    framed: Vec<u8>,
    interfaces: Arc<Vec<Interface>>,
    ready: VecDeque<Batch>,
    left: u64,
    /// Time of the latest packet, so that all times differ.
    latest: u64,
}

impl Generator {
    /// Plans a capture. Takes time and memory in proportion to the flows.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let longest = match config.profile {
            Profile::Mix => config.size_or_default(),
            Profile::Uniform | Profile::Paper => config.size_or_default() - config::FCS,
        };
        let source: Box<dyn Source> = match config.profile {
            Profile::Mix => Box::new(Mix::new(&config)),
            Profile::Uniform => Box::new(Uniform::new(&config)),
            Profile::Paper => Box::new(Paper::new(&config)),
        };
        let link = config.framing.link();
        let interface = Interface { link, clock: Clock::NANOS, ..Interface::default() };
        Ok(Self {
            source,
            frame: Frame::new(usize::from(longest)),
            framing: config.framing,
            framed: Vec::new(),
            interfaces: Arc::new(vec![interface]),
            ready: VecDeque::new(),
            left: config.packets,
            latest: 0,
        })
    }

    /// The interface of every batch.
    #[must_use]
    pub fn interfaces(&self) -> &Arc<Vec<Interface>> {
        &self.interfaces
    }

    /// Packets not yet returned.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left + self.ready.iter().map(|batch| batch.len() as u64).sum::<u64>()
    }

    /// The next packets, with strictly ascending time stamps; `None` after the last. Every
    /// batch but the last is full.
    ///
    /// # Errors
    /// If memory is short.
    pub fn next_batch(&mut self) -> io::Result<Option<Batch>> {
        if self.ready.is_empty() && self.left > 0 {
            self.fill()?;
        }
        Ok(self.ready.pop_front())
    }

    /// Generates as many whole batches as one region is sure to hold.
    ///
    /// Packets are stored as records of a pcap file, so that a run of them can be written
    /// without conversion.
    fn fill(&mut self) -> io::Result<()> {
        let framed = if self.framing == Framing::Ethernet { 0 } else { framing::MOST };
        let record = self.frame.longest() + framed + RECORD_HEADER;
        let whole_batch = BATCH * record;
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).saturating_mul(record);
        let mut region = Region::new(wanted.min(REGION.max(whole_batch)))?;
        let mut metas = Vec::with_capacity(region.len() / record);
        let mut at = 0;
        loop {
            let count = self.left.min(BATCH as u64) as usize;
            if count == 0 || region.len() - at < count * record {
                break;
            }
            for _ in 0..count {
                let Some(meta) = self.write_record(region.bytes_mut(), at) else { break };
                at += RECORD_HEADER + meta.cap_len as usize;
                metas.push(meta);
            }
            self.left -= count as u64;
        }
        let region = Arc::new(region);
        for chunk in metas.chunks(BATCH) {
            let mut batch = Batch::new(Arc::clone(&region), Arc::clone(&self.interfaces));
            if self.latest / NANOS_PER_SECOND <= u64::from(u32::MAX) {
                batch.set_layout(Layout::PcapRecords);
            }
            for meta in chunk {
                // A chunk never exceeds BATCH packets.
                let _ = batch.push(*meta);
            }
            self.ready.push_back(batch);
        }
        Ok(())
    }

    /// Generates the next packet and writes it, after its record header, at `at`.
    fn write_record(&mut self, bytes: &mut [u8], at: usize) -> Option<PacketMeta> {
        let time = self.source.next(&mut self.frame)?;
        self.latest = time.max(self.latest + 1);
        let mut packet = self.frame.packet();
        if self.framing != Framing::Ethernet {
            self.framing.apply(packet, &mut self.framed);
            packet = &self.framed;
        }
        let len = packet.len() as u32;
        let fields = [
            (self.latest / NANOS_PER_SECOND) as u32,
            (self.latest % NANOS_PER_SECOND) as u32,
            len,
            len,
        ];
        let (header, body) = bytes.get_mut(at..)?.split_at_mut_checked(RECORD_HEADER)?;
        for (field, place) in fields.into_iter().zip(header.chunks_exact_mut(4)) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        body.get_mut(..packet.len())?.copy_from_slice(packet);
        Some(PacketMeta {
            // Regions are far below 4 GiB.
            offset: (at + RECORD_HEADER) as u32,
            cap_len: len,
            wire_len: len,
            ticks: self.latest,
            interface: 0,
        })
    }
}
