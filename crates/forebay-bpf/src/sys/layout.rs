//! Memory shared by this process and programs compiled from C, and the numbers that both
//! sides use. `cargo xtask bpf` makes `programs/layout.h` of this file: constants, lists of
//! names, and structures of words and of each other.

use std::sync::atomic::AtomicU64;

/// A structure of shared words.
///
/// # Safety
/// It consists of [`AtomicU64`] only, without padding.
pub unsafe trait Layout {}

/// The most interfaces that sensors are behind.
pub const MAX_DEVICES: usize = 1024;
/// The most interfaces of a program's sensors; one slot is left for trials.
pub const MAX_OUTPUTS: usize = MAX_DEVICES - 1;

/// Bytes of memory for the sender's frames. Those of a call should stay in the processor's
/// cache.
pub const SEND_MEMORY: usize = 512 << 10;
/// Bytes before a frame, which contain its length. Frames are aligned to as many.
pub const SEND_PREFIX: usize = 8;
/// The longest frame: a page minus the kernel's reserve.
pub const MAX_FRAME: usize = 3392;
/// The shortest frame: an Ethernet header.
pub const MIN_FRAME: usize = 14;

/// The words that control the sender's program, and its counters.
#[derive(Debug)]
#[repr(C)]
pub struct SendControl {
    /// The position of the next frame's prefix.
    pub position: AtomicU64,
    /// The length of the frames that the kernel creates.
    pub length: AtomicU64,
    pub runs: AtomicU64,
    pub no_device: AtomicU64,
    pub failed: AtomicU64,
}

/// Words of the beginning of a frame that differs between flows.
pub const HEAD_WORDS: usize = 7;
/// The shortest generated frame, without the check sequence.
pub const GENERATOR_MIN_FRAME: usize = 60;

/// A flow of the generator.
#[derive(Debug)]
#[repr(C)]
pub struct GeneratorFlow {
    pub head: [AtomicU64; HEAD_WORDS],
    /// Its frames so far.
    pub frames: AtomicU64,
    /// Bytes by which the ends of its frames are moved, as a signed number.
    pub cut: AtomicU64,
}

/// The words that control the generator's program, and its counters.
#[derive(Debug)]
#[repr(C)]
pub struct GeneratorControl {
    pub next_at: AtomicU64,
    pub interval: AtomicU64,
    pub stop_at: AtomicU64,
    pub allowed: AtomicU64,
    pub position: AtomicU64,
    pub sent: AtomicU64,
    pub not_sent: AtomicU64,
    pub early: AtomicU64,
}

/// Causes of losses after a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the program uses all of them")]
pub enum Reason {
    RingFull,
    Refused,
    TooLong,
    LinkDown,
}

/// Their number.
pub const REASONS: usize = 4;

/// The losses of a device, by cause.
#[derive(Debug)]
#[repr(C)]
pub struct Losses {
    pub frames: [AtomicU64; REASONS],
}

// SAFETY: a word.
unsafe impl Layout for AtomicU64 {}
// SAFETY: words only.
unsafe impl Layout for SendControl {}
// SAFETY: words only.
unsafe impl Layout for GeneratorFlow {}
// SAFETY: words only.
unsafe impl Layout for GeneratorControl {}
// SAFETY: words only.
unsafe impl Layout for Losses {}
