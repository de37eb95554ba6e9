//! The content of a report, as plain data.
//!
//! It has no types of other crates, so the page can be generated, and tested, without a
//! capture. Every field may have any value: odd input gives an odd page, but always a valid
//! one.

use serde::{Serialize, Serializer};

/// The result of splitting one input over sensors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SplitReport {
    /// Heading of the page, such as `office.pcap over 4 sensors`.
    pub title: String,
    /// Names of the inputs, as the user gave them.
    pub inputs: Vec<String>,
    /// Options of note, in order: `("filter", "tcp port 80")`, `("key", "5tuple")`.
    pub options: Vec<(String, String)>,
    /// Program and version, for the foot of the page.
    pub generator: String,
    /// Earliest time stamp, in nanoseconds since the Unix epoch; `None` without packets.
    pub start_ns: Option<i64>,
    /// Latest time stamp, in nanoseconds since the Unix epoch; `None` without packets.
    pub end_ns: Option<i64>,
    /// Sums over the whole run.
    pub totals: Totals,
    /// The sensors, in the order of their numbers.
    pub sensors: Vec<SensorLoad>,
    /// How the load was assigned.
    pub balance: Balancing,
    /// How even the split is.
    pub imbalance: Imbalance,
    /// Load over time.
    pub series: TimeSeries,
    /// The largest flows, largest first.
    pub top_flows: Vec<TopFlow>,
    /// The account of every packet, a row for each stage in pipeline order.
    pub ledger: Vec<LedgerRow>,
    /// Remarks: fragments without a first one, unknown link types.
    pub notes: Vec<String>,
    /// Why the run ended before the end of its input, if it did.
    pub error: Option<String>,
}

impl SplitReport {
    /// Nanoseconds from the earliest to the latest packet; 0 without packets.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        match (self.start_ns, self.end_ns) {
            (Some(start), Some(end)) if end > start => end.abs_diff(start),
            _ => 0,
        }
    }
}

/// Sums over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Packets read.
    pub packets_in: u64,
    /// Packets written to sensors.
    pub packets_out: u64,
    /// Wire bytes read.
    pub bytes_in: u64,
    /// Wire bytes written to sensors.
    pub bytes_out: u64,
    /// Flows among the packets written.
    pub flows: u64,
}

/// The load of one sensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SensorLoad {
    /// Name of the sensor.
    pub name: String,
    /// The capture written for it.
    pub file: String,
    /// The configured weight, 1 by default.
    pub weight: f64,
    /// Packets.
    pub packets: u64,
    /// Wire bytes.
    pub bytes: u64,
    /// Flows.
    pub flows: u64,
    /// Its fair share of the whole, 0 to 1: weight over the sum of weights.
    pub share_target: f64,
    /// Its packets divided by its fair share of all packets; `None` if there are none.
    pub packets_of_share: Option<f64>,
    /// Its bytes divided by its fair share of all bytes; likewise.
    pub bytes_of_share: Option<f64>,
}

/// The assigned load. A unit is the traffic that must stay together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Balancing {
    /// `hash`, `packets` or `bytes`.
    pub by: &'static str,
    /// Units that were counted and assigned separately; `None` for assignment by hash, like
    /// the other fields.
    pub units: Option<u64>,
    /// Packets or bytes of the largest unit.
    pub largest_unit: Option<u64>,
    /// Packets or bytes of small units that were assigned by hash bucket.
    pub in_buckets: Option<u64>,
}

/// How even the split is, by each measure of load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Imbalance {
    /// By packets.
    pub packets: Spread,
    /// By wire bytes.
    pub bytes: Spread,
    /// By flows.
    pub flows: Spread,
}

/// The busiest sensor against its fair share: max/mean, by weight. 1 is a perfect split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The measured value; `None` if there was no load.
    pub measured: Option<f64>,
    /// Mean over random assignments of the same flows.
    pub expected: Option<f64>,
    /// 95th percentile over random assignments of the same flows.
    pub expected_p95: Option<f64>,
    /// A lower bound for any assignment of the same flows: the largest flow at the sensor
    /// with the largest share.
    pub bound: Option<f64>,
}

/// Load per sensor in equal steps of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeSeries {
    /// Length of a bucket in nanoseconds; 0 if there is no series.
    pub width_ns: u64,
    /// `packets[sensor][bucket]`. Buckets start at the report's `start_ns`.
    pub packets: Vec<Vec<u64>>,
    /// `bytes[sensor][bucket]`.
    pub bytes: Vec<Vec<u64>>,
}

/// One of the largest flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TopFlow {
    /// Community ID v1, if the protocol has one.
    pub community_id: Option<String>,
    /// Name of the protocol: `tcp`.
    pub protocol: String,
    /// The protocol's name in the list of flows.
    pub proto: String,
    /// One endpoint, address and port.
    pub a: String,
    /// The other endpoint.
    pub b: String,
    /// Address and port of each, separately.
    #[serde(flatten)]
    pub ends: serde_json::Map<String, serde_json::Value>,
    /// Packets both ways.
    pub packets: u64,
    /// Wire bytes both ways.
    pub bytes: u64,
    /// Index of its sensor.
    pub sensor: usize,
    /// First packet, nanoseconds since the Unix epoch.
    pub first_ns: i64,
    /// Last packet, nanoseconds since the Unix epoch.
    pub last_ns: i64,
}

/// The account of one stage: `in + copies + injected = out + drops + held`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerRow {
    /// Name of the stage.
    pub stage: String,
    /// Packets taken in.
    #[serde(rename = "in")]
    pub in_: u64,
    /// Packets added by passing one packet to several outputs.
    pub copies: u64,
    /// Packets that the stage generated.
    pub injected: u64,
    /// Packets passed on.
    pub out: u64,
    /// Packets dropped, by cause.
    #[serde(serialize_with = "as_map")]
    pub drops: Vec<(String, u64)>,
    /// Packets still held when the run ended.
    pub held: u64,
    /// Whether the stage's own account closes.
    pub closes: bool,
}

impl LedgerRow {
    /// All drops.
    #[must_use]
    pub fn dropped(&self) -> u128 {
        self.drops.iter().map(|(_, count)| u128::from(*count)).sum()
    }

    /// Packets that entered the stage.
    #[must_use]
    pub fn came(&self) -> u128 {
        u128::from(self.in_) + u128::from(self.copies) + u128::from(self.injected)
    }

    /// Packets with a known result.
    #[must_use]
    pub fn accounted(&self) -> u128 {
        u128::from(self.out) + self.dropped() + u128::from(self.held)
    }

    /// Whether the stage reports a closed account and the numbers agree.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.closes && self.came() == self.accounted()
    }
}

fn as_map<S: Serializer>(drops: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(drops.iter().map(|(name, count)| (name, count)))
}
