//! Segments of two connections made of any bytes: memory stays within its limits and is given
//! back, and where no doubt is reported, the delivered bytes are those of every receiver.
#![no_main]

#[path = "../../crates/forebay-scan/tests/support/stream_model.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod stream_model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| stream_model::connections_of(data));
