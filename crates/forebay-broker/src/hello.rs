//! The frame by which a sensor says that it is there.
//!
//! A switch forgets a station that is silent, and then sends what is for it to everyone.
//! Sensors are silent by nature; so each has `forebay sensor-hello` beside it, which
//! sends one of these frames now and then. The switch learns the sensor's place from
//! it, and the broker that the sensor is alive and what it drops.
//!
//! | bytes | |
//! |---|---|
//! | 0–5 | destination: the broker's address, or all |
//! | 6–11 | source: the sensor's address |
//! | 12–13 | 0x88b5, for local experiments (IEEE 802, clause 9.2.3) |
//! | 14–17 | `FBHL` |
//! | 18 | version, 1 |
//! | 19 | length of the name |
//! | 20–23 | milliseconds to the next hello |
//! | 24–31 | packets the sensor's interface received |
//! | 32–39 | packets it dropped |
//! | 40– | the sensor's name, then zeros to at least 60 bytes |
//!
//! Numbers are big-endian.

use std::time::Duration;

use forebay_packet::MacAddress;

/// The frame's EtherType.
pub const ETHER_TYPE: u16 = 0x88b5;

const MAGIC: [u8; 4] = *b"FBHL";
const VERSION: u8 = 1;
const NAME: usize = 40;

/// The longest name of a sensor, in bytes.
pub const MAX_NAME: usize = 32;

/// The shortest frame of Ethernet, without frame check sequence.
const MIN_FRAME: usize = 60;

/// What a sensor says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sensor's address.
    pub from: MacAddress,
    /// Its name; empty where only the address is to count.
    pub name: String,
    /// How long until its next hello.
    pub interval: Duration,
    /// Packets that its interface received.
    pub received: u64,
    /// Packets that it dropped.
    pub dropped: u64,
}

impl Hello {
    /// The frame, for a station or for all. A name is cut to [`MAX_NAME`] bytes.
    #[must_use]
    pub fn frame(&self, to: MacAddress) -> Vec<u8> {
        let mut end = self.name.len().min(MAX_NAME);
        while !self.name.is_char_boundary(end) {
            end -= 1;
        }
        let name = &self.name.as_bytes()[..end];
        let interval = u32::try_from(self.interval.as_millis()).unwrap_or(u32::MAX);
        let mut frame = Vec::with_capacity(MIN_FRAME + MAX_NAME);
        frame.extend_from_slice(&to.0);
        frame.extend_from_slice(&self.from.0);
        frame.extend_from_slice(&ETHER_TYPE.to_be_bytes());
        frame.extend_from_slice(&MAGIC);
        frame.extend_from_slice(&[VERSION, name.len() as u8]);
        frame.extend_from_slice(&interval.to_be_bytes());
        frame.extend_from_slice(&self.received.to_be_bytes());
        frame.extend_from_slice(&self.dropped.to_be_bytes());
        frame.extend_from_slice(name);
        frame.resize(frame.len().max(MIN_FRAME), 0);
        frame
    }

    /// What a frame says, if it is a hello of this version.
    #[must_use]
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let head: &[u8; NAME] = frame.first_chunk()?;
        let [_, _, _, _, _, _, from @ ..] = head;
        let (from, rest) = from.split_first_chunk::<6>()?;
        if rest[..2] != ETHER_TYPE.to_be_bytes() || rest[2..6] != MAGIC || rest[6] != VERSION {
            return None;
        }
        let name = frame.get(NAME..NAME + usize::from(rest[7]))?;
        if name.len() > MAX_NAME {
            return None;
        }
        let number = |at: usize| Some(u64::from_be_bytes(rest[at..at + 8].try_into().ok()?));
        let millis = u32::from_be_bytes(rest[8..12].try_into().ok()?);
        Some(Self {
            from: MacAddress(*from),
            name: std::str::from_utf8(name).ok()?.to_owned(),
            interval: Duration::from_millis(u64::from(millis)),
            received: number(12)?,
            dropped: number(20)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &str) -> Hello {
        Hello {
            from: MacAddress([2, 0, 0, 0, 1, 1]),
            name: name.to_owned(),
            interval: Duration::from_millis(200),
            received: 0x0102_0304_0506_0708,
            dropped: 9,
        }
    }

    #[test]
    fn a_frame_says_what_was_put_in() {
        for name in ["", "ids-1", &"x".repeat(MAX_NAME)] {
            let frame = hello(name).frame(MacAddress([0xff; 6]));
            assert!(frame.len() >= MIN_FRAME);
            assert_eq!(Hello::of_frame(&frame), Some(hello(name)));
        }
        let cut = hello(&"ä".repeat(MAX_NAME)).frame(MacAddress([0xff; 6]));
        assert_eq!(Hello::of_frame(&cut), Some(hello(&"ä".repeat(MAX_NAME / 2))));
    }

    #[test]
    fn other_frames_say_nothing() {
        let frame = hello("ids-1").frame(MacAddress([0xff; 6]));
        for len in 0..NAME + 5 {
            assert_eq!(Hello::of_frame(&frame[..len]), None, "{len} bytes");
        }
        for at in [12, 14, 18] {
            let mut other = frame.clone();
            other[at] ^= 1;
            assert_eq!(Hello::of_frame(&other), None, "byte {at}");
        }
        let mut endless = frame.clone();
        endless[19] = 255;
        assert_eq!(Hello::of_frame(&endless), None);
        let mut no_text = frame;
        no_text[NAME] = 0xff;
        assert_eq!(Hello::of_frame(&no_text), None);
    }
}
