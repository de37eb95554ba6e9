//! The programs and libraries that forebay is measured beside, and the clock that
//! times them: what takes `unsafe` in this crate is here.

pub mod bpfjit;
pub mod c_code;
pub mod dpdk;
pub mod libpcap;
pub mod matcher;
pub mod naive_c;
pub mod process;
pub mod rte_acl;
pub mod rte_bpf;
pub mod rte_hash;
pub mod stopwatch;
pub mod touch;
pub mod vectorscan;
