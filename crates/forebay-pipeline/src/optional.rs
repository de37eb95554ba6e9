//! Stages that a group's configuration may add, each under a key of its own.
//!
//! A stage of this kind is one file, with an [`OptionalStage`] that reads the value of its key,
//! and one line in [`stages::OPTIONAL`](crate::stages::OPTIONAL). Configuration, reload,
//! counters, metrics, the memory check and the annotated example follow from the two.

use std::fmt;
use std::sync::Arc;

use forebay_packet::HashKey;
use toml::{Table, Value};

use crate::shared_flows::SharedFlows;
use crate::stage::{Setting, Settings, Stage};

/// Where an optional stage is in the chain of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind the group's filter, before flows are found.
    BehindFilter,
    /// Where each packet's flow is known, also those of fragments, before sensors are chosen.
    BehindFragments,
    /// Where each packet's sensor is known.
    BehindBalance,
}

/// What a chain has for the stages that are built for it.
#[derive(Clone, Debug)]
pub struct StageParts {
    /// The secret of the group's hashes.
    pub hash_key: HashKey,
    /// The records of the chain's flows.
    pub flows: SharedFlows,
}

/// A stage that a group may have.
#[derive(Debug)]
pub struct OptionalStage {
    /// Its key in the configuration of a group.
    pub key: &'static str,
    /// What it does and what its key takes: lines for the annotated example.
    pub help: &'static str,
    /// A value of its key, as TOML.
    pub example: &'static str,
    /// Where it is.
    pub place: Place,
    /// The stages that are there as well when it is: if their keys are not, by an empty table as
    /// value.
    pub needs: &'static [&'static OptionalStage],
    /// It needs the flow of each packet and TCP's control bits, which the classifier keeps then.
    pub keys: bool,
    /// Reads the key's value; an error names what was expected.
    pub read: fn(&Value) -> Result<Arc<dyn StageConfig>, String>,
}

/// The configuration of an optional stage.
pub trait StageConfig: fmt::Debug + Send + Sync {
    /// A stage with this configuration; none if it has but settings for another stage.
    fn build(&self, parts: &StageParts) -> Option<Box<dyn Stage>>;

    /// The configuration as settings, for a stage that there is already.
    fn settings(&self) -> Settings;

    /// The most bytes that one such stage takes.
    fn memory_bytes(&self) -> u64;
}

/// The optional stages of a group. As a setting it names all that there are from then on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupStages(Vec<GroupStage>);

#[derive(Clone)]
struct GroupStage {
    kind: &'static OptionalStage,
    value: Value,
    config: Arc<dyn StageConfig>,
}

impl Setting for GroupStages {}

impl GroupStages {
    /// Adds the stage `kind` by the value of its key, and the stages that it needs.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn add(&mut self, kind: &'static OptionalStage, value: Value) -> Result<(), String> {
        let config = (kind.read)(&value)?;
        self.0.retain(|stage| stage.kind.key != kind.key);
        self.0.push(GroupStage { kind, value, config });
        for needed in kind.needs {
            if self.config(needed.key).is_none() {
                self.add(needed, Table::new().into())?;
            }
        }
        Ok(())
    }

    /// Whether a stage needs the flow of each packet.
    #[must_use]
    pub fn need_keys(&self) -> bool {
        self.0.iter().any(|stage| stage.kind.keys)
    }

    /// The setting of a type, if a stage has one.
    #[must_use]
    pub fn setting<T: Setting + Clone>(&self) -> Option<T> {
        self.0.iter().find_map(|stage| stage.config.settings().get::<T>().cloned())
    }

    /// The keys of the stages.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|stage| stage.kind.key)
    }

    /// The configuration of the stage with a key, if the group has it.
    #[must_use]
    pub fn config(&self, key: &str) -> Option<&dyn StageConfig> {
        let stage = self.0.iter().find(|stage| stage.kind.key == key)?;
        Some(&*stage.config)
    }

    /// The most bytes that one instance of each stage takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.0.iter().map(|stage| stage.config.memory_bytes()).sum()
    }
}

impl fmt::Debug for GroupStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.kind.key, self.value)
    }
}

impl PartialEq for GroupStage {
    fn eq(&self, other: &Self) -> bool {
        (self.kind.key, &self.value) == (other.kind.key, &other.value)
    }
}
