//! Configuration of the generator, and its validation.

use std::fmt;
use std::str::FromStr;

use crate::framing::Framing;

/// The most packets of a capture: packet counts of a flow have 32 bits.
pub const MAX_PACKETS: u64 = u32::MAX as u64;

/// The most flows of one capture: the address plan has 23 bits of hosts.
pub const MAX_FLOWS: u64 = 1 << 23;

/// The highest mean rate: one packet a nanosecond, the tick of the clock.
pub const MAX_RATE: u64 = 1_000_000_000;

/// Bytes of the frame check sequence, which a capture does not hold.
pub(crate) const FCS: u16 = 4;

/// Classes of flows of the `paper` profile: TCP or UDP; with network and port at no end,
/// either alone at an end, both at one end, or at opposite ends.
pub(crate) const PAPER_CLASSES: usize = 10;

/// The kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// Realistic traffic: Zipf flows, TCP sessions, UDP, ICMP, IPv6, VLAN tags,
    /// tunnels, fragments and application payloads.
    #[default]
    Mix,
    /// UDP frames of one size over IPv4, each of a uniformly random flow.
    Uniform,
    /// Small frames matched by 13 filters in the proportions of table 1 of Yamashita and
    /// Tsuru, "Software Pipelining for Packet Filters" (HPCC 2007).
    Paper,
}

impl Profile {
    /// Every profile, the default first.
    pub const ALL: [Self; 3] = [Self::Mix, Self::Uniform, Self::Paper];

    /// The name accepted by [`FromStr`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mix => "mix",
            Self::Uniform => "uniform",
            Self::Paper => "paper",
        }
    }

    /// The default of [`Config::size`].
    #[must_use]
    pub fn default_size(self) -> u16 {
        match self {
            Self::Mix => 1514,
            Self::Uniform | Self::Paper => 64,
        }
    }

    /// The range of sizes, both ends included.
    ///
    /// The lower end of `mix` is the datagram that every IPv4 host must accept (RFC 791
    /// section 3.1), more than any header stack of the profile.
    #[must_use]
    pub fn sizes(self) -> (u16, u16) {
        match self {
            Self::Mix => (576, 9014),
            Self::Uniform | Self::Paper => (64, 9018),
        }
    }

    /// The fewest flows of a non-empty capture.
    #[must_use]
    pub fn min_flows(self) -> u64 {
        match self {
            Self::Mix | Self::Uniform => 1,
            // One of each combination of protocol, network and port.
            Self::Paper => PAPER_CLASSES as u64,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no [`Profile`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no traffic profile is called `{0}`; there are mix, uniform and paper")]
pub struct UnknownProfile(pub String);

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name() == text)
            .ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

/// Configuration of the generator. Equal configurations give equal bytes on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Packets to generate, exactly. 0 is an empty capture and needs 0 flows.
    pub packets: u64,
    /// Two-way flows to generate, exactly: each gets at least one packet.
    pub flows: u64,
    /// Selects one of 2^64 different captures.
    pub seed: u64,
    /// The kind of traffic.
    pub profile: Profile,
    /// What the frames are put into, which makes them longer.
    pub framing: Framing,
    /// `mix`: the longest captured frame in bytes, including tags and tunnels. `uniform`
    /// and `paper`: the length of every frame on the wire, including the frame check
    /// sequence, so that 64 gives 60 captured bytes. Default: [`Profile::default_size`].
    pub size: Option<u16>,
    /// Mean packets a second of the time stamps.
    pub rate_pps: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            packets: 100_000,
            flows: 10_000,
            seed: 1,
            profile: Profile::Mix,
            framing: Framing::Ethernet,
            size: None,
            rate_pps: 100_000,
        }
    }
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Each flow needs at least one packet.
    #[error("{flows} flows need at least {flows} packets, and {packets} were requested")]
    FlowsExceedPackets {
        /// Flows requested.
        flows: u64,
        /// Packets requested.
        packets: u64,
    },
    /// Packets must belong to flows, and a profile may need several kinds.
    #[error("the {profile} profile needs at least {min} flows, and {flows} were requested")]
    TooFewFlows {
        /// The profile.
        profile: Profile,
        /// Flows requested.
        flows: u64,
        /// The fewest flows.
        min: u64,
    },
    /// More than [`MAX_FLOWS`].
    #[error("{0} flows were requested; the maximum is {MAX_FLOWS}")]
    TooManyFlows(u64),
    /// More than [`MAX_PACKETS`].
    #[error("{0} packets were requested; the maximum is {MAX_PACKETS}")]
    TooManyPackets(u64),
    /// Outside [`Profile::sizes`].
    #[error("the {profile} profile takes sizes of {min} to {max} bytes, not {size}")]
    Size {
        /// The profile.
        profile: Profile,
        /// The requested size, in bytes.
        size: u16,
        /// The smallest size.
        min: u16,
        /// The largest size.
        max: u16,
    },
    /// Outside 1 to [`MAX_RATE`].
    #[error("a rate of {0} packets a second; it must be 1 to {MAX_RATE}")]
    Rate(u64),
}

impl Config {
    /// The requested size, or the profile's default.
    #[must_use]
    pub fn size_or_default(&self) -> u16 {
        self.size.unwrap_or(self.profile.default_size())
    }

    /// Validates the configuration.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Self { packets, flows, profile, rate_pps, .. } = *self;
        if packets > MAX_PACKETS {
            return Err(ConfigError::TooManyPackets(packets));
        }
        if flows > MAX_FLOWS {
            return Err(ConfigError::TooManyFlows(flows));
        }
        if flows > packets {
            return Err(ConfigError::FlowsExceedPackets { flows, packets });
        }
        let min = profile.min_flows();
        if packets > 0 && flows < min {
            return Err(ConfigError::TooFewFlows { profile, flows, min });
        }
        if rate_pps == 0 || rate_pps > MAX_RATE {
            return Err(ConfigError::Rate(rate_pps));
        }
        let (size, (min, max)) = (self.size_or_default(), profile.sizes());
        if size < min || size > max {
            return Err(ConfigError::Size { profile, size, min, max });
        }
        Ok(())
    }

    /// The duration of the capture at the mean rate, in nanoseconds.
    pub(crate) fn duration(&self) -> u64 {
        // At most 2^32 * 10^9: no overflow.
        self.packets * 1_000_000_000 / self.rate_pps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_print_and_parse() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        let error = "blend".parse::<Profile>().unwrap_err();
        assert!(error.to_string().contains("`blend`"));
        for profile in Profile::ALL {
            assert!(error.to_string().contains(profile.name()), "{error}");
        }
    }

    #[test]
    fn impossible_requests_are_refused() {
        let check = |config: Config| config.check().unwrap_err();
        let base = Config { packets: 100, flows: 10, ..Config::default() };
        assert_eq!(base.check(), Ok(()));
        assert_eq!(Config { packets: 0, flows: 0, ..base }.check(), Ok(()));
        assert_eq!(
            check(Config { flows: 101, ..base }),
            ConfigError::FlowsExceedPackets { flows: 101, packets: 100 }
        );
        let paper = Config { profile: Profile::Paper, flows: 3, ..base };
        assert!(matches!(check(paper), ConfigError::TooFewFlows { flows: 3, .. }));
        assert!(matches!(check(Config { flows: 0, ..base }), ConfigError::TooFewFlows { .. }));
        let many = Config { packets: MAX_PACKETS, flows: MAX_FLOWS + 1, ..base };
        assert_eq!(check(many), ConfigError::TooManyFlows(MAX_FLOWS + 1));
        let many = Config { packets: MAX_PACKETS + 1, ..base };
        assert_eq!(check(many), ConfigError::TooManyPackets(MAX_PACKETS + 1));
        assert_eq!(check(Config { rate_pps: 0, ..base }), ConfigError::Rate(0));
        assert!(matches!(check(Config { rate_pps: MAX_RATE + 1, ..base }), ConfigError::Rate(_)));
        let small = Config { size: Some(575), ..base };
        assert!(matches!(check(small), ConfigError::Size { size: 575, min: 576, .. }));
        let uniform = Config { profile: Profile::Uniform, size: Some(63), ..base };
        assert!(matches!(check(uniform), ConfigError::Size { size: 63, min: 64, .. }));
    }
}
