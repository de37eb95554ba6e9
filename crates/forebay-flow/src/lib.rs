//! The state of flows, found at the rate of packets.
//!
//! [`FlowTable`] holds [records] of flows of any kind, for reports; [`policy`] decides which packets
//! of many flows pass a link, and [`shed`] which reach a sensor that is offered too much.
//!
//! [`Table`] holds two bytes of state for each IPv4 flow, and the flow's whole key, in a
//! quarter of a cache line: a packet of a known flow reads one line most often, and never more
//! than two. With [`Wide`] it holds states of up to 32 bytes, and with whole keys
//! ([`forebay_packet::FlowKey`]) flows of any kind. Its layout for cache blocks, and the two
//! bytes, are those of Ata, Murata and Miyahara, "Study on Efficient Cache Structures Providing
//! Policy-Based Services in IP Routers" (2000), sections 2.2 and 4; keys are compared whole here.
#![deny(unsafe_code)]

mod compact;
mod hash;
mod key;
mod level;
pub mod policy;
pub mod records;
pub mod shed;
mod table;

pub use compact::{Compact, CompactError, MAX_SOURCES, OneWay};
pub use key::ShortKey;
pub use level::Level;
pub use records::{
    Counted, DirectionCounts, EndReason, FlowRecord, FlowTable, OnFull, RecordOptions,
};
pub use table::{
    Ended, MAX_FLOWS, MAX_LIFETIME, Need, Options, Reason, Spare, Stay, Table, TableError,
    TableKey, TableState, Wide, Work,
};
