//! What clients send to a broker, and what they get.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What can be asked of a running broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How it is.
    Status,
    /// The sensors, their loads and states.
    Sensors,
    /// Who has which buckets.
    Buckets {
        /// The group; the first where none is named.
        group: Option<String>,
    },
    /// The largest open flows.
    Flows {
        /// The group; the first where none is named.
        group: Option<String>,
        /// How many at most.
        top: usize,
    },
    /// Where every packet went.
    Ledger,
    /// Read the configuration again.
    Reload,
    /// Take in what is there, pass it on, and end.
    Drain,
    /// Set the state of a sensor.
    Sensor {
        /// Its group; may be left out where the name is in one group only.
        group: Option<String>,
        /// Its name.
        name: String,
        /// What is to become of it.
        action: SensorAction,
    },
    /// The last notice, and its time.
    Events,
    /// What packets are scanned for, and what was found.
    Scan,
    /// The rules in force, and what each has decided.
    Rules {
        /// Which of them.
        #[serde(default)]
        page: RulePage,
    },
    /// Change the rules in force: all edits, or none of them.
    EditRules {
        /// The edits, one after another.
        edits: Vec<RuleEdit>,
    },
    /// Handle flows by hand: all of them, or none.
    OverrideFlows {
        /// Their group; every group where none is named.
        group: Option<String>,
        /// What becomes of their packets.
        action: FlowAction,
        /// The flows, one a line.
        flows: String,
        /// For how long.
        seconds: f64,
    },
    /// The flows that are handled by hand.
    OverriddenFlows {
        /// Their group; every group where none is named.
        group: Option<String>,
        /// Only these flows, one a line; all where there are none.
        #[serde(default)]
        flows: String,
        /// The place, from 1, of the first.
        from: usize,
        /// How many at most.
        limit: usize,
    },
    /// All numbers, as Prometheus reads them.
    Metrics,
}

/// What can be done to the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowAction {
    /// They are dropped.
    Shunt,
    /// They pass, and nothing drops them to save a sensor work.
    Pass,
}

impl Request {
    /// Whether it changes something: it is then done even if the client has hung up.
    pub(super) fn is_order(&self) -> bool {
        matches!(
            self,
            Self::Reload
                | Self::Drain
                | Self::Sensor { .. }
                | Self::EditRules { .. }
                | Self::OverrideFlows { .. }
        )
    }
}

/// A change of the rules in force. A rule is named by its number, with the prefix `ipv6:` if it is
/// of IPv6; its text is in Forebay's own language.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "edit", rename_all = "kebab-case", deny_unknown_fields)]
pub enum RuleEdit {
    /// Inserts a rule.
    Insert {
        /// The rule.
        text: String,
        /// Its place.
        place: RulePlace,
    },
    /// Removes a rule.
    Delete {
        /// Its name.
        rule: String,
    },
    /// Moves a rule; its counter continues.
    Move {
        /// Its name.
        rule: String,
        /// Its new place.
        place: RulePlace,
    },
    /// Replaces a rule.
    Replace {
        /// Its name.
        rule: String,
        /// The new rule.
        text: String,
    },
}

/// A place in the list of rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RulePlace {
    /// Before the rule of this name.
    Before(String),
    /// After the rule of this name.
    After(String),
    /// Before all rules.
    Start,
    /// After all rules.
    End,
}

/// Some of the rules in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RulePage {
    /// The place in the list, from 1, of the first.
    pub from: usize,
    /// How many at most.
    pub limit: usize,
    /// Only rules that have decided packets.
    pub hit: bool,
    /// Whole texts, also of long rules.
    pub whole: bool,
}

impl Default for RulePage {
    fn default() -> Self {
        Self { from: 1, limit: 100, hit: false, whole: false }
    }
}

/// What can be done to a sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SensorAction {
    /// It takes part, whatever is known of it.
    Up,
    /// It takes no part; its flows go to others at once.
    Down,
    /// It gets no new flows.
    Drain,
    /// What is observed decides again.
    Auto,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// What was asked for.
    Done(Value),
    /// Why it could not be done.
    Refused(String),
}
