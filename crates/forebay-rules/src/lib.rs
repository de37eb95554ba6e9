//! Ordered rule lists: the first rule that matches a packet decides.
//!
//! Lists are written in one of several [`language`]s and have one common form,
//! [`Rule`] and [`RuleList`]. What a rule can ask of a packet is its [`Key`].
//! [`matching`] defines what it means for a rule to match; every faster engine is
//! held against it.
#![deny(unsafe_code)]

pub mod atom;
pub mod choose;
pub mod counters;
pub mod engine;
pub mod key;
pub mod language;
pub mod linear;
pub mod lint;
pub mod live;
pub mod matching;
pub mod packed;
pub mod packet_text;
pub mod reason;
pub mod rule;
pub mod sets;
pub mod tree;

pub use key::Key;
pub use language::ParseError;
pub use matching::{Cause, Decision, Field, Mismatch};
pub use packet_text::PacketTextError;
pub use reason::Reason;
pub use rule::{
    Action, Family, FlagTest, IcmpTest, PortTest, ProtocolTest, Rule, RuleList, TransportTest,
};
pub use sets::{ProtocolSet, RangeSet};
