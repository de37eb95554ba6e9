//! Stages over batches, an account of every packet, and workers that keep order.
//!
//! A [`Stage`] takes a batch and passes its packets on, drops some under a name,
//! holds some back, copies or injects some. A [`Chain`] runs stages one after
//! another and counts what goes in and out of each, so that the [`Ledger`] does not
//! rest on the stages' own word. [`run`] drives chains: the stages that look at one
//! packet at a time on several workers, the stages that need all packets in order
//! behind them.
//!
//! The crate does not know files, devices or command lines.
#![forbid(unsafe_code)]

mod chain;
mod fork;
mod ledger;
mod optional;
mod remarks;
mod run;
mod shared_flows;
mod stage;
pub mod stages;
pub mod units;

pub use chain::Chain;
pub use fork::{Branch, Fork};
pub use ledger::{DropCount, Ledger, LedgerRow};
pub use optional::{GroupStages, OptionalStage, Place, StageConfig, StageParts};
pub use remarks::{MOST_UNDECODED, Remarks};
pub use run::{Run, RunError, Worker, run};
pub use shared_flows::{ChainRecords, RecordExport, RecordSink, SharedFlows};
pub use stage::{Outbox, Promises, Setting, Settings, Stage, StageError};
