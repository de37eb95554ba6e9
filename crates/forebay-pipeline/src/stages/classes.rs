//! Keeps classes of a group's packets within limits, before a sensor is chosen for them.
//!
//! A packet is of the first class that selects it. Policies and limits are those of sensors
//! ([`forebay_flow::shed`]), with states of their own. Limits are common to all workers.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_flow::FlowRecord;
use forebay_flow::shed::{LEAST_BPS, LEAST_PPS, Limit, OnOverload, Rates};
use forebay_packet::{Batch, LiveMask};
use forebay_rules::language::load::Selection;
use forebay_rules::language::{Direction, Format, Unsupported};
use serde::Deserialize;
use toml::Value;

use super::flow_states::{self, FlowStates};
use super::selector::{ClassMembers, ClassSelector};
use super::shed;
use super::shedders::{Limited, Shedders};
use crate::optional::{OptionalStage, Place, StageConfig, StageParts};
use crate::remarks::Remarks;
use crate::shared_flows::SharedFlows;
use crate::stage::{Outbox, Promises, Setting, Settings, Stage, StageError};
use crate::units;

/// The key `class`.
pub(super) static STAGE: OptionalStage = OptionalStage {
    key: "class",
    help: "Classes of packets with limits of their own, for all sensors together. Each has a `name`,\n\
           a `filter` or a file of `rules` that passes its packets, a `limit_pps` or `limit_bps` or\n\
           both, and the policy `on_overload` by which packets beyond them are dropped. A packet is\n\
           of the first class that selects it. [[group.class]] is the same with a line for each key.",
    example: "[{ name = \"dns\", filter = \"udp port 53\", limit_pps = \"50k\", on_overload = \"fair\" }]",
    place: Place::BehindFragments,
    needs: &[&super::flows::STAGE],
    keys: true,
    read: |value| Classes::read(value).map(|classes| Arc::new(classes) as _),
};

const EXPECTED: &str = "expected a list of tables with `name`, `filter` or `rules`, `limit_pps` or \
                        `limit_bps`, and `on_overload`";

/// The most classes of a group.
const MOST: usize = 16;

/// Names in the ledger, in the order of [`forebay_flow::shed::Shed::ALL`].
const DROPS: [&str; 6] =
    ["class_tail", "class_new_flow", "class_fair", "class_red", "class_drr", "class_limit"];

/// Where the packets of a class are described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembersText {
    /// A pcap expression.
    Filter(String),
    /// The file of a rule list that passes them, and which of its lists.
    Rules(PathBuf, Selection),
}

/// A class as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Its name.
    pub name: String,
    /// Its packets.
    pub members: MembersText,
    /// What all workers may pass of them.
    pub rates: Rates,
    /// What is dropped of what is more.
    pub on_overload: OnOverload,
}

/// The classes of a group as they are configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(pub Vec<ClassConfig>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClass {
    name: String,
    filter: Option<String>,
    rules: Option<PathBuf>,
    rules_format: Option<String>,
    rule_list: Option<String>,
    rules_table: Option<String>,
    rules_interface: Option<String>,
    rules_direction: Option<String>,
    rules_unsupported: Option<String>,
    #[serde(default)]
    rules_ipv6: bool,
    limit_pps: Option<Value>,
    limit_bps: Option<Value>,
    on_overload: String,
}

impl Classes {
    /// Reads the value of the key.
    fn read(value: &Value) -> Result<Self, String> {
        let Value::Array(list) = value else { return Err(EXPECTED.into()) };
        if list.is_empty() || list.len() > MOST {
            return Err(format!("{} classes: expected 1 to {MOST}", list.len()));
        }
        let mut classes: Vec<ClassConfig> = Vec::new();
        for (i, value) in list.iter().enumerate() {
            let raw: RawClass = value.clone().try_into().map_err(|error: toml::de::Error| {
                format!("class {}: {}; {EXPECTED}", i + 1, error.message())
            })?;
            let name = raw.name.clone();
            let class = ClassConfig::new(raw).map_err(|what| format!("class `{name}`: {what}"))?;
            if classes.iter().any(|other| other.name == name) {
                return Err(format!("a second class named `{name}`"));
            }
            classes.push(class);
        }
        Ok(Self(classes))
    }
}

impl ClassConfig {
    fn new(raw: RawClass) -> Result<Self, String> {
        let selection = selection(&raw)?;
        let RawClass { name, filter, rules, limit_pps, limit_bps, on_overload, .. } = raw;
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 32 || !name.chars().all(fits) {
            return Err("expected a name of 1 to 32 letters, digits, `-`, `_` and `.`".into());
        }
        let members = match (filter, rules) {
            (Some(filter), None) if selection == Selection::default() => {
                MembersText::Filter(filter)
            }
            (None, Some(file)) => MembersText::Rules(file, selection),
            (Some(_), None) => return Err("keys of a rule list, but no file of `rules`".into()),
            _ => return Err("expected one of `filter` and `rules`".into()),
        };
        let rates = Rates {
            pps: limit("limit_pps", limit_pps, LEAST_PPS)?,
            bps: limit("limit_bps", limit_bps, LEAST_BPS)?,
        };
        if rates == Rates::default() {
            return Err("expected `limit_pps` or `limit_bps`".into());
        }
        let policy = shed::named(&on_overload).filter(|policy| *policy != OnOverload::None);
        let on_overload = policy.ok_or_else(|| {
            let names = shed::names(&OnOverload::ALL[1..]);
            format!("`on_overload` `{on_overload}`: expected {names}")
        })?;
        Ok(Self { name, members, rates, on_overload })
    }
}

/// Which list of a file is meant, by the keys that the broker's own list has.
fn selection(raw: &RawClass) -> Result<Selection, String> {
    Ok(Selection {
        format: choice("rules_format", &raw.rules_format, Format::NAMES)?.unwrap_or_default(),
        list: raw.rule_list.clone(),
        table: raw.rules_table.clone(),
        interface: raw.rules_interface.clone(),
        direction: choice("rules_direction", &raw.rules_direction, Direction::NAMES)?,
        unsupported: choice("rules_unsupported", &raw.rules_unsupported, Unsupported::NAMES)?
            .unwrap_or_default(),
        ipv6: raw.rules_ipv6,
    })
}

fn choice<T: Copy, const N: usize>(
    key: &str,
    text: &Option<String>,
    names: [(&str, T, &str); N],
) -> Result<Option<T>, String> {
    let Some(text) = text else { return Ok(None) };
    let chosen = names.iter().find(|(name, ..)| name == text).map(|(_, value, _)| *value);
    let expected = || names.map(|(name, ..)| format!("`{name}`")).join(", ");
    chosen.map(Some).ok_or_else(|| format!("`{key}` `{text}`: expected one of {}", expected()))
}

/// Reads a limit a second.
fn limit(key: &str, value: Option<Value>, least: u64) -> Result<Option<u64>, String> {
    let Some(value) = value else { return Ok(None) };
    let text = match value {
        Value::Integer(number) => number.to_string(),
        Value::String(text) => text,
        _ => return Err(format!("`{key}`: expected a number, or text like \"2G\"")),
    };
    let limit = units::rate(&text).map_err(|error| format!("`{key}`: {error}"))?;
    if limit < least {
        return Err(format!("`{key}` {limit}: expected at least {least}"));
    }
    Ok(Some(limit))
}

impl Setting for Classes {}

impl StageConfig for Classes {
    fn build(&self, parts: &StageParts) -> Option<Box<dyn Stage>> {
        Some(Box::new(ClassLimits::new(parts.flows.clone())))
    }

    fn settings(&self) -> Settings {
        Settings::new().with(self.clone())
    }

    fn memory_bytes(&self) -> u64 {
        flow_states::MOST_BYTES + shed::MOST_BYTES
    }
}

/// A class in force.
#[derive(Clone)]
pub struct Class {
    /// Its packets.
    pub members: ClassMembers,
    /// Its policy.
    pub on_overload: OnOverload,
    /// Its limit, for all workers.
    pub limit: Arc<Limit>,
}

/// The classes in force.
#[derive(Clone, Default)]
pub struct ClassShedding(pub Vec<Class>);

impl Setting for ClassShedding {}

/// Drops what is beyond the limits of classes, by their policies.
pub struct ClassLimits {
    flows: SharedFlows,
    selectors: Vec<ClassSelector>,
    shedders: Shedders,
    states: FlowStates,
    /// The class of each packet of the batch.
    classes: Vec<Option<usize>>,
    /// The verdicts of the batch, while classes have it for theirs.
    verdicts: Vec<u32>,
    /// Packets for whose link type the filter of a class is wrong, once for each such class.
    wrong_link_type: u64,
    now: u64,
}

impl ClassLimits {
    /// Drops nothing until it has [`ClassShedding`]. `flows` are the records of the chain.
    #[must_use]
    pub fn new(flows: SharedFlows) -> Self {
        Self {
            flows,
            selectors: Vec::new(),
            shedders: Shedders::default(),
            states: FlowStates::default(),
            classes: Vec::new(),
            verdicts: Vec::new(),
            wrong_link_type: 0,
            now: 0,
        }
    }

    /// Finds the class of each packet. A class whose filter is wrong for the link type of a packet
    /// has none of the batch, which is counted.
    fn classify(&mut self, batch: &mut Batch) {
        mem::swap(&mut batch.verdict, &mut self.verdicts);
        self.classes.clear();
        self.classes.resize(batch.len(), None);
        for (class, selector) in self.selectors.iter_mut().enumerate().rev() {
            match selector.select(batch) {
                Ok(selected) => selected.iter().for_each(|i| self.classes[i] = Some(class)),
                Err(_) => self.wrong_link_type += batch.live().count() as u64,
            }
        }
        mem::swap(&mut batch.verdict, &mut self.verdicts);
    }
}

/// Whether the output of the flow of packet `i` is known, in its direction.
fn has_output(record: &FlowRecord, batch: &Batch, i: usize) -> bool {
    record.outputs()[usize::from(batch.reversed[i] != record.a_is_high())].is_some()
}

impl Stage for ClassLimits {
    fn name(&self) -> &'static str {
        "classes"
    }

    fn drop_names(&self) -> &'static [&'static str] {
        &DROPS
    }

    fn promises(&self) -> Promises {
        Promises { packets_unchanged: true, order_kept: true, holds_nothing: true }
    }

    fn begin(&mut self, now: u64) {
        self.now = now;
    }

    fn process(&mut self, mut batch: Batch, out: &mut Outbox) -> Result<(), StageError> {
        if self.shedders.is_empty() {
            out.emit(batch);
            return Ok(());
        }
        self.classify(&mut batch);
        let Self { flows, shedders, states, classes, now, .. } = self;
        shedders.begin(*now, &batch, |i| classes[i]);
        let records = &mut *flows.lock();
        let mut shed = LiveMask::default();
        for i in batch.live().iter().filter(|&i| classes[i].is_some()) {
            let record = records.of(&batch, i);
            let has_output = record.as_ref().is_none_or(|record| has_output(record, &batch, i));
            if shedders.sheds(classes[i], record, Some(states), &mut batch, i) {
                shed.insert(i);
            } else if !has_output {
                // The first packet may have been shed: this one has the flow's sensor noted.
                batch.first.insert(i);
            }
        }
        shedders.end(&shed, &mut batch, out);
        out.emit(batch);
        Ok(())
    }

    fn remarks(&self) -> Remarks {
        Remarks::from([("class_wrong_link_type", self.wrong_link_type)])
    }

    fn reload(&mut self, settings: &Settings) {
        let Some(ClassShedding(classes)) = settings.get() else { return };
        self.selectors = classes.iter().map(|class| class.members.selector()).collect();
        let limits: Vec<Limited> =
            classes.iter().map(|class| (class.on_overload, Arc::clone(&class.limit))).collect();
        self.shedders.set(limits.iter().map(Some));
    }
}
