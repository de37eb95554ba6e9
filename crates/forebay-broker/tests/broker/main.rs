//! The broker without devices.

mod clients;
mod config;
