//! What became of frames, as counted.

/// An amount of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Frames.
    pub packets: u64,
    /// Bytes of them as received, without the check sequence.
    pub bytes: u64,
}

impl std::ops::AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

/// What became of frames since the maps were made. Read while frames come in,
/// `received` may be a few ahead of the outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Outcomes {
    /// All frames.
    pub received: Traffic,
    /// Redirected to sensors, all together.
    pub to_sensors: Traffic,
    /// Dropped by the filter.
    pub filtered: Traffic,
    /// Dropped by the group's filter.
    pub group_filtered: Traffic,
    /// Given to user space.
    pub to_user_space: Traffic,
    /// Dropped: the bucket's sensor does not exist.
    pub no_sensor: Traffic,
    /// Dropped: the sensor's slot holds no interface.
    pub no_interface: Traffic,
    /// Dropped: the queue's slot holds no socket.
    pub no_socket: Traffic,
    /// Dropped: no room before the frame for a VLAN tag.
    pub no_room: Traffic,
    /// Dropped: the flow is shunted by hand.
    pub shunted: Traffic,
    /// Packets whose key could not be put on record, for which the program cancelled
    /// the bucket's move.
    pub not_recorded: u64,
    /// Connections that had ended and began anew on another sensor.
    pub restarts: u64,
    /// Packets given to user space whose address pair could not be marked: a later
    /// packet may overtake them.
    pub not_marked: u64,
}

impl Outcomes {
    /// Whether every frame received has its outcome.
    #[must_use]
    pub fn closes(&self) -> bool {
        let mut sum = Traffic::default();
        for outcome in [
            self.to_sensors,
            self.filtered,
            self.group_filtered,
            self.to_user_space,
            self.no_sensor,
            self.no_interface,
            self.no_socket,
            self.no_room,
            self.shunted,
        ] {
            sum += outcome;
        }
        sum == self.received
    }
}
