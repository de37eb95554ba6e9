//! Stages that a group's configuration may add, each under a key of its own.
//!
//! A stage of this kind is one file, with an [`OptionalStage`] that reads the value of its key,
//! and one line in [`stages::OPTIONAL`](crate::stages::OPTIONAL). Configuration, reload,
//! counters, metrics, the memory check and the annotated example follow from the two.

use std::fmt;
use std::sync::Arc;

use forebay_packet::HashKey;
use toml::Value;

use crate::stage::{Setting, Settings, Stage};

/// A stage that a group may have.
#[derive(Debug)]
pub struct OptionalStage {
    /// Its key in the configuration of a group.
    pub key: &'static str,
    /// What it does and what its key takes: lines for the annotated example.
    pub help: &'static str,
    /// A value of its key, as TOML.
    pub example: &'static str,
    /// Reads the key's value; an error names what was expected.
    pub read: fn(&Value) -> Result<Arc<dyn StageConfig>, String>,
}

/// The configuration of an optional stage.
pub trait StageConfig: fmt::Debug + Send + Sync {
    /// A stage with this configuration; `hash_key` is the secret of the group's hashes.
    fn build(&self, hash_key: HashKey) -> Box<dyn Stage>;

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
    /// Adds the stage `kind` by the value of its key.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn add(&mut self, kind: &'static OptionalStage, value: Value) -> Result<(), String> {
        let config = (kind.read)(&value)?;
        self.0.push(GroupStage { kind, value, config });
        Ok(())
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
