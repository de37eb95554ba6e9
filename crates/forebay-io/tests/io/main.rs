//! Files, rings and devices.

#[path = "../common/mod.rs"]
mod common;
#[path = "../live/mod.rs"]
mod live;

mod af_packet;
mod af_xdp;
mod corpus;
mod cuts;
mod device;
mod file_port;
mod formats;
mod frames;
mod lanes;
mod mem;
mod reading_thread;
mod redirect;
mod series;
mod tap;
mod writing;
