//! What was measured, and the questions asked of it.

use serde_json::{Map, Value, json};

use super::arrival::SinkKind;
use super::cores::Cores;
use super::loss_free::LossFree;
use super::measure::{Capacity, Offered, SendingCost};
use super::traffic::Size;
use crate::record::Row;
use crate::stats::{Sample, rounded};

/// A part of the suite, in the record's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// What arrives at the most.
    Capacity,
    /// The highest rate without loss.
    LossFree,
    /// Losses at 0.4 million frames a second.
    Steady,
    /// Losses at the rate of the paper's traffic.
    PaperRate,
}

impl Set {
    /// All.
    pub const ALL: [Self; 4] = [Self::Capacity, Self::LossFree, Self::Steady, Self::PaperRate];

    /// Its name in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::LossFree => "ndr",
            Self::Steady => "steady",
            Self::PaperRate => "paper-rate",
        }
    }
}

/// What was measured of a forwarder with frames of a size into a sink.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The size, and what a frame has on average.
    pub size: Size,
    pub mean: f64,
    /// Where frames arrived.
    pub sink: SinkKind,
    /// Who forwarded, without the sink's suffix.
    pub engine: String,
    /// Whether packets left the kernel.
    pub user_space: bool,
    /// By round.
    pub capacity: Vec<Capacity>,
    /// The highest rate without loss, where it was looked for.
    pub loss_free: Option<LossFree>,
    /// Trials at given rates.
    pub steady: Vec<Offered>,
    pub paper_rate: Vec<Offered>,
}

impl Outcome {
    /// Nothing measured yet.
    pub fn new(size: Size, mean: f64, sink: SinkKind, engine: String, user_space: bool) -> Self {
        Self {
            size,
            mean,
            sink,
            engine,
            user_space,
            capacity: Vec::new(),
            loss_free: None,
            steady: Vec::new(),
            paper_rate: Vec::new(),
        }
    }

    /// Frames a second in each round.
    pub fn rates(&self) -> Vec<f64> {
        self.capacity.iter().map(|one| one.rate).collect()
    }

    /// The median of the rounds' frames a second; NaN without any.
    pub fn rate(&self) -> f64 {
        Sample::new(self.rates()).median()
    }

    /// The median of the rounds' nanoseconds of processors a frame.
    pub fn cpu_ns(&self) -> f64 {
        Sample::new(self.capacity.iter().map(|one| one.cpu_ns).collect()).median()
    }

    /// Gigabits a second that so many frames a second are, check sequences included.
    pub fn gigabits(&self, rate: f64) -> f64 {
        rate * self.mean * 8.0 / 1e9
    }

    /// This one's capacity in the other's: the median over rounds, and the spread.
    pub fn ratio_to(&self, other: &Self) -> Sample {
        let pairs = self.capacity.iter().zip(&other.capacity);
        Sample::new(pairs.map(|(ours, theirs)| ours.rate / theirs.rate).collect())
    }

    /// The rows of the record.
    fn rows(&self, bridge: Option<&Self>, cores: &Cores) -> Vec<Row> {
        let mut rows = Vec::new();
        if !self.capacity.is_empty() {
            let losses = self.capacity.iter().map(|one| one.loss).collect();
            let mut row = self.row(Set::Capacity, &self.rates(), cores);
            let mut add = |key: &str, value: Value| row.more.insert(key.to_owned(), value);
            add("loss", json!(rounded(Sample::new(losses).median())));
            add("cpu_ns", json!(rounded(self.cpu_ns())));
            let receivers = self.capacity.last().map(|one| one.receivers.clone());
            add("receiving_cores", json!(receivers));
            if let Some(bridge) = bridge {
                let ratios = self.ratio_to(bridge);
                add("ratio_to_bridge", json!(rounded(ratios.median())));
                add("ratio_spread", json!(ratios.spread().map(rounded)));
            }
            rows.push(row);
        }
        if let Some(found) = &self.loss_free {
            rows.push(self.trial_row(Set::LossFree, &found.trials, cores));
        }
        for (set, trials) in [(Set::Steady, &self.steady), (Set::PaperRate, &self.paper_rate)] {
            if !trials.is_empty() {
                rows.push(self.trial_row(set, trials, cores));
            }
        }
        rows
    }

    /// A row of rates.
    fn row(&self, set: Set, rates: &[f64], cores: &Cores) -> Row {
        let rate = (!rates.is_empty()).then(|| Sample::new(rates.to_vec()).median());
        let nanos = Sample::new(rates.iter().map(|rate| 1e9 / rate).collect());
        let mut more = Map::new();
        more.insert("pps".into(), json!(rate.map(rounded)));
        more.insert("gbps".into(), json!(rate.map(|rate| rounded(self.gigabits(rate)))));
        more.insert("sink".into(), json!(self.sink.to_string()));
        more.insert("generator_core".into(), json!(cores.generator));
        let workers = if self.user_space { cores.workers.as_slice() } else { &[] };
        more.insert("worker_cores".into(), json!(workers));
        Row {
            case: self.size.to_string(),
            set: set.name().to_owned(),
            engine: format!("{}{}", self.engine, self.sink.suffix()),
            ns: rate.map(|rate| rounded(1e9 / rate)),
            cycles: None,
            n: rates.len(),
            spread: rate.map(|_| nanos.spread().map(rounded)),
            more,
        }
    }

    fn trial_row(&self, set: Set, trials: &[Offered], cores: &Cores) -> Row {
        let rates: Vec<f64> = trials.iter().map(|offered| offered.rate).collect();
        let mut row = self.row(set, &rates, cores);
        row.more.insert("loss".into(), json!(loss_of(trials).map(rounded)));
        let without = trials.iter().filter(|offered| offered.lost == 0).count();
        row.more.insert("trials_without_loss".into(), json!(without));
        row
    }
}

/// The part of all frames that was lost.
pub fn loss_of(trials: &[Offered]) -> Option<f64> {
    let sum = |of: fn(&Offered) -> u64| trials.iter().map(of).sum::<u64>() as f64;
    (!trials.is_empty()).then(|| sum(|offered| offered.lost) / sum(|offered| offered.sent))
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// By size, sink and forwarder, in the order of the suite.
    pub outcomes: Vec<Outcome>,
    /// What sending cost, by size.
    pub sending: Vec<(Size, SendingCost)>,
    /// Forwarders that could not take part.
    pub missing: Vec<String>,
}

impl Results {
    /// What was measured of `engine`.
    pub fn of(&self, engine: &str, size: Size, sink: SinkKind) -> Option<&Outcome> {
        let mut all = self.outcomes.iter();
        all.find(|one| (one.engine.as_str(), one.size, one.sink) == (engine, size, sink))
    }

    /// The port in user space with the greatest capacity, of those that send by the same kind
    /// of interface as the kernel does: no TAP device.
    pub fn best_user_space(&self, size: Size, sink: SinkKind) -> Option<&Outcome> {
        let all = self.outcomes.iter().filter(|one| one.user_space && !one.capacity.is_empty());
        let here = all.filter(|one| (one.size, one.sink) == (size, sink));
        let alike = here.filter(|one| !one.engine.starts_with("tap"));
        alike.max_by(|a, b| a.rate().total_cmp(&b.rate()))
    }

    /// Sizes, in order.
    pub fn sizes(&self) -> Vec<Size> {
        let mut sizes: Vec<Size> = self.outcomes.iter().map(|one| one.size).collect();
        sizes.dedup();
        sizes
    }

    /// Forwarders, in order.
    pub fn engines(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for one in &self.outcomes {
            if !names.contains(&one.engine.as_str()) {
                names.push(&one.engine);
            }
        }
        names
    }

    /// The rows of the record.
    pub fn rows(&self, cores: &Cores) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for one in &self.outcomes {
            let bridge = self.of("bridge", one.size, one.sink);
            rows.extend(one.rows(bridge.filter(|bridge| !bridge.capacity.is_empty()), cores));
        }
        rows.extend(self.sending.iter().map(|(size, cost)| Row {
            case: size.to_string(),
            set: Set::Capacity.name().to_owned(),
            engine: "generator".to_owned(),
            ns: Some(rounded(cost.a_frame)),
            cycles: None,
            n: 1,
            spread: None,
            more: [("pause_ns".to_owned(), json!(rounded(cost.a_pause)))].into_iter().collect(),
        }));
        for engine in &self.missing {
            rows.extend(self.sizes().into_iter().map(|size| Row {
                case: size.to_string(),
                set: Set::Capacity.name().to_owned(),
                engine: engine.clone(),
                ns: None,
                cycles: None,
                n: 0,
                spread: None,
                more: Map::new(),
            }));
        }
        rows
    }
}

/// An outcome of those rates, for tests.
#[cfg(test)]
pub fn outcome(engine: &str, size: Size, sink: SinkKind, rates: &[f64]) -> Outcome {
    let mean = if let Size::Bytes(bytes) = size { bytes as f64 } else { 354.0 };
    let user_space = engine.starts_with("af_");
    let capacity = rates
        .iter()
        .map(|&rate| Capacity { rate, loss: 0.0, cpu_ns: 1e9 / rate, receivers: vec![0] })
        .collect();
    Outcome { capacity, ..Outcome::new(size, mean, sink, engine.to_owned(), user_space) }
}
