//! The formats of captures.

/// A capture format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// pcap where it fits, else pcapng.
    Auto,
    /// One link type, a clock of micro- or nanoseconds.
    Pcap,
    /// Any number of interfaces, each with its link type and clock.
    Pcapng,
}
