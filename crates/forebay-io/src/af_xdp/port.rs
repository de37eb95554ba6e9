//! Opens a queue of a device: one socket, or several that share the queue's memory, its
//! fill ring and its completion ring.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::sockopt::xdp_options;
use rustix::net::xdp::{SocketAddrXdpFlags, XdpOptionsFlags};

use super::pool::{Pool, Sent};
use super::ring::{Bound, Frame, ReceiveRing, TransmitRing, Unbound};
use super::rx::XdpRx;
use super::socket::Socket;
use super::tx::XdpTx;
use crate::device::{DeviceError, Links};
use crate::error::Error;

/// The copy mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copying {
    /// Zero copy if the driver supports it, else copies by the kernel.
    Auto,
    /// Copies by the kernel.
    Copy,
    /// Zero copy; an error if the driver does not support it.
    ZeroCopy,
}

/// Options of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpOptions {
    /// Bytes of a frame, 2048 or 4096, of which 256 are reserved before a received packet.
    pub frame_len: u32,
    /// Receive frames of all sockets of the queue together, a power of two; 0 to not
    /// receive.
    pub rx_frames: u32,
    /// Send frames of each socket of the queue, a power of two; 0 to not send.
    pub tx_frames: u32,
    /// The copy mode.
    pub copying: Copying,
    /// Whether packets longer than a frame are received, in several frames. The redirecting
    /// program must support that.
    pub multi_buffer: bool,
    /// How long a batch waits for a free frame before its packets are dropped.
    pub patience: Duration,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self {
            frame_len: 2048,
            rx_frames: 4096,
            tx_frames: 2048,
            copying: Copying::Auto,
            multi_buffer: false,
            patience: Duration::from_millis(1),
        }
    }
}

/// A socket of a queue of a device.
pub struct XdpPort {
    /// The receiver, if there are receive frames.
    pub rx: Option<XdpRx>,
    /// The sender, if there are send frames.
    pub tx: Option<XdpTx>,
    /// Whether the socket uses zero copy.
    pub is_zero_copy: bool,
}

const MAKE: &str = "make an AF_XDP socket for it";

impl XdpPort {
    /// Opens queue `queue` of `device` with `workers` sockets, which share its frames.
    /// `enter` enters each socket, by its index, into the map through which the device's
    /// program redirects. Nothing is received before.
    ///
    /// # Errors
    /// If there is no such device, its packets are no Ethernet frames, the options are
    /// invalid, or a system call or `enter` fails.
    pub fn open(
        device: &str,
        queue: u32,
        workers: u32,
        options: &XdpOptions,
        mut enter: impl FnMut(u32, BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Vec<Self>, Error> {
        check(device, workers, options)?;
        let refused = || DeviceError::system::<io::Error>(device, MAKE);
        let link = Links::open(device)?.named(device)?.ethernet()?;
        let frames = options.rx_frames + options.tx_frames * workers;
        let mut first = Unbound::new(options.frame_len, frames).map_err(refused())?;
        let fill = first.fill_ring(options.rx_frames).map_err(refused())?;
        let fill = Arc::new(Mutex::new(fill));
        // Both rings must exist even if one is not used.
        let sent = (options.tx_frames * workers).max(1).next_power_of_two();
        let completion = first.completion_ring(sent).map_err(refused())?;
        let sent = Arc::new(Mutex::new(Sent::new(
            completion,
            options.rx_frames,
            options.tx_frames,
            workers,
        )));

        // Frames are assigned in the order of workers, as `Sent` expects.
        let mut rings = vec![OwnRings::make(&mut first, options).map_err(refused())?];
        let mut sockets = Vec::new();
        for _ in 1..workers {
            let mut socket = first.another(options.tx_frames).map_err(refused())?;
            rings.push(OwnRings::make(&mut socket, options).map_err(refused())?);
            sockets.push(socket);
        }
        let mut bound: Vec<Bound> = Vec::new();
        for socket in std::iter::once(first).chain(sockets) {
            let socket = socket
                .bind((link.index, queue), flags(options), bound.first())
                .map_err(DeviceError::system(device, "bind an AF_XDP socket to its queue"))?;
            bound.push(socket);
        }
        let how = xdp_options(&bound[0]).map_err(DeviceError::system(device, MAKE))?;
        let is_zero_copy = how.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        let mut ports = Vec::new();
        for (worker, (fd, rings)) in bound.into_iter().zip(rings).enumerate() {
            enter(worker as u32, fd.as_fd())
                .map_err(DeviceError::system(device, "enter a socket into its program's map"))?;
            let (device, link) = (device.to_owned(), link.clone());
            let socket = Arc::new(Socket { device, link, fd, is_zero_copy });
            let rx = match rings.receive {
                Some(receive) => Some(XdpRx::new(&socket, receive, &fill, worker == 0)?),
                None => None,
            };
            let tx = match rings.transmit {
                Some((transmit, free)) => {
                    let pool = Pool::new(&sent, worker, free);
                    let window = window(&socket, workers);
                    Some(XdpTx::new(&socket, transmit, pool, window, options.patience)?)
                }
                None => None,
            };
            ports.push(Self { rx, tx, is_zero_copy });
        }
        Ok(ports)
    }
}

fn check(device: &str, workers: u32, options: &XdpOptions) -> Result<(), DeviceError> {
    let XdpOptions { frame_len, rx_frames, tx_frames, .. } = *options;
    if !matches!(frame_len, 2048 | 4096) {
        let what = format!("frames of {frame_len} bytes; expected 2048 or 4096");
        return Err(DeviceError::options(device, what));
    }
    /// The kernel's limit for rings.
    const MOST: u32 = 1 << 19;
    for frames in [rx_frames, tx_frames] {
        if frames != 0 && (!frames.is_power_of_two() || frames > MOST) {
            let what = format!("{frames} frames; expected a power of two up to {MOST}, or 0");
            return Err(DeviceError::options(device, what));
        }
    }
    if rx_frames == 0 && tx_frames == 0 {
        return Err(DeviceError::options(device, "no frames to receive or to send with"));
    }
    /// More than any machine has processors.
    const MOST_WORKERS: u32 = 1024;
    let total = u64::from(rx_frames) + u64::from(tx_frames) * u64::from(workers);
    if workers == 0 || workers > MOST_WORKERS || total * u64::from(frame_len) > u64::from(u32::MAX)
    {
        let what = format!(
            "{workers} workers with {total} frames; expected 1 to {MOST_WORKERS}, and 4 GiB of frames at the most"
        );
        return Err(DeviceError::options(device, what));
    }
    Ok(())
}

/// Packets that the ring at the other end of a veth device holds (`VETH_RING_SIZE` in the
/// kernel's drivers/net/veth.c).
const VETH_RING: u64 = 256;

/// The most packets that each of `senders` senders may have in flight.
///
/// With copies by the kernel, a frame returns when the receiver of the packet has freed it.
/// A veth device drops packets that do not fit into the other end's ring, and reports it
/// only afterwards; a sender with no more packets in flight than the ring holds avoids
/// that.
fn window(socket: &Socket, senders: u32) -> u64 {
    let is_veth = socket.link.kind.as_deref() == Some("veth");
    if is_veth && !socket.is_zero_copy { (VETH_RING / u64::from(senders)).max(1) } else { u64::MAX }
}

/// The rings that each socket has for itself.
struct OwnRings {
    receive: Option<ReceiveRing>,
    transmit: Option<(TransmitRing, Vec<Frame>)>,
}

impl OwnRings {
    fn make(socket: &mut Unbound, options: &XdpOptions) -> io::Result<Self> {
        let (rx, tx) = (options.rx_frames, options.tx_frames);
        Ok(Self {
            receive: if rx > 0 { Some(socket.receive_ring(rx)?) } else { None },
            transmit: if tx > 0 { Some(socket.transmit_ring(tx)?) } else { None },
        })
    }
}

/// The bind flags of the first socket; the others share its settings.
fn flags(options: &XdpOptions) -> SocketAddrXdpFlags {
    let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    match options.copying {
        Copying::Auto => {}
        Copying::Copy => flags |= SocketAddrXdpFlags::XDP_COPY,
        Copying::ZeroCopy => flags |= SocketAddrXdpFlags::XDP_ZEROCOPY,
    }
    if options.multi_buffer {
        flags |= SocketAddrXdpFlags::XDP_USE_SG;
    }
    flags
}
