//! Packets of some flows made of any bytes, through scanner and gateway: all are accounted for, and
//! a flow that the scanner gives a reason for goes on whole and in order.
#![no_main]

#[path = "../../crates/forebay-pipeline/tests/support/gateway_model.rs"]
mod gateway_model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| gateway_model::packets_of(data));
