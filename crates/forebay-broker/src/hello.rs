//! The frame by which a sensor announces itself.
//!
//! A switch forgets a station that is silent, and then sends what is for it to everyone.
//! Sensors are silent by nature; so each has `forebay sensor-hello` beside it, which
//! sends one of these frames now and then. The switch learns the sensor's place from
//! it, and the broker that the sensor is alive and what it drops.
//!
//! | bytes | |
//! |---|---|
//! | 0–5 | destination: all stations, or an address that the broker's device takes |
//! | 6–11 | source: the sensor's address |
//! | 12–13 | 0x88b5, for local experiments (IEEE 802, clause 9.2.3) |
//! | 14–17 | `FBHL` |
//! | 18 | version, 1 |
//! | 19 | length of the name |
//! | 20 | length of the group's name |
//! | 21–23 | age of the counters of packets in milliseconds |
//! | 24–27 | milliseconds to the next hello |
//! | 28–35 | packets the sensor's interface received |
//! | 36–43 | packets it dropped |
//! | 44–51 | frames it received that were for other stations |
//! | 52– | the sensor's name, then its group's, then zeros to at least 60 bytes |
//!
//! Numbers are big-endian. Nothing in the frame proves its sender: the network between
//! broker and sensors is trusted to carry hellos of sensors only.

use std::time::Duration;

use forebay_packet::MacAddress;

/// The frame's EtherType.
pub const ETHER_TYPE: u16 = 0x88b5;

const MAGIC: [u8; 4] = *b"FBHL";
const VERSION: u8 = 1;
const NAMES: usize = 52;

/// The longest name of a sensor or group, in bytes.
pub const MAX_NAME: usize = 32;

/// The greatest age of counters, in milliseconds.
pub const MAX_AGE: u32 = (1 << 24) - 1;

/// The longest hello.
pub const MAX_FRAME: usize = NAMES + 2 * MAX_NAME;

/// The shortest frame of Ethernet, without frame check sequence.
const MIN_FRAME: usize = 60;

/// The content of a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sensor's address.
    pub from: MacAddress,
    /// Its name; empty where only the address is to count.
    pub name: String,
    /// The group it is sent for; empty for all that it is in.
    pub group: String,
    /// How long until its next hello.
    pub interval: Duration,
    /// Packets that its interface received.
    pub received: u64,
    /// Packets that it dropped, of these.
    pub dropped: u64,
    /// How long ago both were read, in milliseconds: a program's statistics are older than the hello.
    /// At most [`MAX_AGE`].
    pub age_ms: u32,
    /// Frames for other stations that its interface received, besides.
    pub strays: u64,
}

impl Hello {
    /// The frame, for a station or for all. Names are cut to [`MAX_NAME`] bytes.
    #[must_use]
    pub fn frame(&self, to: MacAddress) -> Vec<u8> {
        let (name, group) = (cut(&self.name), cut(&self.group));
        let interval = u32::try_from(self.interval.as_millis()).unwrap_or(u32::MAX);
        let mut frame = Vec::with_capacity(MAX_FRAME);
        frame.extend_from_slice(&to.0);
        frame.extend_from_slice(&self.from.0);
        frame.extend_from_slice(&ETHER_TYPE.to_be_bytes());
        frame.extend_from_slice(&MAGIC);
        frame.extend_from_slice(&[VERSION, name.len() as u8, group.len() as u8]);
        frame.extend_from_slice(&self.age_ms.min(MAX_AGE).to_be_bytes()[1..]);
        frame.extend_from_slice(&interval.to_be_bytes());
        for count in [self.received, self.dropped, self.strays] {
            frame.extend_from_slice(&count.to_be_bytes());
        }
        frame.extend_from_slice(name);
        frame.extend_from_slice(group);
        frame.resize(frame.len().max(MIN_FRAME), 0);
        frame
    }

    /// The content of a frame, if it is a hello of this version.
    #[must_use]
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let head: &[u8; NAMES] = frame.first_chunk()?;
        let (from, rest) = head[6..].split_first_chunk::<6>()?;
        if rest[..2] != ETHER_TYPE.to_be_bytes() || rest[2..6] != MAGIC || rest[6] != VERSION {
            return None;
        }
        let (name_len, group_len) = (usize::from(rest[7]), usize::from(rest[8]));
        if name_len > MAX_NAME || group_len > MAX_NAME {
            return None;
        }
        let names = frame.get(NAMES..NAMES + name_len + group_len)?;
        let (name, group) = names.split_at(name_len);
        let text = |bytes| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let count = |at: usize| Some(u64::from_be_bytes(head[at..at + 8].try_into().ok()?));
        let millis = u32::from_be_bytes(head[24..28].try_into().ok()?);
        Some(Self {
            from: MacAddress(*from),
            name: text(name)?,
            group: text(group)?,
            interval: Duration::from_millis(u64::from(millis)),
            received: count(28)?,
            dropped: count(36)?,
            age_ms: u32::from_be_bytes([0, head[21], head[22], head[23]]),
            strays: count(44)?,
        })
    }
}

/// The beginning of a name, as far as it fits.
fn cut(name: &str) -> &[u8] {
    let mut end = name.len().min(MAX_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name.as_bytes()[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &str, group: &str) -> Hello {
        Hello {
            from: MacAddress([2, 0, 0, 0, 1, 1]),
            name: name.to_owned(),
            group: group.to_owned(),
            interval: Duration::from_millis(200),
            received: 0x0102_0304_0506_0708,
            dropped: 9,
            age_ms: 0x0b_0c0d,
            strays: 10,
        }
    }

    #[test]
    fn a_frame_says_what_was_put_in() {
        let long = "x".repeat(MAX_NAME);
        for (name, group) in [("", ""), ("ids-1", ""), ("ids-1", "ids"), (&long, &long)] {
            let frame = hello(name, group).frame(MacAddress([0xff; 6]));
            assert!((MIN_FRAME..=MAX_FRAME).contains(&frame.len()));
            assert_eq!(Hello::of_frame(&frame), Some(hello(name, group)));
        }
        let cut = hello(&"ä".repeat(MAX_NAME), "ids").frame(MacAddress([0xff; 6]));
        assert_eq!(Hello::of_frame(&cut), Some(hello(&"ä".repeat(MAX_NAME / 2), "ids")));
    }

    #[test]
    fn other_frames_say_nothing() {
        let frame = hello("ids-1", "ids").frame(MacAddress([0xff; 6]));
        for len in 0..NAMES + 8 {
            assert_eq!(Hello::of_frame(&frame[..len]), None, "{len} bytes");
        }
        for at in [12, 14, 18] {
            let mut other = frame.clone();
            other[at] ^= 1;
            assert_eq!(Hello::of_frame(&other), None, "byte {at}");
        }
        for at in [19, 20] {
            let mut endless = frame.clone();
            endless[at] = 255;
            assert_eq!(Hello::of_frame(&endless), None, "byte {at}");
        }
        let mut no_text = frame;
        no_text[NAMES] = 0xff;
        assert_eq!(Hello::of_frame(&no_text), None);
    }
}
