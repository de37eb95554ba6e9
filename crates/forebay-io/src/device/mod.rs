//! Network devices: their properties, their suitability as ports, and changes to them.
//!
//! [`Link`] is the kernel's description of a device, through rtnetlink, so it describes the
//! present network namespace whatever is mounted at `/sys`. [`check()`] examines all settings
//! of a device that would lose or change packets, and fixes those it can. [`Watch`] reports
//! devices that are added, changed or removed.

mod check;
mod counter;
mod elsewhere;
mod error;
mod ethtool;
mod link;
mod netlink;
mod promiscuous;
mod sys;
mod watch;

pub use check::{Coalescing, Finding, Need, Remedy, at_other_end, check, driver, receive_queues};
pub(crate) use counter::{Counter, RxLosses};
pub use error::DeviceError;
pub(crate) use link::Links;
pub use link::{Elsewhere, Link, LinkStats};
pub use promiscuous::Promiscuous;
pub use watch::{Change, Watch};
