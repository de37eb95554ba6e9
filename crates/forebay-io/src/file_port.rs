//! Capture files as ports of a live broker: one is played in, another taken down.

use forebay_packet::{Arena, Batch, LiveMask, Rewrite};

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

/// A capture that packets are written to.
pub struct CaptureTx {
    writer: Writer,
    counters: TxCounters,
}

impl CaptureTx {
    /// Packets go to `writer`.
    #[must_use]
    pub fn new(writer: Writer) -> Self {
        Self { writer, counters: TxCounters::default() }
    }

    /// Writes one packet that is changed on its way.
    fn write_changed(&mut self, batch: &Batch, i: usize, rewrite: &Rewrite) -> Result<(), Error> {
        let len = rewrite.len_of(batch.packet(i));
        let mut frame = vec![0; len];
        // It is as long as asked for.
        let _ = rewrite.write(batch.packet(i), &mut frame);
        // What is pushed is on the wire, too; what is sliced off was; what is stripped is not.
        let left = batch.wire_len(i).saturating_sub(rewrite.stripped_off(batch.packet(i)) as u32);
        let wire_len = left.max(len as u32);
        let arena = Arena::new(1, len).map(|mut arena| {
            arena.push(&frame, wire_len, batch.ticks(i), batch.interface_id(i));
            arena.into_batches(batch.interfaces())
        });
        let name = self.writer.path().display().to_string();
        for changed in arena.map_err(|source| Error::Write { file: name, source })? {
            self.writer.write(&changed, &changed.live())?;
        }
        Ok(())
    }
}

impl Tx for CaptureTx {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &[Rewrite]) -> Result<(), Error> {
        let which = batch.live().and(which);
        let rewrite_of = |i: usize| rewrite_of(batch, i, rewrites);
        if which.iter().all(|i| *rewrite_of(i) == Rewrite::NONE) {
            self.writer.write(batch, &which)?;
        } else {
            for i in which.iter() {
                self.write_changed(batch, i, rewrite_of(i))?;
            }
        }
        self.counters.packets += which.count() as u64;
        let lens = which.iter().map(|i| rewrite_of(i).len_of(batch.packet(i)) as u64);
        self.counters.bytes += lens.sum::<u64>();
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
