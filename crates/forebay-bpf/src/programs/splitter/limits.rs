//! The most of everything.

use crate::sys::layout;

/// Number of buckets: the upper 16 bits of a hash.
pub const BUCKETS: usize = layout::BUCKETS;

/// The most sensors.
pub const MAX_SENSORS: u16 = layout::MAX_SENSORS as u16;

/// The most interfaces that sensors are behind.
pub const MAX_DEVICES: u32 = layout::MAX_DEVICES as u32;

/// The most interfaces of a program's sensors; one slot is left for [`crate::programs::trial`].
pub const MAX_OUTPUTS: u32 = layout::MAX_OUTPUTS as u32;

/// The most inputs.
pub const MAX_INPUTS: u32 = layout::MAX_INPUTS as u32;

/// The most flows that are shunted by hand.
pub const MAX_SHUNTED: u32 = layout::MAX_SHUNTED as u32;

/// The most elements of each map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Address pairs that are marked as user space's.
    pub marks: u32,
    /// Keys of moving buckets on record.
    pub records: u32,
    /// Keys that one move may record.
    pub keys_per_move: u32,
    /// Slots for interfaces.
    pub devices: u32,
    /// Slots for AF_XDP sockets.
    pub sockets: u32,
    /// Threads of user space that go by the same tables.
    pub workers: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            marks: 65_536,
            records: 1 << 18,
            keys_per_move: 4096,
            devices: MAX_DEVICES,
            sockets: 64,
            workers: 0,
        }
    }
}
