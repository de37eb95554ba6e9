//! Packets in memory, and what their headers say.
//!
//! The crate has no input or output of its own and handles no file format. It
//! defines the values every other crate passes around:
//!
//! * [`Region`] and [`Arena`]: memory that packets lie in;
//! * [`Batch`]: up to [`BATCH`] packets of one region, as a structure of arrays;
//! * [`Interface`], [`LinkType`] and [`Clock`]: where a packet was captured;
//! * [`FlowKey`], [`HashKey`]: the two-way key of a flow and its keyed hash;
//! * [`Rewrite`]: what outputs change of packets;
//! * [`RateLabel`]: the rate of a packet's flow, in the batch and in headers;
//! * [`decode`]: header views that never read past the captured length.
//!
//! [`cancel`] ends long computations of any crate; [`random`] numbers are the same in every run.
#![deny(unsafe_code)]

pub mod announcement;
mod arena;
mod batch;
mod batch_size;
pub mod cancel;
mod clock;
mod columns;
mod community_id;
pub mod decode;
pub mod flow;
pub mod fragment;
mod hash;
mod link;
mod live_mask;
pub mod random;
mod rate_label;
mod region;
mod rewrite;
mod rewrites;
mod scanned;
mod select;
mod vectors;

pub use arena::Arena;
pub use batch::{Batch, Frames, Full, Layout};
pub use batch_size::BATCH;
pub use clock::{Clock, Resolution};
pub use columns::{NO_RECORD, PacketMeta, PacketMetadata};
pub use community_id::{
    CommunityDigest, community_digest, community_id, community_text, read_community_id,
};
pub use decode::{Affinity, DecodeOptions, Decoded, Decoder, SimdLevel, Strip};
pub use flow::FlowKey;
pub use hash::{HashKey, siphash13};
pub use link::{Interface, LinkType};
pub use live_mask::{LiveMask, LivePackets};
pub use rate_label::{LabelField, RateLabel, write_dscp};
pub use region::{Lease, Region, TAIL_GUARD, fetch_value};
pub use rewrite::{ADDRESSES, Annotation, MacAddress, NoMacAddress, Rewrite};
pub use rewrites::{OutputRewrite, Rewrites};
pub use scanned::Scanned;
pub use vectors::Vectors;
