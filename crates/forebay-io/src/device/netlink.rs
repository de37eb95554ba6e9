//! The messages of rtnetlink that links need (rtnetlink(7), netlink(7)). Requests are built
//! byte by byte; replies are parsed by slicing, never beyond the received bytes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with,
};

/// Message types (linux/rtnetlink.h, linux/netlink.h).
pub(super) const RTM_NEWLINK: u16 = 16;
pub(super) const RTM_DELLINK: u16 = 17;
pub(super) const RTM_GETLINK: u16 = 18;
pub(super) const RTM_GETNSID: u16 = 90;
const NLMSG_ERROR: u16 = 2;

const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

/// The multicast group of changes to links, as a bit.
pub(super) const RTMGRP_LINK: u32 = 1;

/// Bytes of a message header, and of the `ifinfomsg` that begins a link message.
const HEADER: usize = 16;
pub(super) const IFINFO: usize = 16;

/// More than a link message takes, which the kernel limits to a page or two.
const RECEIVE: usize = 64 << 10;

/// A socket to the kernel's routing tables.
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A message: its type and the bytes after the header.
pub(super) type Message<'a> = (u16, &'a [u8]);

impl Netlink {
    /// A socket that also receives messages to `groups`.
    pub(super) fn open(groups: u32) -> io::Result<Self> {
        // Protocol 0 is routing.
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; RECEIVE] })
    }

    /// Becomes readable when there is a message.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a request and returns the first message of the reply; `None` if the reply is
    /// only an acknowledgement.
    pub(super) fn ask(&mut self, kind: u16, body: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.sequence += 1;
        let is_question = matches!(kind, RTM_GETLINK | RTM_GETNSID);
        let flags = if is_question { NLM_F_REQUEST } else { NLM_F_REQUEST | NLM_F_ACK };
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend(flags.to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        request.extend(body);
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        loop {
            let (received, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            for (sequence, (kind, body)) in messages(&self.buffer[..received]) {
                if sequence != self.sequence {
                    continue;
                }
                if kind != NLMSG_ERROR {
                    return Ok(Some(body.to_vec()));
                }
                return match i32_at(body, 0) {
                    Some(0) => Ok(None),
                    Some(error) => Err(io::Error::from_raw_os_error(-error)),
                    None => Err(io::ErrorKind::InvalidData.into()),
                };
            }
        }
    }

    /// Calls `each` for every pending message, without waiting. Returns false if the kernel
    /// had to drop some.
    pub(super) fn drain(&mut self, mut each: impl FnMut(Message<'_>)) -> io::Result<bool> {
        let mut whole = true;
        loop {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((received, _)) => {
                    for (_, message) in messages(&self.buffer[..received]) {
                        each(message);
                    }
                }
                Err(Errno::AGAIN) => return Ok(whole),
                Err(Errno::NOBUFS) => whole = false,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The messages of a datagram with their sequence numbers.
fn messages(datagram: &[u8]) -> impl Iterator<Item = (u32, Message<'_>)> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let len = u32_at(rest, 0)? as usize;
        let kind = u16_at(rest, 4)?;
        let sequence = u32_at(rest, 8)?;
        let body = rest.get(HEADER..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((sequence, (kind, body)))
    })
}

/// The attributes of a message, after its fixed header: type and value.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// The two upper bits of the type are flags for nesting and byte order.
    const TYPE: u16 = 0x3fff;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & TYPE;
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Adds an attribute to a request.
pub(super) fn push_attribute(request: &mut Vec<u8>, kind: u16, value: &[u8]) {
    request.extend(((4 + value.len()) as u16).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(value);
    request.resize(request.len().next_multiple_of(4), 0);
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    u32_at(bytes, at).map(u32::cast_signed)
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let mut bytes = Vec::new();
        push_attribute(&mut bytes, 3, b"lo\0");
        push_attribute(&mut bytes, 0x8004, &7_u32.to_ne_bytes());
        assert_eq!(bytes.len() % 4, 0);
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read, [(3, &b"lo\0"[..]), (4, &7_u32.to_ne_bytes()[..])]);
    }

    #[test]
    fn damaged_messages_end_the_reading() {
        for len in [0_u16, 3, 200] {
            let mut bytes = len.to_ne_bytes().to_vec();
            bytes.extend([1, 0, 9, 9]);
            assert_eq!(attributes(&bytes).count(), 0, "{len}");
        }
        let mut datagram = 17_u32.to_ne_bytes().to_vec();
        datagram.resize(16, 0);
        assert_eq!(messages(&datagram).count(), 0, "longer than what came");
        datagram[0] = 15;
        assert_eq!(messages(&datagram).count(), 0, "shorter than a header");
    }
}
