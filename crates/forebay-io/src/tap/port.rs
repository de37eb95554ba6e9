//! The queues of a TAP device as ports.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_packet::{BATCH, Batch, Clock, Interface, LiveMask, Rewrite, Rewrites};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};

use super::sys;
use crate::device::{Counter, DeviceError, Links};
use crate::error::Error;
use crate::frame::{FrameRewrite, rewrite_of, write_frame};
use crate::mem::next_batch;
use crate::mem::ring::{self, Meta, Reader, Writer};
use crate::port::{Received, Rx, RxCounters, Tx, TxCounters};

/// Options of a TAP device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapOptions {
    /// Queues, each with a receiver and a sender.
    pub queues: usize,
    /// Whether the device remains when the program ends.
    pub persistent: bool,
    /// Frames that each receiver has room for, a power of two.
    pub slots: usize,
    /// The longest frame that is received, in bytes.
    pub max_len: usize,
}

impl Default for TapOptions {
    fn default() -> Self {
        Self { queues: 1, persistent: false, slots: 1024, max_len: 9216 }
    }
}

/// A TAP device with its queues.
pub struct Tap {
    /// The device's name.
    pub name: String,
    /// A receiver and a sender for each queue.
    pub queues: Vec<(TapRx, TapTx)>,
}

/// State shared by both ends of a queue.
struct Queue {
    device: String,
    index: u32,
    file: OwnedFd,
}

impl Queue {
    fn failed(&self, action: &'static str) -> impl FnOnce(Errno) -> DeviceError {
        let device = self.device.clone();
        move |error| match error {
            // The driver's error for a file whose device was deleted.
            Errno::BADFD => DeviceError::Gone { device },
            error => DeviceError::System { device, action, source: error.into() },
        }
    }
}

impl Tap {
    /// Opens the TAP device `name`, or creates it; the kernel replaces `%d` in the name by
    /// a number. A new device is down at first.
    ///
    /// # Errors
    /// If the options are invalid, or a system call fails.
    pub fn open(name: &str, options: &TapOptions) -> Result<Self, Error> {
        if options.queues == 0 {
            return Err(DeviceError::options(name, "no queues; expected 1 or more").into());
        }
        let mut name = name.to_owned();
        let mut files = Vec::with_capacity(options.queues);
        for _ in 0..options.queues {
            let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = open("/dev/net/tun", flags, Mode::empty())
                .map_err(DeviceError::system(&name, "open /dev/net/tun for it"))?;
            name = sys::attach(file.as_fd(), &name, options.queues > 1)
                .map_err(DeviceError::system(&name, "make it a TAP device"))?;
            files.push(file);
        }
        // A persistent device that existed before stays persistent.
        if let Some(file) = files.first().filter(|_| options.persistent) {
            sys::set_persistent(file.as_fd())
                .map_err(DeviceError::system(&name, "have it stay"))?;
        }
        let index = Links::open(&name)?.named(&name)?.ethernet()?.index;
        let mut queues = Vec::with_capacity(files.len());
        for (number, file) in files.into_iter().enumerate() {
            let queue = Arc::new(Queue { device: name.clone(), index, file });
            queues.push((TapRx::new(&queue, options, number == 0)?, TapTx::new(queue)));
        }
        Ok(Self { name, queues })
    }

    /// Sets a BPF program, a socket filter, that selects the queue of each frame from the
    /// host: its result modulo the number of queues.
    ///
    /// # Errors
    /// The system's.
    pub fn steer(&self, program: BorrowedFd<'_>) -> Result<(), Error> {
        let Some((rx, _)) = self.queues.first() else { return Ok(()) };
        sys::set_steering(rx.queue.file.as_fd(), program)
            .map_err(DeviceError::system(&self.name, "steer its frames by a BPF program"))?;
        Ok(())
    }
}

/// Receives the frames that the host sends to the device.
pub struct TapRx {
    queue: Arc<Queue>,
    writer: Writer,
    reader: Reader,
    interfaces: Arc<Vec<Interface>>,
    counters: RxCounters,
    too_long: u64,
    /// The counter of the driver's drops for all queues, in the first receiver only.
    links: Option<(Links, Counter)>,
    gone: bool,
}

impl TapRx {
    fn new(queue: &Arc<Queue>, options: &TapOptions, counts: bool) -> Result<Self, DeviceError> {
        let device = &queue.device;
        // One extra byte, to detect frames that are too long.
        let (writer, reader) = ring::new(options.slots, options.max_len + 1)
            .map_err(DeviceError::system(device, "make room for its frames"))?;
        let links = if counts {
            let mut links = Links::open(device)?;
            let dropped = Counter::from(links.named(device)?.stats.tx_dropped);
            Some((links, dropped))
        } else {
            None
        };
        let interface = Interface {
            snap_len: options.max_len as u32,
            clock: Clock::NANOS,
            name: Some(device.clone()),
            ..Interface::default()
        };
        Ok(Self {
            queue: Arc::clone(queue),
            writer,
            reader,
            interfaces: Arc::new(vec![interface]),
            counters: RxCounters::default(),
            too_long: 0,
            links,
            gone: false,
        })
    }

    /// Reads frames into slots, up to a batch; returns their number.
    fn fill(&mut self) -> Result<usize, DeviceError> {
        let max_len = self.interfaces[0].snap_len as usize;
        let mut filled = 0;
        let mut nanos = 0;
        while filled < BATCH {
            // While all slots are held the frames wait in the driver.
            let Some(slot) = self.writer.slot() else { break };
            let len = match read(&self.queue.file, &mut slot[..=max_len]) {
                Ok(len) => len,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                // The next call returns the error, after the packets read so far.
                Err(_) if filled > 0 => break,
                Err(error) => {
                    self.gone = true;
                    return Err(self.queue.failed("read from it")(error));
                }
            };
            if len > max_len {
                self.too_long += 1;
                continue;
            }
            if nanos == 0 {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                nanos = now.as_nanos() as u64;
            }
            let len = len as u32;
            self.writer.fill(Meta { cap_len: len, wire_len: len, ticks: nanos });
            filled += 1;
        }
        self.writer.publish();
        Ok(filled)
    }
}

impl Rx for TapRx {
    fn receive(&mut self) -> Result<Received, Error> {
        if self.gone {
            return Ok(Received::End);
        }
        if self.fill()? == 0 {
            return Ok(Received::Idle);
        }
        let batch = next_batch(&mut self.reader, &self.interfaces, &mut self.counters);
        Ok(batch.map_or(Received::Idle, Received::Batch))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.queue.file.as_fd())
    }

    /// `ring_full` counts the driver's drops while its queues were full, for all queues
    /// together, in the first receiver; `too_long` exceeds the options' limit.
    fn counters(&mut self) -> Result<RxCounters, Error> {
        let mut ring_full = 0;
        if let Some((links, dropped)) = &mut self.links {
            let link = links.numbered(self.queue.index);
            let action = "read its counters";
            if let Some(link) = link.map_err(DeviceError::system(&self.queue.device, action))? {
                dropped.note(link.stats.tx_dropped);
            }
            ring_full = dropped.grown();
        }
        let losses = vec![("ring_full", ring_full), ("too_long", self.too_long)];
        Ok(RxCounters { losses, ..self.counters.clone() })
    }
}

/// Sends frames that the host receives from the device.
pub struct TapTx {
    queue: Arc<Queue>,
    buffer: Vec<u8>,
    packets: u64,
    bytes: u64,
    ring_full: u64,
    too_long: u64,
    too_short: u64,
    link_down: u64,
    device_failed: u64,
}

/// The longest frame that the driver accepts.
const LONGEST: usize = 65_535;

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

impl TapTx {
    fn new(queue: Arc<Queue>) -> Self {
        Self {
            queue,
            buffer: vec![0; LONGEST],
            packets: 0,
            bytes: 0,
            ring_full: 0,
            too_long: 0,
            too_short: 0,
            link_down: 0,
            device_failed: 0,
        }
    }

    fn put(&mut self, packet: &[u8], rewrite: FrameRewrite<'_>) -> Result<(), Error> {
        let frame = if *rewrite == Rewrite::NONE {
            packet
        } else {
            match write_frame(rewrite, packet, &mut self.buffer) {
                Some(len) => &self.buffer[..len],
                None => {
                    self.too_long += 1;
                    return Ok(());
                }
            }
        };
        if frame.len() > LONGEST {
            self.too_long += 1;
            return Ok(());
        }
        if frame.len() < HEADER {
            self.too_short += 1;
            return Ok(());
        }
        loop {
            match write(&self.queue.file, frame) {
                Ok(len) => {
                    self.packets += 1;
                    self.bytes += len as u64;
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => self.ring_full += 1,
                Err(Errno::IO) => self.link_down += 1,
                Err(error) => {
                    self.device_failed += 1;
                    return Err(self.queue.failed("write to it")(error).into());
                }
            }
            return Ok(());
        }
    }
}

impl Tx for TapTx {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error> {
        let mut packets = batch.live().and(which).iter();
        for i in packets.by_ref() {
            if let Err(error) = self.put(batch.packet(i), rewrite_of(batch, i, rewrites)) {
                self.device_failed += packets.count() as u64;
                return Err(error);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn counters(&mut self) -> Result<TxCounters, Error> {
        Ok(TxCounters {
            packets: self.packets,
            bytes: self.bytes,
            losses: vec![
                ("ring_full", self.ring_full),
                ("too_long", self.too_long),
                ("too_short", self.too_short),
                ("link_down", self.link_down),
                ("device_failed", self.device_failed),
            ],
            held: 0,
            ..TxCounters::default()
        })
    }
}
