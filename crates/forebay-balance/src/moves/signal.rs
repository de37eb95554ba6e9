//! Start and end of a connection, from TCP flags.

/// The signal of a TCP header about its connection.
///
/// Only for groups whose key is one connection. If a key is wider, such as a pair of
/// addresses, the end of one connection does not end the key: every packet is
/// [`TcpSignal::Nothing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TcpSignal {
    /// No signal, or not TCP.
    #[default]
    Nothing,
    /// SYN without ACK, FIN or RST.
    BareSyn,
    /// The key's low end sends no more.
    LowFin,
    /// The key's high end sends no more.
    HighFin,
    /// The connection is reset.
    Reset,
}

impl TcpSignal {
    /// The signal of TCP flags (RFC 9293, section 3.1: the byte with FIN as bit 0);
    /// `from_high` is whether the packet goes from its key's high end to its low end.
    #[must_use]
    pub fn of_flags(flags: u8, from_high: bool) -> Self {
        const FIN: u8 = 1;
        const SYN: u8 = 1 << 1;
        const RST: u8 = 1 << 2;
        const ACK: u8 = 1 << 4;
        if flags & RST != 0 {
            Self::Reset
        } else if flags & FIN != 0 {
            if from_high { Self::HighFin } else { Self::LowFin }
        } else if flags & (SYN | ACK) == SYN {
            Self::BareSyn
        } else {
            Self::Nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_the_rfc_has_them() {
        use TcpSignal::*;
        let cases = [
            (0x02, BareSyn),
            (0xc2, BareSyn),
            (0x12, Nothing),
            (0x10, Nothing),
            (0x18, Nothing),
            (0x11, LowFin),
            (0x01, LowFin),
            (0x03, LowFin),
            (0x04, Reset),
            (0x14, Reset),
            (0x07, Reset),
            (0x00, Nothing),
        ];
        for (flags, signal) in cases {
            assert_eq!(TcpSignal::of_flags(flags, false), signal, "{flags:#x}");
        }
        assert_eq!(TcpSignal::of_flags(0x11, true), HighFin);
    }
}
