//! Accelerators: every one reports what the scanner reports, and no fault of a device loses a batch
//! or makes one look clean.

mod faults;
mod offload;
mod processes;
mod same_matches;
mod support;
