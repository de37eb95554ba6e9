//! Capture files as ports of a live broker: one is played in, another taken down.

use std::sync::Arc;

use forebay_packet::{Arena, Batch, Interface, LiveMask, Rewrite};

use crate::error::Error;
use crate::frame::rewrite_of;
use crate::port::{Received, Rx, RxCounters, Tx, TxCounters};
use crate::reader::Reader;
use crate::writer::Writer;

/// Packets of a capture, as fast as they are asked for.
pub struct CaptureRx {
    reader: Reader,
    counters: RxCounters,
}

impl CaptureRx {
    /// Packets of `reader`.
    #[must_use]
    pub fn new(reader: Reader) -> Self {
        Self { reader, counters: RxCounters::default() }
    }
}

impl Rx for CaptureRx {
    fn receive(&mut self) -> Result<Received, Error> {
        let Some(batch) = self.reader.receive()? else { return Ok(Received::End) };
        self.counters.packets += batch.live().count() as u64;
        self.counters.bytes += batch.wire_bytes();
        Ok(Received::Batch(batch))
    }

    fn counters(&mut self) -> Result<RxCounters, Error> {
        Ok(self.counters.clone())
    }
}

/// A capture that packets are written to. Where they come from several inputs, each has
/// interfaces of its own in the file.
pub struct CaptureTx {
    writer: Writer,
    /// The interfaces of all inputs, in the order in which they came first.
    interfaces: Arc<Vec<Interface>>,
    frame: Vec<u8>,
    counters: TxCounters,
}

impl CaptureTx {
    /// Packets go to `writer`, a capture that has no interfaces yet.
    #[must_use]
    pub fn new(writer: Writer) -> Self {
        let (interfaces, frame) = (Arc::default(), Vec::new());
        Self { writer, interfaces, frame, counters: TxCounters::default() }
    }

    /// The number in the file of the first interface of `batch`.
    fn first_of(&mut self, batch: &Batch) -> u16 {
        let theirs = batch.interfaces().as_slice();
        let known = self.interfaces.windows(theirs.len().max(1)).position(|some| some == theirs);
        let first = known.unwrap_or_else(|| {
            let first = self.interfaces.len();
            Arc::make_mut(&mut self.interfaces).extend_from_slice(theirs);
            first
        });
        // A broker has fewer inputs than that.
        u16::try_from(first).unwrap_or(u16::MAX)
    }

    /// Writes packets that are changed on their way, or whose interfaces have other numbers.
    fn write_copies(
        &mut self,
        batch: &Batch,
        which: &LiveMask,
        first: u16,
        rewrites: &[Rewrite],
    ) -> Result<(), Error> {
        let len = |i: usize| rewrite_of(batch, i, rewrites).len_of(batch.packet(i));
        let longest = which.iter().map(len).max().unwrap_or(0);
        let copies = Arena::new(which.count(), longest).map(|mut arena| {
            for i in which.iter() {
                let (packet, rewrite) = (batch.packet(i), rewrite_of(batch, i, rewrites));
                self.frame.resize(rewrite.len_of(packet), 0);
                // It is as long as asked for.
                let _ = rewrite.write(packet, &mut self.frame);
                // What is pushed is on the wire, too; what is sliced off was; what is
                // stripped is not.
                let left = batch.wire_len(i).saturating_sub(rewrite.stripped_off(packet) as u32);
                let wire_len = left.max(self.frame.len() as u32);
                let interface = first.saturating_add(batch.interface_id(i));
                arena.push(&self.frame, wire_len, batch.ticks(i), interface);
            }
            arena.into_batches(&self.interfaces)
        });
        let name = self.writer.path().display().to_string();
        for batch in copies.map_err(|source| Error::Write { file: name, source })? {
            self.writer.write(&batch, &batch.live())?;
        }
        Ok(())
    }
}

impl Tx for CaptureTx {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &[Rewrite]) -> Result<(), Error> {
        let which = batch.live().and(which);
        let first = self.first_of(batch);
        let is_whole = |i: usize| *rewrite_of(batch, i, rewrites) == Rewrite::NONE;
        if first == 0 && which.iter().all(is_whole) {
            self.writer.write(batch, &which)?;
        } else {
            self.write_copies(batch, &which, first, rewrites)?;
        }
        self.counters.packets += which.count() as u64;
        let len = |i: usize| rewrite_of(batch, i, rewrites).len_of(batch.packet(i)) as u64;
        self.counters.bytes += which.iter().map(len).sum::<u64>();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush()
    }

    fn counters(&mut self) -> Result<TxCounters, Error> {
        Ok(self.counters.clone())
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        self.writer.finish().map(drop)
    }
}
