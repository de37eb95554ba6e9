//! What is changed of a packet on its way out: headers, addresses, a VLAN tag, its length.
//!
//! Packets in a batch are never written, so that several outputs can have the same one.
//! A [`Rewrite`] is applied while a packet is copied into an output's memory. It takes
//! Ethernet frames; what is too short for one goes out as it is.

use std::fmt;
use std::str::FromStr;

use crate::decode::{Strip, Stripped};
use crate::rate_label::LabelField;

/// A MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Whether it names a group of stations, or all.
    #[must_use]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Text that is no MAC address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no MAC address: expected six bytes in hexadecimal, like 02:00:00:00:00:01")]
pub struct NoMacAddress(String);

impl FromStr for MacAddress {
    type Err = NoMacAddress;

    fn from_str(text: &str) -> Result<Self, NoMacAddress> {
        let wrong = || NoMacAddress(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2).ok_or_else(wrong)?;
            // A sign would pass for a number.
            let hex = part.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| hex).ok_or_else(wrong)?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Self(bytes)) }
    }
}

/// Bytes of the two addresses of an Ethernet frame.
pub const ADDRESSES: usize = 12;

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

/// Bytes of a VLAN tag (IEEE 802.1Q), and its protocol identifier.
const TAG: usize = 4;
const TAG_PROTOCOL: [u8; 2] = [0x81, 0x00];

/// A mark of packets of suspect flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// The code point of differentiated services, of 6 bits, of the outermost IP header.
    Dscp(u8),
    /// The VLAN identifier of a tag in front of all others.
    Vlan(u16),
    /// A comment in a capture, which only recorders write.
    Comment,
}

/// What is changed of each frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The headers that are taken off, before anything else.
    pub strip: Strip,
    /// The destination address, unless it stays: L2NAT.
    pub destination: Option<MacAddress>,
    /// The source address, unless it stays.
    pub source: Option<MacAddress>,
    /// The VLAN identifier of a tag to put in front of all others.
    pub push_vlan: Option<u16>,
    /// The most bytes that are kept of the frame, without the tag.
    pub slice: Option<u32>,
    /// The field of the IP header that gets the packet's rate label. Outputs write it after
    /// [`Rewrite::write`], which does not have the label.
    pub label: Option<LabelField>,
    /// The code point of differentiated services that the outermost IP header gets. Outputs write
    /// it after [`Rewrite::write`], as they do labels.
    pub dscp: Option<u8>,
    /// What is changed in addition of packets of suspect flows: outputs use [`Rewrite::annotated`]
    /// for these.
    pub annotation: Option<Annotation>,
}

impl Rewrite {
    /// Nothing is changed.
    pub const NONE: Self = Self {
        strip: Strip::NONE,
        destination: None,
        source: None,
        push_vlan: None,
        slice: None,
        label: None,
        dscp: None,
        annotation: None,
    };

    /// What is changed of packets of suspect flows.
    #[must_use]
    pub fn annotated(&self) -> Self {
        match self.annotation {
            None | Some(Annotation::Comment) => *self,
            Some(Annotation::Dscp(code)) => Self { dscp: Some(code), ..*self },
            Some(Annotation::Vlan(id)) => Self { push_vlan: Some(id), ..*self },
        }
    }

    /// Bytes that `frame` has afterwards.
    #[inline]
    #[must_use]
    pub fn len_of(&self, frame: &[u8]) -> usize {
        let kept = self.kept(frame.len() - self.stripped_off(frame));
        if self.push_vlan.is_some() && kept >= HEADER { kept + TAG } else { kept }
    }

    /// Bytes of headers that are taken off `frame`, and what was around it.
    #[inline]
    #[must_use]
    pub fn stripped_off(&self, frame: &[u8]) -> usize {
        if self.strip.is_none() {
            return 0;
        }
        self.strip.of(frame).map_or(0, |stripped| frame.len() - stripped.len())
    }

    #[inline]
    fn kept(&self, len: usize) -> usize {
        self.slice.map_or(len, |slice| len.min(slice as usize))
    }

    /// Copies `frame` to the start of `out`, changed, and gives the bytes written.
    /// Nothing, and `out` is not written to, when they do not fit.
    #[inline]
    #[must_use]
    pub fn write(&self, frame: &[u8], out: &mut [u8]) -> Option<usize> {
        if !self.strip.is_none()
            && let Some(stripped) = self.strip.of(frame)
        {
            return self.write_stripped(frame, &stripped, out);
        }
        let kept = self.kept(frame.len());
        let tag = if self.push_vlan.is_some() && kept >= HEADER { TAG } else { 0 };
        let out = out.get_mut(..kept + tag)?;
        let frame = &frame[..kept];
        if kept < HEADER {
            out.copy_from_slice(frame);
            return Some(kept);
        }
        if tag > 0 {
            out[..ADDRESSES].copy_from_slice(&frame[..ADDRESSES]);
            out[ADDRESSES + TAG..].copy_from_slice(&frame[ADDRESSES..]);
        } else {
            out.copy_from_slice(frame);
        }
        self.write_header(out);
        Some(kept + tag)
    }

    /// Writes what is left of a frame.
    fn write_stripped(&self, frame: &[u8], left: &Stripped, out: &mut [u8]) -> Option<usize> {
        let kept = self.kept(left.len());
        let tag = if self.push_vlan.is_some() && kept >= HEADER { TAG } else { 0 };
        let out = out.get_mut(..kept + tag)?;
        let head = &frame[left.head.clone()];
        let payload = &frame[left.payload.clone()];
        let rest = head[ADDRESSES..].iter().chain(&left.ether_type).chain(payload);
        let (addresses, behind) = out.split_at_mut(kept.min(ADDRESSES));
        addresses.copy_from_slice(&head[..addresses.len()]);
        let behind = behind.get_mut(tag..).unwrap_or_default();
        // Headers byte by byte, and the payload in one piece.
        let headers = behind.len().min(head.len() - ADDRESSES + left.ether_type.len());
        let (front, back) = behind.split_at_mut(headers);
        front.iter_mut().zip(rest).for_each(|(out, byte)| *out = *byte);
        back.copy_from_slice(&payload[..back.len()]);
        if kept >= HEADER {
            self.write_header(out);
        }
        Some(kept + tag)
    }

    /// Writes what is new of a header into a copy of the frame, which has room for the tag where one is
    /// pushed.
    ///
    /// # Panics
    /// If `out` is shorter than a header.
    #[inline]
    pub fn write_header(&self, out: &mut [u8]) {
        if let Some(vlan) = self.push_vlan {
            out[ADDRESSES..ADDRESSES + 2].copy_from_slice(&TAG_PROTOCOL);
            out[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&(vlan & 0xfff).to_be_bytes());
        }
        if let Some(MacAddress(address)) = self.destination {
            out[..6].copy_from_slice(&address);
        }
        if let Some(MacAddress(address)) = self.source {
            out[6..ADDRESSES].copy_from_slice(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 18] = [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 8, 0, 3, 4, 5, 6];

    #[test]
    fn frames_get_new_addresses_and_a_tag() {
        let rewrite = Rewrite {
            destination: Some(MacAddress([0x02, 0, 0, 0, 0, 9])),
            source: Some(MacAddress([0x06, 0, 0, 0, 0, 8])),
            push_vlan: Some(0x123),
            slice: Some(16),
            ..Rewrite::NONE
        };
        let mut out = [0xee; 24];
        assert_eq!(rewrite.write(&FRAME, &mut out), Some(20));
        let expected =
            [2, 0, 0, 0, 0, 9, 6, 0, 0, 0, 0, 8, 0x81, 0, 0x01, 0x23, 8, 0, 3, 4, 0xee, 0xee];
        assert_eq!(out[..22], expected);
        let plain = Rewrite { destination: rewrite.destination, ..Rewrite::NONE };
        assert_eq!(plain.write(&FRAME, &mut out), Some(18));
        assert_eq!(out[..6], [2, 0, 0, 0, 0, 9]);
        assert_eq!(out[6..18], FRAME[6..]);
    }

    #[test]
    fn what_is_no_frame_or_does_not_fit_is_left_alone() {
        let rewrite =
            Rewrite { push_vlan: Some(1), destination: Some(MacAddress([9; 6])), ..Rewrite::NONE };
        let mut out = [0; 21];
        assert_eq!(rewrite.write(&FRAME, &mut out), None);
        assert_eq!(out, [0; 21]);
        assert_eq!(rewrite.write(&FRAME[..13], &mut out), Some(13));
        assert_eq!(out[..13], FRAME[..13]);
        assert_eq!(rewrite.write(&[], &mut out), Some(0));
    }

    #[test]
    fn addresses_are_read_and_shown() {
        let address: MacAddress = "02:AB:00:00:00:ff".parse().unwrap();
        assert_eq!(address, MacAddress([2, 0xab, 0, 0, 0, 0xff]));
        assert_eq!(address.to_string(), "02:ab:00:00:00:ff");
        assert!(!address.is_group() && MacAddress([0xff; 6]).is_group());
        for wrong in
            ["", "02:ab:00:00:00", "02:ab:00:00:00:ff:01", "2:ab:0:0:0:f", "+2:00:00:00:00:00"]
        {
            assert!(wrong.parse::<MacAddress>().is_err(), "{wrong}");
        }
    }
}
