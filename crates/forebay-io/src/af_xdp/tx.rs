//! Sends to a queue.
//!
//! Packets are copied into free frames and put into the transmit ring. If the kernel sends
//! only during system calls, one call after each batch makes it send all of them, in
//! portions of its own. A frame returned by the completion ring was sent, except those for
//! which a call reported a drop by the driver.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_packet::{Batch, LiveMask, Rewrites};
use rustix::io::Errno;
use rustix::net::sockopt::xdp_statistics;
use rustix::net::{SendFlags, send};

use super::pool::Pool;
use super::ring::TransmitRing;
use super::socket::Socket;
use crate::device::{DeviceError, Links};
use crate::error::Error;
use crate::frame::{FrameRewrite, rewrite_of, write_frame};
use crate::port::{Tx, TxCounters};

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

/// The most waiting packets before a system call: as many as the kernel takes in one call
/// by default.
const KICK: u32 = 32;

/// Pause between attempts while a device takes no packets.
const PAUSE: Duration = Duration::from_micros(20);

/// Packets lost, by cause.
#[derive(Clone, Copy, Debug, Default)]
struct Lost {
    ring_full: u64,
    too_long: u64,
    too_short: u64,
    driver: u64,
    link_down: u64,
    device_failed: u64,
}

/// Sends packets to a queue of a device.
pub struct XdpTx {
    socket: Arc<Socket>,
    transmit: TransmitRing,
    pool: Pool,
    /// The most packets in flight.
    window: u64,
    links: Links,
    patience: Duration,
    patience_ends: Option<Instant>,
    /// The longest frame that the device accepts.
    max_len: usize,
    /// Packets put into the ring, and packets completed, with their bytes.
    put: u64,
    completed: u64,
    bytes: u64,
    /// Lengths of packets not yet completed, in order; 0 for one that was dropped.
    lengths: VecDeque<u32>,
    lost: Lost,
    /// The kernel's last report; waiting packets are sent when the device is up again.
    is_down: bool,
    gone: bool,
}

impl XdpTx {
    pub(super) fn new(
        socket: &Arc<Socket>,
        transmit: TransmitRing,
        pool: Pool,
        window: u64,
        patience: Duration,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            socket: Arc::clone(socket),
            transmit,
            pool,
            window,
            links: Links::open(&socket.device)?,
            patience,
            patience_ends: None,
            max_len: socket.link.max_frame(),
            put: 0,
            completed: 0,
            bytes: 0,
            lengths: VecDeque::new(),
            lost: Lost::default(),
            is_down: false,
            gone: false,
        })
    }

    /// Copies a packet into the ring.
    fn put(&mut self, packet: &[u8], rewrite: FrameRewrite<'_>) -> Result<(), Error> {
        let len = rewrite.len_of(packet);
        if len < HEADER {
            self.lost.too_short += 1;
            return Ok(());
        }
        if len > self.max_len {
            self.lost.too_long += 1;
            return Ok(());
        }
        if !self.has_room() {
            let has_room = self.make_room();
            self.lost.device_failed += u64::from(has_room.is_err());
            has_room?;
        }
        let frame = if self.held() < self.window { self.pool.free.pop() } else { None };
        let Some(mut frame) = frame else {
            let lost = &mut self.lost;
            *(if self.is_down { &mut lost.link_down } else { &mut lost.ring_full }) += 1;
            return Ok(());
        };
        match write_frame(rewrite, packet, self.socket.fd.umem().bytes_mut(&mut frame)) {
            Some(len) => {
                self.transmit.put(frame, len as u32);
                self.put += 1;
                self.lengths.push_back(len as u32);
            }
            None => {
                self.lost.too_long += 1;
                self.pool.free.push(frame);
            }
        }
        if self.put.is_multiple_of(u64::from(KICK)) {
            self.kick()?;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        !self.pool.free.is_empty() && self.held() < self.window
    }

    /// Waits until a frame is free, as long as the batch's patience lasts.
    fn make_room(&mut self) -> Result<(), Error> {
        let patience = self.patience;
        let end = *self.patience_ends.get_or_insert_with(|| Instant::now() + patience);
        loop {
            self.kick()?;
            self.reap();
            if self.has_room() || self.is_down || Instant::now() >= end {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn reap(&mut self) {
        let came = self.pool.reap();
        self.completed += came as u64;
        let lengths = self.lengths.drain(..came.min(self.lengths.len()));
        self.bytes += lengths.map(u64::from).sum::<u64>();
    }

    /// Publishes the descriptors, and calls the kernel while it makes progress.
    fn kick(&mut self) -> Result<(), Error> {
        self.transmit.publish();
        while self.transmit.waiting() > 0 && self.transmit.needs_wakeup() {
            let before = self.transmit.waiting();
            match send(&self.socket.fd, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => {}
                // In copy mode, one packet that was completed as if it had been sent.
                Err(Errno::BUSY) if !self.socket.is_zero_copy => self.note_dropped(),
                Err(Errno::BUSY) => {}
                Err(Errno::NETDOWN) => {
                    self.is_down = true;
                    return Ok(());
                }
                Err(Errno::NXIO) => return Err(self.go()),
                Err(error) => return Err(self.socket.refused("send to it")(error).into()),
            }
            self.is_down = false;
            if self.transmit.waiting() == before {
                break;
            }
        }
        Ok(())
    }

    /// The driver dropped the last packet taken by the kernel: the one before those that
    /// wait.
    fn note_dropped(&mut self) {
        self.lost.driver += 1;
        let waiting = self.transmit.waiting() as usize;
        let taken = self.lengths.len().checked_sub(waiting + 1);
        if let Some(length) = taken.and_then(|last| self.lengths.get_mut(last)) {
            *length = 0;
        }
    }

    /// The device is gone, with all waiting packets.
    fn go(&mut self) -> Error {
        self.reap();
        self.gone = true;
        self.lost.device_failed += self.held();
        self.socket.gone()
    }

    /// Packets waiting or in flight.
    fn held(&self) -> u64 {
        self.put - self.completed
    }
}

impl Tx for XdpTx {
    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error> {
        let mut packets = batch.live().and(which).iter();
        if self.gone {
            self.lost.device_failed += packets.count() as u64;
            return Err(self.socket.gone());
        }
        self.patience_ends = None;
        self.reap();
        for i in packets.by_ref() {
            if let Err(error) = self.put(batch.packet(i), rewrite_of(batch, i, rewrites)) {
                self.lost.device_failed += packets.count() as u64;
                return Err(error);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.gone {
            return Err(self.socket.gone());
        }
        self.kick()?;
        self.reap();
        Ok(())
    }

    /// Losses: `ring_full`, or `link_down` if the ring was full because of that; `too_long`
    /// for the device or a frame, and `too_short` for an Ethernet header; `driver`, dropped
    /// by it; `invalid`, refused by the kernel; and `device_failed`, when sending ended in
    /// an error.
    fn counters(&mut self) -> Result<TxCounters, Error> {
        self.reap();
        let statistics = xdp_statistics(self.socket.fd.as_fd())
            .map_err(self.socket.refused("read its counters"))?;
        if let Ok(Some(link)) = self.links.numbered(self.socket.link.index) {
            self.max_len = link.max_frame();
        }
        let lost = &self.lost;
        let invalid = statistics.tx_invalid_descs;
        let held = if self.gone { 0 } else { self.held().saturating_sub(invalid) };
        Ok(TxCounters {
            packets: self.completed.saturating_sub(lost.driver),
            bytes: self.bytes,
            losses: vec![
                ("ring_full", lost.ring_full),
                ("too_long", lost.too_long),
                ("too_short", lost.too_short),
                ("driver", lost.driver),
                ("invalid", invalid),
                ("link_down", lost.link_down),
                ("device_failed", lost.device_failed),
            ],
            held,
            ..TxCounters::default()
        })
    }
}
