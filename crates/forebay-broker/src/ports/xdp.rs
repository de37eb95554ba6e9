//! Devices by AF_XDP sockets: a socket a queue and worker, and the program that shares
//! packets out among them.
//!
//! The program is attached by a link that only this process holds, so that it is detached
//! when the process ends, however it ends.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use forebay_bpf::link::{XdpLink, XdpMode};
use forebay_bpf::map::SocketMap;
use forebay_bpf::programs::redirect::{self, NoSocket};
use forebay_io::af_xdp::{Copying, XdpOptions, XdpPort};
use forebay_io::device::{Finding, Link, Remedy, receive_queues};
use forebay_io::redirect::RedirectTx;
use forebay_io::{Rx, Tx};
use forebay_packet::HashKey;

use super::error::{PortError, io_error};
use crate::config::{Port, Sending};

/// Bytes of a frame: an Ethernet frame, and what comes before it where it is received.
const FRAME: usize = 2048;
const BEFORE: usize = 256;

/// Bytes of the longest frame that there can be, for packets that are sent.
const LONG_FRAME: usize = 4096;

/// What a packet has besides its MTU: an Ethernet header and two VLAN tags.
const HEADERS: usize = 14 + 2 * 4;

/// Frames of a queue at the least and at the most.
const FRAMES: std::ops::RangeInclusive<usize> = 64..=1 << 18;

/// Receivers by worker, for each of the device's queues, and the program's place.
pub struct Receivers {
    pub by_worker: Vec<Vec<Box<dyn Rx>>>,
    pub link: XdpLink,
}

/// Frames that fit into a ring of so many bytes: a power of two.
pub fn frames(bytes: usize) -> u32 {
    let frames = (bytes / FRAME).clamp(*FRAMES.start(), *FRAMES.end());
    1 << frames.ilog2()
}

/// Whether packets of a device with that MTU may be received in several frames. That takes
/// Linux 6.6.
pub fn takes_several_frames(mtu: u32) -> bool {
    mtu as usize + HEADERS > FRAME - BEFORE
}

/// Receives all packets of a device from now on.
pub fn receive(
    port: &Port,
    link: &Link,
    queues: u32,
    workers: usize,
    hash_key: &HashKey,
) -> Result<Receivers, PortError> {
    let failed = |source| PortError::Program { name: port.name.clone(), source };
    let device = link.name.as_str();
    has_all_queues(port, device, queues)?;
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    let sockets =
        SocketMap::create("forebay_sockets", queues.saturating_mul(workers)).map_err(failed)?;
    let multi_buffer = takes_several_frames(link.mtu);
    let wanted = Sockets {
        device,
        queues,
        workers,
        frames: frames(port.ring),
        multi_buffer,
        copying: Copying::Auto,
    };
    let enter = |slot, socket: BorrowedFd<'_>| sockets.set(slot, &socket).map_err(io::Error::other);
    let by_worker = open_sockets(port, &wanted, enter)?;
    // Frames of a queue that no socket is bound to are lost if they are not passed on, and
    // only the device would count them.
    let program = redirect::load(&sockets, workers, hash_key, NoSocket::Drop, multi_buffer);
    let program = program.map_err(failed)?;
    let link = XdpLink::attach(&program, link.index, XdpMode::Any).map_err(failed)?;
    Ok(Receivers { by_worker, link })
}

/// Whether the queues of an input are all that its device receives by.
pub fn has_all_queues(port: &Port, device: &str, queues: u32) -> Result<(), PortError> {
    let have = receive_queues(device).unwrap_or(queues);
    if have <= queues {
        return Ok(());
    }
    let what = format!(
        "`queues` is {queues}, but {device} receives by {have}: expected `queues = {have}`, or \
         `ethtool -L {device} combined {queues}`"
    );
    Err(PortError::Cannot { side: "input", name: port.name.clone(), what })
}

/// Sockets that receive from a device.
pub struct Sockets<'a> {
    /// The device.
    pub device: &'a str,
    /// Its queues, from the first.
    pub queues: u32,
    /// Sockets to a queue.
    pub workers: u32,
    /// Frames of a queue, a power of two.
    pub frames: u32,
    /// Whether packets may be longer than a frame.
    pub multi_buffer: bool,
    /// Who moves packets into frames.
    pub copying: Copying,
}

/// Opens sockets and has `enter` enter each into a map, at slot queue × workers + worker.
/// Gives receivers by worker, for each queue.
pub fn open_sockets(
    port: &Port,
    sockets: &Sockets<'_>,
    mut enter: impl FnMut(u32, BorrowedFd<'_>) -> io::Result<()>,
) -> Result<Vec<Vec<Box<dyn Rx>>>, PortError> {
    let &Sockets { device, queues, workers, frames, multi_buffer, copying } = sockets;
    let options = XdpOptions {
        rx_frames: frames,
        tx_frames: 0,
        multi_buffer,
        copying,
        ..XdpOptions::default()
    };
    let mut by_worker: Vec<Vec<Box<dyn Rx>>> = Vec::new();
    by_worker.resize_with(workers as usize, Vec::new);
    for queue in 0..queues {
        let opened = XdpPort::open(device, queue, workers, &options, |worker, socket| {
            enter(queue * workers + worker, socket)
        });
        let opened = opened.map_err(io_error("input", port))?;
        for (all, socket) in by_worker.iter_mut().zip(opened) {
            if let Some(rx) = socket.rx {
                all.push(Box::new(rx));
            }
        }
    }
    Ok(by_worker)
}

/// A sender for each worker, and notices about them.
type Senders = (Vec<Box<dyn Tx>>, Option<Finding>);

/// Opens a sender for each worker, for packets of that MTU: sockets, all on the device's
/// first queue, or senders of redirected frames.
pub fn send(
    port: &Port,
    device: &str,
    mtu: u32,
    how: Sending,
    workers: usize,
) -> Result<Senders, PortError> {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    let failed = io_error("output", port);
    if how == Sending::Frames {
        let senders = RedirectTx::open(device, workers).map_err(failed)?.into_iter();
        return Ok((senders.map(|tx| -> Box<dyn Tx> { Box::new(tx) }).collect(), None));
    }
    let frame_len = if mtu as usize + HEADERS > FRAME { LONG_FRAME } else { FRAME };
    let options = XdpOptions {
        frame_len: frame_len as u32,
        rx_frames: 0,
        tx_frames: frames(port.ring * FRAME / frame_len / workers.max(1) as usize),
        patience: port.wait.max(Duration::from_micros(1)),
        ..XdpOptions::default()
    };
    let opened = XdpPort::open(device, 0, workers, &options, |_, _| Ok(())).map_err(failed)?;
    let senders = opened.into_iter().filter_map(|socket| socket.tx);
    let senders = senders.map(|tx| -> Box<dyn Tx> { Box::new(tx) }).collect();
    Ok((senders, long_frames(device, mtu)))
}

/// Says that packets of that MTU are too long for a ring, where they are.
pub fn long_frames(device: &str, mtu: u32) -> Option<Finding> {
    (mtu as usize + HEADERS > LONG_FRAME).then(|| Finding {
        device: device.to_owned(),
        check: "long-frames",
        what: "packets longer than 4096 bytes are lost (`too_long`): an output of type af_packet \
               sends them"
            .to_owned(),
        remedy: Remedy::Noted,
    })
}
