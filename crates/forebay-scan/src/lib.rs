//! Payloads scanned for literals, many at a time.
//!
//! A [`LiteralSet`] is compiled to a [`Scanner`], which finds in each text the literals that occur
//! in it. Engines differ in speed alone: every one reports what [`Engine::Oracle`] reports.
#![deny(unsafe_code)]

pub mod accelerator;
mod cache;
mod literal;
mod matches;
mod oracle;
pub mod reassembly;
pub mod rules;
mod scanner;
mod simd;
mod stream;

pub use cache::{CacheError, CacheUse, CachedScanner, MOST_FILES, SetCache};
pub use literal::{Literal, LiteralError, LiteralSet, MAX_LITERAL_LEN, MAX_LITERALS};
pub use matches::{Match, Matches};
pub use scanner::{Engine, ScanError, Scanner, Scratch};
pub use simd::{TrafficModel, prefetch_all};
pub use stream::{StreamPart, StreamState};
