//! The bytes of a packet that hold the fields of its flow, and which of them are hashed.

use crate::decode::options::Affinity;
use crate::flow::AddressKind;

/// Where in a frame the bytes start that are looked at, and how many they are.
const HEAD_AT: usize = 12;
const HEAD: usize = 32;

/// The bytes of a packet that are looked at.
pub(super) type Head = [u8; HEAD];

/// In place of a packet: not plain.
pub(super) const NOTHING: &Head = &[0; HEAD];

/// The bytes of a packet that are looked at.
#[inline]
pub(super) fn head_of(packet: &[u8]) -> &Head {
    packet.get(HEAD_AT..).and_then(<[u8]>::first_chunk).unwrap_or(NOTHING)
}

/// The bytes of a shuffle that puts big-endian fields of two words in order: two addresses
/// each, two ports, the length of a datagram. With the top bit set a byte becomes 0.
pub(super) const ADDRESS_ORDER: [u64; 2] = [0x0405_0607_0001_0203, 0x0c0d_0e0f_0809_0a0b];
pub(super) const PORT_ORDER: [u64; 2] = [0x8080_8080_0203_0001, 0x8080_8080_0a0b_0809];
pub(super) const LENGTH_ORDER: [u64; 2] = [0x8080_8080_8080_0405, 0x8080_8080_8080_0c0d];

/// What of a plain packet's flow is hashed, as masks of the two words that
/// [`crate::FlowKey::hash`] takes.
#[derive(Clone, Copy)]
pub(super) struct HashedFields {
    /// Of the addresses.
    pub(super) addresses: u64,
    /// Which end goes first.
    pub(super) first: First,
    /// Of ports and protocol.
    pub(super) ends: u64,
    /// What the second word has besides.
    pub(super) constant: u64,
}

/// Which end of a flow the words begin with.
#[derive(Clone, Copy)]
pub(super) enum First {
    /// The smaller one.
    Smaller,
    /// The one that the packet comes from.
    Source,
    /// The one that it goes to.
    Destination,
}

impl HashedFields {
    pub(super) fn of(affinity: Affinity) -> Self {
        const PORTS_AND_PROTOCOL: u64 = 0xff_ffff_ffff;
        const HAS_PORTS: u64 = 1 << 48;
        let kind = (AddressKind::Ipv4 as u64) << 40;
        match affinity {
            Affinity::FiveTuple => Self {
                addresses: u64::MAX,
                first: First::Smaller,
                ends: PORTS_AND_PROTOCOL,
                constant: kind | HAS_PORTS,
            },
            Affinity::IpPair => {
                Self { addresses: u64::MAX, first: First::Smaller, ends: 0, constant: kind }
            }
            Affinity::Source => {
                Self { addresses: u32::MAX.into(), first: First::Source, ends: 0, constant: kind }
            }
            Affinity::Destination => {
                let first = First::Destination;
                Self { addresses: u32::MAX.into(), first, ends: 0, constant: kind }
            }
        }
    }
}
