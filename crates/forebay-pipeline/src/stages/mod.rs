//! The stages there are. A new one is a file here and a line below: see
//! `docs/adding-a-stage.md`.

mod balance;
mod classes;
mod classify;
mod cutoff;
/// The example of `docs/adding-a-stage.md`, so that it stays true.
#[cfg(test)]
#[path = "../../../../docs/adding-a-stage/dscp.rs"]
mod dscp;
mod duplicates;
mod expectations;
mod filter;
mod flow_states;
mod flows;
mod fragments;
mod gateway;
mod label;
mod limit;
mod live_balance;
mod live_fragments;
mod overrides;
mod rules;
mod scan;
mod selector;
mod shed;
mod shedders;
mod shunt;

pub use balance::Balance;
pub use classes::{Class, ClassConfig, ClassLimits, ClassShedding, Classes, MembersText};
pub use classify::Classify;
pub use cutoff::Cutoff;
pub use duplicates::{DuplicateWindow, Duplicates};
pub use expectations::{EXPECTED, Expectations, Follow, OF_ONE, Timing};
pub use filter::Filter;
pub use flows::{Flows, FlowsOptions};
pub use fragments::{Fragments, Window};
pub use gateway::{
    Gateway, GatewayMode, GatewayObserver, GatewayOptions, ScannedFlowsOf, WaitForSensor,
};
pub use label::{Label, Labels};
pub use limit::Limit;
pub use live_balance::{LiveBalance, SpareSensors, Steering};
pub use live_fragments::{DATAGRAMS, LiveFragments};
pub use overrides::{
    FlowOverride, FlowSearch, FoundFlow, OverriddenFlow, OverrideEntry, OverrideTable, Overrides,
};
pub use rules::{CompiledRules, NOT_IP, RuleSource, Rules};
pub use scan::{
    CompiledScan, HitCounters, Hits, MOST_COUNTED, PassReason, Passed, RuleHits, Scan, ScanMode,
    ScanObserver, ScanOptions, ScanReports, ScanRules, ScanSelection,
};
pub use selector::{ClassMembers, ClassSelector};
pub use shed::{ON_OVERLOAD, Shed, Shedding};
pub use shunt::{ShuntRule, ShuntTo, ShuntedFlow};

use crate::optional::OptionalStage;

/// The stages that a group's configuration may add, those of a place in the order in
/// which packets pass them. A stage is behind those that it needs.
pub static OPTIONAL: &[&OptionalStage] = &[
    &scan::STAGE,
    &duplicates::STAGE,
    &flows::STAGE,
    &cutoff::STAGE,
    &gateway::STAGE,
    &label::STAGE,
    &classes::STAGE,
    &shed::STAGE,
];

/// The keys of all optional stages with their help, as part of an annotated configuration.
#[must_use]
pub fn annotated_keys() -> String {
    let comment = |line: &str| format!("# {line}\n");
    let key = |stage: &&OptionalStage| {
        let help: String = stage.help.lines().map(comment).collect();
        format!("{help}{} = {}\n", stage.key, stage.example)
    };
    OPTIONAL.iter().map(key).collect()
}
