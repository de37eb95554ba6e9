//! The two directions of a flow.

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the end that started the flow.
    ToServer,
    /// To that end.
    ToClient,
}

impl Direction {
    /// The opposite direction.
    #[must_use]
    pub fn reverse(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }

    /// 0 to the server, 1 to the client: an index into pairs by sender.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}
