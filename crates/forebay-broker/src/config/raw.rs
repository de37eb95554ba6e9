//! The configuration as it is written: the keys that there are, none of them judged.

use std::collections::BTreeMap;

use forebay_pipeline::OptionalStage;
use forebay_pipeline::stages::OPTIONAL;
use serde::Deserialize;
use toml::de::{DeTable, DeValue, Deserializer, Error, ValueDeserializer};
use toml::{Spanned, Value};

pub type Text = Spanned<String>;

/// A number, or text with a unit.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    Number(u64),
    Text(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    #[serde(default)]
    pub broker: Broker,
    #[serde(default)]
    pub flow: Flow,
    #[serde(default)]
    pub balance: Balance,
    #[serde(default)]
    pub health: Health,
    #[serde(default)]
    pub alarm: Alarm,
    pub filter: Option<Text>,
    pub rules: Option<Text>,
    pub rule_list: Option<Text>,
    pub rules_format: Option<Text>,
    pub rules_table: Option<Text>,
    pub rules_interface: Option<Text>,
    pub rules_direction: Option<Text>,
    pub rules_unsupported: Option<Text>,
    pub rules_ipv6: Option<Spanned<bool>>,
    pub scan: Option<Spanned<Scan>>,
    pub export: Option<Spanned<Export>>,
    #[serde(default)]
    pub input: Vec<Spanned<Port>>,
    #[serde(default)]
    pub output: Vec<Spanned<Port>>,
    #[serde(default)]
    pub group: Vec<Spanned<GroupTable>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Broker {
    pub workers: Option<Spanned<u64>>,
    pub busy_poll: Option<bool>,
    pub control: Option<Text>,
    pub metrics: Option<Text>,
    pub user: Option<Text>,
    pub reload_memory: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    pub tunnel_depth: Option<Spanned<u64>>,
    pub vlan_in_key: Option<Spanned<bool>>,
    pub idle_timeout: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Balance {
    pub interval: Option<Text>,
    pub emergency: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarm {
    pub loss: Option<Text>,
    pub window: Option<Text>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Health {
    pub hello_timeout: Option<Text>,
}

/// A file, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a file, or a list of files")]
pub enum Files {
    One(String),
    Several(Vec<String>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    pub literals: Option<Text>,
    pub rules: Option<Spanned<Files>>,
    #[serde(default)]
    pub variables: BTreeMap<String, Text>,
    pub nocase: Option<Spanned<bool>>,
    pub mode: Option<Text>,
    pub engine: Option<Text>,
    pub cache: Option<Text>,
    pub max_flows: Option<Spanned<u64>>,
    pub memory: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    #[serde(rename = "type")]
    pub kind: Option<Text>,
    pub path: Text,
    pub format: Option<Text>,
    pub rotate: Option<Spanned<Rotate>>,
    #[serde(default)]
    pub groups: Vec<Text>,
    pub queue: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    pub name: Text,
    #[serde(rename = "type")]
    pub kind: Text,
    pub interface: Option<Text>,
    pub file: Option<Text>,
    pub ring: Option<Text>,
    pub queues: Option<Spanned<u64>>,
    pub promiscuous: Option<Spanned<bool>>,
    pub wait: Option<Text>,
    pub send: Option<Text>,
    pub on_full: Option<Text>,
    pub rotate: Option<Spanned<Rotate>>,
    pub to: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotate {
    pub size: Option<Text>,
    pub every: Option<Text>,
    pub keep: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupTable {
    pub name: Text,
    pub filter: Option<Text>,
    pub key: Option<Text>,
    #[serde(default)]
    pub follow: Vec<Text>,
    pub output: Option<Text>,
    pub source_mac: Option<Text>,
    #[serde(default)]
    pub strip: Vec<Text>,
    pub slice: Option<Spanned<u64>>,
    pub annotate: Option<Spanned<Annotate>>,
    pub no_sensor: Option<Text>,
    pub shunt: Option<Spanned<Shunt>>,
    #[serde(default)]
    pub sensor: Vec<Spanned<Sensor>>,
    /// The keys of optional stages.
    #[serde(skip)]
    pub stages: Vec<StageKey>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotate {
    pub dscp: Option<Spanned<u64>>,
    pub vlan: Option<Spanned<u64>>,
    pub comment: Option<Spanned<bool>>,
}

/// The key of an optional stage, and its value.
pub type StageKey = (&'static OptionalStage, Spanned<Value>);

impl File {
    /// Reads a configuration. Which keys a group may have depends on the stages that there
    /// are, so theirs are taken out before the others are read.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut table = DeTable::parse(text)?;
        let mut stages = Vec::new();
        if let Some(DeValue::Array(groups)) = table.get_mut().get_mut("group").map(Spanned::get_mut)
        {
            for group in groups.iter_mut() {
                stages.push(take_stages(group.get_mut())?);
            }
        }
        let mut file = Self::deserialize(Deserializer::from(table))?;
        for (group, stages) in file.group.iter_mut().zip(stages) {
            group.get_mut().stages = stages;
        }
        Ok(file)
    }
}

/// Takes the keys of optional stages out of a group.
fn take_stages(group: &mut DeValue<'_>) -> Result<Vec<StageKey>, Error> {
    let DeValue::Table(group) = group else { return Ok(Vec::new()) };
    let values = OPTIONAL.iter().filter_map(|&stage| Some((stage, group.remove(stage.key)?)));
    let read = |(stage, value): (&'static OptionalStage, Spanned<DeValue<'_>>)| {
        let span = value.span();
        let value = Value::deserialize(ValueDeserializer::from(value))?;
        Ok((stage, Spanned::new(span, value)))
    };
    values.map(read).collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shunt {
    pub action: Text,
    pub after: Option<Text>,
    pub one_in: Option<Spanned<u64>>,
    pub sensor: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sensor {
    pub name: Text,
    pub output: Option<Text>,
    pub mac: Option<Text>,
    pub vlan: Option<Spanned<u64>>,
    pub weight: Option<Spanned<u64>>,
    pub limit_pps: Option<Spanned<Quantity>>,
    pub limit_bps: Option<Spanned<Quantity>>,
    pub on_overload: Option<Text>,
    #[serde(default)]
    pub hello: Option<bool>,
}
