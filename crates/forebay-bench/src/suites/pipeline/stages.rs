//! Workers with all stages, or only the first.

use std::sync::Arc;

use crate::named::named;
use forebay_balance::moves::{self, RecordLimits, WorkerTable};
use forebay_balance::{Assignment, BucketTable};
use forebay_broker::Clock;
use forebay_broker::route::Route;
use forebay_broker::worker::{Input, Output, Worker};
use forebay_flow::{FlowRecord, FlowTable};
use forebay_io::{Rx, Tx};
use forebay_jit::FilterSet;
use forebay_packet::flow::AddressKind;
use forebay_packet::random::Random;
use forebay_packet::{Affinity, Decoder, FlowKey, HashKey, MacAddress, Rewrite};
use forebay_pipeline::stages::{
    Classify, CompiledRules, CompiledScan, Filter, FlowOverride, Flows, FlowsOptions, LiveBalance,
    LiveFragments, OPTIONAL, OverriddenFlow, OverrideEntry, OverrideTable, Overrides, Rules, Scan,
    Shed,
};
use forebay_pipeline::{
    Branch, Chain, Fork, GroupStages, RecordExport, RecordSink, Settings, SharedFlows,
};

/// Sensors that the packets are spread over.
const SENSORS: u16 = 4;

/// Records of flows, at most: more than there are.
const MOST_FLOWS: usize = 1 << 20;

/// Nanoseconds that keys of moving buckets are kept; no bucket moves.
const HOLD: u64 = 2_000_000_000;

named! {
    /// The stages of a worker.
    pub enum Stage {
        /// Taken from the port, and through stages that do nothing.
        Rx = "rx",
        /// Filtered.
        Filter = "filter",
        /// Matched against the rules.
        Rules = "rules",
        /// Payloads scanned for literals.
        Scan = "scan",
        /// Headers decoded, flow hashed.
        Classify = "classify",
        /// Fragments joined: there are none. No flow is shunted by hand.
        Fragments = "fragments",
        /// The same with flows of others that are shunted by hand.
        Overrides = "overrides",
        /// The flow's record found and counted, held against the cutoff.
        Flows = "flows",
        /// The bucket found and counted.
        Balance = "balance",
        /// Written to the sink with the sensor's addresses.
        Tx = "tx",
    }
}

pub struct Setup {
    pub filter: FilterSet,
    /// The rules, where the case has any.
    pub compiled_rules: Option<CompiledRules>,
    pub decoder: Decoder,
    pub hash_key: HashKey,
    /// Whether a flow is a transport connection.
    pub connections: bool,
    /// Table and counters.
    pub forwarding: Arc<WorkerTable>,
    /// The records of flows, where the case has any.
    pub flows: Option<KeptFlows>,
    /// What payloads are scanned for, where the case has that.
    pub scan: Option<Arc<CompiledScan>>,
    /// The flows that are shunted by hand, where the case has any.
    pub shunted: Option<Arc<OverrideTable>>,
}

/// Records of flows, from run to run.
#[derive(Clone, Debug, Default)]
pub struct KeptFlows(SharedFlows);

impl RecordSink for KeptFlows {
    fn offer(&self, _: &mut Vec<FlowRecord>) {}

    fn retire(&self, table: FlowTable) {
        self.0.lock().table = Some(table);
    }
}

impl KeptFlows {
    /// The stage, for so many flows at most.
    fn stage(&self, flows: usize) -> Flows {
        Flows::new(FlowsOptions { flows, ..FlowsOptions::default() }, self.0.clone())
    }

    /// Records are kept, and a cutoff is set that no flow reaches.
    fn settings(&self) -> Settings {
        let mut stages = GroupStages::default();
        let cutoff = OPTIONAL.iter().find(|stage| stage.key == "cutoff").expect("the key");
        let value = toml::Table::from_iter([("bytes".to_owned(), "1024GiB".into())]);
        stages.add(cutoff, value.into()).expect("a value of the key");
        Settings::new().with(stages).with(RecordExport(Some(Arc::new(self.clone()))))
    }
}

pub fn assignment() -> Assignment {
    Assignment::of_weights(&[1; SENSORS as usize]).expect("a few sensors of equal weight")
}

/// A table of settled buckets, and counters.
pub fn forwarding(assignment: &Assignment) -> Arc<WorkerTable> {
    let table = BucketTable::new(assignment);
    Arc::new(WorkerTable::new(table, 1, HOLD, RecordLimits::default()))
}

impl Setup {
    /// A worker that takes packets from `rx` through the stages up to `last`. Packets are sent
    /// only if that is the last stage of all.
    pub fn worker(&self, last: Stage, rx: impl Rx + 'static, tx: impl Tx + 'static) -> Worker {
        let upto = |stage: Stage| stage <= last;
        let mut trunk = Chain::new();
        if upto(Stage::Filter) {
            trunk = trunk.with(Filter::new(self.filter.clone()));
        }
        if let Some(compiled_rules) = self.compiled_rules.as_ref().filter(|_| upto(Stage::Rules)) {
            trunk = trunk.with(Rules::new(compiled_rules.clone()));
        }
        if let Some(compiled) = self.scan.as_ref().filter(|_| upto(Stage::Scan)) {
            trunk = trunk.with(Scan::optional(Some(Arc::clone(compiled)), self.hash_key));
        }
        let mut branch = Chain::new();
        if upto(Stage::Classify) {
            branch = branch.with(Filter::optional(None));
            branch = branch.with(Classify::hashing(self.decoder, self.hash_key));
        }
        if upto(Stage::Fragments) {
            branch = branch.with(LiveFragments::new(self.hash_key));
            let stage = Overrides::new(self.decoder, Affinity::FiveTuple, self.hash_key);
            let shunted = self.shunted.as_ref().filter(|_| upto(Stage::Overrides));
            let table = shunted.cloned().unwrap_or_default();
            branch = branch.with(stage).configured(&Settings::new().with(table));
        }
        if let Some(flows) = self.flows.as_ref().filter(|_| upto(Stage::Flows)) {
            branch = branch.with(flows.stage(MOST_FLOWS));
        }
        if upto(Stage::Balance) {
            let worker = moves::Worker::new(Arc::clone(&self.forwarding), 0);
            branch =
                branch.with(LiveBalance::new(Box::new(worker), self.decoder, self.connections));
            // As behind each `flows` of a broker: it notes the sensors of flows.
            if let Some(KeptFlows(flows)) = &self.flows {
                branch = branch.with(Shed::new(flows.clone()));
            }
        }
        if let Some(flows) = &self.flows {
            branch = branch.configured(&flows.settings());
        }
        let route = if upto(Stage::Tx) { route() } else { Route::default() };
        let input = Input { name: "mem".to_owned(), port: Box::new(rx), to: None };
        let output = Output { name: "mem".to_owned(), port: Box::new(tx) };
        let fork = Fork::new(vec![Branch::new("sensors", branch)]);
        Worker::new(vec![input], trunk, fork, vec![route], vec![output], Clock::default(), true)
    }
}

/// So many flows that are shunted by hand, to none of which a packet belongs.
pub fn shunted(flows: usize, hash_key: &HashKey) -> Arc<OverrideTable> {
    let mut random = Random::new(flows as u64);
    let entry = |number: usize| {
        // No packet is from a port below these.
        let (ends, port) = (random.next(), (number % 1000) as u16);
        let (low, high) = (u128::from(ends as u32), u128::from(ends >> 32));
        let (key, _) = FlowKey::two_way(AddressKind::Ipv4, 6, (low, port), (high, port));
        let key = FlowKey { has_ports: true, ..key };
        let flow = Arc::new(OverriddenFlow::new(key, FlowOverride::Shunt, u64::MAX));
        OverrideEntry { hash: Affinity::FiveTuple.hashes(&key, hash_key)[0], flow }
    };
    Arc::new(OverrideTable::new((0..flows).map(entry).collect()))
}

/// All sensors behind one output, each with an address of its own.
fn route() -> Route {
    let rewrite = |sensor: u16| Rewrite {
        destination: Some(MacAddress([2, 0, 0, 0, 1, sensor as u8])),
        source: Some(MacAddress([6, 0, 0, 0, 0, 1])),
        ..Rewrite::NONE
    };
    Route { outputs: vec![0; usize::from(SENSORS)], rewrites: (0..SENSORS).map(rewrite).collect() }
}
