//! Messages over a Unix socket (`SOCK_SEQPACKET`): the handshake with its files, and wake-ups.
//!
//! Nothing here blocks: sending and receiving have `MSG_DONTWAIT`, which the other side cannot take
//! away as it could `O_NONBLOCK`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};

use super::protocol::{Message, REGIONS};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// The most wake-ups that are taken at a time.
const WAKE_UPS: usize = 64;

/// A connected socket.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

/// A message and its files.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) bytes: Message,
    pub(super) len: usize,
    pub(super) files: Vec<OwnedFd>,
}

fn unconnected() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Listens at a path.
pub(super) fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let socket = unconnected()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The next connection; none if none waits.
pub(super) fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<Socket>> {
    match accept_with(listener, SocketFlags::CLOEXEC) {
        Ok(socket) => Ok(Some(Socket(socket))),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until `file` can be read, at most for `limit`.
pub(super) fn wait(file: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    let limit = Timespec::try_from(limit).ok();
    let mut files = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    match poll(&mut files, limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Socket {
    /// Connects to a path. An error if that is not possible at once.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let socket = unconnected()?;
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Self(socket))
    }

    /// Sends a message with files.
    pub(super) fn send(&self, bytes: &Message, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::Error::other("too many files for a message"));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Receives a message; none if there is none yet.
    pub(super) fn receive(&self) -> io::Result<Option<Received>> {
        let mut bytes = [0; size_of::<Message>()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let len = match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(received) if received.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                files.extend(received);
            }
        }
        Ok(Some(Received { bytes, len, files }))
    }

    /// Wakes the other side. It is awake if its queue is full.
    pub(super) fn wake(&self) -> io::Result<()> {
        match self.send_wake_up() {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn send_wake_up(&self) -> rustix::io::Result<()> {
        rustix::net::send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop)
    }

    /// Takes wake-ups that have arrived. An error if the other side is gone.
    pub(super) fn take_wake_ups(&self) -> io::Result<()> {
        for _ in 0..WAKE_UPS {
            if self.receive()?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Waits until a message has arrived or the other side is gone, at most for `limit`.
    pub(super) fn wait(&self, limit: Duration) -> io::Result<()> {
        wait(self.0.as_fd(), limit)
    }
}
