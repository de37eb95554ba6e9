//! Network devices: what they are, whether they are fit for a port, what becomes of them.
//!
//! [`Link`] is what the kernel says of a device, by rtnetlink, so that the answer is of
//! the network namespace we are in whatever is mounted at `/sys`. [`check`] looks at
//! everything of a device that would lose or change packets behind our back, and mends
//! what can be mended. [`Watch`] tells when devices come, change and go.

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

pub use check::{Finding, Need, State, at_other_end, check, driver, receive_queues};
pub(crate) use counter::{Counter, RxLosses};
pub use elsewhere::Elsewhere;
pub use error::DeviceError;
pub(crate) use link::Links;
pub use link::{Link, LinkStats};
pub use promiscuous::Promiscuous;
pub use watch::{Change, Watch};
