//! The command and the broker in network namespaces.

#[path = "../support"]
mod support {
    pub mod broker;
    pub mod command;
    pub mod frames;
    pub mod gro;
    pub mod listener;
    pub mod namespace;
    pub mod switched;
}

mod balance;
mod check;
mod export;
mod filter;
mod floods;
mod flows;
mod flows_by_hand;
mod gateway;
mod limits;
mod losses;
mod recording;
mod records;
mod rules_edits;
mod rules_import;
mod rules_speed;
mod scan;
mod sensors;
mod service;
mod shed;
mod traffic;
mod xdp;
