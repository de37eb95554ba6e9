//! Drops the copies that a mirror port makes of a packet it sees twice.
//!
//! A switch that mirrors a port in both directions, or several ports, sends a packet once
//! for each: from before it was routed and from after. Copies are the same from their IP
//! header on, but for what a router changes of it: hop limit and checksum. Packets that are
//! not IP are copies when all bytes are.
//!
//! A packet is a copy of one that came at most `window` earlier, by the packets' own times,
//! and has the same keyed digest of 64 bits. The table has a fixed number of places and
//! forgets the oldest of a set first: a flood can make it miss copies, and never drop a
//! packet that came once. What hosts themselves send twice within the window looks the same
//! (duplicate acknowledgements without time stamps, for one): the window is to be no longer
//! than a packet's way through the switch.

use std::sync::Arc;

use forebay_packet::decode::ip_packet;
use forebay_packet::{Batch, HashKey, LinkType, siphash13};

use crate::optional::{OptionalStage, Place, StageConfig, StageParts};
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};
use crate::units;

/// The key `duplicates`.
pub(super) const STAGE: OptionalStage = OptionalStage {
    key: "duplicates",
    help: "For how long a packet that comes again, but for its stations, tags and hop limit, is\n\
           taken for the copy of a mirror port and dropped. By default nothing is.",
    example: "\"1ms\"",
    place: Place::BehindFilter,
    needs: &[],
    keys: false,
    read: |value| {
        let text = value.as_str().ok_or("expected a duration, like \"1ms\"")?;
        let window = units::duration(text).map_err(|error| error.to_string())?;
        Ok(Arc::new(DuplicateWindow(window.as_nanos() as u64)))
    },
};

/// For how many nanoseconds a packet that comes again is taken for a copy.
#[derive(Clone, Copy, Debug)]
pub struct DuplicateWindow(pub u64);

impl Setting for DuplicateWindow {}

impl StageConfig for DuplicateWindow {
    fn build(&self, parts: &StageParts) -> Option<Box<dyn Stage>> {
        Some(Box::new(Duplicates::new(parts.hash_key, *self)))
    }

    fn settings(&self) -> Settings {
        Settings::new().with(*self)
    }

    fn memory_bytes(&self) -> u64 {
        (SETS * size_of::<[Seen; WAYS]>()) as u64
    }
}

/// Sets of the table, and packets of a set.
const SETS: usize = 1 << 14;
const WAYS: usize = 4;

/// A packet that was seen.
#[derive(Clone, Copy)]
struct Seen {
    digest: u64,
    /// In nanoseconds.
    at: i64,
}

impl Seen {
    const NOTHING: Self = Self { digest: 0, at: i64::MIN };
}

/// Drops packets that have just been seen.
pub struct Duplicates {
    hash_key: HashKey,
    window: DuplicateWindow,
    table: Vec<[Seen; WAYS]>,
    words: Vec<u64>,
}

impl Duplicates {
    /// Drops what comes again within a window; `hash_key` is the secret of flow hashes.
    #[must_use]
    pub fn new(hash_key: HashKey, window: DuplicateWindow) -> Self {
        // The digest must not tell anything of the hash that chooses sensors.
        let HashKey([low, high]) = hash_key;
        let hash_key = HashKey([low ^ u64::MAX, high]);
        Self { hash_key, window, table: vec![[Seen::NOTHING; WAYS]; SETS], words: Vec::new() }
    }

    /// Whether the packet of this digest came within the window before; remembers it.
    fn is_copy(&mut self, digest: u64, at: i64) -> bool {
        let DuplicateWindow(window) = self.window;
        let set = &mut self.table[digest as usize % SETS];
        let mut oldest = 0;
        for way in 0..WAYS {
            let seen = set[way];
            // Times may jump either way: what is far off is another packet's.
            if seen.digest == digest && at.abs_diff(seen.at) <= window {
                return true;
            }
            if age(at, seen) > age(at, set[oldest]) {
                oldest = way;
            }
        }
        set[oldest] = Seen { digest, at };
        false
    }

    /// A digest of what copies of a packet have in common.
    fn digest(&mut self, link: LinkType, packet: &[u8]) -> u64 {
        self.words.clear();
        match ip_packet(link, packet) {
            Some(ip) => {
                let (header, rest) = ip.routed_alike();
                self.add(&header);
                self.add(rest);
            }
            None => self.add(packet),
        }
        siphash13(&self.hash_key, &self.words)
    }

    /// Adds bytes, and how many they are.
    fn add(&mut self, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks();
        self.words.extend(whole.iter().map(|word| u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.words.extend([u64::from_le_bytes(last), bytes.len() as u64]);
    }
}

/// How long ago a packet was seen, or will be.
fn age(now: i64, seen: Seen) -> u64 {
    now.abs_diff(seen.at)
}

impl Stage for Duplicates {
    fn name(&self) -> &'static str {
        "duplicates"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &["duplicate"]
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        for i in batch.live().iter() {
            let digest = self.digest(batch.interface(i).link, batch.packet(i));
            if self.is_copy(digest, batch.nanos(i)) {
                batch.drop_packet(i);
                out.dropped(0, 1);
            }
        }
        out.emit(batch);
        Ok(())
    }

    fn reload(&mut self, settings: &Settings) {
        if let Some(window) = settings.get::<DuplicateWindow>() {
            self.window = *window;
        }
    }
}
