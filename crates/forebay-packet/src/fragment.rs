//! Fragments of IP datagrams: of which datagram, and which part of it.

/// Names a datagram whose fragments belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentKey {
    /// Source address.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Digest of VLAN and tunnel identifiers, 0 where they are not in the key.
    pub scope: u64,
    /// Identification: 16 bits in IPv4, 32 in IPv6.
    pub id: u32,
    /// IP protocol of the datagram; 0 in IPv6, where RFC 8200 section 4.5
    /// leaves it out of what identifies a datagram.
    pub protocol: u8,
    /// Whether the addresses are IPv6.
    pub ipv6: bool,
}

/// What a fragment means for its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FragmentRole {
    /// The first fragment: where this packet goes, the others go.
    First,
    /// A later fragment: it is of the first's flow and goes where that goes.
    Later,
    /// An ICMP error that quotes a later fragment: it goes where the first goes,
    /// but is a flow of its own.
    Quoted,
}

/// The part of a datagram that a fragment holds, as its IP header declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentSpan {
    /// Where it starts, in units of 8 bytes.
    pub start: u16,
    /// Where it ends, in units of 8 bytes, rounded up.
    pub end: u16,
    /// Nothing follows it.
    pub last: bool,
}

/// A fragment that a packet is or carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// What it means for its datagram.
    pub role: FragmentRole,
    /// The datagram.
    pub key: FragmentKey,
    /// The part.
    pub span: FragmentSpan,
}

/// What the classifier notes of a fragment in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FragmentNote {
    /// Index of the packet in its batch.
    pub packet: u16,
    /// First or later.
    pub role: FragmentRole,
    /// The datagram.
    pub key: FragmentKey,
    /// The part of it.
    pub span: FragmentSpan,
}
