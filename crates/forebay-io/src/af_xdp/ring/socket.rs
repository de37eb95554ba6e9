//! Sockets: unbound, while their rings are created, and bound to a queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::xdp::{SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};

use super::rings::{CompletionRing, FillRing, ReceiveRing, TransmitRing};
use super::umem::{Frame, Frames, Umem};

/// An unbound socket. Its rings are created in this state.
pub(crate) struct Unbound {
    fd: OwnedFd,
    umem: Arc<Umem>,
    /// Frames of the memory without a ring.
    left: Frames,
}

/// A socket bound to a queue, with the memory of its packets.
pub(crate) struct Bound {
    fd: OwnedFd,
    umem: Arc<Umem>,
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Bound {
    /// The memory.
    pub(crate) fn umem(&self) -> &Arc<Umem> {
        &self.umem
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?)
}

impl Unbound {
    /// A socket with memory for `frames` frames, each a power of two of bytes.
    pub(crate) fn new(frame_len: u32, frames: u32) -> io::Result<Self> {
        let (fd, umem) = (new_socket()?, Umem::new(frame_len, frames)?);
        umem.register(fd.as_fd())?;
        Ok(Self { fd, left: umem.frames, umem: Arc::new(umem) })
    }

    /// Another socket for the same memory, whose rings get `frames` of the remaining ones.
    pub(crate) fn another(&mut self, frames: u32) -> io::Result<Self> {
        Ok(Self { fd: new_socket()?, umem: Arc::clone(&self.umem), left: self.give(frames)? })
    }

    /// The next of the remaining frames.
    fn give(&mut self, count: u32) -> io::Result<Frames> {
        let left = self.left.count.checked_sub(count).ok_or(io::ErrorKind::InvalidInput)?;
        let given = Frames { count, ..self.left };
        self.left = Frames { first: given.first + u64::from(count), count: left };
        Ok(given)
    }

    /// Its fill ring, with `frames` of the remaining frames, a power of two or 0.
    pub(crate) fn fill_ring(&mut self, frames: u32) -> io::Result<FillRing> {
        let own = self.give(frames)?;
        FillRing::new(self.fd.as_fd(), &self.umem, own)
    }

    /// Its completion ring, of `size` entries, a power of two.
    pub(crate) fn completion_ring(&self, size: u32) -> io::Result<CompletionRing> {
        CompletionRing::new(self.fd.as_fd(), &self.umem, size)
    }

    /// Its receive ring, of `size` entries, a power of two.
    pub(crate) fn receive_ring(&self, size: u32) -> io::Result<ReceiveRing> {
        ReceiveRing::new(self.fd.as_fd(), &self.umem, size)
    }

    /// Its transmit ring, and `frames` of the remaining frames, a power of two.
    pub(crate) fn transmit_ring(&mut self, frames: u32) -> io::Result<(TransmitRing, Vec<Frame>)> {
        let own = self.give(frames)?;
        let ring = TransmitRing::new(self.fd.as_fd(), &self.umem, own)?;
        Ok((ring, own.all().collect()))
    }

    /// Binds it to a queue of a device: sharing `first`, which must have the same memory,
    /// or else with `flags`.
    pub(crate) fn bind(
        self,
        (device, queue): (u32, u32),
        flags: SocketAddrXdpFlags,
        first: Option<&Bound>,
    ) -> io::Result<Bound> {
        let Self { fd, umem, .. } = self;
        if let Some(first) = first {
            if !Arc::ptr_eq(&first.umem, &umem) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, device, queue);
            let shared_umem_fd = first.fd.as_fd();
            bind(&fd, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd })?;
        } else {
            bind(&fd, &SocketAddrXdp::new(flags, device, queue))?;
        }
        Ok(Bound { fd, umem })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn panics<T>(what: impl FnOnce() -> T) -> bool {
        catch_unwind(AssertUnwindSafe(|| drop(what()))).is_err()
    }

    #[test]
    fn a_ring_has_a_place_for_each_frame_that_it_takes() {
        let mut socket = Unbound::new(2048, 8).unwrap();
        assert!(socket.fill_ring(3).is_err(), "no power of two");
        let mut socket_of_8 = Unbound::new(2048, 8).unwrap();
        let mut fill = socket_of_8.fill_ring(4).unwrap();
        let (mut transmit, mut free) = socket_of_8.transmit_ring(4).unwrap();
        assert!(panics(|| fill.put(free.pop().into_iter())));
        for frame in free.drain(..) {
            transmit.put(frame, 60);
        }
        transmit.publish();
        assert_eq!(transmit.waiting(), 3);
        let mut other = Unbound::new(2048, 4).unwrap();
        let (_, foreign) = other.transmit_ring(4).unwrap();
        for frame in foreign {
            assert!(panics(|| transmit.put(frame, 60)));
        }
        transmit.publish();
        assert_eq!(transmit.waiting(), 3);
    }

    #[test]
    fn a_socket_has_one_ring_of_a_kind_and_frames_as_long_as_there_are_any() {
        let mut socket = Unbound::new(2048, 4).unwrap();
        socket.fill_ring(2).unwrap();
        assert!(socket.fill_ring(2).is_err());
        assert!(socket.another(4).is_err());
        socket.receive_ring(64).unwrap();
        assert!(socket.receive_ring(64).is_err());
        socket.completion_ring(64).unwrap();
        assert!(socket.completion_ring(64).is_err());
    }
}
