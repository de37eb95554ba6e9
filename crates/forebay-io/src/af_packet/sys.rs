//! System calls on packet sockets: options with kernel structures as values, and addresses
//! of the packet family.
#![allow(unsafe_code, reason = "system calls that take structures by address and size")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `PACKET_FANOUT` with a BPF program, excluding packets sent by this host
/// (linux/if_packet.h).
const FANOUT: u32 = 7 | 0x4000;

/// For the first member of a group: the kernel chooses a free number.
const FANOUT_UNIQUE: u32 = 0x2000;

/// A new packet socket that receives nothing until it is bound.
pub(super) fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn set<T>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes from a value of that size.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn get<const N: usize>(fd: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<[u32; N]> {
    let mut value = [0_u32; N];
    let mut len = size_of::<[u32; N]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to words of that size in all.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// The layout of the socket's rings.
#[derive(Clone, Copy, Debug)]
pub(super) enum Version {
    V2 = 1,
    V3 = 2,
}

/// Sets the layout.
pub(super) fn set_version(fd: BorrowedFd<'_>, version: Version) -> io::Result<()> {
    set(fd, libc::SOL_PACKET, libc::PACKET_VERSION, &(version as i32))
}

/// Options with a numeric value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// Bytes reserved before each received packet.
    Reserve,
    /// Whether a `virtio_net_hdr` precedes each packet.
    OffloadHeader,
    /// Whether packets sent by this host are excluded.
    IgnoreOutgoing,
    /// Whether packets go to the driver without queueing.
    QdiscBypass,
}

/// Sets an option.
pub(super) fn set_number(fd: BorrowedFd<'_>, option: Number, value: i32) -> io::Result<()> {
    let name = match option {
        Number::Reserve => libc::PACKET_RESERVE,
        Number::OffloadHeader => libc::PACKET_VNET_HDR,
        Number::IgnoreOutgoing => libc::PACKET_IGNORE_OUTGOING,
        Number::QdiscBypass => libc::PACKET_QDISC_BYPASS,
    };
    set(fd, libc::SOL_PACKET, name, &value)
}

/// Creates a receive ring of blocks, which the kernel hands over when they are full or
/// `retire_ms` milliseconds old.
pub(super) fn set_block_ring(
    fd: BorrowedFd<'_>,
    block_len: u32,
    blocks: u32,
    retire_ms: u32,
) -> io::Result<()> {
    // Not used by this layout, but checked by the kernel.
    const FRAME: u32 = 2048;
    // In the order of `tpacket_req3`.
    let frames = block_len / FRAME * blocks;
    let request = [block_len, blocks, FRAME, frames, retire_ms, 0, 0];
    set(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
}

/// Creates a transmit ring.
pub(super) fn set_slot_ring(
    fd: BorrowedFd<'_>,
    block_len: u32,
    blocks: u32,
    slot_len: u32,
) -> io::Result<()> {
    // In the order of `tpacket_req`.
    let request = [block_len, blocks, slot_len, block_len / slot_len * blocks];
    set(fd, libc::SOL_PACKET, libc::PACKET_TX_RING, &request)
}

/// Allows this many bytes in flight, beyond the system's limit if privileged.
pub(super) fn set_send_buffer(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
        .or_else(|_| set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes))
}

/// Binds to a device, for packets of all protocols or none.
pub(super) fn bind(fd: BorrowedFd<'_>, index: u32, receive: bool) -> io::Result<()> {
    bind_for(fd, index, if receive { libc::ETH_P_ALL as u16 } else { 0 })
}

/// Binds to a device, for packets of one EtherType.
pub(super) fn bind_for(fd: BorrowedFd<'_>, index: u32, protocol: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: an address of the socket's family, with its size.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whether the device that the socket was bound to still exists.
pub(super) fn is_bound(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut address = libc::sockaddr_ll {
        sll_family: 0,
        sll_protocol: 0,
        sll_ifindex: 0,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to an address of that size.
    let result =
        unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(address.sll_ifindex > 0) }
}

/// Makes the device receive all frames, for the life of the socket.
pub(crate) fn join_promiscuous(fd: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    join(fd, index, libc::PACKET_MR_PROMISC, None)
}

/// Makes the device receive frames for one more address, for the life of the socket.
pub(super) fn join_address(fd: BorrowedFd<'_>, index: u32, address: [u8; 6]) -> io::Result<()> {
    join(fd, index, libc::PACKET_MR_UNICAST, Some(address))
}

fn join(fd: BorrowedFd<'_>, index: u32, kind: i32, address: Option<[u8; 6]>) -> io::Result<()> {
    let mut request = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: kind as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    if let Some(address) = address {
        request.mr_alen = 6;
        request.mr_address[..6].copy_from_slice(&address);
    }
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Creates a group of receivers with the socket as its first member, and returns the
/// group's number.
pub(super) fn make_group(fd: BorrowedFd<'_>) -> io::Result<u16> {
    set(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &((FANOUT | FANOUT_UNIQUE) << 16))?;
    let [group] = get(fd, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
    Ok(group as u16)
}

/// Adds the socket to a group as its next member.
pub(super) fn join_group(fd: BorrowedFd<'_>, group: u16) -> io::Result<()> {
    set(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, &(FANOUT << 16 | u32::from(group)))
}

/// Sets the BPF program of the socket's group, a socket filter.
pub(super) fn set_group_program(fd: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &program.as_raw_fd())
}

/// An instruction of a socket's filter, in classic BPF: code, jumps, constant.
pub(super) type Instruction = (u16, u8, u8, u32);

/// Makes the socket discard all packets, without counting them, until [`admit`].
pub(super) fn refuse(fd: BorrowedFd<'_>) -> io::Result<()> {
    const RETURN: u16 = 6;
    filter(fd, &[(RETURN, 0, 0, 0)])
}

/// Sets the socket's filter.
pub(super) fn filter(fd: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let mut code: Vec<libc::sock_filter> =
        program.iter().map(|&(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k }).collect();
    let len = u16::try_from(code.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: code.as_mut_ptr() };
    // The kernel copies the program.
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Sets the receive buffer to the system's minimum.
pub(super) fn set_least_receive_buffer(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &0)
}

/// Ends the effect of [`refuse`].
pub(super) fn admit(fd: BorrowedFd<'_>) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// Counters of a receiving socket since the last reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statistics {
    /// Packets accepted by its filter, including those that found no room.
    pub packets: u32,
    /// Packets that found no room.
    pub drops: u32,
    /// Times that the ring was full.
    pub freezes: u32,
}

/// Reads and resets the counters.
pub(super) fn statistics(fd: BorrowedFd<'_>) -> io::Result<Statistics> {
    let [packets, drops, freezes] = get(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
    Ok(Statistics { packets, drops, freezes })
}

/// Returns and clears the socket's pending error; 0 for none.
pub(super) fn take_error(fd: BorrowedFd<'_>) -> io::Result<i32> {
    let [error] = get(fd, libc::SOL_SOCKET, libc::SO_ERROR)?;
    Ok(error.cast_signed())
}
