//! The device's side of the memory of one client.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::super::Cause;
use super::super::batch::{BatchScanner, padded};
use super::super::protocol::{
    Area, CLIENT_SLEEPS, COMPLETED, COMPLETION_WORDS, CONTROL_REGION, DEVICE_SLEEPS, Descriptor,
    Hello, Layout, REGIONS, RESULT_REGION, Reply, SCAN, SUBMITTED, TEXT_REGION, WORD, check_word,
    match_word, status,
};
use super::super::shared::Words;
use super::Work;
use crate::matches::Match;
use crate::scanner::Scanner;

/// A client's memory, and what was done with it.
#[derive(Debug)]
pub(crate) struct Served {
    regions: Arc<[Words; REGIONS]>,
    layout: Layout,
    generation: u32,
    scanner: BatchScanner,
    /// Descriptors taken, and so completions written.
    taken: u64,
    /// The batch, copied.
    batch: Vec<u8>,
    found: Vec<Match>,
}

impl Served {
    /// Maps the regions of a client.
    pub(super) fn map(
        hello: &Hello,
        files: &[OwnedFd; REGIONS],
        scanner: Arc<Scanner>,
    ) -> io::Result<Self> {
        let [control, texts, results] = hello.layout.region_words();
        let open = |file: &OwnedFd, words| Words::open(file.as_fd(), words);
        let regions =
            [open(&files[0], control)?, open(&files[1], texts)?, open(&files[2], results)?];
        Ok(Self::new(Arc::new(regions), hello.layout, hello.generation, scanner))
    }

    /// Serves memory that has the sizes of the layout.
    pub(crate) fn new(
        regions: Arc<[Words; REGIONS]>,
        layout: Layout,
        generation: u32,
        scanner: Arc<Scanner>,
    ) -> Self {
        Self {
            regions,
            layout,
            generation,
            scanner: BatchScanner::new(scanner, layout.result_bytes / WORD as u32),
            taken: 0,
            batch: Vec::new(),
            found: Vec::new(),
        }
    }

    fn control(&self) -> &Words {
        &self.regions[CONTROL_REGION as usize]
    }

    /// Scans the next batch, if there is one. Whether there was one.
    ///
    /// # Errors
    /// The client's position is not possible.
    pub(crate) fn step(&mut self, work: &Work) -> io::Result<bool> {
        let submitted = self.control().acquire(SUBMITTED);
        let ready = submitted.wrapping_sub(self.taken);
        if ready > u64::from(self.layout.slots) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if ready == 0 {
            return Ok(false);
        }
        let at = self.layout.descriptor_at(self.taken);
        let descriptor = Descriptor::decode(self.control().read_array(at));
        let result = self.scan(&descriptor);
        let (status, matches) = match result {
            Ok(matches) => (status::DONE, matches),
            Err(status) => (status, 0),
        };
        let (id, generation) = (descriptor.id, self.generation);
        let mut reply = Reply { id, generation, status, check: 0, matches, offset: 0 };
        let found = self.found.iter().take(matches as usize);
        let found = found.map(|&found| match_word(found));
        reply.check = check_word(reply.encode(), descriptor.cookie, found);
        let at = self.layout.completion_at(self.taken);
        self.taken += 1;
        let control = self.control();
        control.write_array::<COMPLETION_WORDS>(at, reply.encode());
        control.release(COMPLETED, self.taken);
        work.batches.fetch_add(1, Ordering::Relaxed);
        work.bytes.fetch_add(u64::from(descriptor.batch.len), Ordering::Relaxed);
        Ok(true)
    }

    /// Scans a batch, and writes its matches. Returns their number.
    fn scan(&mut self, descriptor: &Descriptor) -> Result<u32, u16> {
        let words = |area: &Area, region: u16| {
            let within = area.words(self.regions[region as usize].len());
            within.filter(|_| area.region == region).ok_or(status::FAULT)
        };
        let is_ours = descriptor.generation == self.generation && descriptor.operation == SCAN;
        let is_small = descriptor.texts <= self.layout.texts
            && descriptor.batch.len <= self.layout.batch_bytes
            && u64::from(descriptor.texts) * WORD as u64 <= u64::from(descriptor.batch.len);
        if !is_ours || !is_small {
            return Err(status::FAULT);
        }
        let batch = words(&descriptor.batch, TEXT_REGION)?;
        let results = words(&descriptor.results, RESULT_REGION)?;
        self.regions[TEXT_REGION as usize].copy_to(batch, &mut self.batch);
        let table = &self.batch.as_chunks().0[..descriptor.texts as usize];
        if !is_in_order(table, self.batch.len()) {
            return Err(status::FAULT);
        }
        let texts = table.iter().map(|&entry| {
            let (start, len) = place(entry);
            &self.batch[start..start + len]
        });
        self.found.clear();
        self.scanner.scan_all(texts, &mut self.found).map_err(|cause| match cause {
            Cause::Overflow => status::OVERFLOW,
            _ => status::FAULT,
        })?;
        if self.found.len() > results.len() {
            return Err(status::OVERFLOW);
        }
        let memory = &self.regions[RESULT_REGION as usize];
        for (at, &found) in results.zip(&self.found) {
            memory.write(at, match_word(found));
        }
        Ok(self.found.len() as u32)
    }

    /// Whether the client waits for a message.
    pub(super) fn client_sleeps(&self) -> bool {
        fence(Ordering::SeqCst);
        self.control().read(CLIENT_SLEEPS) != 0
    }

    /// Marks whether the device waits for a message. After it was marked asleep: whether it must
    /// not wait, as a descriptor is there.
    pub(super) fn set_asleep(&self, sleeps: bool) -> bool {
        self.control().write(DEVICE_SLEEPS, u64::from(sleeps));
        fence(Ordering::SeqCst);
        self.control().read(SUBMITTED) != self.taken
    }
}

/// Where the text of an entry of the table starts, and its length.
fn place(entry: [u8; WORD]) -> (usize, usize) {
    let entry = u64::from_le_bytes(entry);
    (entry as u32 as usize, (entry >> 32) as usize)
}

/// Whether each text starts at a word behind the table and the texts before it, and ends within the
/// batch of `len` bytes: then no byte is scanned twice, and a batch takes no longer than its length.
fn is_in_order(table: &[[u8; WORD]], len: usize) -> bool {
    let mut end = table.len() * WORD;
    table.iter().map(|&entry| place(entry)).all(|(start, text)| {
        let follows = start >= end && start.is_multiple_of(WORD);
        end = start.saturating_add(padded(text));
        follows && end <= len
    })
}
