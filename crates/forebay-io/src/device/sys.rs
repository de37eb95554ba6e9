//! `SIOCETHTOOL`, the only system call on devices without a safe wrapper.
#![allow(
    unsafe_code,
    reason = "an ioctl on a buffer whose size the kernel learns from its content"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Commands (linux/ethtool.h), each with the bytes that the kernel reads and writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// `ethtool_drvinfo`.
    DriverInfo,
    /// `ethtool_channels`.
    Channels,
    /// `ethtool_sset_info` with the size of one set.
    FeatureCount,
    /// `ethtool_gstrings` with so many names.
    FeatureNames(usize),
    /// `ethtool_gfeatures` with so many blocks of 32.
    GetFeatures(usize),
    /// `ethtool_sfeatures` with so many blocks of 32.
    SetFeatures(usize),
}

/// The string set of feature names.
pub(super) const FEATURES: u32 = 4;

/// Bytes of a name.
pub(super) const NAME: usize = 32;

impl Command {
    fn number(self) -> u32 {
        match self {
            Self::DriverInfo => 0x03,
            Self::Channels => 0x3c,
            Self::FeatureCount => 0x37,
            Self::FeatureNames(_) => 0x1b,
            Self::GetFeatures(_) => 0x3a,
            Self::SetFeatures(_) => 0x3b,
        }
    }

    /// Words of the buffer.
    fn words(self) -> usize {
        match self {
            Self::DriverInfo => 196 / 4,
            Self::Channels => 9,
            Self::FeatureCount => 5,
            Self::FeatureNames(names) => 3 + names * NAME / 4,
            Self::GetFeatures(blocks) => 2 + blocks * 4,
            Self::SetFeatures(blocks) => 2 + blocks * 2,
        }
    }

    /// Writes the sizes of the result to the buffer, as the command requires.
    fn prepare(self, buffer: &mut [u32]) {
        buffer[0] = self.number();
        match self {
            Self::DriverInfo | Self::Channels => {}
            // The mask of wanted sets has 64 bits, after a reserved word.
            Self::FeatureCount => buffer[2] = 1 << FEATURES,
            Self::FeatureNames(names) => {
                buffer[1] = FEATURES;
                buffer[2] = names as u32;
            }
            Self::GetFeatures(blocks) | Self::SetFeatures(blocks) => buffer[1] = blocks as u32,
        }
    }
}

/// `struct ifreq` as `SIOCETHTOOL` takes it.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u32,
    rest: [u8; 16],
}

/// Runs a command on `device` through any socket of its namespace. `fill` gets the buffer,
/// in words, after its first words were set; the result is in it afterwards.
pub(super) fn ethtool(
    socket: BorrowedFd<'_>,
    device: &str,
    command: Command,
    fill: impl FnOnce(&mut [u32]),
) -> io::Result<Vec<u32>> {
    let mut buffer = vec![0_u32; command.words()];
    fill(&mut buffer);
    command.prepare(&mut buffer);
    let mut request =
        Request { name: [0; libc::IFNAMSIZ], data: buffer.as_mut_ptr(), rest: [0; 16] };
    let name = request.name.get_mut(..device.len()).filter(|name| name.len() < libc::IFNAMSIZ);
    name.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(device.as_bytes());
    // SAFETY: `request` has the layout of an `ifreq`, its name ends in zeros, and its data
    // are as long as the kernel writes at most: of structures of fixed size the whole, of
    // the others what `prepare` said in them that there is room for. Names are the one
    // exception, which the kernel writes all: their number does not change while it runs,
    // and `FeatureNames` is made with the number it gave.
    let result =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(buffer) }
}
