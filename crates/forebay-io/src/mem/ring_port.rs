//! The two ends of a ring in memory as ports.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_packet::{BATCH, Batch, Clock, Interface, LiveMask, PacketMeta, Rewrites};

use super::ring::{self, Meta, Reader, Writer, prefetch};
use crate::error::Error;
use crate::frame::{FrameRewrite, first_read, rewrite_of, write_frame};
use crate::port::{Received, Rx, RxCounters, Tx, TxCounters};

/// The behaviour of a sender when the ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The packet is dropped.
    Lose,
    /// It waits for the reader, at most this long for each batch; then the packet is
    /// dropped.
    Wait(Duration),
}

/// Options of a ring.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Slots, a power of two.
    pub slots: usize,
    /// The longest packet, in bytes.
    pub max_len: usize,
    /// The behaviour of a sender when all slots are in use.
    pub when_full: WhenFull,
    /// The interface of received packets; its clock counts nanoseconds.
    pub name: String,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self { slots: 4096, max_len: 2048, when_full: WhenFull::Lose, name: "mem".to_owned() }
    }
}

/// The two ends of a new ring.
///
/// # Errors
/// If the options are invalid, or the system's error.
pub fn ring(options: &RingOptions) -> Result<(RingTx, RingRx), Error> {
    let (writer, reader) = ring::new(options.slots, options.max_len)
        .map_err(|source| Error::Create { file: options.name.clone(), source })?;
    let interface = Interface {
        snap_len: 0,
        clock: Clock::NANOS,
        name: Some(options.name.clone()),
        ..Interface::default()
    };
    let tx = RingTx {
        writer,
        when_full: options.when_full,
        packets: 0,
        bytes: 0,
        ring_full: 0,
        too_long: 0,
        no_reader: 0,
        patience_ends: None,
    };
    let interfaces = Arc::new(vec![interface]);
    Ok((tx, RingRx { reader, interfaces, counters: RxCounters::default() }))
}

/// The sending end of a ring.
///
/// Losses are `ring_full`, `too_long` for a slot, and `no_reader` after the other end was
/// dropped. Held packets were not received yet, or their batch still exists.
pub struct RingTx {
    writer: Writer,
    when_full: WhenFull,
    /// Packets put into the ring, and their bytes.
    packets: u64,
    bytes: u64,
    ring_full: u64,
    too_long: u64,
    no_reader: u64,
    /// When the present batch stops waiting; `None` before it has to wait.
    patience_ends: Option<Instant>,
}

/// Distance in packets for prefetching the first lines of a packet before it is copied.
const AHEAD: usize = 16;

/// Packets after which filled slots are published.
const PUBLISH: usize = 64;

impl RingTx {
    /// Copies packet `i` into the next slot.
    #[inline]
    fn put(&mut self, batch: &Batch, i: usize, rewrite: FrameRewrite<'_>) {
        let packet = batch.packet(i);
        let Some(slot) = self.writer.slot() else {
            self.put_when_full(batch, i, rewrite);
            return;
        };
        let Some(len) = write_frame(rewrite, packet, slot) else {
            self.too_long += 1;
            return;
        };
        let clock = batch.interface(i).clock;
        let ticks = batch.ticks(i);
        // Times before the epoch are set to it: the clock of a ring is unsigned.
        let nanos = if clock == Clock::NANOS { ticks } else { batch.nanos(i).max(0) as u64 };
        // Pushed headers add to the length on the wire; slicing does not change it.
        let wire_len = batch.wire_len(i).max(len as u32);
        self.writer.fill(Meta { cap_len: len as u32, wire_len, ticks: nanos });
        self.packets += 1;
        self.bytes += len as u64;
    }

    /// Waits for a slot if the options allow it.
    #[cold]
    fn put_when_full(&mut self, batch: &Batch, i: usize, rewrite: FrameRewrite<'_>) {
        self.writer.publish();
        if self.writer.is_abandoned() {
            self.no_reader += 1;
            return;
        }
        let WhenFull::Wait(most) = self.when_full else {
            self.ring_full += 1;
            return;
        };
        let end = *self.patience_ends.get_or_insert_with(|| Instant::now() + most);
        while Instant::now() < end && !self.writer.is_abandoned() {
            if self.writer.slot().is_some() {
                return self.put(batch, i, rewrite);
            }
            std::thread::yield_now();
        }
        self.ring_full += 1;
    }
}

impl Tx for RingTx {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error> {
        let which = batch.live().and(which);
        self.patience_ends = None;
        let first_read = first_read(rewrites);
        let fetch = |i: usize| prefetch(batch.packet(i).get(first_read..).unwrap_or_default());
        let mut ahead = which.iter();
        ahead.by_ref().take(AHEAD).for_each(fetch);
        for (sent, i) in which.iter().enumerate() {
            if let Some(next) = ahead.next() {
                fetch(next);
            }
            self.put(batch, i, rewrite_of(batch, i, rewrites));
            if sent % PUBLISH == PUBLISH - 1 {
                self.writer.publish();
            }
        }
        self.writer.publish();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counters(&mut self) -> Result<TxCounters, Error> {
        let held = self.writer.held();
        Ok(TxCounters {
            packets: self.packets - held,
            bytes: self.bytes,
            losses: vec![
                ("ring_full", self.ring_full),
                ("too_long", self.too_long),
                ("no_reader", self.no_reader),
            ],
            held,
            ..TxCounters::default()
        })
    }
}

/// The next packets of a ring, if there are any, counted; their slots return to the writer
/// when the batch is dropped.
pub(crate) fn next_batch(
    reader: &mut Reader,
    interfaces: &Arc<Vec<Interface>>,
    counters: &mut RxCounters,
) -> Option<Batch> {
    let run = Arc::new(reader.take(BATCH)?);
    let packets = run.packets().map(|(offset, Meta { cap_len, wire_len, ticks })| {
        counters.bytes += u64::from(wire_len);
        PacketMeta { offset, cap_len, wire_len, ticks, interface: 0 }
    });
    let batch = Batch::leased(Arc::clone(&run), Arc::clone(interfaces), packets);
    counters.packets += batch.len() as u64;
    Some(batch)
}

/// The receiving end of a ring.
pub struct RingRx {
    reader: Reader,
    interfaces: Arc<Vec<Interface>>,
    counters: RxCounters,
}

impl Rx for RingRx {
    fn receive(&mut self) -> Result<Received, Error> {
        // Checked first, so that the last packets are not missed.
        let ending = self.reader.is_ending();
        Ok(match next_batch(&mut self.reader, &self.interfaces, &mut self.counters) {
            Some(batch) => Received::Batch(batch),
            None if ending => Received::End,
            None => Received::Idle,
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.reader.descriptor())
    }

    fn counters(&mut self) -> Result<RxCounters, Error> {
        Ok(self.counters.clone())
    }
}
