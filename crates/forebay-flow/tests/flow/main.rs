//! Tests of the table of flows.

mod bounds;
mod model;
