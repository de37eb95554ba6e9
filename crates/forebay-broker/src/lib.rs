//! The live broker: packets from ports through stages to sensors.
//!
//! [`config`] is what it is to do, [`compiled`] what that comes to before any device is
//! touched, [`ports`] the devices. A [`worker`] moves packets; [`Broker`] looks after the
//! workers and after each [`group`] of sensors, and answers over [`control`]. In
//! [`kernel`] is what the kernel does by itself, where packets need not leave it.
#![deny(unsafe_code)]

pub mod alarms;
mod answers;
mod broker;
mod clock;
pub mod compiled;
pub mod config;
pub mod control;
mod cures;
mod events;
pub mod export;
pub mod flooding;
pub mod flow_list;
pub mod group;
pub mod hello;
pub mod hellos;
pub mod kernel;
pub mod links;
pub mod mailbox;
mod memory;
pub mod metrics;
pub mod notify;
mod overload;
mod overrides;
pub mod ports;
pub mod privileges;
mod rehearsal;
pub mod report;
pub mod route;
mod rule_counts;
pub mod scanning;
mod trim;
pub mod worker;

pub use broker::{Broker, BrokerError, Ended, Notice, Signals};
pub use clock::Clock;
pub use rehearsal::Rehearsal;
