//! Sends frames of a list in their order, again and again, and counts them where they arrive.
//!
//! [`Generator::replay`](super::generator::Generator::replay) sends them. In each round the clients
//! have other addresses, so that connections are new ones: of an address, the first half gains
//! what the second half loses, which changes no checksum. [`Arrivals`] counts each frame by the
//! identification of IPv4, which is made of its place ([`identification`]).

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::BpfError;
use crate::map::{ReadMemory, SharedMemory};
use crate::object::{Loader, include_program};
use crate::program::{Kind, Program};
use crate::sys::layout::{
    GENERATOR_MIN_FRAME, MAX_FRAME, REPLAY_INVERSE, REPLAY_NUMBER, REPLAY_SLOTS, REPLAY_STEP_BITS,
    REPLAY_STEPS, REPLAY_STRIDE, ReplayArrivals, ReplayPlace,
};

/// The most frames: as many as there are identifications.
pub const MOST_FRAMES: usize = 1 << 16;

/// Rounds until addresses come again.
pub const SHIFTS: u64 = 256;

/// The identification of the frame at a place.
#[must_use]
pub fn identification(place: usize) -> u16 {
    place.wrapping_mul(REPLAY_STRIDE) as u16
}

/// The place of the frame with an identification.
#[must_use]
pub fn place_of(identification: u16) -> usize {
    usize::from(identification).wrapping_mul(REPLAY_INVERSE) & (MOST_FRAMES - 1)
}

/// A frame of IPv4 to send.
#[derive(Clone, Debug)]
pub struct ReplayedFrame {
    /// Its bytes, without the check sequence. The second byte of its client's address is 0, the
    /// third is not.
    pub bytes: Vec<u8>,
    /// Whether its source is the client.
    pub from_client: bool,
}

/// Frames in memory that programs read.
#[derive(Debug)]
pub struct ReplayedFrames {
    memory: ReadMemory,
    size: usize,
    places: SharedMemory<ReplayPlace>,
    sent_at: SharedMemory<AtomicU64>,
    count: usize,
    longest: usize,
}

impl ReplayedFrames {
    /// Copies frames.
    ///
    /// # Errors
    /// If there are none or too many, or one is too short or too long, or has the identification
    /// of another place; the kernel's.
    pub fn new(frames: &[ReplayedFrame]) -> Result<Self, BpfError> {
        let wrong = |setting, value: usize, expected| {
            Err(BpfError::Setting { setting, value: value as u64, expected })
        };
        if frames.is_empty() || frames.len() > MOST_FRAMES {
            return wrong("the number of frames", frames.len(), "1 to 65536");
        }
        for (number, frame) in frames.iter().enumerate() {
            let len = frame.bytes.len();
            if !(GENERATOR_MIN_FRAME..=MAX_FRAME).contains(&len) {
                return wrong("the length of a frame", len, "60 to 3392");
            }
            let expected = identification(number).to_be_bytes();
            if frame.bytes[REPLAY_NUMBER..].first_chunk() != Some(&expected) {
                return wrong("the frame's place", number, "that of its identification");
            }
        }
        let size = frames.iter().map(|frame| frame.bytes.len()).sum::<usize>() + MAX_FRAME;
        let mut memory = ReadMemory::create("replay_frames", size.div_ceil(8) as u32)?;
        let places = SharedMemory::<ReplayPlace>::create("replay_places", frames.len())?;
        let sent_at = SharedMemory::create("replay_sent_at", frames.len())?;
        let mut at = 0;
        for (place, frame) in places.values().iter().zip(frames) {
            let len = frame.bytes.len();
            memory.bytes_mut()[at..at + len].copy_from_slice(&frame.bytes);
            place.at.store(at as u64, Relaxed);
            place.length.store(len as u64, Relaxed);
            place.from_client.store(frame.from_client.into(), Relaxed);
            at += len;
        }
        let longest = frames.iter().map(|frame| frame.bytes.len()).max().unwrap_or_default();
        let (size, count) = (size.next_multiple_of(8), frames.len());
        Ok(Self { memory, size, places, sent_at, count, longest })
    }

    /// Frames of a round.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the longest.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn loader(&self, timed: bool) -> Loader<'_> {
        Loader::new(include_program!("replay"))
            .set("frame_count", self.count as u64)
            .set("memory_size", self.size as u64)
            .set("shifts", SHIFTS)
            .set("longest", self.longest as u64)
            .set("timed", timed.into())
            .map("frames", &self.memory)
            .map("places", &self.places)
            .map("sent_at", &self.sent_at)
    }
}

/// Counts replayed frames where they arrive, and drops them.
#[derive(Debug)]
pub struct Arrivals {
    program: Program,
    memory: SharedMemory<ReplayArrivals>,
    arrived: SharedMemory<AtomicU64>,
}

impl Arrivals {
    /// Loads the program for one interface. With `timed` it reads how long frames took that a timed
    /// generator has sent.
    ///
    /// # Errors
    /// The kernel's.
    pub fn load(frames: &ReplayedFrames, timed: bool) -> Result<Self, BpfError> {
        let memory = SharedMemory::<ReplayArrivals>::create("replay_arrivals", 1)?;
        let arrived = SharedMemory::<AtomicU64>::create("replay_arrived", frames.count)?;
        let loader = frames.loader(timed).map("arrivals", &memory).map("arrived", &arrived);
        let program = loader.load("forebay_arrived", Kind::Xdp { multi_buffer: false })?;
        Ok(Self { program, memory, arrived })
    }

    /// The program, for the interface.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Frames so far, and their bytes.
    #[must_use]
    pub fn frames(&self) -> (u64, u64) {
        let all = &self.memory.values()[0];
        (all.frames.load(Relaxed), all.bytes.load(Relaxed))
    }

    /// How often each frame has arrived.
    #[must_use]
    pub fn by_frame(&self) -> Vec<u64> {
        self.arrived.values().iter().map(|count| count.load(Relaxed)).collect()
    }

    /// The delays so far, each as the least nanoseconds of its slot and the frames in it.
    #[must_use]
    pub fn delays(&self) -> Vec<(u64, u64)> {
        let slots = self.memory.values()[0].delays.iter().zip(0..REPLAY_SLOTS);
        slots.map(|(frames, slot)| (least_of(slot), frames.load(Relaxed))).collect()
    }
}

/// The least delay of a slot.
fn least_of(slot: usize) -> u64 {
    let (power, step) = (slot / REPLAY_STEPS, slot % REPLAY_STEPS);
    match power {
        0 => step as u64,
        _ => ((REPLAY_STEPS + step) as u64) << (power - 1),
    }
}

const _: () = assert!(1 << REPLAY_STEP_BITS == REPLAY_STEPS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_delays_grow_by_a_sixteenth() {
        assert_eq!([0, 15, 16, 17, 31, 32, 33].map(least_of), [0, 15, 16, 17, 31, 32, 34]);
        let all: Vec<u64> = (0..REPLAY_SLOTS).map(least_of).collect();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn frames_have_the_identifications_of_their_places() {
        assert!((0..MOST_FRAMES).all(|place| place_of(identification(place)) == place));
        let frame = |number: usize| {
            let mut bytes = vec![0; 60];
            bytes[REPLAY_NUMBER..][..2].copy_from_slice(&identification(number).to_be_bytes());
            ReplayedFrame { bytes, from_client: true }
        };
        let error = ReplayedFrames::new(&[frame(0), frame(2)]).unwrap_err();
        assert!(error.to_string().contains("identification"), "{error}");
        assert!(ReplayedFrames::new(&[]).is_err());
    }
}
