//! Receiving from a queue.
//!
//! Most batches lie in the frames that their packets came in. A packet in several pieces
//! is put together in memory of its own: a run of such packets is a batch of its own, so
//! that the order stays.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_packet::{BATCH, Batch, Clock, Interface, PacketMeta, Region};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_error, xdp_statistics};
use rustix::net::{RecvFlags, recv};

use super::port::Socket;
use super::ring::{FillRing, Frame, Leased, Piece, ReceiveRing};
use crate::device::{Counter, DeviceError, Links};
use crate::error::Error;
use crate::port::{Received, Rx, RxCounters};

/// Receives from a queue of a device.
pub struct XdpRx {
    socket: Arc<Socket>,
    receive: ReceiveRing,
    fill: Arc<Mutex<FillRing>>,
    interfaces: Arc<Vec<Interface>>,
    /// Pieces that are not in a batch yet.
    pieces: VecDeque<Piece>,
    counters: RxCounters,
    no_memory: u64,
    /// The first socket of a queue counts what the device lost.
    counts_device: bool,
    links: Links,
    /// What the device has lost since it was opened: damaged, missed and dropped frames.
    before: [Counter; 3],
    ended: bool,
}

impl XdpRx {
    pub(super) fn new(
        socket: &Arc<Socket>,
        receive: ReceiveRing,
        fill: &Arc<Mutex<FillRing>>,
        counts_device: bool,
    ) -> Result<Self, DeviceError> {
        let interface = Interface {
            snap_len: 0,
            clock: Clock::NANOS,
            name: Some(socket.device.clone()),
            ..Interface::default()
        };
        Ok(Self {
            socket: Arc::clone(socket),
            receive,
            fill: Arc::clone(fill),
            interfaces: Arc::new(vec![interface]),
            pieces: VecDeque::new(),
            counters: RxCounters::default(),
            no_memory: 0,
            counts_device,
            links: Links::open(&socket.device)?,
            before: socket.link.stats.rx_losses().map(Counter::from),
            ended: false,
        })
    }

    /// Pieces of the first packet that is here as a whole.
    fn first_packet(&self) -> Option<usize> {
        self.pieces.iter().position(|piece| !piece.continued).map(|last| last + 1)
    }

    /// A batch of packets of one piece each, in their frames.
    fn single_pieces(&mut self, nanos: u64) -> Batch {
        let whole = self.pieces.iter().take_while(|piece| !piece.continued);
        let count = whole.take(BATCH).count();
        let mut frames = Vec::with_capacity(count);
        let mut packets = Vec::with_capacity(count);
        for Piece { frame, offset, len, .. } in self.pieces.drain(..count) {
            packets.push(PacketMeta {
                offset,
                cap_len: len,
                wire_len: len,
                ticks: nanos,
                interface: 0,
            });
            frames.push(frame);
        }
        let lease = self.lease(frames);
        Batch::leased(Arc::new(lease), Arc::clone(&self.interfaces), packets.into_iter())
    }

    /// The right to read frames, which then go back to the kernel.
    fn lease(&self, frames: Vec<Frame>) -> Leased {
        Leased::new(Arc::clone(&self.socket.umem), Arc::clone(&self.fill), frames)
    }

    /// A batch of one packet in several pieces, put together. Nothing where there is no
    /// memory for it; then it is lost.
    fn several_pieces(&mut self, pieces: usize, nanos: u64) -> Option<Batch> {
        let mut pieces: Vec<Piece> = self.pieces.drain(..pieces).collect();
        let len: usize = pieces.iter().map(|piece| piece.len as usize).sum();
        let region = Region::new(len);
        let mut frames = Vec::with_capacity(pieces.len());
        let copied = region.map(|mut region| {
            let mut at = 0;
            for piece in &mut pieces {
                let part = self.socket.umem.piece(piece);
                region.bytes_mut()[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            region
        });
        frames.extend(pieces.into_iter().map(|piece| piece.frame));
        drop(self.lease(frames));
        let Ok(region) = copied else {
            self.no_memory += 1;
            return None;
        };
        let len = len as u32;
        let mut batch = Batch::with_capacity(Arc::new(region), Arc::clone(&self.interfaces), 1);
        let meta =
            PacketMeta { offset: 0, cap_len: len, wire_len: len, ticks: nanos, interface: 0 };
        // The only one.
        let _ = batch.push(meta);
        Some(batch)
    }

    /// Looks why nothing comes: a driver that sleeps, or a device that is gone.
    fn look_after_device(&mut self) -> Result<Received, Error> {
        let needs_wakeup =
            self.fill.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).needs_wakeup();
        if needs_wakeup {
            match recv(&self.socket.fd, &mut [0_u8; 0][..], RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::BUSY | Errno::NETDOWN) => {}
                Err(Errno::NXIO) => return self.end(),
                Err(error) => return Err(self.socket.refused("wake its driver")(error).into()),
            }
        }
        let error = socket_error(&self.socket.fd).map_err(self.socket.refused("look after it"))?;
        match error {
            Ok(()) => Ok(Received::Idle),
            // Set only when the device was deleted.
            Err(Errno::NETDOWN) => self.end(),
            Err(error) => {
                self.ended = true;
                Err(self.socket.refused("receive from it")(error).into())
            }
        }
    }

    fn end(&mut self) -> Result<Received, Error> {
        self.ended = true;
        Err(self.socket.gone())
    }
}

impl Rx for XdpRx {
    fn receive(&mut self) -> Result<Received, Error> {
        loop {
            if self.first_packet().is_none() {
                self.receive.take(BATCH, &mut self.pieces);
            }
            let Some(pieces) = self.first_packet() else {
                return if self.ended { Ok(Received::End) } else { self.look_after_device() };
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let nanos = now.as_nanos() as u64;
            let batch = if pieces == 1 {
                Some(self.single_pieces(nanos))
            } else {
                self.several_pieces(pieces, nanos)
            };
            if let Some(batch) = batch {
                self.counters.packets += batch.len() as u64;
                self.counters.bytes += batch.wire_bytes();
                return Ok(Received::Batch(batch));
            }
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.fd.as_fd())
    }

    /// Losses: `ring_full`, of the receive ring. Where the kernel copies, `no_frame` when
    /// none was in the fill ring, and `too_long` for a frame; where the device writes the
    /// frames itself, `dropped` for anything else. `no_memory` for a packet in pieces.
    /// Before them the device counts, of all its users together, `device_errors` and
    /// `device_missed`; what it counts as dropped may hold our own losses again.
    fn counters(&mut self) -> Result<RxCounters, Error> {
        let action = "read its counters";
        let seen = xdp_statistics(&self.socket.fd).map_err(self.socket.refused(action))?;
        let mut losses = vec![("ring_full", seen.rx_ring_full.unwrap_or_default())];
        if self.socket.is_zero_copy {
            losses.push(("dropped", seen.rx_dropped));
        } else {
            let no_frame = seen.rx_fill_ring_empty_descs.unwrap_or_default().min(seen.rx_dropped);
            losses.push(("no_frame", no_frame));
            losses.push(("too_long", seen.rx_dropped - no_frame));
        }
        losses.push(("no_memory", self.no_memory));
        let link = self.links.numbered(self.socket.link.index);
        if let Some(link) = link.map_err(self.socket.refused(action))? {
            let losses = link.stats.rx_losses();
            self.before.iter_mut().zip(losses).for_each(|(counter, now)| counter.note(now));
        }
        let [errors, missed, _] =
            self.before.map(|counter| if self.counts_device { counter.grown() } else { 0 });
        Ok(RxCounters {
            losses,
            before: vec![("device_errors", errors), ("device_missed", missed)],
            ..self.counters.clone()
        })
    }
}
