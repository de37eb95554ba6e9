//! Stages, their accounts, and workers.

#[path = "../support/mod.rs"]
mod support;

mod classes;
mod duplicates;
mod expectations;
mod flows;
mod fragments;
mod gateway;
mod gateway_rules;
mod label;
mod overrides;
mod run;
mod scan;
mod scan_rules;
mod shed;
mod shunt;
mod stages;
