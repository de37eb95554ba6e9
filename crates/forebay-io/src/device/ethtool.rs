//! Properties of a driver: its name, queues and offloads, named as in the kernel (`ethtool
//! -k` shows older names for a few).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::sys::{Command, NAME, ethtool};

/// Queries of one device.
pub(super) struct Ethtool {
    socket: OwnedFd,
    device: String,
    names: Vec<String>,
}

/// The state of an offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feature {
    /// Whether it is on.
    pub on: bool,
    /// Whether it can be switched.
    pub changeable: bool,
}

impl Ethtool {
    /// Also reads the names of offloads. The device is looked up in this thread's present
    /// namespace, and stays that device if the thread enters another.
    pub(super) fn open(device: &str) -> io::Result<Self> {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let mut this = Self { socket, device: device.to_owned(), names: Vec::new() };
        let count = this.run(Command::FeatureCount, |_| ())?[4] as usize;
        let words = this.run(Command::FeatureNames(count), |_| ())?;
        let bytes: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        this.names = bytes.chunks_exact(NAME).map(text).collect();
        Ok(this)
    }

    fn run(&self, command: Command, fill: impl FnOnce(&mut [u32])) -> io::Result<Vec<u32>> {
        ethtool(self.socket.as_fd(), &self.device, command, fill)
    }

    /// The driver's name.
    pub(super) fn driver(&self) -> io::Result<String> {
        let words = self.run(Command::DriverInfo, |_| ())?;
        let name: Vec<u8> = words[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(text(&name))
    }

    /// Receive queues in use, if the driver reports them.
    pub(super) fn receive_queues(&self) -> io::Result<u32> {
        let words = self.run(Command::Channels, |_| ())?;
        Ok(words[5] + words[8])
    }

    /// Blocks of 32 that hold all offloads.
    fn blocks(&self) -> usize {
        self.names.len().div_ceil(32)
    }

    /// The offload `name`, unless this kernel has none with that name.
    pub(super) fn feature(&self, name: &str) -> io::Result<Option<Feature>> {
        let Some(bit) = self.names.iter().position(|known| known == name) else { return Ok(None) };
        let words = self.run(Command::GetFeatures(self.blocks()), |_| ())?;
        let block = &words[2 + bit / 32 * 4..][..4];
        let is_set = |word: u32| word >> (bit % 32) & 1 == 1;
        let changeable = is_set(block[0]) && !is_set(block[3]);
        Ok(Some(Feature { on: is_set(block[2]), changeable }))
    }

    /// Switches an offload; returns whether it then has the wanted state.
    pub(super) fn set(&self, name: &str, on: bool) -> io::Result<bool> {
        let Some(bit) = self.names.iter().position(|known| known == name) else {
            return Ok(false);
        };
        self.run(Command::SetFeatures(self.blocks()), |words| {
            let block = &mut words[2 + bit / 32 * 2..][..2];
            block[0] = 1 << (bit % 32);
            block[1] = u32::from(on) << (bit % 32);
        })?;
        Ok(self.feature(name)?.is_some_and(|feature| feature.on == on))
    }
}

/// Text up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
