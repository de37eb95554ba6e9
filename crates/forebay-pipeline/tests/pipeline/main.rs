//! Stages, their accounts, and workers.

#[path = "../support/mod.rs"]
mod support;

mod duplicates;
mod expectations;
mod fragments;
mod run;
mod shunt;
mod stages;
