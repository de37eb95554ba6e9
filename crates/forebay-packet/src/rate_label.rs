//! The rate of a packet's flow as a label, in a batch and in an IP header.
//!
//! Core-stateless fair queueing (Stoica, Shenker and Zhang, SIGCOMM 1998) estimates the rate of
//! each flow once, at the edge of a network, and labels the packets with it. The core drops by the
//! labels. A label is a logarithmic code of 20 bits, as long as the flow label of IPv6 (RFC 6437):
//! code *c* is the rate 1000 · 2^((*c* − 1) / 32768) bit/s, up to 1000 · 2^31, and 0 is no label.
//! Neighbouring codes differ by 0.002%.
//!
//! The code point of differentiated services (DSCP, RFC 2474) has 6 bits: value *d* is the rate
//! 1000 · 2^((*d* − 1) / 2), each 1.41 times the last. A rate between two values becomes one of
//! them at random: the nearer one is likelier, so that the mean of the logarithm is exact. What a
//! core passes of a flow is proportional to the inverse of its label, of which the mean is at most
//! 1.6% too high. Each label carries 12 random bits for that, so writing it is a function of the
//! label alone.

use crate::decode::{IpPacket, ip_packet};
use crate::link::LinkType;

/// The rate of code 1, in bits a second.
const LEAST: f64 = 1_000.0;

/// Codes for each power of two, and for each step of DSCP, which are two.
const OCTAVE: u32 = 1 << 15;
const STEP_BITS: u32 = 14;

/// The largest value of DSCP, and the code of the same rate, which is the largest.
const MOST_DSCP: u32 = 63;
const MOST: u32 = ((MOST_DSCP - 1) << STEP_BITS) + 1;

/// Bits of a code; those above are random.
const CODE_BITS: u32 = 20;
const CODE: u32 = (1 << CODE_BITS) - 1;
const CHANCE_BITS: u32 = u32::BITS - CODE_BITS;

/// Bytes of an IPv4 header without options, and where its checksum is.
const IPV4_HEADER: usize = 20;
const CHECKSUM: usize = 10;

/// The rate of a packet's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RateLabel(u32);

impl RateLabel {
    /// No label.
    pub const NONE: Self = Self(0);

    /// The label of a rate in bits a second. Rates out of bounds have the label of the nearest
    /// rate. The low 12 bits of `chance`, which is random, decide how DSCP rounds it.
    #[must_use]
    pub fn new(rate: f64, chance: u32) -> Self {
        let place = (rate / LEAST).log2() * f64::from(OCTAVE);
        // The conversion saturates.
        let code = (place.round() as u32).min(MOST - 1) + 1;
        Self(chance << CODE_BITS | code)
    }

    /// The rate in bits a second, if there is a label.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        let place = self.code().checked_sub(1)?;
        Some(LEAST * (f64::from(place) / f64::from(OCTAVE)).exp2())
    }

    /// The label for this rate in bits a second at most.
    #[must_use]
    pub fn at_most(self, rate: f64) -> Self {
        match self.rate() {
            Some(label) if label > rate => Self::new(rate, self.0 >> CODE_BITS),
            _ => self,
        }
    }

    fn code(self) -> u32 {
        self.0 & CODE
    }

    /// The value of DSCP.
    fn dscp(self) -> u8 {
        let Some(place) = self.code().checked_sub(1) else { return 0 };
        let (step, rest) = (place >> STEP_BITS, place & ((1 << STEP_BITS) - 1));
        let rounds_up = rest >> (STEP_BITS - CHANCE_BITS) > self.0 >> CODE_BITS;
        // Of the largest code nothing is left to round, so this is at most the largest value.
        (step + 1 + u32::from(rounds_up)) as u8
    }
}

/// The code of the same rate as a value of DSCP.
fn code_of_dscp(dscp: u32) -> u32 {
    dscp.checked_sub(1).map_or(0, |step| (step << STEP_BITS) + 1)
}

/// A field of an IP header that has a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelField {
    /// The code point of differentiated services, of IPv4 and IPv6.
    Dscp,
    /// The flow label of IPv6. IPv4 has none.
    FlowLabel,
}

impl LabelField {
    /// All fields.
    pub const ALL: [Self; 2] = [Self::Dscp, Self::FlowLabel];

    /// The name in configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dscp => "dscp",
            Self::FlowLabel => "flow-label",
        }
    }

    /// The label in a header, with `chance` as in [`RateLabel::new`]. A flow label above the
    /// largest code is that code.
    #[must_use]
    pub fn read(self, ip: &IpPacket<'_>, chance: u32) -> RateLabel {
        let Some(&first) = ip.bytes().first_chunk() else { return RateLabel::NONE };
        let word = u32::from_be_bytes(first);
        let code = match (self, ip.is_ipv6()) {
            (Self::Dscp, true) => code_of_dscp(word >> 22 & 0x3f),
            (Self::Dscp, false) => code_of_dscp(word >> 18 & 0x3f),
            (Self::FlowLabel, true) => (word & CODE).min(MOST),
            (Self::FlowLabel, false) => 0,
        };
        RateLabel(if code == 0 { 0 } else { chance << CODE_BITS | code })
    }

    /// Writes a label to the outermost IP header of an Ethernet frame. The congestion signal (RFC
    /// 3168) stays; the checksum of IPv4 is updated (RFC 1624). A frame without such a header, or
    /// whose header lacks the field, stays as it is.
    pub fn write(self, label: RateLabel, frame: &mut [u8]) {
        match self {
            Self::Dscp => write_dscp(label.dscp(), frame),
            Self::FlowLabel => {
                let Some(header) = ip_header(frame) else { return };
                if let (true, Some(first)) = (header[0] >> 4 == 6, header.first_chunk_mut::<4>()) {
                    let word = u32::from_be_bytes(*first);
                    *first = (word & !CODE | label.code()).to_be_bytes();
                }
            }
        }
    }
}

/// The outermost IP header of an Ethernet frame and what is behind it: at least the addresses.
fn ip_header(frame: &mut [u8]) -> Option<&mut [u8]> {
    let ip = ip_packet(LinkType::ETHERNET, frame)?;
    let start = frame.len() - ip.bytes().len();
    frame.get_mut(start..)
}

/// Writes a code point of differentiated services, of 6 bits, to the outermost IP header of an
/// Ethernet frame, as [`LabelField::write`] does.
pub fn write_dscp(code: u8, frame: &mut [u8]) {
    let Some(header) = ip_header(frame) else { return };
    if header[0] >> 4 == 6 {
        let Some(first) = header.first_chunk_mut::<4>() else { return };
        let word = u32::from_be_bytes(*first);
        *first = (word & !(0x3f << 22) | u32::from(code & 0x3f) << 22).to_be_bytes();
    } else if let Some(header) = header.first_chunk_mut::<IPV4_HEADER>() {
        let old = [header[0], header[1]];
        header[1] = header[1] & 3 | code << 2;
        let new = [header[0], header[1]];
        let sum = [header[CHECKSUM], header[CHECKSUM + 1]];
        let sum = updated(u16::from_be_bytes(sum), old, new);
        header[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The Internet checksum after a change of two bytes: equation 3 of RFC 1624.
fn updated(sum: u16, old: [u8; 2], new: [u8; 2]) -> u16 {
    let words = [!sum, !u16::from_be_bytes(old), u16::from_be_bytes(new)];
    let sum = words.into_iter().map(u32::from).sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
