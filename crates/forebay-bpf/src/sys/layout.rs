//! Memory shared by this process and programs compiled from C, and the numbers that both
//! sides use. `cargo xtask bpf` makes `programs/layout.h` of this file: constants, lists of
//! names, and structures of words and of each other.

#![allow(dead_code, reason = "programs use the rest")]

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

/// Offsets of what a replayed frame has: the identification of IPv4, and its addresses.
pub const REPLAY_NUMBER: usize = 18;
pub const REPLAY_SOURCE: usize = 26;
pub const REPLAY_DESTINATION: usize = 30;
/// The identification of a frame is its place times this, in 16 bits: those of neighbours are far
/// apart, so that no receiver joins segments. And what it is multiplied by for the place.
pub const REPLAY_STRIDE: usize = 40503;
pub const REPLAY_INVERSE: usize = 30599;
/// The slots of delays: as many for each power of two.
pub const REPLAY_STEP_BITS: usize = 4;
pub const REPLAY_STEPS: usize = 1 << REPLAY_STEP_BITS;
pub const REPLAY_SLOTS: usize = 48 * REPLAY_STEPS;

/// Where a replayed frame is.
#[derive(Debug)]
#[repr(C)]
pub struct ReplayPlace {
    pub at: AtomicU64,
    pub length: AtomicU64,
    /// Its source is the client, or else its destination.
    pub from_client: AtomicU64,
}

/// What has arrived of replayed frames.
#[derive(Debug)]
#[repr(C)]
pub struct ReplayArrivals {
    pub frames: AtomicU64,
    pub bytes: AtomicU64,
    /// Frames by how late they are.
    pub delays: [AtomicU64; REPLAY_SLOTS],
}

/// Causes of losses after a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A TCP header, in a packet's signal: its flags are the lower bits. The packet goes from its
/// key's high end to the low end.
pub const SIGNAL_TCP: u64 = 1 << 8;
pub const SIGNAL_FROM_HIGH: u64 = 1 << 9;

/// Number of buckets: the upper 16 bits of a hash.
pub const BUCKETS: usize = 1 << 16;
/// The most sensors.
pub const MAX_SENSORS: usize = 1024;
/// The most inputs.
pub const MAX_INPUTS: usize = 32;

/// The bits of a bucket's entry that are a sensor, and the offset of the other one.
pub const SENSOR_MASK: u64 = (1 << OTHER_SHIFT) - 1;
pub const OTHER_SHIFT: u64 = 11;
/// Keys without a record get one.
pub const RECORD: u64 = 1 << 22;
/// New keys go to the target of the move already.
pub const TURNED: u64 = 1 << 23;
/// The program could not make a record: the move is cancelled.
pub const CANCELLED: u64 = 1 << 24;
/// The packets of the bucket are watched, in user space.
pub const WATCHED: u64 = 1 << 30;
/// The bucket moves: keys are looked up.
pub const LOOK_UP: u64 = 1 << 31;

/// Bits of a record: it is one; its low, its high end has sent a FIN. Both after a RST.
pub const ON_RECORD: u64 = 1;
pub const LOW_CLOSED: u64 = 2;
pub const HIGH_CLOSED: u64 = 4;
/// Offsets of a record's sensor and time.
pub const RECORD_SENSOR: u64 = 4;
pub const RECORD_TIME: u64 = 16;
/// Nanoseconds of the monotonic clock, to the power of two, that are a record's unit of
/// time: about a millisecond.
pub const TIME_UNIT: u64 = 20;

/// The most flows that are shunted by hand.
pub const MAX_SHUNTED: usize = 1 << 17;
/// Words of the bitmap of their hashes, and the offset of a bit's number in a hash: 32 bits for
/// each of the most flows.
pub const SHUNT_WORDS: usize = 1 << 16;
pub const SHUNT_BIT: u64 = 42;

/// Flags of a sensor, in the upper 16 bits of the destination's word.
pub const PRESENT: u64 = 1 << 48;
pub const SET_DESTINATION: u64 = 1 << 49;
pub const SET_SOURCE: u64 = 1 << 50;
pub const PUSH_TAG: u64 = 1 << 51;
/// The sensor gets nothing by records any more.
pub const DEAD: u64 = 1 << 52;
/// The second place counts.
pub const SECOND_PLACE: u64 = 1 << 53;

/// A packet in a tally: packets × 2³⁶ + bytes.
pub const TALLY_PACKET: u64 = 1 << 36;
/// The offset of the number of a flow's bit in its hash, below the bucket; of a map of 32.
pub const FLOW_BIT: u64 = 43;

/// The part of a sensor's entry of which there are two.
#[derive(Debug)]
#[repr(C)]
pub struct Place {
    /// The source address as in a frame, then the tag.
    pub source: AtomicU64,
    /// The slot of the device map.
    pub device: AtomicU64,
}

/// How frames reach a sensor. A change is written to the other place, and is in effect with
/// the first word, so that no frame gets half of it.
#[derive(Debug)]
#[repr(C)]
pub struct SensorEntry {
    /// The destination address as in a frame, then flags.
    pub destination: AtomicU64,
    pub places: [Place; 2],
    /// To the length of a cache line.
    pub unused: [AtomicU64; 3],
}

/// What the program reads for each packet.
#[derive(Debug)]
#[repr(C)]
pub struct Tables {
    /// The buckets' entries: [`crate::programs::splitter::entry`].
    pub entries: [AtomicU64; BUCKETS],
    pub sensors: [SensorEntry; MAX_SENSORS],
    /// Keys recorded by the bucket's move.
    pub recorded: [AtomicU64; BUCKETS],
    /// Which of two maps of flows is current.
    pub generation: AtomicU64,
    /// The sensors of buckets without one.
    pub spare_count: AtomicU64,
    pub spares: [AtomicU64; MAX_SENSORS],
    /// The time of the last packet that was given to user space for its address pair, or 0.
    pub marked: AtomicU64,
    /// How many flows are shunted by hand.
    pub shunted: AtomicU64,
    /// By slot of the device map: not 0 if workers send its frames.
    pub by_workers: [AtomicU64; MAX_DEVICES],
}

/// A flow that is shunted by hand.
#[derive(Debug)]
#[repr(C)]
pub struct ShuntedFlow {
    /// The time when that ends, by the monotonic clock.
    pub until: AtomicU64,
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
    pub unused: AtomicU64,
}

/// The flows that are shunted by hand.
#[derive(Debug)]
#[repr(C)]
pub struct Shunted {
    /// A bit is set for each hash.
    pub bits: [AtomicU64; SHUNT_WORDS],
    pub flows: [ShuntedFlow; MAX_SHUNTED],
}

/// Traffic, in packets and bytes; or two tallies.
#[derive(Debug)]
#[repr(C)]
pub struct Pair {
    pub packets: AtomicU64,
    pub bytes: AtomicU64,
}

/// A bucket's tally, and its two maps of flows.
#[derive(Debug)]
#[repr(C)]
pub struct Cell {
    pub tally: AtomicU64,
    pub flows: AtomicU64,
}

/// The outcomes of frames, then events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    Filtered,
    GroupFiltered,
    ToUserSpace,
    NoSensor,
    NoInterface,
    NoSocket,
    NoRoom,
    Shunted,
    NotRecorded,
    Restarts,
    NotMarked,
}

/// Their number, and more.
pub const COUNTERS: usize = 32;

/// The counters of a processor or a worker in user space, which only that writes.
#[derive(Debug)]
#[repr(C)]
pub struct Section {
    pub counters: [Pair; COUNTERS],
    pub inputs: [Pair; MAX_INPUTS],
    /// By slot of the device map.
    pub devices: [Pair; MAX_DEVICES],
    /// By sensor: what came to it by records, and what would have come to it without them.
    pub displaced: [Pair; MAX_SENSORS],
    pub buckets: [Cell; BUCKETS],
}

/// A key and what its packet is, in place of a frame: for the programs of workers.
#[derive(Debug)]
#[repr(C)]
pub struct Question {
    pub hash: AtomicU64,
    /// The packet's signal; the record's word.
    pub word: AtomicU64,
    /// The packet's length; whether to delete the record.
    pub number: AtomicU64,
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
unsafe impl Layout for ReplayPlace {}
// SAFETY: words only.
unsafe impl Layout for ReplayArrivals {}
// SAFETY: words only.
unsafe impl Layout for Losses {}
// SAFETY: words only.
unsafe impl Layout for Tables {}
// SAFETY: words only.
unsafe impl Layout for Shunted {}
// SAFETY: words only.
unsafe impl Layout for Section {}
