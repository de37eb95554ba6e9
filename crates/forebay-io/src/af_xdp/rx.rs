//! Receives from a queue.
//!
//! Most batches refer to the frames of their packets. A packet in several fragments is
//! copied to its own memory: each such packet is a batch of its own, so that the order is
//! kept.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_packet::{BATCH, Batch, Clock, Interface, PacketMeta, Region};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_error, xdp_statistics};
use rustix::net::{RecvFlags, recv};

use super::ring::{FillRing, Leased, Piece, ReceiveRing};
use super::socket::Socket;
use crate::device::{DeviceError, Links, RxLosses};
use crate::error::Error;
use crate::port::{Received, Rx, RxCounters};

/// Receives packets from a queue of a device.
pub struct XdpRx {
    socket: Arc<Socket>,
    receive: ReceiveRing,
    fill: Arc<Mutex<FillRing>>,
    interfaces: Arc<Vec<Interface>>,
    /// Fragments not yet in a batch.
    pieces: VecDeque<Piece>,
    counters: RxCounters,
    no_memory: u64,
    /// For reading the device's losses; one socket of the device counts them.
    links: Option<Links>,
    /// The device's losses since the socket was opened, as of the last reading.
    before: RxLosses,
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
            links: counts_device.then(|| Links::open(&socket.device)).transpose()?,
            before: RxLosses::from(&socket.link.stats),
            ended: false,
        })
    }

    /// The number of fragments of the first packet, if it is complete.
    fn first_packet(&self) -> Option<usize> {
        self.pieces.iter().position(|piece| !piece.continued).map(|last| last + 1)
    }

    /// A batch of packets of one fragment each, in their frames.
    fn single_pieces(&mut self, nanos: u64) -> Batch {
        let whole = self.pieces.iter().take_while(|piece| !piece.continued);
        let count = whole.take(BATCH).count();
        let lease = Arc::new(self.lease(count));
        let packets = lease.places().map(|(offset, len)| PacketMeta {
            offset,
            cap_len: len,
            wire_len: len,
            ticks: nanos,
            interface: 0,
        });
        Batch::leased(Arc::clone(&lease), Arc::clone(&self.interfaces), packets)
    }

    /// A lease of the next fragments, whose frames then return to the kernel.
    fn lease(&mut self, pieces: usize) -> Leased {
        let pieces = self.pieces.drain(..pieces).collect();
        Leased::new(Arc::clone(self.socket.fd.umem()), Arc::clone(&self.fill), pieces)
    }

    /// A batch of one packet of several fragments, copied together. `None`, and the packet
    /// is lost, if there is no memory.
    fn several_pieces(&mut self, pieces: usize, nanos: u64) -> Option<Batch> {
        let mut lease = self.lease(pieces);
        let len: usize = lease.places().map(|(_, len)| len as usize).sum();
        let copied = Region::new(len).map(|mut region| {
            let mut at = 0;
            for part in lease.contents() {
                region.bytes_mut()[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
            region
        });
        drop(lease);
        let Ok(region) = copied else {
            self.no_memory += 1;
            return None;
        };
        let len = len as u32;
        let mut batch = Batch::with_capacity(Arc::new(region), Arc::clone(&self.interfaces), 1);
        let meta =
            PacketMeta { offset: 0, cap_len: len, wire_len: len, ticks: nanos, interface: 0 };
        // The first packet of a batch always fits.
        let _ = batch.push(meta);
        Some(batch)
    }

    /// Checks why no packets arrive: a driver to be woken, or a device that is gone.
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
            // Set only if the device was deleted.
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

    /// Losses: `ring_full`, of the receive ring. With copies by the kernel, `no_frame` if
    /// the fill ring was empty, and `too_long` for a frame; with zero copy, `dropped` for
    /// anything else. `no_memory` for a packet in fragments. Before them the device counts,
    /// for all its users together, `device_errors` and `device_missed`; the frames that it
    /// counts as dropped may include our own losses.
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
        if let Some(links) = &mut self.links {
            let link = links.numbered(self.socket.link.index);
            let link = link.map_err(self.socket.refused(action))?;
            link.iter().for_each(|link| self.before.note(&link.stats));
        }
        Ok(RxCounters { losses, before: self.before.of_device(), ..self.counters.clone() })
    }
}
